# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents the devices of a session: those that are there, and why others are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_dialect.attributes import HOST, DeviceAttr, TargetAttr
from fuel_dialect.errors import DeviceUnavailable

if TYPE_CHECKING:
    from fuel_runtime.devices.host.device import Host
    from fuel_runtime.devices.interface import Device, Taker

HOST_DEVICE = DeviceAttr.of(HOST)


@dataclass(frozen=True)
class Absent:
    """A device, or a target of one, that was asked for by name or by "auto" and is not there."""

    what: DeviceAttr | TargetAttr
    reason: str


@dataclass(frozen=True)
class Devices:
    """Holds the devices that a session asked for, those it has, and why it lacks the rest."""

    asked: str
    present: tuple[Device, ...]
    absent: tuple[Absent, ...]
    host: Host
    """Arguments come from it and results go to it, also where no run may be on it."""
    threads: int
    """The threads that the host may use."""
    emulated: frozenset[DeviceAttr] = frozenset()

    @property
    def targets(self) -> tuple[TargetAttr, ...]:
        """The targets of all devices, in the order of these."""
        return tuple(target for device in self.present for target in device.targets)

    def serving(self, target: TargetAttr) -> Device:
        """Returns the device that serves a target. Raises `DeviceUnavailable`."""
        for device in self.present:
            if target in device.targets:
                return device
        raise DeviceUnavailable(f"target {target}: {self.why_not_target(target)}")

    def at(self, name: DeviceAttr) -> Device:
        """Returns the device of a name. Raises `DeviceUnavailable`."""
        for device in (*self.present, self.host):
            if device.name == name:
                return device
        raise DeviceUnavailable(f"{self.why_not(name)}")

    @property
    def takers(self) -> tuple[Taker, ...]:
        """The devices that arrays of other libraries can come to without passing the host."""
        return tuple(taker for device in self.present if (taker := device.taker) is not None)

    def why_not_target(self, target: TargetAttr) -> str | None:
        """Returns why no run can be on a target; None if one can."""
        if target in self.targets:
            return None
        missing = self._why_absent(target.device) or self._reason(target)
        return missing or f"nothing serves {target}; there is {', '.join(map(str, self.targets))}"

    def why_not(self, device: DeviceAttr) -> str | None:
        """Returns why no value can be on a device; None if one can."""
        return None if device == HOST_DEVICE else self._why_absent(device)

    def _why_absent(self, name: DeviceAttr) -> str | None:
        if any(device.name == name for device in self.present):
            return None
        return self._reason(name) or f"the session has no {name}; its devices are {self}"

    def _reason(self, what: DeviceAttr | TargetAttr) -> str | None:
        return next((absent.reason for absent in self.absent if absent.what == what), None)

    def __str__(self) -> str:
        return ", ".join(str(device.name) for device in self.present)
