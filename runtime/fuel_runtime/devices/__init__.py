# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The devices of a session, and how names become devices.

`interface` says what a device is. This module is the only place that knows which kinds there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

from fuel_dialect.attributes import HOST, DeviceAttr, TargetAttr
from fuel_dialect.errors import ArgumentError, DeviceUnavailable, UnknownDevice
from fuel_runtime.devices.host.device import Cpu
from fuel_runtime.devices.interface import Device

if TYPE_CHECKING:
    from fuel_runtime.devices.buffers import BufferDevice

__all__ = ["AUTO", "KINDS", "Absent", "Device", "Devices", "Kind", "open_devices"]

AUTO = "auto"
"""The name that stands for every device of this machine."""

HOST_DEVICE = DeviceAttr.of(HOST)


@dataclass(frozen=True)
class Kind:
    """How devices of one kind are opened and what serves them; `module:function` each."""

    backend: str
    driver: str
    """`open(device) -> Driver`; raises `DeviceUnavailable` with what is missing."""
    lowering: str
    """`lower_run(run, entry) -> DeviceRun`."""
    emulator: str | None = None
    """`open(device, capacity_in_bytes_or_None) -> Driver`, where the kind can be emulated."""


KINDS: Mapping[str, Kind] = {
    "cuda": Kind(
        backend="triton",
        driver="fuel_runtime.devices.cuda.driver:open_cuda",
        lowering="fuel_lowering.triton.lower:lower_run",
        emulator="fuel_runtime.devices.emulated.driver:open_emulated",
    ),
    "vulkan": Kind(
        backend="kompute",
        driver="fuel_runtime.devices.vulkan.driver:open_vulkan",
        lowering="fuel_lowering.kompute.lower:lower_run",
    ),
}
"""The kinds of device besides the host."""

Emulate = str | Mapping[str, int | None] | None
"""The devices to emulate: names with commas, or the capacity in bytes of each (None for any)."""


@dataclass(frozen=True)
class Absent:
    """A device that was asked for, by name or by "auto", and is not there."""

    device: DeviceAttr
    reason: str


@dataclass(frozen=True)
class Devices:
    """What a session asked for, what it has, and why it lacks the rest."""

    asked: str
    present: tuple[Device, ...]
    absent: tuple[Absent, ...]
    host: Cpu
    """Where arguments come from and results go, whether or not runs may be there."""
    threads: int
    """How many threads the host may use."""
    emulated: frozenset[DeviceAttr] = frozenset()

    def serving(self, target: TargetAttr) -> Device:
        """The device that serves a target. Raises `DeviceUnavailable`."""
        for device in self.present:
            if device.target == target:
                return device
        raise DeviceUnavailable(f"target {target}: {self.why_not_target(target)}")

    def at(self, name: DeviceAttr) -> Device:
        """The device of a name. Raises `DeviceUnavailable`."""
        for device in (*self.present, self.host):
            if device.target.device == name:
                return device
        raise DeviceUnavailable(f"{self.why_not(name)}")

    @property
    def takers(self) -> tuple[BufferDevice, ...]:
        """The devices that arrays of other libraries can come to without passing the host."""
        from fuel_runtime.devices.buffers import BufferDevice

        return tuple(d for d in self.present if isinstance(d, BufferDevice) and d.takes_in)

    def why_not_target(self, target: TargetAttr) -> str | None:
        """Why no run can be on a target; None if one can."""
        if any(device.target == target for device in self.present):
            return None
        served = ", ".join(str(device.target) for device in self.present)
        missing = self._why_absent(target.device)
        return missing or f"nothing serves {target}; there is {served}"

    def why_not(self, device: DeviceAttr) -> str | None:
        """Why no value can be on a device; None if one can."""
        return None if device == HOST_DEVICE else self._why_absent(device)

    def _why_absent(self, device: DeviceAttr) -> str | None:
        if any(present.target.device == device for present in self.present):
            return None
        for absent in self.absent:
            if absent.device == device:
                return absent.reason
        return f"the session has no {device}; its devices are {self}"

    def __str__(self) -> str:
        return ", ".join(str(device.target.device) for device in self.present)


