# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a `fuel.run` to Triton kernels and their launches."""

from __future__ import annotations

from fuel_dialect.ops.control import RunOp
from fuel_lowering.runs import launches as runs
from fuel_lowering.runs.lowered import DeviceRun
from fuel_lowering.triton.emit import TritonEmitter


def lower_run(run: RunOp, entry: str, emitter: TritonEmitter | None = None) -> DeviceRun:
    """The launches of a run. Raises `LoweringError` for what has no Triton kernel."""
    return runs.lower_run(run, entry, emitter or TritonEmitter())
