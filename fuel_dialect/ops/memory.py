# SPDX-License-Identifier: MIT OR Apache-2.0
"""Leaves that bring data in (weight, iota), and transfers between devices (copy, move)."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import StringAttr, UnitAttr
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
from fuel_dialect.errors import GraphError, ShapeError, UnsupportedDTypeForOp
from fuel_dialect.ops.base import SAME_TENSOR, AnyTensor, FuelOp, LeafOp, Properties
from fuel_dialect.traits import MayReuse, Transfer


@irdl_op_definition
class WeightOp(LeafOp):
    """
    A named tensor bound from a safetensors or npz file, or from arrays, when compiled.

    `%w = fuel.weight "mlp.w1" : tensor<16x4xf32>`.
    """

    name = "fuel.weight"

    key = prop_def(StringAttr)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.key)
        placement = {} if self.placement is None else {"placement": self.placement}
        printer.print_op_attributes({**self.attributes, **placement})
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        key = StringAttr(parse_text(parser, " for the name of the weight"))
        attributes = parser.parse_optional_attr_dict()
        placement = attributes.pop("placement", None)
        parser.parse_punctuation(":")
        return cls.create(
            result_types=[parser.parse_type()],
            properties={"key": key, **({} if placement is None else {"placement": placement})},
            attributes=attributes,
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
