# SPDX-License-Identifier: MIT OR Apache-2.0
"""A device that does not answer in time is left, nothing of it is used, and it comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fake_cards import FakeCard, fake_cards
from fake_cupy import FakeCupy
from fake_devices import FakeDriver, fake
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import ArgumentError, DeviceTimeout
from fuel_dialect.targets.numpy import DESCRIPTION as NUMPY
from fuel_lowering.kompute.lower import lower_run
from fuel_runtime import Executable, Session
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.cuda import driver as cuda
from fuel_runtime.devices.emulated.driver import EmulatedDriver
from fuel_runtime.devices.emulated.work import Work
from fuel_runtime.devices.host.device import Host
from fuel_runtime.devices.marks import PASSED
from fuel_runtime.devices.present import Devices
from fuel_runtime.devices.vulkan.driver import open_vulkan
from live_programs import CPU, CUDA, ONE, STATE, Lab, X, arm, arms, branch, lent, one

WITHIN_S = 0.05
TYPE = "tensor<256xf32>"

CUDA_ARM = arm(CUDA, 0, 100)
ONLY = (
    f"func.func @main(%x: {TYPE}) -> {TYPE} {{\n"
    + branch("d0", "%x", "%y", CUDA)
    + f"  func.return %y : {TYPE}\n}}\n"
)


def owner(devices: Devices, name: str = "cuda:0") -> BufferDevice:
    return cast(BufferDevice, next(d for d in devices.present if d.name.label == name))


def released(work: Work) -> None:
    """Lets a device do what it was asked for, and waits for that."""
    work.release()
    work.mark().wait()


# What a session is given.


@pytest.mark.parametrize("given", [0, -1, 0.0, float("nan"), float("inf"), "0.5", "soon", True, []])
def test_what_is_no_time(given: Any) -> None:
    devices = fake("cpu,cuda:0")
    with pytest.raises(ArgumentError, match="session: answer_within is a number of seconds above"):
        Session(devices, memory={"cuda:0": 64}, answer_within=given)
    assert owner(devices).cap is None


def test_the_least_bound_holds() -> None:
    devices = fake("cpu,cuda:0")
    for seconds in (2, 1.5, 3):
        Session(devices, answer_within=seconds)
    assert owner(devices).watchdog.within == 1.5
    Session(devices)
    assert owner(devices).watchdog.within == 1.5


# Calls.


def test_the_arm_of_a_device_that_hangs_is_left_and_taken_again() -> None:
    lab = Lab()
    exe = lab.compile(ONE, answer_within=WITHIN_S)
    lab.poll()
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    assert arms(exe) == {"d0": 0}
    work = lab.driver("cuda:0").work
    work.hang()
    for _ in range(3):
        np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
        assert arms(exe) == {"d0": 1}
    (fault,) = exe.report().faults
    assert "DeviceTimeout: cuda:0 does not answer" in str(fault)
    assert "within 0.05 s" in str(fault)
    # It is tried again, and left again, as long as it hangs.
    lab.now += 11
    lab.poll()
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    assert [fault.device for fault in exe.report().faults] == ["cuda:0", "cuda:0"]
    released(work)
    lab.now += 1000
    lab.poll()
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    assert arms(exe) == {"d0": 0}
    assert len(exe.report().faults) == 2
    assert lent(lab) == 0


def test_without_a_bound_a_call_waits() -> None:
    lab = Lab()
    exe = lab.compile(ONE)
    lab.driver("cuda:0").work.hang(0.2)
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    assert not exe.report().faults


def test_a_short_hang_is_no_fault() -> None:
    lab = Lab()
    exe = lab.compile(ONE, answer_within=30)
    lab.driver("cuda:0").work.hang(0.1)
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    assert not exe.report().faults


def test_where_no_arm_is_left_the_error_names_run_and_device() -> None:
    lab = Lab()
    exe = lab.compile(ONLY.replace(CUDA_ARM, 2 * CUDA_ARM), answer_within=WITHIN_S)
    work = lab.driver("cuda:0").work
    work.hang()
    message = r"main: a transfer on cuda:0: cuda:0 does not answer: .*; no other arm of d0 can run"
    with pytest.raises(DeviceTimeout, match=message):
        exe(X)
    released(work)
    lab.now += 100
    lab.poll()
    np.testing.assert_allclose(exe(X)[0], np.sin(np.square(X)), rtol=1e-5, atol=1e-6)


def test_a_program_without_decisions_has_the_error() -> None:
    lab = Lab()
    exe = lab.compile(ONLY, answer_within=WITHIN_S)
    work = lab.driver("cuda:0").work
    work.hang()
    for _ in range(2):
        with pytest.raises(DeviceTimeout, match="cuda:0 does not answer"):
            exe(X)
    released(work)
    np.testing.assert_allclose(exe(X)[0], np.sin(np.square(X)), rtol=1e-5, atol=1e-6)


def test_a_transfer_blames_the_device_that_hangs_and_not_its_other_end() -> None:
    lab = Lab("cpu,cuda:0,vulkan:0")
    exe = lab.compile(
        f"func.func @main(%x: {TYPE}) -> {TYPE} {{\n"
        + branch("d0", "%x", "%y", CUDA, '#fuel.target<cpu, "numpy">')
        + branch("d1", "%y", "%z", '#fuel.target<vulkan:0, "kompute">')
        + f"  func.return %z : {TYPE}\n}}\n",
        answer_within=WITHIN_S,
    )
    work = lab.driver("cuda:0").work
    work.hang()
    wanted = np.sin(np.square(np.sin(np.square(X))))
    np.testing.assert_allclose(exe(X)[0], wanted, rtol=1e-5, atol=1e-6)
    assert {fault.device for fault in exe.report().faults} == {"cuda:0"}
    assert arms(exe) == {"d0": 1, "d1": 0}
    released(work)


@pytest.mark.parametrize("settled", [False, True])
def test_a_state_on_the_host_goes_on(settled: bool) -> None:
    lab = Lab()
    exe = lab.compile(STATE, answer_within=WITHIN_S)
    state, total = exe.new_state(), np.zeros_like(X)
    work = lab.driver("cuda:0").work
    for number in range(6):
        if number == 2 * settled:
            work.hang()
        (got,) = exe(X, state=state)
        total = total + X
        np.testing.assert_allclose(got, np.cos(np.sin(np.square(total))), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(state["s"], total, rtol=1e-6)
    assert exe.report().faults
    released(work)


def test_timed_calls_give_up_too(tmp_path: Any) -> None:
    cupy = FakeCupy()
    devices = fake_cards(cupy, 0)
    session = Session(devices, telemetry=False, measurements=tmp_path / "times.db", answer_within=1)
    exe = session.compile(ONE, optimize=False)
    exe(X)
    owner(devices).watchdog.bound(WITHIN_S)
    stream = cast(FakeCard, owner(devices).driver).stream
    stream.is_hung = True
    assert session.calibrate(exe, X) == 1
    stream.is_hung = False
    owner(devices).close()


# Threads.


def test_all_threads_that_wait_for_a_device_are_told() -> None:
    devices = fake("cpu,cuda:0")
    Session(devices, answer_within=WITHIN_S)
    device = owner(devices)
    array = device.put(X)
    work = cast(FakeDriver, device.driver).work
    work.hang()

    def told(number: int) -> bool:
        try:
            device.get(array)
        except DeviceTimeout as error:
            return error.device == "cuda:0"
        return False

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(told, range(16)))
    released(work)
    np.testing.assert_array_equal(device.get(array), X)


def test_threads_go_on_with_other_arms() -> None:
    lab = Lab()
    exe = lab.compile(ONE, answer_within=WITHIN_S)
    work = lab.driver("cuda:0").work

    def call(number: int) -> bool:
        if number == 4:
            work.hang()
        return np.allclose(exe(X + number)[0], one(X + number), rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(call, range(40)))
    released(work)
    assert exe.report().faults
    assert lent(lab) == 0


# Memory.


def test_nothing_of_a_device_is_used_while_it_is_late() -> None:
    devices = fake("cpu,cuda:0")
    session = Session(devices, answer_within=WITHIN_S, poison=True)
    device = owner(devices)
    driver = cast(FakeDriver, device.driver)
    kept, given_up = device.put(X), device.put(X + 1)
    driver.work.hang()
    late = device.copy(kept)  # asked for, and not done
    used = device.held_bytes()
    uses: list[Callable[[], Any]] = [
        lambda: device.get(kept),
        lambda: device.put(X),
        lambda: device.copy(kept),
        lambda: session.put(X, "cuda:0"),
        lambda: Session(devices).put(X, "cuda:0"),
        device.synchronise,
        device.free_bytes,
        device.mark,
    ]
    for use in uses:
        with pytest.raises(DeviceTimeout):
            use()
    written = driver.done["write"]
    del given_up
    # What was given back is neither poisoned nor given to somebody else.
    assert device.held_bytes() == used
    assert driver.done["write"] == written
    released(driver.work)
    device.free_bytes()
    assert device.held_bytes() == {"in use": 2 * X.nbytes, "kept": X.nbytes}
    np.testing.assert_array_equal(device.get(late), X)
    np.testing.assert_array_equal(device.get(kept), X)


def test_a_device_that_hangs_is_closed_without_waiting() -> None:
    devices = fake("cpu,cuda:0")
    Session(devices, answer_within=WITHIN_S)
    device = owner(devices)
    driver = cast(FakeDriver, device.driver)
    array = device.put(X)
    driver.work.hang()
    device.close()
    assert driver.is_open, "memory that it may write to is not given back"
    device.close()
    with pytest.raises(Exception, match="cuda:0 is closed"):
        device.get(array)
    released(driver.work)


END = """
import numpy as np
from fake_devices import fake
from fuel_runtime import Session

