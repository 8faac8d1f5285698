# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes executables of lowered runs and a route, without IR."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect.errors import FuelError
from fuel_lowering.bytecode import code_of
from fuel_lowering.runs.leaves import WeightUse
from fuel_runtime.array_files import bind_weights
from fuel_runtime.call.binding import MISSING, bind
from fuel_runtime.call.host_memory import is_unexplained, out_of_memory
from fuel_runtime.call.signature import Array, Port, Signature
from fuel_runtime.call.state import StateType
from fuel_runtime.call.walk_source import write, write_live
from fuel_runtime.compile.code import Code
from fuel_runtime.compile.executable import Executable, walk_file
from fuel_runtime.compile.renewal import is_outdated
from fuel_runtime.compile.transfer_functions import TransferFunctions
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.caps import check_planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

    from fuel_dialect.attributes import DeviceAttr
    from fuel_lowering.runs.functions import LoweredRun
    from fuel_runtime.call.live import Live
    from fuel_runtime.call.report import Report
    from fuel_runtime.compile.parts import Parts
    from fuel_runtime.devices.interface import Device


def build_straight(
    text: str,
    parts: Parts,
    report: Report,
    members: Sequence[DeviceAttr],
    weights: Mapping[str, Any],
    generation: str,
    bounds: Mapping[str, Any],
    constants: Collection[str],
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
    code = Code(report, parts, TransferFunctions(parts), bound, generation, bounds, constants)
    return assembled(text, code, namespace_of(parts, bound), state, None)


def assembled(
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
        from fuel_runtime.call.stretch import LEFT

        entry |= {"live": live, "telemetry": live.telemetry, "left": LEFT, "counter": live.counter}
        method = write_live(signature, route.mobile, is_counted=live.counter is not None)
        walk = f"{live.written(dict(route.decisions)).source}\n\n{method}"
    else:
        entry |= {**namespace, **code.transfers.functions(route)}
        walk = method = write(route, signature)
    call = _executed(method, signature, entry)
    executable = _class_with(call)(module, code, walk, members, live)
    executable.own(call)
    return executable


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


def namespace_of(parts: Parts, weights: Mapping[str, Array]) -> dict[str, Any]:
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
        "is_outdated": is_outdated,
        "FuelError": FuelError,
    }
    exec(code_of(source, walk_file(signature)), names)
    return names["call"]
