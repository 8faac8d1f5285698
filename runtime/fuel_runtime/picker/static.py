# SPDX-License-Identifier: MIT OR Apache-2.0
"""The static picker: a forced arm, else the first arm that this machine can run."""

from __future__ import annotations

from dataclasses import dataclass

from fuel_dialect.errors import DecisionError, DeviceUnavailable

FORCED = "forced"


@dataclass(frozen=True)
class Arm:
    """What a picker knows of one arm; the price is in nanoseconds, None where nobody priced it."""

    target: str
    price_ns: int | None
    origin: str
    unavailable: str | None
    """Why this machine cannot run the arm; None if it can."""


@dataclass(frozen=True)
class Decision:
    """One branch: its path, such as `d0` or `d3/1/d0`, and its arms."""

    path: str
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Choice:
    """The index of an arm, and why it was chosen."""

    arm: int
    reason: str


def pick(decision: Decision, forced: int | None = None) -> Choice:
    """
    The arm to run: `forced` if given, else the first arm that is available.

    Raises `DecisionError` if the forced arm does not exist, and `DeviceUnavailable` if it, or
    every arm, cannot run on this machine.
    """
    if forced is not None:
        return _forced(decision, forced)
    for index, arm in enumerate(decision.arms):
        if arm.unavailable is None:
            return Choice(index, "static winner" if index == 0 else "first arm that can run")
    reasons = "; ".join(f"arm {i}: {arm.unavailable}" for i, arm in enumerate(decision.arms))
    raise DeviceUnavailable(f"decision {decision.path}: no arm can run here: {reasons}")


def _forced(decision: Decision, forced: int) -> Choice:
    count = len(decision.arms)
    if isinstance(forced, bool) or not 0 <= forced < count:
        raise DecisionError(
            f"decision {decision.path} has no arm {forced}; its arms are 0 to {count - 1}"
        )
    unavailable = decision.arms[forced].unavailable
    if unavailable is not None:
        raise DeviceUnavailable(
            f"decision {decision.path}: arm {forced} cannot be forced: {unavailable}"
        )
    return Choice(forced, FORCED)


def why_not(decision: Decision, choice: Choice | None, arm: int) -> str:
    """Why an arm that was not chosen was not; empty for the chosen one."""
    unavailable = decision.arms[arm].unavailable
    if unavailable is not None:
        return f"cannot run here: {unavailable}"
    if choice is None or choice.arm == arm:
        return ""
    if choice.reason == FORCED:
        return f"arm {choice.arm} is forced"
    return f"arm {choice.arm} comes first"
