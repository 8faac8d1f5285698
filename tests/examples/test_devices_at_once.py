# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the example whose devices work at once: the clocks agree with the simulation."""

from __future__ import annotations

import devices_at_once
import pytest

from fake_devices import REGISTRY
from fuel_dialect.targets.description import Concurrency
from fuel_runtime.devices.emulated.clock import Clocks
from fuel_runtime.devices.opening import open_devices


def measured(concurrency: Concurrency) -> tuple[int, int]:
    """The nanoseconds of a call by the clocks and by the simulation."""
    clocks = Clocks.of(devices_at_once.MACHINE, concurrency)
    devices = open_devices("cpu,cuda:0,cuda:1", 2, "cuda:0,cuda:1", REGISTRY, clocks)
    return devices_at_once.run(clocks, devices)


def test_a_call_takes_what_the_simulation_says(capsys: pytest.CaptureFixture[str]) -> None:
    clocks, simulation = measured("stream")
    assert clocks == simulation
    assert f"by the clocks of the devices: {clocks:,} ns" in capsys.readouterr().out


def test_it_takes_longer_if_the_host_waits() -> None:
    assert measured("none")[0] > measured("stream")[0] >= measured("events")[0]
