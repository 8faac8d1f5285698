# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Ops that hold others: branch (several ways to compute one thing), kernel (one launch) and run (what
is recorded once and replayed), with the terminator of their bodies.

All are isolated from above, as scans are: what an arm or a body reads comes in as a block argument,
so no pass can merge an arm's work with work outside it.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    StringAttr,
)
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
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
from fuel_dialect.numbers import int_tuple
from fuel_dialect.ops.base import ANY_TENSOR, FuelOp, Properties
from fuel_dialect.ops.regions import (
    RegionOp,
    check_types,
    name_like,
    parse_attributes,
    parse_bindings,
    parse_results,
    print_attributes,
    print_bindings,
    print_results,
    terminator,
)
from fuel_dialect.traits import Container, Leaf, Transfer


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
