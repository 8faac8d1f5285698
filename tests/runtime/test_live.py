# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that choose their route while they run: signals, faults, state, and what is left."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuel_dialect.errors import (
    ArgumentError,
    DecisionError,
    DeviceFailure,
    DeviceUnavailable,
    OutOfMemory,
)
from fuel_runtime import Executable, Session
from fuel_runtime.call.live import Live
from fuel_runtime.call.walk_source import write_stretch
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.measurement_store import MeasurementStore
from fuel_runtime.picker.route_cache import RouteCache
from live_programs import (
    CPU,
    CUDA,
    ONE,
    STATE,
    TWO,
    VULKAN,
    Array,
    Fails,
    Lab,
    X,
    arms,
    branch,
    one,
    two,
)


def live_of(exe: Executable) -> Live:
    live = exe._live  # pyright: ignore[reportPrivateUsage]
    assert live is not None
    return live


def check(exe: Executable, want: Callable[[Array], Array] = one) -> None:
    (got,) = exe(X)
    np.testing.assert_allclose(got, want(X), rtol=1e-5, atol=1e-6)


def test_a_program_moves_with_the_signals_and_comes_back() -> None:
    lab = Lab()
    exe = lab.compile(ONE)
    lab.poll()
    check(exe)
    assert arms(exe) == {"d0": 0}
    for signals in ({"free_bytes": 16}, {"load": 0.9}):
        lab.dials["cuda:0"].set(**signals)
        lab.poll()
        check(exe)
        assert arms(exe) == {"d0": 1}
        lab.dials["cuda:0"].set(free_bytes=1 << 30, load=0.0)
        lab.poll()
        check(exe)
        assert arms(exe) == {"d0": 0}
    report = exe.report()
    assert [(c.before, c.arm) for c in report.history] == [(None, 0), *[(0, 1), (1, 0)] * 2]
    assert "cuda:0 has 16 bytes free" in str(report)
    assert not report.faults
    assert [set(c.why_not) for c in report.history] == [{1}, *[{0}, {1}] * 2]
    assert report.history[1].why_not[0].startswith("cuda:0 has 16 bytes free")
    assert all(arm.measured_ns is None for arm in report.branches[0].arms)


def test_a_settled_route_makes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    exe = lab.compile(ONE)
    lab.poll()
    check(exe)
    monkeypatch.setattr(Live, "stream", None)
    monkeypatch.setattr(Live, "resolve", None)
    for _ in range(3):
        check(exe)
    assert live_of(exe).cache.resolves == 1


def test_a_route_that_was_picked_before_is_taken_again() -> None:
    lab = Lab()
    exe = lab.compile(ONE)
    for load in (0.0, 0.9, 0.0, 0.9, 0.0, 0.9):
        lab.dials["cuda:0"].set(load=load)
        lab.poll()
        check(exe)
    cache = live_of(exe).cache
    assert cache.hits >= 2
    assert cache.hits + cache.resolves == 6


