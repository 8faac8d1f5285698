# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-plan`: every kernel gets the target that makes the whole cheapest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import MAX_PRICE, ArmAttr, DeviceAttr, TargetAttr
from fuel_dialect.errors import FuelPassError, NoBackendForOp
from fuel_dialect.ops.base import tensor_type
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.traits import Leaf
from fuel_passes.diagnostics import fail
from fuel_passes.form_kernels import form_kernels
from fuel_passes.order import reused_values
from fuel_passes.plan.candidates import (
    Candidate,
    Candidates,
    cheapest,
    is_movable,
)
from fuel_passes.plan.filters import Requirement
from fuel_passes.plan.placement import Input, Node, Output, Placement, Source, place
from fuel_passes.plan.prices import size_of
from fuel_passes.plan.residency import (
    argument_devices,
    default_target,
    result_devices,
    target_of,
)
from fuel_passes.plan.topology import Topology, resolve, stamp_plan
from fuel_passes.walk import functions


@dataclass(frozen=True)
class PlanPass(ModulePass):
    """
    Sets the `target` of every kernel of a function so that kernels and transfers cost least.

    A kernel may run on each target that has a kernel for all of its ops; its price there is that
    of `plan/prices.py`. Transfers count from where arguments live and to where results must end
    (`fuel.device`, the host without one), each value once to a device. What is pinned stays where
    it is pinned; a pin on a device that cannot run the kernel is an error. Kernels in arms that a
    person wrote run on the arm's target; a branch between kernels of one device moves as one.

    A kernel that runs where it would without a plan gets no `target`, and with one target in the
    topology nothing happens. The module is stamped with the generation of the topology
    (`fuel.plan`).

    Options:
    `topology=NAME` (default: the module's `fuel.topology`, else `cpu`).
    `device=NAME` pins every kernel that has no pin and that the device can run.
    `deterministic=true` allows only targets whose kernels give the same bits each time.
    `max-ulps=N` allows only targets that are at most N units in the last place off.
    """

    name = "fuel-plan"

    topology: str | None = None
    device: str | None = None
    deterministic: bool = False
    max_ulps: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        topology = resolve(op, self.topology)
        pin = None if self.device is None else session_pin(self.device, topology)
        if len(topology.targets) < 2:
            return
        candidates = Candidates(topology, Requirement(self.deterministic, self.max_ulps))
        for function in functions(op):
            for block in function.body.blocks:
                form_kernels(block)
        plans = [
            plan_block(function, block, candidates, pin)
            for function in functions(op)
            for block in function.body.blocks
        ]
        for plan in plans:
            apply_plan(plan, candidates)
        stamp_plan(op, topology)


def session_pin(name: str, topology: Topology) -> DeviceAttr:
    """The device that a whole session is pinned to. Raises `FuelPassError` if it is not there."""
    device = DeviceAttr.of(name)
    if all(target.device != device for target in topology.targets):
        raise FuelPassError(
            f"fuel-plan: device {device} is not in topology {topology.name!r}; it has "
            f"{', '.join(str(t) for t in topology.targets)}"
        )
    return device


@dataclass(frozen=True)
class BlockPlan:
    """The items of a block, the candidates of each and the one chosen, and what all costs."""

    block: Block
    candidates: Mapping[Operation, Sequence[Candidate]]
    chosen: Mapping[Operation, Candidate]
    placement: Placement


def apply_plan(plan: BlockPlan, candidates: Candidates) -> None:
    """Note the targets on the kernels, and on the arms of the branches that move."""
    targets = candidates.topology.targets
    default = default_target(plan.block, targets)
    for op, candidate in plan.chosen.items():
        if isinstance(op, BranchOp) and is_movable(op):
            retarget(op, candidate.target, candidates)
        if isinstance(op, KernelOp):
            op.properties.pop("target", None)
            if target_of(op, default, targets) != candidate.target:
                op.properties["target"] = candidate.target


def retarget(branch: BranchOp, target: TargetAttr, candidates: Candidates) -> None:
    """Let all arms of a branch run on another target, at its prices."""
    if all(arm.target == target for arm in branch.arms):
        return
    pairs = zip(branch.arms, branch.arm_regions, strict=True)
    branch.properties["arms"] = ArrayAttr(
        ArmAttr.of(target, candidates.total(region.block.ops, target), arm.origin.data)
        for arm, region in pairs
    )


