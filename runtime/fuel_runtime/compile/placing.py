# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads where a program is to run and to leave its results, as `Session.compile` is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import ArgumentError, DeviceUnavailable, UnknownDevice
from fuel_passes.planning.residency import DEVICE

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from fuel_runtime.call.signature import Port, Signature
    from fuel_runtime.devices.present import Devices

Place = Mapping[str, str]
"""A device for each op, value or kernel that is named."""

Results = str | Sequence[str | None] | Mapping[str, str]
"""A device for all results, or for each."""


def pins(place: object, entry: str, devices: Devices) -> tuple[str, ...]:
    """
    Returns the option `place` of `fuel-optimize` that pins what `place` names in a function.

    Raises `ArgumentError`, `UnknownDevice` or `DeviceUnavailable`.
    """
    return tuple(
        f"@{entry}/{name}={_device(f'place: {name!r}', wanted, devices)}"
        for name, wanted in _mapping(place).items()
    )


def place_results(
    function: FuncOp, signature: Signature, results: object, devices: Devices
) -> None:
    """
    Say on a function where its results are to be.

    `results` is a device for all of them, a sequence with one for each, or a mapping by name;
    results that have none (None in a sequence) stay as the program says, and so does state. Raises
    `ArgumentError` and `DeviceUnavailable`.
    """
    ports = signature.outputs
    wanted = _by_result(ports, results)
    given, state = function.res_attrs, {member.result for member in signature.members}
    count = len(ports) + len(state)
    found = [DictionaryAttr({}) for _ in range(count)] if given is None else list(given.data)
    places = [index for index in range(count) if index not in state]
    for place, port, name in zip(places, ports, wanted, strict=True):
        if name is None:
            continue
        device = _device(f"results: {port.name!r}", name, devices)
        found[place] = DictionaryAttr({**found[place].data, DEVICE: device})
    function.properties["res_attrs"] = ArrayAttr(found)


def _by_result(ports: Sequence[Port], results: object) -> list[object]:
    """For each result its device; None for those that are not mentioned."""
    if isinstance(results, str | DeviceAttr):
        return [results] * len(ports)
    names = [port.name for port in ports]
    if isinstance(results, Mapping):
        unknown = [name for name in results if name not in names]
        if unknown:
            raise ArgumentError(
                f"results: there is no result {', '.join(map(repr, unknown))}; "
                f"the results are {', '.join(names) or 'none'}"
            )
        return [results.get(name) for name in names]
    if isinstance(results, Sequence) and len(results) == len(ports):
        return list(results)
    raise ArgumentError(
        "results: expected a device, a mapping of results to devices, or one device for each of "
        f"{', '.join(names) or 'no results'}; got {results!r}"
    )


def _mapping(place: object) -> Mapping[str, object]:
    if isinstance(place, Mapping) and all(isinstance(name, str) for name in place):
        return place
    raise ArgumentError(
        f"place: expected a mapping of names to devices, such as {{'matmul': 'cpu'}}; got {place!r}"
    )


def _device(where: str, name: object, devices: Devices) -> DeviceAttr:
    """A device of the session by name. Raises `UnknownDevice` or `DeviceUnavailable`."""
    if not isinstance(name, str | DeviceAttr):
        raise ArgumentError(f"{where}: a device is named by a string such as 'cpu', not {name!r}")
    try:
        device = DeviceAttr.of(name)
    except UnknownDevice as error:
        raise UnknownDevice(f"{where}: {error}") from None
    missing = devices.why_not(device)
    if missing is not None:
        raise DeviceUnavailable(f"{where}: {missing}")
    return device
