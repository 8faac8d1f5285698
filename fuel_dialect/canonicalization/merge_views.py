# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Views of views become one view, so that a reader of a long chain repeats a short one.

Slices and flips of different dims commute; they are sorted by dim, the least innermost, so that
those of one dim meet. A view merges only with one that is pinned as it is. `reorder_views` brings
views of one kind together.
"""

from __future__ import annotations

from typing import cast

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from fuel_dialect.canonicalization.views import axes_of, inner_of, like
from fuel_dialect.numbers import int_array, int_value, integer
from fuel_dialect.ops.shape import (
    BroadcastToOp,
    FlipOp,
    PermuteOp,
    ReshapeOp,
    ShapeOp,
    SliceOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)

LOOK_BACK = 8
"""At most this many squeezes and unsqueezes in a row are compared with one another."""


class SkipInner(RewritePattern):
    """A reshape of a reshape, or of what adds and takes unit dims, and a broadcast of another."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp | BroadcastToOp, rewriter: PatternRewriter) -> None:
        is_broadcast = isinstance(op, BroadcastToOp)
        kinds = (BroadcastToOp,) if is_broadcast else (ReshapeOp, SqueezeOp, UnsqueezeOp)
        inner = inner_of(op, *kinds)
        if inner is not None:
            op.operands[0] = inner.input
            rewriter.notify_op_modified(op)


class MergeUnitDims(RewritePattern):
    """Unit dims that come and go: the value that had the same shape before them."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SqueezeOp | UnsqueezeOp, rewriter: PatternRewriter) -> None:
        inner: ShapeOp | None = op
        for _ in range(LOOK_BACK):
            inner = inner_of(inner, SqueezeOp, UnsqueezeOp)
            if inner is None:
                return
            if inner.input.type == op.result.type:
                rewriter.replace(op, [], [inner.input])
                return


class MergePermutations(RewritePattern):
    """A permutation of a permutation; a transpose is one of the last two dims."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PermuteOp | TransposeOp, rewriter: PatternRewriter) -> None:
        inner = inner_of(op, PermuteOp, TransposeOp)
        if inner is None:
            return
        within = axes_of(inner)
        axes = [within[axis] for axis in axes_of(op)]
        if axes == sorted(axes):
            rewriter.replace(op, [], [inner.input])
            return
        merged = PermuteOp.make(inner.input, axes=int_array(axes), placement=op.placement)
        rewriter.replace(op, merged)


class MergeAlongDim(RewritePattern):
    """Two slices of one dim are one, and two flips are none; those of other dims are sorted."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp | FlipOp, rewriter: PatternRewriter) -> None:
        inner = cast("SliceOp | FlipOp | None", inner_of(op, type(op)))
        if inner is None or int_value(op.dim) > int_value(inner.dim):
            return
        if int_value(op.dim) < int_value(inner.dim):
            first = like(op, inner.input)
            rewriter.replace(op, [first, like(inner, first.result)])
        elif isinstance(op, SliceOp):
            start = int_value(op.start) + int_value(cast(SliceOp, inner).start)
            op.properties["start"] = integer(start)
            op.operands[0] = inner.input
            rewriter.notify_op_modified(op)
        else:
            rewriter.replace(op, [], [inner.input])
