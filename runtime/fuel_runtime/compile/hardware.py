# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says what devices have to be for a saved program to run on them."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from fuel_dialect.attributes import HOST

if TYPE_CHECKING:
    from fuel_runtime.devices.interface import Device


def hardware_of(device: Device) -> str:
    """Returns what has to be the same for generated code to run on a device."""
    return platform.machine() if device.name.label == HOST else device.identity


def backends_of(device: Device) -> list[str]:
    """Returns the names of the targets of a device."""
    return [target.backend.data for target in device.targets]
