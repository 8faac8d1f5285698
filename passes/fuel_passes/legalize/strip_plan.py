# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-strip-plan`: takes an earlier plan out again, so that the program can be planned anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from fuel_dialect.canonicalization.regions import inline_arm
from fuel_dialect.determinism import mark_deterministic
from fuel_dialect.ops.control import BranchOp, SequenceOp, YieldOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.traits import Container
from fuel_passes.forking.arms import drop_arms
from fuel_passes.forking.dropped import forget_dropped
from fuel_passes.legalize.restore_prepared import restore_prepared
from fuel_passes.planning.states import unplace_states
from fuel_passes.planning.topology import PLAN
from fuel_passes.walk import check_decisions, functions


@dataclass(frozen=True)
class StripPlanPass(ModulePass):
    """
    Removes what planning put in.

    Runs and kernels dissolve into the ops they hold, at the place where they stand; a branch whose
    arm 0 a pass made becomes that arm; arms that passes added to a person's branch go; transfers
    marked `planned` vanish, and so do `fuel.plan`, `fuel.deterministic`,
    `fuel.state_device` and `fuel.dropped`. What prepares weights is put back to where they are
    read.
    What a person wrote stays: branches, pins (`placement`), transfers, and the module's
    `fuel.topology`. Leaves that were cloned into runs come back as ops of their own, which cse
    merges.

    Refuses a function in which two branches have the same id. No options.
    """

    name = "fuel-strip-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_decisions(op)
        op.attributes.pop(PLAN, None)
        mark_deterministic(op, False)
        for function in functions(op):
            unplace_states(function)
            forget_dropped(function)
        if any(_is_planned(inner) for inner in op.walk()):
            patterns = GreedyRewritePatternApplier(
                [Dissolve(), TakeFirstArm(), DropPlannedArms(), DropTransfer()]
            )
            PatternRewriteWalker(patterns, apply_recursively=False).rewrite_module(op)
        restore_prepared(op)


def _is_planned(op: Operation) -> bool:
    if isinstance(op, BranchOp):
        return any(arm.is_planned for arm in op.arms)
    if isinstance(op, TransferOp):
        return op.planned is not None
    return isinstance(op, SequenceOp) and op.has_trait(Container)


def is_planned_branch(op: BranchOp) -> bool:
    """Returns True if a pass made the branch: then arm 0 is what stood there before."""
    return bool(op.arms.data) and op.arms.data[0].is_planned


def added_arms(op: BranchOp) -> list[int]:
    """Positions of the arms that passes added to what stood there before."""
    return [index for index, arm in enumerate(op.arms) if index and arm.is_planned]


class Dissolve(RewritePattern):
    """A run or a kernel is the ops that it holds."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SequenceOp, rewriter: PatternRewriter) -> None:
        if op.has_trait(Container):
            dissolve(op, rewriter)


def dissolve(op: SequenceOp, rewriter: PatternRewriter) -> None:
    """Replace a sequence op by the ops of its body."""
    block = op.body.block
    end = cast(YieldOp, block.last_op)
    outer: dict[SSAValue, SSAValue] = dict(zip(block.args, op.inputs, strict=True))
    results = [outer.get(value, value) for value in end.operands]
    rewriter.erase(end)
    rewriter.inline_block(block, InsertPoint.before(op), op.inputs)
    rewriter.replace(op, [], results)


class TakeFirstArm(RewritePattern):
    """A branch that a pass made is its arm 0."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BranchOp, rewriter: PatternRewriter) -> None:
        if is_planned_branch(op):
            inline_arm(op, 0, rewriter)


class DropPlannedArms(RewritePattern):
    """A person's branch loses the arms that passes added to it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BranchOp, rewriter: PatternRewriter) -> None:
        added = added_arms(op)
        if added and not is_planned_branch(op):
            drop_arms(op, [i for i in range(len(op.arms)) if i not in added], rewriter)


class DropTransfer(RewritePattern):
    """A transfer that a pass made is its operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransferOp, rewriter: PatternRewriter) -> None:
        if op.planned is not None:
            rewriter.replace(op, [], [op.input])
