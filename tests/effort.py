# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Divides the checks between `make test`, which takes minutes, and `make test-all`.

`make test` leaves out what carries the marker `slow`: one more of a kind that it tests already, and
what takes long by itself, such as the benchmarks and the packages that are built. It draws fewer
examples of each property. `make test-all` runs all that was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest
from hypothesis import settings

SLOW = pytest.mark.slow

USUAL = 50
"""The examples that the profile `fuel` draws of a property whose test names no number."""


def examples(count: int, **others: Any) -> settings:
    """Returns settings that draw `count` examples, or as many more or fewer as the profile says."""
    profile = settings.default
    drawn = count * (profile.max_examples if profile else USUAL) // USUAL
    return settings(max_examples=max(drawn, 1), **others)


def slow_but(
    values: Iterable[Any], quick: Container[Any], name: Callable[[Any], Any] = lambda value: value
) -> list[Any]:
    """Returns values for `parametrize`: those whose name is not in `quick` are left to test-all."""
    return [pytest.param(value, marks=() if name(value) in quick else SLOW) for value in values]
