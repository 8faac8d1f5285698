# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tunes kernels for a kind of device: a matter of speed alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeviceType = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class Tuning:
    """
    Choices for one kind of device.

    On a CPU an invocation is a lane of a vector register, and shared memory is ordinary memory; on
    a GPU a workgroup shares fast memory, and many invocations hide latency.
    """

    device_type: DeviceType
    row_elements: int
    """A row of more elements is shared by a workgroup."""
    per_row: int
    """The most invocations that share a row, where the row alone does not ask for more."""
    shares_tiles: bool
    """True if matmuls read tiles through shared memory."""
    scan_lanes: int
    """Points of a scan that an invocation steps through side by side."""
    groups: int
    """Fewer workgroups leave cores idle: several share a row then, if it is long enough."""
    share: int
    """The least elements of a row that are worth a workgroup of their own."""


CPU = Tuning(
    "cpu",
    row_elements=2048,
    per_row=16,
    shares_tiles=False,
    scan_lanes=4,
    groups=16,
    share=32_768,
)
GPU = Tuning(
    "gpu",
    row_elements=64,
    per_row=256,
    shares_tiles=True,
    scan_lanes=1,
    groups=256,
    share=8_192,
)

TUNINGS: dict[DeviceType, Tuning] = {"cpu": CPU, "gpu": GPU}

MOST_TRIPS = 60_000
"""Turns of all loops of an invocation together: lavapipe stops after 65,535 and says nothing."""

MOST_GROUPS = 65_535
"""Workgroups along one axis that every device takes."""

MOST_INVOCATIONS = 1024
"""Invocations of a workgroup on CPU devices; a GPU may allow 256 only."""
