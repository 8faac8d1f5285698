# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The device that `cuda_check.py` checks, in the process that uses it: the GPU, or the emulated one.

Only this module and `cuda_peers.py` call CuPy or torch.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, cast

import harness
import numpy as np
from harness import Array
from peers import Absent

from fuel_dialect.attributes import TargetAttr
from fuel_runtime import Session
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.buffer_device import BufferDevice

CUDA = "cuda:0"
TARGET = TargetAttr.of(CUDA, "triton")
EMULATED_BYTES = 1 << 28
EMULATED_CAPABILITY = 90
"""The architecture to compile kernels for where none is run."""


def session(emulated: bool) -> Session:
    """A session that computes nowhere but on the device. Raises `DeviceUnavailable`."""
    return Session(devices=CUDA, emulate={CUDA: EMULATED_BYTES} if emulated else None)


class Machine:
    """The device, a clock for it, and what other packages do on it."""

    def __init__(self, emulated: bool):
        self.emulated = emulated
        self.session = session(emulated)
        (device,) = self.session.devices.present
        self.device = cast(BufferDevice, device)

    def probe(self) -> None:
        """Raise if the device does not work any more."""
        self.device.synchronise()

    @property
    def driver(self) -> Any:
        return self.device.driver

    @property
    def stream(self) -> Any:
        """The stream of CuPy that everything of fuel's goes to."""
        return self.driver.stream

    @property
    def capability(self) -> int:
        return EMULATED_CAPABILITY if self.emulated else self.driver.capability

    @cached_property
    def cupy(self) -> Any:
        """The package. Raises `Absent` on an emulated device."""
        if self.emulated:
            raise Absent("CuPy has no part in an emulation")
        return import_module("cupy")

    @cached_property
    def torch(self) -> Any:
        """The package, whose work goes to the stream of fuel's too. Raises `Absent`."""
        try:
            torch = import_module("torch")
        except ImportError:
            raise Absent("torch is not installed") from None
        if self.emulated:
            return torch
        if not torch.cuda.is_available():
            raise Absent("torch finds no GPU")
        self.bind_torch(torch)
        return torch

    def bind_torch(self, torch: Any = None) -> None:
        """Send what torch does next to the stream of fuel's."""
        torch = torch or self.torch
        torch.cuda.set_stream(torch.cuda.ExternalStream(self.stream.ptr))

    # Arrays.

    def put(self, array: Array) -> DeviceArray:
        return self.device.put(array)

    def get(self, results: Sequence[Any]) -> list[Array]:
        return [np.asarray(result) for result in results]

    # Time.

    def seconds(self, call: Callable[[], Any], repeat: int) -> float:
        """As `harness.seconds`, by the clock of the device."""
        if self.emulated:
            return harness.seconds(call, repeat)
        cuda, stream = self.cupy.cuda, self.stream
        begin, end = cuda.Event(), cuda.Event()
        begin.record(stream)
        for _ in range(repeat):
            call()
        end.record(stream)
        end.synchronize()
        return 1e-3 * cuda.get_elapsed_time(begin, end) / repeat

    def host_seconds(self, call: Callable[[], Any], repeat: int) -> float:
        """As `harness.seconds`: what calls keep the host for, their work not waited for."""
        self.device.synchronise()
        taken = harness.seconds(call, repeat)
        self.device.synchronise()
        return taken

    # Facts.

    def free_bytes(self) -> int:
        free = self.device.free_bytes()
        assert free is not None
        return free

    def facts(self) -> dict[str, Any]:
        """Returns the facts that figures depend on; none identifies a machine."""
        if self.emulated:
            return {"name": "emulated", "capability": f"{EMULATED_CAPABILITY / 10:.1f}"}
        runtime = self.cupy.cuda.runtime
        facts = runtime.getDeviceProperties(0)
        return {
            "name": facts["name"].rstrip(b"\0").decode(),
            "capability": f"{self.capability / 10:.1f}",
            "memory_bytes": facts["totalGlobalMem"],
            "multiprocessors": facts.get("multiProcessorCount"),
            "l2_bytes": facts.get("l2CacheSize"),
            "driver": driver_version(),
            "driver_cuda": cuda_version(runtime.driverGetVersion()),
            "runtime_cuda": cuda_version(runtime.runtimeGetVersion()),
        }


def facts(machine: Machine) -> dict[str, Any]:
    """A step: the facts of the device."""
    return machine.facts() | {"compiled_for": machine.capability}


def cuda_version(number: int) -> str:
    """13000 as 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


def driver_version() -> str | None:
    """The version of the GPU's driver, as nvidia-smi says it; None where there is no such."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.split()
    return lines[0] if lines else None
