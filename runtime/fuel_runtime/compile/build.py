# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes executables of optimised IR: lowers its runs, and generates the walk of a route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fuel_dialect.errors import DecisionError, DeviceUnavailable
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.prepared import constant_keys, prepared_keys
from fuel_dialect.progress import steps
from fuel_dialect.tensors import tensor_type
from fuel_lowering.runs.functions import LoweredRun
from fuel_lowering.runs.leaves import WeightUse
from fuel_passes.finishing.order_runs import overlap_of
from fuel_passes.forking.dropped import dropped
from fuel_passes.planning.residency import argument_devices, result_devices
from fuel_passes.planning.topology import planned_generation, resolve
from fuel_runtime.array_files import bind_weights
from fuel_runtime.call.live import Live, Steering
from fuel_runtime.call.needs import with_needs
from fuel_runtime.call.routing import all_mobile, route_of
from fuel_runtime.call.signature import Array, Signature
from fuel_runtime.call.state import StateType
from fuel_runtime.call.stretch import WrittenRoute
from fuel_runtime.call.survey import Survey, choose, survey
from fuel_runtime.call.walk_source import write_walk
from fuel_runtime.compile.assembling import assembled, namespace_of, needed_weights
from fuel_runtime.compile.code import Code
from fuel_runtime.compile.executable import Executable
from fuel_runtime.compile.memory import check_host, memory_plan, with_result_bytes
from fuel_runtime.compile.parts import Parts
from fuel_runtime.compile.preparing import Preparation
from fuel_runtime.compile.reporting import first_report
from fuel_runtime.compile.transfer_functions import TransferFunctions
from fuel_runtime.devices.present import Devices
from fuel_runtime.picker.policy import Policy
from fuel_runtime.picker.route_cache import Fingerprint

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation

    from fuel_dialect.targets.machine import Topology
    from fuel_passes.memory.plan import PlannedMemory

NOTHING_KNOWN: Mapping[str, Any] = MappingProxyType({})


def build(
    module: ModuleOp,
    function: FuncOp,
    devices: Devices,
    weights: Mapping[str, Any],
    steering: Steering,
    topology: Topology | None = None,
    known: Mapping[str, LoweredRun] = NOTHING_KNOWN,
    bounds: Mapping[str, Any] = NOTHING_KNOWN,
    ready: Mapping[str, Any] = NOTHING_KNOWN,
    owner: object | None = None,
) -> Executable:
    """
    Lowers every arm of an optimised function that can run here, and generates the walk of a route.

    Measured times are those of a `topology`. Runs that are `known` are not lowered again. `bounds`
    are the options that a saved program has to meet. Prepared weights that are `ready` are not
    computed again. `owner` is that of the states of an earlier plan. Raises `ProgramError`,
    `LoweringError`, `DeviceUnavailable`, `DecisionError` or `WeightError`.
    """
    parts, memory = _lowered_parts(function, devices, steering, topology, known)

    def prepared(source: FuncOp, given: Mapping[str, Any]) -> Executable:
        # What a session wishes of decisions is said of the function that a person calls.
        return build(module, source, devices, given, Steering(), topology)

    preparation = Preparation.of(function, weights, prepared, ready)
    needed = needed_weights(parts)
    bound = bind_weights(needed, preparation.weights)
    namespace = namespace_of(parts, bound)
    transfers = TransferFunctions(parts)
    live, generation = None, planned_generation(module) or ""
    if _is_live(parts.survey, steering.policy):
        live = _live(function, parts, transfers, namespace, steering, generation, memory)
    members = _state_type(function, parts.signature, devices, owner)
    report = preparation.reported(first_report(parts, needed, members))
    report = replace(
        report,
        memory=memory.plan.devices,
        overlap=overlap_of(function, resolve(module) if topology is None else topology),
        dropped=dropped(function),
    )
    code = Code(report, parts, transfers, bound, generation, bounds, constant_keys(function))
    return assembled(module, code, namespace, members, live)


