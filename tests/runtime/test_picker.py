# SPDX-License-Identifier: MIT OR Apache-2.0
"""The static picker, as the pure function it is."""

from __future__ import annotations

import pytest

from fuel_dialect.errors import DecisionError, DeviceUnavailable
from fuel_runtime.picker.static import Arm, Choice, Decision, pick, why_not


def decision(*unavailable: str | None) -> Decision:
    return Decision("d3/1/d0", tuple(Arm("cpu/numpy", None, "user", why) for why in unavailable))


def test_the_first_arm_wins() -> None:
    assert pick(decision(None, None)) == Choice(0, "static winner")


def test_arms_that_cannot_run_are_passed_over() -> None:
    assert pick(decision("no cuda:0", "no vulkan:0", None)).arm == 2


def test_a_forced_arm_wins() -> None:
    assert pick(decision(None, None), forced=1) == Choice(1, "forced")


@pytest.mark.parametrize("arm", [2, -1, True])
def test_a_forced_arm_must_exist(arm: int) -> None:
    with pytest.raises(DecisionError, match=f"d3/1/d0 has no arm {arm}; its arms are 0 to 1"):
        pick(decision(None, None), forced=arm)


def test_a_forced_arm_must_be_able_to_run() -> None:
    with pytest.raises(DeviceUnavailable, match="d3/1/d0: arm 0 cannot be forced: no cuda:0"):
        pick(decision("no cuda:0", None), forced=0)


def test_some_arm_must_be_able_to_run() -> None:
    with pytest.raises(DeviceUnavailable, match="no arm can run here: arm 0: no x; arm 1: no y"):
        pick(decision("no x", "no y"))


def test_why_not() -> None:
    three = decision(None, "no cuda:0", None)
    first, forced = pick(three), pick(three, forced=2)
    reasons = [why_not(three, first, arm) for arm in range(3)]
    assert reasons == ["", "cannot run here: no cuda:0", "arm 0 comes first"]
    assert why_not(three, forced, 0) == "arm 2 is forced"
    assert why_not(three, None, 0) == ""
