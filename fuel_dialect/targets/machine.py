# SPDX-License-Identifier: MIT OR Apache-2.0
"""
A machine as data: its devices, what serves them, and what lies between them.

Nothing here is probed and nothing here decides; `fuel_passes.planning.topology` reads, checks and
prices a `Topology`, and `presets` holds those that have a name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from fuel_dialect.attributes import HOST, TargetAttr
from fuel_dialect.targets.description import ByDtype, Strides, TargetDescription


@dataclass(frozen=True)
class Device:
    """
    One device of a machine.

    Devices with the same `storage` share their memory: what one has written the others read, and
    a transfer between them is free.
    """

    name: str
    """As a person types it: `cpu`, `cuda:0`."""
    memory_bytes: int | None = None
    """Its capacity; None where nobody knows it."""
    storage: str = ""
    """The name of its memory; its own name where none is given."""
    hardware: str = ""
    """The chip, its driver and its clock: the identity under which kernels are measured."""
    largest_buffer_bytes: int | None = None
    """The most bytes of a buffer that a kernel is given; None for what is typical of a target."""
    buffers: int | None = None
    """The most buffers that a launch is given; None for what is typical of a target."""

    def __post_init__(self) -> None:
        if not self.storage:
            object.__setattr__(self, "storage", self.name)


@dataclass(frozen=True)
class Link:
    """A direct way for bytes from one device to another, in that direction only."""

    source: str
    target: str
    latency_ns: int
    bytes_per_ns: float


@dataclass(frozen=True)
class Rates:
    """Represents the rates of one target of a machine, instead of those that are typical of it."""

    target: TargetAttr
    bytes_per_ns: float
    operations_per_ns: float
    flops_per_ns: float
    launch_ns: int
    by_dtype: ByDtype | None = None
    """Element types with rates of their own; None for as many times slower as is typical."""
    threads: int | None = None
    """The threads that share a kernel; None for as many as is typical."""
    strides: tuple[tuple[str, Strides], ...] | None = None
    """The layouts of operands, by kind of kernel; None for what is typical."""

    def of(self, typical: TargetDescription) -> TargetDescription:
        """A description with these rates."""
        return replace(
            typical,
            bytes_per_ns=self.bytes_per_ns,
            operations_per_ns=self.operations_per_ns,
            flops_per_ns=self.flops_per_ns,
            launch_ns=self.launch_ns,
            by_dtype=self._in_proportion(typical) if self.by_dtype is None else self.by_dtype,
            threads=self.threads or typical.threads,
            strides=typical.strides if self.strides is None else self.strides,
        )

    def _in_proportion(self, typical: TargetDescription) -> ByDtype:
        """The rates of element types, in the proportions that a description has."""
        factors = (
            self.bytes_per_ns / typical.bytes_per_ns,
            self.operations_per_ns / typical.operations_per_ns,
            self.flops_per_ns / typical.flops_per_ns,
        )
        return tuple((name, own.times(*factors)) for name, own in typical.by_dtype)


@dataclass(frozen=True)
class Topology:
    """Represents what a plan may use: devices, targets (most wanted first), links, rates."""

    name: str
    devices: tuple[Device, ...]
    targets: tuple[TargetAttr, ...]
    links: tuple[Link, ...] = ()
    rates: tuple[Rates, ...] = ()

    def device(self, name: str) -> Device | None:
        """The device of that name; None if the machine has none."""
        return next((device for device in self.devices if device.name == name), None)

    def adapt(self, target: TargetAttr, typical: TargetDescription) -> TargetDescription:
        """A target's description with the rates that it has on this machine."""
        known = self._adapted.get(target)
        if known is None or known[0] is not typical:
            rates = next((rates for rates in self.rates if rates.target == target), None)
            known = self._adapted[target] = (
                typical,
                self._bounded(target, rates.of(typical) if rates else typical),
            )
        return known[1]

    def _bounded(self, target: TargetAttr, description: TargetDescription) -> TargetDescription:
        """A description whose sources keep to the bounds of the device."""
        device = self.device(target.device.label)
        if device is None or (device.largest_buffer_bytes, device.buffers) == (None, None):
            return description
        return description.within(device.largest_buffer_bytes, device.buffers)

    @cached_property
    def _adapted(self) -> dict[TargetAttr, tuple[TargetDescription, TargetDescription]]:
        return {}


def both_ways(source: str, target: str, latency_ns: int, bytes_per_ns: float) -> tuple[Link, Link]:
    """The links of a connection that is as fast in either direction."""
    return (
        Link(source, target, latency_ns, bytes_per_ns),
        Link(target, source, latency_ns, bytes_per_ns),
    )


PCIE_LATENCY_NS = 10_000
PCIE_BYTES_PER_NS = 25.0
"""Of a transfer between the host and a device in a slot, where nobody knows better."""


def assumed(name: str, targets: tuple[TargetAttr, ...]) -> Topology:
    """A machine of which only the targets are known: each device in a slot beside the host."""
    names = dict.fromkeys((HOST, *(target.device.label for target in targets)))
    links = (
        link
        for device in names
        if device != HOST
        for link in both_ways(HOST, device, PCIE_LATENCY_NS, PCIE_BYTES_PER_NS)
    )
    return Topology(name, tuple(map(Device, names)), targets, tuple(links))
