# SPDX-License-Identifier: MIT OR Apache-2.0
"""Puts measured times in the place of modelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from fuel_runtime.picker.selectors.interface import NO_TIME, Candidate, Verdict, View


def select(candidates: Sequence[Candidate], view: View) -> Verdict:
    """
    Returns the candidates at their measured times.

    Where some arms are measured, the prices of the others are off by as much as those of the
    measured arms of the same target are. An arm with neither time nor price cannot be compared, and
    measured times say nothing then.
    """
    if view.measured is None:
        return Verdict(tuple(candidates))
    known = {c.number: measured_ns(c, view) for c in candidates}
    if any(known[c.number] is None and c.time_ns <= NO_TIME for c in candidates):
        return Verdict(tuple(candidates))
    off = _off_by(candidates, known)
    return Verdict(tuple(_timed(c, known[c.number], off) for c in candidates))


def measured_ns(candidate: Candidate, view: View) -> int | None:
    """Returns what an arm took; None where nobody measured it."""
    key = candidate.arm.key
    return None if key is None or view.measured is None else view.measured.measured_ns(key)


def _off_by(candidates: Sequence[Candidate], known: dict[int, int | None]) -> dict[str, float]:
    """Returns how many times as long as modelled the measured arms of each target take."""
    ratios: dict[str, list[float]] = {}
    for candidate in candidates:
        measured, price = known[candidate.number], candidate.arm.price_ns
        if measured and price:
            ratios.setdefault(candidate.arm.target, []).append(measured / price)
    return {target: sqrt(min(found) * max(found)) for target, found in ratios.items()}


def _timed(candidate: Candidate, measured: int | None, off: dict[str, float]) -> Candidate:
    if measured is not None:
        return candidate._replace(time_ns=float(max(measured, 1)), is_noisy=True)
    factor = off.get(candidate.arm.target)
    if factor is None:
        return candidate
    return candidate._replace(time_ns=candidate.time_ns * factor, is_noisy=True)
