# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Says what the runtime asks of a device, and what a device with memory of its own asks of its driver.

A `Device` is all that the rest of the runtime sees. `BufferDevice` (buffer_device.py) is the
`Device` of everything whose memory is not the host's; a `Driver` is what differs between those.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fuel_runtime.devices.marks import PASSED, Mark
from fuel_runtime.devices.watchdog import Watchdog, keep_forever

if TYPE_CHECKING:
    import numpy as np

    from fuel_dialect.attributes import DeviceAttr, TargetAttr
    from fuel_dialect.ops.control import RunOp
    from fuel_lowering.runs.functions import LoweredRun
    from fuel_lowering.runs.launches import DeviceKernel, DeviceRun
    from fuel_runtime.devices.exchange import Exchange

    Array = np.ndarray[Any, np.dtype[Any]]
    Lower = Callable[[RunOp, str], DeviceRun]


@dataclass(frozen=True)
class Limits:
    """Holds the limits of a device that do not depend on free memory."""

    largest_buffer_bytes: int | None = None
    """The largest buffer that a kernel can be given; None for any."""
    buffers: int | None = None
    """The most buffers that a kernel can be given; None for any number."""
    on_host_cores: bool = False
    """True if its kernels run on the cores of the host: "auto" leaves such a device out."""


class Taker(Protocol):
    """A device that arrays of other libraries can come to without passing the host."""

    @property
    def name(self) -> DeviceAttr:
        """The name of the device."""
        ...

    def holds(self, value: object) -> bool:
        """Returns True if an object is an array in memory that the device can read."""
        ...

    def is_home_of(self, value: object) -> bool:
        """Returns True if an object is an array in the memory of this very device."""
        ...

    def adopt(self, array: object, dtype: np.dtype[Any] | None = None) -> Any:
        """
        Returns a copy of an array that it `holds`.

        `dtype` is what its elements are where they have no name. Raises `ArgumentError`.
        """
        ...


class Device(Protocol):
    """
    Says what the runtime asks of a device.

    A value of the host is an ndarray, one of another device a `DeviceArray`.
    """

    @property
    def name(self) -> DeviceAttr:
        """The name of the device: `cuda:0`."""
        ...

    @property
    def targets(self) -> tuple[TargetAttr, ...]:
        """The code generators that serve the device, the default first."""
        ...

    @property
    def taker(self) -> Taker | None:
        """The device itself if it reads arrays of other libraries where they lie, else None."""
        ...

    @property
    def identity(self) -> str:
        """The name of the hardware; measurements belong to it."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of the device."""
        ...

    def free_bytes(self) -> int | None:
        """Memory that a run may still take; None where that is unknown."""
        ...

    def total_bytes(self) -> int | None:
        """All its memory; None where that is unknown."""
        ...

    def held_bytes(self) -> Mapping[str, int]:
        """Returns the bytes that are held now, by what for: the counters of a trace."""
        ...

    @property
    def uploaded_bytes(self) -> int:
        """The bytes of weights and constants that were brought so far; 0 on the host."""
        ...

    @property
    def cap(self) -> int | None:
        """The bound that was set on its memory; None where there is none."""
        ...

    def limit(self, bytes: int) -> None:
        """Sets a bound on its memory, where it has no lower one."""
        ...

    def answer_within(self, seconds: float) -> None:
        """Has who waits for it give up with `DeviceTimeout`, unless that is so sooner already."""
        ...

    def poison(self) -> None:
        """Fills memory that is given back with what shows where it is read, if it has its own."""
        ...

    def lower(self, run: RunOp, entry: str) -> LoweredRun:
        """Turns a run into source text, by the target that it names. Raises `LoweringError`."""
        ...

    def load(
        self, lowered: Sequence[LoweredRun], weights: Mapping[str, Array]
    ) -> Mapping[str, Callable[..., Any]]:
        """
        Make the runs of one executable callable, by the names they define.

        A callable takes values that live on the device and gives a tuple of new ones.
        """
        ...

    def watched(
        self,
        lowered: LoweredRun,
        weights: Mapping[str, Array],
        loaded: Callable[..., Any],
        began: Callable[[int], None],
    ) -> Callable[..., Any] | None:
        """
        Returns what `load` gave for a run so that it tells `began` which of its kernels begins.

        It does so as `WatchedRun` says, and may tell -1 between kernels, too. None where the target
        cannot have that.
        """
        ...

    def receive(self, value: Any, bytes: int = 0) -> Any:
        """
        Returns a value as one that lives here, the value itself if it does, else a copy in memory
        of so many bytes at least.

        It may come from the host or from any other device. Raises `OutOfMemory`.
        """
        ...

    def synchronise(self) -> None:
        """Wait until everything that was asked for is done."""
        ...

    def mark(self) -> Mark:
        """Returns the moment in which all that it was asked for is done; it waits for nothing."""
        ...

    def wait(self, mark: Mark) -> None:
        """Waits for a mark of the device, while other threads go on. Raises `DeviceTimeout`."""
        ...

    def close(self) -> None:
        """Give everything up; the device and its values cannot be used after it."""
        ...


