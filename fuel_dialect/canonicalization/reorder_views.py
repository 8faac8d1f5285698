# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Views of several kinds change places, so that those of one kind meet and merge (`merge_views`).

Innermost come slices, then flips, then permutations, then what adds and takes unit dims. A view
changes places only with one that is pinned as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from fuel_dialect.canonicalization.views import axes_of, inner_of, like
from fuel_dialect.numbers import int_array, int_value, integer
from fuel_dialect.ops.shape import (
    FlipOp,
    PermuteOp,
    ShapeOp,
    SliceOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)
from fuel_dialect.tensors import tensor_type


class SinkAlongDim(RewritePattern):
    """A slice or a flip goes below what moves, adds and takes dims; of an added dim it is none."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp | FlipOp, rewriter: PatternRewriter) -> None:
        inner = inner_of(op, PermuteOp, TransposeOp, SqueezeOp, UnsqueezeOp)
        if inner is None:
            return
        dim = _dim_below(inner, int_value(op.dim))
        if dim is not None:
            below = like(op, inner.input, dim=integer(dim))
            rewriter.replace(op, [below, like(inner, below.result)])
        elif op.result.type == inner.result.type:
            rewriter.replace(op, [], [inner.result])


def _dim_below(op: ShapeOp, dim: int) -> int | None:
    """The dim of the operand that one of the result is; None if the op adds it."""
    if isinstance(op, UnsqueezeOp):
        added = int_value(op.dim)
        return None if dim == added else dim - (dim > added)
    if isinstance(op, SqueezeOp):
        return dim + (dim >= int_value(op.dim))
    return axes_of(op)[dim]


class SinkSlice(RewritePattern):
    """A slice of a flip is a flip of a slice."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        inner = inner_of(op, FlipOp)
        if inner is None:
            return
        start, dim = int_value(op.start), int_value(op.dim)
        if dim == int_value(inner.properties["dim"]):
            extent = tensor_type(inner.input).get_shape()[dim]
            start = extent - start - int_value(op.length)
        below = like(op, inner.input, start=integer(start))
        rewriter.replace(op, [below, like(inner, below.result)])


class SinkPermutation(RewritePattern):
    """A permutation goes below what adds and takes unit dims."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PermuteOp | TransposeOp, rewriter: PatternRewriter) -> None:
        inner = inner_of(op, SqueezeOp, UnsqueezeOp)
        if inner is None:
            return
        unit, axes = int_value(inner.properties["dim"]), axes_of(op)
        if isinstance(inner, UnsqueezeOp):
            moved, below = axes.index(unit), [a - (a > unit) for a in axes if a != unit]
        else:
            moved, below = len(axes), [*(a + (a >= unit) for a in axes), unit]
        made = _permuted(op, inner.input, below)
        value = made[0].results[0] if made else inner.input
        rewriter.replace(op, [*made, like(inner, value, dim=integer(moved))])


def _permuted(op: ShapeOp, input: SSAValue, axes: Sequence[int]) -> list[Operation]:
    """A permutation of another value, pinned as the op is; none where it would move nothing."""
    rank = len(axes)
    if list(axes) == sorted(axes):
        return []
    if list(axes) == [*range(rank - 2), rank - 1, rank - 2]:
        return [TransposeOp.make(input, placement=op.placement)]
    return [PermuteOp.make(input, axes=int_array(axes), placement=op.placement)]
