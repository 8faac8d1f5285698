# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens the devices that a session names: the descriptions of targets say what drives each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any

from fuel_dialect.attributes import HOST, DeviceAttr, TargetAttr
from fuel_dialect.errors import ArgumentError, DeviceUnavailable, UnknownDevice
from fuel_dialect.plugins import named
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.targets.registry import Registry, kinds, registered, serving
from fuel_runtime.devices.host.device import Host
from fuel_runtime.devices.interface import Device
from fuel_runtime.devices.present import HOST_DEVICE, Absent, Devices

if TYPE_CHECKING:
    from fuel_runtime.devices.buffer_device import BufferDevice
    from fuel_runtime.devices.emulated.clock import Clocks
    from fuel_runtime.devices.interface import Driver, Lower

AUTO = "auto"
"""The name that stands for every device of this machine."""

Emulate = str | Mapping[str, int | None] | None
"""The devices to emulate: names with commas, or the capacity in bytes of each (None for any)."""

Wanted = Mapping[DeviceAttr, Sequence[TargetDescription]]
"""The devices that are asked for, and the targets that each is to have, the default first."""


def open_devices(
    names: str,
    threads: int,
    emulate: Emulate = None,
    registry: Registry | None = None,
    clocks: Clocks | None = None,
) -> Devices:
    """
    Opens the devices of a list with commas such as `cpu,cuda:0`, or of "auto": whatever is there.

    A device has every target that joins unasked; `cpu/loops` names one target of it, and adds it to
    those of `cpu` where both are named. `threads` is how many threads the CPU may use. "auto" takes
    the first device of each kind, leaves out what would run on the cores of the host, and says why
    anything is absent. An emulated device belongs to these devices alone; any other is opened once
    in a process. With `clocks` the host and the emulated devices go by virtual time; then every
    device but the host has to be emulated.

    Raises `UnknownDevice` for a name that fuel cannot read, `DeviceUnavailable` for a device that
    was asked for by name and is absent, and `ArgumentError` for an emulation that is not to be had.
    """
    known = registered() if registry is None else registry
    capacities = _capacities(emulate, known)
    is_auto = names.strip() == AUTO
    if is_auto:
        devices = dict.fromkeys((*map(DeviceAttr.of, kinds(known)), *capacities))
        wanted: Wanted = {device: _joining(device, known) for device in devices}
    else:
        wanted = _wanted(names, known)
    for device in capacities:
        if device not in wanted:
            raise ArgumentError(f"session: {device} is to be emulated, but it is not in {names!r}")
    real = [device for device in wanted if device not in (*capacities, HOST_DEVICE)]
    if clocks is not None and real:
        raise ArgumentError(
            f"session: {real[0]} is not emulated, and virtual clocks are of none else"
        )
    return _Opening(names, threads, known, capacities, is_auto, clocks).open(wanted)


@dataclass(frozen=True)
class _Opening:
    names: str
    threads: int
    registry: Registry
    capacities: Mapping[DeviceAttr, int | None]
    is_auto: bool
    clocks: Clocks | None

    def open(self, wanted: Wanted) -> Devices:
        host = self._host(())
        present: list[Device] = []
        absent: list[Absent] = []
        for device, descriptions in wanted.items():
            found = self._usable(device, descriptions, absent)
            try:
                present.append(self._device(device, found))
            except DeviceUnavailable as error:
                if not self.is_auto:
                    raise DeviceUnavailable(f"{device} is not available: {error}") from None
                absent.append(Absent(device, str(error)))
                continue
            if isinstance(opened := present[-1], Host):
                host = opened
        emulated = frozenset(self.capacities)
        return Devices(self.names, tuple(present), tuple(absent), host, self.threads, emulated)

    def _usable(
        self, device: DeviceAttr, descriptions: Sequence[TargetDescription], absent: list[Absent]
    ) -> list[TargetDescription]:
        """The targets of a device whose packages are installed; the others are noted as absent."""
        usable: list[TargetDescription] = []
        for description in descriptions:
            missing = [package for package in description.packages if find_spec(package) is None]
            if not missing:
                usable.append(description)
                continue
            target = TargetAttr.of(device, description.name)
            reason = f"the package {missing[0]} is not installed"
            if not description.joins and not self.is_auto:
                raise DeviceUnavailable(f"{target} is not available: {reason}")
            absent.append(Absent(target, reason))
        return usable

    def _device(self, device: DeviceAttr, descriptions: Sequence[TargetDescription]) -> Device:
        """Returns an open device. Raises `DeviceUnavailable` with why it is not to be had."""
        if not descriptions:
            raise DeviceUnavailable("none of its targets can be used")
        if device.kind.data == HOST:
            if device != HOST_DEVICE:
                raise DeviceUnavailable(f"there is one {HOST} device, {HOST}")
            return self._host(descriptions)
        if device in self.capacities:
            opener = _opener(device, "emulator", self.registry)
            return self._clocked(*_parts(device, descriptions, opener, self.capacities[device]))
        opener = _opener(device, "driver", self.registry)
        opened = _shared(device, descriptions, opener)
        opened.check_open()
        if self.is_auto and opened.limits.on_host_cores:
            raise DeviceUnavailable(
                f"{opened.identity} runs on the cores of the host; ask for {device} by name to use "
                "it"
            )
        return opened

    def _host(self, descriptions: Sequence[TargetDescription]) -> Host:
        if self.clocks is None:
            return Host(self.threads, descriptions)
        from fuel_runtime.devices.emulated.clocked import ClockedHost

        return ClockedHost(self.threads, descriptions, self.clocks)

    def _clocked(
        self, device: DeviceAttr, driver: Driver, lowerings: Mapping[str, Lower]
    ) -> BufferDevice:
        """Returns an emulated device, which goes by a clock if there are clocks."""
        if self.clocks is None:
            return _buffer_device(device, driver, lowerings)
        from fuel_runtime.devices.emulated.clocked import ClockedDevice

        return ClockedDevice(device, driver, lowerings, self.clocks)


