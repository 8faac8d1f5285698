# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Looks up times of kernels on a machine, by a key that planning and running agree on.

A measurement replaces the price of a model. What nobody measured is None, never zero. `SCHEMA` is
the JSON schema of a file of measurements.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.errors import FuelPassError
from fuel_dialect.kinds import kind_named
from fuel_dialect.ops.control import KernelOp, ScanOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.planning.json_fields import Fields, load, target

UNTRACKED = ""
"""The revision of kernels whose code nobody tells apart, and the hardware that nobody named."""


@dataclass(frozen=True)
class MeasurementKey:
    """Represents all that has to be the same for a measured time to be of use."""

    ops: tuple[str, ...]
    """Mnemonics, in order, a scan before what it repeats."""
    dtypes: tuple[str, ...]
    """Of the kernel's operands, then of its results."""
    shape_class: tuple[int, ...]
    target: str
    """`cpu/numpy`"""
    revision: str = UNTRACKED
    """Of the code that makes the kernel."""
    hardware: str = UNTRACKED
    """The chip, its driver and its clock."""


@runtime_checkable
class MeasurementSource(Protocol):
    """Gives measured times."""

    def measured_ns(self, key: MeasurementKey) -> int | None:
        """Nanoseconds of one launch; None where nothing is known."""
        ...


@dataclass(frozen=True)
class Measurements:
    """Measured times in a table."""

    known: Mapping[MeasurementKey, int]

    def measured_ns(self, key: MeasurementKey) -> int | None:
        return self.known.get(key)


def key_of(
    kernel: KernelOp, target: TargetAttr, revision: str = UNTRACKED, hardware: str = UNTRACKED
) -> MeasurementKey:
    """The key of a kernel on a target. It takes no notice of values, of names or of the program."""
    work = [
        op for op in kernel.body.walk() if not (op.has_trait(IsTerminator) or op.has_trait(Leaf))
    ]
    values = (*kernel.body.block.args, *kernel.outputs)
    return MeasurementKey(
        tuple(map(_name, work)),
        tuple(dtypes.of_type(tensor_type(value).element_type).name for value in values),
        shape_class(kind_named(kernel.kind.data).extents_of(kernel)),
        str(target),
        revision,
        hardware,
    )


def _name(op: Operation) -> str:
    """The mnemonic, with what no shape need show: the length of a scan, a product's rounding."""
    name = op.name.removeprefix("fuel.")
    if isinstance(op, MatmulOp) and op.allow_tf32 is not None:
        return f"{name}[tf32]"
    return f"{name}[{op.steps}]" if isinstance(op, ScanOp) else name


def sizes(kernel: KernelOp) -> Sequence[int]:
    """Returns the number of elements of each operand and result."""
    values = (*kernel.body.block.args, *kernel.outputs)
    return [prod(tensor_type(value).get_shape()) for value in values]


def product_extents(kernel: KernelOp) -> Sequence[int]:
    """Returns `m`, `n` and `k` of the product in a kernel; sizes where there is none."""
    for op in kernel.body.block.ops:
        if isinstance(op, MatmulOp):
            (*batch, m, n), k = op.result.type.get_shape(), tensor_type(op.operands[0])
            return prod(batch) * m, n, k.get_shape()[-1]
    return sizes(kernel)


def shape_class(extents: Iterable[int]) -> tuple[int, ...]:
    """
    The class of some numbers of elements: 0 for none, else 1 more than the power of two.

    3 is in class 2, as 2 is; 4 to 7 are in class 3.
    """
    return tuple(extent.bit_length() for extent in extents)


# Files.

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_WHOLE = {"type": "integer", "minimum": 0}

SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "fuel measurements",
    "type": "object",
    "required": ["measurements"],
    "additionalProperties": False,
    "properties": {
        "measurements": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ops", "dtypes", "shape_class", "target", "ns"],
                "additionalProperties": False,
                "properties": {
                    "ops": {**_TEXTS, "description": "mnemonics of the kernel, in order"},
                    "dtypes": {**_TEXTS, "description": "of its operands, then of its results"},
                    "shape_class": {
                        "type": "array",
                        "items": _WHOLE,
                        "description": "bits of m, n, k of a product, else of numbers of elements",
                    },
                    "target": {**_TEXT, "description": "device/backend: cuda:0/triton"},
                    "revision": {**_TEXT, "description": "of the code that makes the kernel"},
                    "hardware": {**_TEXT, "description": "the `hardware` of the topology's device"},
                    "ns": {**_WHOLE, "description": "one launch"},
                },
            },
        },
    },
}


def read(file: str) -> Measurements:
    """The measurements in a JSON file. Raises `FuelPassError` if it cannot be read or has none."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FuelPassError(f"measurements file {file} cannot be read: {error}") from error
    return parse(text, file)


def parse(text: str, where: str) -> Measurements:
    """The measurements that a JSON text holds. Raises `FuelPassError` with place and cure."""
    known: dict[MeasurementKey, int] = {}
    for key, time in Fields(load(text, where), where, SCHEMA).items("measurements", _measurement):
        if key in known:
            raise FuelPassError(f"{where}: {', '.join(key.ops)} on {key.target} is listed twice")
        known[key] = time
    return Measurements(known)


def dump(measurements: Measurements) -> str:
    """The JSON text of measurements; `parse` is its inverse."""
    listed = [{**asdict(key), "ns": time} for key, time in measurements.known.items()]
    return json.dumps({"measurements": listed}, indent=2) + "\n"


def _measurement(value: object, where: str) -> tuple[MeasurementKey, int]:
    fields = Fields(value, where, SCHEMA["properties"]["measurements"]["items"])
    key = MeasurementKey(
        fields.items("ops", _word),
        fields.items("dtypes", _dtype),
        fields.items("shape_class", _class),
        str(target(fields.text("target"), f"{where}.target")),
        _optional(fields, "revision"),
        _optional(fields, "hardware"),
    )
    return key, fields.whole("ns")


def _optional(fields: Fields, name: str) -> str:
    return UNTRACKED if fields.given.get(name, UNTRACKED) == UNTRACKED else fields.text(name)


def _word(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise FuelPassError(f"{where} must be a text, got {value!r}")
    return value


def _dtype(value: object, where: str) -> str:
    if not isinstance(value, str) or value not in dtypes.BY_NAME:
        raise FuelPassError(
            f"{where}: {value!r} is no dtype; there are {', '.join(dtypes.BY_NAME)}"
        )
    return value


def _class(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 64:
        raise FuelPassError(
            f"{where} must be a shape class, a whole number from 0 to 64, got {value!r}"
        )
    return value
