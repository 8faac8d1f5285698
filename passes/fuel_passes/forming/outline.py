# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Moving ops of a block into the body of a kernel or a run: live-ins become block arguments,
live-outs results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from fuel_dialect.ops.base import ConstOp, Properties
from fuel_dialect.ops.control import SequenceOp, YieldOp
from fuel_dialect.traits import Leaf


def is_leaf(value: SSAValue) -> bool:
    """Returns True if a constant, weight or iota gives the value."""
    return not isinstance(value.owner, Block) and value.owner.has_trait(Leaf)


def is_splat(value: SSAValue) -> bool:
    """Returns True if a constant with one value in all elements gives the value."""
    owner = value.owner
    return isinstance(owner, ConstOp) and owner.splat is not None


class Outliner:
    """
    Collects ops of one block, in order, and makes a region op of them.

    `clones` says which defining ops are repeated inside rather than passed in (leaves, views);
    they come first in the body, except views of values that members compute.
    """

    def __init__(self, clones: Callable[[SSAValue], bool]):
        self._clones = clones
        self._body = Block()
        self._inside: dict[SSAValue, SSAValue] = {}
        self._inputs: list[SSAValue] = []
        self._arguments: list[BlockArgument] = []
        self._prologue: list[Operation] = []
        self._members: list[Operation] = []
        self._sequence: list[Operation] = []
        """The members, each after the clones of views of members that it reads."""

    def add(self, op: Operation) -> None:
        """Take an op in; values of ops added before stay as they are."""
        inside = self._inside
        mapped = [inside.get(operand) or self._bring_in(operand) for operand in op.operands]
        if any(new is not old for new, old in zip(mapped, op.operands, strict=True)):
            op.operands = mapped
        for result in op.results:
            inside[result] = result
        self._members.append(op)
        self._sequence.append(op)

    def bring_in(self, value: SSAValue) -> SSAValue:
        """The value under which a value of the block is known inside."""
        return self._inside.get(value) or self._bring_in(value)

    def _bring_in(self, value: SSAValue) -> SSAValue:
        chain: list[SSAValue] = []
        while value not in self._inside and self._clones(value):
            chain.append(value)
            owner = value.owner
            assert isinstance(owner, Operation)
            if not owner.operands:
                break
            value = owner.operands[0]
        inner = self._inside.get(value)
        if inner is None and not (chain and chain[-1] is value):
            inner = self._argument(value)
        for viewed in reversed(chain):
            inner = self._clone(viewed, inner)
        assert inner is not None
        return inner

    def _argument(self, value: SSAValue) -> SSAValue:
        # the block gets its arguments at once: each `insert_arg` would copy the ones before
        argument = BlockArgument(value.type, self._body, len(self._arguments))
        argument.name_hint = value.name_hint
        self._arguments.append(argument)
        self._inputs.append(value)
        self._inside[value] = argument
        return argument

    def _clone(self, value: SSAValue, operand: SSAValue | None) -> SSAValue:
        owner = value.owner
        assert isinstance(owner, Operation)
        clone = owner.clone()
        result = clone.results[0]
        place = self._prologue
        if operand is not None:
            clone.operands = [operand]
            if self._inside.get(operand) is operand:
                place = self._sequence
                self._inside[result] = result
        place.append(clone)
        self._inside[value] = result
        return result

    def finish(
        self,
        kind: type[SequenceOp],
        properties: Properties,
        before: Operation,
        yielded: Sequence[SSAValue] = (),
    ) -> SequenceOp | None:
        """
        Insert the region op before `before`; uses of members elsewhere read its results.

        `yielded` are values of the block that a clone inside gives and that become results too.
        None, with the members erased, where nothing reads a result.
        """
        members = set(self._sequence)
        outputs = [
            result
            for op in self._members
            for result in op.results
            if any(use.operation not in members for use in result.uses)
        ]
        if not outputs and not yielded:
            for op in reversed(self._sequence):
                if op.parent is not None:
                    op.detach()
                op.erase()
            return None
        for op in self._members:
            op.detach()
        self._body.add_ops([*self._prologue, *self._sequence])
        inner = [*outputs, *(self.bring_in(v) for v in yielded)]
        self._body._args = tuple(self._arguments)  # pyright: ignore[reportPrivateUsage]
        outer = [*outputs, *yielded]
        new = kind.create(
            operands=self._inputs,
            result_types=[v.type for v in outer],
            properties=properties,
            regions=[Region(self._body)],
        )
        for value, result in zip(outer, new.results, strict=True):
            result.name_hint = value.name_hint
            value.replace_uses_with_if(result, lambda use: use.operation not in members)
        self._body.add_op(YieldOp.create(operands=inner))
        block = before.parent
        assert block is not None
        block.insert_op_before(new, before)
        return new


def erase_dead(ops: Sequence[Operation]) -> None:
    """Erase those ops, last first, that nothing reads."""
    for op in reversed(ops):
        if all(result.first_use is None for result in op.results):
            op.detach()
            op.erase()
