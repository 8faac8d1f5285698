# SPDX-License-Identifier: MIT OR Apache-2.0
"""The stand-in for CuPy: what it has to notice, so that the tests that use it mean something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_cards import FakeCard
from fake_cupy import FakeError, packed
from fuel_dialect import knobs
from fuel_runtime.devices.cuda.driver import Recording
from fuel_runtime.devices.interface import BoundLaunch
from triton_kernels import kernel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cubins")


@pytest.fixture
def card(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCard]:
    monkeypatch.setenv(knobs.CACHE_DIR, str(folder))
    made = FakeCard()
    yield made
    made.close()


@pytest.fixture
def launch(card: FakeCard) -> BoundLaunch:
    loaded = card.load(kernel("fill", "tl.store(p0 + tl.arange(0, 16), n)", [ROW], "n"))
    return BoundLaunch(loaded, (card.allocate(64),), (0,), (7,), (1, 1, 1))


ROW = np.zeros(16, "i4")


def read(card: FakeCard, handle: Any) -> list[int]:
    found = np.empty_like(ROW)
    card.read(handle, found.view(np.uint8))
    return found.tolist()


def test_arguments_are_packed_as_cupy_does() -> None:
    assert packed(-1) == b"\xff" * 8
    assert packed(1 << 63) == b"\0" * 7 + b"\x80"
    assert packed(np.int32(258)) == b"\2\1\0\0"
    assert packed(np.float32(1)) == b"\0\0\x80\x3f"
    with pytest.raises(TypeError, match="Unsupported type <class 'str'>"):
        packed("x")


def test_work_is_late(card: FakeCard, launch: BoundLaunch) -> None:
    card.replay(card.record([launch]))
    memory = card.fake.find(launch.handles[0].address, 64).bytes.view("i4")
    assert memory[0] == -1
    assert read(card, launch.handles[0]) == [7] * 16


def call(card: FakeCard, launch: BoundLaunch, *args: Any, **options: Any) -> None:
    with card.guard:
        function = launch.loaded.function
        threads = options.get("threads", 128)
        function(options.get("grid", (1, 1, 1)), (threads, 1, 1), args, 0, card.stream)


def test_a_launch_fits_the_cubin(card: FakeCard, launch: BoundLaunch) -> None:
    address = launch.handles[0].address
    call(card, launch, address, np.int32(1), 0, 0)
    for wrong in ((address, 1, 0, 0), (address, np.int32(1)), (address, np.int32(1), 0)):
        with pytest.raises(AssertionError):
            call(card, launch, *wrong)
    with pytest.raises(AssertionError, match="fill is made for other blocks"):
        call(card, launch, address, np.int32(1), 0, 0, threads=64)
    with pytest.raises(AssertionError, match=f"{address + 4:#x} is not aligned"):
        call(card, launch, address + 4, np.int32(1), 0, 0)
    for grid in ((0, 1, 1), (1, 65536, 1)):
        with pytest.raises(AssertionError):
            call(card, launch, address, np.int32(1), 0, 0, grid=grid)


def test_memory_that_is_freed(card: FakeCard, launch: BoundLaunch) -> None:
    recording = card.record([launch])
    (handle,) = launch.handles
    card.free(handle)
    for use in (
        lambda: card.replay(recording),
        lambda: card.write(handle, np.zeros(16, "u1")),
        lambda: read(card, handle),
        lambda: card.zero(handle, 4),
    ):
        with pytest.raises(AssertionError, match="are not allocated"):
            use()


def test_memory_is_not_written_past_its_end(card: FakeCard) -> None:
    small, large = card.allocate(16), card.allocate(1024)
    with pytest.raises(AssertionError, match=r"1024 bytes at .* are not allocated"):
        card.copy(large, small, 1024)


def test_code_that_is_unloaded(card: FakeCard, launch: BoundLaunch) -> None:
    recording = card.record([launch])
    alone = Recording(recording.graph, (), ())
    card.fake.modules.clear()
    with pytest.raises(AssertionError, match="the code of fill is unloaded"):
        card.replay(alone)
    launch.loaded.function.module.ptr = 0


def test_only_launches_are_captured(card: FakeCard) -> None:
    handle, cuda = card.allocate(16), card.fake.cuda
    with card.guard, card.stream:
        event = cuda.Event(disable_timing=True)
        card.stream.begin_capture()
        for use in (
            lambda: card.fake.cuda.MemoryPool().malloc(16),
            card.stream.synchronize,
            event.synchronize,
            lambda: cuda.runtime.memsetAsync(handle.address, 0, 16, card.stream.ptr),
            lambda: cuda.alloc_pinned_memory(16),
        ):
            with pytest.raises(FakeError, match="cudaErrorStreamCaptureUnsupported"):
                use()
        card.stream.end_capture()


def test_the_card_of_a_call(card: FakeCard) -> None:
    handle, cuda = card.allocate(16), card.fake.cuda
    with pytest.raises(AssertionError, match="a call in a thread without a card"):
        card.stream.synchronize()
    with cuda.Device(1), pytest.raises(AssertionError, match="on card 0, not 1"):
        card.stream.synchronize()
    with cuda.Device(1):
        other = cuda.Stream(non_blocking=True)
        with pytest.raises(AssertionError, match="memory of card 0, not 1"):
            cuda.runtime.memsetAsync(handle.address, 0, 16, other.ptr)


def test_pageable_memory(card: FakeCard) -> None:
    handle, host = card.allocate(64), np.zeros(64, np.uint8)
    runtime = card.fake.cuda.runtime
    with card.guard, pytest.raises(AssertionError, match="pageable memory is copied at once"):
        runtime.memcpyAsync(handle.address, host.ctypes.data, 64, 1, card.stream.ptr)
