# SPDX-License-Identifier: MIT OR Apache-2.0
"""Walking the parts of a module that a plan arranges: function bodies and arms, at any depth."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from fuel_dialect.ops.control import BranchOp
from fuel_passes.diagnostics import fail


def functions(module: ModuleOp) -> Iterator[FuncOp]:
    """The functions of a module that have a body."""
    for op in module.body.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op


def plan_blocks(module: ModuleOp) -> Iterator[Block]:
    """Every function's block and every arm's, outer before inner; not the bodies of other ops."""
    pending = [block for function in functions(module) for block in reversed(function.body.blocks)]
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
    """Raise `FuelPassError` if two branches of one function have the same id."""
    for function in functions(module):
        seen: set[str] = set()
        for op in function.walk():
            if not isinstance(op, BranchOp):
                continue
            if op.id.data in seen:
                fail(op, f"branch id {op.id.data!r} is used twice in @{function.sym_name.data}")
            seen.add(op.id.data)
