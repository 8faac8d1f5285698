# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls that go over several devices: where values are, when they move, and when they end."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, cast

import numpy as np
import pytest

from effort import slow_but
from fake_devices import FakeDriver, fake
from fuel_dialect.errors import (
    ArgumentError,
    DeviceUnavailable,
    IndexOutOfRange,
    LoweringError,
    NoBackendForOp,
    OutOfMemory,
)
from fuel_runtime import Executable, Session
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.described_topology import topology_for
from fuel_runtime.devices.present import Devices

Array = np.ndarray[Any, np.dtype[Any]]

CHAIN = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = fuel.neg %x {placement = #fuel.device<cuda:0>} : tensor<4xf32>
  %b = fuel.add %a, %y {placement = #fuel.device<cpu>} : tensor<4xf32>
  %c = fuel.mul %b, %a {placement = #fuel.device<vulkan:0>} : tensor<4xf32>
  %d = fuel.sub %b, %a {placement = #fuel.device<vulkan:0>} : tensor<4xf32>
  %e = fuel.sqr %d {placement = #fuel.device<cuda:0>} : tensor<4xf32>
  func.return %c, %e : tensor<4xf32>, tensor<4xf32>
}
"""
X = np.array([1, -2, 3, 0.5], np.float32)
Y = np.array([4, 5, -6, 0.25], np.float32)


def chain(x: Array, y: Array) -> tuple[Array, Array]:
    a, b = -x, y - x
    return b * a, (b - a) ** 2


def driver_of(devices: Devices, name: str) -> FakeDriver:
    return cast(FakeDriver, device_of(devices, name).driver)


def device_of(devices: Devices, name: str) -> BufferDevice:
    return next(d for d in devices.present if isinstance(d, BufferDevice) and d.name.label == name)


def check(results: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    for got, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


def test_a_value_goes_to_a_device_once() -> None:
    devices = fake("cpu,cuda:0,vulkan:0")
    exe = Session(devices).compile(CHAIN)
    check(exe(X, Y), chain(X, Y))
    report = exe.report()
    assert [(t.value, t.origin, t.to) for t in report.transfers] == [
        ("arg0", "caller", "cuda:0"),
        ("result 0 of run0", "cuda:0", "cpu"),
        ("result 0 of run1", "cpu", "vulkan:0"),
        ("result 0 of run0", "cpu", "vulkan:0"),
        ("result 0 of run2", "vulkan:0", "cpu"),
        ("result 0 of run2", "cpu", "cuda:0"),
        ("result 1 of run2", "vulkan:0", "cpu"),
        ("result 0 of run3", "cuda:0", "cpu"),
    ]
    assert report.transfer_bytes == report.moved_bytes == 8 * 16
    check(exe(X, Y), chain(X, Y))
    assert exe.report().moved_bytes == 2 * 8 * 16
    assert driver_of(devices, "cuda:0").done["write"] == 2 * 2


def test_the_report_says_where_runs_are_and_what_moves() -> None:
    exe = Session(fake("cpu,cuda:0,vulkan:0")).compile(CHAIN)
    exe(X, Y)
    text = str(exe.report())
    assert "  cuda:0: emulated, fake cuda\n" in text
    assert (
        "runs        4 a call, of 4 lowered\n"
        "  run0 on cuda:0/triton: 1 kernel, 1 launch\n"
        "  run1 on cpu/numpy: 1 kernel\n"
        "  run2 on vulkan:0/kompute: " in text
    )
    assert "transfers   8 a call, 128 bytes; 128 bytes in all calls so far\n" in text
    assert "  arg0: f32[4], caller to cuda:0, 16 bytes\n" in text
    assert exe.source.count("move_") == 8


def test_a_steady_call_replays_and_takes_no_memory() -> None:
    devices = fake("cpu,cuda:0,vulkan:0")
    exe = Session(devices).compile(CHAIN)
    for step in range(50):
        check(exe(X + step, Y), chain(X + step, Y))
    for name, runs in (("cuda:0", 2), ("vulkan:0", 1)):
        done = driver_of(devices, name).done
        assert done["replay"] == 50 * runs
        assert done["record"] == runs
        assert done["allocate"] <= 6


@pytest.mark.parametrize("keep", [0, 1, 5])
def test_nothing_grows_over_2000_calls(keep: int) -> None:
    """Also where a caller keeps the last few results, which then lie in other memory each time."""
    devices = fake("cpu,cuda:0", cuda=1 << 16)
    cuda, driver = device_of(devices, "cuda:0"), driver_of(devices, "cuda:0")
    before = cuda.free_bytes()
    exe = Session(devices).compile(STEP, results="cuda:0")
    kept: list[Any] = []
    for _ in range(2000):
        kept = [*kept, exe(X)[0]][len(kept) >= keep :]
    assert driver.done["allocate"] <= keep + 4
    assert driver.done["record"] <= keep + 2
    assert len(driver.recordings) <= 8
    del kept, exe
    assert cuda.free_bytes() == before
    assert not driver.recordings


STEP = """
func.func @main(%x: tensor<4xf32> {fuel.name = "x"}) -> tensor<4xf32> {
  %w = fuel.weight "w" : tensor<4xf32>
  %a = fuel.add %x, %x {placement = #fuel.device<cuda:0>} : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
"""


def test_results_stay_where_they_are_wanted() -> None:
    devices = fake("cpu,cuda:0,vulkan:0")
    session = Session(devices)
    exe = session.compile(CHAIN, results=["vulkan:0", None])
    first, second = exe(X, Y)
    assert isinstance(first, DeviceArray)
    assert isinstance(second, np.ndarray)
    assert repr(first) == "<DeviceArray f32[4] on vulkan:0>"
    assert (first.device, first.shape, first.dtype) == ("vulkan:0", (4,), np.float32)
    assert (first.ndim, first.size, first.nbytes, len(first)) == (1, 4, 16, 4)
    check((first, second), chain(X, Y))
    np.testing.assert_array_equal(np.from_dlpack(cast(Any, first)), np.asarray(first))
    assert np.asarray(first, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="cannot be read without a copy"):
        np.asarray(first, copy=False)


def test_an_argument_is_read_where_it_lies() -> None:
    devices = fake("cpu,cuda:0")
    exe = Session(devices).compile(STEP, results="cuda:0")
    (y,) = exe(X)
    moved = exe.report().moved_bytes
    for _ in range(3):
        (y,) = exe(y)
    (y,) = exe(x=y)
    np.testing.assert_array_equal(np.asarray(y), X * 32)
    assert exe.report().moved_bytes == moved == 16
    assert driver_of(devices, "cuda:0").done["write"] == 1


def test_put() -> None:
    session = Session(fake("cpu,cuda:0"))
    exe = session.compile(STEP)
    x = session.put(X, "cuda:0")
    np.testing.assert_array_equal(exe(x)[0], X + X)
    assert exe.report().moved_bytes == 16
    assert session.put(X, "cpu") is X
    with pytest.raises(DeviceUnavailable, match="the session has no cuda:1"):
        session.put(X, "cuda:1")
    with pytest.raises(ArgumentError, match="put: "):
        session.put(["a"], "cuda:0")


def test_an_array_of_another_device_is_brought() -> None:
    devices = fake("cpu,cuda:0,vulkan:0")
    session = Session(devices)
    (far,) = session.compile(STEP, results="vulkan:0")(X)
    (near,) = session.compile(STEP)(far)
    np.testing.assert_array_equal(near, X * 4)
    (there,) = Session(fake("cpu,cuda:0")).compile(STEP)(far)
    np.testing.assert_array_equal(there, X * 4)
    (host,) = Session("cpu").compile(STEP.replace("cuda:0", "cpu"))(far)
    np.testing.assert_array_equal(host, X * 4)


def test_an_argument_that_is_read_on_the_host_too() -> None:
    program = """
    func.func @main(%x: tensor<4xf32> {fuel.device = #fuel.device<cuda:0>})
        -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32> {fuel.device = #fuel.device<cuda:0>}) {
      %a = fuel.neg %x {placement = #fuel.device<cuda:0>} : tensor<4xf32>
      %b = fuel.sqr %x {placement = #fuel.device<cpu>} : tensor<4xf32>
      func.return %a, %b, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }
    """
    devices = fake("cpu,cuda:0")
    exe = Session(devices).compile(program)
    x = device_of(devices, "cuda:0").put(X)
    for argument in (X, x, X[::1], list(map(float, X))):
        negative, square, same = exe(argument)
        check((negative, square, same), (-X, X * X, X))
        assert isinstance(same, DeviceArray)
        assert same is not argument
        assert argument is not x or same.lease is not x.lease


def test_results_share_no_memory() -> None:
    program = """
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
      %c = fuel.const 2.0 : f32 -> tensor<4xf32>
      %a = fuel.neg %x {placement = #fuel.device<cuda:0>} : tensor<4xf32>
      func.return %a, %a, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }
    """
    devices = fake("cpu,cuda:0")
    exe = Session(devices).compile(program, results="cuda:0")
    (a, b, c), (_, _, d) = exe(X), exe(X)
    assert len({v.lease.memory.number for v in (a, b, c, d)}) == 4
    check((a, b, c, d), (-X, -X, np.full(4, 2), np.full(4, 2)))
    assert driver_of(devices, "cuda:0").done["write"] == 3


@pytest.mark.parametrize("where", ["arguments", "results"])
def test_a_device_that_the_session_lacks(where: str) -> None:
    at = "{fuel.device = #fuel.device<cuda:7>}"
    program = f"""
    func.func @main(%x: tensor<4xf32> {at if where == "arguments" else ""})
        -> (tensor<4xf32> {at if where == "results" else ""}) {{
      %a = fuel.neg %x : tensor<4xf32>
      func.return %a : tensor<4xf32>
    }}
    """
    with pytest.raises(DeviceUnavailable, match="main cannot run: the session has no cuda:7; its"):
        Session("cpu").compile(program)


def test_arguments_that_do_not_fit() -> None:
    devices = fake("cpu,cuda:0")
    exe = Session(devices).compile(STEP)
    wrong = device_of(devices, "cuda:0").put(np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match=r"argument 0 \(x\): expected f32\[4\], got f32\[3\]"):
        exe(wrong)


class Foreign:
    """An array of another library, on a CUDA device."""

    __cuda_array_interface__ = {
        "shape": (4,),
        "typestr": "<f4",
        "data": (4096, False),
        "version": 3,
    }


def test_an_array_of_another_library_for_a_device_that_takes_none() -> None:
    devices = fake("cpu,cuda:0")
    assert devices.takers == ()
    exe = Session(devices).compile(STEP, results="cuda:0")
    with pytest.raises(ArgumentError, match="got Foreign, which cannot be read as an array"):
        exe(Foreign())


def test_an_array_without_an_address() -> None:
    (y,) = Session(fake("cpu,cuda:0")).compile(STEP, results="cuda:0")(X)
    assert not hasattr(y, "__cuda_array_interface__")
    with pytest.raises(BufferError, match="without a copy"):
        y.__dlpack__(copy=False)


GATHER = """
func.func @main(%x: tensor<3x2xf32>, %i: tensor<2xui32>, %j: tensor<2xui32>) -> tensor<2x2xf32> {
  %a = fuel.index_select %x, %i {dim = 0 : i64, placement = #fuel.device<cuda:0>}
    : tensor<3x2xf32>, tensor<2xui32> -> tensor<2x2xf32>
  %b = fuel.index_select %a, %j {dim = 1 : i64, placement = #fuel.device<cuda:0>}
    : tensor<2x2xf32>, tensor<2xui32> -> tensor<2x2xf32>
  func.return %b : tensor<2x2xf32>
}
"""


def test_indices_out_of_range() -> None:
    exe = Session(fake("cpu,cuda:0")).compile(GATHER)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    good, bad = np.array([1, 0], np.uint32), np.array([0, 3], np.uint32)
    for _ in range(2):
        np.testing.assert_array_equal(exe(x, good, good)[0], x[good][:, good])
        for arguments in ((bad, good), (good, bad)):
            with pytest.raises(IndexOutOfRange, match=r"^index_select: .* \(on cuda:0\)"):
                exe(x, *arguments)


WIDE = """
func.func @main(%x: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
  %a = fuel.neg %x {placement = #fuel.device<cuda:0>} : tensor<1024xf32>
  %b = fuel.sqr %a {placement = #fuel.device<cpu>} : tensor<1024xf32>
  %c = fuel.exp %b {placement = #fuel.device<cuda:0>} : tensor<1024xf32>
  %d = fuel.neg %x {placement = #fuel.device<cpu>} : tensor<1024xf32>
  func.return %c, %d : tensor<1024xf32>, tensor<1024xf32>
}
"""


def test_a_dead_value_makes_room_at_once() -> None:
    """Two of the four values on the device fit at a time."""
    devices = fake("cpu,cuda:0", cuda=2 * 4096)
    x = np.linspace(0, 1, 1024, dtype=np.float32)
    (c, d) = Session(devices).compile(WIDE)(x)
    check((c, d), (np.exp(x * x), -x))


def test_memory_that_is_kept_for_later_makes_room_for_another_size() -> None:
    devices = fake("cpu,cuda:0", cuda=3 * 4096)
    session = Session(devices)
    wide = session.compile(WIDE)
    x = np.linspace(0, 1, 1024, dtype=np.float32)
    small = session.compile(WIDE.replace("1024", "600"))
    for _ in range(3):
        check(wide(x), (np.exp(x * x), -x))
        check(small(x[:600]), (np.exp(x[:600] ** 2), -x[:600]))


def test_a_recording_that_needs_memory_gets_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = fake("cpu,cuda:0", cuda=3 * 4096)
    driver = driver_of(devices, "cuda:0")
    session = Session(devices)
    wide, small = session.compile(WIDE), session.compile(STEP)
    wide(np.zeros(1024, np.float32))
    record = driver.record

    def hungry(launches: Any) -> Any:
        driver.free(driver.allocate(2 * 4096))
        return record(launches)

    monkeypatch.setattr(driver, "record", hungry)
    np.testing.assert_array_equal(small(X)[0], X + X)


def test_memory_that_there_is_not() -> None:
    devices = fake("cpu,cuda:0", cuda=4096)
    exe = Session(devices).compile(WIDE)
    cuda = device_of(devices, "cuda:0")
    for _ in range(2):
        with pytest.raises(OutOfMemory, match="cuda:0: 4096 bytes are wanted, 0 are free"):
            exe(np.zeros(1024, np.float32))
    assert cuda.free_bytes() == 4096


def test_weights_and_constants_go_to_a_device_once() -> None:
    program = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = fuel.weight "w" : tensor<4xf32>
      %k = fuel.const #fuel.bytes<"0x0000803F000000400000404000008040"> -> tensor<4xf32>
      %a = fuel.add %x, %w {placement = #fuel.device<cuda:0>} : tensor<4xf32>
      %b = fuel.mul %a, %k {placement = #fuel.device<cuda:0>} : tensor<4xf32>
      %c = fuel.neg %b {placement = #fuel.device<cpu>} : tensor<4xf32>
      %d = fuel.sub %c, %w {placement = #fuel.device<cuda:0>} : tensor<4xf32>
      func.return %d : tensor<4xf32>
    }
    """
    devices = fake("cpu,cuda:0", cuda=1 << 20)
    cuda, driver = device_of(devices, "cuda:0"), driver_of(devices, "cuda:0")
    before = cuda.free_bytes()
    exe = Session(devices).compile(program, weights={"w": Y})
    assert cuda.free_bytes() == before
    for _ in range(3):
        check(exe(X), (-(X + Y) * [1, 2, 3, 4] - Y,))
    assert driver.done["write"] == 2 + 3 * 2
    del exe
    assert cuda.free_bytes() == before


ADD_WEIGHT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = fuel.weight "w" : tensor<4xf32>
  %a = fuel.add %x, %w {placement = #fuel.device<cuda:0>} : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
"""


def fixed(array: Array) -> Array:
    """The same elements where nobody can write."""
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


@pytest.mark.parametrize("weight", [Y.copy(), fixed(Y)], ids=["writeable", "fixed"])
def test_executables_share_the_weights_that_they_are_bound_to(weight: Array) -> None:
    devices = fake("cpu,cuda:0", cuda=1 << 20)
    cuda, done = device_of(devices, "cuda:0"), driver_of(devices, "cuda:0").done
    before = cuda.free_bytes()
    one, other = (Session(devices).compile(ADD_WEIGHT, weights={"w": weight}) for _ in range(2))
    check(one(X), (X + Y,))
    used = cuda.free_bytes()
    check(other(X), (X + Y,))
    assert cuda.free_bytes() == used
    assert done["write"] == 2 + 1
    assert done["read"] == 2 + weight.flags.writeable
    del one
    check(other(X), (X + Y,))
    del other
    assert cuda.free_bytes() == before
    third = Session(devices).compile(ADD_WEIGHT, weights={"w": weight})
    check(third(X), (X + Y,))
    assert done["write"] == 2 + 1 + 1 + 2


def test_weights_that_were_written_to_between_two_compilations() -> None:
    devices = fake("cpu,cuda:0")
    weight = Y.copy()
    one = Session(devices).compile(ADD_WEIGHT, weights={"w": weight})
    check(one(X), (X + Y,))
    weight += 1
    other = Session(devices).compile(ADD_WEIGHT, weights={"w": weight})
    check(other(X), (X + Y + 1,))
    check(one(X), (X + Y,))
    third = Session(devices).compile(ADD_WEIGHT, weights={"w": weight.copy()})
    check(third(X), (X + Y + 1,))
    view = np.ndarray(Y.shape, Y.dtype, weight.data)
    view.flags.writeable = False
    weight -= 1
    fourth = Session(devices).compile(ADD_WEIGHT, weights={"w": view})
    check(fourth(X), (X + Y,))


def test_weights_that_were_written_to_and_then_made_read_only() -> None:
    devices = fake("cpu,cuda:0")
    weight = Y.copy()
    one = Session(devices).compile(ADD_WEIGHT, weights={"w": weight})
    check(one(X), (X + Y,))
    weight += 1
    weight.flags.writeable = False
    other = Session(devices).compile(ADD_WEIGHT, weights={"w": weight})
    check(other(X), (X + Y + 1,))


def test_what_a_compiler_refuses_is_said_when_compiling() -> None:
    devices = fake("cpu,cuda:0")
    driver_of(devices, "cuda:0").refused = "fuel.add"
    with pytest.raises(LoweringError, match=r"add.*: the compiler knows no fuel\.add"):
        Session(devices).compile(STEP)


def test_buffers_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    from fuel_runtime.devices.interface import Limits

    devices = fake("cpu,cuda:0")
    told = topology_for(devices)
    monkeypatch.setattr(driver_of(devices, "cuda:0"), "limits", Limits(largest_buffer_bytes=15))
    with pytest.raises(NoBackendForOp, match="largest-buffer: a value of 16 bytes; 15 are allowed"):
        Session(devices).compile(STEP)
    with pytest.raises(LoweringError, match=r"run0: input 0 is 4 elements of f32, 16 bytes; a ker"):
        Session(devices, topology=told).compile(STEP)


def test_threads_at_once() -> None:
    devices = fake("cpu,cuda:0,vulkan:0")
    exe = Session(devices).compile(CHAIN, results=["cuda:0", "cpu"])
    wrong: list[object] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            x, y = rng.standard_normal((2, 4)).astype(np.float32)
            try:
                check(exe(x, y), chain(x, y))
            except BaseException as error:
                wrong.append(error)

    threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    report = exe.report()
    assert report.moved_bytes == 4 * 40 * report.transfer_bytes


def test_an_executable_goes_with_its_last_reference() -> None:
    """Without a collection: what it holds may be most of a device."""
    gc.disable()
    try:
        exe = Session(fake("cpu,cuda:0")).compile(STEP)
        run = weakref.ref(exe.__call__.__func__.__globals__["run0"])  # pyright: ignore[reportFunctionMemberAccess]
        assert run() is not None
        del exe
        assert run() is None
    finally:
        gc.enable()


def test_a_device_that_is_closed() -> None:
    devices = fake("cpu,cuda:0")
    exe = Session(devices).compile(STEP, results="cuda:0")
    (y,) = exe(X)
    device_of(devices, "cuda:0").close()
    device_of(devices, "cuda:0").close()
    for use in (partial(exe, X), partial(np.asarray, y), y.copy):
        with pytest.raises(DeviceUnavailable, match="cuda:0 is closed"):
            use()


EXITS = [
    "del exe, y, session",
    "del session, y, exe",
    "del y",
    "import gc; gc.disable(); cycle = [exe, y]; cycle.append(cycle)",
    "session.devices.present[1].close()",
    "",
]


@pytest.mark.parametrize("last", slow_but(EXITS, EXITS[1:2]))
def test_any_order_at_exit(last: str) -> None:
    code = (
        "import numpy as np\n"
        "from test_walks import STEP, X, Session, fake\n"
        "session = Session(fake('cpu,cuda:0'))\n"
        "exe = session.compile(STEP, results='cuda:0')\n"
        f"(y,) = exe(X)\n{last}\nprint('done')"
    )
    here = Path(__file__).resolve().parent
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{here}:{here.parent}", "PATH": ""},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_source_holds_the_kernels_of_every_target() -> None:
    exe: Executable = Session(fake("cpu,cuda:0")).compile(STEP)
    assert "fuel.kernel pointwise" in exe.source
    assert "        w0 = move_w0(a0)\n        v0, = run0(w0)\n        del w0\n" in exe.source
