# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the virtual clocks of emulated devices: what calls take is known to the nanosecond."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_devices import REGISTRY
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import ArgumentError
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.targets.description import Concurrency
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.planning.topology import transfer_ns
from fuel_runtime import Executable, Session
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.emulated.clock import Clocks
from fuel_runtime.devices.marks import TimedMark
from fuel_runtime.devices.opening import open_devices
from overlapping import copy, emulated, program, run

X = np.array([1, -2, 3, 0.5], np.float32)

COPY = 5
"""The nanoseconds of a transfer."""


def compiled(
    text: str, times: Mapping[str, int], concurrency: Concurrency = "stream"
) -> tuple[Executable, Clocks]:
    """Returns a program on a host and two devices whose runs take what a test says."""

    def run_ns(op: RunOp) -> int:
        return sum(times[k.label.data] for k in op.walk() if isinstance(k, KernelOp))

    clocks = Clocks(run_ns, lambda source, target, bytes: COPY, concurrency)
    devices = emulated(clocks)
    return Session(devices, telemetry=False).compile(text, optimize=False), clocks


def makespan(
    text: str, times: Mapping[str, int], concurrency: Concurrency = "stream"
) -> tuple[int, tuple[Any, ...]]:
    """Returns the virtual nanoseconds of the second call of a program, and its results."""
    executable, clocks = compiled(text, times, concurrency)
    executable(X)
    clocks.reset()
    results = executable(X)
    return clocks.makespan_ns, results


BESIDE = program(
    copy("cx", "x", "c"),
    run("c", "c", "cx"),
    run("h", "h", "x"),
    copy("cy", "c", "h"),
    run("z", "h", "cy", "h"),
    results=["z"],
)
"""The host computes while a card does."""


@pytest.mark.parametrize(
    ("card", "host", "want"), [(40, 30, 5 + 40 + 5 + 7), (40, 90, 90 + 5 + 7)], ids=str
)
def test_host_and_card_work_at_once(card: int, host: int, want: int) -> None:
    took, (z,) = makespan(BESIDE, {"c": card, "h": host, "z": 7})
    assert took == want
    np.testing.assert_array_equal(z, 4 * X)


def test_a_device_that_is_waited_for_does_nothing_beside_the_host() -> None:
    took, _ = makespan(BESIDE, {"c": 40, "h": 30, "z": 7}, "none")
    assert took == 5 + 40 + 30 + 5 + 7


READ_BEHIND = program(
    copy("cx", "x", "c"),
    run("a", "c", "cx"),
    run("b", "c", "a"),
    copy("ha", "a", "h"),
    run("h", "h", "ha"),
    copy("hb", "b", "h"),
    results=["h", "hb"],
)
"""A value is read while its device is at another one."""


@pytest.mark.parametrize(
    ("concurrency", "want"),
    [
        ("stream", 5 + 10 + 100 + 5 + 50 + 5),
        ("events", 5 + 10 + 100 + 5),
        ("none", 5 + 10 + 100 + 5 + 50 + 5),
    ],
)
def test_a_read_waits_for_the_stream_or_for_its_value(concurrency: Concurrency, want: int) -> None:
    took, (h, b) = makespan(READ_BEHIND, {"a": 10, "b": 100, "h": 50}, concurrency)
    assert took == want
    np.testing.assert_array_equal(h, 4 * X)
    np.testing.assert_array_equal(b, 4 * X)


def test_two_cards_work_at_once_and_wait_where_a_value_crosses() -> None:
    text = program(
        copy("cx", "x", "c"),
        copy("dx", "x", "d"),
        run("c", "c", "cx"),
        run("d", "d", "dx"),
        copy("cd", "d", "c"),
        run("e", "c", "c", "cd"),
        run("f", "d", "d"),
        copy("he", "e", "h"),
        copy("hf", "f", "h"),
        results=["he", "hf"],
    )
    # d ends at 5 + 60 and crosses until 70; e and f begin then.
    took, (e, f) = makespan(text, {"c": 20, "d": 60, "e": 30, "f": 8})
    assert took == 70 + 30 + 5 + 5
    np.testing.assert_array_equal(e, 4 * X)
    np.testing.assert_array_equal(f, 4 * X)


def test_a_device_is_idle_until_the_host_asks_it() -> None:
    text = program(
        run("h", "h", "x"),
        copy("cx", "x", "c"),
        run("c", "c", "cx"),
        copy("hc", "c", "h"),
        results=["h", "hc"],
    )
    took, _ = makespan(text, {"h": 100, "c": 40})
    assert took == 100 + 5 + 40 + 5


def test_moments_of_a_device_are_those_of_its_clock() -> None:
    clocks = Clocks(lambda run: 0, lambda source, target, bytes: bytes)
    (device,) = open_devices("cuda:0", 1, "cuda:0", REGISTRY, clocks).present
    assert isinstance(device, BufferDevice)
    first = device.mark()
    array = device.put(X)
    last = device.mark()
    assert clocks.now == 0
    assert isinstance(first, TimedMark)
    assert isinstance(last, TimedMark)
    last.wait()
    assert last.ns_since(first) == X.nbytes
    assert clocks.now == clocks.makespan_ns == X.nbytes
    device.get(array)
    assert clocks.now == 2 * X.nbytes
    device.put(X)
    device.synchronise()
    assert clocks.now == 3 * X.nbytes
    assert clocks.busy_until("cuda:0") == 3 * X.nbytes


def test_prices_of_the_planner_are_the_times_of_a_topology() -> None:
    topology = PRESETS["2xh100"]
    clocks = Clocks.of(topology)
    times: dict[str, int] = {}
    planned_ns = clocks.run_ns

    def run_ns(op: RunOp) -> int:
        (label,) = (inner.label.data for inner in op.walk() if isinstance(inner, KernelOp))
        return times.setdefault(label, planned_ns(op))

    clocks.run_ns = run_ns
    devices = emulated(clocks)
    session = Session(devices, topology=topology, telemetry=False)
    executable = session.compile(BESIDE, optimize=False)
    executable(X)
    clocks.reset()
    executable(X)
    link = transfer_ns(topology, "cpu", "cuda:0", X.nbytes)
    assert (times["c"], link) == (4_001, 10_001)
    assert times["h"] == times["z"] < link
    assert clocks.makespan_ns == link + times["c"] + link + times["z"]


def test_a_device_that_is_not_emulated_has_no_virtual_clock() -> None:
    clocks = Clocks(lambda run: 0, lambda source, target, bytes: 0)
    with pytest.raises(ArgumentError, match="vulkan:0 is not emulated"):
        open_devices("cpu,cuda:0,vulkan:0", 1, "cuda:0", REGISTRY, clocks)


def test_a_saved_program_has_no_times(tmp_path: Path) -> None:
    executable, clocks = compiled(BESIDE, {"c": 1, "h": 1, "z": 1})
    executable.save(tmp_path / "p.fuel")
    devices = emulated(clocks)
    with pytest.raises(ArgumentError, match="do not know what"):
        Session(devices, telemetry=False).load(tmp_path / "p.fuel")


def test_devices_without_clocks_are_as_ever() -> None:
    (device,) = open_devices("cuda:0", 1, "cuda:0", REGISTRY).present
    assert type(device) is BufferDevice
    assert device.name == DeviceAttr.of("cuda:0")
