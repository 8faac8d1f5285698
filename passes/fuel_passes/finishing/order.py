# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-order`: readers of a value come before the op that may take over its buffer."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove

from fuel_dialect.ops.control import KernelOp
from fuel_dialect.traits import Leaf, MayReuse
from fuel_passes.walk import plan_blocks

Node = TypeVar("Node", bound=Hashable)

Order = Sequence[Operation]


@dataclass(frozen=True)
class OrderPass(ModulePass):
    """
    Moves the readers of a value in front of an op, or a kernel, that may reuse its buffer.

    After it the reuse happens at the value's last use, so no copy is needed, except where a
    reader depends on the very op that reuses: there the order stays and the buffer planner copies.
    """

    name = "fuel-order"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in plan_blocks(op):
            order_readers(block)


def reused_values(op: Operation) -> Iterator[SSAValue]:
    """The operands whose buffer a result of the op may take over."""
    for trait in op.get_traits_of_type(MayReuse):
        yield op.operands[trait.operand]
    if not isinstance(op, KernelOp):
        return
    outside = dict(zip(op.body.block.args, op.inputs, strict=True))
    for inner in op.body.block.ops:
        for trait in inner.get_traits_of_type(MayReuse):
            reused = outside.get(inner.operands[trait.operand])  # pyright: ignore[reportArgumentType]
            if reused is not None:
                yield reused


def order_readers(block: Block) -> None:
    """Apply the rule to one block; ops it does not concern keep their order."""
    reuses = [(op, value) for op in block.ops for value in reused_values(op)]
    if not reuses:
        return
    reusers = {op for op, _ in reuses}
    ops = list(block.ops)
    before = {op: direct_dependencies(op, block) for op in ops}
    for op, value in reuses:
        readers = {use.operation for use in value.uses} - {op, block.last_op, *reusers}
        for reader in readers:
            inside = block.find_ancestor_op_in_block(reader)
            if inside is not None and inside is not op and not reaches(before, inside, op):
                before[op] = [*before[op], inside]
    reorder(block, topological(ops, before, priority=lambda _: 0))


def direct_dependencies(op: Operation, block: Block) -> list[Operation]:
    """The ops of a block whose results an op, or its regions, reads."""
    # The regions of fuel's ops read nothing but their arguments.
    return [
        owner
        for inner in ((op,) if op.has_trait(IsolatedFromAbove) else op.walk())
        for operand in inner.operands
        if isinstance(owner := operand.owner, Operation) and owner.parent is block
    ]


def reaches(before: Mapping[Node, Sequence[Node]], start: Node, goal: Node) -> bool:
    """Returns True if `goal` must come before `start`."""
    seen, pending = {start}, [start]
    while pending:
        for node in before[pending.pop()]:
            if node == goal:
                return True
            if node not in seen:
                seen.add(node)
                pending.append(node)
    return False


def topological(
    nodes: Sequence[Node],
    before: Mapping[Node, Sequence[Node]],
    priority: Callable[[Node], Any],
) -> list[Node]:
    """An order with `before[n]` ahead of n; among ready nodes least priority first, then place."""
    place = {node: index for index, node in enumerate(nodes)}
    waiting = {node: len(set(before[node])) for node in nodes}
    after: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for earlier in set(before[node]):
            after[earlier].append(node)
    ready = [(priority(n), place[n]) for n in nodes if not waiting[n]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)[1]]
        order.append(node)
        for later in after[node]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (priority(later), place[later]))
    return order


def depth_first(block: Block) -> list[Operation]:
    """
    The ops of a block in an order that follows from what they compute alone.

    Depth-first from the terminator, operands left to right; what it does not need comes last.
    """
    end = block.last_op
    assert end is not None
    order: dict[Operation, None] = {}
    entered: set[Operation] = set()
    pending = [(end, False)]
    while pending:
        op, is_left = pending.pop()
        if is_left:
            order[op] = None
            continue
        if op in entered:
            continue
        entered.add(op)
        pending.append((op, True))
        for operand in reversed(op.operands):
            owner = operand.owner
            if isinstance(owner, Operation) and owner not in entered:
                pending.append((owner, False))
    del order[end]
    unread = [op for op in block.ops if op not in entered]
    return [*order, *unread, end]


def reorder(block: Block, order: Sequence[Operation]) -> None:
    """Put the ops of a block in another order."""
    if list(block.ops) == list(order):
        return
    for op in order:
        op.detach()
    block.add_ops(order)


def arrange(block: Block, order: Order) -> None:
    """Puts the items of a block in an order, between its leaves and its end."""
    items = set(order)
    rest = [op for op in block.ops if op not in items]
    leaves = [op for op in rest if op.has_trait(Leaf)]
    reorder(block, [*leaves, *order, *(op for op in rest if not op.has_trait(Leaf))])
