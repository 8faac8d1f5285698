# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ops that are library calls: reductions, matmul, indexing, concat, and the rows of norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation

from fuel_dialect.determinism import is_deterministic
from fuel_dialect.layout import Layout
from fuel_dialect.ops import indexing, linear_algebra, memory, normalization, reduction, shape
from fuel_dialect.ops.base import int_value, tensor_type
from fuel_dialect.ops.shape import int_tuple
from fuel_lowering.numpy.emit import bundle
from fuel_lowering.numpy.steps import COPY, Recipe
from fuel_lowering.numpy.values import Ref, whole
from fuel_lowering.numpy.writer import Builder, Rule

NOTHING = Recipe(())
"""For results without elements."""


# Shape.


def _contiguize(b: Builder, op: Operation, xs: Sequence[Ref]) -> Ref:
    is_row_major = xs[0].is_whole and xs[0].layout.is_contiguous
    return xs[0] if is_row_major else b.step(COPY, xs[0])


def _concat(b: Builder, op: shape.ConcatOp, xs: Sequence[Ref]) -> Ref:
    arrays = ", ".join(f"{{{i}}}" for i in range(len(xs))) + ("," if len(xs) == 1 else "")
    recipe = Recipe((f"concatenate(({arrays}), axis={int_value(op.dim)}, out={{y}})",))
    return b.step(recipe, *map(whole, xs), shape=tensor_type(op.result).get_shape())


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
    return b.step(recipe, whole(x), shape=shape, fills=fills)


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
            line = f"{function}({{0}}, axis={{axis}}, keepdims=True, out={{y}})"
            return b.convert(b.over_rows(line, x, dtype), np.uint32)
        recipe = Recipe((f"{function}({{0}}, axis={int_value(op.dim)}, out={{y}})",))
        found = b.step(recipe, whole(x), dtype=dtype, shape=tensor_type(op.result).get_shape())
        return b.convert(found, np.uint32)

    return apply


# Matrix multiplication.


def _matmul(b: Builder, op: linear_algebra.MatmulOp, xs: Sequence[Ref]) -> Ref:
    lhs, rhs = b.widen(xs[0]), b.widen(xs[1])
    result = tensor_type(op.result).get_shape()
    lhs, rhs, written = _grouped(b, whole(lhs), rhs)
    fills = None if written == result else lambda y: y.reshape(written)
    # BLAS skips a factor of 0 where an operand is one element, and loses NaN and inf.
    is_one = 1 in (prod(lhs.shape), prod(rhs.shape))
    is_gemm = len(written) == 2 and lhs.dtype.kind == "f" and not is_one
    line = "{0}.dot({1}, {y})" if is_gemm else "matmul({0}, {1}, {y})"
    if lhs.dtype.kind == "f" and is_deterministic(op):
        line = 'einsum("...ij,...jk->...ik", {0}, {1}, out={y})'
    product = b.step(Recipe((line,)), lhs, rhs, shape=result, fills=fills)
    return b.narrow(product, xs[0].dtype)


