# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reads topologies from JSON and from attributes.

The classes are the schema, which `schema` gives. Rates of a target are given in full, because half
of a cost is no cost.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from fuel_dialect import dtypes, kinds
from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.errors import FuelPassError, UnknownDevice
from fuel_dialect.targets.description import DtypeRates, Strides
from fuel_dialect.targets.machine import Device, Link, Rates, Topology
from fuel_passes.strict_json import MOST, checked, load

LEAST_RATE, MOST_RATE = 1e-100, 1e100
"""Rates beyond them are no machine's, and a price by them would be infinite."""

_T = TypeVar("_T")
Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=MOST)]
FromOne = Annotated[int, Meta(ge=1, le=MOST)]
Rate = Annotated[float, Meta(ge=LEAST_RATE, le=MOST_RATE)]


class DeviceFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Represents a device in JSON."""

    name: Annotated[Name, Meta(description="kind and number: cpu, cuda:0")]
    memory_bytes: Annotated[FromOne, Meta(description="left out if unknown")] | UnsetType = UNSET
    storage: Annotated[Name, Meta(description="whose memory it shares; its own name")] = ""
    hardware: Annotated[Name, Meta(description="its identity in measurements")] = ""
    largest_buffer_bytes: (
        Annotated[FromOne, Meta(description="of what a kernel is given; left out if typical")]
        | UnsetType
    ) = UNSET
    buffers: (
        Annotated[FromOne, Meta(description="most buffers of a launch; left out if typical")]
        | UnsetType
    ) = UNSET


class LinkFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Represents a link in JSON."""

    source: Name
    target: Name
    latency_ns: Count
    bytes_per_ns: Rate


class DtypeFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Represents the rates of one element type in JSON, those that are not as for the others."""

    bytes_per_ns: Rate | UnsetType = UNSET
    operations_per_ns: Rate | UnsetType = UNSET
    flops_per_ns: Rate | UnsetType = UNSET


class RatesFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Represents the rates of a target in JSON; what is left out is as is typical of it."""

    bytes_per_ns: Rate
    operations_per_ns: Rate
    flops_per_ns: Rate
    launch_ns: Count
    dtypes: dict[str, DtypeFields] | UnsetType = UNSET
    threads: FromOne | UnsetType = UNSET
    strides: dict[str, Strides] | UnsetType = UNSET


class TopologyFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Represents a topology in JSON."""

    name: Annotated[Name, Meta(description="how reports and errors call the machine")]
    devices: tuple[DeviceFields, ...]
    targets: tuple[
        Annotated[str, Meta(description="device/backend, most wanted first: cuda:0/triton")], ...
    ]
    links: tuple[LinkFields, ...]
    rates: dict[str, RatesFields] = {}


def schema() -> dict[str, Any]:
    """Returns the JSON schema of a topology."""
    return msgspec.json.schema(TopologyFields)


def parse(text: str, where: str) -> Topology:
    """Returns the topology of a JSON text. Raises `FuelPassError` with place and cure."""
    return from_json(load(text, where), where)


def from_json(loaded: object, where: str) -> Topology:
    """Returns the topology that loaded JSON describes. Raises `FuelPassError` as `parse` does."""
    given = checked(loaded, TopologyFields, where)
    devices = tuple(
        Device(
            device_name(device.name, f"{where}.devices[{index}]"),
            _known(device.memory_bytes),
            device.storage,
            device.hardware,
            _known(device.largest_buffer_bytes),
            _known(device.buffers),
        )
        for index, device in enumerate(given.devices)
    )
    targets = (
        target(text, f"{where}.targets[{index}]") for index, text in enumerate(given.targets)
    )
    links = (Link(k.source, k.target, k.latency_ns, k.bytes_per_ns) for k in given.links)
    rates = (_rates(name, own, f"{where}.rates[{name!r}]") for name, own in given.rates.items())
    topology = Topology(given.name, devices, tuple(targets), tuple(links), tuple(rates))
    _check_names(topology, where)
    return topology


def _known(value: _T | UnsetType) -> _T | None:
    return None if isinstance(value, UnsetType) else value


def _rates(name: str, own: RatesFields, where: str) -> Rates:
    by_dtype, strides = _known(own.dtypes), _known(own.strides)
    unknown = next((kind for kind in strides or () if kind not in kinds.names()), None)
    if unknown is not None:
        there = ", ".join(kinds.names())
        raise FuelPassError(f"{where}.strides: {unknown!r} is no kind of kernel; there are {there}")
    return Rates(
        target(name, where),
        own.bytes_per_ns,
        own.operations_per_ns,
        own.flops_per_ns,
        own.launch_ns,
        None if by_dtype is None else tuple(_dtype_rates(*p, where) for p in by_dtype.items()),
        _known(own.threads),
        None if strides is None else tuple(strides.items()),
    )


def _dtype_rates(name: str, own: DtypeFields, where: str) -> tuple[str, DtypeRates]:
    check_dtype(name, f"{where}.dtypes")
    rates = DtypeRates(*map(_known, msgspec.structs.astuple(own)))
    if rates == DtypeRates():
        raise FuelPassError(f"{where}.dtypes[{name!r}] says nothing of {name}; leave it out")
    return name, rates


def check_dtype(name: str, where: str) -> None:
    """Raises `FuelPassError` for a name of no element type."""
    if name not in dtypes.BY_NAME:
        raise FuelPassError(f"{where}: {name!r} is no dtype; there are {', '.join(dtypes.BY_NAME)}")


def device_name(name: str, where: str) -> str:
    """Returns the name of a device, written as its label. Raises `FuelPassError` for others."""
    try:
        label = DeviceAttr.of(name).label
    except UnknownDevice as error:
        raise FuelPassError(f"{where}: {error}") from error
    if label != name:
        raise FuelPassError(f"{where}: write {label} for the device {name!r}")
    return name


def target(text: str, where: str) -> TargetAttr:
    """Returns the target of a text such as cuda:0/triton. Raises `FuelPassError` for others."""
    device, slash, backend = text.rpartition("/")
    if not slash or not backend:
        raise FuelPassError(f"{where} must be device/backend, such as cuda:0/triton, got {text!r}")
    return TargetAttr.of(device_name(device, where), backend)


def _check_names(topology: Topology, where: str) -> None:
    names = [device.name for device in topology.devices]
    for kind, given in (("device", names), ("target", [str(t) for t in topology.targets])):
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise FuelPassError(f"{where}: {kind} {twice} is listed twice")
    _check_links(topology, names, where)
    for rates in topology.rates:
        if rates.target not in topology.targets:
            raise FuelPassError(
                f"{where}: rates are given for {rates.target}, which is no target of it; "
                f"it has {', '.join(map(str, topology.targets))}"
            )


def _check_links(topology: Topology, names: list[str], where: str) -> None:
    seen: set[tuple[str, str]] = set()
    for link in topology.links:
        ends = (link.source, link.target)
        said = f"{where}: the link {link.source} to {link.target}"
        outside = next((end for end in ends if end not in names), None)
        if outside is not None:
            raise FuelPassError(
                f"{said} ends at {outside}, which is no device of it; it has {', '.join(names)}"
            )
        if link.source == link.target:
            raise FuelPassError(f"{said} joins a device to itself; leave it out")
        if ends in seen:
            raise FuelPassError(f"{said} is listed twice")
        seen.add(ends)


def from_attribute(
    name: str, targets: tuple[TargetAttr, ...], description: DictionaryAttr
) -> Topology:
    """Returns what `to_attribute` was given. Raises `FuelPassError` as `parse` does."""
    where = f"#fuel.topology<{name!r}>"
    given = cast("dict[str, Any]", _plain(description, where))
    return from_json(
        {"links": [], **given, "name": name, "targets": list(map(str, targets))}, where
    )


def _plain(attribute: Attribute, where: str) -> object:
    if isinstance(attribute, DictionaryAttr):
        return {k: _plain(v, where) for k, v in attribute.data.items()}
    if isinstance(attribute, ArrayAttr):
        return [_plain(item, where) for item in cast("ArrayAttr[Attribute]", attribute)]
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, FloatAttr | IntegerAttr):
        return attribute.value.data
    raise FuelPassError(
        f"{where}: a description holds dictionaries, lists, texts and numbers, got {attribute}"
    )
