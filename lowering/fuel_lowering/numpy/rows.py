# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reduction kernels as steps: every value has the kernel's shape, or is a column of it.

A statistic, whatever its shape in the IR, becomes a column: the kernel's shape with 1 at the
reduced axes. So does its broadcast, which ufuncs do by themselves. What is left of views between
ops is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.numbers import int_value
from fuel_dialect.ops import normalization, reduction
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import AlongAxesOp, Leaf
from fuel_lowering.numpy.builder import Builder, Rows, Rule, RuleOf
from fuel_lowering.numpy.steps import COPY, Recipe
from fuel_lowering.numpy.values import Ref, broadcast_if_needed, is_view
from fuel_lowering.numpy.writer import FunctionWriter
from fuel_passes.forming.groups import keeps_order, repeats_along_row

NOTHING = Recipe(())
"""For results without elements."""


def rows_of(block: Block) -> Rows | None:
    """Returns the rows of a reduction kernel; None if its ops are not all along the same."""
    found = {
        Rows(tuple(tensor_type(op.operands[0]).get_shape()), op.axes())
        for op in block.ops
        if isinstance(op, AlongAxesOp)
    }
    return found.pop() if len(found) == 1 else None


class RowBuilder(Builder):
    """A builder of the steps of a reduction kernel."""

    def __init__(
        self, writer: FunctionWriter, values: dict[SSAValue, Ref], rule_of: RuleOf, rows: Rows
    ):
        super().__init__(writer, values, rule_of)
        self.rows = self._rows = rows
        self._computed: set[SSAValue] = set()

    def add(self, op: Operation) -> None:
        is_between = is_view(op) and op.operands[0] in self._computed
        if is_between:
            self._check_view(op)
            self.values[op.results[0]] = self.values[op.operands[0]]
        else:
            super().add(op)
        if is_between or not (is_view(op) or op.has_trait(Leaf)):
            self._computed.update(op.results)

    def add_block(self, block: Block) -> list[Ref]:
        super().add_block(block)
        assert block.last_op is not None
        return [self._as_yielded(value) for value in block.last_op.operands]

    def shape_of(self, value: SSAValue) -> tuple[int, ...]:
        """The kernel's shape, or its column, for a value that is given or wanted."""
        shape = tuple(tensor_type(value).get_shape())
        return shape if shape == self._rows.shape else self._rows.column

    def operand(self, value: SSAValue) -> Ref:
        ref, rows = self.values[value], self._rows
        if ref.splat is not None:
            return self.writer.scalar(ref.splat, rows.column)
        if ref.shape in (rows.shape, rows.column):
            return ref
        if prod(ref.shape) != prod(rows.column):
            raise LoweringError(
                f"a reduction kernel over {list(rows.shape)} along axes {list(rows.axes)} cannot "
                f"hold an op on {value.type}"
            )
        return broadcast_if_needed(ref).reshape(rows.column)

    def _check_view(self, view: Operation) -> None:
        if keeps_order(view) or repeats_along_row(view, self._rows.shape, self._rows.column):
            return
        raise LoweringError(
            f"{view.name}: a view between the ops of a reduction kernel must broadcast along its "
            f"rows or keep one element for each, got {view.results[0].type}"
        )

    def _as_yielded(self, value: SSAValue) -> Ref:
        ref, shape = self.operand(value), self.shape_of(value)
        return ref if ref.shape == shape else self.step(COPY, ref, shape=shape)


# Reductions.


def reduce(
    b: Builder, ufunc: str, x: Ref, axes: Sequence[int], shape: Sequence[int] | None = None
) -> Ref:
    """
    A ufunc's reduction over some axes; the result has `shape`, or the axes that are kept.

    No axes: a copy in the other shape. In a reduction kernel, the axes stay, as 1.
    """
    if b.rows is not None and axes:
        is_last = b.rows.axes == (len(b.rows.shape) - 1,)
        line = f"{ufunc}.reduce({{0}}, axis={{axis}}, keepdims=True, out={{y}})"
        return b.over_rows(_row_line(ufunc, x) if is_last else line, x)
    kept = tuple(extent for axis, extent in enumerate(x.shape) if axis not in axes)
    shape = kept if shape is None else tuple(shape)
    fills = None if shape == kept else lambda y: y.reshape(kept)
    if not axes:
        return b.step(COPY, x, shape=shape, fills=fills)
    axis = "None" if not kept else str(axes[0] if len(axes) == 1 else tuple(axes))
    recipe = Recipe((f"{ufunc}.reduce({{0}}, axis={axis}, out={{y}})",))
    return b.step(recipe, broadcast_if_needed(x), shape=shape, fills=fills)


LONGEST_EINSUM = 4096
"""
Elements of a row up to which `einsum` adds it: in a third of the time of `add.reduce`, which adds
pairwise. Its error, of a few units in the last place there, grows with the length.
"""


