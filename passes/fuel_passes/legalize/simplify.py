# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-simplify`: the stock canonicalize, cse and dce, until one of them finds nothing more."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """
    Runs xDSL's canonicalize and cse in turn until cse merges nothing, then dce.

    One round is not enough for a second `fuel-optimize` to change nothing: merged values can
    make operands of a branch or a scan equal, which canonicalize then drops.
    """

    name = "fuel-simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        while True:
            CanonicalizePass().apply(ctx, op)
            before = _count(op)
            CommonSubexpressionElimination().apply(ctx, op)
            if _count(op) == before:
                break
        DeadCodeElimination().apply(ctx, op)


@dataclass(frozen=True)
class SimplifyAfter(ModulePass):
    """
    A pass that inserts ops, and `fuel-simplify` if it did.

    What it inserted folds and merges at once, and not when the pipeline is applied again.
    """

    name = "fuel-simplify-after"

    inner: ModulePass

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        before = _count(op)
        self.inner.apply(ctx, op)
        if _count(op) != before:
            SimplifyPass().apply(ctx, op)


def _count(module: ModuleOp) -> int:
    """Returns the number of ops; `walk` would take several times as long."""
    count, pending = 0, list(module.regions)
    while pending:
        for block in pending.pop().blocks:
            for op in block.ops:
                count += 1
                if op.regions:
                    pending += op.regions
    return count
