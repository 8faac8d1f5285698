# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-plan`: every kernel gets the target that makes the whole cheapest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.attributes import ArmAttr, DeviceAttr, TargetAttr
from fuel_dialect.determinism import mark_deterministic
from fuel_dialect.errors import FuelPassError, NoBackendForOp
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.targets.machine import Topology
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.diagnostics import fail
from fuel_passes.finishing.order import reused_values
from fuel_passes.forking.calls import split_into_calls
from fuel_passes.forming.form_kernels import caps_of, form_kernels
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.planning.candidates import (
    Candidate,
    Candidates,
    candidates_for,
    cheapest,
    is_movable,
)
from fuel_passes.planning.measurements import MeasurementSource
from fuel_passes.planning.nodes import Input, Node, Output, Source
from fuel_passes.planning.placement import Placement, place
from fuel_passes.planning.prices import size_of
from fuel_passes.planning.residency import (
    argument_devices,
    default_target,
    keep_arms,
    present_arms,
    result_devices,
    target_of,
)
from fuel_passes.planning.states import place_states, unplaced_states
from fuel_passes.planning.topology import check_plan, resolve, stamp_plan
from fuel_passes.walk import functions


@dataclass(frozen=True)
class PlanPass(ModulePass):
    """
    Sets the `target` of every kernel of a function so that kernels and transfers cost least.

    A kernel may run on each target one of whose sources makes it; its price there is that of
    `plan/prices.py`, or what was measured. Transfers count from where arguments live and to where
    results must end (`fuel.device`, the host without one), each value once to a device; donated
    arguments and their next values will live where they are written, and cost nothing. What is
    pinned stays where it is pinned; a pin on a device that cannot run the kernel is an error.
    Kernels without a pin in arms that a person wrote run on the arm's target; a branch between
    kernels of one device moves as one, without the variants that its new device lacks.

    A kernel whose cheapest source makes one call for each op becomes those calls. One that runs
    where it would without a plan gets no `target`, and with one target in the topology the sources
    alone are chosen. The module is stamped with the generation of the topology (`fuel.plan`).
    Raises `TopologyChanged` for a module that is planned for another: what was planned has to go
    first (`fuel-strip-plan`, or `fuel-optimize`, which begins with it).

    Options:
    `topology=NAME` (default: the module's `fuel.topology`, else `cpu`).
    `device=NAME` pins every kernel that has no pin and that the device can run.
    `deterministic=true` allows only sources that give the same bits each time, for any number of
    threads, and says so on the module (`fuel.deterministic`).
    `max-ulps=N` allows only sources that are at most N units in the last place off.
    `measurements="FILE.json"`: times that replace prices of the model (`plan/measurements.py`).
    """

    name = "fuel-plan"

    topology: str | None = None
    device: str | None = None
    deterministic: bool = False
    max_ulps: int | None = None
    measurements: str | MeasurementSource | None = None

    def candidates(self, module: ModuleOp) -> Candidates:
        """Returns the candidates for the items of a module, under the options."""
        topology = resolve(module, self.topology)
        return candidates_for(topology, self.deterministic, self.max_ulps, self.measurements)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        candidates = self.candidates(op)
        plan_module(op, candidates, self.device)


