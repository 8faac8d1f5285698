# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a `fuel.run` to compute shaders and their dispatches."""

from __future__ import annotations

from fuel_dialect.ops.control import RunOp
from fuel_dialect.targets.kompute import DESCRIPTION
from fuel_lowering.kompute.emit import KomputeEmitter
from fuel_lowering.kompute.tuning import TUNINGS, DeviceType
from fuel_lowering.runs.launches import DeviceRun
from fuel_lowering.runs.lower import lower_run as lower_launches
from fuel_passes.legalize.legalize_kernels import legal_run


def lower_run(run: RunOp, entry: str, device_type: DeviceType = "cpu") -> DeviceRun:
    """
    The dispatches of a run, fitted to a type of device.

    Raises `LoweringError` for what no shader of 32-bit registers computes.
    """
    legal = legal_run(run, DESCRIPTION.rewrites)
    return lower_launches(legal, entry, KomputeEmitter(TUNINGS[device_type]))
