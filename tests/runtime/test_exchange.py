# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays between CUDA cards, and between fuel and other libraries, on a stand-in for CuPy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from effort import slow_but
from fake_cards import CUDA, FakeCard, Foreign, fake_cards
from fake_cupy import LEGACY, PER_THREAD, FakeCupy
from fuel_dialect import knobs
from fuel_dialect.errors import ArgumentError
from fuel_runtime import Session
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.cuda.cuda_exchange import CudaArray
from fuel_runtime.devices.emulated.driver import EmulatedDriver
from fuel_runtime.devices.present import Devices

X = np.arange(12, dtype="f4").reshape(3, 4)

DOUBLE = """
func.func @main(%x: tensor<3x4xf32> {fuel.name = "x"}) -> tensor<3x4xf32> {
  %a = fuel.add %x, %x {placement = #fuel.device<cuda:0>} : tensor<3x4xf32>
  func.return %a : tensor<3x4xf32>
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cubins")


@pytest.fixture(autouse=True)
def closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(knobs.CACHE_DIR, str(folder))
    yield
    for card in list(FakeCard.made):
        card.close()


@pytest.fixture
def cupy() -> FakeCupy:
    return FakeCupy()


def device(cupy: FakeCupy) -> BufferDevice:
    (card,) = cards(fake_cards(cupy, 0))
    return card


def cards(devices: Devices) -> list[BufferDevice]:
    """The cards of a session's devices."""
    return [taker for taker in devices.takers if isinstance(taker, BufferDevice)]


def adopted(cupy: FakeCupy, array: np.ndarray, **facts: Any) -> np.ndarray:
    """An array that came to a card from another library, and back."""
    return np.asarray(device(cupy).adopt(Foreign(cupy, array, **facts)))


# What a call takes.


@pytest.mark.parametrize("ways", ["interface", "dlpack", "dlpack and interface"])
def test_an_argument_comes_without_the_host(cupy: FakeCupy, ways: str) -> None:
    exe = Session(fake_cards(cupy, 0)).compile(DOUBLE, results="cuda:0")
    x = Foreign(cupy, X, ways=ways)
    (y,) = exe(x)
    assert [call[1] for call in cupy.calls("copy")] == [4]
    np.testing.assert_array_equal(np.asarray(y), X + X)
    del y
    x.store(X + 1)
    np.testing.assert_array_equal(np.asarray(exe(x)[0]), X + X + 2)
    assert len(cupy.calls("begin")) == 1, "the second call replays what the first recorded"


@pytest.mark.parametrize("ways", ["interface", "dlpack"])
def test_an_argument_may_be_written_over_when_the_call_returns(cupy: FakeCupy, ways: str) -> None:
    exe = Session(fake_cards(cupy, 0)).compile(DOUBLE, results="cuda:0")
    x = Foreign(cupy, X, ways=ways)
    (y,) = exe(x)
    x.store(np.zeros_like(X))
    with cupy.cuda.Device(0):
        x.stream.synchronize()
    np.testing.assert_array_equal(np.asarray(y), X + X)


def test_an_argument_that_the_host_reads(cupy: FakeCupy) -> None:
    program = DOUBLE.replace("cuda:0", "cpu")
    (y,) = Session(fake_cards(cupy, 0)).compile(program)(Foreign(cupy, X))
    np.testing.assert_array_equal(y, X + X)


def test_an_argument_that_does_not_fit(cupy: FakeCupy) -> None:
    exe = Session(fake_cards(cupy, 0)).compile(DOUBLE)
    with pytest.raises(ArgumentError, match=r"argument 0 \(x\): expected f32\[3, 4\], got f64\[3,"):
        exe(Foreign(cupy, X.astype("f8")))
    with pytest.raises(ArgumentError, match=r"main: argument 0 \(x\): an array on a device must"):
        exe(Foreign(cupy, X.T))


STEP = """
func.func @main(%x: tensor<3x4xf32> {fuel.name = "x"},
    %s: tensor<3x4xf32> {fuel.name = "s", fuel.donated, fuel.device = #fuel.device<cuda:0>})
    -> (tensor<3x4xf32> {fuel.aliases = 1 : i64, fuel.device = #fuel.device<cuda:0>}) {
  %a = fuel.add %x, %s {placement = #fuel.device<cuda:0>} : tensor<3x4xf32>
  func.return %a : tensor<3x4xf32>
}
"""


