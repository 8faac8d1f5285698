# SPDX-License-Identifier: MIT OR Apache-2.0
"""Movement as library calls: concat, contiguize, indexing, and writes of a part."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from fuel_dialect.numbers import int_tuple, int_value
from fuel_dialect.ops import indexing, memory, shape
from fuel_dialect.tensors import tensor_type
from fuel_lowering.numpy.builder import Builder, Rule
from fuel_lowering.numpy.steps import COPY, Recipe
from fuel_lowering.numpy.values import Ref, whole
from fuel_lowering.numpy.writer import bundle

# Shape.


def _contiguize(b: Builder, op: Operation, xs: Sequence[Ref]) -> Ref:
    is_row_major = xs[0].is_whole and xs[0].layout.is_contiguous
    return xs[0] if is_row_major else b.step(COPY, xs[0])


def _concat(b: Builder, op: shape.ConcatOp, xs: Sequence[Ref]) -> Ref:
    arrays = ", ".join(f"{{{i}}}" for i in range(len(xs))) + ("," if len(xs) == 1 else "")
    recipe = Recipe((f"concatenate(({arrays}), axis={int_value(op.dim)}, out={{y}})",))
    return b.step(recipe, *map(whole, xs), shape=tensor_type(op.result).get_shape())


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


RULES: dict[type[Operation], Rule] = {
    shape.ContiguizeOp: _contiguize,
    shape.ConcatOp: _concat,
    indexing.IndexSelectOp: _index_select,
    indexing.GatherOp: _gather,
    memory.WriteSliceOp: _write,
    memory.WriteSliceDoffOp: _write_at,
    memory.WriteSliceRotatingOp: _write_in_ring,
}
"""The rules of ops that move elements."""
