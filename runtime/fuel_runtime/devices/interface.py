# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What the runtime asks of a device, and what a device with memory of its own asks of its driver.

A `Device` is all that the rest of the runtime sees. `BufferDevice` (buffers.py) is the `Device` of
everything whose memory is not the host's; a `Driver` is what differs between those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from fuel_dialect.attributes import TargetAttr
    from fuel_dialect.ops.control import RunOp
    from fuel_lowering.kernels import DeviceKernel, DeviceRun, LoweredRun

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Limits:
    """What a device cannot do however much memory is free."""

    largest_buffer_bytes: int | None = None
    """The largest buffer that a kernel can be given; None for any."""
    on_host_cores: bool = False
    """Whether its kernels run on the cores of the host: "auto" leaves such a device out."""


class Device(Protocol):
    """
    What the runtime asks of a device.

    A value of the host is an ndarray, one of another device a `DeviceArray`.
    """

    @property
    def target(self) -> TargetAttr:
        """The device and the code generator that serves it."""
        ...

    @property
    def identity(self) -> str:
        """What the hardware is called; measurements belong to it."""
        ...

    @property
    def limits(self) -> Limits:
        """What it cannot do."""
        ...

    def free_bytes(self) -> int | None:
        """Memory that a run may still take; None where that is unknown."""
        ...

    def total_bytes(self) -> int | None:
        """All its memory; None where that is unknown."""
        ...

    def lower(self, run: RunOp, entry: str) -> LoweredRun | DeviceRun:
        """Turn a run into source text. Raises `LoweringError`."""
        ...

    def load(
        self, lowered: Sequence[LoweredRun | DeviceRun], weights: Mapping[str, Array]
    ) -> Mapping[str, Callable[..., Any]]:
        """
        Make the runs of one executable callable, by the names they define.

        A callable takes values that live on the device and gives a tuple of new ones.
        """
        ...

    def receive(self, value: Any) -> Any:
        """
        A value as one that lives here; the value itself if it does.

        It may come from the host or from any other device. Raises `OutOfMemory`.
        """
        ...

    def synchronise(self) -> None:
        """Wait until everything that was asked for is done."""
        ...

    def close(self) -> None:
        """Give everything up; the device and its values cannot be used after it."""
        ...


@dataclass(frozen=True)
class BoundLaunch:
    """A launch with its kernel loaded and its buffers allocated."""

    loaded: Any
    """What `Driver.load` gave for the kernel."""
    handles: tuple[Any, ...]
    byte_offsets: tuple[int, ...]
    scalars: tuple[int, ...]
    grid: tuple[int, int, int]


class Driver(Protocol):
    """
    Memory and launches of one device.

    It is called by one thread at a time, and does things in the order it is asked: a launch sees
    what was written before, and memory is written again only after earlier launches have read it.
    Only `read` and `synchronise` need to wait. A handle is whatever `allocate` gives; sizes are
    multiples of 16 bytes and never 0.

    A driver whose memory has CUDA addresses may have two methods more. With `pointer(handle) ->
    int`, arrays of the device have a `__cuda_array_interface__`. `take_in(array, handle)` copies
    the elements of a row-major array that has one to the start of some memory.

    One that compiles faster side by side may have `prepare(kernels)`, which is called before each
    of several kernels is loaded; one that knows more of its device than the target does may have
    `lower(run, entry)` in place of the target's.
    """

    @property
    def identity(self) -> str:
        """What the hardware is called."""
        ...

    @property
    def limits(self) -> Limits:
        """What the device cannot do."""
        ...

    def allocate(self, bytes: int) -> Any:
        """Memory. Raises `OutOfMemory` that names the device, what is wanted and what is free."""
        ...

    def free(self, handle: Any) -> None:
        """Give memory back that nothing recorded or running uses."""
        ...

    def write(self, handle: Any, host: Array, offset: int = 0) -> None:
        """Copy from the host, a flat array of ui8, which may change as soon as this returns."""
        ...

    def read(self, handle: Any, host: Array) -> None:
        """Fill a flat array of ui8 of the host from the start of some memory."""
        ...

    def copy(self, source: Any, destination: Any, bytes: int) -> None:
        """Copy from the start of one memory of the device to that of another."""
        ...

    def zero(self, handle: Any, bytes: int) -> None:
        """Set the first bytes of some memory to 0."""
        ...

    def load(self, kernel: DeviceKernel) -> Any:
        """Compile and load a kernel. Raises `LoweringError` with what the compiler says."""
        ...

    def record(self, launches: Sequence[BoundLaunch]) -> Any:
        """Prepare launches, one or more, to be done again and again."""
        ...

    def replay(self, recording: Any) -> None:
        """Do what was recorded."""
        ...

    def discard(self, recording: Any) -> None:
        """Give a recording up."""
        ...

    def synchronise(self) -> None:
        """Wait until everything that was asked for is done."""
        ...

    def free_bytes(self) -> int | None:
        """Memory that could be allocated; None where that is unknown."""
        ...

    def total_bytes(self) -> int | None:
        """All memory of the device; None where that is unknown."""
        ...

    def close(self) -> None:
        """Give up whatever is left, in an order that the hardware's library can take."""
        ...
