# SPDX-License-Identifier: MIT OR Apache-2.0
"""Walking the parts of a module that a plan arranges: function bodies and arms, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation

from fuel_dialect.errors import FuelPassError, GraphError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, YieldOp
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.state import donations
from fuel_dialect.traits import Container
from fuel_passes.diagnostics import fail


def functions(module: ModuleOp) -> Iterator[FuncOp]:
    """
    The functions of a module that hold ops of fuel.

    Functions without any are left alone. Raises `FuelPassError` for one that mixes them with other
    ops or has several blocks: effects and jumps are nothing that a plan could keep in order.
    """
    for op in module.body.ops:
        if isinstance(op, FuncOp) and _holds_fuel(op):
            _check_straight(op)
            yield op


def _holds_fuel(function: FuncOp) -> bool:
    ops = (op for block in function.body.blocks for op in block.ops)
    first = next(ops, None)
    if isinstance(first, FuelOp) or any(isinstance(op, FuelOp) for op in ops):
        return True
    return isinstance(first, ReturnOp) and first.next_op is None and len(function.body.blocks) == 1


def _check_straight(function: FuncOp) -> None:
    """
    Raise `FuelPassError` unless a function is one block of fuel ops, in its arms too, and says
    rightly which results are the next values of which donated arguments.
    """
    name = function.sym_name.data
    try:
        donations(function)
    except GraphError as error:
        fail(function, str(error))
    if len(function.body.blocks) > 1:
        fail(
            function,
            f"@{name} has several blocks; fuel plans functions of one: use fuel.branch, fuel.scan",
        )
    pending = [(function.body.block, 0)]
    while pending:
        block, depth = pending.pop()
        for op in block.ops:
            if not _is_plannable(type(op)):
                fail(
                    op,
                    f"{op.name} is not an op of fuel; @{name} must hold fuel ops alone to be "
                    "planned",
                )
            if op.regions and isinstance(op, BranchOp):
                _check_depth(op, depth + 1, name)
                pending += [(region.block, depth + 1) for region in op.arm_regions]


@cache
def _is_plannable(op: type[Operation]) -> bool:
    return issubclass(op, FuelOp | ReturnOp | YieldOp)


MOST_NESTED = 64
"""Branches and scans in one another: xDSL walks, verifies and prints them by recursion."""


def _check_depth(op: Operation, depth: int, name: str) -> None:
    """Raises `FuelPassError`, without the IR: printing that would be too deep as well."""
    if depth > MOST_NESTED:
        raise FuelPassError(
            f"{op.name} is nested more than {MOST_NESTED} deep in @{name}; put what it decides or "
            "repeats next to what is around it, not into it",
        )


def plan_blocks(module: ModuleOp) -> Iterator[Block]:
    """Every function's block and every arm's, outer before inner; not the bodies of other ops."""
    for function in functions(module):
        yield from function_blocks(function)


def function_blocks(function: FuncOp) -> Iterator[Block]:
    """Yields the block of a function and those of all arms in it, outer before inner."""
    pending = list(reversed(function.body.blocks))
    while pending:
        block = pending.pop()
        yield block
        pending += [
            region.block
            for op in block.ops
            if isinstance(op, BranchOp)
            for region in op.arm_regions
        ]


def branches(function: FuncOp) -> Iterator[BranchOp]:
    """The decisions of a function, outer before inner; kernels and runs are not looked into."""
    pending = list(reversed(function.body.blocks))
    while pending:
        found = [op for op in pending.pop().ops if isinstance(op, BranchOp)]
        yield from found
        pending += [region.block for op in reversed(found) for region in reversed(op.arm_regions)]


def check_decisions(module: ModuleOp) -> None:
    """Raise `FuelPassError` if two branches of one function have the same id, or it is too deep."""
    for function in functions(module):
        seen: set[str] = set()
        for op in _region_ops(function):
            if not isinstance(op, BranchOp):
                continue
            if op.id.data in seen:
                fail(op, f"branch id {op.id.data!r} is used twice in @{function.sym_name.data}")
            seen.add(op.id.data)


def _region_ops(function: FuncOp) -> Iterator[RegionOp]:
    """The ops of a function that hold others, outer before inner, as deep as is allowed."""
    pending = [(block, 0) for block in function.body.blocks]
    while pending:
        block, depth = pending.pop()
        for op in block.ops:
            if not isinstance(op, RegionOp):
                continue
            yield op
            inner = depth + (not op.has_trait(Container))
            _check_depth(op, inner, function.sym_name.data)
            pending += [(block, inner) for region in op.regions for block in region.blocks]
