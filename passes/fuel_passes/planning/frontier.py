# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Keeps the candidates that are worth it: ranked by price, per device those that nothing beats.

There is no fixed number of best ones; only a device with very many is thinned, where they crowd.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

KEEP_PER_DEVICE = 32

_T = TypeVar("_T")


@dataclass(frozen=True)
class Entry(Generic[_T]):
    """A candidate in the eyes of the frontier."""

    candidate: _T
    device: str
    backend: str
    costs: tuple[int, ...]
    """The costs in each respect: time, memory, transfers; the less the better."""
    price_ns: int | None
    """The number that it is ranked by; None if unknown."""


def ranked(entries: Sequence[Entry[_T]]) -> list[Entry[_T]]:
    """
    The cheapest first, equals in the order they had.

    An unpriced candidate comes after all priced ones: it is not free.
    """
    return sorted(entries, key=lambda entry: inf if entry.price_ns is None else entry.price_ns)


def frontier(entries: Sequence[Entry[_T]], keep: int = KEEP_PER_DEVICE) -> list[Entry[_T]]:
    """
    Returns the ranked candidates that are kept, in their order.

    On each device, those go that another beats in one respect and equals in all others; then, of
    more than `keep`, the most crowded. The first candidate stays, and so does the last one of any
    pair of device and backend.
    """
    if not entries:
        return []
    devices: dict[str, list[int]] = defaultdict(list)
    for index, entry in enumerate(entries):
        devices[entry.device].append(index)
    kept = {
        index
        for indices in devices.values()
        for index in _thinned(entries, _undominated(entries, indices), keep)
    }
    return [entry for index, entry in enumerate(entries) if index in kept]


def dominates(left: Sequence[int], right: Sequence[int]) -> bool:
    """Returns True if costs are nowhere more and somewhere less than others."""
    pairs = list(zip(left, right, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _undominated(entries: Sequence[Entry[_T]], indices: Sequence[int]) -> list[int]:
    left = Counter(entries[index].backend for index in indices)
    kept: list[int] = []
    for index in reversed(indices):
        entry = entries[index]
        beaten = any(dominates(entries[i].costs, entry.costs) for i in indices)
        if beaten and index != 0 and left[entry.backend] > 1:
            left[entry.backend] -= 1
        else:
            kept.append(index)
    return kept[::-1]


def _thinned(entries: Sequence[Entry[_T]], indices: list[int], keep: int) -> list[int]:
    """Drop the most crowded, one after the other, until so many are left."""
    indices = list(indices)
    left = Counter(entries[index].backend for index in indices)
    while len(indices) > keep:
        room = _room([entries[index].costs for index in indices])
        by_crowd = sorted(range(len(indices)), key=lambda place: (room[place], -place))
        gone = next((p for p in by_crowd if _may_go(entries, indices[p], left)), None)
        if gone is None:
            break
        left[entries[indices[gone]].backend] -= 1
        del indices[gone]
    return indices


def _may_go(entries: Sequence[Entry[_T]], index: int, left: Counter[str]) -> bool:
    return index != 0 and left[entries[index].backend] > 1


def _room(costs: Sequence[Sequence[int]]) -> list[float]:
    """The crowding distance of each: how far apart its neighbours are, summed over all respects."""
    room = [0.0] * len(costs)
    for axis in range(len(costs[0])):
        order = sorted(range(len(costs)), key=lambda place: costs[place][axis])
        low, high = costs[order[0]][axis], costs[order[-1]][axis]
        room[order[0]] = room[order[-1]] = inf
        for before, place, after in zip(order, order[1:], order[2:], strict=False):
            room[place] += (costs[after][axis] - costs[before][axis]) / max(high - low, 1)
    return room
