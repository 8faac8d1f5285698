# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the functions that bring values to devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fuel_runtime.call.report import TransferReport
from fuel_runtime.call.route import Route, Transfer
from fuel_runtime.call.signature import Port, describe
from fuel_runtime.call.transfers import Once, TransferFunction

if TYPE_CHECKING:
    from fuel_runtime.compile.parts import Parts


class TransferFunctions:
    """Makes the functions of transfers; routes that make the same transfer share one."""

    def __init__(self, parts: Parts):
        self._parts = parts
        self._known: dict[object, tuple[TransferFunction, Callable[..., Any]]] = {}

    def functions(self, route: Route) -> dict[str, Any]:
        """Returns the functions of the transfers of a route by name."""
        return {transfer.function: self._of(route, transfer)[1] for transfer in route.transfers}

    def of(self, route: Route) -> list[TransferFunction]:
        """Returns what counts the transfers of a route, in order."""
        return [self._of(route, transfer)[0] for transfer in route.transfers]

    def _of(self, route: Route, transfer: Transfer) -> tuple[TransferFunction, Callable[..., Any]]:
        root, origin = route.root(transfer.source), transfer.origin
        key = root, None if origin is None else origin.label, transfer.to.label, transfer.memory
        known = self._known.get(key)
        if known is None:
            function = _transfer_function(self._parts, route, transfer)
            is_leaf = transfer.source.startswith("leaf")
            known = self._known[key] = function, Once(function) if is_leaf else function
        return known


def _transfer_function(parts: Parts, route: Route, transfer: Transfer) -> TransferFunction:
    port = Port(_described(parts, route, transfer), transfer.type)
    report = TransferReport(
        value=port.name,
        type=describe(port.dtype.name, port.shape),
        origin="caller" if transfer.origin is None else transfer.origin.label,
        to=transfer.to.label,
        bytes=port.bytes,
    )
    device, reader = parts.devices.at(transfer.to), _reader(route, transfer)
    return TransferFunction(device, report, reader, transfer.memory)


def _reader(route: Route, transfer: Transfer) -> str:
    """Names the first run that reads what a transfer brings, else says that it is a result."""
    for call in route.calls:
        if transfer.result in call.inputs:
            return _reader(route, call) if isinstance(call, Transfer) else call.function
    return "a result"


def _described(parts: Parts, route: Route, transfer: Transfer) -> str:
    """Names what a transfer brings: an argument, else the result of a call."""
    if transfer.origin is None:
        return parts.signature.arguments[int(transfer.source[1:])].name
    for call in route.calls:
        if transfer.source in call.outputs and isinstance(call, Transfer):
            return _described(parts, route, call)
        if transfer.source in call.outputs:
            return f"result {call.outputs.index(transfer.source)} of {call.function}"
    return transfer.source
