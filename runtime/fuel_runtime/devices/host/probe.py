# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds the host: its memory and cores, and measures what NumPy does on it in a nanosecond."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuel_dialect.attributes import HOST, TargetAttr
from fuel_dialect.targets.machine import Device
from fuel_lowering.cores import usable_cores
from fuel_runtime.call.host_memory import physical_bytes
from fuel_runtime.probing import Probing, Seen, typical_rates


def find(probing: Probing) -> Iterator[Seen]:
    """Yields the host."""
    memory = physical_bytes()
    device, target = Device(HOST, memory), TargetAttr.of(HOST, "numpy")
    if probing.measure is not None:
        yield Seen(device, target, probing.measure(target, usable_cores()))
        return
    rates = replace(typical_rates(target), threads=usable_cores())
    yield Seen(device, target, rates, f"{target}: the typical rates of a core")
