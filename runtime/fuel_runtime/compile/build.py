# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes executables of optimised IR: lowers its runs, and generates the walk of a route."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect.errors import DecisionError, DeviceUnavailable, FuelError
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.prepared import prepared_keys
from fuel_dialect.tensors import tensor_type
from fuel_lowering.runs.functions import LoweredRun
from fuel_lowering.runs.leaves import WeightUse
from fuel_passes.forking.dropped import dropped
from fuel_passes.planning.residency import argument_devices, result_devices
from fuel_passes.planning.topology import planned_generation
from fuel_runtime.array_files import bind_weights
from fuel_runtime.call.binding import MISSING, bind
from fuel_runtime.call.host_memory import is_unexplained, out_of_memory
from fuel_runtime.call.live import Live, Steering
from fuel_runtime.call.needs import with_needs
from fuel_runtime.call.routing import all_mobile, route_of
from fuel_runtime.call.signature import Array, Port, Signature
from fuel_runtime.call.state import StateType
from fuel_runtime.call.stretch import LEFT, WrittenRoute
from fuel_runtime.call.survey import Survey, choose, survey
from fuel_runtime.call.walk_source import write, write_live, write_walk
from fuel_runtime.compile.code import Code
from fuel_runtime.compile.executable import Executable
from fuel_runtime.compile.memory import check_host, check_planned, memory_plan, with_result_bytes
from fuel_runtime.compile.parts import Parts
from fuel_runtime.compile.preparing import Preparation
from fuel_runtime.compile.reporting import first_report
from fuel_runtime.compile.transfer_functions import TransferFunctions
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.interface import Device
from fuel_runtime.devices.present import Devices
from fuel_runtime.picker.policy import Policy
from fuel_runtime.picker.route_cache import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation

    from fuel_dialect.attributes import DeviceAttr
    from fuel_dialect.targets.machine import Topology
    from fuel_passes.memory.plan import PlannedMemory
    from fuel_runtime.call.report import Report

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
) -> Executable:
    """
    Lowers every arm of an optimised function that can run here, and generates the walk of a route.

    Measured times are those of a `topology`. Runs that are `known` are not lowered again. `bounds`
    are the options that a saved program has to meet. Prepared weights that are `ready` are not
    computed again. Raises `ProgramError`, `LoweringError`,
    `DeviceUnavailable`, `DecisionError` or `WeightError`.
    """
    parts, memory = _lowered_parts(function, devices, steering, topology, known)

    def prepared(source: FuncOp, given: Mapping[str, Any]) -> Executable:
        # What a session wishes of decisions is said of the function that a person calls.
        return build(module, source, devices, given, Steering(), topology)

    preparation = Preparation.of(function, weights, prepared, ready)
    needed = needed_weights(parts)
    bound = bind_weights(needed, preparation.weights)
    namespace = _namespace(parts, bound)
    transfers = TransferFunctions(parts)
    live, generation = None, planned_generation(module) or ""
    if _is_live(parts.survey, steering.policy):
        live = _live(function, parts, transfers, namespace, steering, generation, memory)
    members = _state_type(function, parts.signature, devices)
    report = preparation.reported(first_report(parts, needed, members))
    report = replace(report, memory=memory.plan.devices, dropped=dropped(function))
    code = Code(report, parts, transfers, bound, generation, bounds)
    return _assembled(module, code, namespace, members, live)


def build_straight(
    text: str,
    parts: Parts,
    report: Report,
    members: Sequence[DeviceAttr],
    weights: Mapping[str, Any],
    generation: str,
    bounds: Mapping[str, Any],
) -> Executable:
    """
    Makes an executable of parts that have no decision, without IR; that is parsed when asked for.

    `members` are the devices of the state. Raises `OutOfMemory` for more memory than the session
    may take of the host, `WeightError`, and what devices raise that load.
    """
    devices = parts.devices
    check_planned(report.memory, devices)
    bound = bind_weights(needed_weights(parts), weights)
    places = [devices.at(member) for member in members]
    state = StateType.of(parts.signature, places, devices.takers)
    code = Code(report, parts, TransferFunctions(parts), bound, generation, bounds)
    return _assembled(text, code, _namespace(parts, bound), state, None)


