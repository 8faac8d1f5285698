# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives blocks memory to share one after the other, each piece a whole one, without offsets."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fuel_passes.memory.spans import Block, rivals

MOST_WORK = 1 << 19
"""The blocks that are looked at, over all attempts, before the search ends with its best."""


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
        best = self._greedy()
        order, work = self.order, 0
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
            work += len(order)
            if work > MOST_WORK:
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
        """Returns the slots where each block takes the smallest that is free."""
        slot_of: dict[int, int] = {}
        slots = 0
        for block in self.order:
            busy = {slot_of[rival] for rival in self.against[block] if rival in slot_of}
            slot_of[block] = next((s for s in reversed(range(slots)) if s not in busy), slots)
            slots = max(slots, slot_of[block] + 1)
        return self._slots([slot_of[block] for block in self.order])

    def _sizes(self, taken: Sequence[int]) -> list[int]:
        sizes: dict[int, int] = {}
        for block, slot in zip(self.order, taken, strict=False):
            sizes.setdefault(slot, self.blocks[block].bytes)
        return list(sizes.values())

    def _slots(self, taken: Sequence[int]) -> Slots:
        found = dict(zip(self.order, taken, strict=True))
        slots = tuple(found[block] for block in range(len(self.blocks)))
        return Slots(slots, tuple(self._sizes(taken)))
