# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scans built in Python, against a plain loop, with the contract of `jax.lax.scan`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp

import fuel_dialect as fuel
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.scan import ScanOp


@pytest.fixture
def g():
    return fuel.Graph()


def f32(values):
    return np.array(values, np.float32)


def run(results, *arrays, **keywords):
    return evaluate(results[0].graph.build(results), *arrays, **keywords)


def scan_of(module):
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    return next(op for op in function.body.block.ops if isinstance(op, ScanOp))


@given(st.integers(0, 5), st.booleans())
def test_a_running_sum_is_numpys(length, reverse):
    g = fuel.Graph()
    xs = np.arange(3 * length, dtype=np.float32).reshape(length, 3)
    x = g.input(xs.shape)
    carry, ys = g.scan(
        lambda c, row: (c + row, c * 2), g.constant(f32([1, 2, 3])), x, reverse=reverse
    )
    assert (carry.shape, ys.shape) == ((3,), (length, 3))
    total, stacked = run([carry, ys], xs)
    np.testing.assert_array_equal(total, f32([1, 2, 3]) + xs.sum(0))
    before = f32([1, 2, 3]) + np.cumsum(xs[::-1] if reverse else xs, axis=0) if length else xs
    expected = 2 * np.concatenate([f32([[1, 2, 3]]), before[:-1]]) if length else xs
    np.testing.assert_array_equal(stacked, expected[::-1] if reverse else expected)


def test_carries_xs_and_ys_may_be_tuples(g):
    a, b, x, y = g.input((2,)), g.input((), "i32"), g.input((3, 2)), g.input((3,), "i32")

    def body(carry, row):
        (p, q), (r, s) = carry, row
        return (p + r, q + s), (r * 2, s, q)

    (p, q), ys = g.scan(body, (a, b), [x, y])
    assert [t.shape for t in (p, q, *ys)] == [(2,), (), (3, 2), (3,), (3,)]
    xs, steps = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1, 2, 3], np.int32)
    out = run([p, q, *ys], f32([1, 1]), np.int32(10), xs, steps)
    for got, want in zip(out, [[7, 10], 16, 2 * xs, steps, [10, 11, 13]], strict=True):
        np.testing.assert_array_equal(got, want)


def test_nothing_where_nothing_is_carried_or_given(g):
    x = g.input((3, 2))
    carry, ys = g.scan(lambda c, row: (c, row.neg()), None, x)
    assert carry is None
    count, none = g.scan(lambda c, row: (c + 1, None), g.constant(0, "i32"), length=4)
    assert none is None
    single = g.scan(lambda c, row: (c, ()), (), x)
    assert single == ((), ())
    xs = np.arange(6, dtype=np.float32).reshape(3, 2)
    negated, total = run([ys, count], xs)
    np.testing.assert_array_equal(negated, -xs)
    assert total == 4


def test_zero_length_gives_the_initial_carry_and_typed_empty_ys(g):
    x = g.input((0, 2), "i8")
    carry, ys = g.scan(lambda c, row: (c + 1, row.astype("f16")), g.constant(5, "i32"), x)
    assert (ys.shape, ys.dtype.name) == ((0, 2), "f16")
    first, second = run([carry, ys], np.zeros((0, 2), np.int8))
    assert first == 5
    assert second.shape == (0, 2)


def test_until_stops_after_the_step_that_fires(g):
    x = g.input((5,))
    carry, ys, steps = g.scan(lambda c, v: (c + v, c + v, (c + v) > 5), g.constant(0.0, "f32"), x)
    assert (steps.shape, steps.dtype.name) == ((), "ui32")
    for xs, total, rows, count in [
        ([1, 2, 3, 4, 5], 6, [1, 3, 6, 0, 0], 3),
        ([9, 1, 1, 1, 1], 9, [9, 0, 0, 0, 0], 1),
        ([1, 1, 1, 1, 1], 5, [1, 2, 3, 4, 5], 5),
    ]:
        out = run([carry, ys, steps], f32(xs))
        for got, want in zip(out, [total, rows, count], strict=True):
            np.testing.assert_array_equal(got, want)


