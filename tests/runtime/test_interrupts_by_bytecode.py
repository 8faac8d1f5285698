# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Interrupts calls, updates of state, recordings and switches of arm before each of their bytecodes.

After each interrupt the state is whole or says that it is not, the same call gives the right
results, and devices have the memory back that the call took. Each test takes some of the moments,
evenly spread; its slow twin takes all.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest

from effort import SLOW
from fake_devices import FakeDriver, fake
from fuel_dialect.errors import StateError
from fuel_runtime import Executable, Session, State
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.present import Devices
from interrupting import (
    WIDTH,
    Interrupt,
    contents,
    cumulative,
    interrupted,
    moments,
)
from live_programs import ONE, STATE, Lab, X, one

SOME = 40
"""The moments that a quick test takes."""

EVERY = [pytest.param(SOME, id="some"), pytest.param(0, id="every", marks=SLOW)]


def spread(count: int, most: int) -> Iterator[int]:
    """Yields the moments to interrupt: all, or about `most` of them."""
    assert count > 0
    return iter(range(1, count + 1, max(count // most, 1) if most else 1))


def buffer_devices(devices: Devices) -> list[BufferDevice]:
    return [device for device in devices.present if isinstance(device, BufferDevice)]


def used(device: BufferDevice) -> tuple[int, int]:
    """The bytes that values hold on a device, and its recordings."""
    gc.collect(1)
    driver = cast(FakeDriver, device.driver)
    with device.lock:
        device._collect()  # pyright: ignore[reportPrivateUsage]
        return driver.used - device.pool.idle_bytes, len(driver.recordings)


def cleared(device: BufferDevice) -> None:
    with device.lock:
        device._trim()  # pyright: ignore[reportPrivateUsage]


ONES = np.ones((1, WIDTH), np.float32)


def expected(before: dict[str, Any]) -> dict[str, Any]:
    """Returns the state that a call with ones leaves."""
    cache = np.array(before["cache"], np.float32)
    cache[1] = 1
    total = np.array(before["total"], np.float32)
    return {"cache": cache.tolist(), "total": (np.tanh(total + 1) + total).tolist()}


def assert_whole(exe: Executable, state: State, before: dict[str, Any]) -> str:
    """The state is as before, as after, or says that it is neither; it can be used or freed."""
    after = expected(before)
    if not state.is_valid:
        with pytest.raises(StateError, match="half updated"):
            state["cache"]
        with pytest.raises(StateError, match="half updated"):
            exe(ONES, state=state)
        state.free()
        return "invalid"
    found = contents(state)
    if found != before:
        np.testing.assert_equal(found["cache"], after["cache"])
        np.testing.assert_allclose(found["total"], after["total"], rtol=1e-6)
        return "after"
    exe(ONES, state=state)
    np.testing.assert_allclose(contents(state)["total"], after["total"], rtol=1e-6)
    return "before"


@pytest.mark.parametrize("most", EVERY)
@pytest.mark.parametrize("names", ["cpu", "cpu,cuda:0"])
def test_a_state_is_whole_after_an_interrupted_call(names: str, most: int) -> None:
    exe = cumulative(names)
    exe(ONES, state=exe.new_state())
    count = moments(lambda: exe(ONES, state=exe.new_state()), "opcode")
    seen: set[str] = set()
    for at in spread(count, most):
        state = exe.new_state(total=np.ones(WIDTH, np.float32))
        before = contents(state)
        with suppress(Interrupt), interrupted(at, "opcode"):
            exe(ONES, state=state)
        seen.add(assert_whole(exe, state, before))
    assert {"before", "invalid"} <= seen


UPDATES: dict[str, Callable[[State], object]] = {
    "new": lambda state: state.type.make({"total": np.ones(WIDTH, np.float32)}),
    "read": lambda state: state["total"],
    "numpy": lambda state: state.numpy(),
    "copy": lambda state: state.copy(),
    "free": lambda state: state.free(),
}


@pytest.mark.parametrize("most", EVERY)
@pytest.mark.parametrize("what", UPDATES)
@pytest.mark.parametrize("names", ["cpu", "cpu,cuda:0"])
def test_a_state_that_is_made_read_or_freed(names: str, what: str, most: int) -> None:
    exe = cumulative(names)
    exe(ONES, state=exe.new_state())
    count = moments(lambda: UPDATES[what](exe.new_state()), "opcode")
    for at in spread(count, most):
        state = exe.new_state()
        before = contents(state)
        with suppress(Interrupt), interrupted(at, "opcode"):
            UPDATES[what](state)
        if what != "free" or state.is_valid:
            assert contents(state) == before
            assert assert_whole(exe, state, before) == "before"
        state.free()


RECORDED = """
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %y = fuel.exp %x {placement = #fuel.device<cuda:0>} : tensor<1024xf32>
  %z = fuel.neg %y {placement = #fuel.device<cuda:0>} : tensor<1024xf32>
  func.return %z : tensor<1024xf32>
}
"""


@pytest.mark.parametrize("most", EVERY)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_recording(is_first: bool, most: int) -> None:
    """The first call takes lasting memory too; later ones record for the memory that they have."""
    x = np.zeros(1024, np.float32)
    want = np.full(1024, -1, np.float32)
    devices = fake("cpu,cuda:0", cuda=1 << 16)
    (device,) = buffer_devices(devices)
    session = Session(devices)

    def fresh() -> Executable:
        exe = session.compile(RECORDED)
        if not is_first:
            exe(x)
            cleared(device)
        return exe

    exe = fresh()
    count = moments(partial(exe, x), "opcode")
    held = used(device)
    for at in spread(count, most):
        if is_first:
            exe = fresh()
        else:
            cleared(device)
        with suppress(Interrupt), interrupted(at, "opcode"):
            exe(x)
        for _ in range(2):
            np.testing.assert_array_equal(exe(x)[0], want)
        assert used(device) == held


def test_an_executable_that_goes() -> None:
    """None of the runtime's code runs then, so that no interrupt can come between."""
    devices = fake("cpu,cuda:0", cuda=1 << 16)
    (device,) = buffer_devices(devices)
    exe = Session(devices).compile(RECORDED)
    exe(np.zeros(1024, np.float32))
    held = [exe]
    del exe
    assert used(device) == (0, 1)
    assert moments(held.clear, "opcode") == 0
    assert used(device) == (0, 0)


def assert_right(results: list[Any]) -> None:
    for got in results:
        np.testing.assert_allclose(got, one(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", EVERY)
def test_a_switch_to_another_arm(most: int) -> None:
    lab = Lab()
    exe = lab.compile(ONE)
    (device,) = buffer_devices(lab.devices)
    loads = (0.9, 0.0)

    def turned(number: int) -> None:
        lab.dials["cuda:0"].set(load=loads[number % 2])
        lab.poll()

    for number in range(4):
        turned(number)
        exe(X)
    turned(0)
    count = moments(lambda: exe(X), "opcode")
    held = used(device)
    for number, at in enumerate(spread(count, most), 1):
        turned(number)
        results: list[Any] = []
        with suppress(Interrupt), interrupted(at, "opcode"):
            results = list(exe(X))
        again = list(exe(X))
        assert_right([*results, *again, *exe(X)])
        assert exe.route()["arms"] == {"d0": 1 - number % 2}
        assert {b.decision: b.arm for b in exe.report().branches} == {"d0": 1 - number % 2}
        del results, again
        assert used(device) == held


@pytest.mark.parametrize("most", EVERY)
def test_a_switch_with_state(most: int) -> None:
    lab = Lab()
    exe = lab.compile(STATE)
    for load in (0.0, 0.9, 0.0, 0.9):
        lab.dials["cuda:0"].set(load=load)
        lab.poll()
        exe(X, state=exe.new_state())
    loads = (0.9, 0.0)
    lab.dials["cuda:0"].set(load=0.0)
    lab.poll()
    count = moments(lambda: exe(X, state=exe.new_state()), "opcode")
    for number, at in enumerate(spread(count, most)):
        lab.dials["cuda:0"].set(load=loads[number % 2])
        lab.poll()
        state = exe.new_state()
        with suppress(Interrupt), interrupted(at, "opcode"):
            exe(X, state=state)
        if not state.is_valid:
            state.free()
            state = exe.new_state()
        calls = int(not np.array_equal(state["s"], np.zeros(256)))
        np.testing.assert_allclose(state["s"], calls * X, rtol=1e-6)
        (got,) = exe(X, state=state)
        total = (calls + 1) * X
        np.testing.assert_allclose(state["s"], total, rtol=1e-6)
        np.testing.assert_allclose(got, np.cos(np.sin(np.square(total))), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", EVERY)
def test_a_fault_that_is_survived(most: int) -> None:
    """The handling of a fault is interrupted: the next call meets no fault and is right."""
    lab = Lab()
    exe = lab.compile(ONE)
    driver = lab.driver("cuda:0")
    whole = driver.replay

    def failing(recording: int) -> None:
        from fuel_dialect.errors import DeviceFailure

        raise DeviceFailure("cuda:0 failed: injected")

    def faulty() -> Any:
        driver.replay = failing  # type: ignore[method-assign]
        try:
            return exe(X)
        finally:
            driver.replay = whole  # type: ignore[method-assign]

    def recovered() -> None:
        lab.now += 100
        lab.poll()
        exe(X)

    recovered()
    count = moments(faulty, "opcode")
    for at in spread(count, most):
        recovered()
        with suppress(Interrupt), interrupted(at, "opcode"):
            np.testing.assert_allclose(faulty()[0], one(X), rtol=1e-5, atol=1e-6)
        driver.replay = whole  # type: ignore[method-assign]
        np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)


@SLOW
def test_weights_give_way_after_an_interrupt() -> None:
    """Weights of a call that is interrupted while some give way can give way later."""
    widths = [8, 16, 8, 24, 8]
    types = [f"tensor<1x{width}xf32>" for width in widths]
    shapes = list(pairwise(widths))
    weights = {f"w{n}": np.ones(shape, np.float32) for n, shape in enumerate(shapes)}
    lines = [f"func.func @main(%y0: {types[0]}) -> {types[-1]} {{"]
    for n, (rows, columns) in enumerate(shapes):
        weight = f"tensor<{rows}x{columns}xf32>"
        lines.append(f'%w{n} = fuel.weight "w{n}" : {weight}')
        lines.append(
            f"%y{n + 1} = fuel.matmul %y{n}, %w{n} : {types[n]}, {weight} -> {types[n + 1]}"
        )
    devices = fake("cpu,cuda:0")
    session = Session(devices, device="cuda:0", memory={"cuda:0": 1536}, telemetry=False)
    text = "\n  ".join([*lines, f"func.return %y4 : {types[-1]}"])
    exe = session.compile(f"{text}\n}}\n", weights=weights)
    x = np.arange(8, dtype=np.float32).reshape(1, 8)
    (device,) = buffer_devices(devices)
    assert exe.memory().of("cuda:0").streamed
    for at in range(1, moments(partial(exe, x), "line") + 1):
        with suppress(Interrupt), interrupted(at, "line"):
            exe(x)
        np.testing.assert_array_equal(exe(x)[0], np.full((1, 8), x.sum() * 16 * 8 * 24))
        assert cast(FakeDriver, device.driver).used <= 1536
    del exe
    device.close()
    assert not cast(FakeDriver, device.driver).memory
