# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-fork-placements`: where another device is nearly as good, or roomier, it becomes an arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import ArmAttr, DeviceAttr, TargetAttr
from fuel_dialect.canonicalization.regions import inline_arm
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.targets.machine import Topology
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.forking.fork_variants import fresh_ids
from fuel_passes.forming.form_kernels import caps_of, form_kernels
from fuel_passes.forming.outline import Outliner, erase_dead, is_leaf
from fuel_passes.planning.candidates import Candidates, candidates_for, is_movable
from fuel_passes.planning.measurements import MeasurementSource
from fuel_passes.planning.prices import size_of
from fuel_passes.planning.residency import (
    HOST_DEVICE,
    argument_devices,
    default_target,
    result_devices,
    target_of,
)
from fuel_passes.planning.topology import check_plan, resolve, transfer_ns
from fuel_passes.walk import functions

REFUGE = "refuge from a full device"
"""The reason for an arm that would be too dear otherwise."""


@dataclass(frozen=True)
class ForkPlacementsPass(ModulePass):
    """
    Turns a segment that could run on another device into a `fuel.branch`.

    A segment is all kernels of one target that no transfer and no decision parts: everything it
    reads is there when it starts, and nothing outside reads it before it ends. Both ways are priced
    with the transfers in and out. The other device becomes an arm if its price is at most `reach`
    times that of the planned one, or, whatever its price, if the segment would fill more than
    `refuge` of the planned device's memory and not of the other's: then the cheapest such one.

    Arm 0 is the segment as planned. In the other arms a branch between variants is settled for
    the cheapest. A kernel that is pinned, or that no other device can run, is in no segment: what
    stands in front of it and behind it is forked without it. A segment is not forked to a device
    that lacks one of its kernels. Segments in arms are not forked again.

    Options: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`); `reach=R`, R >= 1
    (default 4); `refuge=F`, 0 < F <= 1 (default 0.8); `deterministic`, `max-ulps` and
    `measurements` as for `fuel-plan`.
    """

    name = "fuel-fork-placements"

    topology: str | None = None
    reach: int | float = 4.0
    refuge: int | float = 0.8
    deterministic: bool = False
    max_ulps: int | None = None
    measurements: str | MeasurementSource | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.reach >= 1:
            raise FuelPassError(f"fuel-fork-placements: reach must be >= 1, got {self.reach}")
        if not 0 < self.refuge <= 1:
            raise FuelPassError(
                f"fuel-fork-placements: refuge must be above 0 and at most 1, got {self.refuge}"
            )
        topology = resolve(op, self.topology)
        check_plan(op, topology)
        if len(topology.targets) < 2:
            return
        candidates = candidates_for(topology, self.deterministic, self.max_ulps, self.measurements)
        caps = caps_of(topology)
        for function in functions(op):
            for block in function.body.blocks:
                form_kernels(block, caps)
                self._fork(function, block, candidates)

    def _fork(self, function: FuncOp, block: Block, candidates: Candidates) -> None:
        survey = _Survey(function, block, candidates)
        forks = {id(s): arms for s in survey.segments() if len(arms := self._arms(s, survey)) > 1}
        if not forks:
            return
        ids = fresh_ids(function)
        leaves = [op for op in block.ops if op.has_trait(Leaf)]
        end = block.last_op
        assert end is not None
        for item in survey.items():
            if isinstance(item, Segment) and id(item) in forks:
                _make_branch(item, forks[id(item)], next(ids), end, candidates)
                continue
            for op in item.ops if isinstance(item, Segment) else [item]:
                op.detach()
                block.insert_op_before(op, end)
        erase_dead(leaves)

    def _arms(self, segment: Segment, survey: _Survey) -> list[ArmAttr]:
        """The arms of a segment, the planned one first; fewer than two where it is not forked."""
        planned = survey.price(segment, segment.target)
        if planned is None:
            return []
        topology = survey.candidates.topology
        others = list(survey.others(segment))
        near = [(p, t, "runner-up") for p, t in others if p <= self.reach * max(planned, 1)]
        near += self._refuges(segment, others, near, topology)
        arms = sorted(near, key=lambda arm: arm[0])
        return [
            ArmAttr.of(target, price, f"{self.name}: {why}")
            for price, target, why in [(planned, segment.target, "as planned"), *arms]
        ]

    def _refuges(
        self,
        segment: Segment,
        others: list[tuple[int, TargetAttr]],
        near: list[tuple[int, TargetAttr, str]],
        topology: Topology,
    ) -> Iterator[tuple[int, TargetAttr, str]]:
        if _fits(segment, segment.target, topology, self.refuge):
            return
        taken = {target for _, target, _ in near}
        roomy = [o for o in others if _fits(segment, o[1], topology, self.refuge)]
        if roomy and not any(target in taken for _, target in roomy):
            price, target = min(roomy, key=lambda o: o[0])
            yield price, target, REFUGE


