# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a plan is made for: the devices of a session as a topology."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from fuel_dialect.attributes import HOST
from fuel_dialect.targets import machine
from fuel_dialect.targets.machine import (
    PCIE_BYTES_PER_NS,
    PCIE_LATENCY_NS,
    Link,
    Rates,
    Topology,
    both_ways,
)
from fuel_dialect.targets.presets import CARDS, PRESETS
from fuel_runtime.devices import Device, Devices

FITTING = ("cpu", "cpu+vulkan")
"""The presets that say nothing of a card in particular."""


def topology_for(devices: Devices) -> Topology:
    """
    A preset that fits, else the targets with typical rates, each device in a slot beside the host.

    Cards that fuel knows have their rates, and devices that tell it their memory.
    """
    targets = tuple(device.target for device in devices.present)
    for name in FITTING:
        if PRESETS[name].targets == targets:
            return PRESETS[name]
    labels = [target.device.label for target in targets]
    assumed = machine.assumed("+".join(labels), targets)
    memory = {d.target.device.label: d.total_bytes() for d in devices.present}
    described = tuple(
        replace(device, memory_bytes=memory.get(device.name)) for device in assumed.devices
    )
    rates = tuple(r for device in devices.present if (r := _rates(device)) is not None)
    links = (*assumed.links, *_between(devices))
    return replace(assumed, devices=described, rates=rates, links=links)


def _between(devices: Devices) -> Iterator[Link]:
    """The direct ways between cards, as fast as those to the host at least."""
    for one, other in combinations(devices.takers, 2):
        names = one.target.device.label, other.target.device.label
        yield from both_ways(*names, PCIE_LATENCY_NS, PCIE_BYTES_PER_NS)


def is_host_alone(devices: Devices) -> bool:
    """Whether there is no device but the host."""
    return all(device.target.device.kind.data == HOST for device in devices.present)


def _rates(device: Device) -> Rates | None:
    """The rates of the card that a device says it is; None if fuel does not know it."""
    for part, rates in CARDS.items():
        if part in device.identity:
            return rates(device.target)
    return None
