# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks NVML for the load, temperature and clock of cards of NVIDIA."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fuel_runtime.telemetry.signals import Signals

if TYPE_CHECKING:
    from fuel_dialect.attributes import DeviceAttr
    from fuel_runtime.telemetry.sampler import Provider


def provider(device: DeviceAttr, nvml: Any = None) -> Provider | None:
    """Returns a provider of load, temperature and clock of a card; None where NVML is not there."""
    if nvml is None:
        try:
            import pynvml as nvml  # pyright: ignore[reportMissingImports]
        except ImportError:
            return None
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(device.ordinal.data)
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
