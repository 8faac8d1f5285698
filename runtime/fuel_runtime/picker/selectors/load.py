# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prices the work of others on a device: an arm gets the share of it that they leave."""

from __future__ import annotations

from collections.abc import Sequence

from fuel_runtime.picker.selectors.interface import Candidate, Verdict, View


def select(candidates: Sequence[Candidate], view: View) -> Verdict:
    """Returns all candidates at the times that they take under the load of their devices."""
    if not view.snapshot.tiers:
        return Verdict(tuple(candidates))
    return Verdict(tuple(_slowed(candidate, view) for candidate in candidates))


def _slowed(candidate: Candidate, view: View) -> Candidate:
    slowdown = max(view.snapshot.tiers_of(device).slowdown for device in candidate.arm.places)
    if slowdown == 1.0:
        return candidate
    return candidate._replace(time_ns=candidate.time_ns * slowdown, is_noisy=True)
