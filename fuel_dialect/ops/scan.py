# SPDX-License-Identifier: MIT OR Apache-2.0
"""The bounded loop and the terminator of its body."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Self, cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    lazy_traits_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from fuel_dialect.numbers import int_value, integer
from fuel_dialect.ops.base import ANY_TENSOR, ConstOp, FuelOp, Properties
from fuel_dialect.ops.control import BranchOp, KernelOp, check_body
from fuel_dialect.ops.regions import (
    Bindings,
    RegionOp,
    check_types,
    parse_attributes,
    parse_bindings,
    parse_results,
    print_attributes,
    print_bindings,
    print_results,
    terminator,
)
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_dialect.traits import Elementwise, Leaf, Transfer, ViewOp


@irdl_op_definition
class ScanYieldOp(FuelOp):
    """
    Ends the body of a scan: the next carries, this step's ys, and optionally `until`.

    The step that makes `until` true is the last one, and is kept.
    """

    name = "fuel.scan_yield"

    carries = var_operand_def(ANY_TENSOR)
    ys = var_operand_def(ANY_TENSOR)
    until = opt_operand_def(ANY_TENSOR)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    assembly_format = (
        "(`carry` `(` $carries^ `:` type($carries) `)`)? (`ys` `(` $ys^ `:` type($ys) `)`)?"
        " (`until` $until^ `:` type($until))? attr-dict"
    )

    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(ScanOp), Pure()))

    def __init__(
        self,
        carries: Sequence[SSAValue],
        ys: Sequence[SSAValue] = (),
        until: SSAValue | None = None,
    ):
        super().__init__(operands=[carries, ys, [] if until is None else [until]])

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        return ()

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return None


@irdl_op_definition
class ScanOp(RegionOp):
    """
    A loop of known length that carries state: the contract of `jax.lax.scan`.

    Operands are initial carries, xs (stepped along axis 0) and consts; the body takes the carries,
    one slice of each x and the consts. Results are the final carries, the stacked ys and, if the
    body gives `until`, the number of steps done (a rank-0 ui32). Rows of ys that were not reached
    are zero. Length 0 gives the initial carries and empty ys. The body runs on one device, so it
    holds ops that compute, or kernels of them: no transfer, no decision, no run.
    """

    name = "fuel.scan"

    inits = var_operand_def(ANY_TENSOR)
    xs = var_operand_def(ANY_TENSOR)
    consts = var_operand_def(ANY_TENSOR)
    outputs = var_result_def(ANY_TENSOR)
    length = prop_def(IntegerAttr)
    reverse = opt_prop_def(UnitAttr)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(Pure(), IsolatedFromAbove())

    def __init__(
        self,
        inits: Sequence[SSAValue],
        xs: Sequence[SSAValue],
        consts: Sequence[SSAValue],
        length: int,
        body: Region,
        reverse: bool = False,
    ):
        end = cast(ScanYieldOp, terminator(body, ScanYieldOp, "scan"))
        super().__init__(
            operands=[inits, xs, consts],
            result_types=[self.result_types_of(inits, end, length)],
            properties={
                "length": integer(length),
                **({"reverse": UnitAttr()} if reverse else {}),
            },
            regions=[body],
        )

    @staticmethod
    def result_types_of(
        inits: Sequence[SSAValue], end: ScanYieldOp, length: int
    ) -> list[Attribute]:
        """Types of the final carries, stacked ys and step count."""
        stacked = [
            tensor((length, *tensor_type(y).get_shape()), tensor_type(y).element_type)
            for y in end.ys
        ]
        steps = [] if end.until is None else [tensor((), "ui32")]
        return [*(i.type for i in inits), *stacked, *steps]

    def variant(self) -> str:
        return str(self.steps)

    @property
    def steps(self) -> int:
        """The largest number of steps."""
        return int_value(self.length)

    @property
    def end(self) -> ScanYieldOp:
        return cast(ScanYieldOp, self.body.block.last_op)

    @property
    def carry_results(self) -> Sequence[SSAValue]:
        return self.outputs[: len(self.inits)]

    @property
    def y_results(self) -> Sequence[SSAValue]:
        return self.outputs[len(self.inits) : len(self.inits) + len(self.end.ys)]

    @property
    def carry_args(self) -> Sequence[BlockArgument]:
        return self.body.block.args[: len(self.inits)]

    @property
    def x_args(self) -> Sequence[BlockArgument]:
        return self.body.block.args[len(self.inits) : len(self.inits) + len(self.xs)]

    @property
    def const_args(self) -> Sequence[BlockArgument]:
        return self.body.block.args[len(self.inits) + len(self.xs) :]

    @property
    def is_pointwise(self) -> bool:
        """
        Returns True for a loop at each point, which is one kernel: the body is elementwise over the
        one shape of all carries and ys, with views of what is not computed, and no `until`.
        """
        values = (*self.inits, *self.end.carries, *self.end.ys)
        shapes = {tuple(tensor_type(value).get_shape()) for value in values}
        if self.end.until is not None or not self.inits or len(shapes) != 1:
            return False
        (shape,) = shapes
        return all(self._is_at_each_point(op, shape) for op in self.body.block.ops)

    def _is_at_each_point(self, op: Operation, shape: tuple[int, ...]) -> bool:
        if op is self.end:
            return True
        if op.has_trait(Elementwise):
            return tuple(tensor_type(op.results[0]).get_shape()) == shape
        if op.has_trait(Leaf):
            return isinstance(op, ConstOp) and op.splat is not None
        if not isinstance(op, ViewOp):
            return False
        source = op.operands[0]
        is_computed = isinstance(source.owner, Operation) and source.owner.has_trait(Elementwise)
        return not is_computed and all(source is not carry for carry in self.carry_args)

    def verify_(self) -> None:
        end = cast(ScanYieldOp, terminator(self.body, ScanYieldOp, "scan"))
        if self.length.type != i64:
            raise VerifyException(f"scan: the length must be an i64, got {self.length}")
        if self.steps < 0:
            raise VerifyException(f"scan: the length must be >= 0, got {self.steps}")
        self._verify_inputs()
        check_types("scan", "next carry", end.carries, self.inits)
        if end.until is not None:
            type = tensor_type(end.until)
            if type.element_type != i1 or prod(type.get_shape()) != 1:
                raise VerifyException(f"scan: until must be one i1 element, got {type}")
        declared = [r.type for r in self.outputs]
        expected = self.result_types_of(self.inits, end, self.steps)
        if declared != expected:
            raise VerifyException(
                f"scan: gives {', '.join(map(str, expected))}, not {', '.join(map(str, declared))}"
            )
        for op in self.body.block.ops:
            self._verify_member(op)

    def _verify_member(self, op: Operation) -> None:
        """A scan runs as one kernel on one device, so nothing is decided or moved within."""
        if isinstance(op, BranchOp):
            raise VerifyException(
                f"scan: branch {op.id.data!r} is not allowed in the body; branch around the scan"
            )
        if op.has_trait(Transfer):
            raise VerifyException(
                f"scan: {op.name} is not allowed in the body, which runs on one device; "
                f"{op.name} what the scan reads or gives"
            )
        if not isinstance(op, KernelOp):  # `fuel-legalize-kernels` forms them of the body
            check_body("scan", op, "holds ops that compute")

    def _verify_inputs(self) -> None:
        args = self.body.block.args
        operands = len(self.inits) + len(self.xs) + len(self.consts)
        if len(args) != operands:
            raise VerifyException(
                f"scan: the body takes {len(args)} arguments for {operands} operands"
            )
        check_types("scan", "carry", self.carry_args, self.inits)
        check_types("scan", "const", self.const_args, self.consts)
        for index, (x, argument) in enumerate(zip(self.xs, self.x_args, strict=True)):
            type = tensor_type(x)
            shape = type.get_shape()
            if not shape or shape[0] != self.steps:
                raise VerifyException(
                    f"scan: x {index} is {type}; its dim 0 must be the length {self.steps}"
                )
            row = _row_type(type)
            if argument.type != row:
                raise VerifyException(f"scan: x {index} is {argument.type} in the body, not {row}")

    def print(self, printer: Printer) -> None:
        groups = (
            ("init", self.carry_args, self.inits),
            ("xs", self.x_args, self.xs),
            ("consts", self.const_args, self.consts),
        )
        for keyword, arguments, operands in groups:
            if operands:
                printer.print_string(f" {keyword}")
                print_bindings(printer, list(zip(arguments, operands, strict=True)))
        printer.print_string(f" length {self.steps}")
        if self.reverse is not None:
            printer.print_string(" reverse")
        print_results(printer, self)
        print_attributes(printer, self)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        groups: list[Bindings] = []
        for keyword in ("init", "xs", "consts"):
            found = parser.parse_optional_keyword(keyword)
            groups.append(parse_bindings(parser) if found else ([], []))
        parser.parse_keyword("length")
        length = parser.parse_integer(False, False)
        reverse = parser.parse_optional_keyword("reverse") is not None
        types = parse_results(parser)
        op = cls.build(
            operands=[operands for _, operands in groups],
            result_types=[types],
            properties={
                "length": integer(length),
                **({"reverse": UnitAttr()} if reverse else {}),
            },
            regions=[Region()],
        )
        parse_attributes(parser, op)
        carries, xs, consts = (arguments for arguments, _ in groups)
        rows = [Parser.Argument(x.name, _row_type(x.type)) for x in xs]
        body = parser.parse_region([*carries, *rows, *consts])
        body.move_blocks(op.body)
        return op


def _row_type(type: Attribute) -> Attribute:
    """The type of one slice along axis 0; a type without one is left for the verifier."""
    if not isinstance(type, TensorType):
        return type
    stacked = cast(AnyTensor, type)
    if not stacked.get_shape():
        return stacked
    return tensor(stacked.get_shape()[1:], stacked.element_type)
