# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says what a probe of a kind of device is given, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.targets.machine import Device, Rates
from fuel_dialect.targets.registry import description_of

Tool = Callable[[Sequence[str]], str]
"""Runs a command; returns what it prints, nothing if it is not installed or fails."""

Measure = Callable[[TargetAttr, int], Rates]
"""Returns the rates of a target of the host, for so many threads."""


@dataclass(frozen=True)
class Probing:
    """Holds the means of a probe."""

    tool: Tool
    measure: Measure | None
    """None where nothing is to be measured."""


@dataclass(frozen=True)
class Seen:
    """A device that a probe found, and a target of it."""

    device: Device
    target: TargetAttr
    rates: Rates | None = None
    """None for the typical ones."""
    assumed: str = ""
    """The assumptions, in a sentence that begins with the target; empty if there are none."""


def typical_rates(target: TargetAttr) -> Rates:
    """Returns the rates that the description of a target has."""
    known = description_of(target.backend.data)
    assert known is not None
    return Rates(
        target,
        known.bytes_per_ns,
        known.operations_per_ns,
        known.flops_per_ns,
        known.launch_ns,
        known.by_dtype,
    )
