# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-form-runs`: kernels become runs, the units that are recorded once and replayed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import HOST, DeviceAttr, TargetAttr
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.ops.memory import CopyOp, MoveOp, WeightOp
from fuel_dialect.targets.machine import Topology
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.finishing.order import reused_values
from fuel_passes.forming.form_kernels import caps_of, form_kernels
from fuel_passes.forming.outline import Outliner, erase_dead, is_leaf
from fuel_passes.planning.prices import size_of
from fuel_passes.planning.residency import default_target, device_of, target_of
from fuel_passes.planning.topology import check_plan, resolve
from fuel_passes.walk import plan_blocks

Granularity = Literal["segment", "chain"]


@dataclass(frozen=True)
class FormRunsPass(ModulePass):
    """
    Groups the kernels of every function and arm into `fuel.run`s, each on one target.

    Options:
    `granularity=segment` (default) makes the longest stretch on one target between decisions and
    transfers, or of each kernel of a device where values wait on the host for want of room
    (`fuel-spill-values`); `granularity=chain` makes a run of each chain of kernels, where each
    reads the one before alone. Where the weights of a module take more than half of the memory of a
    device, runs are cut so that the weights of each take a quarter at most: there is room for one
    after the other.
    `topology="cpu"`: a preset, instead of the `fuel.topology` of the module; it gives the target of
    each device.

    Ops that are in no kernel yet are formed into kernels first. Runs that are there already stay.
    Raises `TopologyChanged` for kernels that are planned for another topology.
    """

    name = "fuel-form-runs"

    granularity: Granularity = "segment"
    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.granularity not in ("segment", "chain"):
            raise FuelPassError(
                f"fuel-form-runs: granularity is segment or chain, not {self.granularity!r}"
            )
        topology = resolve(op, self.topology)
        targets, blocks = topology.targets, list(plan_blocks(op))
        if any(isinstance(inner, KernelOp) for block in blocks for inner in block.ops):
            check_plan(op, topology)
        for block in blocks:
            check_devices(block, targets)
        caps = caps_of(topology)
        for block in blocks:
            form_kernels(block, caps)
        bounds = _bounds(blocks, topology)
        for block in blocks:
            form_runs(block, targets, self.granularity, bounds)


def check_devices(block: Block, targets: tuple[TargetAttr, ...]) -> None:
    """Raise, before anything changes, if an op of the block is pinned to an unknown device."""
    default = default_target(block, targets)
    for op in block.ops:
        target_of(op, default, targets)


def _bounds(blocks: Sequence[Block], topology: Topology) -> dict[str, int]:
    """Returns the most bytes of weights that a run may have, of devices that lack room for all."""
    loads: dict[str, dict[Hashable, int]] = {}
    for block in blocks:
        default = default_target(block, topology.targets)
        for kernel in block.ops:
            if isinstance(kernel, KernelOp):
                device = target_of(kernel, default, topology.targets).device.label
                loads.setdefault(device, {}).update(loads_of(kernel))
    return {
        device.name: device.memory_bytes // 4
        for device in topology.devices
        if device.memory_bytes is not None
        and device.name != HOST
        and sum(loads.get(device.name, {}).values()) > device.memory_bytes // 2
    }


def loads_of(kernel: KernelOp) -> dict[Hashable, int]:
    """Returns the bytes of the leaves that a kernel and the steps of its scans read."""
    inner = [op.result for op in kernel.walk() if isinstance(op, WeightOp)]
    leaves = [value for value in kernel.operands if is_leaf(value)]
    return {_identity(value): size_of(tensor_type(value)) for value in (*leaves, *inner)}


def _identity(leaf: SSAValue) -> Hashable:
    return leaf.owner.key.data if isinstance(leaf.owner, WeightOp) else leaf


def form_runs(
    block: Block,
    targets: tuple[TargetAttr, ...],
    granularity: Granularity,
    bounds: Mapping[str, int],
) -> None:
    """Form the runs of one block whose ops are in kernels."""
    default = default_target(block, targets)
    groups = _segments if granularity == "segment" else _chains
    plan = [piece for item in groups(block, default, targets) for piece in _cut(item, bounds)]
    if not any(isinstance(item, _Run) for item in plan):
        return
    leaves = [op for op in block.ops if op.has_trait(Leaf)]
    end = block.last_op
    assert end is not None
    for item in plan:
        if isinstance(item, _Run):
            item.make(end)
        else:
            item.detach()
            block.insert_op_before(item, end)
    erase_dead(leaves)


class _Run:
    """Kernels that will be one run."""

    def __init__(self, target: TargetAttr):
        self.target = target
        self.kernels: list[KernelOp] = []
        self.reads: set[SSAValue] = set()

    def add(self, kernel: KernelOp) -> None:
        self.kernels.append(kernel)
        self.reads.update(kernel.operands)

    def make(self, before: Operation) -> None:
        outliner = Outliner(is_leaf)
        for kernel in self.kernels:
            kernel.properties.pop("target", None)
            outliner.add(kernel)
        outliner.finish(RunOp, {"target": self.target}, before)


