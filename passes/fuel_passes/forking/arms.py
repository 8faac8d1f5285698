# SPDX-License-Identifier: MIT OR Apache-2.0
"""Taking arms out of a branch."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.pattern_rewriter import PatternRewriter

from fuel_dialect.canonicalization.regions import DropOperands
from fuel_dialect.ops.control import BranchOp


def drop_arms(op: BranchOp, kept: Sequence[int], rewriter: PatternRewriter) -> None:
    """Drop the other arms of a branch, and the operands that only they read."""
    for index, region in enumerate(list(op.arm_regions)):
        if index in kept:
            continue
        for inner in region.walk():
            rewriter.handle_operation_removal(inner)
        op.detach_region(region).erase()
    op.properties["arms"] = ArrayAttr([op.arms.data[index] for index in kept])
    rewriter.notify_op_modified(op)
    DropOperands().match_and_rewrite(op, rewriter)
