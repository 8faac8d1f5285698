# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes executables of optimised IR: lowers its runs, and generates the walk of a route."""

from __future__ import annotations

import abc
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect.errors import ArgumentError, DeviceUnavailable, FuelError
from fuel_dialect.ops.base import tensor_type
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.memory import WeightOp
from fuel_lowering.runs.functions import LoweredRun
from fuel_passes.forking.dropped import dropped
from fuel_passes.planning.residency import argument_devices, result_devices
from fuel_passes.planning.topology import planned_generation
from fuel_runtime.array_files import bind_weights
from fuel_runtime.call.arguments import MISSING, Array, Port, Signature, bind, describe
from fuel_runtime.call.host_memory import is_unexplained, out_of_memory
from fuel_runtime.call.live import Live, Steering
from fuel_runtime.call.needs import with_needs
from fuel_runtime.call.plan import LEFT, Traced
from fuel_runtime.call.report import (
    ArmReport,
    BranchReport,
    DeviceReport,
    Report,
    RunReport,
    StateReport,
    TransferReport,
)
from fuel_runtime.call.route import Route, Transfer
from fuel_runtime.call.state import State, StateType, Use
from fuel_runtime.call.survey import Survey, choose, survey
from fuel_runtime.call.trace import all_mobile, trace
from fuel_runtime.call.transfers import Once, TransferFunction
from fuel_runtime.call.walk import write, write_live, write_walk
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.interface import Device
from fuel_runtime.devices.present import Devices
from fuel_runtime.picker.decision import Decision, Pick
from fuel_runtime.picker.policy import Policy
from fuel_runtime.picker.routes import Fingerprint

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation

    from fuel_dialect.targets.machine import Topology


class Executable(abc.ABC):
    """
    A compiled function: call it with arrays, get a tuple of new arrays.

    Arguments are given by position or by `fuel.name`. NumPy arrays of the declared shape and dtype
    are read where they lie, whatever their strides; so are objects with `__array__` or
    `__dlpack__`, and arrays of a device by what runs there. Python numbers and sequences of them
    are converted, if the dtype holds their values. A result is a NumPy array, or an array of the
    device that `fuel.device` says it is to be on. Results never share memory with arguments,
    weights or one another.

    A program that has state takes it as `state=`, which `new_state` makes, and updates it; it is
    not among the results. Calls from several threads at once are fine, each with a state of its
    own. A call raises `ArgumentError` for arguments that do not fit, `StateError` for a state that
    cannot be used, `IndexOutOfRange` when an index operand points outside, and `DeviceFailure` when
    a device fails.
    """

    __slots__ = (
        "__weakref__",
        "_live",
        "_module",
        "_movers",
        "_report",
        "_signature",
        "_source",
        "_state_type",
    )

    def __init__(
        self,
        module: ModuleOp,
        signature: Signature,
        source: str,
        report: Report,
        movers: Movers,
        state_type: StateType,
        live: Live | None,
    ):
        self._module = module
        self._signature = signature
        self._source = source
        self._report = report
        self._movers = movers
        self._state_type = state_type
        self._live = live

    @abc.abstractmethod
    def __call__(self, *args: Any, **named: Any) -> tuple[Any, ...]:
        """Run the function on arrays. Each executable has its own, generated for its arguments."""

    def new_state(self, given: Mapping[str, Any] | None = None, /, **named: Any) -> State:
        """
        A state to pass to calls as `state=`: zeros, but for the members that are given by name.

        Arrays are copied. Raises `ArgumentError` for what is no member of the state or does not
        fit, and where the program has no state.
        """
        if not self._signature.members:
            raise ArgumentError(
                f"{self._signature.entry} has no state; state is a donated argument: make it with "
                "graph.state"
            )
        return self._state_type.make({**(given or {}), **named})

    @property
    def module(self) -> ModuleOp:
        """The optimised IR; changing it does not change the executable."""
        return self._module

    @property
    def signature(self) -> Signature:
        """Names, dtypes and shapes of the arguments and results."""
        return self._signature

    @property
    def source(self) -> str:
        """The generated code: the runs of every arm, and the walk of the chosen route."""
        return self._source

    def report(self) -> Report:
        """
        Devices, runs, transfers and sizes; of each branch the arm that runs, why, and why not the
        others.
        """
        return self._movers.reported(self._report, self._live)

    def route(self) -> dict[str, Any]:
        """
        Return the arms that a call would take now, as `Session(replay=)` reads them.

        They belong to this program: `decisions` names all that it has, with their arms.
        """
        decisions = {branch.decision: len(branch.arms) for branch in self._report.branches}
        if self._live is not None:
            arms = self._live.route()
        else:
            arms = {b.decision: b.arm for b in self._report.branches if b.on_route}
        return {"entry": self._signature.entry, "decisions": decisions, "arms": arms}

    def time_arms(
        self, args: Sequence[Any], named: Mapping[str, Any], state: State | None, repeats: int
    ) -> int:
        """Time each arm that can run, on copies of a state; see `Session.calibrate`."""
        if self._live is None:
            return 0
        signature = self._signature
        if len(args) > len(signature.positions):
            raise ArgumentError(f"{signature.entry}: calibrate: too many arguments")
        missing = [MISSING] * (len(signature.positions) - len(args))
        takers = self._state_type.takers
        given = bind(signature, [*args, *missing], (), named, self._live.mobile, takers)
        return self._live.time_arms(lambda: self._use_of(given, state), repeats)

    def _use_of(
        self, given: Sequence[Any], state: State | None
    ) -> tuple[Use | None, tuple[Any, ...]]:
        """Returns a use of a copy of a state, and all arguments of the function with it."""
        signature = self._signature
        if not signature.members:
            return None, tuple(given)
        use = self._state_type.begin(None if state is None else state.copy())
        everything = dict(zip(signature.positions, given, strict=True))
        members = (member.argument for member in signature.members)
        everything |= dict(zip(members, use.take(), strict=True))
        return use, tuple(everything[index] for index in range(len(signature.arguments)))

    def __repr__(self) -> str:
        return f"<Executable {self._signature}>"


