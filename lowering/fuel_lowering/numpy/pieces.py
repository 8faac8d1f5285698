# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Computes piece by piece what NumPy or Python would make copies or objects of as a whole.

What these functions take for themselves is in no plan, so it is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fuel_dialect.reference.precision import Array

MOST_OBJECTS = 1024
"""The elements that are Python's floats at one time, of 32 bytes each."""

MOST_COPIED = 1 << 18
"""The bytes that `argmax` and `argmin` of NumPy are given at most, if they copy them."""

_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def erf64(x: Array, out: Array) -> None:
    """Computes the error function of f64."""
    _by_element(_erf, x, out)


def erfc64(x: Array, out: Array) -> None:
    """Computes the complementary error function of f64."""
    _by_element(_erfc, x, out)


def _by_element(function: Callable[[Array], Array], x: Array, out: Array) -> None:
    """Fills `out`, which may be `x`, with what a function of Python makes of each element."""
    if out.size <= MOST_OBJECTS:
        np.copyto(out, function(x), casting="unsafe")
        return
    pieces = np.nditer(
        [x, out],
        ["external_loop", "buffered", "copy_if_overlap"],
        [["readonly", "overlap_assume_elementwise"], ["writeonly", "overlap_assume_elementwise"]],
        buffersize=MOST_OBJECTS,
    )
    with pieces:
        for given, found in pieces:
            found[...] = function(given)


def argmax(x: Array, axis: int, out: Array) -> None:
    """Finds the first NaN, else the first of the largest, along an axis; `out` may have it as 1."""
    _along(np.argmax, x, axis % x.ndim, _without(out, axis, x.ndim))


def argmin(x: Array, axis: int, out: Array) -> None:
    """Finds the first NaN, else the first of the smallest, along an axis, as `argmax`."""
    _along(np.argmin, x, axis % x.ndim, _without(out, axis, x.ndim))


def _without(out: Array, axis: int, rank: int) -> Array:
    return out.squeeze(axis) if out.ndim == rank else out


def _along(function: Callable[..., Any], x: Array, axis: int, out: Array) -> None:
    """NumPy copies what it is given unless rows of the axis lie one after the other in memory."""
    is_in_order = axis == x.ndim - 1 and x.flags.c_contiguous
    if is_in_order or x.nbytes <= MOST_COPIED:
        function(x, axis, out)
        return
    others = [a for a in range(x.ndim) if a != axis and x.shape[a] > 1]
    if not others:
        out[...] = _of_row(function, x.reshape(-1))
        return
    cut = max(others, key=lambda a: x.shape[a])
    step = max(1, MOST_COPIED * x.shape[cut] // x.nbytes)
    for start in range(0, x.shape[cut], step):
        part = slice(start, start + step)
        piece = x[(slice(None),) * cut + (part,)]
        _along(function, piece, axis, out[(slice(None),) * (cut - (cut > axis)) + (part,)])


def _of_row(function: Callable[..., Any], row: Array) -> int:
    """Returns the index in a row, which is the first among those in its pieces."""
    step = max(1, MOST_COPIED // row.itemsize)
    starts = range(0, row.size, step)
    found = [start + int(function(row[start : start + step])) for start in starts]
    return found[int(function(row[found]))]
