# SPDX-License-Identifier: MIT OR Apache-2.0
"""Weights that a device has no room for give way and are loaded again; results stay right."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement import assert_close, run
from effort import examples
from fake_devices import FakeDriver, fake
from fuel_dialect.context import load_program, make_context
from fuel_dialect.errors import DeviceFailure, IndexOutOfRange, OutOfMemory
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.targets.machine import Topology
from fuel_passes.memory.sizes import size_class
from fuel_passes.memory.streaming import ROUNDS, WARM
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Executable, Session
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.present import Devices
from machines import machines, placed_programs
from programs import Program

Weights = Mapping[str, Any]


def card_of(devices: Devices) -> BufferDevice:
    (card,) = (device for device in devices.present if isinstance(device, BufferDevice))
    return card


def driver_of(devices: Devices) -> FakeDriver:
    return cast(FakeDriver, card_of(devices).driver)


T = "tensor<1x8xf32>"
CARD, HOST = "{placement = #fuel.device<cuda:0>}", "{placement = #fuel.device<cpu>}"


def program(order: list[int], columns: list[int], stay: bool = True) -> str:
    """
    Returns a program that reads weights in an order, one a kernel: weight n has `columns[n]`.

    It stays on the card, or goes to the host and back behind each kernel.
    """
    lines = [f'%w{n} = fuel.weight "w{n}" : tensor<8x{columns[n]}xf32>' for n in sorted(set(order))]
    last = "x"
    for step, n in enumerate(order):
        wide, weight = f"tensor<1x{columns[n]}xf32>", f"tensor<8x{columns[n]}xf32>"
        part = "{dim = 1 : i64, start = 0 : i64, length = 8 : i64}"
        lines += [
            f"%p{step} = fuel.matmul %{last}, %w{n} {CARD} : {T}, {weight} -> {wide}",
            f"%s{step} = fuel.slice %p{step} {part} : {wide} -> {T}",
            f"%a{step} = fuel.tanh %s{step} {CARD} : {T}",
        ]
        last = f"a{step}"
        if not stay:
            lines.append(f"%h{step} = fuel.neg %{last} {HOST} : {T}")
            last = f"h{step}"
    body = "\n  ".join([*lines, f"func.return %{last} : {T}"])
    return f"func.func @main(%x: {T}) -> {T} {{\n  {body}\n}}\n"


def weights_of(columns: list[int]) -> dict[str, Any]:
    rng = np.random.default_rng(len(columns))
    return {
        f"w{n}": rng.standard_normal((8, count)).astype(np.float32)
        for n, count in enumerate(columns)
    }


X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)


def by_hand(x: Any, weights: Weights, order: list[int]) -> Any:
    """Returns what a program that stays on the card gives."""
    (y,) = evaluate(
        load_program(program(order, [w.shape[1] for w in weights.values()])), x, weights=weights
    )
    return y


def session(devices: Devices, memory: Any = None, strict: bool = False) -> Session:
    """Returns a session that prepares no weights."""
    return Session(
        devices, memory=memory, poison=True, telemetry=False, prepare_bytes=0, strict=strict
    )


def streamed(text: str, weights: Weights, cap: int) -> tuple[Devices, Executable]:
    devices = fake("cpu,cuda:0")
    return devices, session(devices, {"cuda:0": cap}).compile(text, weights=weights)


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draws how many columns each of some weights has, and in which order they are read."""
    columns = draw(st.lists(st.integers(8, 64), min_size=1, max_size=8))
    order = draw(st.lists(st.integers(0, len(columns) - 1), min_size=1, max_size=12))
    return order, columns