def _assembled(
    module: ModuleOp | str,
    code: Code,
    namespace: Mapping[str, Any],
    members: StateType,
    live: Live | None,
) -> Executable:
    """Writes the method that a call runs, and returns the executable that has it."""
    parts = code.parts
    signature, route, takers = parts.signature, parts.route, parts.devices.takers
    entry: dict[str, Any] = {
        "bind": partial(bind, signature, mobile=route.mobile, takers=takers),
        "begin": members.begin,
    }
    if live is not None:
        entry |= {"live": live, "telemetry": live.telemetry, "left": LEFT}
        method = write_live(signature, route.mobile)
        walk = f"{live.written(dict(route.decisions)).source}\n\n{method}"
    else:
        entry |= {**namespace, **code.transfers.functions(route)}
        walk = method = write(route, signature)
    call = _executed(method, signature, entry)
    executable = _class_with(call)(module, code, walk, members, live)
    # The generated functions and their globals hold one another: memory of devices, weights and
    # workspaces would wait for a collection.
    ended = weakref.finalize(executable, call.__globals__.clear)
    ended.atexit = False
    return executable


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
    lowered = {
        name: known.get(name) or owners[name].lower(run, name) for run, name in found.runs.items()
    }
    memory = memory_plan(function, found, lowered, devices)
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


def _class_with(call: Callable[..., Any]) -> type[Executable]:
    """
    A subclass whose method is the generated one: looking it up costs a call nothing.

    It presents itself as `Executable`, with the documentation and signature of that.
    """
    call.__name__, call.__qualname__ = "__call__", "Executable.__call__"
    call.__doc__ = Executable.__call__.__doc__
    call.__signature__ = inspect.signature(Executable.__call__)  # pyright: ignore[reportFunctionMemberAccess]
    members = {
        "__slots__": (),
        "__call__": call,
        "__doc__": Executable.__doc__,
        "__module__": Executable.__module__,
    }
    return type("Executable", (Executable,), members)


def needed_weights(parts: Parts) -> dict[str, list[Port]]:
    """Returns the weights of all that was lowered, and of the function itself, by key."""
    needed: dict[str, list[Port]] = {}
    outside = [leaf for leaf in parts.leaves.values() if isinstance(leaf, WeightUse)]
    for use in chain(outside, *(run.weights.values() for run in parts.lowered.values())):
        port = Port(use.key, use.type)
        known = needed.setdefault(port.name, [])
        if port not in known:
            known.append(port)
    return needed


def _namespace(parts: Parts, weights: Mapping[str, Array]) -> dict[str, Any]:
    """Returns the runs and leaves by name; each device loads its runs at once."""
    shares: dict[Device, list[LoweredRun]] = {}
    for name, run in parts.lowered.items():
        shares.setdefault(parts.owners[name], []).append(run)
    namespace: dict[str, Any] = {
        name: weights[leaf.key] if isinstance(leaf, WeightUse) else leaf
        for name, leaf in parts.leaves.items()
    }
    for device, runs in shares.items():
        namespace.update(device.load(runs, weights))
    return namespace


def _leaf(op: Operation) -> Array | WeightUse:
    """Returns the value of a leaf that stands outside of runs, or the weight that it is."""
    from fuel_dialect.interpreter.evaluate import evaluate_op

    if isinstance(op, WeightOp):
        return WeightUse(op.key.data, tensor_type(op.result))
    (value,) = evaluate_op(op, [])
    return value


def _executed(source: str, signature: Signature, namespace: dict[str, Any]) -> Callable[..., Any]:
    """Executes the source of a walk, and returns its method `call`."""
    names = {
        **namespace,
        **{f"dtype{index}": port.numpy for index, port in enumerate(signature.arguments)},
        "ndarray": np.ndarray,
        "MISSING": MISSING,
        "arrays": (np.ndarray, DeviceArray),
        "what": f"a call of {signature.entry}",
        "out_of_memory": out_of_memory,
        "is_unexplained": is_unexplained,
        "FuelError": FuelError,
    }
    exec(compile(source, f"<fuel walk of {signature.entry}>", "exec"), names)
    return names["call"]


def _state_type(function: FuncOp, signature: Signature, devices: Devices) -> StateType:
    """Returns the members of a state and where each lives."""
    homes = argument_devices(function, function.body.block)
    places = [devices.at(homes[member.argument]) for member in signature.members]
    return StateType.of(signature, places, devices.takers)