@dataclass(frozen=True)
class _Parts:
    """All that is known once every run is lowered and a route is chosen."""

    signature: Signature
    devices: Devices
    survey: Survey
    choices: Mapping[BranchOp, Pick]
    lowered: Mapping[str, LoweredRun]
    route: Route

    @cached_property
    def runs(self) -> Mapping[str, RunOp]:
        """The runs by name."""
        return {name: run for run, name in self.survey.runs.items()}


def build(
    module: ModuleOp,
    function: FuncOp,
    devices: Devices,
    weights: Mapping[str, Any],
    steering: Steering,
    topology: Topology | None = None,
) -> Executable:
    """
    Lower every arm of an optimised function that can run here, and generate the walk of a route.

    Measured times are those of a `topology`. Raises `ProgramError`, `LoweringError`,
    `DeviceUnavailable`, `DecisionError` or `WeightError`.
    """
    signature = Signature.of(function)
    found = survey(function, devices)
    if found.unavailable is not None:
        raise DeviceUnavailable(f"{signature.entry} cannot run: {found.unavailable}")
    steering.check_replay(signature.entry, found.decisions.values())
    choices = choose(found, steering.policy)
    owners = {name: devices.serving(run.target) for run, name in found.runs.items()}
    lowered = {name: owners[name].lower(run, name) for run, name in found.runs.items()}
    found = with_needs(found, lowered, devices.threads, topology)
    is_live = _is_live(found, steering.policy)
    mobile = all_mobile(function, found) if is_live else None
    arms = {branch: pick.arm for branch, pick in choices.items()}
    route = trace(function, found, arms, mobile)
    parts = _Parts(signature, devices, found, choices, lowered, route)
    needed = _needed_weights(parts)
    bound = bind_weights(needed, weights)

    movers = Movers(parts)
    namespace = _loaded(lowered, owners, bound)
    namespace |= {name: _leaf(op, bound) for op, name in found.leaves.items()}
    binder = partial(bind, signature, mobile=route.mobile, takers=devices.takers)
    layout = _state_type(function, signature, devices)
    entry = {"bind": binder, "begin": layout.begin}
    live = None
    if is_live:
        live = _live(function, parts, movers, namespace, steering, planned_generation(module) or "")
        entry |= {"live": live, "telemetry": steering.telemetry, "left": LEFT}
        walk = live.traced(arms).source + "\n\n" + (method := write_live(signature, route.mobile))
    else:
        entry |= namespace | movers.functions(route)
        walk = method = write(route, signature)
    call = _executed(method, signature, entry)
    source = "\n\n".join([*(run.source.strip("\n") for run in lowered.values()), walk])
    own = _class_with(call)
    report = replace(_report(parts, needed, layout), dropped=dropped(function))
    executable = own(module, signature, source, report, movers, layout, live)
    # The generated functions and their globals hold one another: memory of devices, weights and
    # workspaces would wait for a collection.
    ended = weakref.finalize(executable, call.__globals__.clear)
    ended.atexit = False
    return executable


