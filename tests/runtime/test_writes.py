# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes into parts: a run writes over what it owns, and over nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement import assert_close, decisions, run
from effort import examples
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.numbers import int_array
from fuel_dialect.ops.control import RunOp
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Executable, Session
from programs import Array, Program, programs

CONTEXT = make_context()
ONES = np.ones(4, np.float32)


def check_ownership(
    executable: Executable, arguments: Sequence[Array], weights: Mapping[str, Array]
) -> tuple[Array, ...]:
    """Two calls: equal results that share no memory; arguments and weights keep every bit."""
    given_arrays = [*arguments, *weights.values()]
    before = [array.tobytes() for array in given_arrays]
    first = executable(*arguments)
    kept = [array.tobytes() for array in first]
    second = executable(*arguments)
    assert [array.tobytes() for array in given_arrays] == before
    assert [array.tobytes() for array in first] == kept
    assert [array.tobytes() for array in second] == kept
    arrays = [*first, *second, *given_arrays]
    for index, array in enumerate(arrays[: len(first) + len(second)]):
        assert not any(np.shares_memory(array, other) for other in arrays[index + 1 :])
    return first


@examples(200)
@given(
    programs(max_ops=8, writes=17),
    st.sampled_from(["bake", "keep"]),
    st.sampled_from(["segment", "chain"]),
    st.booleans(),
    st.data(),
)
def test_random_writes_equal_the_reference_and_write_over_nothing_else(
    program: Program, variants: Any, granularity: Any, optimize: bool, data: st.DataObject
) -> None:
    module = program.module.clone()
    if optimize:
        OptimizePass(variants=variants, granularity=granularity).apply(CONTEXT, module)
    sizes = decisions(module)
    route = {path: data.draw(st.integers(0, arms - 1)) for path, arms in sizes.items()}
    for array in program.weights.values():
        array.flags.writeable = data.draw(st.booleans())
    session = Session(force=route)
    executable = session.compile(module, weights=program.weights, optimize=False)
    kept = {path: arm for path, arm in route.items() if path in decisions(program.module)}
    want = run(program, kept)
    assert_close(check_ownership(executable, program.arguments, program.weights), want)


LEAVES = {
    "weight": 'fuel.weight "w" : tensor<4xf32>',
    "constant": "fuel.const 1.0 : f32 -> tensor<4xf32>",
    "bytes": 'fuel.const #fuel.bytes<"0x0000803F0000803F0000803F0000803F"> -> tensor<4xf32>',
    "iota": "fuel.iota : tensor<4xf32>",
}
WRITES = {
    "part": "%r = fuel.write_slice %w, %d {starts = array<i64: 0>} : tensor<4xf32>, tensor<1xf32>",
    "position": """%p = fuel.cast %n : tensor<i32> -> tensor<ui32>
      %r = fuel.write_slice_doff %w, %d, %p {axis = 0 : i64, starts = array<i64: 0>}
        : tensor<4xf32>, tensor<1xf32>, tensor<ui32>""",
    "ring": """%p = fuel.cast %n : tensor<i32> -> tensor<ui32>
      %r = fuel.write_slice_rotating %w, %d, %p {axis = 0 : i64, modulus = 4 : i64,
        starts = array<i64: 0>} : tensor<4xf32>, tensor<1xf32>, tensor<ui32>""",
    "whole": "%r = fuel.write_slice %w, %e {starts = array<i64: 0>} : tensor<4xf32>, tensor<4xf32>",
}


@pytest.mark.parametrize("options", [{}, {"granularity": "chain"}, {"optimize": False}])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_write_into_a_leaf_leaves_it_as_it_is(
    leaf: str, write: str, options: dict[str, Any]
) -> None:
    text = f"""
    func.func @main(%n: tensor<i32>) -> tensor<4xf32> {{
      %w = {LEAVES[leaf]}
      %e = fuel.add %w, %w : tensor<4xf32>
      %d = fuel.slice %e {{dim = 0 : i64, start = 0 : i64, length = 1 : i64}}
        : tensor<4xf32> -> tensor<1xf32>
      {WRITES[write]}
      func.return %r : tensor<4xf32>
    }}"""
    start = np.arange(4, dtype=np.float32) if leaf == "iota" else ONES
    want = start.copy()
    want[: 4 if write == "whole" else 1] *= 2
    optimize = options.get("optimize", True)
    session_options = {k: v for k, v in options.items() if k != "optimize"}
    for is_writeable in (True, False):
        weights = {"w": ONES.copy()} if leaf == "weight" else {}
        for array in weights.values():
            array.flags.writeable = is_writeable
        exe = Session(**session_options).compile(text, weights=weights, optimize=optimize)
        (y,) = check_ownership(exe, [np.array(0, np.int32)], weights)
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("arm", [0, 1])
def test_a_write_into_a_weight_in_an_arm(arm: int) -> None:
    text = """
    func.func @main(%x: tensor<1xf32>) -> tensor<4xf32> {
      %y = fuel.branch "d"(%a = %x : tensor<1xf32>) -> tensor<4xf32>
      arm on #fuel.target<cpu, "numpy"> {
        %w = fuel.weight "w" : tensor<4xf32>
        %r = fuel.write_slice %w, %a {starts = array<i64: 0>} : tensor<4xf32>, tensor<1xf32>
        fuel.yield %r : tensor<4xf32>
      }
      arm on #fuel.target<cpu, "numpy"> {
        %w = fuel.weight "w" : tensor<4xf32>
        %r = fuel.write_slice %w, %a {starts = array<i64: 1>} : tensor<4xf32>, tensor<1xf32>
        fuel.yield %r : tensor<4xf32>
      }
      func.return %y : tensor<4xf32>
    }"""
    weights = {"w": ONES.copy()}
    exe = Session(force={"d": arm}).compile(text, weights=weights)
    (y,) = check_ownership(exe, [np.array([5], np.float32)], weights)
    want = ONES.copy()
    want[arm] = 5
    np.testing.assert_array_equal(y, want)


def test_a_claim_to_own_an_argument_is_not_believed() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>, %s: tensor<1xf32>) -> tensor<4xf32> {
      %r = fuel.write_slice %x, %s {starts = array<i64: 0>} : tensor<4xf32>, tensor<1xf32>
      func.return %r : tensor<4xf32>
    }"""
    module = parse_module(text)
    OptimizePass().apply(CONTEXT, module)
    (claims,) = (op for op in module.walk() if isinstance(op, RunOp))
    assert claims.reuses is None
    claims.properties["reuses"] = int_array([0])
    exe = Session().compile(module, optimize=False)
    x = ONES.copy()
    (y,) = check_ownership(exe, [x, np.array([7], np.float32)], {})
    np.testing.assert_array_equal(y, [7, 1, 1, 1])
