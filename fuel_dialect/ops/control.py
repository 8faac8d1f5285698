# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Ops with regions: branch (several ways to compute one thing), scan (a bounded loop), kernel (one
launch) and run (what is recorded once and replayed), with their terminators.

All four are isolated from above: what an arm or a body reads comes in as a block argument, so no
pass can merge an arm's work with work outside it.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from math import prod
from typing import Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
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
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.pattern_rewriter import RewritePattern
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from fuel_dialect import kinds
from fuel_dialect.attributes import (
    ArmAttr,
    TargetAttr,
    parse_arm_details,
    parse_text,
    print_arm_details,
)
from fuel_dialect.canonicalization.lookup import patterns_of
from fuel_dialect.numbers import int_tuple, int_value, integer
from fuel_dialect.ops.base import ANY_TENSOR, ConstOp, FuelOp, Properties
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_dialect.traits import Container, Elementwise, Leaf, Transfer, ViewOp


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


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Ends an arm, a kernel or a run: its operands are the results."""

    name = "fuel.yield"

    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(BranchOp, KernelOp, RunOp), Pure()))


@irdl_op_definition
class BranchOp(RegionOp):
    """
    One value, several ways to compute it; a picker chooses the arm when the walk reaches it.

    Each arm takes the operands as block arguments and yields the results. Arm 0 is the static
    winner. `id` is unique in the function; a nested decision is named from outside by a path:
    branch d3, arm 1, branch d0 is `d3/1/d0`.
    """

    name = "fuel.branch"

    inputs = var_operand_def(ANY_TENSOR)
    outputs = var_result_def(ANY_TENSOR)
    id = prop_def(StringAttr)
    arms = prop_def(ArrayAttr[ArmAttr])
    arm_regions = var_region_def("single_block")

    traits = traits_def(Pure(), IsolatedFromAbove())

    def __init__(
        self,
        id: str,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        arms: Sequence[tuple[ArmAttr, Region]],
    ):
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={"id": StringAttr(id), "arms": ArrayAttr([arm for arm, _ in arms])},
            regions=[[region for _, region in arms]],
        )

    def verify_(self) -> None:
        where = f"branch {self.id.data!r}"
        if not self.id.data or "/" in self.id.data:
            raise VerifyException(f"{where}: the id must be a name without '/'")
        if not self.arm_regions:
            raise VerifyException(f"{where}: needs one arm or more")
        if len(self.arms) != len(self.arm_regions):
            raise VerifyException(
                f"{where}: {len(self.arm_regions)} regions but {len(self.arms)} arm descriptions"
            )
        for index, region in enumerate(self.arm_regions):
            arm = f"{where}, arm {index}"
            check_types(arm, "block argument", region.block.args, self.inputs)
            check_types(arm, "yield", terminator(region, YieldOp, arm).operands, self.outputs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.id)
        header = self.arm_regions[0].block.args if self.arm_regions else ()
        print_bindings(printer, list(zip(header, self.inputs, strict=True)))
        print_results(printer, self)
        print_attributes(printer, self)
        for arm, region in zip(self.arms, self.arm_regions, strict=True):
            printer._print_new_line()  # pyright: ignore[reportPrivateUsage]
            printer.print_string("arm on ")
            printer.print_attribute(arm.target)
            print_arm_details(arm, printer)
            printer.print_string(" ")
            name_like(printer, header, region.block)
            printer.print_region(region, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        id = parse_text(parser, " for the id of the branch")
        arguments, operands = parse_bindings(parser)
        types = parse_results(parser)
        op = cls(id, operands, types, ())
        parse_attributes(parser, op)
        arms: list[ArmAttr] = []
        while parser.parse_optional_keyword("arm"):
            parser.parse_keyword("on")
            target = parser.parse_attribute()
            if not isinstance(target, TargetAttr):
                parser.raise_error('expected a target, such as #fuel.target<cpu, "numpy">')
            arms.append(ArmAttr(target, *parse_arm_details(parser)))
            op.add_region(parser.parse_region(arguments))
        op.properties["arms"] = ArrayAttr(arms)
        return op


def check_body(where: str, op: Operation, allowed: str) -> None:
    """Raise `VerifyException` unless an op computes: transfers, decisions and plans do not."""
    is_plan = isinstance(op, BranchOp) or op.has_trait(Transfer) or op.has_trait(Container)
    if is_plan or not isinstance(op, FuelOp | YieldOp):
        raise VerifyException(f"{where}: {op.name} is not allowed in the body, which {allowed}")


class SequenceOp(RegionOp, abc.ABC):
    """A straight sequence of ops with explicit live-ins (operands) and live-outs (results)."""

    inputs = var_operand_def(ANY_TENSOR)
    outputs = var_result_def(ANY_TENSOR)
    body = region_def("single_block")

    traits = traits_def(Pure(), IsolatedFromAbove(), Container())

    def verify_(self) -> None:
        where = self.mnemonic()
        self.verify_members()
        check_types(where, "block argument", self.body.block.args, self.inputs)
        check_types(where, "yield", terminator(self.body, YieldOp, where).operands, self.outputs)

    @abc.abstractmethod
    def verify_members(self) -> None:
        """Raise `VerifyException` for an op that may not stand in the body."""

    def print_signature(self, printer: Printer) -> None:
        """Bindings, result types, attributes and body."""
        print_bindings(printer, list(zip(self.body.block.args, self.inputs, strict=True)))
        print_results(printer, self)
        print_attributes(printer, self)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse_signature(cls, parser: Parser, properties: Properties) -> Self:
        """The inverse of `print_signature`."""
        arguments, operands = parse_bindings(parser)
        types = parse_results(parser)
        op = cls.create(operands=operands, result_types=types, properties=properties)
        parse_attributes(parser, op)
        op.add_region(parser.parse_region(arguments))
        return op


@irdl_op_definition
class KernelOp(SequenceOp):
    """
    Ops that become one launch.

    `kind` says how they are evaluated. `pointwise`: one loop over elements. `reduction`: ops along
    one set of axes, with the elementwise ops before, between and after them, a row (the elements
    that are read together) at a time. `matmul`: a product, and elementwise ops on it. `movement`:
    elements in other places. `scan`: a loop over steps. `library`: one call per op. The table of
    `fuel_dialect.kinds` says the rest of them, and of those that other packages add.
    `label` names what the kernel computes. `target` is where the plan wants it; without one it runs
    where its pin says, else on the target of the arm around it, else on the topology's first.
    The body holds ops that compute: no transfer, no decision, no kernel or run.
    """

    name = "fuel.kernel"

    kind = prop_def(StringAttr)
    label = prop_def(StringAttr)
    target = opt_prop_def(TargetAttr)

    def verify_(self) -> None:
        if self.kind.data not in kinds.names():
            raise VerifyException(
                f"kernel: unknown kind {self.kind.data!r}; use one of {', '.join(kinds.names())}"
            )
        super().verify_()

    def verify_members(self) -> None:
        for op in self.body.block.ops:
            check_body(f"kernel {self.label.data!r}", op, "holds ops that compute")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_attribute(self.label)
        if self.target is not None:
            printer.print_string(" on ")
            printer.print_attribute(self.target)
            printer.print_string(" ")
        self.print_signature(printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kind = StringAttr(parser.parse_identifier())
        label = StringAttr(parse_text(parser, " for the label of the kernel"))
        properties: dict[str, Attribute] = {"kind": kind, "label": label}
        if parser.parse_optional_keyword("on"):
            properties["target"] = parser.parse_attribute()
        return cls.parse_signature(parser, properties)


@irdl_op_definition
class RunOp(SequenceOp):
    """
    The longest straight stretch between decisions on one target: recorded once and replayed.

    Holds kernels and leaves. No result is a view of an operand. With `reuses`, which has a number
    for each result, a result takes over the buffer of the operand of that number; -1 means that it
    has one of its own.
    """

    name = "fuel.run"

    target = prop_def(TargetAttr)
    reuses = opt_prop_def(DenseArrayBase)

    def reused(self) -> dict[int, int]:
        """The results that take over the buffer of an operand, and that operand."""
        if self.reuses is None:
            return {}
        return {i: operand for i, operand in enumerate(int_tuple(self.reuses)) if operand >= 0}

    def verify_(self) -> None:
        super().verify_()
        if self.reuses is None:
            return
        if len(self.reuses) != len(self.outputs):
            raise VerifyException(
                f"run: reuses has {len(self.reuses)} numbers for {len(self.outputs)} results"
            )
        taken: dict[int, int] = {}
        for result, operand in self.reused().items():
            if operand >= len(self.inputs):
                raise VerifyException(
                    f"run: result {result} reuses operand {operand} of {len(self.inputs)}"
                )
            if operand in taken:
                raise VerifyException(
                    f"run: results {taken[operand]} and {result} both reuse operand {operand}"
                )
            taken[operand] = result
            if self.outputs[result].type != self.inputs[operand].type:
                raise VerifyException(
                    f"run: result {result} is {self.outputs[result].type}; it cannot reuse "
                    f"operand {operand}, {self.inputs[operand].type}"
                )

    def verify_members(self) -> None:
        for op in self.body.block.ops:
            if not isinstance(op, KernelOp | YieldOp) and not op.has_trait(Leaf):
                raise VerifyException(
                    f"run: {op.name} is not allowed in the body, which holds kernels, constants, "
                    "weights and iota"
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(" on ")
        printer.print_attribute(self.target)
        if self.reuses is not None:
            printer.print_string(" reuses ")
            printer.print_attribute(self.reuses)
        printer.print_string(" ")
        self.print_signature(printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.parse_keyword("on")
        properties = {"target": parser.parse_attribute()}
        if parser.parse_optional_keyword("reuses") is not None:
            properties["reuses"] = parser.parse_attribute()
        return cls.parse_signature(parser, properties)


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
    holds ops that compute: no transfer, no decision, no kernel or run.
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