def _opener(device: DeviceAttr, field: str, registry: Registry) -> str:
    """Returns what the first target of a kind of device says that opens or emulates it."""
    found = (getattr(each, field) for each in serving(device.kind.data, registry))
    opener = next(filter(None, found), None)
    if opener is None:
        raise DeviceUnavailable(f"no target of {device.kind.data} says how it is opened")
    return opener


def _joining(device: DeviceAttr, registry: Registry) -> list[TargetDescription]:
    return [each for each in serving(device.kind.data, registry) if each.joins]


def _wanted(names: str, registry: Registry) -> Wanted:
    """Reads a list of devices, and of targets such as `cpu/loops`."""
    wanted: dict[DeviceAttr, list[TargetDescription]] = {}
    for name in map(str.strip, names.split(",")):
        label, slash, backend = name.partition("/")
        device = _read(label, registry)
        found = _joining(device, registry)
        if slash:
            served = {each.name: each for each in serving(device.kind.data, registry)}
            if backend not in served:
                raise UnknownDevice(
                    f"{name!r} is not a target; what runs on {device} is {', '.join(served)}"
                )
            found = [served[backend]]
        known = wanted.setdefault(device, [])
        known.extend(each for each in found if each not in known)
    return wanted


def _capacities(emulate: object, registry: Registry) -> dict[DeviceAttr, int | None]:
    """Returns the devices to emulate and how much memory each has."""
    if emulate is None:
        return {}
    if isinstance(emulate, str):
        emulate = dict.fromkeys(name.strip() for name in emulate.split(","))
    if not isinstance(emulate, Mapping):
        raise ArgumentError(
            "session: emulate names devices, such as 'cuda:0', or gives the bytes of each, such as "
            f"{{'cuda:0': {1 << 30}}}; it is not {emulate!r}"
        )
    can = list(_emulated_kinds(registry))
    found: dict[DeviceAttr, int | None] = {}
    for name, capacity in emulate.items():
        device = _read(name, registry)
        if device.kind.data not in can:
            raise ArgumentError(
                f"session: {device} cannot be emulated; what can is {', '.join(can)}"
            )
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise ArgumentError(
                f"session: the memory of {device} is a number of bytes, not {capacity!r}"
            )
        found[device] = capacity
    return found


def _emulated_kinds(registry: Registry) -> Iterable[str]:
    for kind in kinds(registry):
        if any(each.emulator for each in serving(kind, registry)):
            yield kind


def _read(name: object, registry: Registry) -> DeviceAttr:
    if not isinstance(name, str):
        raise UnknownDevice(f"a device is named by a string such as 'cuda:0', not {name!r}")
    device = DeviceAttr.of(name)
    if device.kind.data not in (known := kinds(registry)):
        raise UnknownDevice(f"{name!r} is not a device; the kinds are {', '.join(known)}")
    return device


_LOCK = Lock()
_SHARED: dict[tuple[DeviceAttr, str, tuple[str, ...]], BufferDevice] = {}


def _shared(
    device: DeviceAttr, descriptions: Sequence[TargetDescription], opener: str
) -> BufferDevice:
    """Returns a device of this machine, which all sessions of the process share."""
    key = device, opener, tuple(each.lowering for each in descriptions)
    with _LOCK:
        known = _SHARED.get(key)
        if known is None:
            known = _SHARED[key] = _buffer_device(*_parts(device, descriptions, opener))
        return known


def _parts(
    device: DeviceAttr, descriptions: Sequence[TargetDescription], opener: str, *details: Any
) -> tuple[DeviceAttr, Driver, Mapping[str, Lower]]:
    """Returns what a device is made of. Raises `DeviceUnavailable`."""
    try:
        driver = named(opener)(device, *details)
        lowerings = {
            each.name: driver.lowerings.get(each.name) or named(each.lowering)
            for each in descriptions
        }
    except ModuleNotFoundError as error:
        raise DeviceUnavailable(f"the package {error.name} is not installed") from None
    return device, driver, lowerings


def _buffer_device(
    device: DeviceAttr, driver: Driver, lowerings: Mapping[str, Lower]
) -> BufferDevice:
    from fuel_runtime.devices.buffer_device import BufferDevice

    return BufferDevice(device, driver, lowerings)
