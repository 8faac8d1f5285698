# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ends the chain: the lowest rank, then the least time, then the first arm."""

from __future__ import annotations

from collections.abc import Sequence

from fuel_runtime.picker.selectors.interface import Candidate, Verdict, View

MARGIN = 1.15
"""The factor by which the arm of the last call may be slower than the best and stay."""


def select(candidates: Sequence[Candidate], view: View) -> Verdict:
    """Returns one candidate, and what speaks against each of the others."""
    best = min(candidates, key=lambda c: (c.rank, c.time_ns, c.number))
    kept = next((c for c in candidates if c.number == view.incumbent), None)
    stays = (
        kept is not None
        and kept is not best
        and kept.rank == best.rank
        and (kept.is_noisy or best.is_noisy)
        and kept.time_ns <= best.time_ns * MARGIN
    )
    chosen = kept if stays and kept is not None else best
    dropped = {c.number: _against(c, chosen) for c in candidates if c is not chosen}
    return Verdict((chosen,), dropped, _why(chosen, candidates, stays))


def _why(chosen: Candidate, candidates: Sequence[Candidate], stays: bool) -> str:
    others = [c for c in candidates if c is not chosen]
    if not others:
        return "static winner" if chosen.number == 0 else "first arm that can run"
    if stays:
        return "it ran last, and no other arm is enough faster"
    if chosen.number == 0:
        return "static winner"
    first = min(others, key=lambda c: c.number)
    if first.number > chosen.number:
        return "first arm that can run"
    if first.rank > chosen.rank:
        return f"arm {first.number}: {first.note}"
    return f"{chosen.time_ns:,.0f} ns, arm {first.number} {first.time_ns:,.0f} ns"


def _against(candidate: Candidate, chosen: Candidate) -> str:
    if candidate.rank > chosen.rank:
        return candidate.note
    if candidate.time_ns > chosen.time_ns and (candidate.is_noisy or chosen.is_noisy):
        return f"{candidate.time_ns:,.0f} ns, arm {chosen.number} {chosen.time_ns:,.0f} ns"
    return f"arm {chosen.number} comes first"