def plan_module(
    module: ModuleOp,
    candidates: Candidates,
    device: str | None = None,
    previous: Mapping[str, Placement] | None = None,
) -> Mapping[str, BlockPlan]:
    """
    Plan a module and note the targets in it; all or, where something is refused, nothing.

    Raises `TopologyChanged` for a module that is planned for another topology. The plans, by the
    names of functions. A `previous` placement of a function of the same name is
    where its search starts; see `place`.
    """
    topology = candidates.topology
    check_plan(module, topology)
    pin = None if device is None else session_pin(device, topology)
    found, caps = list(functions(module)), caps_of(topology)
    for function in found:
        form_kernels(function.body.block, caps)
    plans = {
        function.sym_name.data: plan_block(
            function,
            function.body.block,
            candidates,
            pin,
            (previous or {}).get(function.sym_name.data),
        )
        for function in found
        if len(topology.targets) > 1
    }
    for function in found:
        check_sources(function, candidates)
    for plan in plans.values():
        apply_plan(plan, candidates)
    for function in found if plans else ():
        place_states(function, topology.targets)
    for function in found:
        choose_sources(function, candidates)
    if plans:
        stamp_plan(module, topology)
    mark_deterministic(module, candidates.requirement.deterministic)
    return plans


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
    """Let all arms of a branch run on another target, at its prices, but those that it lacks."""
    if all(arm.target == target for arm in branch.arms):
        return
    prices = [candidates.as_written(r.block.ops, target) for r in branch.arm_regions]
    branch.properties["arms"] = ArrayAttr(
        ArmAttr.of(target, price, arm.origin.data)
        for arm, price in zip(branch.arms, prices, strict=True)
    )
    kept = [i for i, price in enumerate(prices) if i == 0 or price is not None]
    keep_arms(branch, kept, candidates.topology.targets)


def plan_block(
    function: FuncOp,
    block: Block,
    candidates: Candidates,
    pin: DeviceAttr | None = None,
    previous: Placement | None = None,
) -> BlockPlan:
    """Place the items of a function's block. Changes nothing."""
    problem = _Problem(function, block, candidates, pin)
    for op in block.ops:
        if not op.has_trait(Leaf) and not op.has_trait(IsTerminator):
            problem.add(op)
    placed = place(problem.nodes, candidates.topology, problem.exits(), previous)
    chosen: dict[Operation, Candidate] = {}
    for key, (op, found) in enumerate(zip(problem.ops, problem.known, strict=True)):
        best = cheapest(found, DeviceAttr.of(placed.assignment[key]))
        if best is not None:
            chosen[op] = best
    return BlockPlan(block, dict(zip(problem.ops, problem.known, strict=True)), chosen, placed)


def _placed_kernels(
    function: FuncOp, targets: Sequence[TargetAttr]
) -> Iterator[tuple[KernelOp, TargetAttr]]:
    """The kernels of a function and of the arms that a person wrote, and where they run."""
    pending = list(function.body.blocks)
    while pending:
        block = pending.pop()
        default = default_target(block, targets)
        for op in block.ops:
            if isinstance(op, KernelOp):
                yield op, target_of(op, default, targets)
            if isinstance(op, BranchOp) and not is_planned_branch(op):
                pending += [op.arm_regions[i].block for i in present_arms(op, targets)]


def check_sources(function: FuncOp, candidates: Candidates) -> None:
    """
    Find a kernel in an arm that a person wrote, or on a machine of one target, that nothing makes.

    Raises `NoBackendForOp`.
    """
    targets = candidates.topology.targets
    for kernel, target in _placed_kernels(function, targets):
        if kernel.parent is function.body.block and len(targets) > 1:
            continue
        found = [c for c in candidates.of(kernel) if c.target == target]
        if all(c.refusal is not None for c in found):
            _refuse(kernel, found)


