# SPDX-License-Identifier: MIT OR Apache-2.0
"""Helpers of the rewrites of views: find the view below a view, its axes, and repeat it."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from fuel_dialect.numbers import int_tuple
from fuel_dialect.ops.shape import PermuteOp, ShapeOp
from fuel_dialect.tensors import tensor_type


def inner_of(op: ShapeOp, *kinds: type[ShapeOp]) -> ShapeOp | None:
    """The op that a view reads, if it is of some kinds and pinned as the view is."""
    inner = op.input.owner
    if isinstance(inner, kinds) and inner.placement == op.placement:
        return inner
    return None


def axes_of(op: ShapeOp) -> tuple[int, ...]:
    """The dim of the operand that each dim of the result is."""
    if isinstance(op, PermuteOp):
        return int_tuple(op.axes)
    rank = len(tensor_type(op.input).get_shape())
    return (*range(rank - 2), rank - 1, rank - 2)


def like(op: ShapeOp, input: SSAValue, **others: Attribute) -> ShapeOp:
    """The same view of another value, with other properties for some."""
    properties = {**op.properties, **others}
    types = type(op).infer([tensor_type(input)], properties, ())
    return type(op).create(operands=[input], result_types=types, properties=properties)
