# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The devices of a session: one small interface, and how names become devices.

A device says which target it serves, turns runs into callables and knows its free memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from fuel_dialect.attributes import HOST, DeviceAttr, TargetAttr
from fuel_dialect.errors import DeviceUnavailable, UnknownDevice

if TYPE_CHECKING:
    import numpy as np

    from fuel_dialect.ops.control import RunOp
    from fuel_lowering.kernels import LoweredRun

AUTO = "auto"
"""The name that stands for every device of this machine."""


class Device(Protocol):
    """What the runtime asks of a device."""

    @property
    def target(self) -> TargetAttr:
        """The device and the code generator that serves it."""
        ...

    def free_bytes(self) -> int | None:
        """Memory that a run may still take; None where that is unknown."""
        ...

    def lower(self, run: RunOp, entry: str) -> LoweredRun:
        """Turn a run into source text. Raises `LoweringError`."""
        ...

    def load(
        self, lowered: Sequence[LoweredRun], weights: Mapping[str, np.ndarray[Any, Any]]
    ) -> Mapping[str, Callable[..., Any]]:
        """Make lowered runs callable, by the names they define."""
        ...


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

    def serving(self, target: TargetAttr) -> Device:
        """The device that serves a target. Raises `DeviceUnavailable`."""
        for device in self.present:
            if device.target == target:
                return device
        raise DeviceUnavailable(f"target {target}: {self.why_not_target(target)}")

    def why_not_target(self, target: TargetAttr) -> str | None:
        """Why a target cannot be used; None if it can."""
        if any(device.target == target for device in self.present):
            return None
        served = ", ".join(str(device.target) for device in self.present)
        return self.why_not(target.device) or f"nothing serves {target}; there is {served}"

    def why_not(self, device: DeviceAttr) -> str | None:
        """Why a device cannot be used; None if it can."""
        if any(present.target.device == device for present in self.present):
            return None
        for absent in self.absent:
            if absent.device == device:
                return absent.reason
        return f"the session has no {device}; its devices are {self}"

    def __str__(self) -> str:
        return ", ".join(str(device.target.device) for device in self.present)


@dataclass(frozen=True)
class _Requirement:
    """What a kind of device takes: the extra that installs its packages, and their modules."""

    extra: str
    modules: tuple[str, ...]
    driver: str


_LATER: Mapping[str, _Requirement] = {
    "cuda": _Requirement("cuda", ("triton", "cupy"), "libcuda.so.1"),
    "vulkan": _Requirement("kompute", ("kp",), "libvulkan.so.1"),
}
"""Kinds that the language knows and that this version has no target for."""


def open_devices(names: str, threads: int) -> Devices:
    """
    The devices of a comma-separated list such as `cpu`, or of "auto": whatever is there.

    `threads` is how many threads the CPU may use. Raises `UnknownDevice` for a name that fuel
    cannot read, and `DeviceUnavailable` for a device that was asked for by name and is absent.
    """
    if names.strip() == AUTO:
        absent = tuple(_absent(DeviceAttr.of(kind)) for kind in _LATER)
        return Devices(names, (_open_cpu(threads),), absent)
    wanted = dict.fromkeys(_read(name.strip()) for name in names.split(","))
    for device in wanted:
        if device != DeviceAttr.of(HOST):
            raise DeviceUnavailable(f"{device} is not available: {_absent(device).reason}")
    return Devices(names, (_open_cpu(threads),), ())


def _open_cpu(threads: int) -> Device:
    from fuel_runtime.devices.cpu import Cpu

    return Cpu(threads)


def _read(name: str) -> DeviceAttr:
    device = DeviceAttr.of(name)
    kinds = (HOST, *_LATER)
    if device.kind.data not in kinds:
        raise UnknownDevice(f"{name!r} is not a device; the kinds are {', '.join(kinds)}")
    return device


def _absent(device: DeviceAttr) -> Absent:
    kind = device.kind.data
    if kind == HOST:
        return Absent(device, f"there is one {HOST} device, {HOST}")
    needs = _LATER[kind]
    packages = [name for name in needs.modules if find_spec(name) is None]
    missing: list[str] = []
    if packages:
        noun = "package" if len(packages) == 1 else "packages"
        missing.append(f"the {noun} {' and '.join(packages)} (extra {needs.extra!r})")
    if not _driver_there(needs.driver):
        missing.append(f"the driver {needs.driver}")
    reason = f"this version of fuel has a target for {HOST} only"
    if missing:
        reason += f"; besides, this machine lacks {' and '.join(missing)}"
    return Absent(device, reason)


def _driver_there(library: str) -> bool:
    import ctypes

    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