def _is_live(found: Survey, policy: Policy) -> bool:
    """Returns True if some decision of a program has another arm to take."""
    return not policy.strict and any(
        sum(
            arm.unavailable is None and index not in policy.forbid.get(decision.path, ())
            for index, arm in enumerate(decision.arms)
        )
        > 1
        for decision in found.decisions.values()
    )


def _live(
    function: FuncOp,
    parts: _Parts,
    movers: Movers,
    namespace: Mapping[str, Any],
    steering: Steering,
    generation: str,
) -> Live:
    """Returns what chooses the route of a program while it runs."""
    signature, found, mobile = parts.signature, parts.survey, parts.route.mobile
    decisions = found.decisions

    def traced(choices: Mapping[BranchOp, int]) -> Traced:
        route = trace(function, found, choices, mobile)
        source, lines = write_walk(route, signature)
        key = tuple((decisions[branch].path, arm) for branch, arm in route.decisions)
        return Traced(route, {**namespace, **movers.functions(route)}, key, source, lines)

    devices = parts.devices
    labels = {d.name.label: d for d in (devices.host, *devices.present)}
    first = {branch: pick.arm for branch, pick in parts.choices.items()}
    results = tuple(device.label for device in result_devices(function))
    fingerprint = Fingerprint(signature.entry, generation, results)
    names = {**namespace, "devices": labels}
    return Live(signature, decisions, first, traced, names, steering, fingerprint, mobile)


class Movers:
    """Makes the functions of transfers; routes that make the same transfer share one."""

    def __init__(self, parts: _Parts):
        self._parts = parts
        self._known: dict[object, tuple[TransferFunction, Callable[..., Any]]] = {}

    def functions(self, route: Route) -> dict[str, Any]:
        """Returns the functions of the transfers of a route by name."""
        return {transfer.function: self._of(route, transfer)[1] for transfer in route.transfers}

    def of(self, route: Route) -> list[TransferFunction]:
        """Returns what counts the transfers of a route, in order."""
        return [self._of(route, transfer)[0] for transfer in route.transfers]

    def reported(self, report: Report, live: Live | None) -> Report:
        """Returns a report as it is now: the live route, its picks, and what was moved."""
        parts = self._parts
        route, picks = parts.route, dict(parts.choices)
        if live is not None and live.settled is not None:
            route = live.settled.route
        if live is not None:
            newest = {b: live.picks.get(d.path) for b, d in parts.survey.decisions.items()}
            picks |= {branch: pick for branch, pick in newest.items() if pick is not None}
            report = _routed(report, parts, route, picks)
            report = replace(report, history=tuple(live.history), faults=tuple(live.faults))
        transfers = tuple(
            replace(each.report, moved_bytes=each.moves * each.report.bytes)
            for each in self.of(route)
        )
        return replace(report, transfers=transfers)

    def _of(self, route: Route, transfer: Transfer) -> tuple[TransferFunction, Callable[..., Any]]:
        root, origin = route.root(transfer.source), transfer.origin
        key = root, None if origin is None else origin.label, transfer.to.label
        known = self._known.get(key)
        if known is None:
            function = _transfer_function(self._parts, route, transfer)
            is_leaf = transfer.source.startswith("leaf")
            known = self._known[key] = function, Once(function) if is_leaf else function
        return known


def _transfer_function(parts: _Parts, route: Route, transfer: Transfer) -> TransferFunction:
    port = Port(_described(parts, route, transfer), transfer.type)
    report = TransferReport(
        value=port.name,
        type=describe(port.dtype.name, port.shape),
        origin="caller" if transfer.origin is None else transfer.origin.label,
        to=transfer.to.label,
        bytes=port.bytes,
    )
    return TransferFunction(parts.devices.at(transfer.to), report)


def _described(parts: _Parts, route: Route, transfer: Transfer) -> str:
    """What a transfer brings: an argument by its name, else what gives the value."""
    if transfer.origin is None:
        return parts.signature.arguments[int(transfer.source[1:])].name
    for call in route.calls:
        if transfer.source in call.outputs and isinstance(call, Transfer):
            return _described(parts, route, call)
        if transfer.source in call.outputs:
            return f"result {call.outputs.index(transfer.source)} of {call.function}"
    return transfer.source


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


def _needed_weights(parts: _Parts) -> dict[str, list[Port]]:
    """The weights of all that was lowered, and of the function itself, by key."""
    needed: dict[str, list[Port]] = {}

    def need(port: Port) -> None:
        known = needed.setdefault(port.name, [])
        if port not in known:
            known.append(port)

    for op in parts.survey.leaves:
        if isinstance(op, WeightOp):
            need(Port(op.key.data, tensor_type(op.result)))
    for run in parts.lowered.values():
        for use in run.weights.values():
            need(Port(use.key, use.type))
    return needed


