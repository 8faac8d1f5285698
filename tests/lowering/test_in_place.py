# SPDX-License-Identifier: MIT OR Apache-2.0
"""Results that NumPy computes where an operand lies, and what must not be written over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuel_dialect as fuel
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_lowering.numpy import tiles
from fuel_runtime import Session

RNG = np.random.default_rng(5)
SHAPE = (96, 400)
ARRAY = RNG.standard_normal(SHAPE).astype(np.float32)
SQUARE = (RNG.standard_normal((400, 400)) / 20).astype(np.float32)
BYTES = ARRAY.nbytes
SLACK = 64
"""The bytes by which an arena may have to be moved to lie on a multiple."""


def residual(x: Any, w: Any) -> Any:
    y = (x @ w).tanh()
    return y + (y @ w)


def gated(x: Any, w: Any) -> Any:
    linear = x @ w
    return ((x @ w.transpose()).silu() * linear) @ w


def two_readers(x: Any, w: Any) -> Any:
    y = (x @ w).tanh()
    z = y + (y @ w)
    return (z @ w) * y


def read_twice_by_an_op(x: Any, w: Any) -> Any:
    y = (x @ w).tanh()
    return (y @ w) + y * y


def read_through_a_view(x: Any, w: Any) -> Any:
    y = (x @ w).tanh()
    return (y @ w) + y.flip(0)


def read_in_two_phases(x: Any, w: Any) -> Any:
    y = (x @ w).tanh()
    return (y @ w + y).gelu(), y.exp()


def given_and_read(x: Any, w: Any) -> Any:
    y = (x @ w).tanh()
    return y, y + (y @ w)


def another_type(x: Any, w: Any) -> Any:
    y = (x @ w).cast("bf16")
    return ((y.cast("f32") @ w).cast("bf16") + y).cast("f32").silu()


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    residual,
    gated,
    two_readers,
    read_twice_by_an_op,
    read_through_a_view,
    read_in_two_phases,
    given_and_read,
    another_type,
]


def module_of(program: Callable[[Any, Any], Any]) -> Any:
    graph = fuel.Graph()
    found = program(graph.input(SHAPE, "f32", name="x"), graph.input((400, 400), "f32", name="w"))
    return graph.build(*(found if isinstance(found, tuple) else (found,)))


@pytest.mark.parametrize("lone", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_results_equal_the_reference(
    program: Callable[[Any, Any], Any], threads: int, lone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not lone:
        monkeypatch.setattr(tiles, "LARGE_TILE", 4_000)
        monkeypatch.setattr(tiles, "SMALL_TILE", 4_000)
    module = module_of(program)
    executable = Session(devices="cpu", threads=threads).compile(module)
    given = ARRAY.copy(), SQUARE.copy()
    want = evaluate(module, *given)
    for _ in range(2):
        for got, right in zip(executable(*given), want, strict=True):
            np.testing.assert_allclose(
                got.astype(np.float32), right.astype(np.float32), rtol=2e-2, atol=2e-2
            )
    np.testing.assert_array_equal(given[0], ARRAY)
    np.testing.assert_array_equal(given[1], SQUARE)


def workspace(program: Callable[[Any, Any], Any]) -> int:
    plan = Session(devices="cpu", threads=1).compile(module_of(program)).memory().of("cpu")
    return plan.workspace


def test_a_residual_takes_one_array_beside_the_result() -> None:
    assert workspace(residual) == BYTES + SLACK


def test_a_gate_lies_over_what_it_is_multiplied_with() -> None:
    """The factors of the gate take tiles, not arrays."""
    assert workspace(gated) <= 2 * BYTES + 2 * 4 * tiles.LONE_TILE + SLACK


def test_a_loop_with_a_short_last_tile_for_each_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporaries are whole again for the next index after they were cut for a last tile."""
    monkeypatch.setattr(tiles, "LONE_TILE", 5)
    monkeypatch.setattr(tiles, "MOST_TEMPORARY", 1)
    graph = fuel.Graph()
    x, column = graph.input((3, 7), "f64"), graph.input((3, 1), "f64")
    module = graph.build((x.exp() * column + (x.tanh() * column).exp()) * (x * column).sin())
    executable = Session(devices="cpu", threads=1).compile(module)
    source = executable.source
    assert "divmod(i, 2)" in source
    assert "_whole[:n]" in source
    a, b = RNG.standard_normal((3, 7)), RNG.standard_normal((3, 1))
    for _ in range(2):
        (found,) = executable(a, b)
        want = (np.exp(a) * b + np.exp(np.tanh(a) * b)) * np.sin(a * b)
        np.testing.assert_allclose(found, want, rtol=1e-12)
