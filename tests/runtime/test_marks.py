# SPDX-License-Identifier: MIT OR Apache-2.0
"""Marks say when a device has done its work, and nobody else waits for those who wait for one."""

from __future__ import annotations

import threading
from typing import cast

import numpy as np
import pytest

from fake_cards import FakeCard, fake_cards
from fake_cupy import FakeCupy, FakeError
from fuel_dialect.errors import DeviceFailure
from fuel_runtime import Session
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.marks import MOST_MARKS, PASSED, Mark, Progress, TimedMark
from live_programs import X


class Late(Mark):
    """A mark that is done at the n-th look."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_done(self) -> bool:
        self.looks -= 1
        return self.looks <= 0


def card(cupy: FakeCupy) -> BufferDevice:
    return cast(BufferDevice, fake_cards(cupy, 0).present[1])


def test_a_mark_is_looked_at_until_it_is_done() -> None:
    mark = Late(4)
    mark.wait()
    assert mark.looks == 0


def test_a_wait_ends_where_it_is_not_wanted_any_more() -> None:
    wanted = iter([True, True, False])
    assert not Late(9).wait_while(lambda: next(wanted))
    assert PASSED.wait_while(lambda: False)


def test_an_event_is_done_when_the_work_before_it_is() -> None:
    cupy = FakeCupy()
    device = card(cupy)
    first = device.mark()
    device.put(np.arange(4))
    last = device.mark()
    device.put(np.arange(4))
    assert isinstance(first, TimedMark)
    assert isinstance(last, TimedMark)
    assert not last.is_done()
    last.wait()
    assert last.is_done()
    assert last.ns_since(first) == 0
    assert not device.mark().is_done()
    device.close()


def test_a_look_at_an_event_tells_of_a_failure() -> None:
    cupy = FakeCupy()
    device = card(cupy)
    mark = device.mark()
    cupy.cuda.runtime.eventQuery = lambda event: 719
    cupy.failures["wait"] = FakeError("unspecified launch failure", 719)
    with pytest.raises(DeviceFailure, match="cuda:0 failed: unspecified launch failure"):
        mark.is_done()
    cupy.failures.clear()
    device.close()


def test_a_read_waits_for_what_made_its_value_and_not_for_what_came_after() -> None:
    cupy = FakeCupy()
    devices = fake_cards(cupy, 0)
    device = cast(BufferDevice, devices.present[1])
    program = "func.func @main(%x: T) -> T {\n  %0 = fuel.sin %x : T\n  func.return %0 : T\n}\n"
    program = program.replace(" T", " tensor<256xf32>")
    session = Session(devices, telemetry=False, device="cuda:0")
    exe = session.compile(program, results="cuda:0")
    stream = cast(FakeCard, device.driver).stream
    values = [exe(X + number)[0] for number in range(3)]
    for number, value in enumerate(values):
        np.testing.assert_allclose(np.asarray(value), np.sin(X + number), rtol=1e-5, atol=1e-6)
        assert bool(stream.waiting) == (number < 2)
    device.close()


def test_values_older_than_the_marks_are_waited_for_with_the_oldest() -> None:
    made: list[int] = []

    def mark() -> Mark:
        made.append(len(made))
        return Late(len(made))

    progress = Progress(mark)
    numbers = [progress.begin_run() for _ in range(MOST_MARKS + 4)]
    assert len(made) == len(numbers) - 1
    oldest = progress.after(numbers[0])
    assert cast(Late, oldest).looks == 4
    assert cast(Late, progress.after(numbers[-2])).looks == len(made)
    last = progress.after(numbers[-1])
    assert progress.after(numbers[-1]) is last
    assert len(made) == len(numbers)
    put = progress.asked()
    progress.begin_run()
    assert len(made) == len(numbers), "between what is brought and a run there is no mark"
    assert progress.after(put) is not last


def test_a_thread_that_waits_for_a_device_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = FakeCupy()
    device = card(cupy)
    array = device.put(np.arange(4.0))
    waits, goes_on = threading.Event(), threading.Event()
    mark = device.driver.mark

    def held() -> Mark:
        made = mark()
        inner = made.wait

        def wait() -> None:
            waits.set()
            assert goes_on.wait(30)
            inner()

        monkeypatch.setattr(made, "wait", wait, raising=False)
        return made

    monkeypatch.setattr(device.driver, "mark", held)
    found: list[np.ndarray] = []
    reader = threading.Thread(target=lambda: found.append(device.get(array)))
    reader.start()
    assert waits.wait(30)
    other = device.put(np.ones(4))  # would wait for the reader, if that held the device
    goes_on.set()
    reader.join(30)
    np.testing.assert_array_equal(found[0], np.arange(4.0))
    monkeypatch.undo()
    np.testing.assert_array_equal(device.get(other), np.ones(4))
    device.close()
