# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The JSON form of a topology, and the same as an attribute.

`SCHEMA` is the JSON schema of it. A file is checked by `parse` field by field, so that an error
names the file, the place and what would be right; rates that are given for a target are given in
full, because half of a cost is no cost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast, get_args

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute

from fuel_dialect import dtypes, kinds
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.errors import FuelPassError
from fuel_dialect.targets.description import DtypeRates, Strides
from fuel_dialect.targets.machine import Device, Link, Rates, Topology
from fuel_passes.planning.json_fields import LEAST, MOST, Fields, device_name, load, target

STRIDES: tuple[Strides, ...] = get_args(Strides)

_POSITIVE = {"type": "number", "minimum": LEAST, "maximum": MOST}
_WHOLE = {"type": "integer", "minimum": 0}
_NAME = {"type": "string", "minLength": 1}

SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "fuel topology",
    "type": "object",
    "required": ["name", "devices", "targets", "links"],
    "additionalProperties": False,
    "properties": {
        "name": {**_NAME, "description": "how reports and errors call the machine"},
        "devices": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {
                    "name": {**_NAME, "description": "kind and number: cpu, cuda:0"},
                    "memory_bytes": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "capacity; left out if unknown",
                    },
                    "storage": {**_NAME, "description": "whose memory it shares; its own name"},
                    "hardware": {**_NAME, "description": "its identity in measurements"},
                },
            },
        },
        "targets": {
            "type": "array",
            "minItems": 1,
            "items": {**_NAME, "description": "device/backend, most wanted first: cuda:0/triton"},
        },
        "links": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["source", "target", "latency_ns", "bytes_per_ns"],
                "additionalProperties": False,
                "properties": {
                    "source": _NAME,
                    "target": _NAME,
                    "latency_ns": _WHOLE,
                    "bytes_per_ns": _POSITIVE,
                },
            },
        },
        "rates": {
            "type": "object",
            "description": "by target; a target without an entry has its typical rates",
            "additionalProperties": {
                "type": "object",
                "required": ["bytes_per_ns", "operations_per_ns", "flops_per_ns", "launch_ns"],
                "additionalProperties": False,
                "properties": {
                    "bytes_per_ns": _POSITIVE,
                    "operations_per_ns": _POSITIVE,
                    "flops_per_ns": _POSITIVE,
                    "launch_ns": _WHOLE,
                    "dtypes": {
                        "type": "object",
                        "description": "by element type (f64, i64), those of the rates that are "
                        "not as for the others; left out: in typical proportion to the others",
                        "additionalProperties": {
                            "type": "object",
                            "minProperties": 1,
                            "required": [],
                            "additionalProperties": False,
                            "properties": {
                                "bytes_per_ns": _POSITIVE,
                                "operations_per_ns": _POSITIVE,
                                "flops_per_ns": _POSITIVE,
                            },
                        },
                    },
                    "threads": {"type": "integer", "minimum": 1},
                    "strides": {
                        "type": "object",
                        "description": "how operands must lie, by kind of kernel; left out: as "
                        "is typical of the target",
                        "additionalProperties": {"enum": list(STRIDES)},
                    },
                },
            },
        },
    },
}

_Json = dict[str, Any]


def parse(text: str, where: str) -> Topology:
    """The topology that a JSON text describes. Raises `FuelPassError` with place and cure."""
    return from_json(load(text, where), where)


def dump(topology: Topology) -> str:
    """The JSON text of a topology; equal for equal topologies."""
    return json.dumps(to_json(topology), indent=2) + "\n"


def to_json(topology: Topology) -> _Json:
    """A topology as what `json` writes."""
    return {
        "name": topology.name,
        "devices": [_device_json(device) for device in topology.devices],
        "targets": [str(target) for target in topology.targets],
        "links": [
            {
                "source": link.source,
                "target": link.target,
                "latency_ns": link.latency_ns,
                "bytes_per_ns": float(link.bytes_per_ns),
            }
            for link in topology.links
        ],
        "rates": {str(rates.target): _rates_json(rates) for rates in topology.rates},
    }


def _device_json(device: Device) -> _Json:
    known = {} if device.memory_bytes is None else {"memory_bytes": device.memory_bytes}
    identity = {"hardware": device.hardware} if device.hardware else {}
    return {"name": device.name, **known, "storage": device.storage, **identity}


