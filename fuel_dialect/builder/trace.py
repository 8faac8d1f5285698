# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Records the ops of a program that is being built.

A trace is a stack of scopes: the function at the bottom, above it the arm or scan body that is
being traced. A scope turns any value into one its block may read, because the regions of
branch and scan are isolated from above.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import count
from threading import RLock
from typing import Any

from xdsl.ir import Attribute, Block, Operation, SSAValue

from fuel_dialect.builder.pins import pin
from fuel_dialect.errors import GraphError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.tensors import AnyTensor, describe, tensor_type
from fuel_dialect.traits import Leaf

_IDS = count(1)


def block_of(value: SSAValue) -> Block | None:
    """The block whose ops may read a value; None when the op that made it was dropped."""
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def forward_ops(value: SSAValue) -> set[Operation]:
    """The ops that depend on a value."""
    found: set[Operation] = set()
    pending = [use.operation for use in value.uses]
    while pending:
        op = pending.pop()
        if op in found:
            continue
        found.add(op)
        pending.extend(use.operation for result in op.results for use in result.uses)
    return found


def backward_ops(
    values: Iterable[SSAValue], among: Container[Operation] | None = None
) -> set[Operation]:
    """The ops that values depend on, their own included; only through ops of a set, if given."""
    found: set[Operation] = set()
    pending = [value.owner for value in values]
    while pending:
        op = pending.pop()
        if isinstance(op, Block) or op in found or (among is not None and op not in among):
            continue
        found.add(op)
        pending.extend(operand.owner for operand in op.operands)
    return found


class Scope:
    """A block that is being filled: the function's own."""

    def __init__(self, block: Block, parent: Scope | None = None):
        self.block = block
        self.parent = parent
        self._seen: dict[SSAValue, SSAValue] = {}

    def resolve(self, value: SSAValue) -> SSAValue:
        """The value as ops of this scope read it. Raises `GraphError` if they may not."""
        if block_of(value) is self.block:
            return value
        known = self._seen.get(value)
        if known is not None and block_of(known) is self.block:
            return known
        self._seen[value] = inner = self._bring_in(value)
        return inner

    def _bring_in(self, value: SSAValue) -> SSAValue:
        owner = value.owner
        if isinstance(owner, Block) or not owner.has_trait(Leaf):
            return self.capture(value)
        self.block.add_op(clone := owner.clone())
        return clone.results[0]

    def capture(self, value: SSAValue) -> SSAValue:
        """Returns the value that stands in this scope for one made outside it."""
        raise GraphError(
            f"{describe(value)} was made inside an arm or a scan body that has ended; return it "
            "from there to read it here"
        )

    def is_open(self, value: SSAValue) -> bool:
        """Returns True if a value was made in this scope or one around it."""
        here = block_of(value) is self.block
        return here or (self.parent is not None and self.parent.is_open(value))

    @property
    def in_scan(self) -> bool:
        """Returns True in a scan body, and inside one."""
        return self.parent is not None and self.parent.in_scan


class ArmScope(Scope):
    """An arm of a branch: it reads its inputs and leaves, nothing else."""

    def __init__(self, block: Block, parent: Scope, where: str):
        super().__init__(block, parent)
        self.where = where

    def capture(self, value: SSAValue) -> SSAValue:
        if not self.is_open(value):
            return super().capture(value)
        raise GraphError(
            f"{self.where} reads {describe(value)} from outside; pass it as an input of the branch"
        )


class BodyScope(Scope):
    """A scan body: tensors it reads from outside become consts of the scan."""

    def __init__(self, block: Block, parent: Scope):
        super().__init__(block, parent)
        self.captured: list[SSAValue] = []

    def capture(self, value: SSAValue) -> SSAValue:
        if not self.is_open(value):
            return super().capture(value)
        assert self.parent is not None
        self.captured.append(self.parent.resolve(value))
        return self.block.insert_arg(value.type, len(self.block.args))

    @property
    def in_scan(self) -> bool:
        return True

    def drop_unused(self) -> None:
        """Forget what was captured for ops that are gone."""
        first = len(self.block.args) - len(self.captured)
        for index in reversed(range(len(self.captured))):
            argument = self.block.args[first + index]
            if argument.first_use is None:
                self.block.erase_arg(argument)
                del self.captured[index]


class Trace:
    """
    The ops of one graph, its current scope and its lock.

    `graph` is what the user holds (a `builder.graph.Graph`, whose class this file does not know),
    `id` counts graphs in the process, from 1, and `updates` maps the members of the state, by the
    number of their argument, to what they are in the next call.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.id = next(_IDS)
        self.updates: dict[int, SSAValue] = {}
        self.lock = RLock()
        self.root = Scope(Block())
        self.scope = self.root
        self.decisions: set[str] = set()

    @contextmanager
    def editing(self) -> Generator[None]:
        """Hold the lock; an error takes back the ops that were appended to the current scope."""
        with self.lock:
            block = self.scope.block
            last = block.last_op
            try:
                yield
            except BaseException:
                while (op := block.last_op) is not None and op is not last:
                    block.erase_op(op)
                raise

    @contextmanager
    def inside(self, scope: Scope) -> Generator[None]:
        """Append to `scope` for a while."""
        outer, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = outer

    def emit(
        self,
        op: type[FuelOp],
        operands: Sequence[SSAValue],
        declared: Sequence[AnyTensor] = (),
        **properties: Attribute | None,
    ) -> SSAValue:
        """Append one op of one result, or nothing if its inference raises."""
        given = {name: value for name, value in properties.items() if value is not None}
        types = op.infer([tensor_type(operand) for operand in operands], given, declared)
        with self.editing():
            resolved = [self.scope.resolve(operand) for operand in operands]
            made = op.create(operands=resolved, result_types=types, properties=given)
            self.append(made)
            return made.results[0]

    def leaf(self, op: Operation) -> SSAValue:
        """Append a leaf; its value."""
        with self.editing():
            self.append(op)
            return op.results[0]

    def append(self, op: Operation) -> None:
        """Append an op that is known to be right; outside of scan bodies it takes a pin."""
        if not self.scope.in_scan:
            pin(op)
        self.scope.block.add_op(op)

    def new_decision(self, id: str | None) -> str:
        """A decision id that is not in use: the given one, or the next of d0, d1, ..."""
        if id is None:
            id = next(f"d{n}" for n in count(len(self.decisions)) if f"d{n}" not in self.decisions)
        if not id or "/" in id:
            raise GraphError(f"branch: the id {id!r} must be a name without '/'")
        if id in self.decisions:
            raise GraphError(f"branch: the id {id!r} is taken; ids are unique in a graph")
        self.decisions.add(id)
        return id
