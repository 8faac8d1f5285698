# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives blocks their offsets in one arena, so that blocks that are alive at once do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from fuel_passes.memory.sizes import aligned
from fuel_passes.memory.spans import Block, most_alive, rivals

ROUNDS = 64
"""Orders that are tried after the first ones, each made of the one before."""

MOST_WORK = 1 << 20
"""The pairs of rivals, over all orders, after which no further order is tried."""


@dataclass(frozen=True)
class Arena:
    """Holds the offset of each block, and the bytes that all take together."""

    offsets: tuple[int, ...]
    bytes: int


def assign(blocks: Sequence[Block], alignment: int = 1) -> Arena:
    """
    Returns an arena for some blocks whose offsets are multiples of an alignment.

    The greedy planner of TFLite and XLA: in some order, each block takes the smallest gap between
    those of its rivals that have a place. Orders are by size, by size and time, and by birth; then
    whatever ends at the top goes first and the rest follows, as long as that is worth the work.
    """
    sized = [replace(block, bytes=aligned(block.bytes, alignment)) for block in blocks]
    against, least = rivals(sized), most_alive(sized)
    work, pairs = 0, sum(map(len, against)) + len(sized)
    found: list[tuple[Arena, Sequence[int]]] = []
    for order in _orders(sized):
        found.append((_placed(sized, against, order), order))
        work += pairs
        if found[-1][0].bytes <= least or work > MOST_WORK:
            break
    best, order = min(found, key=lambda pair: pair[0].bytes)
    last = best
    for _ in range(ROUNDS):
        if best.bytes <= least or work > MOST_WORK:
            break
        order = _raised(sized, last, order)
        last = _placed(sized, against, order)
        best = min(best, last, key=lambda arena: arena.bytes)
        work += pairs
    return best


def _orders(blocks: Sequence[Block]) -> Iterator[list[int]]:
    everything = range(len(blocks))
    yield sorted(everything, key=lambda i: (-blocks[i].bytes, -_duration(blocks[i]), i))
    yield sorted(everything, key=lambda i: (-blocks[i].bytes * _duration(blocks[i]), i))
    yield sorted(everything, key=lambda i: (blocks[i].spans[:1], -blocks[i].bytes, i))
    yield sorted(everything, key=lambda i: (-_duration(blocks[i]), -blocks[i].bytes, i))


def _duration(block: Block) -> int:
    return sum(last - first + 1 for first, last in block.spans)


def _raised(blocks: Sequence[Block], arena: Arena, order: Sequence[int]) -> list[int]:
    """Returns an order in which the blocks that end at the top come first."""
    top = {i for i in order if arena.offsets[i] + blocks[i].bytes == arena.bytes}
    return [*(i for i in order if i in top), *(i for i in order if i not in top)]


def _placed(
    blocks: Sequence[Block], against: Sequence[AbstractSet[int]], order: Sequence[int]
) -> Arena:
    offsets: dict[int, int] = {}
    size = 0
    for index in order:
        placed = against[index] & offsets.keys()
        taken = sorted((offsets[o], offsets[o] + blocks[o].bytes) for o in placed)
        offsets[index] = _smallest_gap(taken, blocks[index].bytes)
        size = max(size, offsets[index] + blocks[index].bytes)
    return Arena(tuple(offsets[index] for index in range(len(blocks))), size)


def _smallest_gap(taken: Sequence[tuple[int, int]], bytes: int) -> int:
    """Returns the offset of the smallest gap that holds so many bytes, else of the open end."""
    best: tuple[int, int] | None = None
    end = 0
    for first, last in taken:
        gap = first - end
        if gap >= bytes and (best is None or gap < best[0]):
            best = gap, end
        end = max(end, last)
    return end if best is None else best[1]
