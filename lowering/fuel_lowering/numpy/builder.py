# SPDX-License-Identifier: MIT OR Apache-2.0
"""From the ops of a block to steps: leaves and views become values, all else becomes steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.ops.memory import IotaOp, WeightOp
from fuel_dialect.ops.shape import ReshapeOp
from fuel_dialect.reference.precision import scalar
from fuel_dialect.tensors import tensor_type
from fuel_lowering.numpy.steps import COPY, Recipe, Step
from fuel_lowering.numpy.values import (
    MODULE,
    Ref,
    broadcast_if_needed,
    computed,
    is_view,
    reshape_expression,
    reshaped,
    view_of,
)
from fuel_lowering.numpy.writer import FunctionWriter

CONVERT = Recipe(('copyto({y}, {0}, casting="unsafe")',), "element")

OUT_BY_NAME = ("maximum", "minimum")
"""Ufuncs that NumPy 2.4 wants to be given `out` by name; by position is faster elsewhere."""


@cache
def call(function: str, operands: int) -> Recipe:
    """One ufunc call, which may write over an operand."""
    arguments = ", ".join(f"{{{i}}}" for i in range(operands))
    out = "out={y}" if function in OUT_BY_NAME else "{y}"
    reuse = tuple(range(operands))
    return Recipe((f"{function}({arguments}, {out})",), "element", reuse, allocates=True)


@dataclass(frozen=True)
class Rows:
    """Represents the iteration space of a reduction kernel, and the axes of its reductions."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def column(self) -> tuple[int, ...]:
        """The shape of what has one element for each row."""
        return tuple(1 if a in self.axes else extent for a, extent in enumerate(self.shape))

    @property
    def are_long(self) -> bool:
        """True if there are rows, of more than one element."""
        return prod(self.shape) > 0 and prod(self.shape[axis] for axis in self.axes) > 1