def _row_line(ufunc: str, x: Ref) -> str:
    """The call that reduces the last axis, which stays as 1."""
    if ufunc == "add" and x.dtype.kind == "f" and x.shape[-1] <= LONGEST_EINSUM:
        return 'einsum("...j->...", {0}, out={y}[..., 0])'
    return f"{ufunc}.reduce({{0}}, axis=-1, keepdims=True, out={{y}})"


def over_axes(ufunc: str, divides: bool = False) -> Rule:
    """A reduction over the axes of an op; `divides` makes a mean of a sum."""

    def apply(b: Builder, op: reduction.ReductionOp, xs: Sequence[Ref]) -> Ref:
        x = b.widen(xs[0])
        over, shape = op.axes(), tensor_type(op.results[0]).get_shape()
        result = reduce(b, ufunc, x, over, shape)
        if divides:
            extents = tensor_type(op.operands[0]).get_shape()
            result = b.call("divide", result, prod(extents[axis] for axis in over))
        return b.narrow(result, xs[0].dtype)

    return apply


def arg(function: str) -> Rule:
    """argmax or argmin: NumPy's take the first NaN, else the first of ties."""

    def apply(b: Builder, op: reduction.DimReductionOp, xs: Sequence[Ref]) -> Ref:
        x, dtype = b.widen(xs[0]), np.dtype(np.intp)
        if b.rows is not None:
            line = f"support.{function}({{0}}, {{axis}}, {{y}})"
            return b.convert(b.over_rows(line, x, dtype), np.uint32)
        recipe = Recipe((f"support.{function}({{0}}, {int_value(op.dim)}, {{y}})",))
        found = b.step(
            recipe, broadcast_if_needed(x), dtype=dtype, shape=tensor_type(op.result).get_shape()
        )
        return b.convert(found, np.uint32)

    return apply


# Rows.


def row_wise(rule: Callable[[Builder, Any, Ref], Ref]) -> Rule:
    """A rule for the rows of one operand, in f32 or wider."""

    def apply(b: Builder, op: Operation, xs: Sequence[Ref]) -> Ref:
        (x,) = xs
        if not prod(x.shape):
            return b.step(NOTHING, x)
        x = b.widen(x)
        result = rule(b, op, broadcast_if_needed(x) if b.rows is None else b.filled(x))
        return b.narrow(result, xs[0].dtype)

    return apply


def _over_row(b: Builder, ufunc: str, x: Ref) -> Ref:
    """One column: the reduction of each row."""
    return b.step(Recipe((_row_line(ufunc, x),), "row"), x, shape=(*x.shape[:-1], 1))


def _mean(b: Builder, x: Ref) -> Ref:
    return b.call("divide", _over_row(b, "add", x), x.shape[-1])


def _minus_max(b: Builder, x: Ref) -> Ref:
    return b.call("subtract", x, _over_row(b, "maximum", x))


def _softmax(b: Builder, op: Operation, x: Ref) -> Ref:
    e = b.call("exp", _minus_max(b, x))
    return b.call("divide", e, _over_row(b, "add", e))


def _log_softmax(b: Builder, op: Operation, x: Ref) -> Ref:
    shifted = _minus_max(b, x)
    total = _over_row(b, "add", b.call("exp", shifted))
    return b.call("subtract", shifted, b.call("log", total))


def _rms_norm(b: Builder, op: normalization.NormLastDimOp, x: Ref) -> Ref:
    mean_square = _mean(b, b.call("square", x))
    return b.call("divide", x, b.call("sqrt", b.call("add", mean_square, op.epsilon)))


def _layer_norm(b: Builder, op: normalization.NormLastDimOp, x: Ref) -> Ref:
    return _rms_norm(b, op, _centred(b, _centred(b, x)))


def _centred(b: Builder, x: Ref) -> Ref:
    return b.call("subtract", x, _mean(b, x))


RULES: dict[type[Operation], Rule] = {
    reduction.SumAllOp: over_axes("add"),
    reduction.MaxAllOp: over_axes("maximum"),
    reduction.MinAllOp: over_axes("minimum"),
    reduction.MeanAllOp: over_axes("add", divides=True),
    reduction.SumDimOp: over_axes("add"),
    reduction.MaxDimOp: over_axes("maximum"),
    reduction.MinDimOp: over_axes("minimum"),
    reduction.MeanDimOp: over_axes("add", divides=True),
    reduction.ReduceSumToOp: over_axes("add"),
    reduction.ReduceMaxToOp: over_axes("maximum"),
    reduction.ArgmaxDimOp: arg("argmax"),
    reduction.ArgminDimOp: arg("argmin"),
    normalization.SoftmaxLastDimOp: row_wise(_softmax),
    normalization.LogSoftmaxLastDimOp: row_wise(_log_softmax),
    normalization.RmsNormLastDimOp: row_wise(_rms_norm),
    normalization.LayerNormLastDimOp: row_wise(_layer_norm),
}
"""The rules of reductions and of ops on rows."""
