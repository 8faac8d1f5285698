# SPDX-License-Identifier: MIT OR Apache-2.0
"""The host as a device: its values are ndarrays, and the runs of its targets load themselves."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from fuel_dialect.attributes import HOST, DeviceAttr, TargetAttr
from fuel_dialect.plugins import named
from fuel_lowering.runs.functions import WatchedRun
from fuel_passes.memory.sizes import least_known
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.host.blas import with_threads
from fuel_runtime.devices.interface import Limits
from fuel_runtime.devices.marks import PASSED, Mark

if TYPE_CHECKING:
    import numpy as np

    from fuel_dialect.ops.control import RunOp
    from fuel_dialect.targets.description import TargetDescription
    from fuel_lowering.runs.functions import HostRun, LoweredRun

    Array = np.ndarray[Any, np.dtype[Any]]


class Host:
    """The CPU, with some targets; none where a session did not ask for runs on it."""

    limits = Limits(on_host_cores=True)
    uploaded_bytes = 0
    taker = None
    """Its values are in the host's memory, where other libraries read them anyhow."""

    def __init__(self, threads: int, descriptions: Sequence[TargetDescription]):
        self.name = DeviceAttr.of(HOST)
        self._threads = threads
        self.cap: int | None = None
        self._descriptions = {each.name: each for each in descriptions}
        self.targets = tuple(TargetAttr.of(self.name, name) for name in self._descriptions)

    @property
    def identity(self) -> str:
        """The instruction set, and the number of threads."""
        return f"{platform.machine()}, {self._threads} threads"

    def free_bytes(self) -> int | None:
        """Returns None: what the operating system can still give is not measured."""
        return None

    def total_bytes(self) -> int | None:
        """Returns the bound that was set; None without one, as for what is free."""
        return self.cap

    def held_bytes(self) -> Mapping[str, int]:
        """Returns the memory of the process that is resident."""
        return {"resident": _process(os.getpid()).memory_info().rss}

    def limit(self, bytes: int) -> None:
        """Sets a bound: programs that are planned to take more are refused when compiled."""
        self.cap = least_known(self.cap, bytes)

    def answer_within(self, seconds: float) -> None:
        """Does nothing: nobody waits for the host, whose runs are done when they return."""

    def poison(self) -> None:
        """Does nothing: memory of the host is given and taken by NumPy."""

    def lower(self, run: RunOp, entry: str) -> HostRun:
        """Turns a run into text, as its target does."""
        description = self._descriptions[run.target.backend.data]
        return cast("HostRun", named(description.lowering)(run, entry))

    def load(
        self, lowered: Sequence[LoweredRun], weights: Mapping[str, Array]
    ) -> Mapping[str, Callable[..., Any]]:
        """Lets each run load itself; what it calls of BLAS has the threads of the session too."""
        runs = cast("Sequence[HostRun]", lowered)
        threads = self._threads
        return {run.entry: with_threads(run.load(weights, threads), threads) for run in runs}

    def watched(
        self,
        lowered: LoweredRun,
        weights: Mapping[str, Array],
        loaded: Callable[..., Any],
        began: Callable[[int], None],
    ) -> Callable[..., Any] | None:
        """Returns a run that says which of its kernels begins, if its target can have that."""
        if not isinstance(lowered, WatchedRun):
            return None
        return with_threads(lowered.watched(weights, self._threads, began), self._threads)

    def receive(self, value: Any, bytes: int = 0) -> Array:
        """Returns an array of the host as it is, and brings one of another device."""
        return value.owner.get(value) if isinstance(value, DeviceArray) else value

    def synchronise(self) -> None:
        """Does nothing: a run has ended when its function returns."""

    def mark(self) -> Mark:
        """Returns a moment that has passed: a run has ended when its function returns."""
        return PASSED

    def wait(self, mark: Mark) -> None:
        """Does nothing: the moments of the host have passed."""

    def close(self) -> None:
        """Does nothing: what it holds are objects of Python."""


@cache
def _process(number: int) -> Any:
    """Returns a process by its number; a forked child has another one."""
    import psutil

    return psutil.Process(number)
