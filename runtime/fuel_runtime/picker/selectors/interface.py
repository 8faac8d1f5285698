# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines a selector: what it is told and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from fuel_passes.planning.measurements import MeasurementSource
from fuel_runtime.picker.decision import Arm, Decision
from fuel_runtime.picker.policy import Policy
from fuel_runtime.telemetry.signals import Snapshot


class Candidate(NamedTuple):
    """Represents an arm that may be picked, and what the selectors so far have found of it."""

    number: int
    arm: Arm
    time_ns: float
    """The time that a call is expected to take."""
    rank: int = 0
    """Arms of a higher rank are picked only where there is none of a lower one."""
    note: str = ""
    """The reason against it."""
    is_noisy: bool = False
    """True if the time comes from a signal that may change a moment later."""

    def demoted(self, rank: int, note: str) -> Candidate:
        """Returns the candidate with a rank, unless it has a higher one already."""
        return self._replace(rank=rank, note=note) if rank > self.rank else self


class View(NamedTuple):
    """Holds what is known when a decision is made."""

    decision: Decision
    snapshot: Snapshot
    measured: MeasurementSource | None
    policy: Policy
    incumbent: int | None = None
    """The arm that the decision took last; None for the first time."""
    failed: Mapping[int, str] = MappingProxyType({})
    """Arms that have failed in this very call, and why."""
    warm: frozenset[int] = frozenset()
    """Arms whose lasting memory is taken already."""
    exploring: bool = False
    """True if this call may measure an arm that nobody has measured."""


NONE_DROPPED: Mapping[int, str] = MappingProxyType({})


class Verdict(NamedTuple):
    """Holds the candidates that are left, and why others were dropped."""

    left: tuple[Candidate, ...]
    dropped: Mapping[int, str] = NONE_DROPPED
    reason: str = ""
    """The reason, where a selector left one candidate."""


Selector: TypeAlias = Callable[[Sequence[Candidate], View], Verdict]
"""
Judges the candidates that are left, in the order of their arms. It is pure, and quick: a decision
has 50 microseconds for all of them. One that keeps no candidate is passed over.
"""

NO_TIME = 1.0
"""The time, in nanoseconds, of an arm that nobody priced or measured."""


def candidates_of(decision: Decision) -> tuple[Candidate, ...]:
    """
    Returns the arms of a decision as candidates, at their prices.

    The first arm is the static winner: no other is expected to be faster before anybody says so.
    """
    prices = [arm.price_ns for arm in decision.arms]
    first = prices[0] if prices else None
    if first is None or None in prices:
        return tuple(Candidate(index, arm, NO_TIME) for index, arm in enumerate(decision.arms))
    return tuple(
        Candidate(index, arm, max(float(arm.price_ns or 0), float(first), NO_TIME))
        for index, arm in enumerate(decision.arms)
    )
