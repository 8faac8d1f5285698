# SPDX-License-Identifier: MIT OR Apache-2.0
"""Timed calls on a CUDA card are measured by its events, and do not stop its stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fake_cards import FakeCard, fake_cards
from fake_cupy import FakeCupy, FakeError
from fuel_dialect import knobs
from fuel_runtime import Executable, Session
from fuel_runtime.call import call_times
from fuel_runtime.call.call_times import CallTimes
from fuel_runtime.call.live import Live
from fuel_runtime.devices.marks import PASSED, Mark, TimedMark
from fuel_runtime.measurement_store import MeasurementStore
from live_programs import ONE, X, one

LAUNCH_MS = 1e6
"""So long that no clock of the host could have measured it."""


@pytest.fixture
def cupy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    monkeypatch.setenv(knobs.CACHE_DIR, str(tmp_path))
    made = FakeCupy()
    made.launch_ms = LAUNCH_MS
    yield made
    for card in list(FakeCard.made):
        card.close()


def compiled(cupy: FakeCupy, file: Path) -> tuple[Session, Executable]:
    session = Session(fake_cards(cupy, 0), telemetry=False, measurements=file)
    return session, session.compile(ONE, optimize=False)


def test_what_is_recorded_comes_from_the_events(cupy: FakeCupy, tmp_path: Path) -> None:
    session, exe = compiled(cupy, tmp_path / "times.db")
    assert session.calibrate(exe, X) == 2
    launches = cupy.calls("replay")[-1][1]
    found = {
        key.target: each.ns for key, each in MeasurementStore(tmp_path / "times.db").load().items()
    }
    wanted = launches * LAUNCH_MS * 1e6
    assert wanted <= found["cuda:0/triton"] < wanted * 1.01
    assert found["cpu/numpy"] < wanted * 0.01


def test_the_host_does_not_wait_between_a_run_and_its_mark(cupy: FakeCupy, tmp_path: Path) -> None:
    session, exe = compiled(cupy, tmp_path / "times.db")
    session.calibrate(exe, X)
    names = [call[0] for call in cupy.log]
    replays = [n for n, name in enumerate(names) if name == "replay"]
    assert {names[number + 1] for number in replays} == {"record"}
    assert {names[number - 1] for number in replays[1:]} == {"record"}


def test_an_arm_that_fails_when_its_time_is_read_is_left(cupy: FakeCupy, tmp_path: Path) -> None:
    _, exe = compiled(cupy, tmp_path / "times.db")
    live = cast(Live, exe._live)  # pyright: ignore[reportPrivateUsage]
    cupy.failures["elapsed"] = FakeError("unspecified launch failure", 719)
    (got,) = live.timed(None, (X,))
    np.testing.assert_allclose(got, one(X), rtol=1e-5, atol=1e-6)
    (fault,) = exe.report().faults
    assert "cuda:0 failed: unspecified launch failure" in str(fault)
    assert [branch.arm for branch in exe.report().branches] == [1]


class Moment(TimedMark):
    """A mark that is over."""

    def __init__(self, ns: int) -> None:
        self.ns = ns

    def is_done(self) -> bool:
        return True

    def ns_since(self, first: TimedMark) -> float:
        return self.ns - cast(Moment, first).ns


class Clocked:
    """A device with a clock or without, and a host whose clock goes on as it waits."""

    def __init__(self, marks: bool) -> None:
        self.marks, self.now, self.pending, self.log = marks, 0, 0, list[str]()

    def run(self, ns: int) -> None:
        self.pending += ns

    def mark(self) -> Mark:
        return Moment(self.now + self.pending) if self.marks else PASSED

    def wait(self, mark: Mark) -> None:
        mark.wait()

    def synchronise(self) -> None:
        self.log.append("wait")
        self.now, self.pending = self.now + self.pending, 0


@pytest.mark.parametrize("marks", [True, False])
def test_no_work_is_counted_twice(marks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Clocked(marks)
    clock = SimpleNamespace(perf_counter_ns=lambda: device.now)
    monkeypatch.setattr(call_times, "time", clock)
    times = CallTimes(cast(Any, {"cuda:0": device}))
    for number, ns in ((0, 50), (1, 70)):
        run = cast(Any, SimpleNamespace())
        started = times.start(run, ["cuda:0"])
        device.run(ns)
        times.stop(run, started, [number])
    assert device.log == ([] if marks else ["wait"] * 2)
    transfer = object.__new__(call_times.Transfer)
    started = times.start(transfer, ["cuda:0"])
    device.run(20)
    times.stop(transfer, started, [1])
    assert len(list(times.read())) == (2 if marks else 0)
    assert times.spent == {0: 50, 1: 90}
