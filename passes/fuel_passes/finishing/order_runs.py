# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-order-runs`: long work first, devices alternating."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.traits import Leaf, Transfer
from fuel_passes.finishing.order import direct_dependencies, reorder, reused_values
from fuel_passes.walk import plan_blocks


@dataclass(frozen=True)
class OrderRunsPass(ModulePass):
    """
    Orders runs, branches and transfers so that a device gets its heavy work before the host waits.

    Among the items whose inputs are ready, the one with the heaviest work downstream goes first,
    then one on another device than the last, then the earliest in the block. A block on one device
    keeps its order. Values cannot change.
    """

    name = "fuel-order-runs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in plan_blocks(op):
            order_runs(block)


def order_runs(block: Block) -> None:
    """Order the items of one block."""
    ends = [op for op in block.ops if op.has_trait(Leaf) or op.has_trait(IsTerminator)]
    fixed = set(ends)
    items = [op for op in block.ops if op not in fixed]
    if len({device_of(op) for op in items} - {None}) <= 1:
        return
    before = {
        op: [d for d in dict.fromkeys(direct_dependencies(op, block)) if d not in fixed]
        for op in items
    }
    _add_readers(items, before)
    order = alternating(items, before)
    leaves = [op for op in ends if op.has_trait(Leaf)]
    reorder(block, [*leaves, *order, *(op for op in ends if op not in set(leaves))])


def _add_readers(items: list[Operation], before: dict[Operation, list[Operation]]) -> None:
    """Keeps an op that may take over a buffer behind those that read it before."""
    place = {op: index for index, op in enumerate(items)}
    for op in items:
        readers = [use.operation for value in reused_values(op) for use in value.uses]
        earlier = [r for r in readers if place.get(r, len(items)) < place[op]]
        before[op] = list(dict.fromkeys([*before[op], *earlier]))


def device_of(op: Operation) -> TargetAttr | None:
    """The target of a run; None for what has none of its own."""
    return op.target if isinstance(op, RunOp) else None


def size_of(op: Operation) -> int:
    """Kernels in an item: a transfer has none, a branch those of its first arm."""
    if op.has_trait(Transfer):
        return 0
    inner = op.arm_regions[0].walk() if isinstance(op, BranchOp) else op.walk()
    return sum(isinstance(o, KernelOp) for o in inner)


def alternating(
    items: list[Operation], before: dict[Operation, list[Operation]]
) -> list[Operation]:
    """Kahn's algorithm; the key is (heaviest work downstream, same device as the last, place)."""
    weight = {op: size_of(op) for op in items}
    for op in reversed(items):
        for earlier in before[op]:
            weight[earlier] = max(weight[earlier], weight[op])
    waiting = {op: len(before[op]) for op in items}
    after: dict[Operation, list[Operation]] = {op: [] for op in items}
    for op in items:
        for earlier in before[op]:
            after[earlier].append(op)
    ready = _Ready(items, weight)
    for op in items:
        if not waiting[op]:
            ready.push(op)
    order: list[Operation] = []
    while (chosen := ready.pop()) is not None:
        order.append(chosen)
        for later in after[chosen]:
            waiting[later] -= 1
            if not waiting[later]:
                ready.push(later)
    return order


class _Ready:
    """Items that may come next, a heap for each device: the choice is among the first of each."""

    def __init__(self, items: list[Operation], weight: dict[Operation, int]):
        self._items = items
        self._key = {op: (-weight[op], place) for place, op in enumerate(items)}
        self._heaps: dict[TargetAttr | None, list[tuple[int, int]]] = {}
        self._last: list[TargetAttr | None] = []
        """The device of the item before; nothing in front of the first."""

    def push(self, op: Operation) -> None:
        heapq.heappush(self._heaps.setdefault(device_of(op), []), self._key[op])

    def pop(self) -> Operation | None:
        """The next item; None where no more are ready."""
        firsts = [
            (heap[0][0], device in self._last, heap[0][1], device)
            for device, heap in self._heaps.items()
            if heap
        ]
        if not firsts:
            return None
        *_, place, device = min(firsts, key=lambda first: first[:3])
        heapq.heappop(self._heaps[device])
        self._last = [device]
        return self._items[place]
