# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads and writes files of measurements; the classes are the schema, which `schema` gives."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fuel_dialect.errors import FuelPassError
from fuel_passes.planning.measurements import UNTRACKED, MeasurementKey, Measurements
from fuel_passes.planning.topology_schema import Count, Name, check_dtype, target
from fuel_passes.strict_json import decode

ShapeClass = Annotated[
    tuple[Annotated[int, Meta(ge=0, le=64)], ...],
    Meta(description="bits of m, n, k of a product, else of numbers of elements"),
]
DTypeName = Annotated[str, Meta(description="an element type, such as f32")]


class MeasurementFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Represents a measured time in JSON."""

    ops: Annotated[tuple[Name, ...], Meta(description="mnemonics of the kernel, in order")]
    dtypes: Annotated[tuple[DTypeName, ...], Meta(description="of operands, then of results")]
    shape_class: ShapeClass
    target: Annotated[str, Meta(description="device/backend: cuda:0/triton")]
    ns: Annotated[Count, Meta(description="one launch")]
    revision: Annotated[str, Meta(description="of the code that makes the kernel")] = UNTRACKED
    hardware: Annotated[str, Meta(description="that of the topology's device")] = UNTRACKED


class MeasurementsFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Represents measured times in JSON."""

    measurements: tuple[MeasurementFields, ...]


def schema() -> dict[str, Any]:
    """Returns the JSON schema of a file of measurements."""
    return msgspec.json.schema(MeasurementsFields)


def read(file: str) -> Measurements:
    """Returns the measurements in a file. Raises `FuelPassError` if it cannot be read as such."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FuelPassError(f"measurements file {file} cannot be read: {error}") from error
    return parse(text, file)


def parse(text: str, where: str) -> Measurements:
    """Returns the measurements of a JSON text. Raises `FuelPassError` with place and cure."""
    known: dict[MeasurementKey, int] = {}
    for index, given in enumerate(decode(text, MeasurementsFields, where).measurements):
        key = _key_of(given, f"{where}.measurements[{index}]")
        if key in known:
            raise FuelPassError(f"{where}: {', '.join(key.ops)} on {key.target} is listed twice")
        known[key] = given.ns
    return Measurements(known)


def _key_of(given: MeasurementFields, where: str) -> MeasurementKey:
    for index, name in enumerate(given.dtypes):
        check_dtype(name, f"{where}.dtypes[{index}]")
    return MeasurementKey(
        given.ops,
        given.dtypes,
        given.shape_class,
        str(target(given.target, f"{where}.target")),
        given.revision,
        given.hardware,
    )


def dump(measurements: Measurements) -> str:
    """Returns the JSON text of measurements; `parse` is its inverse."""
    listed = [{**asdict(key), "ns": time} for key, time in measurements.known.items()]
    return json.dumps({"measurements": listed}, indent=2) + "\n"
