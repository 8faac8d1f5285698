# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Views of views become one view, so that a reader of a long chain repeats a short one.

Slices and flips of different dims commute; they are sorted by dim, the least innermost, so that
those of one dim meet. A view merges only with one that is pinned as it is. `reorder_views` brings
views of one kind together.
"""

from __future__ import annotations

from typing import cast

from xdsl.ir import Attribute, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from fuel_dialect.ops.base import int_value, integer, tensor_type
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
    int_array,
    int_tuple,
)

LOOK_BACK = 8
"""How many squeezes and unsqueezes in a row are compared with one another."""


def view_patterns(op: type[ShapeOp]) -> tuple[RewritePattern, ...]:
    """The patterns for one kind of view, or reshape."""
    from fuel_dialect.canonicalization.reorder_views import SinkAlongDim, SinkPermutation, SinkSlice

    sinking: dict[type[ShapeOp], tuple[RewritePattern, ...]] = {
        FlipOp: (SinkAlongDim(),),
        PermuteOp: (SinkPermutation(),),
        SliceOp: (SinkAlongDim(), SinkSlice()),
        TransposeOp: (SinkPermutation(),),
    }
    return (*PATTERNS.get(op, ()), *sinking.get(op, ()))


def inner_of(op: ShapeOp, *kinds: type[ShapeOp]) -> ShapeOp | None:
    """The op that a view reads, if it is of some kinds and pinned as the view is."""
    inner = op.input.owner
    if isinstance(inner, kinds) and inner.placement == op.placement:
        return inner
    return None


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


def axes_of(op: ShapeOp) -> tuple[int, ...]:
    """The dim of the operand that each dim of the result is."""
    if isinstance(op, PermuteOp):
        return int_tuple(op.axes)
    rank = len(tensor_type(op.input).get_shape())
    return (*range(rank - 2), rank - 1, rank - 2)


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


def like(op: ShapeOp, input: SSAValue, **others: Attribute) -> ShapeOp:
    """The same view of another value, with other properties for some."""
    properties = {**op.properties, **others}
    types = type(op).infer([tensor_type(input)], properties, ())
    return type(op).create(operands=[input], result_types=types, properties=properties)


PATTERNS: dict[type[ShapeOp], tuple[RewritePattern, ...]] = {
    BroadcastToOp: (SkipInner(),),
    FlipOp: (MergeAlongDim(),),
    PermuteOp: (MergePermutations(),),
    ReshapeOp: (SkipInner(),),
    SliceOp: (MergeAlongDim(),),
    SqueezeOp: (MergeUnitDims(),),
    TransposeOp: (MergePermutations(),),
    UnsqueezeOp: (MergeUnitDims(),),
}
