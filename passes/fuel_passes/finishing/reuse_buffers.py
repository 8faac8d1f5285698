# SPDX-License-Identifier: MIT OR Apache-2.0
"""
`fuel-reuse-buffers`: decides which results of runs take over the buffer of an operand.

This file is the one place that decides who owns memory: `taken_over` within a run, the pass between
runs. Lowerings follow it on every target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from fuel_dialect.numbers import int_array
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.state import donations
from fuel_dialect.traits import Leaf, MayReuse, Transfer
from fuel_passes.walk import functions, plan_blocks


@dataclass(frozen=True)
class ReuseBuffersPass(ModulePass):
    """
    Notes on every run which results take over the buffer of an operand (`reuses`).

    A result does so if an op that may reuse its operand (`write_slice`) computes it from that
    operand, nothing reads the operand afterwards, and its memory is the function's to use up: a
    donated argument, or what another run gave. All other results have buffers of their own, also
    those that are the next value of a donated argument: then the two buffers change places.

    It applies to an optimised function, whose order is settled (`fuel-order`). No options.
    """

    name = "fuel-reuse-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lent = {
            function.body.block.args[index]
            for function in functions(op)
            for index in donations(function)
        }
        for block in plan_blocks(op):
            for inner in block.ops:
                if isinstance(inner, RunOp):
                    _note(inner, lent)


def _note(run: RunOp, lent: set[BlockArgument]) -> None:
    """Set the `reuses` of a run; without it nothing is reused."""
    run.properties.pop("reuses", None)
    end = run.body.block.last_op
    assert end is not None
    numbers = [-1] * len(run.outputs)
    for index, value in enumerate(end.operands):
        operand = _source(value, run)
        if operand is None or operand in numbers or not _may_use_up(run, operand, lent):
            continue
        numbers[index] = operand
    if any(number >= 0 for number in numbers):
        run.properties["reuses"] = int_array(numbers)


def _source(value: SSAValue, run: RunOp) -> int | None:
    """Finds the operand of a run whose buffer kernels hand on until it is `value`."""
    while True:
        if isinstance(value, BlockArgument):
            return value.index if value.owner is run.body.block else None
        kernel = value.owner
        if not isinstance(kernel, KernelOp):
            return None
        taken = taken_over(kernel).get(value)
        if taken is None:
            return None
        value = taken


def handed_on(op: Operation) -> Iterator[SSAValue]:
    """
    Yields the operands of a run whose buffers its results take over if nothing reads them later;
    those of a branch that runs in its arms may use up.
    """
    if isinstance(op, RunOp):
        end = op.body.block.last_op
        sources = (_source(value, op) for value in (() if end is None else end.operands))
        yield from (op.operands[index] for index in sources if index is not None)
    elif isinstance(op, BranchOp):
        for block in (region.block for region in op.arm_regions):
            for value in (value for inner in block.ops for value in handed_on(inner)):
                if isinstance(value, BlockArgument) and value.owner is block:
                    yield op.operands[value.index]


def taken_over(kernel: KernelOp) -> dict[SSAValue, SSAValue]:
    """
    Maps each result of a kernel that may lie where an operand lies to that operand.

    Every element of such a result is the operand's at the same place or is written over it; the
    kernel reads the operand nowhere else, and nothing in the block reads it later. A leaf is never
    taken over: a weight, a constant and an iota belong to all calls.
    """
    end = kernel.body.block.last_op
    assert end is not None
    found: dict[SSAValue, SSAValue] = {}
    for result, value in zip(kernel.outputs, end.operands, strict=True):
        argument = _reused_argument(value)
        if argument is None or _count(argument) != 1:
            continue
        operand = kernel.inputs[argument.index]
        if isinstance(operand.owner, Operation) and operand.owner.has_trait(Leaf):
            continue
        if list(kernel.inputs).count(operand) == 1 and is_last_reader(kernel, operand):
            found.setdefault(result, operand)
    return found


def _reused_argument(value: SSAValue) -> BlockArgument | None:
    """Finds the argument of a kernel that the op behind a value may write over."""
    if not isinstance(value.owner, Operation) or _count(value) != 1:
        return None
    for trait in value.owner.get_traits_of_type(MayReuse):
        operand = value.owner.operands[trait.operand]
        if isinstance(operand, BlockArgument):
            return operand
    return None


def _count(value: SSAValue) -> int:
    return sum(1 for _ in value.uses)


def is_last_reader(op: Operation, value: SSAValue) -> bool:
    """Returns True if every other reader of a value in the op's block comes before the op."""
    return all(reader is op or reader.is_before_in_block(op) for reader in readers_of(value))


def readers_of(value: SSAValue) -> Iterator[Operation]:
    """Yields the ops that read a value, or its transfers: a transfer may give the value itself."""
    for use in value.uses:
        yield use.operation
        if use.operation.has_trait(Transfer):
            yield from readers_of(use.operation.results[0])


def _may_use_up(op: Operation, operand: int, lent: set[BlockArgument]) -> bool:
    """Returns True if an op may write over an operand's memory: nobody else needs it any more."""
    value, block = op.operands[operand], op.parent
    assert block is not None
    if list(op.operands).count(value) != 1 or not is_last_reader(op, value):
        return False
    if any(_passes_on(reader) for reader in readers_of(value) if reader is not op):
        return False
    if isinstance(value.owner, RunOp):
        return True
    if not isinstance(value, BlockArgument):
        return False
    branch = block.parent_op()
    if isinstance(branch, BranchOp):
        return not _passes_on(branch) and _may_use_up(branch, value.index, lent)
    return isinstance(branch, FuncOp) and value in lent


def _passes_on(op: Operation) -> bool:
    """Returns True if a branch gives an operand of it as a result: then both are one buffer."""
    return isinstance(op, BranchOp) and any(
        _gives_argument(region.block) for region in op.arm_regions
    )


def _gives_argument(block: Block) -> bool:
    end = block.last_op
    given: Sequence[SSAValue] = () if end is None else end.operands
    return any(isinstance(_origin(value), BlockArgument) for value in given)


def _origin(value: SSAValue) -> SSAValue:
    """Follows transfers back to the value that they bring."""
    while isinstance(value.owner, Operation) and value.owner.has_trait(Transfer):
        value = value.owner.operands[0]
    return value
