# SPDX-License-Identifier: MIT OR Apache-2.0
"""Weights that a device has no room for: what is loaded again in each call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_passes.memory.streaming import MOST_WORK, Streaming, next_use, streaming


@pytest.mark.parametrize(
    ("positions", "current", "want"),
    [([0], 0, 0), ([3], 0, 3), ([1], 2, 3), ([0], 3, 1), ([2], 3, 3), ([0, 2], 1, 1), ([0], 4, 0)],
)
def test_the_next_use_comes_with_the_next_call(
    positions: list[int], current: int, want: int
) -> None:
    assert next_use(positions, current, 4) == want


def test_what_fits_is_loaded_once() -> None:
    runs = [{"a": 100, "b": 50}, {"b": 50, "c": 20}]
    assert streaming(runs, 170) == Streaming(loaded=0, resident=170)
    assert streaming(list[dict[str, int]](), 0) == Streaming(0, 0)
    assert streaming([dict[str, int]()], 0) == Streaming(0, 0)


def test_weights_of_two_runs_take_turns() -> None:
    assert streaming([{"a": 100}, {"b": 100}], 100) == Streaming(loaded=200, resident=100)


def test_what_two_runs_share_stays() -> None:
    runs = [{"a": 100, "s": 10}, {"b": 100, "s": 10}]
    assert streaming(runs, 110) == Streaming(loaded=200, resident=110)


def test_a_run_that_needs_more_than_there_is_has_all_to_itself() -> None:
    assert streaming([{"a": 100}, {"b": 300}], 200) == Streaming(loaded=400, resident=300)


def test_of_a_run_only_as_much_gives_way_as_has_to() -> None:
    runs = [{"a": 100, "b": 100, "c": 100}, {"d": 100}]
    assert streaming(runs, 300) == Streaming(loaded=200, resident=300)


def test_large_programs_take_fewer_rounds() -> None:
    runs = [{f"w{n}": 10} for n in range(600)]
    assert len(runs) ** 2 > MOST_WORK
    assert streaming(runs, 10) == Streaming(loaded=6000, resident=10)


@given(st.integers(2, 8), st.integers(1, 8))
def test_of_equal_weights_as_few_are_loaded_as_can_be(runs: int, room: int) -> None:
    """Of n weights in a circle with room for k, every plan loads (n - k) / (n - 1) of them."""
    found = streaming([{f"w{n}": 1000} for n in range(runs)], room * 1000)
    least = max(0, runs - room) * runs / (runs - 1) * 1000
    assert found.resident == min(runs, room) * 1000
    assert abs(found.loaded - least) <= 1000 * runs / 16
