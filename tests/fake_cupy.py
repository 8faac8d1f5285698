# SPDX-License-Identifier: MIT OR Apache-2.0
"""
As much of CuPy as fuel calls, on a machine without a GPU.

Memory is the host's, work is done at once, a graph is a list of launches, and a launch runs the
kernel of its name in Triton's interpreter. `log` says what was called, in order. Misuse that CUDA
would punish is an error: no device set, copies of pageable memory, launches that bind wrongly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from fuel_lowering.triton.interpret import InterpretedKernel, interpreting


class FakeError(RuntimeError):
    """What CuPy's own errors are."""


class Block:
    """Memory of the device."""

    def __init__(self, bytes: int, ended: Callable[[int], None] = lambda bytes: None):
        self.bytes = np.full(bytes, 0xFF, np.uint8)
        self.ptr = self.bytes.ctypes.data
        self._ended = ended

    def __del__(self) -> None:
        self._ended(self.bytes.size)


class Card:
    """`cupy.cuda.Device`: everything but its making happens inside a block of it."""

    def __init__(self, cupy: FakeCupy, id: int):
        self.id = id
        self._cupy = cupy

    def __enter__(self) -> None:
        self._cupy.current.append(self.id)

    def __exit__(self, *error: object) -> None:
        self._cupy.current.pop()


class Stream:
    """`cupy.cuda.Stream`."""

    def __init__(self, cupy: FakeCupy):
        self.ptr = 77
        self.captured: list[Callable[[], None]] | None = None
        self._cupy = cupy

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def synchronize(self) -> None:
        self._cupy.did("synchronize")

    def begin_capture(self) -> None:
        assert self.captured is None
        self._cupy.did("begin")
        self.captured = []

    def end_capture(self) -> Graph:
        assert self.captured is not None
        self._cupy.did("end")
        graph, self.captured = Graph(self._cupy, self.captured), None
        return graph


class Graph:
    """`cupy.cuda.Graph`."""

    def __init__(self, cupy: FakeCupy, work: Sequence[Callable[[], None]]):
        self._cupy = cupy
        self._work = tuple(work)

    def upload(self, stream: Stream) -> None:
        self._cupy.did("upload", len(self._work))

    def launch(self, stream: Stream) -> None:
        self._cupy.did("replay", len(self._work))
        for each in self._work:
            each()


class Function:
    """`cupy.cuda.Function`: arguments are bound when it is called."""

    def __init__(self, cupy: FakeCupy, name: str):
        self.ptr = 1000
        self.name = name
        self._cupy = cupy

    def __call__(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[Any],
        shared_mem: int,
        stream: Stream,
    ) -> None:
        cupy = self._cupy
        cupy.did("launch", self.name, grid, block, shared_mem)
        if cupy.refusal:
            raise FakeError(cupy.refusal)
        addresses = [value for value in args[:-2] if type(value) is int]
        scalars = [value.item() for value in args[:-2] if type(value) is np.int32]
        assert len(addresses) + len(scalars) == len(args) - 2
        cupy.scratch.append(args[-2:])

        def work() -> None:
            with interpreting():
                cupy.kernels[self.name].launch(addresses, scalars, grid)

        if stream.captured is None:
            work()
        else:
            stream.captured.append(work)


class FakeCupy:
    """The module."""

    __version__ = "14.2.0"

    def __init__(self, total: int = 1 << 24):
        self.log: list[tuple[Any, ...]] = []
        self.kernels: dict[str, InterpretedKernel] = {}
        self.scratch: list[Sequence[int]] = []
        self.current: list[int] = []
        self.held = 0
        self.refusal = ""
        self.total = total
        self._pinned: list[np.ndarray[Any, Any]] = []
        self._facts = {
            "name": b"Fake H200\0\0",
            "major": 9,
            "minor": 0,
            "uuid": bytes(range(16)),
            "totalGlobalMem": total,
        }
        runtime = SimpleNamespace(
            cudaDevAttrMaxSharedMemoryPerBlockOptin=97,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            memcpyDeviceToDevice=3,
            getDeviceCount=lambda: 2,
            getDeviceProperties=lambda id: self._facts,
            driverGetVersion=lambda: 12080,
            deviceGetAttribute=lambda attribute, id: {97: 232448}[attribute],
            memcpyAsync=self._copy,
            memsetAsync=self._set,
            memGetInfo=lambda: (self.total - self.held, self.total),
        )
        driver = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            funcSetAttribute=lambda *arguments: self.did("attribute", *arguments),
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            driver=driver,
            function=SimpleNamespace(Module=lambda: Module(self)),
            Device=lambda id: Card(self, id),
            Stream=self._stream,
            MemoryPool=lambda: Pool(self),
            Event=self._event,
            alloc_pinned_memory=self._pin,
        )

    def did(self, *call: Any) -> None:
        """Note a call, which has to be made with the device set."""
        assert self.current, f"{call[0]} without a device"
        self.log.append(call)

    def calls(self, *names: str) -> list[tuple[Any, ...]]:
        """What was called, of some names."""
        return [call for call in self.log if call[0] in names]

    def _stream(self, non_blocking: bool) -> Stream:
        assert non_blocking
        assert self.current
        return Stream(self)

    def _event(self, disable_timing: bool) -> SimpleNamespace:
        assert disable_timing
        return SimpleNamespace(
            record=lambda stream: self.did("record"), synchronize=lambda: self.did("wait")
        )

    def _pin(self, bytes: int) -> Any:
        memory = np.zeros(bytes, np.uint8)
        self._pinned.append(memory)
        block = memory.view(Pinned)
        block.ptr = memory.ctypes.data
        return block

    def _copy(self, to: int, source: int, bytes: int, kind: int, stream: int) -> None:
        assert stream == 77
        for address, is_host in ((to, kind == 2), (source, kind == 1)):
            assert not is_host or any(
                memory.ctypes.data <= address < memory.ctypes.data + memory.size
                for memory in self._pinned
            ), "pageable memory is copied at once, whatever the stream does"
        self.did("copy", kind, bytes)
        ctypes.memmove(to, source, bytes)

    def _set(self, address: int, value: int, bytes: int, stream: int) -> None:
        assert stream == 77
        self.did("set", value, bytes)
        ctypes.memset(address, value, bytes)


class Pinned(np.ndarray):
    """Pinned memory, with its address."""

    ptr: int


class Pool:
    """`cupy.cuda.MemoryPool`, which keeps nothing."""

    def __init__(self, cupy: FakeCupy):
        assert cupy.current
        self._cupy = cupy

    def malloc(self, bytes: int) -> Block:
        cupy = self._cupy
        cupy.did("malloc", bytes)
        if bytes > cupy.total - cupy.held:
            raise MemoryError(f"out of memory allocating {bytes}")
        cupy.held += bytes
        return Block(bytes, self._ended)

    def _ended(self, bytes: int) -> None:
        self._cupy.held -= bytes

    def free_bytes(self) -> int:
        return 0

    def free_all_blocks(self) -> None:
        self._cupy.did("free_all_blocks")


class Module:
    """`cupy.cuda.function.Module`."""

    def __init__(self, cupy: FakeCupy):
        self._cupy = cupy

    def load(self, cubin: bytes) -> None:
        assert cubin.startswith(b"\x7fELF")
        if self._cupy.refusal:
            raise FakeError(self._cupy.refusal)

    def get_function(self, name: str) -> Function:
        self._cupy.did("function", name)
        return Function(self._cupy, name)
