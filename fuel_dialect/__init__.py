# SPDX-License-Identifier: MIT OR Apache-2.0
"""
fuel: a multi-path tensor dialect on xDSL.

The names below are imported when they are first used, so that the plugin costs an `xdsl-opt`
without fuel programs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuel_dialect.builder.graph import Graph
    from fuel_dialect.builder.handle import rope_tables
    from fuel_dialect.builder.pins import device
    from fuel_dialect.builder.tensor import Tensor, concat, matmul, maximum, minimum, where
    from fuel_dialect.errors import (
        ArgumentError,
        ArmsDiffer,
        ArrayFileError,
        DecisionError,
        DeviceFailure,
        DeviceTimeout,
        DeviceUnavailable,
        DTypeError,
        FuelError,
        FuelPassError,
        GraphError,
        IndexOutOfRange,
        InvalidBranch,
        InvalidScan,
        LoweringError,
        NoBackendForOp,
        OutOfMemory,
        PlaceError,
        PluginError,
        ProgramError,
        SaveFileError,
        SettingError,
        ShapeError,
        StateError,
        TopologyChanged,
        TraceError,
        UnknownDevice,
        UnsupportedDTypeForOp,
        WeightError,
    )

_PLACES = {
    "fuel_dialect.builder.graph": ("Graph",),
    "fuel_dialect.builder.pins": ("device",),
    "fuel_dialect.builder.tensor": ("Tensor", "concat", "matmul", "maximum", "minimum", "where"),
    "fuel_dialect.builder.handle": ("rope_tables",),
    "fuel_dialect.errors": (
        "ArgumentError",
        "ArmsDiffer",
        "ArrayFileError",
        "DTypeError",
        "DecisionError",
        "DeviceFailure",
        "DeviceTimeout",
        "DeviceUnavailable",
        "FuelError",
        "FuelPassError",
        "GraphError",
        "IndexOutOfRange",
        "InvalidBranch",
        "InvalidScan",
        "LoweringError",
        "NoBackendForOp",
        "OutOfMemory",
        "PlaceError",
        "PluginError",
        "ProgramError",
        "SaveFileError",
        "SettingError",
        "ShapeError",
        "StateError",
        "TopologyChanged",
        "TraceError",
        "UnknownDevice",
        "UnsupportedDTypeForOp",
        "WeightError",
    ),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "ArgumentError",
    "ArmsDiffer",
    "ArrayFileError",
    "DTypeError",
    "DecisionError",
    "DeviceFailure",
    "DeviceTimeout",
    "DeviceUnavailable",
    "FuelError",
    "FuelPassError",
    "Graph",
    "GraphError",
    "IndexOutOfRange",
    "InvalidBranch",
    "InvalidScan",
    "LoweringError",
    "NoBackendForOp",
    "OutOfMemory",
    "PlaceError",
    "PluginError",
    "ProgramError",
    "SaveFileError",
    "SettingError",
    "ShapeError",
    "StateError",
    "Tensor",
    "TopologyChanged",
    "TraceError",
    "UnknownDevice",
    "UnsupportedDTypeForOp",
    "WeightError",
    "concat",
    "device",
    "matmul",
    "maximum",
    "minimum",
    "rope_tables",
    "where",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'fuel_dialect' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
