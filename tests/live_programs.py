# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs with decisions, and a session whose signals and clock a test sets."""

from __future__ import annotations

import gc
from typing import Any, cast

import numpy as np

from fake_devices import FakeDriver, fake
from fuel_runtime import Executable, Session
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.present import Devices
from fuel_runtime.telemetry.providers import Dial
from fuel_runtime.telemetry.sampler import Telemetry

Array = np.ndarray[Any, np.dtype[Any]]

CUDA = '#fuel.target<cuda:0, "triton">'
VULKAN = '#fuel.target<vulkan:0, "kompute">'
CPU = '#fuel.target<cpu, "numpy">'

ARM = """
  arm on {target} price {price} {{
    %m{n} = fuel.copy %a to #fuel.device<{device}> : tensor<256xf32>
    %s{n} = fuel.sqr %m{n} : tensor<256xf32>
    %e{n} = fuel.sin %s{n} : tensor<256xf32>
    fuel.yield %e{n} : tensor<256xf32>
  }}"""


def arm(target: str, n: int, price: int) -> str:
    device = target.partition("<")[2].partition(",")[0]
    return ARM.format(target=target, n=n, price=price, device=device)


def branch(name: str, value: str, result: str, *targets: str) -> str:
    arms = "".join(arm(target, n, 100 + n) for n, target in enumerate(targets))
    type = "tensor<256xf32>"
    return f'  {result} = fuel.branch "{name}"(%a = {value} : {type}) -> {type}{arms}\n'


ONE = (
    "func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {\n"
    "  %h = fuel.neg %x : tensor<256xf32>\n"
    + branch("d0", "%h", "%y", CUDA, CPU)
    + "  %z = fuel.cos %y : tensor<256xf32>\n"
    "  func.return %z : tensor<256xf32>\n}\n"
)

TWO = (
    "func.func @main(%x: tensor<256xf32>) -> (tensor<256xf32>, tensor<256xf32>) {\n"
    "  %h = fuel.neg %x : tensor<256xf32>\n"
    + branch("d0", "%h", "%y", CUDA, VULKAN, CPU)
    + "  %k = fuel.cos %y : tensor<256xf32>\n"
    + branch("d1", "%k", "%w", CUDA, VULKAN, CPU)
    + "  %z = fuel.add %w, %h : tensor<256xf32>\n"
    "  func.return %z, %y : tensor<256xf32>, tensor<256xf32>\n}\n"
)

STATE = (
    'func.func @main(%s: tensor<256xf32> {fuel.donated, fuel.name = "s"}, %x: tensor<256xf32>) '
    "-> (tensor<256xf32> {fuel.aliases = 0 : i64}, tensor<256xf32>) {\n"
    "  %n = fuel.add %s, %x : tensor<256xf32>\n"
    + branch("d0", "%n", "%y", CUDA, CPU)
    + "  %z = fuel.cos %y : tensor<256xf32>\n"
    "  func.return %n, %z : tensor<256xf32>, tensor<256xf32>\n}\n"
)

X = np.linspace(-2, 2, 256, dtype=np.float32)


def one(x: Array) -> Array:
    return np.cos(np.sin(np.square(-x)))


def two(x: Array) -> tuple[Array, Array]:
    y = np.sin(np.square(-x))
    return np.sin(np.square(np.cos(y))) - x, y


class Lab:
    """A session whose signals and clock a test sets."""

    def __init__(self, names: str = "cpu,cuda:0", **capacities: int) -> None:
        self.devices: Devices = fake(names, **capacities)
        self.dials = {d.name.label: Dial() for d in self.devices.present}
        for dial in self.dials.values():
            dial.set(free_bytes=1 << 30, total_bytes=1 << 30, load=0.0)
        self.now = 0.0
        self.telemetry = Telemetry(self.dials, clock=lambda: self.now, backoff_s=10)
        self.telemetry.start = lambda: None  # type: ignore[method-assign]

    def compile(self, program: str, **options: Any) -> Executable:
        return Session(self.devices, telemetry=self.telemetry, **options).compile(
            program, optimize=False
        )

    def driver(self, name: str) -> FakeDriver:
        device = next(d for d in self.devices.present if d.name.label == name)
        return cast(FakeDriver, cast(BufferDevice, device).driver)

    def poll(self, times: int = 3) -> None:
        for _ in range(times):
            self.telemetry.poll()


def lent(lab: Lab) -> int:
    """The bytes of the devices that somebody still holds."""
    gc.collect()
    found = 0
    for device in lab.devices.present:
        if isinstance(device, BufferDevice):
            device.free_bytes()
            found += cast(FakeDriver, device.driver).used - device.pool.idle_bytes
    return found


class Fails:
    """Lets one function of a driver fail at its n-th call."""

    def __init__(self, driver: FakeDriver, name: str, at: int, error: Exception) -> None:
        self.driver, self.name, self.at, self.error = driver, name, at, error
        self.calls = 0
        self.inner = getattr(driver, name)
        setattr(driver, name, self)

    def __call__(self, *given: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return self.inner(*given)


def arms(exe: Executable) -> dict[str, int | None]:
    return {b.decision: b.arm for b in exe.report().branches}
