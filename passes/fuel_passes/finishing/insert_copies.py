# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-insert-copies`: every value is brought to where it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.ops.control import BranchOp, YieldOp
from fuel_dialect.ops.memory import CopyOp, TransferOp
from fuel_dialect.targets.machine import Topology
from fuel_dialect.traits import Leaf
from fuel_passes.forming.form_kernels import caps_of, form_kernels
from fuel_passes.planning.residency import (
    HOST_DEVICE,
    Crossing,
    Homes,
    crossing,
    default_target,
    device_of,
    present_arms,
    residency_of,
    result_devices,
)
from fuel_passes.planning.states import place_states
from fuel_passes.planning.topology import check_plan, resolve
from fuel_passes.walk import functions, plan_blocks


@dataclass(frozen=True)
class InsertCopiesPass(ModulePass):
    """
    Inserts the transfers that a placement needs, marked `planned`.

    What runs on a device reads values that live there; results of a function live where their
    `fuel.device` says, the host without one. A value goes to a device once, however many read it
    there: where two arms of a branch, or an arm and what stands around it, read it on one device,
    the transfer stands in front of the branch, otherwise in the arm that needs it. Where the
    topology has no direct link, a value goes through the host. A donated argument, and the result
    that is its next value, live where `fuel.device` says or else where that result is computed:
    state is not copied, and where it lives is noted (`fuel.state_device`).

    A branch result lives where the chosen arm left it; who reads it elsewhere asks for it, which
    costs nothing when it is there already. Arms for devices that the topology lacks are left as
    they are. On one device there is nothing to do. Raises `TopologyChanged` for a module that is
    planned for another topology.

    Option: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`).
    """

    name = "fuel-insert-copies"

    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        topology = resolve(op, self.topology)
        check_plan(op, topology)
        for function in functions(op):
            place_states(function, topology.targets)
        if len({target.device for target in topology.targets}) < 2:
            return
        caps = caps_of(topology)
        for block in list(plan_blocks(op)):
            form_kernels(block, caps)
        for function in functions(op):
            insert_copies(function, topology)


def insert_copies(function: FuncOp, topology: Topology) -> None:
    """Insert the transfers of one function whose ops are in kernels."""
    copies = _Copies(function, topology)
    for block in function.body.blocks:
        copies.collect(block)
    for block in function.body.blocks:
        copies.bring_to_readers(block, {})


_Key = tuple[SSAValue, DeviceAttr]
"""A value, and a device where somebody reads it."""


@dataclass(frozen=True)
class _Reader:
    """An operand of an op; or an arm of a branch, in which the operand is read."""

    op: Operation
    operand: int
    arm: int | None = None


_Passed = dict[tuple[int, DeviceAttr], int]
"""For an operand of a branch and a device, the position of the operand that brings it there."""


