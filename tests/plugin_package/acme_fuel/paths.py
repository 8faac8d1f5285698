# SPDX-License-Identifier: MIT OR Apache-2.0
"""A pathfinder that offers the op's decomposition as an arm, and a pruner."""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.ir import Block
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from acme_fuel.ops import SquaredReluOp
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_passes.forking.arms import drop_arms
from fuel_passes.forking.calls import copy_of_body
from fuel_passes.forking.offers import offer
from fuel_passes.forking.plugins import Pathfinder, Planning, Pruner
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.planning.candidates import Candidates

LEAST_NS = 1_000


class SplitSquaredRelu(RewritePattern):
    """A kernel with a squared_relu is also one with a relu and a square."""

    def __init__(self, candidates: Candidates):
        self.candidates = candidates

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter) -> None:
        if any(isinstance(inner, SquaredReluOp) for inner in op.body.block.ops):
            other = copy_of_body(op)
            _split(other)
            offer(op, other, "acme-split: relu and sqr apart", self.candidates, rewriter)


def _split(block: Block) -> None:
    for op in [op for op in block.ops if isinstance(op, SquaredReluOp)]:
        (value,) = op.decompose(Builder(InsertPoint.before(op)))
        op.result.replace_all_uses_with(value)
        block.erase_op(op)


class DropCheapBranches(RewritePattern):
    """Keeps arm 0 alone where all arms take less than a microsecond."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BranchOp, rewriter: PatternRewriter) -> None:
        prices = [arm.price_ns for arm in op.arms]
        is_cheap = all(price is not None and price < LEAST_NS for price in prices)
        if is_cheap and is_planned_branch(op) and len(prices) > 1:
            drop_arms(op, [0], rewriter)


def _split_pass(planning: Planning) -> RewritePattern:
    return SplitSquaredRelu(planning.candidates)


def _steady_pass(planning: Planning) -> RewritePattern:
    return DropCheapBranches()


SPLIT = Pathfinder(after="fuel-fork-variants", make=_split_pass)
STEADY = Pruner(make=_steady_pass)
