# SPDX-License-Identifier: MIT OR Apache-2.0
"""Canonicalisation keeps what a function computes, by every arm, and has a fixed point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination

from fuel_dialect import dtypes
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import tensor_type
from ops_on_arrays import floats, same_bits

SOURCE = Path(__file__).parents[2] / "filecheck" / "dialect" / "canonicalize.mlir"
CONTEXT = make_context()
WEIGHTS = {"w": np.array([1.0, 2.0, 3.0, 4.0], np.float32)}


def source() -> ModuleOp:
    return parse_module(SOURCE.read_text(), context=CONTEXT)


def canonicalized(module: ModuleOp) -> ModuleOp:
    CommonSubexpressionElimination().apply(CONTEXT, module)
    CanonicalizePass().apply(CONTEXT, module)
    module.verify()
    return module


FUNCTIONS = {op.sym_name.data: op for op in source().ops if isinstance(op, FuncOp)}


def arguments(function: FuncOp) -> list[Array]:
    types = [tensor_type(argument) for argument in function.body.block.args]
    return [
        floats(dtypes.of_type(type).name, type.get_shape(), seed) for seed, type in enumerate(types)
    ]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "no_fold"])
def test_results_are_kept_bit_for_bit(name: str):
    before, after = source(), canonicalized(source())
    branches = [op for op in FUNCTIONS[name].walk() if isinstance(op, BranchOp)]
    for arm in range(max([len(op.arm_regions) for op in branches], default=1)):
        arms = {op.id.data: arm for op in branches}
        args = arguments(FUNCTIONS[name])
        expected = evaluate(before, *args, entry=name, weights=WEIGHTS, arms=arms)
        got = evaluate(after, *args, entry=name, weights=WEIGHTS, arms=arms)
        assert len(got) == len(expected)
        assert all(same_bits(a, b) for a, b in zip(got, expected, strict=True))


def test_what_raises_still_raises():
    for module in (source(), canonicalized(source())):
        with pytest.raises(IndexOutOfRange, match=r"^index_select.*: index 7 is out of range"):
            evaluate(module, entry="no_fold")


def test_a_second_time_changes_nothing():
    once = canonicalized(source())
    text = str(once)
    assert str(canonicalized(once)) == text


def test_region_ops_keep_their_attributes_when_results_go():
    module = parse_module(
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y, %z = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
              attributes {note = "kept", placement = #fuel.device<cpu>}
          arm on #fuel.target<cpu, "numpy"> {
            fuel.yield %a, %a : tensor<4xf32>, tensor<4xf32>
          }
          arm on #fuel.target<cpu, "other"> {
            %0 = fuel.neg %a : tensor<4xf32>
            fuel.yield %0, %a : tensor<4xf32>, tensor<4xf32>
          }
          func.return %y : tensor<4xf32>
        }
        """,
        context=CONTEXT,
    )
    (branch,) = (op for op in canonicalized(module).walk() if isinstance(op, BranchOp))
    assert len(branch.outputs) == 1
    assert str(branch.attributes["note"]) == '"kept"'
    assert str(branch.placement) == "cpu"
    assert [len(region.block.ops) for region in branch.arm_regions] == [1, 2]


def test_inlined_decisions_keep_their_ids_apart():
    arm = """
          arm on #fuel.target<cpu, "%s"> {
            %%0 = fuel.%s %%%s : tensor<4xf32>
            fuel.yield %%0 : tensor<4xf32>
          }"""

    def decision(result: str, id: str, operand: str) -> str:
        arms = arm % ("numpy", "relu", "p" + result) + arm % ("other", "neg", "p" + result)
        binding = f"%p{result} = %{operand} : tensor<4xf32>"
        return f'%{result} = fuel.branch "{id}"({binding}) -> tensor<4xf32>{arms}'

    module = parse_module(
        f"""
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
          {decision("y", "d0", "x")}
          %z = fuel.branch "d3"(%a = %y : tensor<4xf32>) -> tensor<4xf32>
          arm on #fuel.target<cpu, "numpy"> {{
            {decision("v", "d0", "a")}
            {decision("w", "d1", "v")}
            fuel.yield %w : tensor<4xf32>
          }}
          func.return %z : tensor<4xf32>
        }}
        """,
        context=CONTEXT,
    )
    x = np.array([-1.0, 2.0, -3.0, 4.0], np.float32)
    before = evaluate(module, x, arms={"d0": 1, "d3/0/d0": 0, "d3/0/d1": 1})
    branches = [op.id.data for op in canonicalized(module).walk() if isinstance(op, BranchOp)]
    assert branches == ["d0", "d3_d0", "d1"]
    after = evaluate(module, x, arms={"d0": 1, "d3_d0": 0, "d1": 1})
    assert before[0].tolist() == after[0].tolist() == [-1.0, -0.0, -3.0, -0.0]
