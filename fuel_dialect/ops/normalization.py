# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Softmax and norms along the last dim, each one op with a decomposition.

bf16 and f16 accumulate in f32. A softmax row of -inf alone is NaN; a NaN in a row makes it NaN.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.builder import Builder
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from fuel_dialect import dtypes
from fuel_dialect.errors import ShapeError
from fuel_dialect.ops.base import SAME_TENSOR, ConstOp, FuelOp, Properties, require_dtype
from fuel_dialect.ops.elementwise import (
    AddScalarOp,
    CastOp,
    DivOp,
    ExpOp,
    LogOp,
    MulOp,
    RsqrtOp,
    SqrOp,
    SubOp,
)
from fuel_dialect.ops.reduction import ReduceMaxToOp, ReduceSumToOp
from fuel_dialect.ops.shape import BroadcastToOp
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_dialect.traits import AlongAxesOp, DecomposableOp, RowWise


class LastDimOp(FuelOp, AlongAxesOp, DecomposableOp, abc.ABC):
    """One operand of rank >= 1; each row of the result depends on the same row of it."""

    T: ClassVar = SAME_TENSOR
    NEEDS_ELEMENTS: ClassVar[bool] = False

    input = operand_def(T)
    result = result_def(T)

    assembly_format = "$input attr-dict `:` type($result)"

    traits = traits_def(Pure(), RowWise())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (input,) = operands
        shape = input.get_shape()
        if not shape:
            raise ShapeError(f"{cls.mnemonic()}: needs rank >= 1, got a rank-0 tensor")
        if cls.NEEDS_ELEMENTS and not shape[-1]:
            raise ShapeError(f"{cls.mnemonic()}: the last dim of {list(shape)} must be > 0")
        require_dtype(cls, input, dtypes.FLOATS)
        return operands

    def axes(self) -> tuple[int, ...]:
        return (len(tensor_type(self.input).get_shape()) - 1,)

    def decompose(self, builder: Builder) -> Sequence[SSAValue]:
        """
        In f32 for bf16 and f16, so that rounding happens once, as in the op itself.

        An operand without elements is the result already.
        """
        type = tensor_type(self.input)
        if 0 in type.get_shape():
            return (self.input,)
        wide = _wide(type)
        rows = _Rows(builder, wide)
        value = self.input
        if wide != type:
            value = rows.insert(CastOp.make(value, declared=[wide]))
        result = self.decompose_rows(rows, value)
        if wide != type:
            result = rows.insert(CastOp.make(result, declared=[type]))
        return (result,)

    @abc.abstractmethod
    def decompose_rows(self, rows: _Rows, x: SSAValue) -> SSAValue:
        """The op, in terms of f32 or f64 ops."""


def _wide(type: AnyTensor) -> AnyTensor:
    return type if dtypes.of_type(type).bits >= 32 else tensor(type.get_shape(), "f32")


class _Rows:
    """Inserts ops at a builder's point; knows the shape that keeps one column of each row."""

    def __init__(self, builder: Builder, type: AnyTensor):
        self.builder = builder
        self.type = type
        self.columns = type.get_shape()[-1]
        self.column = tensor((*type.get_shape()[:-1], 1), type.element_type)

    def insert(self, op: FuelOp) -> SSAValue:
        return self.builder.insert(op).results[0]

    def sum(self, x: SSAValue) -> SSAValue:
        """The sum of each row, as one column."""
        return self.insert(ReduceSumToOp.make(x, declared=[self.column]))

    def mean(self, x: SSAValue) -> SSAValue:
        columns = self.insert(ConstOp.splat_of(self.columns, self.column))
        return self.insert(DivOp.make(self.sum(x), columns))

    def centred(self, x: SSAValue) -> SSAValue:
        """Each row minus its mean."""
        return self.insert(SubOp.make(x, self.broadcast(self.mean(x))))

    def broadcast(self, column: SSAValue) -> SSAValue:
        """Inserts the broadcast of a column along each row."""
        return self.insert(BroadcastToOp.make(column, declared=[self.type]))

    def minus_max(self, x: SSAValue) -> SSAValue:
        peak = self.insert(ReduceMaxToOp.make(x, declared=[self.column]))
        return self.insert(SubOp.make(x, self.broadcast(peak)))


@irdl_op_definition
class SoftmaxLastDimOp(LastDimOp):
    """exp(x - max) / sum(exp(x - max)) along the last dim."""

    name = "fuel.softmax_last_dim"
    WEIGHT: ClassVar[int] = 13

    def decompose_rows(self, rows: _Rows, x: SSAValue) -> SSAValue:
        e = rows.insert(ExpOp.make(rows.minus_max(x)))
        return rows.insert(DivOp.make(e, rows.broadcast(rows.sum(e))))


@irdl_op_definition
class LogSoftmaxLastDimOp(LastDimOp):
    """x - max - ln(sum(exp(x - max))) along the last dim."""

    name = "fuel.log_softmax_last_dim"
    WEIGHT: ClassVar[int] = 12

    def decompose_rows(self, rows: _Rows, x: SSAValue) -> SSAValue:
        shifted = rows.minus_max(x)
        total = rows.sum(rows.insert(ExpOp.make(shifted)))
        return rows.insert(SubOp.make(shifted, rows.broadcast(rows.insert(LogOp.make(total)))))


class NormLastDimOp(LastDimOp, abc.ABC):
    """A norm: `eps` is added to the mean square before the square root."""

    NEEDS_ELEMENTS: ClassVar[bool] = True

    eps = prop_def(FloatAttr)

    @property
    def epsilon(self) -> float:
        return cast("FloatAttr[Any]", self.eps).value.data

    def _normalize(self, rows: _Rows, x: SSAValue) -> SSAValue:
        """x / sqrt(mean(x^2) + eps)."""
        mean_square = rows.mean(rows.insert(SqrOp.make(x)))
        shifted = rows.insert(AddScalarOp.make(mean_square, scalar=self.eps))
        return rows.insert(MulOp.make(x, rows.broadcast(rows.insert(RsqrtOp.make(shifted)))))


@irdl_op_definition
class LayerNormLastDimOp(NormLastDimOp):
    """(x - mean) / sqrt(var + eps) along the last dim, population variance, no affine part."""

    name = "fuel.layer_norm_last_dim"
    WEIGHT: ClassVar[int] = 8

    def decompose_rows(self, rows: _Rows, x: SSAValue) -> SSAValue:
        """
        Centres twice: a mean that is large beside the differences is rounded as a large number is,
        and what is left of it has a mean that is not.
        """
        return self._normalize(rows, rows.centred(rows.centred(x)))


@irdl_op_definition
class RmsNormLastDimOp(NormLastDimOp):
    """x / sqrt(mean(x^2) + eps) along the last dim, no affine part."""

    name = "fuel.rms_norm_last_dim"
    WEIGHT: ClassVar[int] = 4

    def decompose_rows(self, rows: _Rows, x: SSAValue) -> SSAValue:
        return self._normalize(rows, x)