@examples(60)
@given(orders(), st.booleans(), st.integers(6, 30))
def test_results_are_right_with_any_room(
    drawn: tuple[list[int], list[int]], stay: bool, room: int
) -> None:
    order, columns = drawn
    text, weights = program(order, columns, stay=stay), weights_of(columns)
    (want,) = evaluate(load_program(text), X, weights=weights)
    devices, exe = streamed(text, weights, room * 256)
    planned = exe.memory().of("cuda:0")
    for _ in range(4):
        if planned.fits:
            np.testing.assert_array_equal(exe(X)[0], want)
        with suppress(OutOfMemory):
            np.testing.assert_array_equal(exe(X)[0], want)
        assert driver_of(devices).used <= room * 256
    del exe
    assert_nothing_is_left(devices)


def assert_nothing_is_left(devices: Devices) -> None:
    for device in devices.present:
        if isinstance(device, BufferDevice):
            device.close()
            assert not cast(FakeDriver, device.driver).memory, "memory is left"


@examples(30)
@given(st.integers(1, 9), st.integers(3, 16), st.booleans())
def test_equal_weights_are_loaded_as_planned(count: int, kibibytes: int, stay: bool) -> None:
    columns, cap = [32] * count, kibibytes << 10
    weights = weights_of(columns)
    devices, exe = streamed(program(list(range(count)), columns, stay=stay), weights, cap)
    planned, card = exe.memory().of("cuda:0"), card_of(devices)
    if not planned.fits:
        return
    brought: list[int] = []
    for _ in range(WARM + ROUNDS):
        before = card.uploaded_bytes
        exe(X)
        brought.append(card.uploaded_bytes - before)
    assert -(-sum(brought[WARM:]) // ROUNDS) == planned.streamed, f"{planned} {brought}"


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, Program]:
    machine = draw(machines())
    return machine, draw(placed_programs(machine))


