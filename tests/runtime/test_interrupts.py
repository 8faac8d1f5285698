# SPDX-License-Identifier: MIT OR Apache-2.0
"""An interrupt at any moment of a call leaves states, workspaces and devices usable or invalid."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from fake_devices import fake
from fuel_dialect.errors import OutOfMemory, StateError
from fuel_runtime import Executable, Session, State
from interrupting import WIDTH, Interrupt, contents, cumulative, interrupted, moments


def check(exe: Executable, state: State, before: dict[str, Any]) -> bool:
    """The state is as it was and can be used, or invalid and can be freed."""
    if state.is_valid:
        assert contents(state) == before
        exe(np.ones((1, WIDTH), np.float32), state=state)
        assert state["cache"][1, 0] == 1
        return True
    with pytest.raises(StateError, match="half updated"):
        state["cache"]
    with pytest.raises(StateError, match="half updated"):
        exe(np.ones((1, WIDTH), np.float32), state=state)
    state.free()
    return False


@pytest.mark.parametrize("devices", ["cpu", "cpu,cuda:0"])
def test_a_call_that_is_interrupted_anywhere(devices: str) -> None:
    exe = cumulative(devices)
    x = np.full((1, WIDTH), 2, np.float32)
    exe(x, state=exe.new_state())
    count = moments(lambda: exe(x, state=exe.new_state()), "line")
    step = max(count // 150, 1)
    outcomes: set[bool] = set()
    for at in range(1, count + 1, step):
        state = exe.new_state(total=np.ones(WIDTH, np.float32))
        before = contents(state)
        with suppress(Interrupt), interrupted(at, "line"):
            exe(x, state=state)
        if state.is_valid and contents(state) != before:
            continue  # the call had ended
        outcomes.add(check(exe, state, before))
    assert True in outcomes


def test_an_interrupt_while_an_error_is_handled() -> None:
    exe = cumulative("cpu")
    x = np.ones((1, WIDTH), np.float32)
    names = exe.__call__.__func__.__globals__  # pyright: ignore[reportFunctionMemberAccess]
    (run,) = (name for name in names if name.startswith("run"))
    whole = names[run]

    def failing(*values: object) -> object:
        raise ZeroDivisionError

    state = exe.new_state()
    before = contents(state)
    for at in range(1, 120):
        names[run] = failing
        try:
            with interrupted(at, "line"):
                exe(x, state=state)
        except (Interrupt, ZeroDivisionError):
            pass
        names[run] = whole
        if not state.is_valid:
            state.free()
            state = exe.new_state()
            continue
        assert contents(state) == before


@pytest.mark.parametrize("what", ["read", "copy", "free", "numpy"])
def test_a_reader_that_is_interrupted_anywhere(what: str) -> None:
    exe = cumulative("cpu")
    actions: dict[str, Callable[[State], object]] = {
        "read": lambda state: state["cache"],
        "copy": lambda state: state.copy(),
        "free": lambda state: state.free(),
        "numpy": lambda state: state.numpy(),
    }
    count = moments(lambda: actions[what](exe.new_state()), "line")
    for at in range(1, count + 1):
        state = exe.new_state()
        with suppress(Interrupt), interrupted(at, "line"):
            actions[what](state)
        if state.is_valid:
            exe(np.ones((1, WIDTH), np.float32), state=state)
            assert state["cache"][1, 0] == 1
        state.free()


def test_memory_of_a_device_comes_back_after_an_interrupt() -> None:
    devices = fake("cpu,cuda:0", cuda=1 << 16)
    exe = Session(devices).compile(
        "func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {\n"
        "  %y = fuel.exp %x {placement = #fuel.device<cuda:0>} : tensor<1024xf32>\n"
        "  %z = fuel.neg %y {placement = #fuel.device<cuda:0>} : tensor<1024xf32>\n"
        "  func.return %z : tensor<1024xf32>\n}"
    )
    x = np.zeros(1024, np.float32)
    exe(x)
    cuda = devices.at(fuel_device("cuda:0"))
    free = cuda.free_bytes()
    for at in range(1, moments(lambda: exe(x), "line") + 1):
        with suppress(Interrupt), interrupted(at, "line"):
            exe(x)
        np.testing.assert_array_equal(exe(x)[0], np.full(1024, -1, np.float32))
    assert cuda.free_bytes() == free


def fuel_device(name: str) -> Any:
    from fuel_dialect.attributes import DeviceAttr

    return DeviceAttr.of(name)


# Too little memory.


def refuse(*_: object, **__: object) -> Any:
    raise np._core._exceptions._ArrayMemoryError((1 << 40,), np.dtype("f4"))  # pyright: ignore


def test_too_little_memory_for_a_new_state(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = cumulative("cpu")
    monkeypatch.setattr("fuel_runtime.call.state.np.zeros", refuse)
    with pytest.raises(OutOfMemory, match=r"cpu: main: state cache, 1,024 bytes, takes more mem"):
        exe.new_state()


def test_too_little_memory_for_a_copy_of_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = cumulative("cpu")
    state = exe.new_state()
    with monkeypatch.context() as patch:
        patch.setattr("fuel_runtime.call.state.np.array", refuse)
        with pytest.raises(OutOfMemory, match="cpu: main: a copy of cache takes more memory than"):
            state["cache"]
    assert state["cache"].sum() == 0


@pytest.mark.parametrize("where", ["workspace", "results"])
def test_too_little_memory_in_a_call(where: str) -> None:
    text = """
    func.func @main(%x: tensor<300x300xf32>) -> tensor<300x300xf32> {
      %a = fuel.matmul %x, %x : tensor<300x300xf32>, tensor<300x300xf32> -> tensor<300x300xf32>
      %b = fuel.softmax_last_dim %a : tensor<300x300xf32>
      %c = fuel.matmul %b, %a : tensor<300x300xf32>, tensor<300x300xf32> -> tensor<300x300xf32>
      func.return %c : tensor<300x300xf32>
    }
    """
    exe = Session(threads=1).compile(text)
    run: Any = exe.__call__.__func__.__globals__["run0"]  # pyright: ignore[reportFunctionMemberAccess]
    names, x = inspect.unwrap(run).__globals__, np.eye(300, dtype=np.float32)
    name = "new_workspace" if where == "workspace" else "function"
    whole = names[name]
    names[name] = refuse
    with pytest.raises(OutOfMemory, match=r"cpu: run0 takes [\d,]+ bytes of workspace and 360,000"):
        exe(x)
    names[name] = whole
    assert exe(x)[0].shape == (300, 300)


def test_too_little_memory_for_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = Session().compile(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { func.return %x : tensor<4xf32> }"
    )
    monkeypatch.setattr("fuel_runtime.call.binding.np.asarray", refuse)
    with pytest.raises(OutOfMemory, match="cpu: a call of main takes more memory than the host"):
        exe([1, 2, 3, 4])


def test_too_little_memory_for_a_result_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = Session(fake("cuda:0")).compile(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %y = fuel.neg %x : tensor<4xf32> func.return %y : tensor<4xf32> }"
    )
    monkeypatch.setattr("fuel_runtime.devices.buffer_device.np.empty", refuse)
    with pytest.raises(OutOfMemory, match="cpu: a call of main takes more memory than the host"):
        exe(np.ones(4, np.float32))


def test_too_little_memory_for_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = fuel.weight "w" : tensor<4xf32>
      %y = fuel.add %x, %w : tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    """
    monkeypatch.setattr("fuel_runtime.array_files.as_array", refuse)
    with pytest.raises(OutOfMemory, match=r"weight w: f32\[4\], 16 bytes, takes more memory than"):
        Session().compile(text, weights={"w": np.ones(4, np.float32)})
