# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests names of devices, absent devices, and the devices that a plan is made for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fake_devices import REGISTRY, fake
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import (
    ArgumentError,
    DeviceUnavailable,
    FuelError,
    NoBackendForOp,
    UnknownDevice,
)
from fuel_dialect.targets.presets import PRESETS
from fuel_runtime import Session
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.described_topology import topology_for
from fuel_runtime.devices.interface import Limits
from fuel_runtime.devices.opening import open_devices


def test_devices_in_the_order_they_are_asked_for() -> None:
    devices = fake("vulkan:0,cpu,cuda:1,cuda:1")
    assert [str(t) for t in devices.targets] == [
        "vulkan:0/kompute",
        "cpu/numpy",
        "cuda:1/triton",
    ]
    assert [d.identity for d in devices.present][2] == "fake cuda"
    assert devices.absent == ()
    assert str(devices) == "vulkan:0, cpu, cuda:1"


def test_a_real_device_is_opened_once_an_emulated_one_for_each_session() -> None:
    first, second = (open_devices("vulkan:0", 1, None, REGISTRY) for _ in range(2))
    assert first.present[0] is second.present[0]
    assert fake("vulkan:0").present[0] is not fake("vulkan:0").present[0]


def test_a_device_that_is_absent() -> None:
    with pytest.raises(DeviceUnavailable) as caught:
        open_devices("cpu,cuda:0", 1, None, REGISTRY)
    assert str(caught.value) == (
        "cuda:0 is not available: the driver of cuda:0 is not installed; install a driver"
    )


def test_a_package_that_is_missing() -> None:
    npu = replace(
        REGISTRY["triton"], name="x", runs_on=("npu",), driver="no_such_package.inner:open"
    )
    with pytest.raises(DeviceUnavailable, match="npu:0 is not available: the package no_such_pack"):
        open_devices("npu", 1, None, {"x": npu})


def test_auto_goes_on_without_and_says_why() -> None:
    devices = open_devices("auto", 1, None, REGISTRY)
    assert str(devices) == "cpu"
    assert [(str(a.what), a.reason) for a in devices.absent] == [
        ("cuda:0", "the driver of cuda:0 is not installed; install a driver"),
        (
            "vulkan:0",
            "fake vulkan runs on the cores of the host; ask for vulkan:0 by name to use it",
        ),
    ]
    report = Session(devices).compile(NEG).report()
    assert "  cuda:0: absent, the driver of cuda:0 is not installed; ins" in str(report)
    assert str(open_devices("auto", 1, "cuda:0", REGISTRY)) == "cpu, cuda:0"


NEG = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = fuel.neg %x : tensor<3xf32> func.return %0 : tensor<3xf32> }
"""

WRONG: list[tuple[dict[str, Any], type[FuelError], str]] = [
    ({"names": "cpu", "emulate": "cuda:0"}, ArgumentError, "cuda:0 is to be emulated, but it is"),
    ({"names": "cpu", "emulate": "cpu"}, ArgumentError, "cpu cannot be emulated; what can is cuda"),
    ({"names": "cuda", "emulate": {"cuda": 0}}, ArgumentError, "cuda:0 is a number of bytes, not"),
    ({"names": "cuda", "emulate": {"cuda": True}}, ArgumentError, "a number of bytes, not True"),
    ({"names": "cuda", "emulate": 7}, ArgumentError, "emulate names devices, such as 'cuda:0', or"),
    ({"names": "cpu,tpu:0"}, UnknownDevice, "'tpu:0' is not a device; the kinds are cpu, cuda, v"),
    ({"names": "cuda", "emulate": {3: None}}, UnknownDevice, "named by a string such as 'cuda:0'"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG)
def test_what_cannot_be(options: dict[str, Any], error: type[FuelError], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        open_devices(options["names"], 1, options.get("emulate"), REGISTRY)


def test_only_what_can_be_emulated_is() -> None:
    with pytest.raises(ArgumentError, match="vulkan:0 cannot be emulated; what can is cuda"):
        Session("cpu,vulkan:0", emulate="vulkan:0")


def test_a_session_takes_devices_that_are_open() -> None:
    devices = fake("cpu,cuda:0", threads=3)
    session = Session(devices)
    assert session.devices is devices
    assert session.compile(NEG).report().threads == 3
    with pytest.raises(ArgumentError, match="emulate and threads are given to open_devices"):
        Session(devices, threads=1)


def test_what_a_plan_is_made_for() -> None:
    assert topology_for(fake("cpu")).name == "cpu"
    assert topology_for(fake("cpu,vulkan:0")).name == "cpu+vulkan"
    topology = topology_for(fake("cpu,vulkan:0,cuda:0", cuda=4096))
    assert topology.name == "cpu+vulkan:0+cuda:0"
    assert [str(target) for target in topology.targets] == [
        "cpu/numpy",
        "vulkan:0/kompute",
        "cuda:0/triton",
    ]
    assert [device.memory_bytes for device in topology.devices] == [None, None, 4096]
    assert topology.rates == ()


def test_a_plan_is_made_for_the_buffers_that_a_device_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert topology_for(fake("cpu,vulkan:0")) is PRESETS["cpu+vulkan"]
    devices = fake("cpu,vulkan:0")
    driver = devices.at(DeviceAttr.of("vulkan:0")).driver  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(driver, "limits", Limits(largest_buffer_bytes=4096, buffers=5))
    host, card = topology_for(devices).devices
    assert (host.largest_buffer_bytes, host.buffers) == (None, None)
    assert (card.largest_buffer_bytes, card.buffers) == (4096, 5)
    for elements, is_refused in ((1024, False), (1025, True)):
        text = f"""func.func @main(%x: tensor<{elements}xf32>) -> tensor<{elements}xf32> {{
          %y = fuel.neg %x : tensor<{elements}xf32>
          func.return %y : tensor<{elements}xf32>
        }}"""
        if is_refused:
            with pytest.raises(NoBackendForOp, match="largest-buffer: a value of 4,100 bytes"):
                Session(devices).compile(text, place={"neg": "vulkan:0"})
        else:
            executable = Session(devices).compile(text, place={"neg": "vulkan:0"})
            x = np.arange(elements, dtype=np.float32)
            np.testing.assert_array_equal(executable(x)[0], -x)


def test_a_card_that_is_known_has_its_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fake_devices.FakeDriver.identity", "NVIDIA H200")
    (rates,) = topology_for(fake("cpu,cuda:0")).rates
    assert str(rates.target) == "cuda:0/triton"
    assert rates.bytes_per_ns == 3_900


def test_without_the_host_everything_runs_elsewhere() -> None:
    import numpy as np

    exe = Session(fake("cuda:0")).compile(NEG)
    np.testing.assert_array_equal(exe([1, 2, 3])[0], [-1, -2, -3])
    assert [run.target for run in exe.report().route] == ["cuda:0/triton"]


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    (device,) = fake("cuda:0").present
    assert isinstance(device, BufferDevice)
    with device.lock:
        device.after_fork()
        assert device.get(device.put(np.ones(3, np.float32))).sum() == 3
