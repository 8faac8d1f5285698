# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a lowered run is: source text, and everything the text needs to be loaded and called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuel_dialect.ops.base import AnyTensor

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class WeightUse:
    """A weight that a run reads: its key in the weights file and its type."""

    key: str
    type: AnyTensor


@dataclass(frozen=True)
class LoweredRun:
    """
    One run as a function of its target's language.

    `source` defines `entry(*inputs)`, or `entry(*inputs, scratch)` and `entry_scratch()` where
    `scratch` is set: the latter allocates one workspace, which serves one call at a time. The
    function returns a tuple of fresh arrays that share no memory with anything. `constants` and
    `weights` are names the source reads.
    """

    entry: str
    source: str
    inputs: tuple[AnyTensor, ...]
    outputs: tuple[AnyTensor, ...]
    constants: Mapping[str, np.ndarray[Any, Any]]
    weights: Mapping[str, WeightUse]
    scratch: bool
    kernels: int