def test_state_and_put(cupy: FakeCupy) -> None:
    session = Session(fake_cards(cupy, 0))
    exe = session.compile(STEP)
    state = exe.new_state(s=Foreign(cupy, X))
    exe(session.put(Foreign(cupy, X), "cuda:0"), state=state)
    assert not cupy.calls("pin")
    np.testing.assert_array_equal(state["s"], X + X)
    with pytest.raises(ArgumentError, match="put: "):
        session.put(Foreign(cupy, X.astype("c16")), "cuda:0")


# When elements are there.


@pytest.mark.parametrize("stream", [LEGACY, PER_THREAD])
def test_the_streams_that_every_card_has(cupy: FakeCupy, stream: int) -> None:
    np.testing.assert_array_equal(adopted(cupy, X, stream=stream), X)
    assert not cupy.calls("synchronize device")


def test_a_version_that_knows_no_streams(cupy: FakeCupy) -> None:
    with cupy.cuda.Device(0):
        x = Foreign(cupy, X, version=2)
    x.facts["stream"] = ...
    np.testing.assert_array_equal(np.asarray(device(cupy).adopt(x)), X)
    assert cupy.calls("synchronize device")


def test_elements_that_are_there_already(cupy: FakeCupy) -> None:
    x = Foreign(cupy, X)
    x.facts["stream"] = None
    with cupy.cuda.Device(0):
        x.stream.synchronize()
    np.testing.assert_array_equal(np.asarray(device(cupy).adopt(x)), X)
    assert not cupy.calls("synchronize device", "await")


def test_a_stream_that_means_two(cupy: FakeCupy) -> None:
    x = Foreign(cupy, X)
    x.facts["stream"] = 0
    with pytest.raises(ArgumentError, match="names stream 0, which can mean two streams"):
        device(cupy).adopt(x)