@dataclass
class _Copies:
    """Needs are collected from the innermost arms outward, and settled from outside inward."""

    function: FuncOp
    topology: Topology
    needs: dict[Block, dict[_Key, list[_Reader]]] = field(
        default_factory=dict[Block, dict[_Key, list[_Reader]]]
    )
    made: dict[_Key, SSAValue] = field(default_factory=dict[_Key, SSAValue])
    passed: dict[BranchOp, _Passed] = field(default_factory=dict[BranchOp, _Passed])

    def __post_init__(self) -> None:
        self.targets = self.topology.targets
        self.residency = residency_of(self.function, self.targets)
        self.crossings: dict[tuple[Homes, DeviceAttr], Crossing] = {}

    def crossing(self, value: SSAValue, device: DeviceAttr) -> Crossing:
        """Brings values to devices; a path is worked out once for each pair of places."""
        key = (self.residency.of(value), device)
        found = self.crossings.get(key)
        if found is None:
            found = self.crossings[key] = crossing(self.topology, *key)
        return found

    def collect(self, block: Block) -> None:
        """Note what is read in a block, and where, that does not live there."""
        needs = self.needs.setdefault(block, {})
        default = default_target(block, self.targets)
        for op in block.ops:
            reads = self._in_arms(op) if isinstance(op, BranchOp) else self._reads(op, default)
            for key, reader in reads:
                needs.setdefault(key, []).append(reader)

    def _reads(self, op: Operation, default: TargetAttr) -> Iterator[tuple[_Key, _Reader]]:
        if op.has_trait(Leaf) or isinstance(op, YieldOp):
            return
        if isinstance(op, TransferOp):
            if self.crossing(op.input, op.to) is Crossing.STAGED:
                yield (op.input, HOST_DEVICE), _Reader(op, 0)
            return
        if isinstance(op, ReturnOp):
            devices = result_devices(self.function)
        else:
            devices = [device_of(op, default, self.targets)] * len(op.operands)
        for index, (value, device) in enumerate(zip(op.operands, devices, strict=True)):
            if self.crossing(value, device) is not Crossing.NONE:
                yield (value, device), _Reader(op, index)

    def _in_arms(self, branch: BranchOp) -> Iterator[tuple[_Key, _Reader]]:
        for arm in present_arms(branch, self.targets):
            block = branch.arm_regions[arm].block
            self.collect(block)
            place: dict[SSAValue, int] = {a: index for index, a in enumerate(block.args)}
            for value, device in self.needs[block]:
                index = place.get(value)
                if index is not None:
                    yield (branch.operands[index], device), _Reader(branch, index, arm)

    def bring_to_readers(self, block: Block, given: dict[_Key, SSAValue]) -> None:
        """
        Bring the values of a block where they are read.

        `given` are those that came in with the block's arguments, brought already.
        """
        start = block.first_op
        inner: dict[Block, dict[_Key, SSAValue]] = {}
        for key, readers in self.needs[block].items():
            brought = given.get(key)
            if brought is None and len(readers) == 1 and readers[0].arm is not None:
                continue
            brought = brought or self._bring(block, key, start)
            self._hand_over(readers, key, brought, inner)
        for branch in [op for op in block.ops if isinstance(op, BranchOp)]:
            for arm in present_arms(branch, self.targets):
                arm_block = branch.arm_regions[arm].block
                self.bring_to_readers(arm_block, inner.get(arm_block, {}))
            _take_over(branch, self.passed.get(branch, {}))

    def _bring(self, block: Block, key: _Key, start: Operation | None) -> SSAValue:
        """The transfer of a value to a device, right after the value, at `start` for arguments."""
        found = self.made.get(key)
        if found is not None:
            return found
        value, device = key
        source = value
        if self.crossing(value, device) is Crossing.STAGED:
            source = self._bring(block, (value, HOST_DEVICE), start)
        copy = CopyOp.make(source, to=device, planned=UnitAttr())
        copy.result.name_hint = value.name_hint
        if isinstance(source.owner, Operation):
            block.insert_op_after(copy, source.owner)
        else:
            assert start is not None
            block.insert_op_before(copy, start)
        self.made[key] = copy.result
        return copy.result

    def _hand_over(
        self,
        readers: list[_Reader],
        key: _Key,
        brought: SSAValue,
        inner: dict[Block, dict[_Key, SSAValue]],
    ) -> None:
        """Let readers read a brought value; a branch passes it on to its arms."""
        _, device = key
        for reader in readers:
            branch = reader.op
            if reader.arm is None:
                branch.operands[reader.operand] = brought
                continue
            assert isinstance(branch, BranchOp)
            passed = self.passed.setdefault(branch, {})
            place = passed.get((reader.operand, device))
            if place is None:
                place = passed[reader.operand, device] = _pass_in(branch, brought)
            arm = branch.arm_regions[reader.arm].block
            inner.setdefault(arm, {})[arm.args[reader.operand], device] = arm.args[place]


def _pass_in(branch: BranchOp, value: SSAValue) -> int:
    """The position of a new operand of a branch, an argument of each of its arms."""
    index = len(branch.operands)
    branch.operands = [*branch.operands, value]
    for region in branch.arm_regions:
        argument = region.block.insert_arg(value.type, index)
        argument.name_hint = value.name_hint
    return index


def _take_over(branch: BranchOp, passed: _Passed) -> None:
    """
    Replaces an operand that no arm reads itself any more by one that brings it somewhere.

    So a branch keeps the order of its operands when the plan is stripped.
    """
    blocks = [region.block for region in branch.arm_regions]
    gone: set[int] = set()
    for (old, _), new in passed.items():
        if any(block.args[old].first_use is not None for block in blocks):
            continue
        branch.operands[old] = branch.operands[new]
        for block in blocks:
            block.args[new].replace_all_uses_with(block.args[old])
        gone.add(new)
    for index in sorted(gone, reverse=True):
        branch.operands = [o for i, o in enumerate(branch.operands) if i != index]
        for block in blocks:
            block.erase_arg(block.args[index])
