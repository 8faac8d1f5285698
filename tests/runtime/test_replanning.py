# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions that take another topology: what they compiled is planned anew, once, when used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import fuel_dialect as fuel
from fake_devices import FakeDriver, fake
from fuel_dialect.errors import (
    ArgumentError,
    DeviceFailure,
    FuelPassError,
    StateError,
    TopologyChanged,
    TraceError,
)
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_runtime import Executable, Session
from fuel_runtime.call.trace_events import Span
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.present import Devices
from live_programs import Fails

SIZE = 512
RNG = np.random.default_rng(3)
X = RNG.standard_normal((SIZE, SIZE)).astype(np.float32)
WEIGHTS = {"w": (RNG.standard_normal((SIZE, SIZE)) / 20).astype(np.float32)}
CARD, HOST = "cpu+h100", "cpu"


def product() -> Any:
    graph = fuel.Graph()
    x = graph.input((SIZE, SIZE), name="x")
    w = graph.weight("w", (SIZE, SIZE), "f32")
    return graph.build(((x @ w).tanh() @ w).exp())


def running_sum() -> Any:
    """Returns a program whose state is updated where the product is computed."""
    graph = fuel.Graph()
    x = graph.input((SIZE, SIZE), name="x")
    total = graph.state((SIZE, SIZE), name="total")
    new = total + x @ graph.weight("w", (SIZE, SIZE), "f32")
    total.update(new)
    return graph.build(new.tanh())


WANT = evaluate(product(), X, weights=WEIGHTS)[0]


def devices() -> Devices:
    return fake("cpu,cuda:0")


def driver_of(present: Devices) -> FakeDriver:
    (card,) = (each for each in present.present if isinstance(each, BufferDevice))
    return cast(FakeDriver, card.driver)


def places(exe: Executable) -> set[str]:
    return {run.target.partition("/")[0] for run in exe.report().route}


