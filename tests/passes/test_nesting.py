# SPDX-License-Identifier: MIT OR Apache-2.0
"""Branches in branches and scans in scans: as deep as is allowed, and deeper."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from fuel_dialect.attributes import ArmAttr, TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.control import BranchOp, YieldOp
from fuel_dialect.ops.elementwise import ExpOp, NegOp
from fuel_dialect.ops.scan import ScanOp, ScanYieldOp
from fuel_dialect.tensors import tensor
from fuel_explain.build import explain
from fuel_explain.page import to_html
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import MOST_NESTED
from fuel_runtime import Session

CONTEXT = make_context()
T = tensor((4,), "f32")
CPU = ArmAttr.of(TargetAttr.of("cpu", "numpy"))


def branches(depth: int) -> ModuleOp:
    """Each negates, and then decides between what is in it and an exponential."""
    block, value = _negated()
    block.add_op(YieldOp(value))
    for level in range(depth):
        other = Block(arg_types=[T])
        exponential = ExpOp.make(other.args[0])
        other.add_ops([exponential, YieldOp(exponential.result)])
        outer, value = _negated()
        arms = [(CPU, Region(block)), (CPU, Region(other))]
        branch = BranchOp(f"d{level}", [value], [T], arms)
        outer.add_op(branch)
        outer.add_op((ReturnOp if level == depth - 1 else YieldOp)(branch.results[0]))
        block = outer
    return _module(block)


def _negated() -> tuple[Block, SSAValue]:
    block = Block(arg_types=[T])
    op = NegOp.make(block.args[0])
    block.add_op(op)
    return block, op.result


def _module(block: Block) -> ModuleOp:
    return ModuleOp([FuncOp("main", FunctionType.from_lists([T], [T]), Region(block))])


def test_as_deep_as_is_allowed():
    module = branches(MOST_NESTED)
    explanation = explain(module, OptimizePass(topology="cpu+h100"))
    assert len(explanation.functions[0].decisions) >= MOST_NESTED
    assert "d0" in to_html(explanation)
    module.verify()
    x = np.array([1, 2, 3, -4], np.float32)
    (result,) = Session().compile(branches(MOST_NESTED))(x)
    np.testing.assert_array_equal(result, -x)


@pytest.mark.parametrize("depth", [MOST_NESTED + 1, 150, 400])
@pytest.mark.parametrize("topology", ["cpu", "cpu+h100"])
def test_deeper_is_one_error(depth: int, topology: str):
    module = branches(depth)
    with pytest.raises(FuelPassError, match=r"branch is nested more than 64 deep in @main; put "):
        OptimizePass(topology=topology).apply(CONTEXT, module)


def test_scans_in_scans_that_are_too_deep():
    block, value = _negated()
    block.add_op(ScanYieldOp([value], []))
    for level in range(MOST_NESTED + 1):
        outer, value = _negated()
        scan = ScanOp([value], [], [], 1, Region(block))
        outer.add_op(scan)
        is_last = level == MOST_NESTED
        (end,) = scan.results
        outer.add_op(ReturnOp(end) if is_last else ScanYieldOp([end], []))
        block = outer
    with pytest.raises(FuelPassError, match=r"scan is nested more than 64 deep in @main; put "):
        OptimizePass().apply(CONTEXT, _module(block))