def test_until_may_read_the_carry_before_the_step_and_have_any_rank(g):
    _, ys, steps = g.scan(
        lambda c, _: (c + 1, c, (c.reshape(1, 1) >= 2)), g.constant(0, "i32"), length=6
    )
    rows, count = run([ys, steps])
    np.testing.assert_array_equal(rows, [0, 1, 2, 0, 0, 0])
    assert count == 3


def test_consts_are_passed_and_outer_tensors_captured_once(g):
    a, b, w = g.input((2,)), g.input((2,)), g.weight("w", (2,))
    outer = a.exp()

    def body(carry, _, fixed):
        return carry * fixed + outer + outer + w, None

    carry, _ = g.scan(body, a, consts=(b,), length=2)
    module = g.build(carry)
    op = scan_of(module)
    assert [len(group) for group in (op.inits, op.xs, op.consts)] == [1, 0, 2]
    x, y, weight = f32([1, 2]), f32([3, 4]), f32([10, 20])
    expected = x
    for _ in range(2):
        expected = expected * y + np.exp(x) + np.exp(x) + weight
    np.testing.assert_allclose(evaluate(module, x, y, weights={"w": weight})[0], expected)


def test_captures_of_dropped_ops_are_dropped(g):
    a, b = g.input((2,)), g.input((3,))
    c = b.exp()

    def body(carry, _):
        with pytest.raises(fuel.ShapeError):
            carry.subtract(c)
        return carry, None

    carry, _ = g.scan(body, a, length=2)
    assert len(scan_of(g.build(carry)).consts) == 0


def test_scans_nest_and_capture_through_one_another(g):
    x, w = g.input((2, 3)), g.input(())

    def inner(total, value):
        return total + value * w, None

    def outer(total, row):
        after, _ = g.scan(inner, total, row)
        return after, after

    total, ys = g.scan(outer, g.constant(0.0, "f32"), x)
    xs = f32([[1, 2, 3], [4, 5, 6]])
    out = run([total, ys], xs, f32(2))
    np.testing.assert_array_equal(out[0], 42)
    np.testing.assert_array_equal(out[1], [12, 42])


def test_the_body_may_return_outer_tensors_and_leaves(g):
    a = g.input((2,))
    outer = a.neg()
    carry, (ys, zs) = g.scan(lambda c, _: (outer, (outer, g.constant(1, "i8"))), a, length=2)
    out = run([carry, ys, zs], f32([1, 2]))
    for got, want in zip(out, [[-1, -2], [[-1, -2]] * 2, [1, 1]], strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_loop_runs_the_body_once_when_built(g):
    calls = []
    g.scan(lambda c, _: (calls.append(1) or c, None), g.input((2,)), length=1000)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("body", "options", "error", "text"),
    [
        (lambda c, x: (c, None), {}, fuel.InvalidScan, "length must be given"),
        (lambda c, x: (c, None), {"length": -1}, fuel.InvalidScan, ">= 0, got -1"),
        (lambda c, x: (c, None), {"length": 2.5}, fuel.DTypeError, "integer"),
        (lambda c, x: c, {"length": 2}, fuel.InvalidScan, r"must return \(carry, y\)"),
        (lambda c, x: (c,), {"length": 2}, fuel.InvalidScan, r"must return \(carry, y\)"),
        (lambda c, x: ((c, c), None), {"length": 2}, fuel.InvalidScan, "a tensor, got 2 tensors"),
        (lambda c, x: (None, None), {"length": 2}, fuel.InvalidScan, "structure of init"),
        (lambda c, x: (c[:1], None), {"length": 2}, fuel.ShapeError, "carry 0 starts as"),
        (lambda c, x: (c.astype("f64"), None), {"length": 2}, fuel.DTypeError, "carry 0 starts as"),
        (lambda c, x: (c, 3), {"length": 2}, fuel.InvalidScan, "y must be a tensor"),
        (lambda c, x: (c, [3]), {"length": 2}, fuel.InvalidScan, "y holds a int"),
        (lambda c, x: (c, None, c), {"length": 2}, fuel.DTypeError, "until must be a mask"),
        (lambda c, x: (c, None, c > 0), {"length": 2}, fuel.ShapeError, "one element"),
        (lambda c, x: (c, None, True), {"length": 2}, fuel.InvalidScan, "until holds a bool"),
        (lambda c, x: (c.sum_dim(3), None), {"length": 2}, fuel.ShapeError, "out of bounds"),
        (
            lambda c, x: (c.graph.branch(c, [lambda a: a]), None),
            {"length": 2},
            fuel.InvalidScan,
            "not allowed in the body",
        ),
        (
            lambda c, x: (c.graph.open_branch(c).add_arm(c).finalize(c) or c, None),
            {"length": 2},
            fuel.InvalidScan,
            "not allowed in the body",
        ),
        (
            lambda c, x: (c.copy("cuda:0"), None),
            {"length": 2},
            fuel.InvalidScan,
            "copy: a copy is not allowed in the body of a scan, which runs on one device",
        ),
        (
            lambda c, x: (c.move("cuda:0"), None),
            {"length": 2},
            fuel.InvalidScan,
            "move what the scan reads or gives",
        ),
        (lambda c, x: (c.graph.input((2,)), None), {"length": 2}, fuel.GraphError, "outside"),
    ],
)
def test_bodies_that_make_no_scan_leave_the_graph_unchanged(g, body, options, error, text):
    init = g.input((2,))
    with pytest.raises(error, match=text):
        g.scan(body, init, **options)
    assert (g.op_count, len(g.inputs)) == (0, 1)
    assert g.trace.scope is g.trace.root


