# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says what the runtime asks of a lowered run, whatever target it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from fuel_lowering.runs.leaves import WeightUse

if TYPE_CHECKING:
    import numpy as np


class LoweredRun(Protocol):
    """Says what the runtime asks of a run, whatever target lowered it."""

    @property
    def entry(self) -> str:
        """Names the run; unique among those of an executable."""
        ...

    @property
    def source(self) -> str:
        """Holds the generated text."""
        ...

    @property
    def weights(self) -> Mapping[str, WeightUse]:
        """Maps names of the source to the weights that it reads."""
        ...

    @property
    def launch_count(self) -> int:
        """Counts the launches of a call; 0 for a run that launches nothing."""
        ...

    def workspace_bytes(self, threads: int) -> int:
        """Returns the bytes of the host that one call at a time takes besides its values."""
        ...


class HostRun(LoweredRun, Protocol):
    """Says what the runtime asks of a run of the host: it loads itself."""

    def load(
        self, weights: Mapping[str, np.ndarray[Any, Any]], threads: int
    ) -> Callable[..., tuple[np.ndarray[Any, Any], ...]]:
        """
        Returns a function of the inputs that gives a tuple of fresh arrays.

        Several threads may call it at once. It brings whatever surroundings its code needs, and
        raises `OutOfMemory` where the host has too little memory.
        """
        ...


@runtime_checkable
class WatchedRun(Protocol):
    """Says what a tracer asks of a run of the host that can say which of its kernels is at work."""

    def watched(
        self,
        weights: Mapping[str, np.ndarray[Any, Any]],
        threads: int,
        began: Callable[[int], None],
    ) -> Callable[..., tuple[np.ndarray[Any, Any], ...]]:
        """
        Returns a function like that of `load`, which tells what it does.

        It calls `began` with the number of each kernel of the run when that begins, and with -1
        when the last has ended, in the thread of the call.
        """
        ...