def _grouped(b: Builder, lhs: Ref, rhs: Ref) -> tuple[Ref, Ref, tuple[int, ...]]:
    """
    The operands such that NumPy's broadcasting pairs their batches, and the shape of the product.

    A B that all batches share makes one product of all rows. Where a batch dim of A is g times
    B's, A is read with that dim split in two; the last batch dim then joins its g rows.
    """
    *batch, m, k = lhs.shape
    n = rhs.shape[-1]
    others = rhs.extents[:-2]
    if batch and all(extent == 1 for extent in others) and prod(lhs.shape) and n:
        rows = prod(batch) * m
        return b.reshape(lhs, (rows, k)), _last_two(rhs), (rows, n)
    rhs = whole(rhs)
    others = rhs.shape[:-2]
    if tuple(batch) == tuple(others):
        return lhs, rhs, (*batch, m, n)
    if batch[:-1] == list(others[:-1]):
        joined = (*others, batch[-1] // others[-1] * m)
        return b.reshape(lhs, (*joined, k)), rhs, (*joined, n)
    split = [(b // a, a) for a, b in zip(others, batch, strict=True)]
    outer = [extent for group, extent in split for extent in (extent, group)]
    paired = [extent for extent in others for extent in (extent, 1)]
    lhs = b.reshape(lhs, (*outer, m, k))
    return lhs, b.reshape(rhs, (*paired, k, n)), (*outer, m, n)


def _last_two(ref: Ref) -> Ref:
    """A stack of equal matrices, its array that of at most one, as that matrix."""
    extra, own = max(len(ref.extents) - 2, 0), ref.layout
    layout = Layout(own.shape[extra:], own.strides[extra:], own.offset)
    one = ref.view(f"{{}}[{', '.join('0' * extra)}]", layout) if extra else ref
    return whole(Ref(ref.shape[-2:], ref.dtype, layout, ref.hint, base=one))


# Indexing.


def _index_select(b: Builder, op: indexing.IndexSelectOp, xs: Sequence[Ref]) -> Ref:
    line = f'take({{0}}, {{1}}, axis={int_value(op.dim)}, out={{y}}, mode="clip")'
    return _indexed(b, op, xs, line)


def _gather(b: Builder, op: indexing.GatherOp, xs: Sequence[Ref]) -> Ref:
    return _indexed(b, op, xs, f"support.gather({{0}}, {{1}}, {int_value(op.dim)}, {{y}})")


def _indexed(b: Builder, op: indexing.IndexingOp, xs: Sequence[Ref], line: str) -> Ref:
    """A read by index, after a check that every index is in range."""
    extent = xs[0].shape[int_value(op.dim)]
    check = f'support.check_indices("{op.mnemonic()}", {{1}}, {extent})'
    recipe = Recipe((line,), checks=(check,))
    return b.step(recipe, *map(whole, xs), shape=tensor_type(op.result).get_shape())


# Writing a part.


def _write(b: Builder, op: memory.WriteOp, xs: Sequence[Ref], call: str = "") -> Ref:
    """A copy of the destination with the source in it; in place where the run reuses its buffer."""
    call = call or f"support.write({{0}}, {{1}}, {int_tuple(op.starts)}, {{y}})"
    return b.step(Recipe((call,)), *map(whole, xs), shape=xs[0].shape)


def _write_at(b: Builder, op: memory.WriteAtOp, xs: Sequence[Ref]) -> Ref:
    axis, width, extent = int_value(op.axis), xs[1].shape[int_value(op.axis)], xs[0].shape
    check = f'support.check_position("{op.mnemonic()}", {{2}}, {width}, {extent[axis]})'
    recipe = Recipe((f"support.write({{0}}, {{1}}, {_starts(op, axis)}, {{y}})",), checks=(check,))
    return b.step(recipe, *map(whole, xs), shape=extent)


def _write_in_ring(b: Builder, op: memory.WriteSliceRotatingOp, xs: Sequence[Ref]) -> Ref:
    axis = int_value(op.axis)
    details = f"{_starts(op, axis)}, {axis}, {int_value(op.modulus)}"
    return _write(b, op, xs, f"support.write_in_ring({{0}}, {{1}}, {details}, {{y}})")


def _starts(op: memory.WriteAtOp, axis: int) -> str:
    starts = [str(start) for start in int_tuple(op.starts)]
    return bundle([*starts[:axis], "{2}", *starts[axis + 1 :]])


# Rows.


def row_wise(rule: Callable[[Builder, Any, Ref], Ref]) -> Rule:
    """A rule for the rows of one operand, in f32 or wider."""

    def apply(b: Builder, op: Operation, xs: Sequence[Ref]) -> Ref:
        (x,) = xs
        if not prod(x.shape):
            return b.step(NOTHING, x)
        x = b.widen(x)
        result = rule(b, op, whole(x) if b.rows is None else b.filled(x))
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
    return _rms_norm(b, op, b.call("subtract", x, _mean(b, x)))


RULES: dict[type[Operation], Rule] = {
    shape.ContiguizeOp: _contiguize,
    shape.ConcatOp: _concat,
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
    linear_algebra.MatmulOp: _matmul,
    indexing.IndexSelectOp: _index_select,
    indexing.GatherOp: _gather,
    memory.WriteSliceOp: _write,
    memory.WriteSliceDoffOp: _write_at,
    memory.WriteSliceRotatingOp: _write_in_ring,
    normalization.SoftmaxLastDimOp: row_wise(_softmax),
    normalization.LogSoftmaxLastDimOp: row_wise(_log_softmax),
    normalization.RmsNormLastDimOp: row_wise(_rms_norm),
    normalization.LayerNormLastDimOp: row_wise(_layer_norm),
}
"""How each library op becomes steps."""
