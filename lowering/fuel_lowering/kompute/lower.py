# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a `fuel.run` to compute shaders and their dispatches."""

from __future__ import annotations

from fuel_dialect.ops.control import RunOp
from fuel_lowering.kompute.emit import KomputeEmitter
from fuel_lowering.kompute.tuning import TUNINGS, DeviceType
from fuel_lowering.runs.launches import DeviceRun
from fuel_lowering.runs.lower import lower_run as lower_launches


def lower_run(run: RunOp, entry: str, device_type: DeviceType = "cpu") -> DeviceRun:
    """
    Returns the dispatches of a run, fitted to a type of device.

    Raises `LoweringError` for what no shader of 32-bit registers computes.
    """
    return lower_launches(run, entry, KomputeEmitter(TUNINGS[device_type]))
