# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Views, reshape, contiguize and concat.

A view changes only the layout of its operand's buffer; its result shape is the one that
`fuel_dialect.layout` gives.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import Pure

from fuel_dialect.canonicalization.lookup import patterns_of
from fuel_dialect.errors import DTypeError, GraphError, ShapeError
from fuel_dialect.layout import Layout
from fuel_dialect.movement import MovementOp, Piece, box
from fuel_dialect.numbers import int_tuple, int_value
from fuel_dialect.ops.base import (
    ANY_TENSOR,
    SAME_TENSOR,
    FuelOp,
    Properties,
    require_dim,
    require_equal_dtypes,
)
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_dialect.traits import FreeWhenContiguous, SplittableOp, ViewOp


class ShapeOp(FuelOp, HasCanonicalizationPatternsInterface, abc.ABC):
    """One operand, one result of its dtype."""

    input = operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)

    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    traits = traits_def(Pure())

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return patterns_of(cls)


class LayoutOp(ShapeOp, ViewOp, abc.ABC):
    """A view whose result shape follows from the layout algebra."""

    @classmethod
    @abc.abstractmethod
    def layout_of(cls, layout: Layout, properties: Properties, target: Sequence[int]) -> Layout:
        """The layout of the result; `target` is the declared result shape."""

    def derive_layout(self, layout: Layout) -> Layout:
        return self.layout_of(layout, self.properties, tensor_type(self.result).get_shape())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (input,) = operands
        target = declared[0].get_shape() if declared else ()
        source = Layout.contiguous(input.get_shape())
        result = tensor(cls.layout_of(source, properties, target).shape, input.element_type)
        if declared and declared[0].element_type != input.element_type:
            raise DTypeError(
                f"{cls.mnemonic()}: dtype mismatch: {input.element_type} and "
                f"{declared[0].element_type}; a view keeps the dtype"
            )
        return (result,)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        if self.input.type == self.result.type and self.is_identity():
            return (self.input,)
        return super().fold()

    def is_identity(self) -> bool:
        """Returns True if the result is the operand, element for element."""
        source = Layout.contiguous(tensor_type(self.input).get_shape())
        return self.derive_layout(source) == source


@irdl_op_definition
class TransposeOp(LayoutOp):
    """The last two dims swapped."""

    name = "fuel.transpose"

    @classmethod
    def layout_of(cls, layout: Layout, properties: Properties, target: Sequence[int]) -> Layout:
        return layout.transpose()


@irdl_op_definition
class PermuteOp(LayoutOp):
    """Dim i of the result is dim `axes[i]` of the operand."""

    name = "fuel.permute"

    axes = prop_def(DenseArrayBase)

    @classmethod
    def layout_of(cls, layout: Layout, properties: Properties, target: Sequence[int]) -> Layout:
        return layout.permute(int_tuple(properties["axes"]))


@irdl_op_definition
class BroadcastToOp(LayoutOp):
    """Repeat to the result shape by the NumPy rule: dims equal or 1, new dims lead."""

    name = "fuel.broadcast_to"

    @classmethod
    def layout_of(cls, layout: Layout, properties: Properties, target: Sequence[int]) -> Layout:
        return layout.broadcast_to(target)


@irdl_op_definition
class SliceOp(LayoutOp):
    """Elements `start` to `start + length` along `dim`."""

    name = "fuel.slice"

    dim = prop_def(IntegerAttr)
    start = prop_def(IntegerAttr)
    length = prop_def(IntegerAttr)

    @classmethod
    def layout_of(cls, layout: Layout, properties: Properties, target: Sequence[int]) -> Layout:
        return layout.slice(
            int_value(properties["dim"]),
            int_value(properties["start"]),
            int_value(properties["length"]),
        )


class DimLayoutOp(LayoutOp, abc.ABC):
    """A view with one dim as its parameter."""

    dim = prop_def(IntegerAttr)


