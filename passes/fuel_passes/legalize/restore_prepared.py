# SPDX-License-Identifier: MIT OR Apache-2.0
"""Puts what prepares weights back to where the weights are read: `fuel-prepare-weights` undone."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.prepared import PREPARES, PreparedResults


def restore_prepared(module: ModuleOp) -> None:
    """Replaces the weights that planning prepared by the ops that give them."""
    results = PreparedResults()
    made: dict[tuple[Block, FuncOp], dict[SSAValue, SSAValue]] = {}
    for op in list(module.walk()):
        if not isinstance(op, WeightOp) or op.source is None:
            continue
        function, index = results.of(op)
        if PREPARES in function.attributes:
            assert op.parent is not None
            inside = made.setdefault((op.parent, function), {})
            end = function.body.block.last_op
            assert end is not None
            _restore(op, end.operands[index], inside)
    for op in list(module.body.ops):
        if PREPARES in op.attributes:
            op.detach()
            op.erase()


def _restore(weight: WeightOp, value: SSAValue, inside: dict[SSAValue, SSAValue]) -> None:
    """Clones in front of a weight what gives a value, but for what its block has of it already."""
    assert weight.parent is not None
    wanted, pending = set[Operation](), [value]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner.results[0] not in inside and owner not in wanted:
            wanted.add(owner)
            pending += owner.operands
    block = value.owner.parent if isinstance(value.owner, Operation) else None
    for op in (op for op in (block.ops if block else ()) if op in wanted):
        weight.parent.insert_op_before(op.clone(inside), weight)
    weight.result.replace_all_uses_with(inside[value])
    weight.detach()
    weight.erase()