def test_errors_name_the_index_of_the_carry_or_x(g):
    a, b, x, y = g.input((2,)), g.input((3,)), g.input((4, 2)), g.input((5,))
    for make, error, text in [
        (lambda: g.scan(lambda c, v: ((c[0], c[0]), None), (a, b), x), fuel.ShapeError, "carry 1"),
        (lambda: g.scan(lambda c, v: (c, None), a, (x, y)), fuel.ShapeError, "x 1 .*length 4"),
        (lambda: g.scan(lambda c, v: (c, None), a, x, length=3), fuel.ShapeError, "x 0 .*length 3"),
        (lambda: g.scan(lambda c, v: (c, None), a, g.input(())), fuel.ShapeError, "x 0 has rank 0"),
        (lambda: g.scan(lambda c, v: (c, None), 1.0, x), fuel.InvalidScan, "init must be a tensor"),  # pyright: ignore[reportArgumentType]
        (lambda: g.scan(lambda c, v: (c, None), {"a": a}, x), fuel.InvalidScan, "init must be"),  # pyright: ignore[reportArgumentType]
    ]:
        with pytest.raises(error, match=text):
            make()
    assert g.op_count == 0


def test_values_do_not_leave_the_body(g):
    leaked = []
    g.scan(lambda c, _: (leaked.append(c) or c, None), g.input((2,)), length=2)
    with pytest.raises(fuel.GraphError, match="has ended"):
        leaked[0].relu()


def test_a_gated_recurrent_cell_is_the_plain_loop(g):
    rng = np.random.default_rng(0)
    xs, h0 = f32(rng.normal(size=(6, 3))), f32(rng.normal(size=4))
    wx, wh = f32(rng.normal(size=(3, 8))), f32(rng.normal(size=(4, 8)))
    x, h, a, b = g.input((6, 3)), g.input((4,)), g.weight("wx", (3, 8)), g.weight("wh", (4, 8))

    def cell(state, row):
        gates = row @ a + state @ b
        keep, new = gates[:4].sigmoid(), gates[4:].tanh()
        state = keep * state + (1 - keep) * new
        return state, state

    final, states = run(g.scan(cell, h, x), xs, h0, weights={"wx": wx, "wh": wh})
    expected = []
    for row in xs:
        gates = row @ wx + h0 @ wh
        keep = 1 / (1 + np.exp(-gates[:4]))
        h0 = keep * h0 + (1 - keep) * np.tanh(gates[4:])
        expected.append(h0)
    np.testing.assert_allclose(states, expected, rtol=1e-5)
    np.testing.assert_array_equal(final, states[-1])
