# SPDX-License-Identifier: MIT OR Apache-2.0
"""Executables: optimised IR, lowered, with a generated function that walks it."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect.errors import DeviceUnavailable
from fuel_dialect.ops.base import tensor_type
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.ops.memory import WeightOp
from fuel_lowering.numpy.support import quiet_context
from fuel_runtime.arguments import MISSING, Array, Port, Signature, bind
from fuel_runtime.devices import Device, Devices
from fuel_runtime.driver import Route, Survey, choose, survey, trace, write
from fuel_runtime.picker.static import Choice, why_not
from fuel_runtime.report import ArmReport, BranchReport, DeviceReport, Report
from fuel_runtime.weights import bind_weights

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation

    from fuel_lowering.kernels import LoweredRun


class Executable(abc.ABC):
    """
    A compiled function: call it with arrays, get a tuple of new arrays.

    Arguments are given by position or by `fuel.name`. NumPy arrays of the declared shape and dtype
    are read where they lie, whatever their strides; so are objects with `__array__` or
    `__dlpack__`. Python numbers and sequences of them are converted, if the dtype holds their
    values. Results never share memory with arguments, weights or one another.

    Calls from several threads at once are fine. A call raises `ArgumentError` for arguments that
    do not fit, and `IndexOutOfRange` when an index operand points outside.
    """

    __slots__ = ("__weakref__", "_module", "_report", "_signature", "_source")

    def __init__(self, module: ModuleOp, signature: Signature, source: str, report: Report):
        self._module = module
        self._signature = signature
        self._source = source
        self._report = report

    @abc.abstractmethod
    def __call__(self, *args: Any, **named: Any) -> tuple[Array, ...]:
        """Run the function on arrays. Each executable has its own, generated for its arguments."""

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
        """The generated Python code: the runs of every arm, and the walk of the chosen route."""
        return self._source

    def report(self) -> Report:
        """Devices, sizes, and of each branch the arm that runs, why, and why not the others."""
        return self._report

    def __repr__(self) -> str:
        return f"<Executable {self._signature}>"


@dataclass(frozen=True)
class _Parts:
    """All that is known once every run is lowered and a route is chosen."""

    signature: Signature
    survey: Survey
    choices: Mapping[BranchOp, Choice]
    lowered: Mapping[str, LoweredRun]
    route: Route

    @property
    def route_runs(self) -> list[LoweredRun]:
        """The runs of one call, in order."""
        return [self.lowered[call.run] for call in self.route.calls]


def build(
    module: ModuleOp,
    function: FuncOp,
    devices: Devices,
    threads: int,
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
    parts = _Parts(signature, found, choices, lowered, route)
    needed = _needed_weights(parts)
    bound = bind_weights(needed, weights)

    namespace = _loaded(lowered, owners, bound)
    namespace |= {name: _leaf(op, bound) for op, name in found.leaves.items()}
    workspace = _prepare_workspaces(parts, namespace)
    walk = write(route, signature, lambda run: lowered[run].scratch)
    call = _executed(walk, signature, namespace)
    source = "\n\n".join([*(run.source.strip("\n") for run in lowered.values()), walk])
    report = _report(parts, devices, threads, workspace, needed)
    own = _class_with(call)
    return own(module, signature, source, report)


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
    lowered: Mapping[str, LoweredRun], owners: Mapping[str, Device], weights: Mapping[str, Array]
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
    from fuel_dialect.reference.interpreter import Environment, evaluate_op

    (value,) = evaluate_op(op, [], Environment(weights))
    return value


def _prepare_workspaces(parts: _Parts, namespace: dict[str, Any]) -> int:
    """Make the first workspace of each run on the route; their size in bytes."""
    bytes = 0
    for run in dict.fromkeys(call.run for call in parts.route.calls):
        if parts.lowered[run].scratch:
            first = namespace[f"{run}_scratch"]()
            namespace[f"{run}_free"] = [first]
            memory = {id(base): base.nbytes for base in map(_memory, _arrays(first))}
            bytes += sum(memory.values())
    return bytes


def _arrays(workspace: object) -> Iterator[Array]:
    """The arrays that a workspace is made of."""
    if isinstance(workspace, np.ndarray):
        yield workspace
    elif isinstance(workspace, list | tuple):
        for part in workspace:
            yield from _arrays(part)


def _memory(array: Array) -> Array:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _executed(source: str, signature: Signature, namespace: dict[str, Any]) -> Callable[..., Any]:
    """Execute the source of a walk; its method `call`."""
    names = {
        **namespace,
        **{f"dtype{index}": port.numpy for index, port in enumerate(signature.inputs)},
        "ndarray": np.ndarray,
        "MISSING": MISSING,
        "bind": partial(bind, signature),
        "contexts": [],
        "new_context": quiet_context,
    }
    exec(compile(source, f"<fuel walk of {signature.entry}>", "exec"), names)
    return names["call"]


def _report(
    parts: _Parts,
    devices: Devices,
    threads: int,
    workspace: int,
    needed: Mapping[str, list[Port]],
) -> Report:
    present = [DeviceReport(str(device.target.device)) for device in devices.present]
    absent = [DeviceReport(str(a.device), a.reason) for a in devices.absent]
    on_route = parts.route_runs
    return Report(
        entry=parts.signature.entry,
        signature=str(parts.signature),
        asked=devices.asked,
        devices=(*present, *absent),
        threads=threads,
        runs=len(parts.lowered),
        runs_on_route=len(on_route),
        kernels=sum(run.kernels for run in parts.lowered.values()),
        kernels_on_route=sum(run.kernels for run in on_route),
        workspace_bytes=workspace,
        weights=tuple(str(port) for ports in needed.values() for port in ports),
        branches=tuple(_branch_report(parts, branch) for branch in parts.survey.decisions),
    )


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
