# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests that timing takes a bounded share of the time of calls, whatever calls and timing take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_runtime.call.timed_calls import LEAST_EVERY, MOST_EVERY, SHARE, TimedCalls
from live_programs import ONE, Lab, X, one


@given(st.floats(1, 1e9), st.floats(0, 1e9))
def test_timing_takes_a_share_of_the_time_of_calls(plain: float, more: float) -> None:
    counter, calls, spent, wasted = TimedCalls(), 0, 0.0, 0.0
    for round in range(6):
        calls = counter.left
        assert LEAST_EVERY <= calls <= MOST_EVERY
        counter.left = 0
        assert not counter.is_plain_known
        counter.plain(plain)
        assert counter.is_plain_known
        assert counter.left == 1
        counter.timed(plain + more)
        if round:
            spent, wasted = spent + calls * plain, wasted + more
    assert wasted <= SHARE * spent * 1.001 or calls == MOST_EVERY


def test_one_call_that_is_slow_is_forgotten() -> None:
    counter = TimedCalls()
    counter.plain(1_000)
    counter.timed(1_000_000)
    assert counter.every > 500 / SHARE
    for _ in range(40):
        counter.plain(1_000)
        counter.timed(2_000)
    assert counter.every <= 1.1 / SHARE


@pytest.mark.parametrize("telemetry", [True, False])
def test_calls_are_timed_now_and_then(telemetry: bool, tmp_path: Path) -> None:
    lab = Lab()
    exe = lab.compile(ONE, measurements=str(tmp_path / "t.db"))
    if telemetry:
        lab.poll()
    live = exe._live  # pyright: ignore[reportPrivateUsage]
    assert live is not None
    counter, timed = live.counter, 0
    assert counter is not None
    inner = live.timed

    def watched(*given: object, **named: object) -> object:
        nonlocal timed
        timed += 1
        return inner(*given, **named)  # pyright: ignore[reportArgumentType]

    live.timed = watched  # type: ignore[method-assign, assignment]
    for call in range(3 * LEAST_EVERY):
        np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5)
        counter.every = counter.left = min(counter.left, LEAST_EVERY)
        assert timed <= call // LEAST_EVERY + 1
    assert timed == 2