def open_devices(
    names: str, threads: int, emulate: Emulate = None, kinds: Mapping[str, Kind] = KINDS
) -> Devices:
    """
    The devices of a list with commas such as `cpu,cuda:0`, or of "auto": whatever is there.

    `threads` is how many threads the CPU may use. "auto" takes the first device of each kind,
    leaves out what would run on the cores of the host, and says why anything is absent. An emulated
    device belongs to these devices alone; any other is opened once in a process.

    Raises `UnknownDevice` for a name that fuel cannot read, `DeviceUnavailable` for a device that
    was asked for by name and is absent, and `ArgumentError` for an emulation that is not to be had.
    """
    capacities = _capacities(emulate, kinds)
    is_auto = names.strip() == AUTO
    if is_auto:
        wanted = [HOST_DEVICE, *map(DeviceAttr.of, kinds), *capacities]
    else:
        wanted = [_read(name.strip(), kinds) for name in names.split(",")]
    wanted = list(dict.fromkeys(wanted))
    for device in capacities:
        if device not in wanted:
            raise ArgumentError(f"session: {device} is to be emulated, but it is not in {names!r}")
    host = Cpu(threads)
    present: list[Device] = []
    absent: list[Absent] = []
    for device in wanted:
        try:
            present.append(_opened(device, host, capacities, kinds, is_auto))
        except DeviceUnavailable as error:
            if not is_auto:
                raise DeviceUnavailable(f"{device} is not available: {error}") from None
            absent.append(Absent(device, str(error)))
    return Devices(names, tuple(present), tuple(absent), host, threads, frozenset(capacities))


def _capacities(emulate: object, kinds: Mapping[str, Kind]) -> dict[DeviceAttr, int | None]:
    """The devices to emulate and how much memory each has."""
    if emulate is None:
        return {}
    if isinstance(emulate, str):
        emulate = dict.fromkeys(name.strip() for name in emulate.split(","))
    if not isinstance(emulate, Mapping):
        raise ArgumentError(
            "session: emulate names devices, such as 'cuda:0', or gives the bytes of each, such as "
            f"{{'cuda:0': {1 << 30}}}; it is not {emulate!r}"
        )
    found: dict[DeviceAttr, int | None] = {}
    for name, capacity in emulate.items():
        device = _read(name, kinds)
        kind = kinds.get(device.kind.data)
        if kind is None or kind.emulator is None:
            can = ", ".join(name for name, kind in kinds.items() if kind.emulator is not None)
            raise ArgumentError(f"session: {device} cannot be emulated; what can is {can}")
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise ArgumentError(
                f"session: the memory of {device} is a number of bytes, not {capacity!r}"
            )
        found[device] = capacity
    return found


def _read(name: object, kinds: Mapping[str, Kind]) -> DeviceAttr:
    if not isinstance(name, str):
        raise UnknownDevice(f"a device is named by a string such as 'cuda:0', not {name!r}")
    device = DeviceAttr.of(name)
    if device.kind.data not in (HOST, *kinds):
        raise UnknownDevice(f"{name!r} is not a device; the kinds are {', '.join((HOST, *kinds))}")
    return device


def _opened(
    device: DeviceAttr,
    host: Cpu,
    capacities: Mapping[DeviceAttr, int | None],
    kinds: Mapping[str, Kind],
    is_auto: bool,
) -> Device:
    """A device. Raises `DeviceUnavailable` with why it is not to be had."""
    if device.kind.data == HOST:
        if device != HOST_DEVICE:
            raise DeviceUnavailable(f"there is one {HOST} device, {HOST}")
        return host
    kind = kinds[device.kind.data]
    if device in capacities:
        assert kind.emulator is not None
        return _made(device, kind, kind.emulator, capacities[device])
    opened = _shared(device, kind)
    opened.check_open()
    if is_auto and opened.limits.on_host_cores:
        raise DeviceUnavailable(
            f"{opened.identity} runs on the cores of the host; ask for {device} by name to use it"
        )
    return opened


_LOCK = Lock()
_SHARED: dict[tuple[DeviceAttr, Kind], BufferDevice] = {}


def _shared(device: DeviceAttr, kind: Kind) -> BufferDevice:
    """A device of this machine, which all sessions of the process share."""
    with _LOCK:
        known = _SHARED.get((device, kind))
        if known is None:
            known = _SHARED[device, kind] = _made(device, kind, kind.driver)
        return known


def _made(device: DeviceAttr, kind: Kind, opener: str, *details: Any) -> BufferDevice:
    from fuel_runtime.devices.buffers import BufferDevice

    try:
        driver = _named(opener)(device, *details)
        lower = driver.lowering or _named(kind.lowering)
    except ModuleNotFoundError as error:
        raise DeviceUnavailable(f"the package {error.name} is not installed") from None
    return BufferDevice(TargetAttr.of(device, kind.backend), driver, lower)


def _named(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
