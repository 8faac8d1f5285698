# SPDX-License-Identifier: MIT OR Apache-2.0
"""The host: runs are NumPy functions on a thread pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fuel_dialect.attributes import HOST, TargetAttr

if TYPE_CHECKING:
    import numpy as np

    from fuel_dialect.ops.control import RunOp
    from fuel_lowering.kernels import LoweredRun
    from fuel_lowering.numpy.support import Pool

TARGET = TargetAttr.of(HOST, "numpy")


class Cpu:
    """The CPU; its threads are started by the first program that is loaded."""

    def __init__(self, threads: int):
        self._threads = threads

    @property
    def target(self) -> TargetAttr:
        """The NumPy target."""
        return TARGET

    def free_bytes(self) -> int | None:
        """Unknown: what the operating system can still give is not measured."""
        return None

    @cached_property
    def _pool(self) -> Pool:
        from fuel_lowering.numpy.support import Pool

        return Pool(self._threads)

    def lower(self, run: RunOp, entry: str) -> LoweredRun:
        """Turn a run into the text of a Python function."""
        from fuel_lowering.numpy.lower import lower_run

        return lower_run(run, entry)

    def load(
        self, lowered: Sequence[LoweredRun], weights: Mapping[str, np.ndarray[Any, Any]]
    ) -> Mapping[str, Callable[..., Any]]:
        """Execute the text of lowered runs, once."""
        from fuel_lowering.numpy.lower import load

        return load(lowered, weights, self._pool)
