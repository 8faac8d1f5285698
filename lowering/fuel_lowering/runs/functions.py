# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs as one function in the language of their target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuel_dialect.ops.base import AnyTensor
from fuel_lowering.runs.leaves import WeightUse

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class LoweredRun:
    """
    One run as a function of its target's language.

    `source` defines `entry(*inputs)`, or `entry(*inputs, scratch)` and `entry_scratch()` where
    `scratch` is set: the latter allocates one workspace, which serves one call at a time. The
    function returns a tuple of fresh arrays that share no memory with anything. `constants` and
    `weights` are names the source reads. A workspace takes `scratch_bytes`, and `slot_bytes` for
    each thread of the pool.
    """

    entry: str
    source: str
    inputs: tuple[AnyTensor, ...]
    outputs: tuple[AnyTensor, ...]
    constants: Mapping[str, np.ndarray[Any, Any]]
    weights: Mapping[str, WeightUse]
    scratch: bool
    kernels: int
    scratch_bytes: int = 0
    slot_bytes: int = 0

    def workspace_bytes(self, threads: int) -> int:
        """What one workspace takes."""
        return self.scratch_bytes + threads * self.slot_bytes
