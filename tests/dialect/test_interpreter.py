# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions, decisions, weights and scans, against loops written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.context import parse_module
from fuel_dialect.errors import ArgumentError, DecisionError, IndexOutOfRange, WeightError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.reference.precision import Array

NESTED = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = fuel.branch "d3"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.add_scalar %a {scalar = 1.0 : f64} : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.copy %a to #fuel.device<cuda:0> : tensor<2xf32>
    %1 = fuel.branch "d0"(%b = %0 : tensor<2xf32>) -> tensor<2xf32>
    arm on #fuel.target<cuda:0, "triton"> {
      %2 = fuel.add_scalar %b {scalar = 10.0 : f64} : tensor<2xf32>
      fuel.yield %2 : tensor<2xf32>
    }
    arm on #fuel.target<cuda:0, "cublas"> {
      %2 = fuel.add_scalar %b {scalar = 20.0 : f64} : tensor<2xf32>
      fuel.yield %2 : tensor<2xf32>
    }
    fuel.yield %1 : tensor<2xf32>
  }
  func.return %y : tensor<2xf32>
}
"""


def call(module: ModuleOp, *args: Array, **options: Any) -> list[Any]:
    return [r.tolist() for r in evaluate(module, *args, **options)]


@pytest.mark.parametrize(
    ("arms", "added"),
    [({}, 1.0), ({"d3": 0, "d0": 1}, 1.0), ({"d3": 1}, 10.0), ({"d3": 1, "d3/1/d0": 1}, 20.0)],
)
def test_decisions_are_named_by_path(arms: dict[str, int], added: float):
    x = np.array([1.0, 2.0], np.float32)
    assert call(parse_module(NESTED), x, arms=arms) == [[1.0 + added, 2.0 + added]]


def test_a_missing_arm_is_an_error():
    x = np.zeros(2, np.float32)
    with pytest.raises(DecisionError, match="branch 'd3/1/d0' has 2 arms, not an arm 2"):
        evaluate(parse_module(NESTED), x, arms={"d3": 1, "d3/1/d0": 2})


def test_wrong_calls_are_errors():
    module = parse_module(NESTED)
    with pytest.raises(ArgumentError, match="takes 1 arguments, got 0"):
        evaluate(module)
    with pytest.raises(ArgumentError, match=r"argument 0 is float32\[3\], expected tensor<2xf32>"):
        evaluate(module, np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match=r"argument 0 is float64\[2\]"):
        evaluate(module, np.zeros(2))
    with pytest.raises(ArgumentError, match="no function 'other'; there are main"):
        evaluate(module, np.zeros(2, np.float32), entry="other")


def test_weights_are_bound_by_name_and_checked():
    module = parse_module("""
    func.func @second() -> tensor<2xf32> {
      %w = fuel.weight "a.b" : tensor<2xf32>
      %r = fuel.run on #fuel.target<cpu, "numpy"> (%a = %w : tensor<2xf32>) -> tensor<2xf32> {
        %k = fuel.kernel pointwise "neg"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
          %0 = fuel.neg %b : tensor<2xf32>
          fuel.yield %0 : tensor<2xf32>
        }
        fuel.yield %k : tensor<2xf32>
      }
      %m = fuel.move %r to #fuel.device<cuda:0> : tensor<2xf32>
      func.return %m : tensor<2xf32>
    }
    """)
    weights = {"a.b": np.array([1.0, 2.0], np.float32)}
    assert call(module, entry="second", weights=weights) == [[-1.0, -2.0]]
    with pytest.raises(WeightError, match=r"weight 'a.b' is missing; given are c"):
        evaluate(module, entry="second", weights={"c": weights["a.b"]})
    with pytest.raises(WeightError, match=r"weight 'a.b' is float64\[2\], expected float32\[2\]"):
        evaluate(module, entry="second", weights={"a.b": np.zeros(2)})


def test_an_index_error_reaches_the_caller():
    module = parse_module("""
    func.func @main(%x: tensor<3xf32>, %i: tensor<2xui32>) -> tensor<2xf32> {
      %0 = fuel.index_select %x, %i {dim = 0 : i64} : tensor<3xf32>, tensor<2xui32> -> tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }
    """)
    x = np.array([1.0, 2.0, 3.0], np.float32)
    assert call(module, x, np.array([2, 0], np.uint32)) == [[3.0, 1.0]]
    with pytest.raises(IndexOutOfRange, match="index 3 is out of range for extent 3"):
        evaluate(module, x, np.array([0, 3], np.uint32))


def scan(length: int, reverse: bool, limit: bool) -> ModuleOp:
    """carry = (carry + row) * k, y = carry + row; `limit` stops when the next carry is above 5."""
    stop = """
        %bound = fuel.const 5.0 : f64 -> tensor<1xf64>
        %stop = fuel.gt %next, %bound : tensor<1xf64> -> tensor<1xi1>
    """
    until, steps = (" until %stop : tensor<1xi1>", ", tensor<ui32>") if limit else ("", "")
    names = "%c, %d, %ys, %steps" if limit else "%c, %d, %ys"
    results = f"tensor<1xf64>, tensor<f64>, tensor<{length}x1xf64>{steps}"
    return parse_module(f"""
    func.func @main(%h: tensor<1xf64>, %n: tensor<f64>, %x: tensor<{length}x1xf64>,
                    %k: tensor<1xf64>) -> ({results}) {{
      {names} = fuel.scan init(%a = %h : tensor<1xf64>, %b = %n : tensor<f64>)
          xs(%row = %x : tensor<{length}x1xf64>) consts(%w = %k : tensor<1xf64>)
          length {length} {"reverse" if reverse else ""} -> ({results}) {{
        %y = fuel.add %a, %row : tensor<1xf64>
        %next = fuel.mul %y, %w : tensor<1xf64>
        %count = fuel.add_scalar %b {{scalar = 1.0 : f64}} : tensor<f64>
        {stop if limit else ""}
        fuel.scan_yield carry(%next, %count : tensor<1xf64>, tensor<f64>)
            ys(%y : tensor<1xf64>){until}
      }}
      func.return {names} : {results}
    }}
    """)


@given(
    rows=st.lists(st.integers(-3, 4), max_size=6),
    reverse=st.booleans(),
    limit=st.booleans(),
    factor=st.sampled_from([1.0, -0.5, 2.0]),
)
def test_a_scan_is_a_loop(rows: list[int], reverse: bool, limit: bool, factor: float):
    carry, ys, done = 0.25, [0.0] * len(rows), 0
    order = range(len(rows))
    for row in reversed(order) if reverse else order:
        ys[row] = carry + rows[row]
        carry, done = ys[row] * factor, done + 1
        if limit and carry > 5:
            break
    results = call(
        scan(len(rows), reverse, limit),
        np.array([0.25]),
        np.zeros(()),
        np.array(rows, np.float64).reshape(-1, 1),
        np.array([factor]),
    )
    assert results[:3] == [[carry], float(done), [[y] for y in ys]]
    assert results[3:] == ([done] if limit else [])


def test_a_scan_keeps_the_step_that_fires_and_leaves_the_rest_zero():
    rows = np.array([[1.0], [9.0], [1.0], [1.0]])
    one, zero = np.ones(1), np.zeros(())
    carry, done, ys, steps = call(scan(4, False, True), np.zeros(1), zero, rows, one)
    assert (carry, done, ys, steps) == ([10.0], 2.0, [[1.0], [10.0], [0.0], [0.0]], 2)
    carry, done, ys, steps = call(scan(4, True, True), np.zeros(1), zero, rows, one)
    assert (carry, done, ys, steps) == ([11.0], 3.0, [[0.0], [11.0], [2.0], [1.0]], 3)


def test_until_may_look_at_the_carry_before_the_step():
    module = parse_module("""
    func.func @main(%n: tensor<i32>) -> (tensor<i32>, tensor<5xi32>, tensor<ui32>) {
      %r:3 = fuel.scan init(%a = %n : tensor<i32>) length 5
          -> (tensor<i32>, tensor<5xi32>, tensor<ui32>) {
        %next = fuel.add_scalar %a {scalar = 1.0 : f64} : tensor<i32>
        %two = fuel.const 2 : i32 -> tensor<i32>
        %stop = fuel.eq %a, %two : tensor<i32> -> tensor<i1>
        fuel.scan_yield carry(%next : tensor<i32>) ys(%a : tensor<i32>) until %stop : tensor<i1>
      }
      func.return %r#0, %r#1, %r#2 : tensor<i32>, tensor<5xi32>, tensor<ui32>
    }
    """)
    assert call(module, np.array(0, np.int32)) == [3, [0, 1, 2, 0, 0], 3]
    assert call(module, np.array(2, np.int32)) == [3, [2, 0, 0, 0, 0], 1]


def test_a_scan_of_no_steps_gives_its_carries_and_empty_ys():
    module = parse_module("""
    func.func @main(%h: tensor<2xbf16>) -> (tensor<2xbf16>, tensor<0x2x3xi8>, tensor<ui32>) {
      %r:3 = fuel.scan init(%a = %h : tensor<2xbf16>) length 0
          -> (tensor<2xbf16>, tensor<0x2x3xi8>, tensor<ui32>) {
        %y = fuel.const 1 : i8 -> tensor<2x3xi8>
        %stop = fuel.const true -> tensor<i1>
        fuel.scan_yield carry(%a : tensor<2xbf16>) ys(%y : tensor<2x3xi8>) until %stop : tensor<i1>
      }
      func.return %r#0, %r#1, %r#2 : tensor<2xbf16>, tensor<0x2x3xi8>, tensor<ui32>
    }
    """)
    import ml_dtypes

    carry, ys, steps = evaluate(module, np.array([1.0, 2.0], ml_dtypes.bfloat16))
    assert [float(v) for v in carry] == [1.0, 2.0]
    assert (ys.shape, ys.dtype) == ((0, 2, 3), np.int8)
    assert (steps.item(), steps.dtype) == (0, np.uint32)


def test_long_chains_do_not_recurse():
    lines = [
        f"%{i + 1} = fuel.add_scalar %{i} {{scalar = 1.0 : f64}} : tensor<i32>" for i in range(2000)
    ]
    module = parse_module(f"""
    func.func @main(%0: tensor<i32>) -> tensor<i32> {{
      {chr(10).join(lines)}
      func.return %2000 : tensor<i32>
    }}
    """)
    assert call(module, np.array(5, np.int32)) == [2005]
