# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Runs every arm of the decisions that a call comes to, and compares what they give.

All arms run on copies of the same arguments and state, before the call itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.errors import ArmsDiffer
from fuel_runtime.call.report import ArmCheck
from fuel_runtime.call.stretch import LEFT

if TYPE_CHECKING:
    from fuel_dialect.dtypes import DType
    from fuel_dialect.ops.control import BranchOp
    from fuel_runtime.call.route import Route
    from fuel_runtime.picker.decision import Decision

Array = np.ndarray[Any, Any]

TOLERANCES: Mapping[int, float] = {64: 1e-9, 32: 1e-4, 16: 2e-2, 8: 0.2}
"""The difference that floats of so many bits may have, unless a session says another."""


class Yields:
    """Keeps copies, on the host, of what some decisions give in one call."""

    def __init__(self, branches: Sequence[BranchOp]):
        self.found: dict[BranchOp, tuple[Array, ...]] = {}
        self._wanted = set(branches)

    def look(
        self, route: Route, choices: Mapping[BranchOp, int], values: Mapping[str, Any]
    ) -> None:
        """Copies what a decision gives as soon as all of it is there: it may be written over."""
        for (branch, _), names in zip(route.decisions, route.yields, strict=True):
            if branch in self._wanted and branch in choices and all(n in values for n in names):
                self.found[branch] = tuple(np.array(values[name]) for name in names)
                self._wanted.remove(branch)


class ArmChecks:
    """Compares arms with the arm that a call takes, and keeps the worst that was found."""

    def __init__(self, entry: str, decisions: Mapping[BranchOp, Decision], tolerance: float | None):
        self.entry = entry
        self.decisions = decisions
        self.tolerance = tolerance
        self.found: dict[tuple[str, int], ArmCheck] = {}
        """The checks so far, by the path of the decision and the arm."""

    def check(
        self,
        taken: Mapping[BranchOp, int],
        forbidden: Mapping[str, frozenset[int]],
        run: Callable[[Mapping[BranchOp, int], Yields], None],
    ) -> None:
        """
        Checks the decisions of a route; `run` makes a call with some arms forced.

        One whose results nothing on the route reads is not computed, and is left out.

        Raises `ArmsDiffer` for an arm that gives something else.
        """
        wanted = Yields(list(taken))
        run({}, wanted)
        for branch, own in taken.items():
            decision = self.decisions[branch]
            for arm, known in enumerate(decision.arms):
                out = arm in forbidden.get(decision.path, ()) or known.unavailable is not None
                if arm != own and not out and branch in wanted.found:
                    self._check_arm(branch, own, arm, wanted.found[branch], run)

    def _check_arm(
        self,
        branch: BranchOp,
        own: int,
        arm: int,
        want: Sequence[Array],
        run: Callable[[Mapping[BranchOp, int], Yields], None],
    ) -> None:
        path, got = self.decisions[branch].path, Yields([branch])
        try:
            run({branch: arm}, got)
        except LEFT as error:
            self._keep(ArmCheck(path, arm, own, 0.0, 0.0, f"{type(error).__name__}: {error}"))
            return
        if branch not in got.found:
            return
        for index, (g, w) in enumerate(zip(got.found[branch], want, strict=True)):
            worst, place = difference(g, w)
            allowed = self._allowed(w)
            self._keep(ArmCheck(path, arm, own, worst, allowed))
            if worst > allowed:
                raise ArmsDiffer(self._message(branch, (own, arm), index, (w, g), place, worst))

    def _allowed(self, array: Array) -> float:
        dtype = dtypes.of(array.dtype)
        if not _is_rounded(dtype):
            return 0.0
        return TOLERANCES[dtype.bits] if self.tolerance is None else self.tolerance

    def _keep(self, check: ArmCheck) -> None:
        key = check.decision, check.arm
        before = self.found.get(key)
        if before is not None and (before.worst, before.error) > (check.worst, check.error):
            check = replace(before, calls=before.calls)
        self.found[key] = replace(check, calls=1 if before is None else before.calls + 1)

    def _message(
        self,
        branch: BranchOp,
        arms: tuple[int, int],
        result: int,
        values: tuple[Array, Array],
        place: tuple[int, ...],
        worst: float,
    ) -> str:
        decision = self.decisions[branch]
        own, other = (f"arm {arm} on {decision.arms[arm].target}" for arm in arms)
        where = f"at {list(place)} of result {result}" if place else f"as result {result}"
        how = "" if worst == inf else f", a relative difference of {worst:.2g}"
        return (
            f"{self.entry}: decision {decision.path}: {other} gives {values[1][place]} {where}, "
            f"{own} gives {values[0][place]}{how}; {self._allowed(values[0]):.2g} is allowed"
        )


def _is_rounded(dtype: DType) -> bool:
    """Returns True for floats, also those that are only stored."""
    return dtype.kind in ("float", "storage")


def difference(got: Array, want: Array) -> tuple[float, tuple[int, ...]]:
    """
    Returns the largest relative difference of two arrays of one shape and dtype, and where it is.

    Floats are compared relative to the element, or to the root mean square of all where that is
    larger: sums that cancel are no difference. NaN equals NaN. Whatever else differs, an integer, a
    mask, an infinity, differs by infinity.
    """
    if not want.size:
        return 0.0, ()
    if not _is_rounded(dtypes.of(want.dtype)):
        off = np.where(got == want, 0.0, inf)
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        finite = np.where(np.isfinite(b), b, 0.0)
        largest = float(np.max(np.abs(finite))) or 1.0
        mean = largest * np.sqrt(np.mean((finite / largest) ** 2))  # a square could overflow
        scale = np.maximum(np.abs(finite), mean)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(all="ignore"):
            off = np.where(same, 0.0, np.abs(a - b) / scale)
        off = np.where(np.isnan(off), inf, off)
    flat = int(np.argmax(off))
    place = tuple(int(i) for i in np.unravel_index(flat, want.shape))
    return float(off[place]), place
