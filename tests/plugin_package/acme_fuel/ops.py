# SPDX-License-Identifier: MIT OR Apache-2.0
"""The dialect `acme`: two elementwise ops, two that move elements, and one of a kind of its own."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from fuel_dialect.dialect import FuelConstants
from fuel_dialect.movement import MovementOp, Piece, Span, box
from fuel_dialect.numbers import int_value
from fuel_dialect.ops.base import ANY_TENSOR, FuelOp, Properties
from fuel_dialect.ops.elementwise import FloatUnaryOp, ReluOp, SqrOp
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_dialect.traits import DecomposableOp


@irdl_op_definition
class SquaredReluOp(FloatUnaryOp, DecomposableOp):
    """max(0, x) squared; NaN stays NaN."""

    name = "acme.squared_relu"

    WEIGHT: ClassVar[int] = 2

    def decompose(self, builder: Builder) -> Sequence[SSAValue]:
        relu = builder.insert(ReluOp.make(self.input))
        return builder.insert(SqrOp.make(relu.result)).results


@irdl_op_definition
class SoftsignOp(FloatUnaryOp):
    """x / (1 + |x|)."""

    name = "acme.softsign"

    WEIGHT: ClassVar[int] = 4


class OneToOneOp(FuelOp, abc.ABC):
    """An op of one tensor that gives one, of the same type where it does not say otherwise."""

    input = operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    @classmethod
    def infer(
        cls, operands: Sequence[AnyTensor], properties: Properties, declared: Sequence[AnyTensor]
    ) -> Sequence[AnyTensor]:
        return operands


@irdl_op_definition
class PadOp(OneToOneOp, MovementOp):
    """An operand with `width` elements of a constant around it, along every axis."""

    name = "acme.pad"

    width = prop_def(IntegerAttr)
    value = prop_def(FloatAttr)

    @classmethod
    def infer(
        cls, operands: Sequence[AnyTensor], properties: Properties, declared: Sequence[AnyTensor]
    ) -> Sequence[AnyTensor]:
        (input,), around = operands, 2 * int_value(properties["width"])
        return (tensor([e + around for e in input.get_shape()], input.element_type),)

    def fill(self) -> float:
        return self.value.value.data

    def pieces(self) -> tuple[Piece, ...]:
        shape = tensor_type(self.input).get_shape()
        return (box(0, shape, [int_value(self.width)] * len(shape)),)


@irdl_op_definition
class RollOp(OneToOneOp, MovementOp):
    """An operand whose elements are moved on by `shift` along the last axis, around its end."""

    name = "acme.roll"

    shift = prop_def(IntegerAttr)

    def pieces(self) -> tuple[Piece, ...]:
        *outer, extent = tensor_type(self.input).get_shape()
        shift = int_value(self.shift) % extent if extent else 0
        spans = tuple(Span(0, each) for each in outer)
        moved = Piece(0, (*spans, Span(shift, extent - shift)))
        return moved, Piece(0, (*spans, Span(0, shift, extent - shift)))


@irdl_op_definition
class CumulativeSumOp(OneToOneOp):
    """The sums of all elements up to each, along the last axis."""

    name = "acme.cumulative_sum"


OPS = [SquaredReluOp, SoftsignOp, PadOp, RollOp, CumulativeSumOp]

Acme = Dialect("acme", OPS, [], [FuelConstants()])
