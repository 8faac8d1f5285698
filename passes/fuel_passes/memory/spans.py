# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents lifetimes as spans of a clock, and finds which of them meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

Span = tuple[int, int]
"""The first and the last moment of a stretch in which a value is alive."""


Choice = tuple[int, frozenset[int]]
"""A branch, and the arms of it one of which has to be taken."""


@dataclass(frozen=True)
class Block:
    """Represents memory that is wanted: its bytes, when, and on which routes."""

    bytes: int
    spans: tuple[Span, ...]
    """In order, and disjoint."""
    choices: tuple[Choice, ...] = ()
    """The arms in which it is made, the outermost first; no block is alive with one of another."""

    def excludes(self, other: Block) -> bool:
        """Returns True if no route has both blocks."""
        mine = dict(self.choices)
        return any(arms.isdisjoint(mine.get(branch, arms)) for branch, arms in other.choices)


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Returns the same moments as few spans, in order."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def without(span: Span, holes: Iterable[Span]) -> tuple[Span, ...]:
    """Returns the moments of a span that are in none of some holes."""
    left = [span]
    for start, end in holes:
        left = [
            piece
            for first, last in left
            for piece in ((first, min(last, start - 1)), (max(first, end + 1), last))
            if piece[0] <= piece[1]
        ]
    return tuple(left)


def rivals(blocks: Sequence[Block]) -> list[set[int]]:
    """Returns, for each block, those that are alive at some moment when it is."""
    found: list[set[int]] = [set() for _ in blocks]
    events = sorted(
        (first, last, index)
        for index, block in enumerate(blocks)
        for first, last in block.spans
        if block.bytes
    )
    alive: list[tuple[int, int]] = []
    for first, last, index in events:
        alive = [other for other in alive if other[0] >= first]
        for _, other in alive:
            if other != index and not blocks[index].excludes(blocks[other]):
                found[index].add(other)
                found[other].add(index)
        alive.append((last, index))
    return found


def most_alive(blocks: Sequence[Block]) -> int:
    """Returns the most bytes that are alive at one moment of a route: no plan takes fewer."""
    if any(block.choices for block in blocks):
        return max((_most_on_a_route(alive, 0) for alive in _alive_at_births(blocks)), default=0)
    changes: dict[int, int] = {}
    for block in blocks:
        for first, last in block.spans:
            changes[first] = changes.get(first, 0) + block.bytes
            changes[last + 1] = changes.get(last + 1, 0) - block.bytes
    return max(accumulate(changes[moment] for moment in sorted(changes)), default=0)


def _alive_at_births(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yields the blocks that are alive whenever some have come to life."""
    starts: dict[int, list[tuple[int, Block]]] = {}
    for block in blocks:
        for first, last in block.spans:
            starts.setdefault(first, []).append((last, block))
    alive: list[tuple[int, Block]] = []
    for moment in sorted(starts):
        alive = [*(each for each in alive if each[0] >= moment), *starts[moment]]
        yield [block for _, block in alive]


def _most_on_a_route(blocks: Sequence[Block], depth: int) -> int:
    """Returns the most bytes that a route has of some blocks, alike in their outer choices."""
    total = 0
    arms: dict[int, dict[int, list[Block]]] = {}
    for block in blocks:
        if len(block.choices) <= depth:
            total += block.bytes
            continue
        branch, taken = block.choices[depth]
        for arm in taken:
            arms.setdefault(branch, {}).setdefault(arm, []).append(block)
    for found in arms.values():
        total += max(_most_on_a_route(inner, depth + 1) for inner in found.values())
    return total
