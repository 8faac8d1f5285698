# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Resolves the devices on which values live, for planning and for the insertion of copies.

First match wins: a transfer gives its own device; a kernel or run the device of its target (its
own, else its pin's, else that of the arm around it, else the topology's first); an argument what
`fuel.device` says, else the host; a branch any device on which one of its arms yields. Leaves live
everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import HOST, DeviceAttr, TargetAttr
from fuel_dialect.canonicalization.regions import inline_arm
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.targets.machine import Topology
from fuel_dialect.traits import Leaf
from fuel_passes.diagnostics import fail
from fuel_passes.forking.arms import drop_arms
from fuel_passes.planning.topology import path

DEVICE = "fuel.device"
"""The attribute of an argument or a result of a function that says where it lives."""

STATE_DEVICE = "fuel.state_device"
"""The device that the plan chose for a donated argument and its next value, without `fuel.device`.
`fuel-strip-plan` takes it out."""

HOST_DEVICE = DeviceAttr.of(HOST)

Homes = frozenset[DeviceAttr]
"""The devices on one of which a value lives; none for a leaf, which lives everywhere."""

EVERYWHERE: Homes = frozenset()


def default_target(block: Block, targets: Sequence[TargetAttr]) -> TargetAttr:
    """Returns the target of unplaced kernels of a block: the arm's, or the topology's first."""
    parent = block.parent_op()
    if not isinstance(parent, BranchOp):
        return targets[0]
    region = block.parent
    assert region is not None
    return parent.arms.data[parent.get_region_index(region)].target


def target_of(op: Operation, default: TargetAttr, targets: Sequence[TargetAttr]) -> TargetAttr:
    """
    The target of a run; of a kernel what the plan gave it, else what serves its pin, else the
    default. Raises `FuelPassError` for a pin that no target serves.
    """
    planned = op.properties.get("target")
    if isinstance(planned, TargetAttr):
        return planned
    placement = op.properties.get("placement")
    if placement is None or placement == default.device:
        return default
    for target in targets:
        if target.device == placement:
            return target
    fail(
        op,
        f"{op.name} is pinned to {placement}, which the topology lacks; it has "
        f"{', '.join(str(t) for t in targets)}",
    )


def take_arm(branch: BranchOp, index: int, targets: Sequence[TargetAttr]) -> None:
    """Put an arm in place of its branch; its kernels stay on the arm's target."""
    keep_targets(branch, index, targets)
    inline_arm(branch, index, PatternRewriter(branch))


def keep_targets(branch: BranchOp, index: int, targets: Sequence[TargetAttr]) -> None:
    """Note an arm's target on its kernels, where they would lose it on leaving the arm."""
    target = branch.arms.data[index].target
    block = branch.parent
    if block is not None and default_target(block, targets) != target:
        for op in branch.arm_regions[index].block.ops:
            if isinstance(op, KernelOp) and op.target is None and op.placement is None:
                op.properties["target"] = target


def keep_arms(branch: BranchOp, kept: Sequence[int], targets: Sequence[TargetAttr]) -> None:
    """Drop the other arms of a branch; one alone takes its place."""
    if len(kept) == 1:
        take_arm(branch, kept[0], targets)
        return
    drop_arms(branch, kept, PatternRewriter(branch))


def argument_devices(function: FuncOp, block: Block) -> list[DeviceAttr]:
    """Returns the devices of a block's arguments: those a function states, else the host."""
    given = function.arg_attrs if block is function.body.blocks.first else None
    return _devices(function, given, len(block.args), "argument")


def result_devices(function: FuncOp) -> list[DeviceAttr]:
    """Returns the device on which each result must live when the function returns."""
    count = len(function.function_type.outputs)
    return _devices(function, function.res_attrs, count, "result")


def _devices(
    function: FuncOp, attributes: ArrayAttr[DictionaryAttr] | None, count: int, what: str
) -> list[DeviceAttr]:
    if attributes is None:
        return [HOST_DEVICE] * count
    return [_device(function, a, f"{what} {i}") for i, a in enumerate(attributes)]


def _device(function: FuncOp, attributes: DictionaryAttr, what: str) -> DeviceAttr:
    name = DEVICE if DEVICE in attributes.data else STATE_DEVICE
    device = attributes.data.get(name, HOST_DEVICE)
    if isinstance(device, DeviceAttr):
        return device
    fail(
        function,
        f"@{function.sym_name.data}, {what}: {name} must be a #fuel.device<...>, got {device}",
    )


@dataclass
class Residency:
    """Maps the values of a function to their devices, in the arms for `targets` too."""

    targets: Sequence[TargetAttr]
    homes: dict[SSAValue, Homes] = field(default_factory=dict[SSAValue, Homes])

    def of(self, value: SSAValue) -> Homes:
        """The homes of a value; none if it is a leaf."""
        return self.homes.get(value, EVERYWHERE)

    def visit(self, block: Block) -> None:
        """Resolve the values of a block whose arguments are resolved."""
        default = default_target(block, self.targets)
        for op in block.ops:
            if op.has_trait(Leaf) or op.has_trait(IsTerminator):
                continue
            if isinstance(op, BranchOp):
                self._branch(op)
                continue
            homes = frozenset((device_of(op, default, self.targets),))
            self.homes.update((result, homes) for result in op.results)

    def _branch(self, branch: BranchOp) -> None:
        homes = [set[DeviceAttr]() for _ in branch.results]
        for index in present_arms(branch, self.targets):
            block = branch.arm_regions[index].block
            for argument, value in zip(block.args, branch.inputs, strict=True):
                self.homes[argument] = self.of(value)
            self.visit(block)
            own = frozenset((branch.arms.data[index].target.device,))
            end = block.last_op
            assert end is not None
            for found, value in zip(homes, end.operands, strict=True):
                found |= self.of(value) or own
        for result, found in zip(branch.results, homes, strict=True):
            self.homes[result] = frozenset(found)


def residency_of(function: FuncOp, targets: Sequence[TargetAttr]) -> Residency:
    """Returns the residency of the values of a function."""
    residency = Residency(targets)
    for block in function.body.blocks:
        devices = argument_devices(function, block)
        for argument, device in zip(block.args, devices, strict=True):
            residency.homes[argument] = frozenset((device,))
        residency.visit(block)
    return residency


def present_arms(branch: BranchOp, targets: Sequence[TargetAttr]) -> list[int]:
    """Positions of the arms whose target the topology has; the others are not lowered."""
    return [index for index, arm in enumerate(branch.arms) if arm.target in targets]


def device_of(op: Operation, default: TargetAttr, targets: Sequence[TargetAttr]) -> DeviceAttr:
    """Returns the device on which an op that is no leaf and no branch gives its results."""
    if isinstance(op, TransferOp):
        return op.to
    if isinstance(op, KernelOp | RunOp):
        return target_of(op, default, targets).device
    return default.device


class Crossing(Enum):
    """Names the ways in which a value comes to a device."""

    NONE = "lives there"
    DIRECT = "by one transfer"
    STAGED = "through the host"


def crossing(topology: Topology, homes: Homes, device: DeviceAttr) -> Crossing:
    """Returns the way in which a value that lives on one of some devices comes to another."""
    found = Crossing.NONE
    for home in homes:
        way = path(topology, home.label, device.label)
        if len(way) > 2:
            return Crossing.STAGED
        if not share_storage(topology, *way):
            found = Crossing.DIRECT
    return found


def share_storage(topology: Topology, *names: str) -> bool:
    """Returns True if devices have one memory."""
    devices = [topology.device(name) for name in names]
    return len({device.storage for device in devices if device is not None}) <= 1
