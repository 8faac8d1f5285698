# SPDX-License-Identifier: MIT OR Apache-2.0
"""Demotes arms that do not fit into the free memory of a device."""

from __future__ import annotations

from collections.abc import Sequence

from fuel_runtime.picker.decision import Need
from fuel_runtime.picker.selectors.interface import Candidate, Verdict, View
from fuel_runtime.telemetry.signals import FIT_MARGIN

WONT_FIT = 2
"""The rank of an arm that does not fit."""

SMALLEST_NEED = 4096
"""The least bytes that an arm is assumed to need, whatever was estimated."""

TIGHT_FACTOR = 1.5
"""The slowdown that is expected of an arm where memory is tight."""


def select(candidates: Sequence[Candidate], view: View) -> Verdict:
    """Returns all candidates; those that do not fit have a higher rank. Unknown memory fits."""
    return Verdict(tuple(_guarded(candidate, view) for candidate in candidates))


def _guarded(candidate: Candidate, view: View) -> Candidate:
    needs = candidate.arm.needs or (Need(candidate.arm.device, 0),)
    is_tight = False
    for need in needs:
        signals, tiers = view.snapshot.of(need.device), view.snapshot.tiers_of(need.device)
        if signals.free_bytes is None:
            continue
        wanted = _wanted(need, candidate.number, view)
        if wanted > signals.free_bytes:
            note = f"{need.device} has {signals.free_bytes:,} bytes free, {wanted:,} are wanted"
            return candidate.demoted(WONT_FIT, note)
        if tiers.memory == 2:
            return candidate.demoted(WONT_FIT, f"{need.device} is full")
        is_tight = is_tight or tiers.memory == 1
    return candidate._replace(time_ns=candidate.time_ns * TIGHT_FACTOR) if is_tight else candidate


def _wanted(need: Need, arm: int, view: View) -> int:
    """Returns the bytes that have to be free; more where the arm is not in use already."""
    bytes = need.transient + (0 if arm in view.warm else need.lasting)
    wanted = max(bytes, SMALLEST_NEED)
    if view.incumbent in (None, arm):
        return wanted
    return int(wanted * FIT_MARGIN)
