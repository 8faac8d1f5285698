# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines what a person tells the picker, by decision id, and checks it against a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any, SupportsIndex, cast

from fuel_dialect.errors import DecisionError
from fuel_runtime.picker.decision import Decision


@dataclass(frozen=True)
class Policy:
    """
    Holds the wishes of a person.

    `force` names the arm of a decision. `forbid` names arms that are never run. With `strict` no
    arm runs but the one that was asked for, or the first where nothing was asked: what cannot be
    had is an error. `explore` is the largest share of calls that measure arms nobody has measured.
    With `check_arms` each call runs all arms and compares what they give: within a relative
    difference, or the usual one of each element type where it is True.
    """

    force: Mapping[str, int] = field(default_factory=dict[str, int])
    forbid: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    strict: bool = False
    explore: float = 0.0
    check_arms: bool | float = False

    @staticmethod
    def of(
        force: object = None,
        forbid: object = None,
        strict: object = False,
        explore: object = 0.0,
        check_arms: object = False,
    ) -> Policy:
        """Returns the policy of what a person wrote. Raises `DecisionError`."""
        if not isinstance(strict, bool):
            raise DecisionError(f"session: strict is True or False, not {strict!r}")
        if isinstance(explore, bool) or not isinstance(explore, int | float):
            raise DecisionError(f"session: explore is a share from 0 to 1, not {explore!r}")
        if not 0 <= explore <= 1:
            raise DecisionError(f"session: explore is a share from 0 to 1, got {explore!r}")
        forced = {path: _arm(path, arm) for path, arm in _items("force", force)}
        forbidden = {path: _arms(path, arms) for path, arms in _items("forbid", forbid)}
        for path, arm in forced.items():
            if arm in forbidden.get(path, ()):
                raise DecisionError(f"decision {path}: arm {arm} is forced and forbidden")
        return Policy(forced, forbidden, strict, float(explore), _tolerance(check_arms))

    @property
    def key(self) -> tuple[object, ...]:
        """Returns what has to be equal for two policies to pick alike."""
        forbid = tuple(sorted((path, tuple(sorted(arms))) for path, arms in self.forbid.items()))
        return tuple(sorted(self.force.items())), forbid, self.strict

    def check(self, decisions: Iterable[Decision]) -> None:
        """Raise `DecisionError` for a decision or an arm that a program does not have."""
        known = {decision.path: decision for decision in decisions}
        named = {*self.force, *self.forbid}
        unknown = [path for path in (*self.force, *self.forbid) if path not in known]
        if unknown:
            have = ", ".join(f"{d.path} (arms 0 to {len(d.arms) - 1})" for d in known.values())
            raise DecisionError(
                f"there is no decision {', '.join(map(repr, dict.fromkeys(unknown)))}; "
                f"the program has {have or 'none'}"
            )
        for path in sorted(named):
            self._check_arms(known[path])

    def _check_arms(self, decision: Decision) -> None:
        forbidden = self.forbid.get(decision.path, frozenset())
        asked = [*forbidden, *([self.force[decision.path]] if decision.path in self.force else [])]
        for arm in asked:
            if not 0 <= arm < len(decision.arms):
                raise DecisionError(
                    f"decision {decision.path} has no arm {arm}; "
                    f"its arms are 0 to {len(decision.arms) - 1}"
                )
        if len(forbidden) == len(decision.arms):
            raise DecisionError(f"decision {decision.path}: all its arms are forbidden")


def _items(name: str, given: object) -> Iterable[tuple[str, object]]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise DecisionError(
            f"session: {name} maps decisions to arms, such as {{'d0': 1}}; it is not {given!r}"
        )
    return cast("Mapping[str, object]", given).items()


def _tolerance(given: object) -> bool | float:
    if isinstance(given, bool):
        return given
    if isinstance(given, int | float) and 0 <= given < 1:
        return float(given)
    raise DecisionError(
        "session: check_arms is True, False or a relative difference from 0 and below 1, such as "
        f"1e-3, not {given!r}"
    )


def _arm(path: str, arm: object) -> int:
    number = -1
    if isinstance(arm, SupportsIndex) and not isinstance(arm, bool):
        number = index(arm)
    if number < 0:
        raise DecisionError(f"decision {path}: an arm is a number from 0 upwards, not {arm!r}")
    return number


def _arms(path: str, arms: object) -> frozenset[int]:
    if isinstance(arms, Collection) and not isinstance(arms, str | bytes):
        return frozenset(_arm(path, arm) for arm in cast("Collection[Any]", arms))
    return frozenset((_arm(path, arms),))