@dataclass(frozen=True)
class BoundLaunch:
    """A launch with its kernel loaded and its buffers allocated."""

    loaded: Any
    """The kernel as `Driver.load` gave it."""
    handles: tuple[Any, ...]
    byte_offsets: tuple[int, ...]
    scalars: tuple[int, ...]
    grid: tuple[int, int, int]


class Driver(abc.ABC):
    """
    Memory and launches of one device.

    It is called by one thread at a time, and does things in the order it is asked: a launch sees
    what was written before, and memory is written again only after earlier launches have read it.
    Only `read` and `synchronise` need to wait. A handle is whatever `allocate` gives; sizes are
    multiples of 16 bytes and never 0.

    Memory and recordings end with their last reference if `free` and `discard` were not called: an
    interrupt may come between the moment in which they are made and that in which they are kept.
    """

    limits: Limits = Limits()
    """The limits of the device."""
    watchdog: Watchdog = Watchdog("a device")
    """The driver waits for marks of its own by it alone: it may raise `DeviceTimeout`."""

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """The name of the hardware."""

    @abc.abstractmethod
    def allocate(self, bytes: int) -> Any:
        """Memory. Raises `OutOfMemory` that names the device, what is wanted and what is free."""

    @abc.abstractmethod
    def free(self, handle: Any) -> None:
        """Give memory back that nothing recorded or running uses."""

    @abc.abstractmethod
    def write(self, handle: Any, host: Array, offset: int = 0) -> None:
        """Copy from the host, a flat array of ui8, which may change as soon as this returns."""

    @abc.abstractmethod
    def read(self, handle: Any, host: Array) -> None:
        """Fill a flat array of ui8 of the host from the start of some memory."""

    def fetch(self, handle: Any, host: Array) -> None:
        """Reads memory that nothing changes which is under way: it need not wait for that."""
        self.read(handle, host)

    @abc.abstractmethod
    def copy(self, source: Any, destination: Any, bytes: int) -> None:
        """Copy from the start of one memory of the device to that of another."""

    @abc.abstractmethod
    def zero(self, handle: Any, bytes: int) -> None:
        """Set the first bytes of some memory to 0."""

    @abc.abstractmethod
    def load(self, kernel: DeviceKernel) -> Any:
        """Compile and load a kernel. Raises `LoweringError` with what the compiler says."""

    @abc.abstractmethod
    def record(self, launches: Sequence[BoundLaunch]) -> Any:
        """Prepare launches, one or more, to be done again and again."""

    @abc.abstractmethod
    def replay(self, recording: Any) -> None:
        """Do what was recorded."""

    @abc.abstractmethod
    def discard(self, recording: Any) -> None:
        """Give a recording up."""

    @abc.abstractmethod
    def synchronise(self) -> None:
        """Wait until everything that was asked for is done."""

    @abc.abstractmethod
    def free_bytes(self) -> int | None:
        """Memory that could be allocated; None where that is unknown."""

    @abc.abstractmethod
    def total_bytes(self) -> int | None:
        """All memory of the device; None where that is unknown."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give up whatever is left, in an order that the hardware's library can take."""

    # For some devices only.

    def after_fork(self) -> bool:
        """
        In a forked child: whether the device works there too.

        One that does not keeps what it has from being destroyed there.
        """
        return True

    def abandon(self) -> None:
        """Gives up nothing of a device that does not answer, now or when the process ends."""
        keep_forever(self)

    def mark(self) -> Mark:
        """
        Returns the moment in which all that was asked for so far is done, without waiting for it.

        Whoever waits for it or looks at it needs no turn at the driver. It is a `TimedMark` if the
        device has a clock of its own: elsewhere the host's is read when the mark is done.
        """
        return PASSED

    @property
    def lowerings(self) -> Mapping[str, Lower]:
        """The `lower_run` of targets for which the driver knows more than they do, by name."""
        return {}

    @property
    def exchange(self) -> Exchange | None:
        """The way to arrays of other devices and libraries that does not pass the host."""
        return None

    def prepare(self, kernels: Sequence[DeviceKernel]) -> bool:
        """
        Compiles kernels side by side, before each is loaded, where that is faster.

        Returns True if it did, and then has told of the progress.
        """
        return False
