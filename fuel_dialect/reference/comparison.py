# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparisons (`fuel_dialect.ops.comparison`): masks, by IEEE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuel_dialect.reference.precision import Array, widen


def _compare(function: Callable[[Array, Array], Any], a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(function(widen(a), widen(b)))


def eq(a: Array, b: Array) -> Array:
    return _compare(np.equal, a, b)


def ne(a: Array, b: Array) -> Array:
    return _compare(np.not_equal, a, b)


def lt(a: Array, b: Array) -> Array:
    return _compare(np.less, a, b)


def le(a: Array, b: Array) -> Array:
    return _compare(np.less_equal, a, b)


def gt(a: Array, b: Array) -> Array:
    return _compare(np.greater, a, b)


def ge(a: Array, b: Array) -> Array:
    return _compare(np.greater_equal, a, b)