# What elements are.


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i8", "f2", "f8", ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("ways", ["interface", "dlpack"])
def test_elements(cupy: FakeCupy, dtype: Any, ways: str) -> None:
    array = (np.arange(6) % 2).astype(dtype)
    found = adopted(cupy, array, ways=ways)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_elements_without_a_name_are_what_the_program_says(cupy: FakeCupy) -> None:
    dtype = np.dtype(ml_dtypes.float8_e4m3fn)
    array = np.arange(6).astype(dtype)
    found = device(cupy).adopt(Foreign(cupy, array, typestr="|V1"), dtype)
    np.testing.assert_array_equal(np.asarray(found), array)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"typestr": ">f4"}, "has elements '>f4', which are big-endian"),
        ({"mask": object()}, "has a mask; fuel has no masked elements"),
        ({"data": (64, False)}, "is at 0x40, which CUDA knows not of"),
        ({"data": (0, False)}, "is at 0x0, which CUDA knows not of"),
        ({"data": ...}, "interface__ of a Foreign is {.*}, which is none: KeyError"),
        ({"typestr": "what"}, "which is none: TypeError"),
    ],
)
def test_what_cannot_be_read(cupy: FakeCupy, facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        adopted(cupy, X, **facts)


def test_what_the_other_library_does_meanwhile(cupy: FakeCupy) -> None:
    """It may use the device, also that which wants the elements."""
    card = device(cupy)
    x = Foreign(cupy, X, ways="dlpack")
    seen: list[Any] = []
    x.asked = lambda: seen.append(card.put(X).__cuda_array_interface__)
    np.testing.assert_array_equal(np.asarray(card.adopt(x)), X)
    assert seen[0]["shape"] == (3, 4)


def test_what_the_other_library_refuses(cupy: FakeCupy) -> None:
    message = "a Foreign on a device cannot be read: Can't export tensors that require gradient"
    with pytest.raises(ArgumentError, match=message):
        adopted(cupy, X, ways="dlpack, refused")
    np.testing.assert_array_equal(adopted(cupy, X, ways="dlpack, refused, interface"), X)


# How elements lie.


@pytest.mark.parametrize(
    "view",
    [np.s_[:, 1:3], np.s_[::2], np.s_[:, 2], np.s_[1], np.s_[:, :1], np.s_[:0], np.s_[1:2, ::3]],
    ids=str,
)
def test_rows_with_gaps(cupy: FakeCupy, view: Any) -> None:
    array = X[view]
    np.testing.assert_array_equal(adopted(cupy, array), array)


def test_rows_of_more_than_two_dims(cupy: FakeCupy) -> None:
    array = np.arange(60.0).reshape(3, 4, 5)[:, :, 1:4]
    np.testing.assert_array_equal(adopted(cupy, array), array)
    assert cupy.calls("copy rows") == [("copy rows", 24, 12)]


@pytest.mark.parametrize("strides", [(4, 12), (16, 8), (0, 4), (-16, 4), (16, -4)])
def test_elements_in_another_order(cupy: FakeCupy, strides: tuple[int, ...]) -> None:
    message = rf"but for a gap after each row; its strides are \[{strides[0]}, {strides[1]}\] bytes"
    with pytest.raises(ArgumentError, match=message):
        adopted(cupy, X, strides=strides)


def test_nothing(cupy: FakeCupy) -> None:
    assert adopted(cupy, np.zeros((0, 4), "f4")).shape == (0, 4)
    assert adopted(cupy, np.float32(3) + np.zeros((), "f4")) == 3


# Other cards.


@pytest.mark.parametrize("ways", ["interface", "dlpack"])
def test_an_array_of_another_card(cupy: FakeCupy, ways: str) -> None:
    x = Foreign(cupy, X, card=1, ways=ways)
    y = device(cupy).adopt(x)
    x.store(X + 1)
    with cupy.cuda.Device(1):
        x.stream.synchronize()
    np.testing.assert_array_equal(np.asarray(y), X)
    assert cupy.calls("copy peer") == [("copy peer", 0, 1, 48)]
    rows = Foreign(cupy, X[:, 1:3], card=1, ways=ways)
    np.testing.assert_array_equal(np.asarray(device(cupy).adopt(rows)), X[:, 1:3])


def test_an_array_goes_to_its_own_card(cupy: FakeCupy) -> None:
    devices = fake_cards(cupy, 0, 1)
    exe = Session(devices).compile(DOUBLE.replace("cuda:0", "cuda:1"), results="cuda:1")
    (y,) = exe(Foreign(cupy, X, card=1, ways="dlpack"))
    assert y.device == "cuda:1"
    assert not cupy.calls("copy peer")
    np.testing.assert_array_equal(np.asarray(y), X + X)


TWO = """
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %a = fuel.add %x, %x {placement = #fuel.device<cuda:0>} : tensor<3x4xf32>
  %b = fuel.mul %a, %a {placement = #fuel.device<cuda:1>} : tensor<3x4xf32>
  %c = fuel.sub %b, %x {placement = #fuel.device<cuda:0>} : tensor<3x4xf32>
  func.return %c : tensor<3x4xf32>
}
"""


def test_values_go_from_card_to_card(cupy: FakeCupy) -> None:
    exe = Session(fake_cards(cupy, 0, 1)).compile(TWO)
    report = [(transfer.origin, transfer.to) for transfer in exe.report().transfers]
    assert report == [
        ("caller", "cuda:0"),
        ("cuda:0", "cuda:1"),
        ("cuda:1", "cuda:0"),
        ("cuda:0", "cpu"),
    ]
    for turn in range(3):
        x = X + turn
        np.testing.assert_array_equal(exe(x)[0], (x + x) ** 2 - x)
    assert len(cupy.calls("copy peer")) == 6
    assert cupy.calls("peer") == [("peer", 0), ("peer", 1)]


def test_threads_that_send_values_both_ways(cupy: FakeCupy) -> None:
    exe = Session(fake_cards(cupy, 0, 1)).compile(TWO)

    def call(number: int) -> bool:
        x = X + number
        return all(np.array_equal(exe(x)[0], (x + x) ** 2 - x) for _ in range(10))

    with ThreadPoolExecutor(2) as threads:
        assert all(threads.map(call, range(4)))


def test_nothing_grows(cupy: FakeCupy) -> None:
    devices = fake_cards(cupy, 0, 1)
    exe = Session(devices).compile(TWO)
    x = Foreign(cupy, X, ways="dlpack")
    sizes: set[tuple[Any, ...]] = set()
    for turn in range(30):
        exe(x if turn % 2 else X)
        free = [card.free_bytes() for card in cards(devices)]
        sizes.add((*free, *cupy.held, len(cupy.modules), len(cupy.calls("begin"))))
    assert len(sizes) == 1
    del exe
    for card in cards(devices):
        card.synchronise()
    assert not cupy.modules


def test_memory_is_not_given_away_while_another_card_reads_it(cupy: FakeCupy) -> None:
    devices = fake_cards(cupy, 0, 1)
    one, other = cards(devices)
    value = one.put(X)
    there = other.receive(value)
    del value
    one.put(np.zeros_like(X))
    one.synchronise()
    np.testing.assert_array_equal(np.asarray(there), X)


def test_other_devices_are_reached_by_the_host(cupy: FakeCupy) -> None:
    card, there = device(cupy), EmulatedDriver(CUDA, None)
    other = BufferDevice(CUDA, there, {"triton": lambda run, entry: None})  # pyright: ignore[reportArgumentType]
    assert not card.reaches(other)
    np.testing.assert_array_equal(np.asarray(card.receive(other.put(X))), X)
    assert other.taker is None
    assert other.array_interface(other.put(X)) is None


EXITS = ["del exe, y, session", "del session, y, exe", "del y", "session.devices.at(C).close()", ""]


@pytest.mark.parametrize("last", slow_but(EXITS, EXITS[1:2]))
def test_any_order_at_exit(last: str, folder: Path) -> None:
    code = (
        "from test_exchange import CUDA as C, DOUBLE, FakeCupy, Foreign, Session, X, fake_cards\n"
        "import fuel_runtime.devices.opening as opened\n"
        "session = Session(fake_cards(FakeCupy(), 0))\n"
        "opened._SHARED.update({card.name: card for card in session.devices.takers})\n"
        "exe = session.compile(DOUBLE, results='cuda:0')\n"
        f"(y,) = exe(X)\n{last}\nprint('done')"
    )
    here = Path(__file__).resolve().parent
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{here}:{here.parent}", "PATH": "", knobs.CACHE_DIR: str(folder)},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# What goes out.


def test_dlpack_gives_the_memory_itself(cupy: FakeCupy) -> None:
    y = device(cupy).put(X)
    assert y.__dlpack_device__() == (2, 0)
    with cupy.cuda.Device(0):
        reader = cupy.cuda.Stream(non_blocking=True)
    given = y.__dlpack__(stream=reader.ptr, max_version=(1, 0)).array
    assert isinstance(y.owner, BufferDevice)
    lent = y.owner.lend(y)
    assert isinstance(lent, CudaArray)
    assert (given.data.ptr, given.shape, given.dtype) == (lent.address, (3, 4), np.dtype("f4"))
    assert cupy.calls("export") == [("export", reader.ptr, (1, 0))]
    del y, lent
    # The consumer's stream waits for fuel's, and the memory stays his.
    with cupy.cuda.Device(0):
        reader.synchronize()
    device_memory = cupy.find(given.data.ptr, X.nbytes).bytes[: X.nbytes]
    np.testing.assert_array_equal(device_memory.view("f4").reshape(3, 4), X)


def test_dlpack_gives_a_copy_that_is_asked_for(cupy: FakeCupy) -> None:
    y = device(cupy).put(X)
    assert isinstance(y.owner, BufferDevice)
    lent = y.owner.lend(y)
    assert isinstance(lent, CudaArray)
    assert y.__dlpack__(copy=True).array.data.ptr != lent.address
    np.testing.assert_array_equal(np.from_dlpack(y, device="cpu"), X)
    with pytest.raises(BufferError, match=r"cannot be exported to device \(2, 1\)"):
        y.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="an array on cuda:0 cannot be exported without a copy"):
        y.__dlpack__(dl_device=(1, 0), copy=False)
    eight = device(cupy).put(X.astype(ml_dtypes.float8_e4m3fn))
    with pytest.raises(BufferError, match="dtype is not supported"):
        eight.__dlpack__()


def test_the_interface_of_an_array(cupy: FakeCupy) -> None:
    y = device(cupy).put(X.astype(ml_dtypes.bfloat16))
    cupy.log.clear()
    assert isinstance(y.owner, BufferDevice)
    lent = y.owner.lend(y)
    assert isinstance(lent, CudaArray)
    assert y.__cuda_array_interface__ == {
        "shape": (3, 4),
        "typestr": "<V2",
        "data": (lent.address, True),
        "strides": None,
        "stream": None,
        "version": 3,
    }
    assert cupy.calls("synchronize")
