# SPDX-License-Identifier: MIT OR Apache-2.0
"""State objects: updated where they lie, on the host and on devices; one call at a time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_weights import weights_of

import fuel_dialect as fuel
from fake_devices import fake
from fuel_dialect.context import parse_module
from fuel_runtime import Executable, Session
from fuel_runtime.call.state import Use
from fuel_runtime.cli.main import main

ROOM, WIDTH = 8, 4


def graph() -> fuel.Graph:
    g = fuel.Graph()
    x = g.input((1, WIDTH), name="x")
    cache = g.state((ROOM, WIDTH), name="cache")
    count = g.state((), "ui32", name="count")
    written = cache.write(x, at=count)
    cache.update(written)
    count.update(count + 1)
    g.result = written.sum(axis=0)  # pyright: ignore[reportAttributeAccessIssue]
    return g


def compiled(devices: Any = "cpu", place: Any = None) -> Executable:
    g = graph()
    module = g.build(g.result, names=["y"])  # pyright: ignore[reportAttributeAccessIssue]
    return Session(devices).compile(module, place=place)


def row(value: float) -> Any:
    return np.full((1, WIDTH), value, np.float32)


def test_it_is_written_in_place_and_is_no_result() -> None:
    exe = compiled()
    state = exe.new_state()
    assert state.values is not None
    buffer: Any = state.values[0]
    for step in range(3):
        (y,) = exe(row(step + 1), state=state)
        assert np.array_equal(y, np.full(WIDTH, sum(range(step + 2))))
    assert state["count"] == 3
    assert np.array_equal(buffer[:3, 0], [1, 2, 3])
    assert dict(state).keys() == {"cache", "count"}
    assert [m.update for m in exe.report().state] == ["in place", "new"]


def test_states_are_apart_and_copies_go_their_own_way() -> None:
    exe = compiled()
    one, two = exe.new_state(), exe.new_state(cache=np.ones((ROOM, WIDTH), np.float32), count=2)
    exe(row(5), state=one)
    other = one.copy()
    exe(row(6), state=one)
    exe(row(7), state=two)
    assert (one["count"], two["count"], other["count"]) == (2, 3, 1)
    assert two["cache"][:, 0].tolist() == [1, 1, 7, 1, 1, 1, 1, 1]
    assert other["cache"][:2, 0].tolist() == [5, 0]


def test_a_full_cache_leaves_the_state_as_it_was() -> None:
    exe = compiled()
    state = exe.new_state(count=ROOM)
    with pytest.raises(
        fuel.IndexOutOfRange, match=r"write_slice_doff of %cache, %x, %count: 1 at 8 .* extent 8"
    ):
        exe(row(1), state=state)
    assert state.is_valid
    assert not state["cache"].any()


@pytest.mark.parametrize("devices", ["cuda:0", "cpu,cuda:0"])
def test_on_a_device_it_stays_there(devices: str) -> None:
    session = fake(devices)
    exe = compiled(session, {"write_slice_doff": "cuda:0", "add_scalar": "cuda:0"})
    state = exe.new_state()
    cuda = next(d for d in session.present if d.name.label == "cuda:0")
    assert "f32[8, 4] on cuda:0" in repr(state)
    for step in range(3):
        exe(row(step + 1), state=state)
    driver: Any = cuda.driver  # pyright: ignore[reportAttributeAccessIssue]
    allocated, reads = driver.done["allocate"], driver.done["read"]
    for step in range(3, ROOM):
        exe(row(step + 1), state=state)
    assert driver.done["allocate"] == allocated
    assert driver.done["read"] > reads
    assert state["cache"][:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(fuel.IndexOutOfRange):
        exe(row(0), state=state)
    assert not state.is_valid
    with pytest.raises(fuel.StateError, match=r"half updated, because a call failed"):
        exe(row(0), state=state)


@pytest.mark.parametrize(
    ("device", "emulated"),
    [("cuda:0", True), pytest.param("vulkan:0", False, marks=pytest.mark.needs_vulkan)],
)
def test_the_kernels_of_a_device_write_in_place(device: str, emulated: bool) -> None:
    path = Path(__file__).parents[2] / "examples" / "kv_cache.mlir"
    weights = weights_of(parse_module(path.read_text()))
    session = Session(f"cpu,{device}", emulate=device if emulated else None)
    there = session.compile(path, weights=weights, place={"write_slice_doff": device})
    here = Session("cpu").compile(path, weights=weights)
    states = there.new_state(count=253), here.new_state(count=253)
    assert [m.update for m in there.report().state] == ["in place", "in place", "new"]
    assert f"keys: f32[4, 256, 16] on {device}" in repr(states[0])
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((4, 1, 64)).astype(np.float32)
    for x in tokens[:3]:
        (got,), (want,) = there(x, state=states[0]), here(x, state=states[1])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    for name in ("keys", "values"):
        np.testing.assert_allclose(states[0][name], states[1][name], rtol=1e-4, atol=1e-5)
        assert not states[0][name][:, :253].any()
    with pytest.raises(fuel.IndexOutOfRange, match="write_slice_doff"):
        there(tokens[3], state=states[0])


def test_what_is_no_state_of_the_program_is_refused() -> None:
    exe = compiled()
    state = exe.new_state()
    for given, message in (
        (None, r"main has state \(cache.*make one with exe\.new_state"),
        ({}, r"state= is what exe\.new_state\(\) gives"),
        (compiled().new_state(), "belongs to another executable"),
    ):
        with pytest.raises(fuel.StateError, match=message):
            exe(row(1), state=given)
    state.free()
    with pytest.raises(fuel.StateError, match="was freed"):
        exe(row(1), state=state)
    with pytest.raises(fuel.ArgumentError, match=r"the state has no 'keys'; it has cache"):
        exe.new_state(keys=1)


def test_one_call_at_a_time() -> None:
    exe = compiled()
    state = exe.new_state()
    use = Use(state)
    use.take("a test")
    with pytest.raises(fuel.StateError, match="another call is using it"):
        exe(row(1), state=state)
    with pytest.raises(fuel.StateError, match="cannot be freed while a call is using it"):
        state.free()
    use.end()
    states = [exe.new_state() for _ in range(4)]

    def work(state: Any) -> None:
        for step in range(ROOM):
            exe(row(step), state=state)

    threads = [threading.Thread(target=work, args=(each,)) for each in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each["cache"][:, 0].tolist() == list(range(ROOM)) for each in states)


def test_fuel_run_begins_with_zeros(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    g = graph()
    path = tmp_path / "step.mlir"
    path.write_text(str(g.build(g.result, names=["y"])))  # pyright: ignore[reportAttributeAccessIssue]
    assert main([str(path), "--random", "0"]) == 0
    shown = capsys.readouterr().out
    assert (
        "state: starts at zero, and is gone after 1 call: cache: f32[8, 4], count: ui32[]" in shown
    )
    assert "y: f32[4]" in shown
