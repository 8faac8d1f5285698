# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes topologies as JSON and as attributes, which `topology_schema` reads."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, cast

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

from fuel_dialect.targets.description import ByDtype
from fuel_dialect.targets.machine import Rates, Topology

_Json = dict[str, Any]


def dump(topology: Topology) -> str:
    """Returns the JSON text of a topology; equal for equal topologies."""
    return json.dumps(to_json(topology), indent=2) + "\n"


def to_json(topology: Topology) -> _Json:
    """Returns a topology as `json` writes it."""
    return {
        "name": topology.name,
        "devices": [_known(asdict(device)) for device in topology.devices],
        "targets": [str(target) for target in topology.targets],
        "links": [{**asdict(k), "bytes_per_ns": float(k.bytes_per_ns)} for k in topology.links],
        "rates": {str(rates.target): _rates_json(rates) for rates in topology.rates},
    }


def _known(fields: _Json) -> _Json:
    """Returns fields without those that say nothing."""
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _rates_json(rates: Rates) -> _Json:
    optional: _Json = {
        "threads": rates.threads,
        "strides": None if rates.strides is None else dict(rates.strides),
        "dtypes": None if rates.by_dtype is None else _by_dtype_json(rates.by_dtype),
    }
    return {
        "bytes_per_ns": float(rates.bytes_per_ns),
        "operations_per_ns": float(rates.operations_per_ns),
        "flops_per_ns": float(rates.flops_per_ns),
        "launch_ns": rates.launch_ns,
        **_known(optional),
    }


def _by_dtype_json(by_dtype: ByDtype) -> _Json:
    return {
        name: {rate: float(value) for rate, value in _known(asdict(own)).items()}
        for name, own in by_dtype
    }


def to_attribute(topology: Topology) -> DictionaryAttr:
    """Returns the fields that `#fuel.topology` does not have in its first two parameters."""
    whole = to_json(topology)
    attribute = _attribute({name: whole[name] for name in ("devices", "links", "rates")})
    assert isinstance(attribute, DictionaryAttr)
    return attribute


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
