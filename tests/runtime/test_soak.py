# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests many calls of many threads while signals change and devices fail; each result counts."""

from __future__ import annotations

import gc
import random
from threading import Lock, Thread
from typing import Any

import numpy as np
import psutil
import pytest

from fuel_dialect.errors import DeviceFailure, FuelError, OutOfMemory
from live_programs import ONE, STATE, TWO, Lab, X, lent, one, two

THREADS, CALLS = 8, 500
NAMES = ("cuda:0", "vulkan:0")


class Weather:
    """Sets the signals of a lab at random, and lets its devices fail now and then."""

    def __init__(self, lab: Lab, seed: int, share: float) -> None:
        self.lab = lab
        self.faults = self.calls = 0
        self._share = share
        self._draw = random.Random(seed)
        self._lock = Lock()
        for name in NAMES:
            driver = lab.driver(name)
            for place in ("allocate", "write", "read", "record", "replay"):
                setattr(driver, place, self._stormy(getattr(driver, place), f"{name}: {place}"))

    def _stormy(self, inner: Any, what: str) -> Any:
        def call(*given: Any) -> Any:
            with self._lock:
                kind = self._draw.choice([DeviceFailure, OutOfMemory])
                fails = self._draw.random() < self._share
                self.faults += fails
                self.calls += 1
            if fails:
                raise kind(f"{what} fails")
            return inner(*given)

        return call

    def change(self) -> None:
        with self._lock:
            for name in NAMES:
                free = 1 << 30 if self._draw.random() < 0.9 else self._draw.choice([0, 1 << 12])
                self.lab.dials[name].set(
                    free_bytes=free, total_bytes=1 << 30, load=self._draw.random() ** 8
                )
            self.lab.now += self._draw.random() * 30
        self.lab.poll(1)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.01, 0.2])
def test_threads_while_signals_change_and_devices_fail(share: float) -> None:
    lab = Lab("cpu,cuda:0,vulkan:0")
    compiled = [lab.compile(TWO), lab.compile(STATE)]
    weather = Weather(lab, seed=7, share=share)
    wrong: list[BaseException] = []
    refused = [0] * THREADS

    def work(number: int) -> None:
        draw, (exe, stateful) = np.random.default_rng(number), compiled
        state, total = stateful.new_state(), np.zeros_like(X)
        try:
            for _ in range(CALLS // 2):
                x = draw.standard_normal(X.shape).astype(np.float32)
                try:
                    got = exe(x)
                except FuelError:
                    refused[number] += 1
                else:
                    for a, b in zip(got, two(x), strict=True):
                        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
                try:
                    (last,) = stateful(x, state=state)
                except FuelError:
                    refused[number] += 1
                    if not state.is_valid:
                        state, total = stateful.new_state(), np.zeros_like(X)
                    continue
                total = total + x
                want = np.cos(np.sin(np.square(total)))
                np.testing.assert_allclose(last, want, rtol=1e-3, atol=1e-4)
        except BaseException as error:
            wrong.append(error)

    threads = [Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        weather.change()
        threads[0].join(0.002)
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
    assert weather.calls > (50 if share > 0.1 else THREADS * CALLS / 4), "devices are used"
    assert (weather.faults > 0) == (share > 0)
    assert sum(refused) == 0 or share > 0.1, "the CPU has an arm of each decision"
    compiled.clear()
    assert lent(lab) == 0


@pytest.mark.slow
@pytest.mark.parametrize("program", ["ONE", "STATE"])
def test_memory_is_flat_over_many_calls(program: str) -> None:
    lab = Lab("cpu,cuda:0,vulkan:0")
    exe = lab.compile({"ONE": ONE, "STATE": STATE}[program])
    weather = Weather(lab, seed=3, share=0.002) if program == "ONE" else None
    process = psutil.Process()
    state = exe.new_state() if program == "STATE" else None
    resident: list[int] = []
    for number in range(10_000):
        if state is None:
            np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-4, atol=1e-5)
        else:
            exe(X, state=state)
        if number % 50 == 0 and weather is not None:
            weather.change()
        if number % 1_000 == 999:
            gc.collect()
            resident.append(process.memory_info().rss)
    assert resident[-1] - resident[2] < 4 << 20, resident