def check(exe: Executable) -> None:
    np.testing.assert_allclose(np.asarray(exe(X)[0]), WANT, rtol=1e-4)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often a session makes an executable."""
    built: list[int] = []
    inner = Session._built  # pyright: ignore[reportPrivateUsage]

    def build(*given: Any) -> Executable:
        built.append(threading.get_ident())
        return inner(*given)

    monkeypatch.setattr(Session, "_built", build)
    return built


def test_programs_go_where_the_new_topology_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(devices(), topology=CARD)
    exe, unused = (session.compile(product(), weights=WEIGHTS) for _ in range(2))
    built = counted(monkeypatch)
    for topology, where in ((HOST, "cpu"), (CARD, "cuda:0"), (HOST, "cpu")):
        before = len(built)
        session.replan(topology)
        assert session.topology.name == topology
        assert len(built) == before, "nothing is planned before it is used"
        for _ in range(3):
            check(exe)
        assert len(built) == before + 1
        assert places(exe) == {where}
    assert places(unused) == {"cpu"}
    assert len(built) == 4
    assert places(session.compile(product(), weights=WEIGHTS)) == {"cpu"}


def test_memory_of_the_plan_before_is_given_back() -> None:
    present = devices()
    session = Session(present, topology=CARD)
    exe = session.compile(product(), weights=WEIGHTS)
    check(exe)
    assert driver_of(present).used > X.nbytes
    session.replan(HOST)
    check(exe)
    (card,) = (each for each in present.present if isinstance(each, BufferDevice))
    card.free_bytes()
    assert driver_of(present).used == card.pool.idle_bytes
    assert not driver_of(present).recordings


def test_threads_wait_for_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(devices(), topology=CARD)
    exe = session.compile(product(), weights=WEIGHTS)
    built = counted(monkeypatch)
    for round in range(1, 4):
        session.replan(HOST if round % 2 else CARD)
        barrier = threading.Barrier(8)

        def call(_: int, barrier: threading.Barrier = barrier) -> Any:
            barrier.wait()
            return np.asarray(exe(X)[0])

        with ThreadPoolExecutor(8) as pool:
            for result in pool.map(call, range(8)):
                np.testing.assert_allclose(result, WANT, rtol=1e-4)
        assert len(built) == round


def test_calls_go_on_while_the_topology_changes() -> None:
    session = Session(devices(), topology=CARD)
    exe = session.compile(product(), weights=WEIGHTS)
    stop = threading.Event()

    def calls() -> int:
        made = 0
        while not stop.is_set():
            check(exe)
            made += 1
        return made

    with ThreadPoolExecutor(4) as pool:
        going = [pool.submit(calls) for _ in range(3)]
        for round in range(6):
            session.replan(CARD if round % 2 else HOST)
            check(exe)
        stop.set()
        assert all(each.result() for each in going)


def test_a_state_goes_along() -> None:
    session = Session(devices(), topology=CARD)
    exe = session.compile(running_sum(), weights=WEIGHTS)
    state, other = exe.new_state(), exe.new_state()
    step = X @ WEIGHTS["w"]
    for count, topology in enumerate((CARD, HOST, CARD, CARD, HOST), 1):
        session.replan(topology)
        (y,) = exe(X, state=state)
        np.testing.assert_allclose(np.asarray(y), np.tanh(count * step), atol=2e-3)
        np.testing.assert_allclose(state["total"], count * step, rtol=1e-3, atol=1e-3)
        assert ("cuda:0" in repr(state)) == (topology == CARD)
    np.testing.assert_allclose(np.asarray(exe(X, state=other)[0]), np.tanh(step), atol=2e-3)
    stranger = session.compile(running_sum(), weights=WEIGHTS)
    with pytest.raises(StateError, match="belongs to another executable"):
        stranger(X, state=state)


class Leaves:
    """Takes another topology at the n-th call of a function of a driver, and fails there."""

    def __init__(self, session: Session, driver: FakeDriver, name: str, at: int) -> None:
        self.session, self.fails = session, Fails(driver, name, at, DeviceFailure("it is gone"))
        self.inner = self.fails.inner
        setattr(driver, name, self)

    def __call__(self, *given: Any) -> Any:
        if self.fails.calls + 1 == self.fails.at:
            self.session.replan(HOST)
        return self.fails(*given)


@pytest.mark.parametrize("name", ["write", "replay", "read"])
@pytest.mark.parametrize("program", [product, running_sum])
def test_a_call_whose_device_goes_is_made_again(program: Callable[[], Any], name: str) -> None:
    present = devices()
    session = Session(present, topology=CARD, strict=True)
    exe = session.compile(program(), weights=WEIGHTS)
    state = {"state": exe.new_state()} if program is running_sum else {}
    Leaves(session, driver_of(present), name, 1)
    (result,) = exe(X, **state)
    want = WANT if program is product else np.tanh(X @ WEIGHTS["w"])
    np.testing.assert_allclose(np.asarray(result), want, rtol=1e-3, atol=2e-3)
    assert places(exe) == {"cpu"}


def test_a_device_that_fails_under_the_same_topology_is_an_error() -> None:
    present = devices()
    session = Session(present, topology=CARD, strict=True)
    exe = session.compile(product(), weights=WEIGHTS)
    Fails(driver_of(present), "replay", 1, DeviceFailure("it is gone"))
    with pytest.raises(DeviceFailure, match="it is gone"):
        exe(X)
    check(exe)


def test_what_was_taken_as_it_is_keeps_its_plan() -> None:
    session = Session(devices(), topology=CARD)
    planned = session.compile(product(), weights=WEIGHTS).module
    exe = session.compile(planned, weights=WEIGHTS, optimize=False)
    check(exe)
    session.replan(HOST)
    for _ in range(2):
        with pytest.raises(TopologyChanged, match="run fuel-optimize again"):
            exe(X)
    with pytest.raises(TopologyChanged):
        exe.report()
    session.replan(CARD)
    check(exe)
    assert places(exe) == {"cuda:0"}


def test_a_topology_that_is_none_changes_nothing() -> None:
    session = Session(devices(), topology=CARD)
    exe = session.compile(product(), weights=WEIGHTS)
    with pytest.raises(FuelPassError, match="cpu\\+h1000"):
        session.replan("cpu+h1000")
    assert session.topology.name == CARD
    assert not exe.is_outdated
    assert places(exe) == {"cuda:0"}


def test_without_a_topology_the_devices_say() -> None:
    session = Session(devices(), topology=HOST)
    exe = session.compile(product(), weights=WEIGHTS)
    assert places(exe) == {"cpu"}
    session.replan()
    assert {device.name for device in session.topology.devices} == {"cpu", "cuda:0"}
    check(exe)


def test_a_trace_lasts_until_the_program_is_planned_anew(tmp_path: Path) -> None:
    session = Session(devices(), topology=CARD)
    exe = session.compile(product(), weights=WEIGHTS)
    with exe.trace(tmp_path / "a.json") as trace:
        check(exe)
        seen = len(trace.events)
        session.replan(HOST)
        check(exe)
        assert seen
    check(exe)
    with exe.trace(tmp_path / "b.json") as trace:
        check(exe)
    lanes = {event.device for event in trace.events if isinstance(event, Span)}
    assert "cpu" in lanes
    assert "cuda:0" not in lanes
    assert exe.profile(X).kernels


def test_a_program_that_was_loaded(tmp_path: Path) -> None:
    session = Session(devices(), topology=CARD)
    session.compile(product(), weights=WEIGHTS).save(tmp_path / "p.fuel", weights=True)
    exe = session.load(tmp_path / "p.fuel")
    check(exe)
    session.replan(HOST)
    check(exe)
    assert places(exe) == {"cpu"}


def test_weights_are_those_that_the_program_was_compiled_with(tmp_path: Path) -> None:
    given = dict(WEIGHTS)
    session = Session(devices(), topology=CARD)
    exe = session.compile(product(), weights=given)
    given["w"] = given["w"] * 2
    session.replan(HOST)
    check(exe)
    given.clear()
    session.replan(CARD)
    check(exe)
    path = tmp_path / "w.npz"
    np.savez(path, w=WEIGHTS["w"])
    exe = session.compile(product(), weights=path)
    other = tmp_path / "other.npz"
    np.savez(other, w=WEIGHTS["w"] * 2)
    other.replace(path)
    session.replan(HOST)
    check(exe)
    path.unlink()
    session.replan(CARD)
    check(exe)


def test_a_trace_that_was_made_before_is_of_the_newest_plan(tmp_path: Path) -> None:
    session = Session(devices(), topology=HOST)
    exe = session.compile(product(), weights=WEIGHTS)
    trace = exe.trace(tmp_path / "a.json")
    session.replan(CARD)
    with trace:
        check(exe)
    assert "cuda:0" in {event.device for event in trace.events if isinstance(event, Span)}


def test_a_profile_that_is_overtaken_says_so() -> None:
    session = Session(devices(), topology=HOST)
    exe = session.compile(product(), weights=WEIGHTS)

    class Replans:
        def __array__(self, *given: Any, **named: Any) -> Any:
            session.replan(HOST)
            return X

    with pytest.raises(TraceError, match="was planned anew while it was profiled"):
        exe.profile(Replans(), repeats=1)
    assert exe.profile(X, repeats=1).kernels


def test_arguments_by_name_are_made_again_too() -> None:
    present = devices()
    session = Session(present, topology=HOST)
    graph = fuel.Graph()
    exe = session.compile(graph.build(graph.input((8, 8), name="x").tanh()))
    x = np.ones((8, 8), np.float32)
    given = session.put(x, "cuda:0")
    Leaves(session, driver_of(present), "read", 1)
    np.testing.assert_allclose(exe(x=given)[0], np.tanh(x), rtol=1e-6)


def test_recordings_of_plans_that_ended_go() -> None:
    present = devices()
    session = Session(present, topology=CARD)
    exe = session.compile(product(), weights=WEIGHTS)
    for round in range(12):
        check(exe)
        session.replan(CARD)
        assert len(driver_of(present).recordings) <= 2, round


def test_a_calibration_is_of_the_session_that_compiled(tmp_path: Path) -> None:
    ours = Session(devices(), measurements=tmp_path / "a.db")
    theirs = Session(devices(), measurements=tmp_path / "b.db")
    exe = theirs.compile(product(), weights=WEIGHTS)
    with pytest.raises(ArgumentError, match="is not of this session"):
        ours.calibrate(exe, X)