@dataclass(frozen=True)
class Segment:
    """Kernels, and branches between variants of one, that run on one target without a break."""

    target: TargetAttr
    ops: list[Operation]


def _fits(segment: Segment, target: TargetAttr, topology: Topology, share: float) -> bool:
    device = topology.device(target.device.label)
    if device is None or device.memory_bytes is None:
        return True
    return footprint(segment.ops) <= share * device.memory_bytes


def footprint(ops: Sequence[Operation]) -> int:
    """The most bytes that are alive at a time while ops run, with all they read from outside."""
    members = set(ops)
    last = {operand: index for index, op in enumerate(ops) for operand in op.operands}
    alive = peak = sum(_size(value) for value in last if value.owner not in members)
    for index, op in enumerate(ops):
        alive += sum(map(_size, op.results))
        peak = max(peak, alive)
        for value in dict.fromkeys(op.operands):
            is_done = last[value] == index and value.owner in members
            if is_done and all(use.operation in members for use in value.uses):
                alive -= _size(value)
    return peak


def _size(value: SSAValue) -> int:
    return size_of(tensor_type(value))


class _Survey:
    """The items of a block in levels: what no transfer and no decision parts is on one level."""

    def __init__(self, function: FuncOp, block: Block, candidates: Candidates):
        self.candidates = candidates
        self.topology = candidates.topology
        self.block = block
        self.levels: list[tuple[dict[TargetAttr, Segment], list[Operation]]] = []
        self.homes: dict[SSAValue, str] = {}
        self.ends: dict[SSAValue, list[str]] = {}
        pairs = zip(block.args, argument_devices(function, block), strict=True)
        self.homes.update((argument, device.label) for argument, device in pairs)
        end = block.last_op
        if isinstance(end, ReturnOp):
            for value, device in zip(end.operands, result_devices(function), strict=True):
                self.ends.setdefault(value, []).append(device.label)
        self._sort()

    def _sort(self) -> None:
        default = default_target(self.block, self.topology.targets)
        depth: dict[SSAValue, tuple[int, TargetAttr | None]] = {}
        for op in self.block.ops:
            if op.has_trait(Leaf) or op.has_trait(IsTerminator):
                continue
            target = self._target_in_segment(op, default)
            own = 0
            for operand in op.operands:
                level, made = depth.get(operand, (0, target))
                own = max(own, level + (made != target))
            self._put(op, own, target)
            home = self._home(op, default) if target is None else target.device.label
            for result in op.results:
                depth[result] = (own, target)
                self.homes[result] = home

    def _put(self, op: Operation, level: int, target: TargetAttr | None) -> None:
        while len(self.levels) <= level:
            self.levels.append(({}, []))
        segments, others = self.levels[level]
        if target is None:
            others.append(op)
        else:
            segments.setdefault(target, Segment(target, [])).ops.append(op)

    def _target_in_segment(self, op: Operation, default: TargetAttr) -> TargetAttr | None:
        """The target of an item that may be in a segment; None for what stands between segments."""
        if "placement" in op.properties:
            return None
        able = {c.target for c in self.candidates.of(op) if c.price_ns is not None}
        return _planned_target(op, default, self.topology.targets) if len(able) > 1 else None

    def _home(self, op: Operation, default: TargetAttr) -> str:
        """Returns the device on which an item outside all segments leaves its results, by price."""
        planned = _planned_target(op, default, self.topology.targets)
        if planned is not None:
            return planned.device.label
        priced = [c for c in self.candidates.of(op) if c.price_ns is not None]
        best = min(priced, key=lambda c: c.price_ns or 0, default=None)
        return HOST_DEVICE.label if best is None else best.target.device.label

    def segments(self) -> Iterator[Segment]:
        """All segments, in an order in which they can run."""
        for segments, _ in self.levels:
            yield from segments.values()

    def items(self) -> Iterator[Segment | Operation]:
        """Everything but leaves, in an order in which it can run."""
        for segments, others in self.levels:
            yield from segments.values()
            yield from others

    def price(self, segment: Segment, target: TargetAttr) -> int | None:
        """A segment on a target, with the transfers in and out; None where it cannot run."""
        total = 0
        for op in segment.ops:
            price = self.candidates.price_as_written(op, target)
            if price is None:
                return None
            total += price
        device = target.device.label
        return total + sum(
            transfer_ns(self.topology, source, goal, _size(value))
            for value, source, goal in self._crossings(segment, device)
        )

    def others(self, segment: Segment) -> Iterator[tuple[int, TargetAttr]]:
        """
        Yields the price on other targets that can run a segment.

        Those are the others of its own device, and of every other device the cheapest.
        """
        best: dict[DeviceAttr | TargetAttr, tuple[int, TargetAttr]] = {}
        for target in self.topology.targets:
            if target == segment.target:
                continue
            place = target if target.device == segment.target.device else target.device
            price = self.price(segment, target)
            known = best.get(place)
            if price is not None and (known is None or price < known[0]):
                best[place] = (price, target)
        yield from best.values()

    def _crossings(self, segment: Segment, device: str) -> Iterator[tuple[SSAValue, str, str]]:
        members = set(segment.ops)
        for value in dict.fromkeys(o for op in segment.ops for o in op.operands):
            if value.owner not in members and not is_leaf(value):
                yield value, self.homes[value], device
        for op in segment.ops:
            for value in op.results:
                readers = [use.operation for use in value.uses if use.operation not in members]
                goals = [self._reading_device(reader) for reader in readers]
                for goal in dict.fromkeys([*filter(None, goals), *self.ends.get(value, ())]):
                    yield value, device, goal

    def _reading_device(self, reader: Operation) -> str | None:
        """Returns where a reader leaves its results; one that nobody reads has no home."""
        return next((self.homes[r] for r in reader.results if r in self.homes), None)


