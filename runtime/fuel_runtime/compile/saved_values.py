# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Turns what was generated for a program into JSON and arrays, and back.

A frozen dataclass of `KINDS` is an object with its name and fields; sequences are lists, and come
back as tuples. Arrays are kept beside the JSON, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from fuel_dialect import dtypes
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.tensors import AnyTensor, tensor
from fuel_lowering.numpy.run import NumpyRun
from fuel_lowering.runs.launches import Buffer, DeviceKernel, DeviceRun, Launch, Parameter
from fuel_lowering.runs.leaves import WeightUse
from fuel_passes.finishing.overlap_record import Overlap
from fuel_passes.memory.record import DeviceMemory
from fuel_runtime.call import report
from fuel_runtime.call.route import Call, Route, Transfer
from fuel_runtime.call.signature import Member, Port, Signature

Array = np.ndarray[Any, np.dtype[Any]]

KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        NumpyRun,
        DeviceRun,
        DeviceKernel,
        Parameter,
        Buffer,
        Launch,
        WeightUse,
        Port,
        Member,
        Signature,
        Call,
        Transfer,
        Route,
        report.Report,
        report.DeviceReport,
        report.RunReport,
        report.TransferReport,
        report.StateReport,
        report.PreparedReport,
        report.BranchReport,
        report.ArmReport,
        DeviceMemory,
        Overlap,
    )
}
"""The classes of values that are saved; a run of another class is lowered again."""

RUNS = (NumpyRun, DeviceRun)
KIND = ""
"""The field of an object that names its kind: no field of a dataclass has this name."""


def encode(value: object, arrays: dict[str, Array]) -> Any:
    """Returns a value as JSON has it; adds its arrays. Raises `TypeError` for another kind."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {KIND: "array", "name": name}
    if isinstance(value, tuple | list):
        return [encode(each, arrays) for each in value]
    if isinstance(value, Mapping):
        return {KIND: "map", "items": [encode(pair, arrays) for pair in value.items()]}
    if isinstance(value, frozenset):
        return {KIND: "set", "items": [encode(each, arrays) for each in sorted(value)]}
    if isinstance(value, TensorType):
        return {KIND: "tensor", "type": [dtypes.of_type(value).name, list(value.get_shape())]}
    if isinstance(value, DeviceAttr):
        return {KIND: "device", "name": value.label}
    if is_dataclass(value) and type(value) in KINDS.values():
        own = {each.name: encode(getattr(value, each.name), arrays) for each in fields(value)}
        return {KIND: type(value).__name__, **own}
    raise TypeError(f"{type(value).__name__} cannot be saved")


def decode(value: Any, arrays: Mapping[str, Array]) -> Any:
    """Returns the value of some JSON. Raises `LookupError`, `TypeError` or `ValueError`."""
    if isinstance(value, list):
        return tuple(decode(each, arrays) for each in value)
    if not isinstance(value, dict):
        return value
    kind = value[KIND]
    if kind == "array":
        return arrays[value["name"]]
    if kind == "map":
        return dict(decode(value["items"], arrays))
    if kind == "set":
        return frozenset(decode(value["items"], arrays))
    if kind == "tensor":
        dtype, shape = value["type"]
        return _tensor(dtype, tuple(shape))
    if kind == "device":
        return _device(value["name"])
    own = {name: decode(each, arrays) for name, each in value.items() if name != KIND}
    return KINDS[kind](**own)


@cache
def _device(name: str) -> DeviceAttr:
    return DeviceAttr.of(name)


@lru_cache(maxsize=1024)
def _tensor(dtype: str, shape: tuple[int, ...]) -> AnyTensor:
    """Returns a type, one object for equal ones: a program has few, and they are slow to make."""
    return tensor(shape, dtype)