devices = fake("cpu,cuda:0")
session = Session(devices, answer_within=0.05)
array = session.put(np.arange(4.0), "cuda:0")
devices.present[1].driver.work.hang()
again = array.copy()
print("asked for")
"""


def test_a_process_ends_while_a_device_hangs() -> None:
    here = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", END],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "asked for\n", "")


# The emulated device.


def test_an_emulated_device_does_late_what_it_was_asked_for() -> None:
    pytest.importorskip("triton")
    session = Session("cpu,cuda:0", emulate="cuda:0", telemetry=False, answer_within=WITHIN_S)
    device = owner(session.devices)
    exe = session.compile(ONE, optimize=False)
    exe(X)
    driver = cast(EmulatedDriver, device.driver)
    array = device.put(X)
    driver.work.hang()
    other = device.copy(array)
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    assert arms(exe) == {"d0": 1}
    with pytest.raises(DeviceTimeout):
        device.get(other)
    released(driver.work)
    np.testing.assert_array_equal(device.get(other), X)


def test_work_is_done_in_order_and_tells_what_it_failed_with() -> None:
    work, done = Work(), list[int]()
    assert work.mark() is PASSED
    work.hang()
    work.hang(9)  # hangs already
    first = work.mark()
    for number in range(3):
        work.do(lambda number=number: done.append(number))
    last = work.mark()
    work.do(lambda: [][0])
    assert (first.is_done(), last.is_done(), done) == (False, False, [])
    work.release()
    last.wait()
    assert done == [0, 1, 2]
    with pytest.raises(IndexError):
        work.finish(owner(fake("cuda:0")).watchdog)
    work.finish(owner(fake("cuda:0")).watchdog)


# Vulkan.


@pytest.mark.needs_vulkan
def test_a_vulkan_device_that_is_late_is_left_and_taken_again() -> None:
    steps = "".join(f"    %{n + 1} = fuel.sin %{n} : tensor<262144xf32>\n" for n in range(1, 8))
    big = "tensor<262144xf32>"
    program = (
        f"func.func @main(%x: {big}) -> {big} {{\n"
        f'  %y = fuel.branch "d0"(%a = %x : {big}) -> {big}\n'
        f'  arm on #fuel.target<vulkan:0, "kompute"> {{\n'
        f"    %m = fuel.copy %a to #fuel.device<vulkan:0> : {big}\n    %1 = fuel.sin %m : {big}\n"
        f"{steps}    fuel.yield %8 : {big}\n  }}\n"
        f"  arm on {CPU} {{\n    %n = fuel.neg %a : {big}\n    fuel.yield %n : {big}\n  }}\n"
        f"  func.return %y : {big}\n}}\n"
    )
    name = DeviceAttr.of("vulkan:0")
    device = BufferDevice(name, open_vulkan(name), {"kompute": lower_run})
    devices = Devices("cpu,vulkan:0", (Host(1, [NUMPY]), device), (), Host(1, [NUMPY]), 1)
    lab = Lab("cpu")
    session = Session(devices, telemetry=lab.telemetry, answer_within=60)
    exe = session.compile(program, optimize=False)
    x = np.linspace(-2, 2, 1 << 18, dtype=np.float32)
    (first,) = exe(x)
    assert arms(exe) == {"d0": 0}
    device.watchdog.bound(1e-4)
    np.testing.assert_array_equal(exe(x)[0], -x)
    (fault,) = exe.report().faults
    assert "DeviceTimeout: vulkan:0 does not answer" in str(fault)
    device.watchdog.within = 60
    while device.watchdog.late is not None:
        with suppress(DeviceTimeout):
            device.synchronise()
    lab.now += 100
    lab.poll()
    np.testing.assert_array_equal(exe(x)[0], first)
    assert arms(exe) == {"d0": 0}
    device.close()


# CUDA.


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[Devices]:
    monkeypatch.setattr(cuda, "STAGING_BYTES", 256)
    devices = fake_cards(FakeCupy(), 0, 1)
    for device in devices.present:
        device.answer_within(WITHIN_S)
    yield devices
    for name in ("cuda:0", "cuda:1"):
        go_on(owner(devices, name))
        owner(devices, name).close()


def go_on(device: BufferDevice) -> None:
    """Lets a card that hangs do what it was asked for."""
    card = cast(FakeCard, device.driver)
    card.stream.is_hung = False
    card.mark().wait()


PLACES: dict[str, Callable[[BufferDevice, Any], Any]] = {
    "get": lambda device, array: device.get(array),
    "put": lambda device, array: [device.put(X) for _ in range(9)],
    "allocate": lambda device, array: device.put(np.zeros(1 << 12)),
    "synchronise": lambda device, array: device.synchronise(),
    "interface": lambda device, array: device.array_interface(array),
    "trim": lambda device, array: device._trim(),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_card_that_hangs_is_waited_for_nowhere(cards: Devices, place: str) -> None:
    device = owner(cards)
    array, other, spare = (device.put(X) for _ in range(3))
    device.synchronise()
    del spare  # its memory is at hand for the copy
    stream = cast(FakeCard, device.driver).stream
    stream.is_hung = True
    copied = device.copy(array)
    with pytest.raises(DeviceTimeout, match="cuda:0 does not answer"):
        PLACES[place](device, array)
    with pytest.raises(DeviceTimeout, match="cuda:0 does not answer"):
        device.get(other)
    go_on(device)
    np.testing.assert_array_equal(device.get(copied), X)


def test_a_value_of_a_card_that_hangs_is_not_brought_to_another(cards: Devices) -> None:
    first, second = owner(cards), owner(cards, "cuda:1")
    array = first.put(X)
    stream = cast(FakeCard, first.driver).stream
    stream.is_hung = True
    with pytest.raises(DeviceTimeout, match="cuda:0"):
        first.get(array)
    with pytest.raises(DeviceTimeout, match="cuda:0"):
        second.receive(array)
    np.testing.assert_array_equal(second.get(second.put(X)), X)
    go_on(first)
    np.testing.assert_array_equal(second.get(second.receive(array)), X)


def test_a_card_that_hangs_is_closed_without_waiting(cards: Devices) -> None:
    device = owner(cards)
    array = device.put(X)
    cast(FakeCard, device.driver).stream.is_hung = True
    device.close()
    with pytest.raises(Exception, match="closed"):
        device.get(array)


def test_calls_on_a_card_that_hangs_take_another_arm(cards: Devices) -> None:
    exe: Executable = Session(cards, telemetry=False).compile(ONE, optimize=False)
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    assert arms(exe) == {"d0": 0}
    stream = cast(FakeCard, owner(cards).driver).stream
    stream.is_hung = True
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    assert arms(exe) == {"d0": 1}
    stream.is_hung = False
