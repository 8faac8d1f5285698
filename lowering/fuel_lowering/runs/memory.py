# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory of a run: places in buffers, and temporaries that share buffers by liveness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from fuel_dialect import dtypes
from fuel_dialect.tensors import AnyTensor
from fuel_lowering.runs.launches import Buffer, Launch

ALIGNMENT = 16
"""Bytes that buffers begin at a multiple of."""


@dataclass(frozen=True)
class Place:
    """Says where a value lies: in a buffer, that many bytes after its beginning."""

    buffer: int
    byte_offset: int = 0

    def after(self, byte_offset: int) -> Place:
        """Returns the place so many bytes on in the same buffer."""
        return Place(self.buffer, self.byte_offset + byte_offset)


@dataclass(frozen=True)
class Moving:
    """Represents the layout of arguments and results, as far as code depends on it."""

    moves: frozenset[int] = frozenset()
    unaligned: frozenset[int] = frozenset()


def elements(type: AnyTensor) -> int:
    """Returns the number of elements of a type."""
    return prod(type.get_shape())


def size_in_bytes(type: AnyTensor) -> int:
    """Returns the bytes that the elements of a type take in a buffer."""
    return elements(type) * dtypes.of_type(type).itemsize


def share_temporaries(
    launches: Sequence[Launch], buffers: Sequence[Buffer]
) -> tuple[tuple[Launch, ...], tuple[Buffer, ...]]:
    """
    The same launches with temporaries that are not alive at once in one buffer.

    A temporary takes the smallest free buffer that holds it and is at most twice as large.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for time, launch in enumerate(launches):
        for buffer in launch.buffers:
            first.setdefault(buffer, time)
            last[buffer] = time
    kept = [b for b in range(len(buffers)) if buffers[b].role != "temporary"]
    number = {old: new for new, old in enumerate(kept)}
    slots: list[int] = []
    free: list[int] = []
    dying: dict[int, list[int]] = {}
    mapping = dict(number)
    ordered = sorted((t, b) for b, t in first.items() if buffers[b].role == "temporary")
    clock = 0
    for time, buffer in ordered:
        while clock < time:
            free += dying.pop(clock, [])
            clock += 1
        slot = _take_slot(free, slots, buffers[buffer].bytes)
        mapping[buffer] = len(kept) + slot
        dying.setdefault(last[buffer], []).append(slot)
    shared = [buffers[b] for b in kept] + [Buffer("temporary", "ui8", size) for size in slots]
    moved = tuple(
        replace(launch, buffers=tuple(mapping[b] for b in launch.buffers)) for launch in launches
    )
    return moved, tuple(shared)


def _take_slot(free: list[int], slots: list[int], bytes: int) -> int:
    fitting = [slot for slot in free if bytes <= slots[slot] <= 2 * bytes]
    if not fitting:
        slots.append(bytes)
        return len(slots) - 1
    best = min(fitting, key=lambda slot: slots[slot])
    free.remove(best)
    return best
