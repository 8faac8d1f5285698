# SPDX-License-Identifier: MIT OR Apache-2.0
"""The host: runs are NumPy functions on a thread pool, values are ndarrays."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from fuel_dialect.attributes import HOST, TargetAttr
from fuel_runtime.devices.interface import Limits

if TYPE_CHECKING:
    import numpy as np

    from fuel_dialect.ops.control import RunOp
    from fuel_lowering.numpy.support import Pool
    from fuel_lowering.runs.functions import LoweredRun
    from fuel_lowering.runs.launches import DeviceRun

    Array = np.ndarray[Any, np.dtype[Any]]

TARGET = TargetAttr.of(HOST, "numpy")


class Cpu:
    """The CPU; its threads are started by the first program that is loaded."""

    limits = Limits(on_host_cores=True)

    def __init__(self, threads: int):
        self._threads = threads

    @property
    def target(self) -> TargetAttr:
        """The NumPy target."""
        return TARGET

    @property
    def identity(self) -> str:
        """The instruction set, and the number of threads."""
        return f"{platform.machine()}, {self._threads} threads"

    def free_bytes(self) -> int | None:
        """Unknown: what the operating system can still give is not measured."""
        return None

    def total_bytes(self) -> int | None:
        """Unknown, like what is free."""
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
        self, lowered: Sequence[LoweredRun | DeviceRun], weights: Mapping[str, Array]
    ) -> Mapping[str, Callable[..., Any]]:
        """Execute the text of lowered runs, once."""
        from fuel_lowering.numpy.lower import load

        return load(cast("Sequence[LoweredRun]", lowered), weights, self._pool)

    def receive(self, value: Any) -> Array:
        """An array of the host as it is; one of another device is brought."""
        from fuel_runtime.devices.arrays import DeviceArray

        return value.owner.get(value) if isinstance(value, DeviceArray) else value

    def synchronise(self) -> None:
        """Nothing: a run has ended when its function returns."""

    def close(self) -> None:
        """Nothing: what it holds are objects of Python."""