def _rates_json(rates: Rates) -> _Json:
    known: _Json = {} if rates.threads is None else {"threads": rates.threads}
    if rates.strides is not None:
        known["strides"] = dict(rates.strides)
    if rates.by_dtype is not None:
        known["dtypes"] = {name: _dtype_rates_json(own) for name, own in rates.by_dtype}
    return {
        "bytes_per_ns": float(rates.bytes_per_ns),
        "operations_per_ns": float(rates.operations_per_ns),
        "flops_per_ns": float(rates.flops_per_ns),
        "launch_ns": rates.launch_ns,
        **known,
    }


def _dtype_rates_json(own: DtypeRates) -> _Json:
    return {name: float(rate) for name, rate in asdict(own).items() if rate is not None}


def from_json(loaded: object, where: str) -> Topology:
    """The topology that loaded JSON describes."""
    whole = Fields(loaded, where, SCHEMA)
    targets = whole.items("targets", target)
    topology = Topology(
        whole.text("name"),
        whole.items("devices", _device),
        targets,
        whole.items("links", _link),
        whole.named("rates", _rates),
    )
    _check_names(topology, where)
    return topology


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


def _device(value: object, where: str) -> Device:
    fields = Fields(value, where, SCHEMA["properties"]["devices"]["items"])
    name = device_name(fields.text("name"), where)
    memory = _from_one(fields, "memory_bytes")
    storage, hardware = fields.text("storage", name), fields.text("hardware", "")
    return Device(name, memory, storage, hardware)


def _from_one(fields: Fields, name: str) -> int | None:
    if name not in fields.given:
        return None
    count = fields.whole(name)
    if count == 0:
        raise FuelPassError(
            f"{fields.where}.{name} must be 1 or more, got 0; leave it out if it is not known"
        )
    return count


def _link(value: object, where: str) -> Link:
    fields = Fields(value, where, SCHEMA["properties"]["links"]["items"])
    return Link(
        fields.text("source"),
        fields.text("target"),
        fields.whole("latency_ns"),
        fields.positive("bytes_per_ns"),
    )


def _rates(name: str, value: object, where: str) -> Rates:
    fields = Fields(value, where, SCHEMA["properties"]["rates"]["additionalProperties"])
    return Rates(
        target(name, where),
        fields.positive("bytes_per_ns"),
        fields.positive("operations_per_ns"),
        fields.positive("flops_per_ns"),
        fields.whole("launch_ns"),
        fields.named("dtypes", _dtype_rates) if "dtypes" in fields.given else None,
        _from_one(fields, "threads"),
        fields.named("strides", _strides) if "strides" in fields.given else None,
    )


def _strides(kind: str, value: object, where: str) -> tuple[str, Strides]:
    if kind not in kinds.names():
        known = ", ".join(kinds.names())
        raise FuelPassError(f"{where}: {kind!r} is no kind of kernel; there are {known}")
    for strides in STRIDES:
        if value == strides:
            return kind, strides
    raise FuelPassError(f"{where} must be {', '.join(STRIDES)}, got {value!r}")


def _dtype_rates(name: str, value: object, where: str) -> tuple[str, DtypeRates]:
    if name not in dtypes.BY_NAME:
        raise FuelPassError(f"{where}: {name!r} is no dtype; there are {', '.join(dtypes.BY_NAME)}")
    rates = SCHEMA["properties"]["rates"]["additionalProperties"]["properties"]
    fields = Fields(value, where, rates["dtypes"]["additionalProperties"])
    if not fields.given:
        raise FuelPassError(f"{where} says nothing of {name}; leave it out")
    return name, DtypeRates(**{rate: fields.positive(rate) for rate in fields.given})


def to_attribute(topology: Topology) -> DictionaryAttr:
    """Returns the fields that `#fuel.topology` does not have in its first two parameters."""
    whole = to_json(topology)
    attribute = _attribute({name: whole[name] for name in ("devices", "links", "rates")})
    assert isinstance(attribute, DictionaryAttr)
    return attribute


def from_attribute(
    name: str, targets: tuple[TargetAttr, ...], description: DictionaryAttr
) -> Topology:
    """The inverse of `to_attribute`. Raises `FuelPassError` as `parse` does."""
    where = f"#fuel.topology<{name!r}>"
    given = cast(_Json, _plain(description, where))
    return from_json(
        {"links": [], **given, "name": name, "targets": list(map(str, targets))}, where
    )


def _attribute(value: object) -> Attribute:
    if isinstance(value, dict):
        return DictionaryAttr({k: _attribute(v) for k, v in cast(_Json, value).items()})
    if isinstance(value, list):
        return ArrayAttr([_attribute(item) for item in cast("list[object]", value)])
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    return StringAttr(str(value))


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
