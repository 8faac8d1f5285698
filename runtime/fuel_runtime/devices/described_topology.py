# SPDX-License-Identifier: MIT OR Apache-2.0
"""Describes the devices of a session as the topology that plans are made for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

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
from fuel_dialect.targets.registry import default_backend
from fuel_passes.memory.sizes import least_known
from fuel_runtime.devices.interface import Device
from fuel_runtime.devices.present import Devices

FITTING = ("cpu", "cpu+vulkan")
"""The presets that say nothing of a card in particular."""


def topology_for(devices: Devices) -> Topology:
    """
    A preset that fits, else the targets with typical rates, each device in a slot beside the host.

    Cards that fuel knows have their rates, and devices that tell it their memory.
    """
    targets = devices.targets
    for name in FITTING:
        if PRESETS[name].targets == targets:
            return _described(PRESETS[name], devices)
    labels = [name for device in devices.present for name in _labels(device)]
    assumed = machine.assumed("+".join(labels), targets)
    memory = {d.name.label: d.total_bytes() for d in devices.present}
    sized = tuple(
        replace(device, memory_bytes=memory.get(device.name)) for device in assumed.devices
    )
    rates = tuple(rate for device in devices.present for rate in _rates(device))
    links = (*assumed.links, *_between(devices))
    return _described(replace(assumed, devices=sized, rates=rates, links=links), devices)


def _described(topology: Topology, devices: Devices) -> Topology:
    """Returns a topology whose devices have the bounds on buffers that they themselves state."""
    limits = {device.name.label: device.limits for device in devices.present}
    described = tuple(
        replace(each, largest_buffer_bytes=own.largest_buffer_bytes, buffers=own.buffers)
        if (own := limits.get(each.name)) is not None
        else each
        for each in topology.devices
    )
    return topology if described == topology.devices else replace(topology, devices=described)


def bounded(topology: Topology, devices: Devices) -> Topology:
    """Returns a topology whose devices have no more memory than the bounds that were set."""
    caps = {device.name.label: device.cap for device in devices.present}
    if not any(caps.values()):
        return topology
    described = tuple(
        replace(device, memory_bytes=least_known(device.memory_bytes, caps.get(device.name)))
        for device in topology.devices
    )
    return replace(topology, devices=described)


def _between(devices: Devices) -> Iterator[Link]:
    """The direct ways between cards, as fast as those to the host at least."""
    for one, other in combinations(devices.takers, 2):
        names = one.name.label, other.name.label
        yield from both_ways(*names, PCIE_LATENCY_NS, PCIE_BYTES_PER_NS)


def _labels(device: Device) -> Iterator[str]:
    """Yields the name of a device for its default target, and the other targets whole."""
    default = default_backend(device.name.kind.data)
    for target in device.targets:
        yield device.name.label if target.backend.data == default else str(target)


def _rates(device: Device) -> Iterator[Rates]:
    """Yields the rates, for each target, of the card that a device says it is, if fuel knows it."""
    for part, rates in CARDS.items():
        if part in device.identity:
            yield rates(device.targets[0])
            return
