# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Plans which weights of a device are loaded again in each call, where there is no room for all.

Runs come in the same order in each call, so the next use of every weight is known: the one that is
used last gives way (Belady's rule). Devices follow the same rule while a program runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

WARM = 2
"""The calls before what is loaded is counted."""

ROUNDS = 16
"""The calls over which what is loaded is averaged: one call may load more than the next."""

MOST_WORK = 1 << 18
"""The pairs of a run and a weight, over all calls, that are looked at; fewer calls are counted."""


@dataclass(frozen=True)
class Streaming:
    """Holds what a call loads on average, and the most bytes of weights that are there at once."""

    loaded: int
    resident: int


def uses_of(runs: Iterable[Iterable[Key]]) -> dict[Key, list[int]]:
    """Returns the places of the runs that read each weight."""
    uses: dict[Key, list[int]] = {}
    for position, keys in enumerate(runs):
        for key in dict.fromkeys(keys):
            uses.setdefault(key, []).append(position)
    return uses


def next_use(positions: Iterable[int], current: int, count: int) -> int:
    """Returns how many runs pass from the current one to the next that reads a weight."""
    return min((position - current) % count for position in positions)


def streaming(runs: Sequence[Mapping[Key, int]], room: int) -> Streaming:
    """
    Returns what a call loads of the weights of its runs, with room for so many bytes.

    A run has all its weights while it runs, also where they are more than there is room for.
    """
    uses = uses_of(runs)
    rounds = max(1, min(ROUNDS, MOST_WORK // max(1, len(runs) * len(uses)) - WARM))
    there: dict[Key, int] = {}
    taken = resident = loaded = 0
    for call in range(WARM + rounds):
        for current, wanted in enumerate(runs):
            missing = {key: bytes for key, bytes in wanted.items() if key not in there}
            brought = sum(missing.values())
            taken += brought
            if taken > room:
                idle = [key for key in there if key not in wanted]
                idle.sort(key=lambda key: next_use(uses[key], current + 1, len(runs)))
                while idle and taken > room:
                    taken -= there.pop(idle.pop())
            there.update(missing)
            resident = max(resident, taken)
            loaded += brought if call >= WARM else 0
    return Streaming(-(-loaded // rounds), resident)