def test_a_stretch_is_generated_when_it_is_first_taken_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab()
    exe = lab.compile(TWO)
    live = live_of(exe)
    written: list[str] = []

    def counted(calls: Any, dead: Any, signature: Any) -> Any:
        found = write_stretch(calls, dead, signature)
        written.append(found[0])
        return found

    monkeypatch.setattr("fuel_runtime.call.stretch.write_stretch", counted)
    want = two(X)
    for _ in range(3):
        for got, wanted in zip(live.stream(None, (X,)), want, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        live.cache, live.epoch = RouteCache(), 0
    assert len(written) == 3, "before the first decision, between the two, and after the second"
    calls = sum(source.count("(") - source.count("pop(") - 1 for source in written)
    assert calls == len(live.written({}).route.calls)


T256 = "tensor<256xf32>"
LATE_READER = (
    f"func.func @main(%x: {T256}) -> {T256} {{\n"
    f"  %h = fuel.neg %x : {T256}\n  %g = fuel.exp %h : {T256}\n"
    + branch("d0", "%g", "%y", CPU, CUDA)
    + f"""  %k = fuel.cos %y : {T256}
  %z = fuel.branch "d1"(%b = %k : {T256}, %d = %h : {T256}) -> {T256}
  arm on {CUDA} price 100 {{
    %s = fuel.sin %b : {T256}
    fuel.yield %s : {T256}
  }}
  arm on {CPU} price 101 {{
    %q = fuel.sub %d, %d : {T256}
    %s0 = fuel.sin %b : {T256}
    %s = fuel.add %s0, %q : {T256}
    fuel.yield %s : {T256}
  }}
  %r = fuel.abs %z : {T256}
  func.return %r : {T256}
}}
"""
)
"""A value that only an arm of a later decision reads, which is not the first."""


@pytest.mark.parametrize("load", [0.0, 1.0])
@pytest.mark.parametrize("fails", [None, "write", "replay", "read"])
def test_a_value_that_only_another_arm_reads_later(load: float, fails: str | None) -> None:
    lab = Lab()
    exe = lab.compile(LATE_READER)
    lab.dials["cuda:0"].set(load=load)
    lab.poll()
    if fails is not None and not load:
        Fails(lab.driver("cuda:0"), fails, 1, DeviceFailure("it is gone"))
    want = np.abs(np.sin(np.cos(np.sin(np.square(np.exp(-X))))))
    for _ in range(2):
        np.testing.assert_allclose(exe(X)[0], want, rtol=1e-4, atol=1e-5)


def test_arms_are_checked_where_a_result_is_not_read() -> None:
    t = "tensor<8xf32>"
    program = f"""func.func @main(%x: {t}) -> {t} {{
      %y = fuel.branch "d0"(%a = %x : {t}) -> {t}
      arm on {CPU} {{
        %s = fuel.sin %a : {t}
        fuel.yield %s : {t}
      }}
      arm on {CPU} {{
        %n = fuel.neg %a : {t}
        %m = fuel.neg %n : {t}
        %s = fuel.sin %m : {t}
        fuel.yield %s : {t}
      }}
      %z = fuel.branch "d1"(%b = %y : {t}, %d = %x : {t}) -> {t}
      arm on {CPU} {{
        %s = fuel.sin %d : {t}
        fuel.yield %s : {t}
      }}
      arm on {CPU} {{
        %s = fuel.abs %b : {t}
        %u = fuel.sub %s, %s : {t}
        %v = fuel.sin %d : {t}
        %w = fuel.add %v, %u : {t}
        fuel.yield %w : {t}
      }}
      func.return %z : {t}
    }}"""
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    exe = Session(check_arms=True).compile(program, optimize=False)
    np.testing.assert_allclose(exe(x)[0], np.sin(x), rtol=1e-6)
    assert {check.decision for check in exe.report().checks} == {"d1"}


def test_results_do_not_depend_on_the_route() -> None:
    lab = Lab("cpu,cuda:0,vulkan:0")
    for first in range(3):
        for second in range(3):
            exe = lab.compile(TWO, force={"d0": first, "d1": second})
            for got, want in zip(exe(X), two(X), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            assert arms(exe) == {"d0": first, "d1": second}


# Faults.


ERRORS: Mapping[str, Exception] = {
    "memory": OutOfMemory("cuda:0: 1,024 bytes are wanted, 0 are free"),
    "failure": DeviceFailure("cuda:0: an illegal address"),
    "lost": DeviceUnavailable("cuda:0 is gone"),
}
PLACES = ("allocate", "write", "read", "record", "replay")


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("settled", [False, True])
def test_a_fault_leaves_the_arm_and_the_result_is_right(
    kind: str, place: str, at: int, settled: bool
) -> None:
    lab = Lab("cpu,cuda:0,vulkan:0")
    exe = lab.compile(TWO)
    lab.poll()
    if settled:
        exe(X)
    fails = Fails(lab.driver("cuda:0"), place, at, ERRORS[kind])
    for got, want in zip(exe(X), two(X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    if fails.calls < at:
        return
    report = exe.report()
    if kind == "memory" and place in ("allocate", "record") and not report.faults:
        return  # The device has made room and tried again.
    assert report.faults
    assert report.faults[0].device == "cuda:0"
    assert "cuda:0" in lab.telemetry.snapshot.suspended
    assert arms(exe) != {"d0": 0, "d1": 0}
    lab.now += 11
    lab.poll()
    for _ in range(2):
        for got, want in zip(exe(X), two(X), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert arms(exe) == {"d0": 0, "d1": 0}
    assert len(exe.report().faults) == len(report.faults)
    assert not lab.telemetry.on_trial


def test_where_no_arm_is_left_there_is_one_error() -> None:
    lab = Lab()
    exe = lab.compile(ONE, forbid={"d0": 1}, force={"d0": 0})
    check(exe)
    exe = lab.compile(TWO.replace(CPU, CUDA).replace(VULKAN, CUDA).replace("vulkan:0", "cuda:0"))
    driver = lab.driver("cuda:0")

    def fails(*_: object) -> None:
        raise DeviceFailure("it is broken")

    driver.replay = fails  # type: ignore[method-assign]
    with pytest.raises(DeviceFailure, match=r"main: run\d+ on cuda:0: it is broken; no other arm"):
        exe(X)


def test_strict_takes_nothing_in_place_of_what_was_asked() -> None:
    lab = Lab()
    exe = lab.compile(ONE, strict=True)
    check(exe)
    Fails(lab.driver("cuda:0"), "replay", 1, DeviceFailure("it is broken"))
    with pytest.raises(DeviceFailure, match="it is broken"):
        exe(X)


def test_a_forced_arm_that_fails_gives_way() -> None:
    lab = Lab()
    exe = lab.compile(ONE, force={"d0": 0})
    Fails(lab.driver("cuda:0"), "replay", 1, DeviceFailure("it is broken"))
    check(exe)
    assert exe.report().faults


def test_too_little_memory_is_left_before_anything_fails() -> None:
    lab = Lab(cuda=2048)
    lab.dials["cuda:0"].clear()
    del lab.telemetry.providers["cuda:0"]
    session = Session(lab.devices, telemetry=True)
    session.telemetry.start = lambda: None  # type: ignore[method-assign]
    exe = session.compile(ONE, optimize=False)
    session.telemetry.poll()
    check(exe)
    assert arms(exe) == {"d0": 1}
    assert lab.driver("cuda:0").used == 0


def test_a_fault_leaks_nothing() -> None:
    lab = Lab()
    exe = lab.compile(ONE)
    driver = lab.driver("cuda:0")
    device = next(d for d in lab.devices.present if d.name.label == "cuda:0")
    check(exe)
    for at in range(1, 4):
        Fails(driver, "replay", 1, OutOfMemory("cuda:0: full"))
        check(exe)
        lab.now += 1000
        lab.poll()
        check(exe)
        del at
    gc.collect()
    cast(BufferDevice, device).free_bytes()
    pool = cast(BufferDevice, device).pool
    lent = driver.used - pool.idle_bytes
    assert lent == 0
    assert len(exe.report().faults) == 3


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("place", ["allocate", "write", "replay", "read"])
def test_state_is_as_a_call_without_faults_leaves_it(place: str, settled: bool) -> None:
    lab = Lab()
    exe = lab.compile(STATE)
    state = exe.new_state()
    total = np.zeros_like(X)
    if settled:
        exe(X, state=state)
        total += X
    fails = Fails(lab.driver("cuda:0"), place, 1, DeviceFailure("it is broken"))
    (got,) = exe(X, state=state)
    total += X
    np.testing.assert_allclose(got, np.cos(np.sin(np.square(total))), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(state["s"], total)
    assert state.is_valid
    assert fails.calls or settled


# Policies.


def test_forbidden_and_unknown() -> None:
    lab = Lab()
    assert arms(lab.compile(ONE, forbid={"d0": 0})) == {"d0": 1}
    with pytest.raises(DecisionError, match="no decision 'd9'"):
        lab.compile(ONE, forbid={"d9": 0})
    with pytest.raises(DecisionError, match="all its arms are forbidden"):
        lab.compile(ONE, forbid={"d0": [0, 1]})


def test_a_recorded_route_is_taken_again(tmp_path: Path) -> None:
    lab = Lab()
    lab.dials["cuda:0"].set(load=0.9)
    lab.poll()
    exe = lab.compile(ONE)
    check(exe)
    recorded = exe.route()
    assert recorded == {"entry": "main", "decisions": {"d0": 2}, "arms": {"d0": 1}}
    file = tmp_path / "route.json"
    file.write_text(json.dumps(recorded))
    for told in (recorded, file, str(file)):
        again = Lab().compile(ONE, replay=told)
        check(again)
        assert arms(again) == {"d0": 1}
    with pytest.raises(DecisionError, match="the route is of another program: main with d0"):
        Lab("cpu,cuda:0,vulkan:0").compile(TWO, replay=recorded)


ROUTE = '{"entry": "m", "decisions": {"d0": 2}, "arms": {"d0": 1}}'
WRONG_ROUTES = {
    "": "is not JSON",
    "[": "is not JSON",
    "[]": r"expected `object`, got \[\]; it needs entry, decisions, arms",
    "{}": "missing required field `entry`",
    ROUTE.replace(": 1", ": -1"): r"\.arms\['d0'\]: expected `int` >= 0, got -1",
    ROUTE.replace(": 1", ": true"): r"\.arms\['d0'\]: expected `int`, got True",
    ROUTE.replace('"d0": 2', '"d0": 2, "d0": 3'): "has the key 'd0' twice",
    ROUTE.replace("}}", '}, "more": 1}'): "unknown field `more`",
    ROUTE.replace('"m"', "NaN"): "NaN is no number of JSON",
}


@pytest.mark.parametrize("text", WRONG_ROUTES)
def test_a_route_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "route.json"
    file.write_text(text)
    with pytest.raises(DecisionError, match=r"replay: .*route\.json.*" + WRONG_ROUTES[text]):
        Session(replay=file)
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(DecisionError, match=r"cannot be read: .*codec"):
        Session(replay=file)
    with pytest.raises(DecisionError, match="cannot be read"):
        Session(replay=tmp_path / "none.json")


# Threads.


def test_threads_share_an_executable_while_signals_change() -> None:
    lab = Lab("cpu,cuda:0,vulkan:0")
    exe = lab.compile(TWO)
    wrong: list[object] = []

    def work(seed: int) -> None:
        x = (X * (seed + 1)).astype(np.float32)
        want = two(x)
        for _ in range(25):
            try:
                for got, right in zip(exe(x), want, strict=True):
                    np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)
            except BaseException as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    rng = np.random.default_rng(0)
    while any(thread.is_alive() for thread in threads):
        for dial in lab.dials.values():
            dial.set(load=float(rng.random()))
        lab.poll()
        threads[0].join(0.002)
    for thread in threads:
        thread.join()
    assert not wrong


LOADS = st.fixed_dictionaries(
    {n: st.sampled_from([0.0, 0.9]) for n in ("cpu", "cuda:0", "vulkan:0")}
)
FAULTS = st.none() | st.tuples(
    st.sampled_from(["cuda:0", "vulkan:0"]),
    st.sampled_from(PLACES),
    st.integers(1, 4),
    st.sampled_from(sorted(ERRORS)),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(LOADS, FAULTS), min_size=1, max_size=5))
def test_one_shot_and_streaming_agree(steps: list[tuple[dict[str, float], Any]]) -> None:
    lab = Lab("cpu,cuda:0,vulkan:0")
    exe = lab.compile(TWO)
    for loads, fault in steps:
        for name, load in loads.items():
            lab.dials[name].set(load=load)
        lab.now += 5
        lab.poll()
        planned = live_of(exe).route()
        restore: Callable[[], object] = int
        if fault is not None:
            device, place, at, kind = fault
            driver = lab.driver(device)
            restore = partial(setattr, driver, place, getattr(driver, place))
            Fails(driver, place, at, ERRORS[kind])
        faults = len(exe.report().faults)
        for got, want in zip(exe(X), two(X), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        restore()
        if len(exe.report().faults) == faults:
            assert {k: v for k, v in arms(exe).items() if k in planned} == planned


# Measured times.


@pytest.mark.parametrize("program", [ONE, STATE])
def test_calibrating_times_every_arm(program: str, tmp_path: Path) -> None:
    lab = Lab()
    file = tmp_path / "times.db"
    session = Session(lab.devices, telemetry=lab.telemetry, measurements=file)
    exe = session.compile(program, optimize=False)
    state: dict[str, Any] = {"state": exe.new_state()} if program is STATE else {}
    assert session.calibrate(exe, X, **state) == 2
    if state:
        np.testing.assert_array_equal(state["state"]["s"], 0 * X)
    known = MeasurementStore(file).load()
    assert {key.target for key in known} == {"cpu/numpy", "cuda:0/triton"}
    assert all(estimate.count >= 5 for estimate in known.values())
    decision = next(iter(live_of(exe).decisions.values()))
    assert {arm.key for arm in decision.arms} == set(known)


def test_measured_times_decide(tmp_path: Path) -> None:
    lab = Lab()
    file = tmp_path / "times.db"
    exe = Session(lab.devices, measurements=file).compile(ONE, optimize=False)
    keys = [arm.key for arm in next(iter(live_of(exe).decisions.values())).arms]
    assert keys[0] is not None
    assert keys[1] is not None
    MeasurementStore(file).add({keys[0]: [9e6] * 3, keys[1]: [1e3] * 3})
    session = Session(lab.devices, telemetry=lab.telemetry, measurements=file)
    exe = session.compile(ONE, optimize=False)
    check(exe)
    assert arms(exe) == {"d0": 1}
    report = exe.report()
    assert [arm.measured_ns for arm in report.branches[0].arms] == [9_000_000, 1000]
    assert "arm 0 on cuda:0/triton, 100 ns, measured 9,000,000 ns, from user: " in str(report)
    assert json.loads(report.to_json())["branches"][0]["arms"][1]["measured_ns"] == 1000


def test_exploring_keeps_to_its_share() -> None:
    lab = Lab()
    exe = lab.compile(ONE, explore=0.1)
    for _ in range(100):
        check(exe)
    live = live_of(exe)
    assert 1 <= live.explored <= 10


def test_calibrating_needs_a_store() -> None:
    lab = Lab()
    session = Session(lab.devices)
    with pytest.raises(ArgumentError, match="give the session a store"):
        session.calibrate(session.compile(ONE, optimize=False), X)
