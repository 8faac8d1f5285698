# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory of results is used again only when nobody can see it."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from fuel_lowering.numpy.results import REMEMBERED, Results

F32 = np.dtype(np.float32)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_a_result_that_is_let_go_is_given_out_again() -> None:
    results = Results((4, 8), F32)
    first = results()
    where = address(first)
    assert (first.shape, first.dtype) == ((4, 8), F32)
    assert first.flags.writeable
    assert first.flags.c_contiguous
    del first
    assert address(results()) == where


@pytest.mark.parametrize(
    "hold",
    [
        lambda a: a,
        lambda a: a[1:],
        lambda a: a.T,
        lambda a: a.view(np.int32)[::2],
        lambda a: memoryview(a),
        lambda a: np.asarray(memoryview(a)),
        lambda a: np.from_dlpack(a),
        lambda a: a.reshape(-1).reshape(2, 16)[0],
        lambda a: a.ctypes,
        lambda a: {"nested": [a]},
    ],
)
def test_a_result_that_is_held_in_any_form_is_not(hold: object) -> None:
    results = Results((4, 8), F32)
    held = hold(results())  # pyright: ignore[reportCallIssue]
    others = [results() for _ in range(REMEMBERED + 2)]
    spans = [(address(o), address(o) + o.nbytes) for o in others]
    assert len(set(spans)) == len(spans)
    del held
    del others
    again = [results() for _ in range(REMEMBERED)]
    assert len({address(a) for a in again}) == REMEMBERED


def test_held_values_stay_as_they_are() -> None:
    results = Results((3,), F32)
    kept = []
    for number in range(6):
        array = results()
        array[:] = number
        kept.append(array[:2])
    assert [k.tolist() for k in kept] == [[n, n] for n in range(6)]


def test_no_more_is_remembered_than_stated() -> None:
    results = Results((3,), F32)
    many = [results() for _ in range(10)]
    bases = [weakref.ref(a.base) for a in many]
    del many
    assert sum(base() is not None for base in bases) == REMEMBERED