def _loaded(
    lowered: Mapping[str, LoweredRun],
    owners: Mapping[str, Device],
    weights: Mapping[str, Array],
) -> dict[str, Any]:
    """The callables of all runs; each device loads its own at once."""
    shares: dict[Device, list[LoweredRun]] = {}
    for name, run in lowered.items():
        shares.setdefault(owners[name], []).append(run)
    namespace: dict[str, Any] = {}
    for device, runs in shares.items():
        namespace.update(device.load(runs, weights))
    return namespace


def _leaf(op: Operation, weights: Mapping[str, Array]) -> Array:
    """The value of a leaf that stands outside of runs."""
    from fuel_dialect.interpreter.evaluate import Environment, evaluate_op

    (value,) = evaluate_op(op, [], Environment(weights))
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


def _state_reports(parts: _Parts, layout: StateType) -> Iterator[StateReport]:
    for member, device in zip(parts.signature.members, layout.devices, strict=True):
        port = member.port
        yield StateReport(
            name=port.name,
            type=describe(port.dtype.name, port.shape),
            device=device.name.label,
            update=parts.route.update(member.argument, member.result),
        )


def _report(parts: _Parts, needed: Mapping[str, list[Port]], layout: StateType) -> Report:
    devices = parts.devices
    report = Report(
        entry=parts.signature.entry,
        signature=str(parts.signature),
        asked=devices.asked,
        devices=tuple(_device_reports(devices)),
        threads=devices.threads,
        runs=len(parts.lowered),
        runs_on_route=0,
        kernels=sum(map(_kernels, parts.runs.values())),
        kernels_on_route=0,
        workspace_bytes=0,
        weights=tuple(str(port) for ports in needed.values() for port in ports),
        branches=(),
    )
    state = tuple(_state_reports(parts, layout))
    return replace(_routed(report, parts, parts.route, parts.choices), state=state)


def _routed(report: Report, parts: _Parts, route: Route, picks: Mapping[BranchOp, Pick]) -> Report:
    """Returns a report with what belongs to a route: runs, workspaces and decisions."""
    runs = tuple(_run_report(parts, run) for run in route.runs)
    threads = parts.devices.threads
    return replace(
        report,
        runs_on_route=len(runs),
        kernels_on_route=sum(run.kernels for run in runs),
        workspace_bytes=sum(parts.lowered[name].workspace_bytes(threads) for name in route.runs),
        branches=tuple(
            _branch_report(parts, route, branch, picks.get(branch))
            for branch in parts.survey.decisions
        ),
        route=runs,
    )


def _device_reports(devices: Devices) -> Iterator[DeviceReport]:
    for device in devices.present:
        name = device.name
        identity = "" if device is devices.host else device.identity
        yield DeviceReport(str(name), "", identity, name in devices.emulated, _targets(device))
    for absent in devices.absent:
        yield DeviceReport(str(absent.what), absent.reason)


def _targets(device: Device) -> tuple[str, ...]:
    return tuple(target.backend.data for target in device.targets)


def _run_report(parts: _Parts, name: str) -> RunReport:
    run, lowered = parts.runs[name], parts.lowered[name]
    return RunReport(name, str(run.target), _kernels(run), lowered.launch_count)


def _kernels(run: RunOp) -> int:
    return sum(1 for op in run.body.block.ops if isinstance(op, KernelOp))


def _branch_report(
    parts: _Parts, route: Route, branch: BranchOp, pick: Pick | None
) -> BranchReport:
    decision = parts.survey.decisions[branch]
    arms = tuple(
        ArmReport(
            arm=index,
            target=arm.target,
            price_ns=arm.price_ns,
            origin=arm.origin,
            chosen=pick is not None and pick.arm == index,
            why_not=_why_not(decision, pick, index),
        )
        for index, arm in enumerate(decision.arms)
    )
    if pick is None:
        return BranchReport(decision.path, None, "no arm can run here", False, arms)
    return BranchReport(decision.path, pick.arm, pick.reason, branch in route.branches, arms)


def _why_not(decision: Decision, pick: Pick | None, arm: int) -> str:
    """Returns why an arm was not chosen; nothing for the chosen one."""
    unavailable = decision.arms[arm].unavailable
    if unavailable is not None:
        return f"cannot run here: {unavailable}"
    return "" if pick is None else pick.why_not.get(arm, "")