def plan_block(
    function: FuncOp, block: Block, candidates: Candidates, pin: DeviceAttr | None = None
) -> BlockPlan:
    """Place the items of a function's block. Changes nothing."""
    problem = _Problem(function, block, candidates, pin)
    for op in block.ops:
        if not op.has_trait(Leaf) and not op.has_trait(IsTerminator):
            problem.add(op)
    placed = place(problem.nodes, candidates.topology, problem.exits())
    chosen: dict[Operation, Candidate] = {}
    for key, (op, found) in enumerate(zip(problem.ops, problem.known, strict=True)):
        best = cheapest(found, DeviceAttr.of(placed.assignment[key]))
        if best is not None:
            chosen[op] = best
    return BlockPlan(block, dict(zip(problem.ops, problem.known, strict=True)), chosen, placed)


class _Problem:
    """The items of a block as nodes of a placement; their keys count from 0."""

    def __init__(
        self, function: FuncOp, block: Block, candidates: Candidates, pin: DeviceAttr | None
    ):
        self.function = function
        self.block = block
        self.candidates = candidates
        self.pin = pin
        self.ops: list[Operation] = []
        self.nodes: list[Node] = []
        self.known: list[tuple[Candidate, ...]] = []
        self.key_of: dict[Operation, int] = {}
        self.homes = [device.label for device in argument_devices(function, block)]

    def add(self, op: Operation) -> None:
        """The node of an item whose inputs have theirs."""
        found = self.candidates.of(op)
        prices: dict[str, int] = {}
        for candidate in found:
            if candidate.price_ns is not None:
                device = candidate.target.device.label
                prices[device] = min(candidate.price_ns, prices.get(device, MAX_PRICE))
        pin = self._pin(op, prices)
        if not prices or (pin is not None and pin not in prices):
            _refuse(op, found)
        key = len(self.nodes)
        inputs = self._inputs(op)
        reuses = next((inputs[v] for v in reused_values(op) if v in inputs), None)
        sizes = tuple(size_of(tensor_type(result)) for result in op.results)
        self.nodes.append(Node(key, tuple(inputs.values()), prices, sizes, pin, reuses))
        self.ops.append(op)
        self.known.append(found)
        self.key_of[op] = key

    def _pin(self, op: Operation, prices: Mapping[str, int]) -> str | None:
        if isinstance(op, TransferOp):
            return op.to.label
        placement = op.properties.get("placement")
        if isinstance(placement, DeviceAttr):
            return placement.label
        if self.pin is not None and isinstance(op, KernelOp) and self.pin.label in prices:
            return self.pin.label
        return None

    def _inputs(self, op: Operation) -> dict[SSAValue, Input]:
        """What an item reads that is no leaf."""
        found: dict[SSAValue, Input] = {}
        for value in op.operands:
            given = self._input(value)
            if given is not None:
                found[value] = given
        return found

    def _input(self, value: SSAValue) -> Input | None:
        if isinstance(value, BlockArgument):
            size = size_of(tensor_type(value))
            return Source(value.index, self.homes[value.index], size)
        if isinstance(value, OpResult) and value.op in self.key_of:
            return Output(self.key_of[value.op], value.index)
        return None

    def exits(self) -> dict[int | Output, str]:
        """Where the results of the function that items give must end."""
        end = self.block.last_op
        if not isinstance(end, ReturnOp):
            return {}
        devices = result_devices(self.function)
        pairs = zip(map(self._input, end.operands), devices, strict=True)
        return {given: device.label for given, device in pairs if isinstance(given, Output)}


def _refuse(op: Operation, found: Sequence[Candidate]) -> NoReturn:
    """Raise `NoBackendForOp` with what each target lacks."""
    what = op.label.data if isinstance(op, KernelOp) else op.name
    placement = op.properties.get("placement")
    reasons = "; ".join(f"{c.target}: {c.refusal or 'it could'}" for c in found)
    pinned = "" if placement is None else f" that is pinned to {placement}"
    fail(op, f"fuel-plan: no target for {what}{pinned}: {reasons}", NoBackendForOp)
