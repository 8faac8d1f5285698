# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Buffers and their places in a workspace.

A workspace is one byte arena. A buffer lives over an interval of the clock that the writer
advances with every step; buffers whose intervals do not meet may share bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fuel_passes.memory import arena
from fuel_passes.memory.spans import Block, most_alive

ALIGNMENT = 64


@dataclass(eq=False)
class Buffer:
    """Memory for one value after another; `name` is what the source calls it."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int = 0
    end: int = 0
    offset: int = 0

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def live_at(self, time: int) -> None:
        """Extend the interval to hold `time`."""
        self.start = min(self.start, time)
        self.end = max(self.end, time)


def align(bytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-bytes // ALIGNMENT) * ALIGNMENT


def place(buffers: Iterable[Buffer], reuse: bool = True) -> int:
    """
    Give every buffer its offset; the size of the arena.

    First fit, in the order in which the buffers come to life; a longer search where that takes more
    than what is alive at once. Without `reuse` nothing shares.
    """
    ordered = sorted(buffers, key=lambda b: (b.start, b.end))
    size = _first_fit(ordered, reuse)
    blocks = [Block(align(b.bytes), ((b.start, b.end),)) for b in ordered]
    if not reuse or size <= most_alive(blocks):
        return size
    found = arena.assign(blocks, ALIGNMENT)
    if found.bytes < size:
        size = found.bytes
        for buffer, offset in zip(ordered, found.offsets, strict=True):
            buffer.offset = offset
    return size


def _first_fit(ordered: Sequence[Buffer], reuse: bool) -> int:
    placed: list[Buffer] = []
    size = 0
    for buffer in ordered:
        rivals = [b for b in placed if not reuse or (b.end >= buffer.start)]
        buffer.offset = _first_gap(sorted(rivals, key=lambda b: b.offset), buffer.bytes)
        placed.append(buffer)
        size = max(size, buffer.offset + align(buffer.bytes))
    return size


def _first_gap(rivals: Iterable[Buffer], bytes: int) -> int:
    """The least aligned offset at which `bytes` fit between the rivals, given by offset."""
    offset = 0
    for rival in rivals:
        if offset + bytes <= rival.offset:
            return offset
        offset = max(offset, rival.offset + align(rival.bytes))
    return offset
