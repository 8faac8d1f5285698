# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drops arms that cannot or may not run, and puts those of suspended devices last."""

from __future__ import annotations

from collections.abc import Sequence

from fuel_runtime.picker.selectors.interface import Candidate, Verdict, View

LAST = 3
"""The rank of an arm whose device is suspended: it is tried where nothing else is left."""


def select(candidates: Sequence[Candidate], view: View) -> Verdict:
    """Returns the arms that this machine, the policy and this call allow."""
    left: list[Candidate] = []
    dropped: dict[int, str] = {}
    forbidden = view.policy.forbid.get(view.decision.path, frozenset[int]())
    suspended = view.snapshot.suspended
    for candidate in candidates:
        index, arm = candidate.number, candidate.arm
        if arm.unavailable is not None:
            dropped[index] = f"cannot run here: {arm.unavailable}"
        elif index in forbidden:
            dropped[index] = "it is forbidden"
        elif index in view.failed:
            dropped[index] = f"it failed in this call: {view.failed[index]}"
        elif suspended and (out := next((d for d in arm.places if d in suspended), None)):
            left.append(candidate.demoted(LAST, f"{out} is suspended: {suspended[out]}"))
        else:
            left.append(candidate)
    return Verdict(tuple(left), dropped)
