# SPDX-License-Identifier: MIT OR Apache-2.0
"""Places of blocks in arenas and slots, compared with planners that try everything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import examples
from fuel_passes.memory import arena, slots
from fuel_passes.memory.sizes import aligned, size_class
from fuel_passes.memory.spans import Block, Span, merged, most_alive, rivals, without

NEAR = 1.1


@st.composite
def spans(draw: st.DrawFn, last: int = 7) -> tuple[Span, ...]:
    ticks = draw(st.sets(st.integers(0, last), min_size=1, max_size=4))
    return merged((tick, min(last, tick + draw(st.integers(0, 3)))) for tick in ticks)


@st.composite
def blocks(draw: st.DrawFn, most: int = 6) -> list[Block]:
    """Draws blocks of a function in which one branch of three arms stands at ticks 3 to 5."""
    count = draw(st.integers(0, most))
    found: list[Block] = []
    for _ in range(count):
        arms = frozenset(draw(st.sets(st.sampled_from([3, 4, 5]), max_size=2)))
        choices = ((3, arms),) if arms else ()
        bytes = draw(st.one_of(st.integers(0, 12), st.sampled_from([64, 100, 1000, 4096])))
        found.append(Block(bytes, draw(spans()), choices))
    return found


def meet(one: Block, other: Block) -> bool:
    """Returns True if two blocks are alive at once, by looking at every moment."""
    mine, theirs = dict(one.choices), dict(other.choices)
    if any(not mine.get(branch, arms) & arms for branch, arms in theirs.items()):
        return False
    ticks = ({t for a, b in each.spans for t in range(a, b + 1)} for each in (one, other))
    return bool(set.intersection(*ticks))


def lowest_offset(placed: Sequence[tuple[int, Block]], block: Block) -> int:
    taken = sorted((o, o + other.bytes) for o, other in placed if meet(other, block))
    offset = 0
    for first, last in taken:
        if offset + block.bytes <= first:
            break
        offset = max(offset, last)
    return offset


def best_arena(given: Sequence[Block]) -> int:
    """Returns the bytes of the best arena: every one can be pressed down in some order."""
    best = sum(block.bytes for block in given)
    for order in permutations([block for block in given if block.bytes]):
        placed: list[tuple[int, Block]] = []
        for block in order:
            placed.append((lowest_offset(placed, block), block))
        best = min(best, max((offset + block.bytes for offset, block in placed), default=0))
    return best


def best_slots(given: Sequence[Block]) -> int:
    """Returns the bytes of the best slots: every way to put blocks together is tried."""
    best = sum(block.bytes for block in given)
    pending: list[tuple[int, list[list[Block]]]] = [(0, [])]
    while pending:
        number, groups = pending.pop()
        if number == len(given):
            best = min(best, sum(max(block.bytes for block in group) for group in groups))
            continue
        block = given[number]
        pending.append((number + 1, [*groups, [block]]))
        for index, group in enumerate(groups):
            if not any(meet(block, other) for other in group):
                pending.append(
                    (number + 1, [*groups[:index], [*group, block], *groups[index + 1 :]])
                )
    return best


@examples(200)
@given(blocks())
def test_an_arena_is_near_the_best_one(given: list[Block]) -> None:
    found = arena.assign(given)
    assert most_alive(given) <= best_arena(given) <= found.bytes <= NEAR * best_arena(given)


@examples(200)
@given(blocks(12), st.sampled_from([1, 16, 256]))
def test_blocks_that_are_alive_at_once_do_not_overlap(given: list[Block], alignment: int) -> None:
    found = arena.assign(given, alignment)
    ends = [o + b.bytes for o, b in zip(found.offsets, given, strict=True)]
    assert all(offset % alignment == 0 for offset in found.offsets)
    assert max(ends, default=0) <= found.bytes
    for i, one in enumerate(given):
        for j in range(i):
            if meet(one, given[j]) and one.bytes and given[j].bytes:
                assert ends[j] <= found.offsets[i] or ends[i] <= found.offsets[j]


@examples(200)
@given(blocks())
def test_slots_are_the_best_ones(given: list[Block]) -> None:
    assert slots.assign(given).bytes == best_slots([block for block in given if block.bytes])


@examples(200)
@given(blocks(12))
def test_blocks_that_are_alive_at_once_have_different_slots(given: list[Block]) -> None:
    found = slots.assign(given)
    for i, one in enumerate(given):
        assert one.bytes <= found.size_of(i)
        for j in range(i):
            if meet(one, given[j]) and one.bytes and given[j].bytes:
                assert found.slots[i] != found.slots[j]


@given(blocks(12))
def test_rivals_are_the_blocks_that_meet(given: list[Block]) -> None:
    found = rivals(given)
    for i, one in enumerate(given):
        want = {
            j
            for j, other in enumerate(given)
            if j != i and one.bytes and other.bytes and meet(one, other)
        }
        assert found[i] == want


@given(spans(), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_spans_without_holes(given: tuple[Span, ...], holes: list[Span]) -> None:
    left = merged(piece for span in given for piece in without(span, holes))
    ticks = {t for a, b in given for t in range(a, b + 1)}
    ticks -= {t for a, b in holes for t in range(a, b + 1)}
    assert ticks == {t for a, b in left for t in range(a, b + 1)}


def test_sizes_are_rounded_up_by_an_eighth_at_most() -> None:
    assert [size_class(bytes) for bytes in (0, 1, 256, 257, 5000)] == [256, 256, 256, 512, 5120]
    assert all(size_class(bytes) <= bytes * 9 / 8 for bytes in range(2048, 100_000, 37))
    assert (aligned(0, 16), aligned(1, 16), aligned(16, 16)) == (0, 16, 16)


@pytest.mark.parametrize("count", [3000])
def test_long_chains_are_placed_in_two_buffers(count: int) -> None:
    chain = [Block(64, ((i, i + 1),)) for i in range(count)]
    assert arena.assign(chain).bytes == slots.assign(chain).bytes == 128
