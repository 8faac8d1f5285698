# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-order-runs`: what devices can do at once is asked for before the host waits."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.targets.machine import Topology
from fuel_dialect.traits import Leaf, Transfer
from fuel_passes.finishing.list_order import Before, list_orders
from fuel_passes.finishing.memory_rule import Capacities, is_worth, peaks_of
from fuel_passes.finishing.order import (
    Order,
    arrange,
    depth_first,
    direct_dependencies,
    reused_values,
    topological,
)
from fuel_passes.finishing.overlap import Prices, Scene, devices_of, machine_of
from fuel_passes.finishing.overlap_record import Overlap
from fuel_passes.finishing.reuse_buffers import handed_on, readers_of
from fuel_passes.planning.topology import resolve
from fuel_passes.walk import function_blocks, functions


@dataclass(frozen=True)
class OrderRunsPass(ModulePass):
    """
    Orders runs, branches and transfers so that devices work at once.

    The host asks for one item after the other. It does not wait for what it launches on a device
    that works beside it (`concurrency` of its target), but for what it reads from there. So each
    block is simulated, with the prices of the planner, in some orders: the heaviest work
    downstream first by number of kernels, with devices alternating; list scheduling on the
    simulated clocks, of which there are two; and the order that it has. The one that ends first
    is taken, of equal ones the first. A block on one device keeps its order. Values cannot change.

    Another order than the first must not cost too much memory: the peak of a device may grow up to
    an eighth of its memory (64 MiB where that is unknown), and further, up to all of it, only by
    the factor by which the time shrinks at most.

    Option: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`); devices that it
    lacks are taken to be in slots.
    """

    name = "fuel-order-runs"

    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        topology = resolve(op, self.topology)
        for function in functions(op):
            prices = prices_of(function, topology)
            for block in reversed(list(function_blocks(function))):
                order_runs(block, function, prices)


def order_runs(block: Block, function: FuncOp, prices: Prices) -> None:
    """Orders the items of one block."""
    items, before = items_of(block)
    if len(devices_of(items)) > 1 and not _is_forced(items, before):
        chosen = choose(Scene(block, function, prices), function, items, before)
        arrange(block, chosen)


def _is_forced(items: Order, before: Before) -> bool:
    """Returns True if items can come in one order only: each depends on the one before."""
    return all(first in before[second] for first, second in pairwise(items))


def items_of(block: Block) -> tuple[list[Operation], Before]:
    """Returns the items of a block, all but its leaves and its end, and what each comes after."""
    items = [op for op in block.ops if not (op.has_trait(Leaf) or op.has_trait(IsTerminator))]
    place = {op: index for index, op in enumerate(items)}
    before = {
        op: [d for d in dict.fromkeys(direct_dependencies(op, block)) if d in place] for op in items
    }
    _keep_readers(items, place, before)
    return items, before


def _keep_readers(
    items: Order, place: Mapping[Operation, int], before: dict[Operation, list[Operation]]
) -> None:
    """Keeps an op that may take over a buffer where it is among those that read the buffer."""
    for op in items:
        taken = dict.fromkeys((*reused_values(op), *handed_on(op)))
        for reader in dict.fromkeys(reader for value in taken for reader in readers_of(value)):
            if reader is op or reader not in place:
                continue
            first, second = sorted((reader, op), key=place.__getitem__)
            if first not in before[second]:
                before[second].append(first)


def overlap_of(function: FuncOp, topology: Topology) -> Overlap | None:
    """Returns the simulated time of a call as it is ordered; None for a call on one device."""
    block = function.body.block
    items, before = items_of(block)
    if len(devices_of(items)) <= 1:
        return None
    scene = Scene(block, function, prices_of(function, topology))
    counted, *_ = candidate_orders(scene, items, before)
    return Overlap(scene.makespan_ns(items), scene.makespan_ns(counted), scene.serial_ns(items))


def prices_of(function: FuncOp, topology: Topology) -> Prices:
    """Returns the prices of the machine that a function is simulated on."""
    ops = (op for block in function_blocks(function) for op in block.ops)
    targets = [op.target for op in ops if isinstance(op, RunOp)]
    return Prices(machine_of(topology, targets))


def choose(scene: Scene, function: FuncOp, items: Order, before: Before) -> Order:
    """Returns the order of the items of a block that ends first and has enough memory."""
    counted, *others = candidate_orders(scene, items, before)
    plain_ns = scene.makespan_ns(counted)
    found = [(scene.makespan_ns(order), number) for number, order in enumerate(others)]
    better = sorted(each for each in found if each[0] < plain_ns)
    if not better:
        return counted
    capacities = capacities_of(scene.prices)
    arrange(scene.block, counted)
    peaks = peaks_of(function, capacities)
    for ns, number in better:
        arrange(scene.block, others[number])
        if is_worth(plain_ns, ns, peaks, peaks_of(function, capacities), capacities):
            return others[number]
    return counted


def candidate_orders(scene: Scene, items: Order, before: Before) -> tuple[Order, ...]:
    """
    Returns the order by counts, those by simulated clocks, and the one that there is.

    The others do not depend on the last, so that nothing changes when the pass is repeated.
    """
    plain = canonical_order(scene, items, before)
    if len({device_of(op) for op in items} - {None}) <= 1:
        return items, *list_orders(plain, before, scene), items
    return alternating(plain, before), *list_orders(plain, before, scene), items


def canonical_order(scene: Scene, items: Order, before: Before) -> list[Operation]:
    """Returns a valid order of items that does not depend on the one that they have."""
    known = set(items)
    canonical = [op for op in depth_first(scene.block) if op in known]
    return topological(canonical, before, priority=lambda _: 0)


def capacities_of(prices: Prices) -> Capacities:
    """Returns the memory of each device, None where nobody knows it."""
    return {device.name: device.memory_bytes for device in prices.topology.devices}


def device_of(op: Operation) -> TargetAttr | None:
    """The target of a run; None for what has none of its own."""
    return op.target if isinstance(op, RunOp) else None


def size_of(op: Operation) -> int:
    """Kernels in an item: a transfer has none, a branch those of its first arm."""
    if op.has_trait(Transfer):
        return 0
    inner = op.arm_regions[0].walk() if isinstance(op, BranchOp) else op.walk()
    return sum(isinstance(o, KernelOp) for o in inner)


def alternating(items: Order, before: Before) -> list[Operation]:
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

    def __init__(self, items: Order, weight: dict[Operation, int]):
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
