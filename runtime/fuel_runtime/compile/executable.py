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
from fuel_passes.planning.residency import argument_devices
from fuel_runtime.array_files import bind_weights
from fuel_runtime.call.arguments import MISSING, Array, Port, Signature, bind, describe
from fuel_runtime.call.host_memory import is_unexplained, out_of_memory
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
from fuel_runtime.call.state import State, StateType
from fuel_runtime.call.survey import Survey, choose, survey
from fuel_runtime.call.trace import trace
from fuel_runtime.call.transfers import Once, TransferFunction
from fuel_runtime.call.walk import write
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.interface import Device
from fuel_runtime.devices.present import Devices
from fuel_runtime.picker.static import Choice, why_not

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation


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
        "_module",
        "_report",
        "_signature",
        "_source",
        "_state_type",
        "_transfers",
    )

    def __init__(
        self,
        module: ModuleOp,
        signature: Signature,
        source: str,
        report: Report,
        transfers: Sequence[TransferFunction],
        state_type: StateType,
    ):
        self._module = module
        self._signature = signature
        self._source = source
        self._report = report
        self._transfers = transfers
        self._state_type = state_type

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
        if not self._transfers:
            return self._report
        transfers = tuple(
            replace(each.report, moved_bytes=each.moves * each.report.bytes)
            for each in self._transfers
        )
        return replace(self._report, transfers=transfers)

    def __repr__(self) -> str:
        return f"<Executable {self._signature}>"


@dataclass(frozen=True)
class _Parts:
    """All that is known once every run is lowered and a route is chosen."""

    signature: Signature
    devices: Devices
    survey: Survey
    choices: Mapping[BranchOp, Choice]
    lowered: Mapping[str, LoweredRun]
    route: Route

    @cached_property
    def runs(self) -> Mapping[str, RunOp]:
        """The runs by name."""
        return {name: run for run, name in self.survey.runs.items()}

    @cached_property
    def workspaces(self) -> Mapping[str, int]:
        """The bytes of the host that each run that is called takes for its workspace."""
        threads = self.devices.threads
        return {name: self.lowered[name].workspace_bytes(threads) for name in self.route.runs}


def build(
    module: ModuleOp,
    function: FuncOp,
    devices: Devices,
    weights: Mapping[str, Any],
    force: Mapping[str, int],
) -> Executable:
    """
    Lower every arm of an optimised function that can run here, and generate the walk of a route.

    Raises `ProgramError`, `LoweringError`, `DeviceUnavailable`, `DecisionError` or `WeightError`.
    """
    signature = Signature.of(function)
    found = survey(function, devices)
    if found.unavailable is not None:
        raise DeviceUnavailable(f"{signature.entry} cannot run: {found.unavailable}")
    choices = choose(found, force)
    owners = {name: devices.serving(run.target) for run, name in found.runs.items()}
    lowered = {name: owners[name].lower(run, name) for run, name in found.runs.items()}
    route = trace(function, found, choices)
    parts = _Parts(signature, devices, found, choices, lowered, route)
    needed = _needed_weights(parts)
    bound = bind_weights(needed, weights)

    transfers = {each.function: _transfer_function(parts, each) for each in route.transfers}
    namespace = _loaded(lowered, owners, bound) | _transfer_functions(route, transfers)
    namespace |= {name: _leaf(op, bound) for op, name in found.leaves.items()}
    walk = write(route, signature)
    binder = partial(bind, signature, mobile=route.mobile, takers=devices.takers)
    layout = _state_type(function, signature, devices)
    call = _executed(walk, signature, {**namespace, "bind": binder, "begin": layout.begin})
    source = "\n\n".join([*(run.source.strip("\n") for run in lowered.values()), walk])
    own = _class_with(call)
    report = replace(_report(parts, needed, layout), dropped=dropped(function))
    executable = own(module, signature, source, report, tuple(transfers.values()), layout)
    # The generated functions and their globals hold one another: memory of devices, weights and
    # workspaces would wait for a collection.
    ended = weakref.finalize(executable, call.__globals__.clear)
    ended.atexit = False
    return executable


def _transfer_function(parts: _Parts, transfer: Transfer) -> TransferFunction:
    port = Port(_described(parts, transfer), transfer.type)
    report = TransferReport(
        value=port.name,
        type=describe(port.dtype.name, port.shape),
        origin="caller" if transfer.origin is None else transfer.origin.label,
        to=transfer.to.label,
        bytes=port.bytes,
    )
    return TransferFunction(parts.devices.at(transfer.to), report)


def _described(parts: _Parts, transfer: Transfer) -> str:
    """What a transfer brings: an argument by its name, else what gives the value."""
    if transfer.origin is None:
        return parts.signature.arguments[int(transfer.source[1:])].name
    for call in parts.route.calls:
        if transfer.source in call.outputs and isinstance(call, Transfer):
            return _described(parts, call)
        if transfer.source in call.outputs:
            return f"result {call.outputs.index(transfer.source)} of {call.function}"
    return transfer.source


def _transfer_functions(route: Route, functions: Mapping[str, TransferFunction]) -> dict[str, Any]:
    """The functions of transfers by name; that of a leaf is called once."""
    return {
        transfer.function: Once(functions[transfer.function])
        if transfer.source.startswith("leaf")
        else functions[transfer.function]
        for transfer in route.transfers
    }


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
    devices, route = parts.devices, [_run_report(parts, run) for run in parts.route.runs]
    return Report(
        entry=parts.signature.entry,
        signature=str(parts.signature),
        asked=devices.asked,
        devices=tuple(_device_reports(devices)),
        threads=devices.threads,
        runs=len(parts.lowered),
        runs_on_route=len(route),
        kernels=sum(map(_kernels, parts.runs.values())),
        kernels_on_route=sum(run.kernels for run in route),
        workspace_bytes=sum(parts.workspaces.values()),
        weights=tuple(str(port) for ports in needed.values() for port in ports),
        branches=tuple(_branch_report(parts, branch) for branch in parts.survey.decisions),
        route=tuple(route),
        state=tuple(_state_reports(parts, layout)),
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


def _branch_report(parts: _Parts, branch: BranchOp) -> BranchReport:
    decision, choice = parts.survey.decisions[branch], parts.choices.get(branch)
    arms = tuple(
        ArmReport(
            arm=index,
            target=arm.target,
            price_ns=arm.price_ns,
            origin=arm.origin,
            chosen=choice is not None and choice.arm == index,
            why_not=why_not(decision, choice, index),
        )
        for index, arm in enumerate(decision.arms)
    )
    if choice is None:
        return BranchReport(decision.path, None, "no arm can run here", False, arms)
    return BranchReport(
        decision.path, choice.arm, choice.reason, branch in parts.route.branches, arms
    )
