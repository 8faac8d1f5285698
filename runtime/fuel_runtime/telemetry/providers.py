# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks devices for their signals: the host, devices with a driver, and scripts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fuel_dialect.plugins import function_named
from fuel_dialect.targets.registry import description_of
from fuel_runtime.telemetry.signals import UNKNOWN, Signals

if TYPE_CHECKING:
    from fuel_runtime.devices.interface import Device
    from fuel_runtime.devices.present import Devices
    from fuel_runtime.telemetry.sampler import Provider


def providers_of(devices: Devices) -> dict[str, Provider]:
    """Returns a provider for each device of a session, by its label."""
    host = HostProvider(devices.threads)
    found: dict[str, Provider] = {}
    for device in devices.present:
        label = device.name.label
        if device is devices.host:
            found[label] = host
        else:
            found[label] = DeviceProvider(device, _load_of(device, devices, host))
    return found


def _load_of(device: Device, devices: Devices, host: Provider) -> Provider | None:
    """Returns who knows the load of a device: the host for its cores, else whom a target names."""
    if device.limits.on_host_cores:
        return host
    if device.name in devices.emulated:
        return None
    described = [description_of(target.backend.data) for target in device.targets]
    named = next((each.telemetry for each in described if each is not None and each.telemetry), "")
    return function_named(named)(device.name) if named else None


class HostProvider:
    """
    Asks the operating system through psutil; the load is that of other processes.

    The first call imports psutil: a session that takes no sample does without it.
    """

    def __init__(self, threads: int):
        self._slots = threads
        self._load: float | None = None

    @cached_property
    def _psutil(self) -> Any:
        import psutil

        return psutil

    @cached_property
    def _process(self) -> Any:
        return self._psutil.Process()

    @cached_property
    def _before(self) -> tuple[float, float]:
        return self._times()

    def _times(self) -> tuple[float, float]:
        """Returns the time, and the seconds that cores have worked for others by then."""
        every, own = self._psutil.cpu_times(), self._process.cpu_times()
        busy = every.user + every.system + getattr(every, "nice", 0.0)
        return time.monotonic(), busy - own.user - own.system

    def __call__(self) -> Signals:
        """Returns memory now, and the load since the call before; clocks tick in 10 ms."""
        memory = self._psutil.virtual_memory()
        before, now = self._before, self._times()
        elapsed = now[0] - before[0]
        if elapsed >= 0.05:
            others = (now[1] - before[1]) / (elapsed * (self._psutil.cpu_count() or 1))
            self._load = min(1.0, max(0.0, others))
            self._before = now
        return Signals(memory.available, memory.total, self._load, slots=self._slots)


class DeviceProvider:
    """Asks the driver of a device for its memory, and another provider for the rest."""

    def __init__(self, device: Device, load: Provider | None = None):
        self._device = device
        self._load = load

    def __call__(self) -> Signals:
        """Returns memory as the device counts it; what it keeps for later is free."""
        rest = UNKNOWN if self._load is None else self._load()
        return Signals(
            self._device.free_bytes(),
            self._device.total_bytes(),
            rest.load,
            rest.pending,
            rest.slots,
            rest.temperature_c,
            rest.clock_mhz,
        )


class Script:
    """Gives signals one after the other, then the last for ever: an emulated device's telemetry."""

    def __init__(self, signals: Iterable[Signals | Mapping[str, Any]]):
        self._rest: Iterator[Signals] = (
            s if isinstance(s, Signals) else Signals(**s) for s in signals
        )
        self._last = UNKNOWN

    def __call__(self) -> Signals:
        """Returns the next signals."""
        self._last = next(self._rest, self._last)
        return self._last


class Dial:
    """Gives the signals that a person has set last, over those of another provider."""

    def __init__(self, base: Provider | None = None):
        self._base = base
        self._set: dict[str, Any] = {}

    def set(self, **signals: Any) -> None:
        """Set signals by name from now on; raises `ArgumentError` for values that are none."""
        Signals(**signals)
        self._set = {**self._set, **signals}

    def clear(self) -> None:
        """Let the other provider speak again."""
        self._set = {}

    def __call__(self) -> Signals:
        """Returns the signals."""
        from dataclasses import replace

        base = UNKNOWN if self._base is None else self._base()
        return replace(base, **self._set)