def _lowered_parts(
    function: FuncOp,
    devices: Devices,
    steering: Steering,
    topology: Topology | None,
    known: Mapping[str, LoweredRun],
) -> tuple[Parts, PlannedMemory]:
    """Lowers the runs of a function, plans its memory, and follows the first route."""
    signature = Signature.of(function)
    found = survey(function, devices)
    if found.unavailable is not None:
        raise DeviceUnavailable(f"{signature.entry} cannot run: {found.unavailable}")
    steering.check_replay(signature.entry, found.decisions.values())
    try:
        choices = choose(found, steering.policy)
    except DecisionError as error:
        raise DecisionError(f"{error}{_not_steered(function)}") from None
    owners = {name: devices.serving(run.target) for run, name in found.runs.items()}
    runs = steps("lower", found.runs.items(), len(found.runs), lambda each: each[1])
    lowered = {name: known.get(name) or owners[name].lower(run, name) for run, name in runs}
    memory = memory_plan(function, found, lowered, devices, topology)
    lowered = {
        name: with_result_bytes(run, lowered[name], memory) for run, name in found.runs.items()
    }
    found = with_needs(found, lowered, devices.threads, topology)
    mobile = all_mobile(function, found) if _is_live(found, steering.policy) else None
    arms = {branch: pick.arm for branch, pick in choices.items()}
    check_host(function, found, lowered, devices, arms)
    route = route_of(function, found, arms, mobile, memory.sizes)
    leaves = {name: _leaf(op) for op, name in found.leaves.items()}
    targets = {name: run.target for run, name in found.runs.items()}
    parts = Parts(signature, devices, found, choices, lowered, targets, owners, leaves, route)
    return parts, memory


def _not_steered(function: FuncOp) -> str:
    """Says which decisions of the IR of a function no one can force, after an error."""
    sources = {source.sym_name.data: source for source, _ in prepared_keys(function).values()}
    made = [
        f"{op.id.data} of @{name}"
        for name, source in sources.items()
        for op in source.walk()
        if isinstance(op, BranchOp)
    ]
    return f"; {', '.join(made)} is decided once, as weights are prepared" if made else ""


def _is_live(found: Survey, policy: Policy) -> bool:
    """Returns True if some decision of a program has another arm to take."""
    if policy.strict and policy.check_arms is False:
        return False
    return any(
        sum(
            arm.unavailable is None and index not in policy.forbid.get(decision.path, ())
            for index, arm in enumerate(decision.arms)
        )
        > 1
        for decision in found.decisions.values()
    )


def _live(
    function: FuncOp,
    parts: Parts,
    transfers: TransferFunctions,
    namespace: Mapping[str, Any],
    steering: Steering,
    generation: str,
    memory: PlannedMemory,
) -> Live:
    """Returns what chooses the route of a program while it runs."""
    signature, found, mobile = parts.signature, parts.survey, parts.route.mobile
    decisions = found.decisions

    def written(choices: Mapping[BranchOp, int]) -> WrittenRoute:
        route = route_of(function, found, choices, mobile, memory.sizes)
        source, lines = write_walk(route, signature)
        key = tuple((decisions[branch].path, arm) for branch, arm in route.decisions)
        return WrittenRoute(route, {**namespace, **transfers.functions(route)}, key, source, lines)

    devices = parts.devices
    labels = {d.name.label: d for d in (devices.host, *devices.present)}
    first = {branch: pick.arm for branch, pick in parts.choices.items()}
    results = tuple(device.label for device in result_devices(function))
    fingerprint = Fingerprint(signature.entry, generation, results)
    names = {**namespace, "devices": labels}
    return Live(signature, decisions, first, written, names, steering, fingerprint, mobile)


def _leaf(op: Operation) -> Array | WeightUse:
    """Returns the value of a leaf that stands outside of runs, or the weight that it is."""
    from fuel_dialect.interpreter.evaluate import evaluate_op

    if isinstance(op, WeightOp):
        return WeightUse(op.key.data, tensor_type(op.result))
    (value,) = evaluate_op(op, [])
    return value


def _state_type(
    function: FuncOp, signature: Signature, devices: Devices, owner: object | None
) -> StateType:
    """Returns the members of a state and where each lives."""
    homes = argument_devices(function, function.body.block)
    places = [devices.at(homes[member.argument]) for member in signature.members]
    return StateType.of(signature, places, devices.takers, owner)
