# SPDX-License-Identifier: MIT OR Apache-2.0
"""Picks an arm that nobody has measured, in a call that may measure one."""

from __future__ import annotations

from collections.abc import Sequence

from fuel_runtime.picker.selectors.interface import Candidate, Verdict, View
from fuel_runtime.picker.selectors.measured import measured_ns

EXPLORED = "explored: nobody has measured it"


def select(candidates: Sequence[Candidate], view: View) -> Verdict:
    """Returns the first arm without a measured time that fits, or all candidates."""
    if not view.exploring:
        return Verdict(tuple(candidates))
    unknown = [c for c in candidates if c.rank == 0 and measured_ns(c, view) is None]
    if not unknown or unknown[0].arm.key is None:
        return Verdict(tuple(candidates))
    chosen = unknown[0]
    others = {c.number: f"arm {chosen.number} is explored" for c in candidates if c is not chosen}
    return Verdict((chosen,), others, EXPLORED)
