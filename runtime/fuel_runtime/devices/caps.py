# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the bounds that a person sets on the memory of devices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import ArgumentError, OutOfMemory, UnknownDevice
from fuel_runtime.devices.present import Devices

if TYPE_CHECKING:
    from fuel_passes.memory.record import DeviceMemory

Caps = Mapping[str, int | str] | None
"""The bytes that each device may give, by name: a number, or text such as `2GiB`."""

UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
"""The bytes of each unit."""

SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def parse_bytes(given: object, what: str) -> int:
    """Returns a number of bytes from 1 on. Raises `ArgumentError` that says what is to be given."""
    bytes = given if type(given) is int else 0
    match = SIZE.fullmatch(given) if isinstance(given, str) else None
    if match is not None and match[2].lower() in UNITS:
        bytes = int(float(match[1]) * UNITS[match[2].lower()])
    if bytes < 1:
        raise ArgumentError(f"{what} is a size such as 2GiB, 512MiB or 4096, not {given!r}")
    return bytes


def limit(devices: Devices, caps: object) -> None:
    """
    Bounds the memory of devices. Raises `ArgumentError`, before it bounds any.

    A device of this machine is opened once in a process, and keeps the lowest bound that it is
    given there.
    """
    if caps is None:
        return
    if not isinstance(caps, Mapping):
        raise ArgumentError(
            f"session: memory gives the size of devices, as {{'cuda:0': '2GiB'}}, not {caps!r}"
        )
    present = {device.name: device for device in devices.present}
    found: dict[DeviceAttr, int] = {}
    for name, size in caps.items():
        device = _named(name)
        if device not in present:
            raise ArgumentError(f"session: memory is given for {name!r}; the devices are {devices}")
        found[device] = parse_bytes(size, f"session: the memory of {name}")
    for device, bytes in found.items():
        present[device].limit(bytes)


def _named(name: object) -> DeviceAttr | None:
    try:
        return DeviceAttr.of(name) if isinstance(name, str) else None
    except UnknownDevice:
        return None


def check_planned(planned: Iterable[DeviceMemory], devices: Devices) -> None:
    """
    Raises `OutOfMemory` if more of the host is planned than the session may take.

    Memory of the host is given by NumPy and the system, so the plan is the place to ask.
    """
    cap, host = devices.host.cap, devices.host.name.label
    found = next((replace(each, capacity=cap) for each in planned if each.device == host), None)
    if found is not None and not found.fits:
        raise OutOfMemory(
            f"a call takes more than the {cap:,} bytes that the session may "
            f"take of {host} (memory=); {found}"
        )
