# SPDX-License-Identifier: MIT OR Apache-2.0
"""The base of ops with regions, and the syntax they share: bindings, results, attributes."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.pattern_rewriter import RewritePattern
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from fuel_dialect.canonicalization.lookup import patterns_of
from fuel_dialect.ops.base import FuelOp, Properties
from fuel_dialect.tensors import AnyTensor


class RegionOp(FuelOp, HasCanonicalizationPatternsInterface, abc.ABC):
    """Base of the ops with regions; their types are checked by `verify_`, not inferred."""

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        return declared

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return None

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return patterns_of(cls)


def terminator(region: Region, kind: type[Operation], op: str) -> Operation:
    """The last op of a region's block. Raises `VerifyException` unless it is a `kind`."""
    last = region.block.last_op
    if not isinstance(last, kind):
        found = "nothing" if last is None else last.name
        raise VerifyException(f"{op}: the block must end with {kind.name}, got {found}")
    return last


def check_types(op: str, what: str, got: Sequence[SSAValue], want: Sequence[SSAValue]) -> None:
    """Raise `VerifyException` unless two lists of values agree in number and type."""
    if len(got) != len(want):
        raise VerifyException(f"{op}: {what}: expected {len(want)} values, got {len(got)}")
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.type != b.type:
            raise VerifyException(f"{op}: {what} {index} is {a.type}, expected {b.type}")


def print_bindings(printer: Printer, pairs: Sequence[tuple[BlockArgument, SSAValue]]) -> None:
    """`(%a = %x : T, ...)`: a block argument and the operand it stands for."""

    def print_binding(pair: tuple[BlockArgument, SSAValue]) -> None:
        printer.print_ssa_value(pair[0])
        printer.print_string(" = ")
        printer.print_ssa_value(pair[1])
        printer.print_string(" : ")
        printer.print_attribute(pair[1].type)

    with printer.in_parens():
        printer.print_list(pairs, print_binding)


def name_like(printer: Printer, header: Sequence[SSAValue], block: Block) -> None:
    """Print a block's arguments under the names of another block's, which a header declares."""
    names = printer._ssa_values  # pyright: ignore[reportPrivateUsage]
    for named, argument in zip(header, block.args, strict=True):
        names[argument] = names[named]


Bindings = tuple[list[Parser.Argument], list[SSAValue]]


def parse_bindings(parser: Parser) -> Bindings:
    """The inverse of `print_bindings`."""
    arguments: list[Parser.Argument] = []
    operands: list[tuple[UnresolvedOperand, Attribute]] = []

    def parse_binding() -> None:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        arguments.append(argument.resolve(type))
        operands.append((operand, type))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_binding)
    return arguments, [parser.resolve_operand(operand, type) for operand, type in operands]


def print_results(printer: Printer, op: Operation) -> None:
    """`-> T` or `-> (T, U)`."""
    printer.print_string(" -> ")
    types = op.result_types
    if len(types) == 1:
        printer.print_attribute(types[0])
        return
    with printer.in_parens():
        printer.print_list(types, printer.print_attribute)


def parse_results(parser: Parser) -> list[Attribute]:
    """The inverse of `print_results`."""
    parser.parse_punctuation("->")
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else [*types]


def parse_attributes(parser: Parser, op: FuelOp) -> None:
    """Optional `attributes {...}`; `placement` in it is a property."""
    given = parser.parse_optional_attr_dict_with_keyword()
    if given is None:
        return
    attributes = dict(given.data)
    placement = attributes.pop("placement", None)
    if placement is not None:
        op.properties["placement"] = placement
    op.attributes |= attributes


def print_attributes(printer: Printer, op: FuelOp) -> None:
    """The inverse of `parse_attributes`."""
    placement = {} if op.placement is None else {"placement": op.placement}
    printer.print_op_attributes({**op.attributes, **placement}, print_keyword=True)
