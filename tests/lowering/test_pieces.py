# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests that computing piece by piece gives what NumPy gives at once, in little memory."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import examples
from fuel_lowering.numpy import pieces

Array = np.ndarray[Any, np.dtype[Any]]


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Draws arrays of few values, so that there are ties, some with NaN, in any order of axes."""
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    seed = np.random.default_rng(draw(st.integers(0, 99)))
    x = seed.integers(0, 4, shape).astype(draw(st.sampled_from(["f4", "f8", "i4", "u1"])))
    if x.dtype.kind == "f":
        x[seed.random(shape) < draw(st.sampled_from([0, 0.05]))] = np.nan
    x = x.transpose(draw(st.permutations(range(x.ndim))))
    return x[:: draw(st.sampled_from([1, 2, -1]))]


@examples(300)
@given(arrays(), st.data(), st.booleans(), st.integers(1, 80))
def test_the_first_of_the_largest_is_found_in_pieces(
    x: Array, data: st.DataObject, keep: bool, most: int
) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "MOST_COPIED", most)
        for whole, by_piece in ((np.argmax, pieces.argmax), (np.argmin, pieces.argmin)):
            want = np.asarray(whole(x, axis=axis, keepdims=keep))
            got = np.full_like(want, -1)
            by_piece(x, axis, got)
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_python_fill_views_in_pieces(dtype: str) -> None:
    x = np.linspace(-6, 6, 12_000).reshape(40, 300).astype(dtype)
    x[3, :5] = np.nan, np.inf, -np.inf, 0.0, -0.0
    for function, by_piece in ((math.erf, pieces.erf64), (math.erfc, pieces.erfc64)):
        for part in (x, x.T, x[::2, ::-3], x[:1], x[0, :1], x[:0]):
            want = np.array([function(v) for v in part.ravel()], dtype).reshape(part.shape)
            for out in (np.empty_like(part), np.empty((*part.shape, 2), dtype)[..., 0]):
                by_piece(part, out)
                np.testing.assert_array_equal(out, want)
            same = part.copy()
            by_piece(same, same)
            np.testing.assert_array_equal(same, want)


@pytest.mark.parametrize(
    "act",
    [
        lambda x: pieces.argmax(x, 0, np.empty(x.shape[1], np.intp)),
        lambda x: pieces.argmin(x.T, 1, np.empty(x.shape[1], np.intp)),
        lambda x: pieces.argmax(x.reshape(-1)[::2], 0, np.empty((), np.intp)),
        lambda x: pieces.erf64(x, x),
    ],
    ids=["leading axis", "transposed", "strided", "erf"],
)
def test_little_memory_is_taken(act: Callable[[Array], None]) -> None:
    x = np.zeros((1000, 500))
    tracemalloc.start()
    act(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300_000
