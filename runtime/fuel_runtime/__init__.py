# SPDX-License-Identifier: MIT OR Apache-2.0
"""From code to results: sessions, executables, devices and reports."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuel_runtime.array_files import load_arrays, save_arrays
    from fuel_runtime.call.dispatch import Dispatches
    from fuel_runtime.call.profile import Profile
    from fuel_runtime.call.report import Report
    from fuel_runtime.call.state import State
    from fuel_runtime.compile.executable import Executable
    from fuel_runtime.compile.session import Session
    from fuel_runtime.compile.tracing import Trace
    from fuel_runtime.devices.arrays import DeviceArray
    from fuel_runtime.devices.opening import open_devices

__all__ = [
    "DeviceArray",
    "Dispatches",
    "Executable",
    "Profile",
    "Report",
    "Session",
    "State",
    "Trace",
    "load_arrays",
    "open_devices",
    "save_arrays",
]

_HOME = {
    "DeviceArray": "fuel_runtime.devices.arrays",
    "Dispatches": "fuel_runtime.call.dispatch",
    "Executable": "fuel_runtime.compile.executable",
    "Profile": "fuel_runtime.call.profile",
    "Report": "fuel_runtime.call.report",
    "Session": "fuel_runtime.compile.session",
    "State": "fuel_runtime.call.state",
    "Trace": "fuel_runtime.compile.tracing",
    "load_arrays": "fuel_runtime.array_files",
    "open_devices": "fuel_runtime.devices.opening",
    "save_arrays": "fuel_runtime.array_files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