def choose_sources(function: FuncOp, candidates: Candidates) -> None:
    """Kernels whose cheapest source makes one call for each op become those calls."""
    for kernel, target in list(_placed_kernels(function, candidates.topology.targets)):
        found = (c for c in candidates.of(kernel) if c.target == target)
        chosen = cheapest(found, target.device)
        if chosen is not None and chosen.splits:
            split_into_calls(kernel)


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
        self.states = unplaced_states(function)

    def add(self, op: Operation) -> None:
        """The node of an item whose inputs have theirs."""
        found = self.candidates.of(op)
        prices = _prices(found)
        pin = self._pin(op, prices)
        if not prices or (pin is not None and pin not in prices):
            _refuse(op, found)
        key = len(self.nodes)
        inputs = self._inputs(op)
        may_reuse = any(c.reuses for c in found if c.refusal is None)
        reused = reused_values(op) if may_reuse else ()
        reuses = next((inputs[v] for v in reused if v in inputs), None)
        sizes = tuple(size_of(tensor_type(result)) for result in op.results)
        self.nodes.append(Node(key, tuple(inputs.values()), prices, sizes, pin, reuses))
        self.ops.append(op)
        self.known.append(found)
        self.key_of[op] = key

    def _pin(self, op: Operation, prices: Mapping[str, int | None]) -> str | None:
        if isinstance(op, TransferOp):
            return op.to.label
        placement = op.properties.get("placement")
        if isinstance(placement, DeviceAttr):
            return placement.label
        if self.pin is not None and isinstance(op, KernelOp) and self.pin.label in prices:
            return self.pin.label
        return None

    def _inputs(self, op: Operation) -> dict[SSAValue, Input]:
        """Returns the operands of an item that are no leaves."""
        found: dict[SSAValue, Input] = {}
        for value in op.operands:
            given = self._input(value)
            if given is not None:
                found[value] = given
        return found

    def _input(self, value: SSAValue) -> Input | None:
        if isinstance(value, BlockArgument):
            if value.index in self.states:
                return None
            size = size_of(tensor_type(value))
            return Source(value.index, self.homes[value.index], size)
        if isinstance(value, OpResult) and value.op in self.key_of:
            return Output(self.key_of[value.op], value.index)
        return None

    def exits(self) -> dict[int | Output, str]:
        """Maps the results of a function that items give to the devices on which they must end."""
        end = self.block.last_op
        if not isinstance(end, ReturnOp):
            return {}
        devices = result_devices(self.function)
        free = set(self.states.values())
        triples = zip(map(self._input, end.operands), devices, count(), strict=False)
        return {
            given: device.label
            for given, device, index in triples
            if isinstance(given, Output) and index not in free
        }


def _prices(candidates: Sequence[Candidate]) -> dict[str, int | None]:
    """The price on each device that can run an item; None where nobody knows it."""
    prices: dict[str, int | None] = {}
    for candidate in candidates:
        if candidate.refusal is None:
            device = candidate.target.device.label
            known = prices.setdefault(device, candidate.price_ns)
            if known is None or candidate.price_ns is None:
                prices[device] = known if candidate.price_ns is None else candidate.price_ns
            else:
                prices[device] = min(known, candidate.price_ns)
    return prices


def _refuse(op: Operation, found: Sequence[Candidate]) -> NoReturn:
    """Raise `NoBackendForOp` with what each source of each target lacks."""
    what = op.label.data if isinstance(op, KernelOp) else op.name
    placement = op.properties.get("placement")
    pinned = "" if placement is None else f" that is pinned to {placement}"
    fail(
        op,
        f"fuel-plan: no target for {what}{pinned}: {'; '.join(_reasons(found))}; {what} is "
        f"{_types(op)}",
        NoBackendForOp,
    )


COULD = "it could"


def _reasons(found: Sequence[Candidate]) -> Iterator[str]:
    """Returns the reason of each target for refusing; of each of its sources where these differ."""
    by_target: dict[TargetAttr, dict[str, str]] = {}
    for candidate in found:
        why = candidate.refusal or COULD
        by_target.setdefault(candidate.target, {})[candidate.source] = why
    for target, reasons in by_target.items():
        different = set(reasons.values())
        if COULD in different or len(different) == 1:
            yield f"{target}: {COULD if COULD in different else different.pop()}"
        else:
            yield from (f"{target} {source}: {why}" for source, why in reasons.items())


def _types(op: Operation) -> str:
    operands, results = (
        ", ".join(str(dtypes.of_type(tensor_type(value).element_type)) for value in values)
        for values in (op.operands, op.results)
    )
    return f"({operands}) -> {results}"
