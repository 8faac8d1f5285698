# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The emulated CUDA device: memory of its own in the host's, and Triton's interpreter.

Launches run the text that compiles for a GPU. Memory is separate from every other array, metered,
full of NaN when it is new, and has guards on both sides: a kernel that writes past the end of a
buffer is an error here, where a GPU would change somebody else's memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect.errors import DeviceUnavailable, LoweringError, OutOfMemory
from fuel_runtime.devices.emulated.work import Work
from fuel_runtime.devices.interface import BoundLaunch, Driver, Limits

if TYPE_CHECKING:
    from fuel_dialect.attributes import DeviceAttr
    from fuel_lowering.runs.launches import DeviceKernel
    from fuel_lowering.triton.interpret import InterpretedKernel
    from fuel_runtime.devices.marks import Mark

    Array = np.ndarray[Any, np.dtype[Any]]

ALIGNMENT = 256
"""The alignment of memory on CUDA devices."""

GUARD = 256
FRESH = 0xFF
UNTOUCHED = 0xA5


def open_emulated(device: DeviceAttr, capacity: int | None) -> EmulatedDriver:
    """A device with `capacity` bytes; None: no bound. Raises `DeviceUnavailable`."""
    if find_spec("triton") is None:
        raise DeviceUnavailable(
            f"to emulate {device} takes the package triton; install fuel with the extra 'triton'"
        )
    return EmulatedDriver(device, capacity)


class Memory:
    """A piece of memory between two guards."""

    __slots__ = ("__weakref__", "_all", "bytes")

    def __init__(self, bytes: int):
        raw = np.full(bytes + 2 * GUARD + ALIGNMENT, FRESH, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        self._all = raw[start : start + bytes + 2 * GUARD]
        self._all[:GUARD] = self._all[-GUARD:] = UNTOUCHED
        self.bytes: Array = self._all[GUARD:-GUARD]

    @property
    def is_intact(self) -> bool:
        """True if nobody wrote past either end."""
        guards = self._all[:GUARD], self._all[-GUARD:]
        return all(bool((guard == UNTOUCHED).all()) for guard in guards)


class EmulatedDriver(Driver):
    """The driver of an emulated device; every call is done when it returns, unless `work` hangs."""

    limits = Limits(on_host_cores=True)

    def __init__(self, device: DeviceAttr, capacity: int | None):
        self._device = device
        self._capacity = capacity
        self.work = Work()
        self._live: weakref.WeakSet[Memory] = weakref.WeakSet()

    @property
    def identity(self) -> str:
        """The name of the hardware; nothing that is measured here is true of a GPU."""
        return f"emulated {self._device.kind.data} device"

    # Memory.

    def allocate(self, bytes: int) -> Memory:
        """New memory. Raises `OutOfMemory` beyond the capacity, or what the host has."""
        free = self.free_bytes()
        if free is not None and bytes > free:
            raise OutOfMemory(f"{self._device}: {bytes:,} bytes are wanted, {free:,} are free")
        try:
            memory = Memory(bytes)
        except MemoryError as error:
            raise OutOfMemory(
                f"{self._device}: {bytes:,} bytes are wanted, more than the host has left"
            ) from error
        self._live.add(memory)
        return memory

    def free(self, handle: Memory) -> None:
        """Give memory back."""
        self._live.discard(handle)

    def write(self, handle: Memory, host: Array, offset: int = 0) -> None:
        """Copy from the host."""
        target, bytes = handle.bytes[offset : offset + host.size], host.copy()
        self.work.do(lambda: target.__setitem__(slice(None), bytes))

    def read(self, handle: Memory, host: Array) -> None:
        """Copy to the host."""
        self.work.finish(self.watchdog)
        host[:] = handle.bytes[: host.size]

    def copy(self, source: Memory, destination: Memory, bytes: int) -> None:
        """Copy from one memory to another."""
        read, written = source.bytes[:bytes], destination.bytes[:bytes]
        self.work.do(lambda: written.__setitem__(slice(None), read))

    def zero(self, handle: Memory, bytes: int) -> None:
        """Clear the first bytes."""
        cleared = handle.bytes[:bytes]
        self.work.do(lambda: cleared.fill(0))

    # Launches.

    def load(self, kernel: DeviceKernel) -> InterpretedKernel:
        """Read the text of a kernel. Raises `LoweringError`."""
        from fuel_lowering.triton.interpret import InterpretedKernel

        return InterpretedKernel(kernel)

    def record(self, launches: Sequence[BoundLaunch]) -> tuple[BoundLaunch, ...]:
        """Remember launches."""
        return tuple(launches)

    def replay(self, recording: Sequence[BoundLaunch]) -> None:
        """Run launches one after the other. Raises `LoweringError` for a write out of bounds."""
        self.work.do(lambda: self._replay(recording))

    def _replay(self, recording: Sequence[BoundLaunch]) -> None:
        from fuel_lowering.triton.interpret import interpreting

        with interpreting():
            for launch in recording:
                self._launch(launch)

    def _launch(self, launch: BoundLaunch) -> None:
        starts = (handle.bytes.ctypes.data for handle in launch.handles)
        addresses = [s + o for s, o in zip(starts, launch.byte_offsets, strict=True)]
        launch.loaded.launch(addresses, launch.scalars, launch.grid)
        for position, handle in enumerate(launch.handles):
            if not handle.is_intact:
                raise LoweringError(
                    f"{self._device}: kernel {launch.loaded.name} wrote outside its buffer "
                    f"{position}, which has {handle.bytes.size} bytes"
                )

    def discard(self, recording: Sequence[BoundLaunch]) -> None:
        """Nothing is held for a recording but the recording itself."""

    def synchronise(self) -> None:
        """Waits for what is left to be done, if the device hangs."""
        self.work.finish(self.watchdog)

    def mark(self) -> Mark:
        """Returns a moment that has passed, unless the device hangs."""
        return self.work.mark()

    # Facts.

    def free_bytes(self) -> int | None:
        """Returns the bytes that are left of the capacity."""
        if self._capacity is None:
            return None
        return self._capacity - sum(memory.bytes.size for memory in self._live)

    def total_bytes(self) -> int | None:
        """The capacity."""
        return self._capacity

    def close(self) -> None:
        """Nothing is left to give up: memory goes with its last reference."""
