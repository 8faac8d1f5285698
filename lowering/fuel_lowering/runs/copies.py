# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels of movement that a run needs beside its own: copies, and views written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from fuel_dialect.kinds import MOVEMENT
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.ops.control import KernelOp, YieldOp


@dataclass(frozen=True)
class Written:
    """A kernel that writes a value out, and the values of its block that it reads."""

    kernel: KernelOp
    arguments: tuple[SSAValue, ...]


def copy_kernel(type: Any) -> KernelOp:
    """A kernel that copies its operand."""
    operand = ConstOp.splat_of(0, type).result
    block = Block(arg_types=[type])
    block.add_op(YieldOp.create(operands=[block.args[0]]))
    return _movement("copy", [operand], block)


def _movement(label: str, inputs: Sequence[SSAValue], block: Block) -> KernelOp:
    assert block.last_op is not None
    return KernelOp.create(
        operands=inputs,
        result_types=[v.type for v in block.last_op.operands],
        properties={"kind": StringAttr(MOVEMENT.name), "label": StringAttr(label)},
        regions=[Region(block)],
    )


def writing_kernel(value: SSAValue, block: Block) -> Written:
    """A kernel that writes out a view of an argument, or a constant, of a block."""
    chain: list[Operation] = []
    source = value
    while isinstance(source.owner, Operation):
        chain.append(source.owner)
        if not source.owner.operands:
            break
        source = source.owner.operands[0]
    is_argument = not isinstance(source.owner, Operation)
    body = Block(arg_types=[source.type] if is_argument else [])
    known: dict[SSAValue, SSAValue] = {source: body.args[0]} if is_argument else {}
    for op in reversed(chain):
        clone = op.clone(known)
        body.add_op(clone)
        known[op.results[0]] = clone.results[0]
    body.add_op(YieldOp.create(operands=[known[value]]))
    arguments = (source,) if is_argument else ()
    return Written(_movement("write", arguments, body), arguments)
