# SPDX-License-Identifier: MIT OR Apache-2.0
"""Signals, tiers and the sampler."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.errors import ArgumentError, DeviceUnavailable
from fuel_dialect.targets.registry import description_of
from fuel_runtime.devices.cuda.telemetry import provider as nvml_provider
from fuel_runtime.devices.interface import Limits
from fuel_runtime.devices.present import Devices
from fuel_runtime.telemetry import providers
from fuel_runtime.telemetry.providers import Dial, HostProvider, Script
from fuel_runtime.telemetry.sampler import Smoothed, Telemetry
from fuel_runtime.telemetry.signals import NO_TIERS, UNKNOWN, Signals, Tiers, next_tiers

GIB = 1 << 30


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_nobody_told_is_unknown_not_zero() -> None:
    assert UNKNOWN.free_bytes is None
    assert UNKNOWN.occupied is None
    assert next_tiers(NO_TIERS, UNKNOWN) == Tiers(None, None, None)
    assert next_tiers(NO_TIERS, Signals(0, GIB, 0.0)) == Tiers(0, 2, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"load": 1.5},
        {"load": -0.1},
        {"free_bytes": -1},
        {"slots": 0},
        {"load": float("nan")},
        {"pending": "4"},
    ],
)
def test_signals_that_no_device_says_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        Signals(**wrong)


def test_work_that_waits_is_load() -> None:
    assert Signals(pending=4, slots=1).occupied == 0.8
    assert Signals(pending=0).occupied == 0
    assert Signals(pending=4, load=0.9).occupied == 0.9


def test_memory_has_another_way_back() -> None:
    tiers = NO_TIERS
    seen: list[int | None] = []
    for free in (50, 14, 17, 21, 4, 7, 9, 21):
        tiers = next_tiers(tiers, Signals(free, 100))
        seen.append(tiers.memory)
    assert seen == [0, 1, 1, 0, 2, 2, 1, 0]


def test_a_size_fits_again_with_some_to_spare() -> None:
    tiers = NO_TIERS
    seen: list[int | None] = []
    for free in (200, 99, 101, 124, 125, 100):
        tiers = next_tiers(tiers, Signals(free, 10_000), (100,))
        seen.append(tiers.fit)
    assert seen == [1, 0, 0, 0, 1, 1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_tiers_of_load_follow_the_load(loads: list[float]) -> None:
    tiers = NO_TIERS
    for load in loads:
        tiers = next_tiers(tiers, Signals(load=load))
        assert tiers.load is not None
        assert 0 <= tiers.load - sum(step / 10 <= load for step in range(1, 10)) <= 1


def test_an_epoch_is_new_when_a_tier_is() -> None:
    script = Script([Signals(load=x) for x in (0.0, 0.01, 0.02, 0.9, 0.9)])
    telemetry = Telemetry({"cuda:0": script})
    epochs = [telemetry.poll().epoch for _ in range(5)]
    assert epochs[0] == epochs[1] == epochs[2] == epochs[3] < epochs[4] == telemetry.epoch


def test_one_sample_far_off_is_noise() -> None:
    assert Smoothed(0.1).after(0.9) == Smoothed(0.1, 1)
    assert Smoothed(0.1, 1).after(0.8) == Smoothed(0.8)
    assert Smoothed(0.1, 1).after(0.1).value == 0.1


def test_a_provider_that_fails_says_nothing() -> None:
    def fails() -> Signals:
        raise DeviceUnavailable("it is closed")

    assert Telemetry({"cuda:0": fails}).poll().of("cuda:0") == UNKNOWN


def test_a_suspended_device_is_tried_again_later_and_later() -> None:
    clock = Clock()
    telemetry = Telemetry(clock=clock, backoff_s=1)
    telemetry.suspend("cuda:0", "out of memory")
    first = telemetry.epoch
    assert telemetry.poll().suspended == {"cuda:0": "out of memory"}
    clock.now += 1
    assert telemetry.poll().suspended == {}
    assert telemetry.epoch == first + 1
    assert telemetry.on_trial == {"cuda:0"}
    telemetry.suspend("cuda:0", "again")
    clock.now += 1.5
    assert telemetry.poll().suspended
    clock.now += 0.5
    assert not telemetry.poll().suspended
    telemetry.succeed("cuda:0")
    assert telemetry.on_trial == frozenset()
    telemetry.suspend("cuda:0", "anew")
    clock.now += 1
    assert not telemetry.poll().suspended
    telemetry.stop()


def test_the_thread_samples_and_ends_with_its_owner() -> None:
    asked = threading.Event()

    def provider() -> Signals:
        asked.set()
        return Signals(load=0.5)

    others = _threads()
    telemetry = Telemetry({"cpu": provider}, interval_s=0.001)
    assert not telemetry.is_running
    telemetry.start()
    telemetry.start()
    assert asked.wait(5)
    assert len(_threads() - others) == 1
    alive = weakref.ref(telemetry)
    del telemetry
    for _ in range(500):
        gc.collect()
        if alive() is None and not _threads() - others:
            break
        time.sleep(0.01)
    assert not _threads() - others


def _threads() -> set[threading.Thread]:
    """The threads that sample, those of sessions that other tests keep among them."""
    return {thread for thread in threading.enumerate() if thread.name == "fuel telemetry"}


def test_without_anything_to_ask_there_is_no_thread() -> None:
    telemetry = Telemetry()
    telemetry.start()
    assert not telemetry.is_running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_fork_leaves_the_thread_behind() -> None:
    telemetry = Telemetry({"cpu": lambda: Signals(load=0.0)}, interval_s=0.01)
    telemetry.start()
    epoch = telemetry.epoch
    child = os.fork()
    if not child:
        is_new = not telemetry.is_running and telemetry.epoch > epoch
        telemetry.start()
        telemetry.poll()
        os._exit(0 if is_new and telemetry.is_running else 1)
    _, status = os.waitpid(child, 0)
    telemetry.stop()
    assert status == 0


def test_the_host_tells_memory_and_the_load_of_others() -> None:
    signals = HostProvider(2)()
    assert signals.free_bytes is not None
    assert signals.total_bytes is not None
    assert 0 < signals.free_bytes < signals.total_bytes


def test_a_dial_speaks_over_a_provider() -> None:
    dial = Dial(lambda: Signals(5, 10))
    dial.set(load=0.5)
    assert dial() == Signals(5, 10, 0.5)
    with pytest.raises(ArgumentError):
        dial.set(load=2)
    dial.clear()
    assert dial() == Signals(5, 10)


class FakeNvml:
    NVML_TEMPERATURE_GPU = NVML_CLOCK_SM = 0

    class NVMLError(Exception):
        pass

    def __init__(self, shares: list[tuple[int, int]] | None) -> None:
        self.shares = shares

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByIndex(self, card: int) -> int:
        if card:
            raise self.NVMLError
        return card

    def nvmlDeviceGetProcessUtilization(self, handle: int, since: int) -> list[Any]:
        if self.shares is None:
            raise self.NVMLError
        return [type("Share", (), {"pid": pid, "smUtil": use}) for pid, use in self.shares]

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 61


def seven_loads(device: DeviceAttr) -> Callable[[], Signals]:
    return lambda: Signals(load=device.ordinal.data / 10)


def test_a_description_names_who_tells_of_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    described = description_of("triton")
    assert described is not None
    told = replace(described, telemetry="a.module:seven_loads")
    monkeypatch.setattr(providers, "description_of", lambda name: told)
    code = {"a.module:seven_loads": seven_loads}
    monkeypatch.setattr(providers, "function_named", code.__getitem__)
    card = DeviceAttr.of("cuda:7")
    device: Any = SimpleNamespace(
        name=card,
        targets=(TargetAttr.of(card, "triton"),),
        limits=Limits(),
        free_bytes=lambda: 5,
        total_bytes=lambda: 9,
    )
    host: Any = SimpleNamespace()
    for emulated, load in ((), 0.7), ((card,), None):
        devices = Devices("", (device,), (), host, 2, frozenset(emulated))
        assert providers.providers_of(devices)["cuda:7"]() == Signals(5, 9, load)


def test_nvml_tells_the_load_of_others() -> None:
    provider = nvml_provider(DeviceAttr.of("cuda:0"), FakeNvml([(os.getpid(), 90), (-1, 30)]))
    assert provider is not None
    assert provider() == Signals(load=0.3, temperature_c=61)
    silent = nvml_provider(DeviceAttr.of("cuda:0"), FakeNvml(None))
    assert silent is not None
    assert silent().load is None
    assert nvml_provider(DeviceAttr.of("cuda:1"), FakeNvml(None)) is None