_Item = _Run | Operation


def _cut(item: _Item, bounds: Mapping[str, int]) -> Iterator[_Item]:
    """Yields an item, or the runs that it is cut into because its weights leave too little room."""
    bound = bounds.get(item.target.device.label) if isinstance(item, _Run) else None
    if not isinstance(item, _Run) or bound is None:
        yield item
        return
    piece, loads, total = _Run(item.target), dict[Hashable, int](), 0
    for kernel in item.kernels:
        more = {key: bytes for key, bytes in loads_of(kernel).items() if key not in loads}
        if piece.kernels and total + sum(more.values()) > bound:
            yield piece
            piece, loads, total = _Run(item.target), dict[Hashable, int](), 0
            more = loads_of(kernel)
        piece.add(kernel)
        loads |= more
        total += sum(more.values())
    yield piece


def _segments(
    block: Block, default: TargetAttr, targets: tuple[TargetAttr, ...]
) -> Iterator[_Item]:
    """
    One run for each target between two decisions.

    The depth of a value counts the decisions, the transfers and the changes of target on the way to
    it. Kernels of one depth on one target cannot depend on one another through anything else, so
    they are one run. What may take over a buffer is as deep as those who read it before. Where
    values of a device wait on the host, each of its kernels is a run, in the order of the block: a
    run holds what it reads and makes until it ends.
    """
    short = {_spills(op, default, targets) for op in block.ops}
    floor: dict[DeviceAttr, int] = {}
    depth: dict[SSAValue, tuple[int, TargetAttr | None]] = {}
    read: dict[SSAValue, int] = {}
    levels: list[tuple[dict[TargetAttr, _Run], list[Operation]]] = []

    def level(index: int) -> tuple[dict[TargetAttr, _Run], list[Operation]]:
        while len(levels) <= index:
            levels.append(({}, []))
        return levels[index]

    for op in block.ops:
        if op.has_trait(Leaf) or op.has_trait(IsTerminator):
            continue
        target = target_of(op, default, targets) if isinstance(op, KernelOp) else None
        own = 0
        for operand in op.operands:
            level_of, made_on = depth.get(operand, (0, target))
            is_elsewhere = made_on is not None and target is not None and made_on != target
            own = max(own, level_of + is_elsewhere)
        own = max([own, *(read.get(value, 0) for value in reused_values(op))])
        spilled = _spills(op, default, targets)
        near = spilled if target is None else target.device
        own = max(own, floor.get(near, 0)) if near is not None else own
        read.update((operand, max(own, read.get(operand, 0))) for operand in op.operands)
        runs, others = level(own)
        if isinstance(op, KernelOp) and target is not None:
            runs.setdefault(target, _Run(target)).add(op)
            if near in short:
                floor[target.device] = own + 1
        else:
            others.append(op)
            own += 1
            if spilled is not None:
                floor[spilled] = own
        depth.update((result, (own, target)) for result in op.results)
    for runs, others in levels:
        yield from runs.values()
        yield from others


def _spills(
    op: Operation, default: TargetAttr, targets: tuple[TargetAttr, ...]
) -> DeviceAttr | None:
    """Returns the device that a value is moved from to make room, or that it comes back to."""
    if isinstance(op, CopyOp) and isinstance(op.input.owner, MoveOp):
        return op.to
    if not isinstance(op, MoveOp) or not isinstance(op.input.owner, Operation):
        return None
    return device_of(op.input.owner, default, targets)


def _chains(block: Block, default: TargetAttr, targets: tuple[TargetAttr, ...]) -> Iterator[_Item]:
    """
    Cuts a block into chains of kernels, each of which reads the one before; leaves are no inputs.

    A kernel extends the open run only if it is on its target and reads one value once, the last
    kernel's.
    """
    run: _Run | None = None
    for op in block.ops:
        if op.has_trait(Leaf) or op.has_trait(IsTerminator):
            continue
        if not isinstance(op, KernelOp):
            if run is not None and _waits_for(op, run):
                yield run
                run = None
            yield op
            continue
        target = target_of(op, default, targets)
        if run is not None and not _extends(run, op, target):
            yield run
            run = None
        run = run or _Run(target)
        run.add(op)
    if run is not None:
        yield run


def _waits_for(op: Operation, run: _Run) -> bool:
    """Returns True if an op reads a result of a run, or may take over a buffer it reads."""
    if any(value in run.reads for value in reused_values(op)):
        return True
    return any(operand.owner in run.kernels for operand in op.operands)


def _extends(run: _Run, kernel: KernelOp, target: TargetAttr) -> bool:
    inputs = [operand for operand in kernel.operands if not is_leaf(operand)]
    return len(inputs) == 1 and inputs[0].owner is run.kernels[-1] and run.target == target
