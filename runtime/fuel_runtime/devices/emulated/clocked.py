# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Lets the host and emulated devices go by virtual clocks: they do what they do, and count its time.

The uploads of weights count for nothing: they are made once, in the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fuel_dialect.attributes import HOST
from fuel_dialect.errors import ArgumentError
from fuel_lowering.runs.launches import DeviceRun
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.host.device import Host
from fuel_runtime.devices.marks import TimedMark

if TYPE_CHECKING:
    import numpy as np

    from fuel_dialect.attributes import DeviceAttr
    from fuel_dialect.ops.control import RunOp
    from fuel_dialect.targets.description import TargetDescription
    from fuel_lowering.runs.functions import HostRun, LoweredRun
    from fuel_runtime.devices.emulated.clock import Clocks
    from fuel_runtime.devices.interface import Driver, Lower
    from fuel_runtime.devices.loaded_run import Began, LoadedRun

    Array = np.ndarray[Any, np.dtype[Any]]


class _RunTimes(dict[str, int]):
    """Maps runs by name to the nanoseconds that they take."""

    def __missing__(self, entry: str) -> int:
        raise ArgumentError(
            f"virtual clocks do not know what {entry} takes: it is of a saved program; compile it"
        )


class ClockedHost(Host):
    """The CPU, whose runs advance the clock of the host."""

    def __init__(self, threads: int, descriptions: Sequence[TargetDescription], clocks: Clocks):
        super().__init__(threads, descriptions)
        self._clocks = clocks
        self._ns = _RunTimes()

    def lower(self, run: RunOp, entry: str) -> HostRun:
        """Turns a run into text, and notes what it takes."""
        self._ns[entry] = self._clocks.run_ns(run)
        return super().lower(run, entry)

    def load(
        self, lowered: Sequence[LoweredRun], weights: Mapping[str, Array]
    ) -> Mapping[str, Callable[..., Any]]:
        """Lets each run load itself; a call of one advances the clock."""
        loaded = super().load(lowered, weights)
        return {entry: self._clocked(run, self._ns[entry]) for entry, run in loaded.items()}

    def _clocked(self, run: Callable[..., Any], ns: int) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            results = run(*values)
            self._clocks.compute(ns)
            return results

        return call


class ClockedRun:
    """A run of a device whose calls advance the clock of that."""

    def __init__(self, device: ClockedDevice, run: LoadedRun, ns: int, is_checked: bool):
        self._device = device
        self._run = run
        self._ns = ns
        self._is_checked = is_checked

    def __call__(self, *values: DeviceArray) -> tuple[DeviceArray, ...]:
        """Returns the results; the host waits only for what says that indices are in range."""
        results = self._run(*values)
        end = self._device.launched(self._ns, results)
        if self._is_checked:
            self._device.clocks.wait(end)
        return results

    def watched(self, began: Began) -> Callable[..., tuple[DeviceArray, ...]]:
        """Returns the run kernel by kernel, which is watched by the clock of the machine."""
        return self._run.watched(began)


class ClockMark(TimedMark):
    """Represents a time of a virtual clock; what is asked for by it has been done by then."""

    def __init__(self, clocks: Clocks, ns: int):
        self._clocks = clocks
        self.ns = ns

    def is_done(self) -> bool:
        """Returns True: emulated devices do at once what they take virtual time for."""
        return True

    def wait_while(self, is_wanted: Callable[[], bool]) -> bool:
        """Has the host wait for the time, which comes at once; returns True."""
        self._clocks.wait(self.ns)
        return True

    def ns_since(self, first: TimedMark) -> float:
        """Returns the nanoseconds between two times."""
        assert isinstance(first, ClockMark)
        return float(self.ns - first.ns)


class ClockedDevice(BufferDevice):
    """An emulated device with a clock; also the moments that it marks are of that."""

    def __init__(
        self, name: DeviceAttr, driver: Driver, lowerings: Mapping[str, Lower], clocks: Clocks
    ):
        super().__init__(name, driver, lowerings)
        self.clocks = clocks
        self._ns = _RunTimes()
        self._done: dict[int, int] = {}
        """The time at which what is in some memory has been made, by the number of that."""

    def launched(self, ns: int, made: Sequence[DeviceArray]) -> int:
        """Counts what was launched, which has made some arrays; returns when it has ended."""
        return self._made(self.clocks.launch(self.name.label, ns), made)

    def _made(self, end: int, made: Sequence[DeviceArray]) -> int:
        self._done.update((array.lease.number, end) for array in made)
        return end

    def lower(self, run: RunOp, entry: str) -> DeviceRun:
        """Turns a run into kernels, and notes what it takes."""
        self._ns[entry] = self.clocks.run_ns(run)
        return super().lower(run, entry)

    def load(
        self, lowered: Sequence[LoweredRun], weights: Mapping[str, Array]
    ) -> Mapping[str, Any]:
        """Loads runs; a call of one advances the clock."""
        checked = {run.entry: bool(run.checks) for run in lowered if isinstance(run, DeviceRun)}
        return {
            entry: ClockedRun(self, run, self._ns[entry], checked[entry])
            for entry, run in super().load(lowered, weights).items()
        }

    def receive(self, value: Array | DeviceArray, bytes: int = 0) -> DeviceArray:
        """
        Returns a value as one that lives here.

        Between two devices with clocks it comes as between two cards: without the host.
        """
        other = value.owner if isinstance(value, DeviceArray) else self
        if other is self or not isinstance(other, ClockedDevice):
            return super().receive(value, bytes)
        assert isinstance(value, DeviceArray)
        moved = super().put(super(ClockedDevice, other).get(value), bytes)
        source, target = other.name.label, self.name.label
        ns = self.clocks.transfer_ns(source, target, value.nbytes)
        self._made(self.clocks.cross(source, target, ns), [moved])
        return moved

    def put(self, array: Array, bytes: int = 0) -> DeviceArray:
        """Returns a copy of an array of the host; the device is busy with it, the host is not."""
        moved = super().put(array, bytes)
        self.launched(self.clocks.transfer_ns(HOST, self.name.label, array.nbytes), [moved])
        return moved

    def get(self, array: DeviceArray) -> Array:
        """Returns a new array of the host, which waits for it."""
        host = super().get(array)
        ns = self.clocks.transfer_ns(self.name.label, HOST, array.nbytes)
        self.clocks.read(self.name.label, ns, self._done.get(array.lease.number, 0))
        return host

    def synchronise(self) -> None:
        """Has the host wait until everything that was asked for is done."""
        super().synchronise()
        self.clocks.wait(self.clocks.busy_until(self.name.label))

    def mark(self) -> ClockMark:
        """Returns the time at which all that was asked for so far is done."""
        return ClockMark(self.clocks, self.clocks.busy_until(self.name.label))