def _planned_target(
    op: Operation, default: TargetAttr, targets: Sequence[TargetAttr]
) -> TargetAttr | None:
    """The one target of an item; None for transfers and for decisions between devices."""
    if isinstance(op, KernelOp):
        return target_of(op, default, targets)
    if isinstance(op, BranchOp) and is_movable(op):
        return op.arms.data[0].target
    return None


def _make_branch(
    segment: Segment, arms: Sequence[ArmAttr], id: str, before: Operation, candidates: Candidates
) -> None:
    """Put the branch of a segment in front of an op."""
    outliner = Outliner(is_leaf)
    for op in segment.ops:
        outliner.add(op)
    run = outliner.finish(RunOp, {"target": segment.target}, before)
    if run is None:
        return
    block = run.body.detach_block(run.body.block)
    for op in block.ops:
        op.properties.pop("target", None)
    regions = [Region(block)]
    for arm in arms[1:]:
        regions.append(regions[0].clone())
        _put_on_target(regions[-1].block, arm.target, candidates)
    pairs = list(zip(arms, regions, strict=True))
    branch = BranchOp(id, run.inputs, run.result_types, pairs)
    for old, new in zip(run.results, branch.results, strict=True):
        new.name_hint = old.name_hint
    PatternRewriter(run).replace(run, branch)


def _put_on_target(block: Block, target: TargetAttr, candidates: Candidates) -> None:
    """Let everything in an arm run on its target, the cheapest of variants in place of a choice."""
    for op in list(block.ops):
        op.properties.pop("target", None)
        if isinstance(op, BranchOp):
            prices = [candidates.as_written(r.block.ops, target) for r in op.arm_regions]
            known = [(price, i) for i, price in enumerate(prices) if price is not None]
            inline_arm(op, min(known)[1], PatternRewriter(op))