@irdl_op_definition
class UnsqueezeOp(DimLayoutOp):
    """A size-1 dim inserted at `dim`, 0 <= dim <= rank."""

    name = "fuel.unsqueeze"

    @classmethod
    def layout_of(cls, layout: Layout, properties: Properties, target: Sequence[int]) -> Layout:
        return layout.unsqueeze(int_value(properties["dim"]))


@irdl_op_definition
class SqueezeOp(DimLayoutOp):
    """The size-1 dim `dim` removed."""

    name = "fuel.squeeze"

    @classmethod
    def layout_of(cls, layout: Layout, properties: Properties, target: Sequence[int]) -> Layout:
        return layout.squeeze(int_value(properties["dim"]))


@irdl_op_definition
class FlipOp(DimLayoutOp):
    """The order along `dim` reversed."""

    name = "fuel.flip"

    @classmethod
    def layout_of(cls, layout: Layout, properties: Properties, target: Sequence[int]) -> Layout:
        return layout.flip(int_value(properties["dim"]))


@irdl_op_definition
class ReshapeOp(ShapeOp):
    """
    The same row-major sequence of elements in another shape.

    No view: a strided operand is materialised first, and the result is contiguous.
    """

    name = "fuel.reshape"

    traits = traits_def(FreeWhenContiguous())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (input,), (result,) = operands, declared
        require_equal_dtypes(cls, (input, result))
        source, target = input.get_shape(), result.get_shape()
        if prod(source) != prod(target):
            raise ShapeError(
                f"reshape: element count mismatch: {list(source)} has {prod(source)} elements, "
                f"{list(target)} has {prod(target)}"
            )
        return declared

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        if self.input.type == self.result.type:
            return (self.input,)
        return super().fold()


@irdl_op_definition
class ContiguizeOp(ShapeOp):
    """The same value, row-major from offset 0."""

    name = "fuel.contiguize"

    traits = traits_def(FreeWhenContiguous())

    T: ClassVar = SAME_TENSOR
    input = operand_def(T)
    result = result_def(T)
    assembly_format = "$input attr-dict `:` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        return operands


@irdl_op_definition
class ConcatOp(FuelOp, MovementOp, SplittableOp):
    """The operands joined along `dim`, in order; all other dims are equal."""

    name = "fuel.concat"

    inputs = var_operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)
    dim = prop_def(IntegerAttr)

    assembly_format = "$inputs attr-dict `:` type($inputs) `->` type($result)"

    traits = traits_def(Pure())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        if not operands:
            raise GraphError("concat: needs one operand or more")
        dim = int_value(properties["dim"])
        require_equal_dtypes(cls, operands)
        shapes = [list(o.get_shape()) for o in operands]
        if any(len(s) != len(shapes[0]) for s in shapes):
            raise ShapeError(f"concat: rank mismatch: {', '.join(map(str, shapes))}")
        require_dim(cls, dim, operands[0])
        rest = [s[:dim] + s[dim + 1 :] for s in shapes]
        if any(r != rest[0] for r in rest):
            raise ShapeError(
                f"concat: non-dim shapes differ: {', '.join(map(str, shapes))} along dim {dim}"
            )
        joined = [*shapes[0][:dim], sum(s[dim] for s in shapes), *shapes[0][dim + 1 :]]
        return (tensor(joined, operands[0].element_type),)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        if len(self.inputs) == 1:
            return (self.inputs[0],)
        return super().fold()

    def pieces(self) -> tuple[Piece, ...]:
        dim, start, pieces = int_value(self.dim), 0, list[Piece]()
        for number, operand in enumerate(self.inputs):
            shape = tensor_type(operand).get_shape()
            pieces.append(box(number, shape, {dim: start}))
            start += shape[dim]
        return tuple(pieces)

    def split(self, builder: Builder) -> Sequence[SSAValue]:
        half = len(self.inputs) // 2
        parts = [
            builder.insert(ConcatOp.make(*some, dim=self.dim)).result
            for some in (self.inputs[:half], self.inputs[half:])
        ]
        return (builder.insert(ConcatOp.make(*parts, dim=self.dim)).result,)
