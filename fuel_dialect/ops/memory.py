# SPDX-License-Identifier: MIT OR Apache-2.0
"""Leaves that bring data in (weight, iota), transfers (copy, move), and writes into a part."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from fuel_dialect import dtypes
from fuel_dialect.attributes import DeviceAttr, parse_text
from fuel_dialect.errors import DTypeError, GraphError, ShapeError, UnsupportedDTypeForOp
from fuel_dialect.movement import MovementOp, Piece, Position, box
from fuel_dialect.numbers import int_tuple, int_value
from fuel_dialect.ops.base import (
    ANY_TENSOR,
    SAME_TENSOR,
    FuelOp,
    LeafOp,
    Properties,
    TensorConstraint,
    require_dim,
    require_equal_dtypes,
)
from fuel_dialect.prepared import KEY, SOURCE, PreparedFrom
from fuel_dialect.tensors import AnyTensor, tensor_type
from fuel_dialect.traits import MayReuse, Transfer


@irdl_op_definition
class WeightOp(LeafOp):
    """
    A named tensor bound from a safetensors or npz file, or from arrays, when compiled.

    `%w = fuel.weight "mlp.w1" : tensor<16x4xf32>`. A prepared weight is the result of that name
    (`fuel.name`) of a function without arguments, which runs once, when weights are bound:
    `%c = fuel.weight "c" of @main.weights : tensor<16x4xf32>`.
    """

    name = "fuel.weight"

    key = prop_def(StringAttr)
    source = opt_prop_def(SymbolRefAttr)

    traits = traits_def(PreparedFrom())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.key)
        if self.source is not None:
            printer.print_string(" of ")
            printer.print_attribute(self.source)
        placement = {} if self.placement is None else {"placement": self.placement}
        printer.print_op_attributes({**self.attributes, **placement})
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        key = StringAttr(parse_text(parser, " for the name of the weight"))
        properties: dict[str, Attribute] = {KEY: key}
        if parser.parse_optional_keyword("of"):
            properties[SOURCE] = SymbolRefAttr(parser.parse_symbol_name())
        attributes = parser.parse_optional_attr_dict()
        if (placement := attributes.pop("placement", None)) is not None:
            properties["placement"] = placement
        parser.parse_punctuation(":")
        return cls.create(
            result_types=[parser.parse_type()], properties=properties, attributes=attributes
        )

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        key = properties["key"]
        if not isinstance(key, StringAttr) or not key.data:
            raise GraphError("weight: needs a name")
        return declared


@irdl_op_definition
class IotaOp(LeafOp):
    """0, 1, 2, ... as f32; exact below 2^24."""

    name = "fuel.iota"

    assembly_format = "attr-dict `:` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (result,) = declared
        if len(result.get_shape()) != 1:
            raise ShapeError(f"iota: gives rank 1, not {list(result.get_shape())}")
        if dtypes.of_type(result).name != "f32":
            raise UnsupportedDTypeForOp("iota", dtypes.of_type(result).name, ("f32",))
        return declared


class TransferOp(FuelOp, abc.ABC):
    """
    The operand's value, resident on `to`.

    `planned` marks a transfer that a pass inserted; `fuel-strip-plan` takes it out again.
    """

    T: ClassVar = SAME_TENSOR

    input = operand_def(T)
    result = result_def(T)
    to = prop_def(DeviceAttr)
    planned = opt_prop_def(UnitAttr)

    assembly_format = (
        "$input `to` qualified($to) (`planned` $planned^)? attr-dict `:` type($result)"
    )

    traits = traits_def(Pure(), Transfer())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        return operands

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return None


@irdl_op_definition
class CopyOp(TransferOp):
    """Resident on `to` as well; free where the value already is."""

    name = "fuel.copy"


@irdl_op_definition
class MoveOp(TransferOp):
    """Resident on `to`; the source is given up at its last use."""

    name = "fuel.move"

    traits = traits_def(MayReuse(0))


class WriteOp(FuelOp, MovementOp, abc.ABC):
    """
    The destination, with the source in a part of it: a value like any other.

    `starts` says where the source begins along each dim; it may not reach beyond the destination.
    """

    T: ClassVar = SAME_TENSOR

    input = operand_def(T)
    source = operand_def(ANY_TENSOR)
    result = result_def(T)
    starts = prop_def(DenseArrayBase)

    assembly_format = "$input `,` $source attr-dict `:` type($input) `,` type($source)"

    traits = traits_def(Pure(), MayReuse(0))

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        input, source = operands[:2]
        require_equal_dtypes(cls, (input, source))
        name, starts = cls.mnemonic(), list(int_tuple(properties["starts"]))
        extents, widths = list(input.get_shape()), list(source.get_shape())
        if len({len(extents), len(widths), len(starts)}) > 1:
            raise ShapeError(
                f"{name}: rank mismatch: a source {widths} at starts {starts} in a destination "
                f"{extents}; all three have as many dims"
            )
        for dim, (start, width, extent) in enumerate(zip(starts, widths, extents, strict=True)):
            if start < 0 or start + width > extent:
                raise ShapeError(
                    f"{name}: the source {widths} at {starts} reaches beyond the destination "
                    f"{extents} at dim {dim}"
                )
        return (input,)

    def pieces(self) -> tuple[Piece, ...]:
        input, source = (tensor_type(v).get_shape() for v in (self.input, self.source))
        return box(0, input), box(1, source, int_tuple(self.starts), self.position_of_source())

    def position_of_source(self) -> Position | None:
        """Returns the start of the source that is known only when the program runs, if any."""
        return None


@irdl_op_definition
class WriteSliceOp(WriteOp):
    """The source at `starts`, which are known when the program is built."""

    name = "fuel.write_slice"


class WriteAtOp(WriteOp, abc.ABC):
    """
    The source at a place along `axis` that is known when the program runs.

    The start along `axis` is the one element of the operand `position`; `starts` has 0 there.
    """

    input = operand_def(WriteOp.T)
    source = operand_def(ANY_TENSOR)
    position = operand_def(TensorConstraint(("ui32", "i64")))
    axis = prop_def(IntegerAttr)

    assembly_format = (
        "$input `,` $source `,` $position attr-dict `:` type($input) `,` type($source) `,` "
        "type($position)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        input, source, position = operands
        name, axis = cls.mnemonic(), int_value(properties["axis"])
        if position.get_shape():
            raise ShapeError(
                f"{name}: the position is one number, of shape [], not {list(position.get_shape())}"
            )
        require_dim(cls, axis, input)
        (result,) = super().infer(operands, properties, declared)
        if int_tuple(properties["starts"])[axis]:
            raise ShapeError(f"{name}: the start along axis {axis} comes with the position; give 0")
        if not source.get_shape()[axis]:
            raise ShapeError(f"{name}: the source {list(source.get_shape())} is empty along {axis}")
        return (result,)

    def position_of_source(self) -> Position | None:
        return Position(2, int_value(self.axis))


@irdl_op_definition
class WriteSliceDoffOp(WriteAtOp):
    """
    The source at a position along `axis`, a ui32 or an i64.

    A source that would reach beyond the destination raises `IndexOutOfRange` in the run.
    """

    name = "fuel.write_slice_doff"


@irdl_op_definition
class WriteSliceRotatingOp(WriteAtOp):
    """
    The source in a ring: element j along `axis` goes to (position + j) mod `modulus`, a ui32.

    What lies at `modulus` or beyond along the axis stays.
    """

    name = "fuel.write_slice_rotating"

    modulus = prop_def(IntegerAttr)

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        input, source, position = operands
        if dtypes.of_type(position).name != "ui32":
            raise DTypeError(
                f"write_slice_rotating: the position must be ui32, got {dtypes.of_type(position)}"
            )
        result = super().infer(operands, properties, declared)
        axis, modulus = int_value(properties["axis"]), int_value(properties["modulus"])
        width, extent = source.get_shape()[axis], input.get_shape()[axis]
        if not width <= modulus <= extent:
            raise ShapeError(
                f"write_slice_rotating: a ring of {modulus} holds the source's {width} elements "
                f"along axis {axis} and has room in the destination's {extent}; it does not here"
            )
        return result

    def position_of_source(self) -> Position | None:
        return Position(2, int_value(self.axis), int_value(self.modulus))
