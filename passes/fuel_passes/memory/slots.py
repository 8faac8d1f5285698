# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives blocks memory to share one after the other, each piece a whole one, without offsets."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fuel_passes.memory.spans import Block, rivals

MOST_STEPS = 4096
"""The blocks that are given a slot, over all attempts, before the search ends with its best."""


@dataclass(frozen=True)
class Slots:
    """Holds the slot of each block, and the bytes of each slot."""

    slots: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all slots."""
        return sum(self.sizes)

    def size_of(self, block: int) -> int:
        """Returns the bytes of the slot of a block."""
        return self.sizes[self.slots[block]]


def assign(blocks: Sequence[Block]) -> Slots:
    """
    Returns the slots of some blocks; blocks that are alive at once have different ones.

    Blocks come by size, the largest first, so a slot is as large as its first block. The first
    attempt takes the smallest slot that is free each time; further ones go back on the choices
    that were made last, as long as fewer bytes can come of it and the search is short.
    """
    return _Search(blocks, rivals(blocks)).best()


class _Search:
    def __init__(self, blocks: Sequence[Block], against: Sequence[AbstractSet[int]]):
        self.blocks = blocks
        self.against = against
        self.order = sorted(range(len(blocks)), key=lambda i: (-blocks[i].bytes, i))

    def best(self) -> Slots:
        """Returns the best slots that a bounded search finds."""
        best, sizes = self._greedy(), [0]
        order, steps = self.order, 0
        choices: list[list[int]] = []
        taken: list[int] = []
        while True:
            depth = len(taken)
            sizes = self._sizes(taken)
            if depth == len(order) and sum(sizes) < best.bytes:
                best = self._slots(taken)
            if depth == len(order) or sum(sizes) >= best.bytes:
                if not self._step_back(choices, taken):
                    return best
            else:
                choices.append(self._choices(taken, len(sizes)))
                taken.append(choices[-1].pop(0))
            steps += 1
            if steps > MOST_STEPS:
                return best

    @staticmethod
    def _step_back(choices: list[list[int]], taken: list[int]) -> bool:
        """Takes the next choice of the last block that has another; returns False at the end."""
        while taken:
            taken.pop()
            if choices[-1]:
                taken.append(choices[-1].pop(0))
                return True
            choices.pop()
        return False

    def _choices(self, taken: Sequence[int], slots: int) -> list[int]:
        """Returns the slots that the next block can have, the smallest first, a new one last."""
        rivals = self.against[self.order[len(taken)]]
        busy = {slot for block, slot in zip(self.order, taken, strict=False) if block in rivals}
        return [*(slot for slot in reversed(range(slots)) if slot not in busy), slots]

    def _greedy(self) -> Slots:
        taken: list[int] = []
        slots = 0
        for _ in self.order:
            taken.append(self._choices(taken, slots)[0])
            slots = max(slots, taken[-1] + 1)
        return self._slots(taken)

    def _sizes(self, taken: Sequence[int]) -> list[int]:
        sizes: dict[int, int] = {}
        for block, slot in zip(self.order, taken, strict=False):
            sizes.setdefault(slot, self.blocks[block].bytes)
        return list(sizes.values())

    def _slots(self, taken: Sequence[int]) -> Slots:
        found = dict(zip(self.order, taken, strict=True))
        slots = tuple(found[block] for block in range(len(self.blocks)))
        return Slots(slots, tuple(self._sizes(taken)))