@examples(60)
@given(cases(), st.sampled_from(["segment", "chain"]), st.integers(10, 100))
def test_random_programs_under_a_bound(
    case: tuple[Topology, Program], granularity: Any, percent: int
) -> None:
    """
    A bound is a share of what the plan wants: results are right, or memory is too little.

    Arms of random programs compute different things, so no other arm may be taken.
    """
    machine, drawn = case
    module = drawn.module.clone()
    OptimizePass(granularity=granularity).apply(make_context(), module)
    names = ",".join(target.device.label for target in machine.targets)
    whole = session(fake(names), strict=True).compile(module, weights=drawn.weights, optimize=False)
    plan = whole.memory()
    caps = {d.device: max(256, d.peak * percent // 100) for d in plan.devices if d.device != "cpu"}
    devices = fake(names)
    exe = session(devices, caps, strict=True).compile(module, weights=drawn.weights, optimize=False)
    want = run(drawn)
    for _ in range(3):
        with suppress(OutOfMemory):
            results = exe(*drawn.arguments)
            assert_close([np.asarray(result) for result in results], want)
            del results
        for device in devices.present:
            if isinstance(device, BufferDevice):
                assert device.pool.taken <= caps.get(device.name.label, 0)
    if exe.memory().devices and all(each.fits for each in exe.memory().devices):
        exe(*drawn.arguments)
    del exe
    assert_nothing_is_left(devices)


SIX = program(list(range(6)), [32] * 6)


def test_a_program_is_cut_so_that_its_weights_fit() -> None:
    weights = weights_of([32] * 6)
    devices, exe = streamed(SIX, weights, 6 << 10)
    planned = exe.memory().of("cuda:0")
    assert planned.fits
    assert 0 < planned.streamed < 6 * 1024
    assert planned.streamed_ns > 0
    assert f"{planned.streamed:,} bytes of weights are loaded again in a call" in str(exe.report())
    assert exe.report().runs_on_route == 6
    whole = session(fake("cpu,cuda:0")).compile(SIX, weights=weights)
    assert whole.report().runs_on_route == 1
    for _ in range(3):
        np.testing.assert_array_equal(exe(X)[0], whole(X)[0])
    assert driver_of(devices).used <= 6 << 10


def test_a_run_that_does_not_fit_alone_names_itself_and_holds_nothing() -> None:
    weights = weights_of([8, 256, 8])
    devices, exe = streamed(program([0, 1, 2], [8, 256, 8]), weights, 4 << 10)
    assert not exe.memory().of("cuda:0").fits
    for _ in range(2):
        with pytest.raises(OutOfMemory, match=r"run1: .*cuda:0: 8,192 bytes are wanted"):
            exe(X)
    small = session(devices).compile(program([0], [96]), weights=weights_of([96]))
    for _ in range(2):
        (y,) = small(X)
        np.testing.assert_array_equal(y, by_hand(X, weights_of([96]), [0]))


def test_programs_take_the_room_of_one_another() -> None:
    texts = [program([0, 1], [48, 16]), program([1, 0], [40, 24])]
    weights = [weights_of([48, 16]), weights_of([40, 24])]
    devices, exe = streamed(texts[0], weights[0], 4 << 10)
    others = [exe, session(devices).compile(texts[1], weights=weights[1])]
    wants = [by_hand(X, weights[0], [0, 1]), by_hand(X, weights[1], [1, 0])]
    for _ in range(4):
        for each, want in zip(others, wants, strict=True):
            np.testing.assert_array_equal(each(X)[0], want)
            assert driver_of(devices).used <= 4 << 10


def test_memory_of_a_program_that_is_gone_does_not_make_another_load_again() -> None:
    devices, large = streamed(program([0], [128]), weights_of([128]), 6 << 10)
    large(X)
    del large
    gc.collect()
    columns = [32] * 4
    exe = session(devices).compile(program([0, 1, 2, 3], columns), weights=weights_of(columns))
    for _ in range(3):
        exe(X)
    before = card_of(devices).uploaded_bytes
    exe(X)
    assert card_of(devices).uploaded_bytes == before


def test_threads_that_call_at_once() -> None:
    columns = [[32] * 5, [24] * 6]
    texts = [program(list(range(len(each))), each) for each in columns]
    weights = [weights_of(each) for each in columns]
    devices, exe = streamed(texts[0], weights[0], 10 << 10)
    callable = [exe, session(devices).compile(texts[1], weights=weights[1])]
    want = [by_hand(X, each, list(range(len(each)))) for each in weights]

    def call(number: int) -> None:
        for _ in range(12):
            (y,) = callable[number % 2](X)
            np.testing.assert_array_equal(y, want[number % 2])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(call, range(4)))
    assert driver_of(devices).used <= 10 << 10
    del exe, callable[:]
    assert_nothing_is_left(devices)


@pytest.mark.parametrize("what", ["write", "allocate", "record", "replay", "discard"])
def test_a_device_that_fails_in_the_middle(what: str) -> None:
    weights = weights_of([32] * 6)
    devices, exe = streamed(SIX, weights, 6 << 10)
    want = by_hand(X, weights, list(range(6)))
    driver = driver_of(devices)
    whole = getattr(driver, what)
    for at in range(1, 12):
        left = iter(range(at))

        def failing(*given: Any, left: Iterator[int] = left) -> Any:
            if next(left, None) is None:
                raise DeviceFailure("cuda:0: the device failed")
            return whole(*given)

        setattr(driver, what, failing)
        with suppress(DeviceFailure):
            np.testing.assert_array_equal(exe(X)[0], want)
        setattr(driver, what, whole)
        np.testing.assert_array_equal(exe(X)[0], want)
        assert driver.used <= 6 << 10


TAKEN = f"""
func.func @main(%i: tensor<1xui32>) -> tensor<1x8xf32> {{
  %w0 = fuel.weight "w0" : tensor<64x8xf32>
  %w1 = fuel.weight "w1" : tensor<8x64xf32>
  %a = fuel.index_select %w0, %i {{dim = 0 : i64, placement = #fuel.device<cuda:0>}}
      : tensor<64x8xf32>, tensor<1xui32> -> {T}
  %b = fuel.matmul %a, %w1 {CARD} : {T}, tensor<8x64xf32> -> tensor<1x64xf32>
  %c = fuel.matmul %b, %w0 {CARD} : tensor<1x64xf32>, tensor<64x8xf32> -> {T}
  func.return %c : {T}
}}
"""


def test_an_index_that_is_out_of_range_leaves_weights_that_can_give_way() -> None:
    weights = {
        name: w.reshape(s)
        for (name, w), s in zip(weights_of([64, 64]).items(), ((64, 8), (8, 64)), strict=True)
    }
    devices, exe = streamed(TAKEN, weights, 5 << 10)
    for index in (3, 64, 5, 99, 7):
        given = np.array([index], np.uint32)
        if index >= 64:
            with pytest.raises(IndexOutOfRange):
                exe(given)
            continue
        (want,) = evaluate(load_program(TAKEN), given, weights=weights)
        np.testing.assert_array_equal(exe(given)[0], want)
        assert driver_of(devices).used <= 5 << 10


STATE = f"""
func.func @main(%x: {T}, %s: {T} {{fuel.donated, fuel.name = "s",
    fuel.device = #fuel.device<cuda:0>}}) -> ({T}, {T} {{fuel.aliases = 1 : i64}}) {{
LINES
  %n = fuel.add %s, %y {CARD} : {T}
  func.return %y, %n : {T}, {T}
}}
"""


def test_state_stays_where_weights_give_way() -> None:
    lines = SIX.splitlines()[1:-2]
    body = "\n".join(lines).replace("%a5", "%y")
    weights = weights_of([32] * 6)
    devices, exe = streamed(STATE.replace("LINES", body), weights, 6 << 10)
    states = [exe.new_state(), exe.new_state()]
    wants = [np.zeros((1, 8), np.float32) for _ in states]
    for step in range(6):
        number = step % 2
        want = by_hand(X * step, weights, list(range(6)))
        np.testing.assert_array_equal(exe(X * step, state=states[number])[0], want)
        wants[number] += want
        for state, want in zip(states, wants, strict=True):
            np.testing.assert_array_equal(state["s"], want)
        assert driver_of(devices).used <= 6 << 10


CONSTANTS = f"""
func.func @main(%x: {T}) -> {T} {{
  %c = fuel.const #fuel.bytes<"0xONE"> -> tensor<8x8xf32>
  %d = fuel.const #fuel.bytes<"0xTWO"> -> tensor<8x8xf32>
  %w = fuel.weight "w" : tensor<8x8xf32>
  %a = fuel.matmul %x, %c {CARD} : {T}, tensor<8x8xf32> -> {T}
  %b = fuel.matmul %a, %w {CARD} : {T}, tensor<8x8xf32> -> {T}
  %e = fuel.matmul %b, %d {CARD} : {T}, tensor<8x8xf32> -> {T}
  func.return %e : {T}
}}
"""


def test_constants_give_way_as_weights_do() -> None:
    one, two, w = (np.arange(64, dtype=np.float32).reshape(8, 8) % n for n in (3, 5, 7))
    text = CONSTANTS.replace("ONE", one.tobytes().hex()).replace("TWO", two.tobytes().hex())
    devices, exe = streamed(text, {"w": w}, 1024)
    planned = exe.memory().of("cuda:0")
    assert planned.fits
    assert planned.streamed >= 3 * size_class(256) // 2
    for _ in range(4):
        np.testing.assert_array_equal(exe(w[:1])[0], w[:1] @ one @ w @ two)
        assert driver_of(devices).used <= 1024


def test_recordings_are_replayed_where_weights_come_back_to_the_same_memory() -> None:
    weights = weights_of([32] * 6)
    devices, exe = streamed(SIX, weights, 6 << 10)
    want, driver = by_hand(X, weights, list(range(6))), driver_of(devices)
    for _ in range(40):
        exe(X)
    made, brought = driver.done["record"], card_of(devices).uploaded_bytes
    for _ in range(10):
        np.testing.assert_array_equal(exe(X)[0], want)
    assert driver.done["record"] == made
    assert card_of(devices).uploaded_bytes > brought
