# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Keeps memory of a device that is taken, given back and taken again.

What is given back is kept, by size class, and the oldest goes out first, whenever it came back: a
program that is called again and again gets the same memory each time, so that its recordings fit.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuel_runtime.devices.interface import Driver

_NUMBERS = count(1)

POISON = 0xFF
"""Each byte of memory that nobody may read: NaN in floats of every kind."""


class Memory:
    """A piece of memory; `number` is no other's, also of memory that is gone."""

    __slots__ = ("__weakref__", "bytes", "handle", "number", "returned")

    def __init__(self, handle: Any, bytes: int):
        self.handle = handle
        self.bytes = bytes
        self.returned = 0
        """When it came back, by the clock of its pool."""
        self.number = next(_NUMBERS)

    def __lt__(self, other: Memory) -> bool:
        return self.number < other.number


class Lease:
    """The use of some memory; it goes back to its pool with the last reference to this."""

    __slots__ = ("__weakref__", "memory", "number")

    def __init__(self, memory: Memory):
        self.memory = memory
        self.number = memory.number


class End(weakref.ref[Lease]):
    """
    Tells a pool that a lease has ended.

    What is called then is the `append` of a deque: it takes no lock, though a collection may start
    while the same thread holds that of the device, and no interrupt can come between.
    """

    __slots__ = ("memory",)

    memory: Memory


class Pool:
    """The memory of one device; all but the end of a lease happens under the device's lock."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._given: weakref.WeakSet[Memory] = weakref.WeakSet()
        self.clock = 0
        """The calls of runs so far."""
        self.is_poisoned = False
        """True if memory that is given back, or new, is filled so that whoever reads it shows."""
        self._idle: dict[int, list[Memory]] = {}
        self._returned: deque[End] = deque()
        self._lent: dict[int, End] = {}

    @property
    def taken(self) -> int:
        """The bytes that the device has given, and that have not gone back to it."""
        return sum(memory.bytes for memory in self._given)

    @property
    def idle_bytes(self) -> int:
        """The bytes that are kept for later, but for what has come back since `collect`."""
        return sum(size * len(idle) for size, idle in self._idle.items())

    def find(self, size: int) -> Lease | None:
        """Idle memory of a size class, if there is any."""
        if self._returned:
            self.collect()
        idle = self._idle.get(size)
        if not idle:
            return None
        lease = self._lease(idle[0])
        heappop(idle)
        return lease

    def allocate(self, size: int) -> Lease:
        """Returns new memory of a size class. Raises `OutOfMemory`."""
        memory = Memory(self._driver.allocate(size), size)
        self._given.add(memory)
        if self.is_poisoned:
            self.poison(memory)
        return self._lease(memory)

    def poison(self, memory: Memory) -> None:
        """Fills memory with bytes that are NaN as floats, and -1 as integers."""
        import numpy as np

        self._driver.write(memory.handle, np.full(memory.bytes, POISON, np.uint8))

    def _lease(self, memory: Memory) -> Lease:
        lease = Lease(memory)
        end = End(lease, self._returned.append)
        end.memory = memory
        self._lent[id(end)] = end
        return lease

    def collect(self) -> None:
        """Takes in what came back."""
        while self._returned:
            end = self._returned[0]
            if id(end) in self._lent:
                if self.is_poisoned:
                    self.poison(end.memory)
                end.memory.returned = self.clock
                idle = self._idle.setdefault(end.memory.bytes, [])
                if end.memory not in idle:  # after an interrupt it may be there already
                    heappush(idle, end.memory)
                del self._lent[id(end)]
            self._returned.popleft()

    def idle_for(self, calls: int) -> set[int]:
        """Returns the numbers of idle memory that came back more than so many calls ago."""
        self.collect()
        everything = (memory for idle in self._idle.values() for memory in idle)
        return {each.number for each in everything if self.clock - each.returned > calls}

    def trim(self, numbers: AbstractSet[int] | None = None) -> None:
        """Gives idle memory of some numbers, or all, back; nothing recorded may use it."""
        self.collect()
        for idle in self._idle.values():
            if numbers is not None:
                idle.sort(key=lambda memory: (memory.number in numbers, memory.number))
            while idle and (numbers is None or idle[-1].number in numbers):
                memory = idle.pop()
                self._given.discard(memory)
                self._driver.free(memory.handle)
