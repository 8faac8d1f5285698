# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The drivers of CUDA devices: the emulated one, and the real one on a stand-in for CuPy.

Where there is a GPU the same tests run on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i32

from fake_cards import CUDA, FakeCard
from fake_cupy import FakeCupy, FakeError
from fuel_dialect import knobs
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import (
    DeviceFailure,
    DeviceUnavailable,
    IndexOutOfRange,
    LoweringError,
    OutOfMemory,
)
from fuel_lowering.runs.launches import Buffer, DeviceKernel, DeviceRun, Launch, Parameter
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.cuda import driver as cuda
from fuel_runtime.devices.emulated import driver as emulated
from fuel_runtime.devices.interface import BoundLaunch, Driver
from triton_kernels import ADD, HEAD, kernel

CAPACITY = 1 << 24


OPENED = {
    "emulated": lambda: emulated.open_emulated(CUDA, CAPACITY),
    "fake": FakeCard,
    "cuda": lambda: cuda.open_cuda(CUDA),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(knobs.CACHE_DIR, str(tmp_path))
    yield
    for card in list(FakeCard.made):
        card.close()


@pytest.fixture(
    params=["emulated", "fake", pytest.param("cuda", marks=pytest.mark.needs_cuda)],
)
def driver(request: pytest.FixtureRequest) -> Any:
    opened = OPENED[request.param]()
    yield opened
    opened.close()


def put(driver: Driver, array: np.ndarray) -> Any:
    """Memory with the elements of an array."""
    handle = driver.allocate(-(-array.nbytes // 16) * 16)
    driver.write(handle, array.reshape(-1).view(np.uint8))
    return handle


def get(driver: Driver, handle: Any, like: np.ndarray) -> np.ndarray:
    """The elements of some memory."""
    found = np.empty_like(like)
    driver.read(handle, found.reshape(-1).view(np.uint8))
    return found


@pytest.mark.parametrize("size", [16, 1024, 3 * 1024, 3 * 1024 + 16])
def test_bytes_come_back(driver: Driver, size: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda, "STAGING_BYTES", 1024)
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    handle = put(driver, data)
    np.testing.assert_array_equal(get(driver, handle, data), data)
    driver.write(handle, np.zeros(5, np.uint8), 7)
    data[7:12] = 0
    np.testing.assert_array_equal(get(driver, handle, data), data)
    np.testing.assert_array_equal(get(driver, handle, data[:9]), data[:9])


def test_the_host_may_change_what_it_wrote(driver: Driver):
    data = np.arange(64, dtype=np.uint8)
    handle = put(driver, data)
    data[:] = 0
    np.testing.assert_array_equal(get(driver, handle, data), np.arange(64))


def test_copies_and_zeros(driver: Driver):
    one, two = put(driver, np.arange(64, dtype="u1")), put(driver, np.full(64, 9, "u1"))
    driver.copy(one, two, 48)
    driver.zero(one, 32)
    np.testing.assert_array_equal(get(driver, two, np.empty(64, "u1")), [*range(48), *[9] * 16])
    np.testing.assert_array_equal(get(driver, one, np.empty(64, "u1")), [*[0] * 32, *range(32, 64)])


def test_memory_is_metered(driver: Driver):
    driver.free(driver.allocate(1 << 20))  # CUDA takes memory from the card in larger pieces
    free = driver.free_bytes()
    assert free is not None
    total = driver.total_bytes()
    assert total is not None
    handle = driver.allocate(1 << 20)
    assert free - (driver.free_bytes() or 0) >= 1 << 20
    with pytest.raises(
        OutOfMemory, match=rf"cuda:0: {1 << 60:,} bytes are wanted, [\d,]+ are free"
    ):
        driver.allocate(1 << 60)
    driver.free(handle)
    del handle
    assert driver.free_bytes() == free


def test_an_emulated_device_has_no_more_memory_than_the_host() -> None:
    driver = emulated.open_emulated(CUDA, None)
    with pytest.raises(OutOfMemory, match=f"{1 << 60:,} bytes are wanted, more than the host has"):
        driver.allocate(1 << 60)
    assert driver.free_bytes() is None


def arrays() -> list[np.ndarray]:
    return [np.arange(1000, dtype="f4"), np.full(1000, 0.5, "f4"), np.zeros(1000, "f4")]


def bound(driver: Driver, handles: Sequence[Any]) -> BoundLaunch:
    """x * y + x, by a kernel of its own."""
    loaded = driver.load(kernel("add", ADD, arrays()))
    return BoundLaunch(loaded, tuple(handles), (0, 0, 0), (), (2, 1, 1))


def test_a_recording_reads_what_is_there_when_it_is_replayed(driver: Driver):
    x, y, out = arrays()
    handles = [put(driver, array) for array in (x, y, out)]
    recording = driver.record([bound(driver, handles)])
    np.testing.assert_array_equal(get(driver, handles[2], out), out)
    for factor in (1, 2, 3):
        driver.write(handles[0], (x * factor).view(np.uint8))
        driver.replay(recording)
        np.testing.assert_array_equal(get(driver, handles[2], out), x * factor * 1.5)
    driver.synchronise()
    driver.discard(recording)


def test_launches_follow_one_another_with_offsets_and_scalars(driver: Driver):
    body = """
i = tl.arange(0, 16)
tl.store(p1 + i, tl.load(p0 + i) * 2 + n)
"""
    row = np.zeros(16, "i4")
    loaded = driver.load(kernel("step", body, [row, row], "n"))
    memory = put(driver, np.arange(64, dtype="i4"))
    launches = [
        BoundLaunch(loaded, (memory, memory), (64 * step, 64 * step + 64), (step + 1,), (1, 1, 1))
        for step in range(3)
    ]
    driver.replay(driver.record(launches))
    rows = get(driver, memory, np.empty((4, 16), "i4"))
    for step in range(3):
        np.testing.assert_array_equal(rows[step + 1], rows[step] * 2 + step + 1)


def test_what_does_not_compile_is_named(driver: Driver):
    text = HEAD + "@triton.jit\ndef other(p0):\n    pass\n"
    with pytest.raises(LoweringError, match="kernel add: its source defines no such"):
        driver.load(DeviceKernel("add", text, (Parameter("p0", "f32", 4, True),)))


# The emulated device alone.


def test_new_memory_is_not_zero():
    driver = emulated.open_emulated(CUDA, None)
    assert np.isnan(get(driver, driver.allocate(64), np.empty(16, "f4"))).all()
    assert driver.free_bytes() is None
    assert driver.total_bytes() is None


def test_memory_begins_where_cuda_lets_it_begin():
    driver = emulated.open_emulated(CUDA, None)
    starts = {driver.allocate(16).bytes.ctypes.data % 256 for _ in range(20)}
    assert starts == {0}


@pytest.mark.parametrize("shift", [-1, 4])
def test_a_write_outside_a_buffer_is_an_error(shift: int):
    driver = emulated.open_emulated(CUDA, None)
    body = f"i = tl.arange(0, 4) + ({shift})\ntl.store(p0 + i, 1.0)"
    handle = put(driver, np.zeros(4, "f4"))
    loaded = driver.load(kernel("spill", body, [np.zeros(4, "f4")]))
    recording = driver.record([BoundLaunch(loaded, (handle,), (0,), (), (1, 1, 1))])
    with pytest.raises(LoweringError, match="cuda:0: kernel spill wrote outside its buffer 0"):
        driver.replay(recording)


def test_an_emulated_device_says_so():
    driver = emulated.open_emulated(CUDA, None)
    assert driver.identity == "emulated cuda device"
    assert driver.limits.on_host_cores


# The CUDA driver alone.


def test_the_identity_of_a_card():
    assert FakeCard().identity == ("Fake H200, sm_90, 000102030405060708090a0b0c0d0e0f, CUDA 12.8")


def test_a_run_is_one_graph():
    driver = FakeCard()
    handles = [put(driver, array) for array in arrays()]
    launch = bound(driver, handles)
    driver.fake.log.clear()
    recording = driver.record([launch, launch])
    one = ("launch", "add", (2, 1, 1), (128, 1, 1), 0)
    assert driver.fake.log == [("begin",), one, one, ("end",), ("upload", 2)]
    assert driver.fake.scratch == [(0, 0), (0, 0)]
    driver.fake.log.clear()
    driver.replay(recording)
    assert driver.fake.log == [("replay", 2)]


def test_a_capture_that_fails_is_an_error_and_ends():
    driver = FakeCard()
    launch = bound(driver, [put(driver, array) for array in arrays()])
    driver.fake.failures["launch"] = FakeError("too many resources requested for launch", 701)
    message = "cuda:0: launches of add cannot be captured as a CUDA graph: too many resources"
    with pytest.raises(LoweringError, match=message):
        driver.record([launch])
    driver.fake.failures.clear()
    driver.replay(driver.record([launch]))


def fill(driver: FakeCard, handles: Sequence[Any]) -> None:
    driver.record([bound(driver, handles)])
    driver.write(handles[0], np.zeros(16, "u1"))


@pytest.mark.parametrize("call", ["end", "upload", "load", "pin"])
def test_there_may_be_no_memory_for_other_things_than_arrays(call: str):
    driver = FakeCard()
    handles = [driver.allocate(4000) for _ in arrays()]
    driver.fake.failures[call] = FakeError("cudaErrorMemoryAllocation: out of memory", 2)
    with pytest.raises(OutOfMemory, match="cuda:0: cudaErrorMemoryAllocation: out of memory"):
        fill(driver, handles)


def test_a_module_that_does_not_load_is_named():
    driver = FakeCard()
    driver.fake.failures["load"] = FakeError("no kernel image is available")
    with pytest.raises(LoweringError, match="kernel add does not load: no kernel image"):
        driver.load(kernel("add", ADD, arrays()))


def test_a_block_that_is_too_large_for_its_registers():
    driver = FakeCard()
    driver.fake.most_threads = 64
    message = "kernel add runs blocks of 128 threads; with the registers .* cuda:0 has room for 64"
    with pytest.raises(LoweringError, match=message):
        driver.load(kernel("add", ADD, arrays()))


def test_a_card_that_fails_is_an_error_and_closes():
    driver = FakeCard()
    device = wrapped(driver)
    array = device.receive(np.arange(4, dtype="f4"))
    for call in ("synchronize", "wait"):
        driver.fake.failures[call] = FakeError("an illegal memory access was encountered", 700)
    with pytest.raises(DeviceFailure, match="cuda:0 failed: an illegal memory access"):
        np.asarray(array)
    with pytest.raises(DeviceFailure, match="cuda:0 failed: an illegal memory access"):
        device.synchronise()
    device.close()
    assert not device.is_open
    driver.fake.failures.clear()


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


def test_a_thread_has_no_card_until_it_is_given_one():
    driver = FakeCard()
    x, y, out = arrays()
    handles = in_a_thread(lambda: [put(driver, array) for array in (x, y, out)])
    launch = in_a_thread(lambda: bound(driver, handles))
    recording = in_a_thread(lambda: driver.record([launch]))
    in_a_thread(lambda: driver.replay(recording))
    found = in_a_thread(lambda: get(driver, handles[2], out))
    np.testing.assert_array_equal(found, x * 1.5)
    in_a_thread(lambda: driver.discard(recording))


def test_code_goes_where_the_card_is_current():
    driver = FakeCard()
    loaded = [driver.load(kernel("add", ADD, arrays()))]
    in_a_thread(loaded.clear)
    assert len(driver.fake.modules) == 1
    driver.synchronise()
    assert not driver.fake.modules
    kept = driver.load(kernel("add", ADD, arrays()))
    driver.close()
    assert not driver.fake.modules
    del kept


def test_code_lives_as_long_as_a_recording_of_it():
    driver = FakeCard()
    handles = [put(driver, array) for array in arrays()]
    recording = driver.record([bound(driver, handles)])
    driver.synchronise()
    driver.replay(recording)
    driver.discard(recording)
    driver.load(kernel("step", "tl.store(p0, 1.0)", [np.zeros(1, "f4")]))
    np.testing.assert_array_equal(get(driver, handles[2], arrays()[2]), arrays()[0] * 1.5)


DOT = """
m = tl.arange(0, 128)
k = tl.arange(0, 64)
total = tl.zeros((128, 128), tl.float32)
for step in range(0, 8):
    a = tl.load(p0 + m[:, None] * 512 + k[None, :] + step * 64)
    b = tl.load(p1 + k[:, None] * 128 + m[None, :] + step * 8192)
    total = tl.dot(a, b, total)
tl.store(p2 + m[:, None] * 128 + m[None, :], total)
"""


def test_more_shared_memory_is_asked_for():
    driver = FakeCard()
    halves = np.zeros((128, 512), "f2")
    dot = kernel("dot", DOT, [halves, halves, np.zeros((128, 128), "f4")])
    loaded = driver.load(dot)
    assert 48 << 10 < loaded.compiled.shared <= 232448
    assert driver.fake.calls("attribute") == [("attribute", 1000, 8, loaded.compiled.shared)]
    small = FakeCard()
    small.fake.cuda.runtime.deviceGetAttribute = lambda attribute, id: 65536
    message = (
        rf"kernel dot takes {loaded.compiled.shared:,} bytes of shared memory; cuda:0 has 65,536"
    )
    with pytest.raises(LoweringError, match=message):
        small.load(dot)


def test_scratch_memory_is_held_by_the_recording():
    driver = FakeCard()
    handles = [put(driver, array) for array in arrays()]
    launch = bound(driver, handles)
    launch.loaded.compiled = replace(launch.loaded.compiled, global_scratch=256)
    before = driver.free_bytes() or 0
    recording = driver.record([launch])
    assert driver.free_bytes() == before - 2 * 256
    assert driver.fake.scratch == [(recording.scratch[0].address, 0)]
    driver.replay(recording)
    driver.discard(recording)
    assert driver.free_bytes() == before


def test_large_copies_take_turns_with_two_pieces_of_pinned_memory(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(cuda, "STAGING_BYTES", 1024)
    driver = FakeCard()
    handle = put(driver, np.zeros(4096, np.uint8))
    driver.fake.log.clear()
    driver.write(handle, np.zeros(2500, np.uint8))
    copies = [("copy", 1, 1024), ("copy", 1, 1024), ("copy", 1, 452)]
    assert driver.fake.calls("copy") == copies
    assert driver.fake.log[:3] == [("wait",), copies[0], ("record",)]
    driver.fake.log.clear()
    driver.read(handle, np.zeros(2500, np.uint8))
    assert driver.fake.calls("copy") == [("copy", 2, 1024), ("copy", 2, 1024), ("copy", 2, 452)]
    assert driver.fake.log[-1] == ("wait",)


# What is missing is named.


def found(*present: str) -> Any:
    return lambda name: object() if name in present else None


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ((), "the package triton is not installed; install fuel with the extra 'cuda'"),
        (("triton",), "the package cupy is not installed; install fuel with the extra 'cuda'"),
    ],
)
def test_a_missing_package(present: Any, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda, "find_spec", found(*present))
    with pytest.raises(DeviceUnavailable, match=message):
        cuda.open_cuda(CUDA)


def test_a_missing_package_of_the_emulator(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(emulated, "find_spec", found())
    message = "to emulate cuda:0 takes the package triton; install fuel with the extra 'triton'"
    with pytest.raises(DeviceUnavailable, match=message):
        emulated.open_emulated(CUDA, None)


def test_a_package_that_does_not_import(monkeypatch: pytest.MonkeyPatch):
    def fail(name: str) -> Any:
        raise ImportError(
            "=====\nFailed to import CuPy.\n\nOriginal error:\n  libfoo is gone\n====\n"
        )

    monkeypatch.setattr(cuda, "find_spec", found("triton", "cupy"))
    monkeypatch.setattr(cuda, "import_module", fail)
    with pytest.raises(DeviceUnavailable, match="cupy cannot be imported: libfoo is gone"):
        cuda.open_cuda(CUDA)


def test_a_missing_driver_and_a_missing_card(monkeypatch: pytest.MonkeyPatch):
    cupy = FakeCupy()
    monkeypatch.setattr(cuda, "find_spec", found("triton", "cupy"))
    monkeypatch.setattr(cuda, "import_module", lambda name: cupy)
    assert cuda.open_cuda(CUDA).capability == 90
    with pytest.raises(DeviceUnavailable, match="the CUDA driver has 2 devices, numbered from 0"):
        cuda.open_cuda(DeviceAttr.of("cuda:2"))

    def fail() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver")

    cupy.failures["stream"] = FakeError("cudaErrorDevicesUnavailable", 46)
    with pytest.raises(DeviceUnavailable, match=r"the card cannot be used: .*DevicesUnavailable"):
        cuda.open_cuda(CUDA)
    cupy.failures.clear()
    cupy.facts["major"] = 7
    with pytest.raises(DeviceUnavailable, match=r"Fake H200, sm_70, .* capability 8.0 or newer"):
        cuda.open_cuda(CUDA)
    cupy.cuda.runtime.getDeviceCount = fail
    with pytest.raises(DeviceUnavailable, match=r"no NVIDIA driver that CuPy 14.2.0 can use"):
        cuda.open_cuda(CUDA)


# Under the device that the runtime sees.

NEXT = """
i = tl.arange(0, 16)
step = tl.load(p0 + i)
at = tl.load(p1)
bad = (at < 0) | (at >= 16)
if bad:
    tl.atomic_max(p2, 1)
tl.store(p3 + i, step + tl.load(p0 + tl.where(bad, 0, at)))
"""


def shifted_twice() -> DeviceRun:
    """y = x + x[at], then z = y + y[at]; y is no result."""
    row, index, status = np.zeros(16, "f4"), np.zeros(1, "i4"), np.zeros(1, "i4")
    rows = TensorType(f32, [16])
    return DeviceRun(
        entry="shifted",
        target="triton",
        kernels=(kernel("shift", NEXT, [row, index, status, row]),),
        buffers=(
            Buffer("input", "f32", 16, 0),
            Buffer("input", "i32", 1, 1),
            Buffer("status", "i32", 1),
            Buffer("temporary", "f32", 16),
            Buffer("output", "f32", 16, 0),
        ),
        launches=(
            Launch(0, (0, 1, 2, 3), (0, 0, 0, 0), (), (1, 1, 1)),
            Launch(0, (3, 1, 2, 4), (0, 0, 0, 0), (), (1, 1, 1)),
        ),
        inputs=(rows, TensorType(i32, [1])),
        outputs=(rows,),
        constants={},
        weights={},
        checks=("fuel.index_select",),
    )


def wrapped(driver: Driver) -> BufferDevice:
    """The device of a driver."""
    return BufferDevice(CUDA, driver, {"triton": lambda run, entry: shifted_twice()})


def test_a_run_of_a_device(driver: Any):
    device = wrapped(driver)
    run = device.load([shifted_twice()], {})["shifted"]
    x = np.arange(16, dtype="f4")
    free = None
    for turn in range(20):
        at = np.array([turn % 16], "i4")
        values = [device.receive(each) for each in (x, at)]
        (found,) = run(*values)
        y = x + x[at]
        np.testing.assert_array_equal(np.asarray(found), y + y[at])
        del values, found
        free = device.free_bytes() if free is None else free
    assert device.free_bytes() == free
    with pytest.raises(IndexOutOfRange, match=r"fuel.index_select: an index is out of range"):
        run(*(device.receive(each) for each in (x, np.array([16], "i4"))))