class Builder:
    """
    The steps of one block, and the value that each SSA value has become.

    bf16 and f16 are widened to f32 where arithmetic is done on them, and rounded after every op.
    `rows` is given where reductions keep the axes that they are along.
    """

    rows: Rows | None = None

    def __init__(self, writer: FunctionWriter, values: dict[SSAValue, Ref], rule_of: RuleOf):
        self.writer = writer
        self.values = values
        self.rule_of = rule_of
        self.steps: list[Step] = []
        self._wide: dict[Ref, Ref] = {}
        self._hint: str | None = None

    def add_block(self, block: Block) -> list[Ref]:
        """All ops of a block; the values its terminator gives."""
        for op in block.ops:
            if op is not block.last_op:
                self.add(op)
        assert block.last_op is not None
        return [self.values[operand] for operand in block.last_op.operands]

    def add(self, op: Operation) -> None:
        """One op. Raises `LoweringError` for an op that this target does not know."""
        rule = self.rule_of(op)
        self._hint = op.results[0].name_hint if op.results else None
        if rule is not None:
            results = rule(self, op, [self.operand(operand) for operand in op.operands])
            results = [results] if isinstance(results, Ref) else results
            self.values.update(zip(op.results, results, strict=True))
            return
        if not is_view(op):
            types = ", ".join(str(o.type) for o in op.operands)
            raise LoweringError(f"{op.name}: the numpy target has no kernel for it on {types}")
        self.values[op.results[0]] = self._view(op, self.values[op.operands[0]])

    def operand(self, value: SSAValue) -> Ref:
        """Returns the operands of an op that is no view."""
        return self.values[value]

    def _view(self, op: Operation, source: Ref) -> Ref:
        value, shape = source.splat, tuple(tensor_type(op.results[0]).get_shape())
        if value is not None:
            return self.writer.scalar(value, shape)
        return self.reshape(source, shape) if isinstance(op, ReshapeOp) else view_of(op, source)

    # Steps.

    def step(
        self,
        recipe: Recipe,
        *operands: Ref,
        dtype: np.dtype[Any] | None = None,
        shape: Sequence[int] | None = None,
        fills: Callable[[Ref], Ref] | None = None,
        axes: tuple[int, ...] = (),
    ) -> Ref:
        """The result of a recipe; all operands' shape and the first's dtype, unless given."""
        if shape is None:
            shape = np.broadcast_shapes(*(operand.shape for operand in operands))
        dtype = operands[0].dtype if dtype is None else dtype
        result = computed(tuple(shape), dtype, self._hint)
        self.steps.append(Step(recipe, operands, result, fills, axes))
        return result

    def reshape(self, value: Ref, shape: tuple[int, ...]) -> Ref:
        """
        Another shape: a view where the layout allows it, else a copy, into planned memory.

        What is known when the source is loaded is copied then.
        """
        value = broadcast_if_needed(value)
        if reshaped(value.layout, shape) is not None:
            return value.reshape(shape)
        if value.root.home == MODULE:
            return value.view(reshape_expression(shape), Layout.contiguous(shape))
        return self.step(COPY, value, shape=shape, fills=lambda y: y.reshape(value.shape))

    def call(self, function: str, *operands: Ref | float, dtype: Any = None) -> Ref:
        """A ufunc; Python numbers become constants of the first operand's dtype."""
        first = next(o for o in operands if isinstance(o, Ref))
        refs = [o if isinstance(o, Ref) else self.number(o, first) for o in operands]
        shape = np.broadcast_shapes(*(r.shape for r in refs))
        recipe = call(function, len(refs))
        return self.step(recipe, *refs, dtype=dtype or first.dtype, shape=shape)

    def number(self, value: float, like: Ref) -> Ref:
        """A scalar constant of another value's dtype and shape."""
        return self.writer.scalar(scalar(value, like.dtype), like.shape)

    def over_rows(self, line: str, x: Ref, dtype: Any = None) -> Ref:
        """The column that a line with `{axis}` gives."""
        assert self.rows is not None
        x = self.filled(x)
        recipe = Recipe((line,), "row")
        return self.step(recipe, x, dtype=dtype, shape=self.rows.column, axes=self.rows.axes)

    def filled(self, value: Ref) -> Ref:
        """A value of a reduction kernel as an array of the kernel's whole shape."""
        assert self.rows is not None
        shape = self.rows.shape
        return value if value.array_shape == shape else self.step(COPY, value, shape=shape)

    def convert(self, value: Ref, dtype: Any) -> Ref:
        """Another dtype by NumPy's own conversion."""
        number = value.splat
        if number is not None:
            return self.writer.scalar(number.astype(dtype), value.shape)
        return self.step(CONVERT, value, dtype=np.dtype(dtype))

    def widen(self, value: Ref) -> Ref:
        """bf16 and f16 as f32; other values as they are."""
        if not is_narrow(value.dtype):
            return value
        if value not in self._wide:
            self._wide[value] = self.convert(value, np.float32)
        return self._wide[value]

    def narrow(self, value: Ref, dtype: np.dtype[Any]) -> Ref:
        """The inverse of `widen`: one rounding."""
        return value if value.dtype == dtype else self.convert(value, dtype)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Returns True if arithmetic on the dtype is done in f32."""
    return dtypes.of(dtype).name in ("bf16", "f16")


def _constant(builder: Builder, op: ConstOp, operands: Sequence[Ref]) -> Ref:
    elements = op.to_numpy()
    if op.splat is None:
        return builder.writer.constant(elements, op.result.name_hint)
    dtype = dtypes.of_type(op.type).numpy
    return builder.writer.scalar(scalar(op.splat, dtype), op.type.get_shape())


def _iota(builder: Builder, op: IotaOp, operands: Sequence[Ref]) -> Ref:
    (extent,) = tensor_type(op.result).get_shape()
    return builder.writer.constant(np.arange(extent).astype(np.float32), "iota")


def _weight(builder: Builder, op: WeightOp, operands: Sequence[Ref]) -> Ref:
    type = tensor_type(op.result)
    return builder.writer.weight(op.key.data, type, dtypes.of_type(type).numpy)


Rule = Callable[[Builder, Any, Sequence[Ref]], Ref | list[Ref]]

RuleOf = Callable[[Operation], Rule | None]
"""Finds how an op that computes something becomes steps."""

RULES: dict[type[Operation], Rule] = {ConstOp: _constant, IotaOp: _iota, WeightOp: _weight}
"""The rules of leaves."""
