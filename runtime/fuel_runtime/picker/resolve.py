# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a decision: a chain of selectors over the arms of a branch. Pure, and within 50 us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

from fuel_dialect.errors import DecisionError, DeviceUnavailable, PluginError
from fuel_dialect.plugins import SELECTORS, Plugin, found, guarded
from fuel_passes.planning.measurements import MeasurementSource
from fuel_runtime.picker.decision import Decision, Pick
from fuel_runtime.picker.policy import Policy
from fuel_runtime.picker.selectors import eligibility, explore, load, measured, memory_guard, static
from fuel_runtime.picker.selectors.interface import (
    Candidate,
    Selector,
    Verdict,
    View,
    candidates_of,
)
from fuel_runtime.telemetry.signals import NOTHING, Snapshot

FORCED = "forced"

FIRST: tuple[Selector, ...] = (eligibility.select,)
STOCK: tuple[Selector, ...] = (measured.select, memory_guard.select, explore.select, load.select)
"""Times are put in first, so that what comes after can stretch them."""

LOOKAHEAD_K = 3
"""The most coupled decisions that might be made together; they are made one by one, in order."""

NO_POLICY = Policy()


def resolve(
    decision: Decision,
    snapshot: Snapshot = NOTHING,
    measurements: MeasurementSource | None = None,
    policy: Policy = NO_POLICY,
    *,
    incumbent: int | None = None,
    failed: Mapping[int, str] | None = None,
    warm: frozenset[int] = frozenset(),
    exploring: bool = False,
    plugins: bool = True,
) -> Pick:
    """
    Returns the arm to take, with reasons.

    A forced arm is taken unless it has failed; with a strict policy nothing is taken in its place.
    Raises `DecisionError` for a forced arm that does not exist, and `DeviceUnavailable` where the
    arm that was asked for, or every arm, cannot run.
    """
    view = View(decision, snapshot, measurements, policy, incumbent, failed or {}, warm, exploring)
    asked = _asked(view)
    if asked is not None:
        return asked
    left = candidates_of(decision)
    against: dict[int, str] = {}
    chain = (*FIRST, *(_plugged() if plugins else ()), *STOCK, static.select)
    reason = ""
    for selector in chain:
        verdict = selector(left, view)
        against.update(verdict.dropped)
        if not verdict.left:
            if selector is eligibility.select:
                raise DeviceUnavailable(_nothing_left(decision, against))
            continue
        reason = verdict.reason or reason
        left = verdict.left
        if verdict.reason:
            break
    if failed and left[0].number not in failed:
        first = min(failed)
        reason = f"arm {first}: {against.get(first, failed[first])}"
    return Pick(left[0].number, reason, against)


def _asked(view: View) -> Pick | None:
    """Returns the pick that a person asked for; None if nobody did, or another may take over."""
    decision, policy = view.decision, view.policy
    forced = policy.force.get(decision.path)
    wanted = 0 if forced is None and policy.strict else forced
    if wanted is None:
        return None
    if not 0 <= wanted < len(decision.arms):
        raise DecisionError(
            f"decision {decision.path} has no arm {wanted}; "
            f"its arms are 0 to {len(decision.arms) - 1}"
        )
    how = FORCED if forced is not None else "strict: the static winner"
    verdict = eligibility.select(candidates_of(decision), view)
    against = verdict.dropped.get(wanted)
    if against is None:
        others = {i: f"arm {wanted} is {how}" for i in range(len(decision.arms)) if i != wanted}
        return Pick(wanted, how, {**others, **verdict.dropped})
    if policy.strict or wanted not in view.failed:
        asked = "cannot be forced" if forced is not None else "is the only one that strict allows"
        raise DeviceUnavailable(
            f"decision {decision.path}: arm {wanted} {asked}: "
            f"{decision.arms[wanted].unavailable or against}"
        )
    return None


def _nothing_left(decision: Decision, against: Mapping[int, str]) -> str:
    if all(arm.unavailable is not None for arm in decision.arms):
        reasons = "; ".join(f"arm {i}: {arm.unavailable}" for i, arm in enumerate(decision.arms))
    else:
        reasons = "; ".join(f"arm {i}: {why}" for i, why in sorted(against.items()))
    return f"decision {decision.path}: no arm can run here: {reasons}"


# Selectors of other packages.


@cache
def _plugged() -> tuple[Selector, ...]:
    return tuple(_guarded(plugin) for plugin in found(SELECTORS))


def _guarded(plugin: Plugin) -> Selector:
    """Returns a selector of a package as one whose mistakes name the package."""
    loaded = plugin.load()
    if not callable(loaded):
        raise PluginError(f"{plugin} must be a selector, got {loaded!r}")
    inner = cast("Selector", guarded(str(plugin), loaded))

    def select(candidates: Sequence[Candidate], view: View) -> Verdict:
        verdict = inner(candidates, view)
        known = {candidate.number for candidate in candidates}
        if not isinstance(verdict, Verdict) or any(c.number not in known for c in verdict.left):
            raise PluginError(f"{plugin} must give a Verdict of the candidates, got {verdict!r}")
        return verdict

    return select
