# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks devices for their signals: the host, cards of NVIDIA, other devices, and scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

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
    """Returns who knows the load of a device: NVML, or the host for what runs on its cores."""
    if device.limits.on_host_cores:
        return host
    kind = device.name.kind.data
    if kind != "cuda" or device.name in devices.emulated:
        return None
    return nvml_provider(device.name.ordinal.data)


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


def nvml_provider(card: int, nvml: Any = None) -> Provider | None:
    """Returns a provider of temperature and clock through NVML; None where NVML is not there."""
    if nvml is None:
        try:
            import pynvml as nvml  # pyright: ignore[reportMissingImports]
        except ImportError:
            return None
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(card)
    except nvml.NVMLError:
        return None
    return lambda: _asked_nvml(nvml, handle)


def _asked_nvml(nvml: Any, handle: Any) -> Signals:
    """Returns what a card says of others' work: its load is known where no process is ours."""
    from os import getpid

    def told(ask: Callable[[], Any]) -> Any:
        with suppress(nvml.NVMLError, AttributeError):
            return ask()
        return None

    users = told(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    shares = told(lambda: nvml.nvmlDeviceGetProcessUtilization(handle, 0))
    load = None
    if shares is not None:
        load = min(1.0, sum(s.smUtil for s in shares if s.pid != getpid()) / 100)
    elif users is not None and all(user.pid != getpid() for user in users):
        rates = told(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        load = None if rates is None else min(1.0, rates.gpu / 100)
    return Signals(
        load=load,
        temperature_c=told(
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        ),
        clock_mhz=told(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
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
