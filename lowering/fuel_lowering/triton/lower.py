# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a `fuel.run` to Triton kernels and their launches."""

from __future__ import annotations

from fuel_dialect.ops.control import RunOp
from fuel_lowering.runs.launches import DeviceRun
from fuel_lowering.runs.lower import lower_run as lower_launches
from fuel_lowering.triton.emit import TritonEmitter


def lower_run(run: RunOp, entry: str, emitter: TritonEmitter | None = None) -> DeviceRun:
    """Returns the launches of a run. Raises `LoweringError` for what has no Triton kernel."""
    return lower_launches(run, entry, emitter or TritonEmitter())
