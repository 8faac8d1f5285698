# SPDX-License-Identifier: MIT OR Apache-2.0
"""
As much of CuPy as fuel calls, on a machine without a GPU, with two cards.

Memory is the host's, a launch runs the kernel of its name in Triton's interpreter, and work of a
stream is done when somebody waits for it, as late as CUDA might: who does not wait sees old bytes.
`log` says what was called, in order. What CuPy or CUDA would refuse or punish is an error:

* a call from a thread whose current card is not that of the stream or of the memory;
* memory that is freed or was never allocated, also that of a graph, and code that is unloaded;
* copies of pageable memory; anything but launches while a graph is captured;
* arguments of a launch whose number or sizes are not those that the cubin says.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fake_cubin import Entry, entry_of
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.triton.interpret import InterpretedKernel, interpreting

CARDS = 2
LEGACY, PER_THREAD = 1, 2
UNIT = 512
GRID = (2**31 - 1, 65535, 65535)


class FakeError(RuntimeError):
    """Stands for the errors of CuPy."""

    def __init__(self, message: str, status: int = 1):
        super().__init__(message)
        self.status = status


class OutOfMemoryError(MemoryError):
    """`cupy.cuda.memory.OutOfMemoryError`."""


class Card:
    """`cupy.cuda.Device`: everything but its making happens inside a block of it."""

    def __init__(self, cupy: FakeCupy, id: int):
        self.id = id
        self._cupy = cupy

    def __enter__(self) -> None:
        self._cupy.thread.cards.append(self.id)

    def __exit__(self, *error: object) -> None:
        self._cupy.thread.cards.pop()


class Stream:
    """`cupy.cuda.Stream`: a queue of work; `done` counts what is behind it."""

    def __init__(self, cupy: FakeCupy, card: int, ptr: int):
        self.ptr = ptr
        self.device_id = card
        self.captured: list[Launch] | None = None
        self.done = 0
        self.is_hung = False
        """True while the card does nothing of this stream: it can only be asked if it has."""
        self.waiting: deque[Callable[[], None]] = deque()
        self._cupy = cupy

    def __enter__(self) -> None:
        assert self._cupy.card == self.device_id, "a stream of another card becomes current"
        self._cupy.thread.streams.append(self)

    def __exit__(self, *error: object) -> None:
        self._cupy.thread.streams.pop()

    def finish(self, mark: int) -> None:
        """Do work until so much of it is done, one thread at a time."""
        with self._cupy.working:
            assert not (self.is_hung and self.done < mark), "somebody waits without end"
            while self.done < mark:
                self.done += 1
                self.waiting.popleft()()

    @property
    def mark(self) -> int:
        """Counts the work that is done once all that was asked for is done."""
        return self.done + len(self.waiting)

    def synchronize(self) -> None:
        self._cupy.did("synchronize", card=self.device_id)
        self.finish(self.mark)

    def wait_event(self, event: Event) -> None:
        self._cupy.did("await", card=self.device_id)
        self.waiting.append(event.finisher())

    def begin_capture(self) -> None:
        assert self.captured is None
        self._cupy.did("begin", card=self.device_id)
        self.captured = []
        self._cupy.thread.captures += 1

    def end_capture(self) -> Graph:
        assert self.captured is not None
        work, self.captured = self.captured, None
        self._cupy.thread.captures -= 1
        self._cupy.did("end", card=self.device_id)
        return Graph(self._cupy, work)


class Event:
    """`cupy.cuda.Event`: a mark in a stream; one that was not recorded is over."""

    def __init__(self, cupy: FakeCupy, is_timed: bool = False):
        self.ptr = next(cupy.handles)
        self.ms: float | None = None
        self._is_timed = is_timed
        self._cupy = cupy
        self._card = cupy.card
        self._recorded: tuple[Stream, int] | None = None

    def record(self, stream: Stream) -> None:
        self._cupy.did("record", card=stream.device_id)
        assert self._card == stream.device_id, "an event is recorded on another card"
        if self._is_timed:
            stream.waiting.append(self._stamp)
        self._recorded = stream, stream.mark

    def _stamp(self) -> None:
        self.ms = self._cupy.clock_ms

    def finisher(self) -> Callable[[], None]:
        """The work before the mark as it is now."""
        recorded = self._recorded
        return (lambda: None) if recorded is None else lambda: recorded[0].finish(recorded[1])

    @property
    def done(self) -> bool:
        """True if the work before the mark is done; each look lets a piece of it be done."""
        self._cupy.did("query")
        if self._recorded is None:
            return True
        stream, mark = self._recorded
        with self._cupy.working:
            if not stream.is_hung:
                stream.finish(min(stream.done + 1, mark))
            return stream.done >= mark

    def synchronize(self) -> None:
        self._cupy.did("wait")
        self.finisher()()


class Interpreted(InterpretedKernel):
    """A kernel that the interpreter runs, and what its code takes its parameters to be."""

    def __init__(self, kernel: DeviceKernel):
        super().__init__(kernel)
        self.parameters = kernel.parameters


class Launch:
    """A kernel with its arguments; it holds neither memory nor code, as CUDA does not."""

    def __init__(self, cupy: FakeCupy, function: Function, args: Sequence[Any], grid: Any):
        self._cupy = cupy
        self._kernel = function.kernel
        self._module = function.module.ptr
        self._grid = grid
        count = len(self._kernel.parameters)
        self._addresses = args[:count]
        self._scalars = [int(value) for value in args[count:-2]]
        self._scratch = [address for address in args[-2:] if address]
        self.check()

    def check(self) -> None:
        """Checks that code and memory are still there, and aligned as the code assumes."""
        cupy = self._cupy
        assert self._module in cupy.modules, f"the code of {self._kernel.name} is unloaded"
        for address in (*self._addresses, *self._scratch):
            cupy.find(address, 1, cupy.card)
        for address, parameter in zip(self._addresses, self._kernel.parameters, strict=True):
            assert not parameter.aligned or address % 16 == 0, f"{address:#x} is not aligned"

    def __call__(self) -> None:
        assert self._module in self._cupy.modules, f"{self._kernel.name} is unloaded as it runs"
        self._cupy.clock_ms += self._cupy.launch_ms
        with interpreting():
            self._kernel.launch(self._addresses, self._scalars, self._grid)


class Graph:
    """`cupy.cuda.Graph`."""

    def __init__(self, cupy: FakeCupy, work: Sequence[Launch]):
        self._cupy = cupy
        self._work = tuple(work)

    def upload(self, stream: Stream) -> None:
        self._cupy.did("upload", len(self._work), card=stream.device_id)

    def launch(self, stream: Stream) -> None:
        self._cupy.did("replay", len(self._work), card=stream.device_id)
        for launch in self._work:
            launch.check()
        stream.waiting.extend(self._work)


class Function:
    """`cupy.cuda.Function`, which keeps its module."""

    def __init__(self, cupy: FakeCupy, module: Module, entry: Entry, kernel: Interpreted):
        self.ptr = 1000
        self.module = module
        self.kernel = kernel
        self.shared = 48 << 10
        self._entry = entry
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
        name = self.kernel.name
        cupy.did("launch", name, grid, block, shared_mem, card=stream.device_id)
        assert all(0 < wanted <= most for wanted, most in zip(grid, GRID, strict=True))
        assert block == (self._entry.threads, 1, 1), f"{name} is made for other blocks"
        assert shared_mem <= self.shared, f"{name} has not asked for {shared_mem} shared bytes"
        assert [len(packed(value)) for value in args] == list(self._entry.sizes)
        cupy.scratch.append(tuple(args[-2:]))
        launch = Launch(cupy, self, args, grid)
        if stream.captured is None:
            stream.waiting.append(launch)
        else:
            stream.captured.append(launch)


def packed(argument: Any) -> bytes:
    """An argument of a launch as CuPy hands it on: 8 bytes of a Python int, whatever its value."""
    if type(argument) is int:
        return argument.to_bytes(8, "little", signed=argument < 1 << 63)
    if isinstance(argument, np.generic):
        return argument.tobytes()
    raise TypeError(f"Unsupported type {type(argument)}")


class Module:
    """`cupy.cuda.function.Module`, unloaded with its last reference, on the card that has it."""

    def __init__(self, cupy: FakeCupy):
        self.ptr = 0
        self._cupy = cupy
        self._cubin = b""

    def load(self, cubin: bytes) -> None:
        assert type(cubin) is bytes
        self._cupy.did("load")
        self.ptr = next(self._cupy.handles)
        self._cupy.modules[self.ptr] = self._cupy.card
        self._cubin = cubin

    def get_function(self, name: str) -> Function:
        self._cupy.did("function", name)
        return Function(self._cupy, self, entry_of(self._cubin, name), self._cupy.kernels[name])

    def __del__(self) -> None:
        if self.ptr:
            self._cupy.unload(self.ptr)


class Chunk:
    """Memory of a card, which begins where CUDA lets it begin."""

    def __init__(self, bytes: int, card: int):
        raw = np.full(bytes + UNIT, 0xFF, np.uint8)
        self.bytes = raw[-raw.ctypes.data % UNIT :][:bytes]
        self.address = self.bytes.ctypes.data
        self.card = card


class Pool:
    """`cupy.cuda.MemoryPool`, which keeps what comes back, for the same stream."""

    def __init__(self, cupy: FakeCupy):
        self._cupy = cupy
        self._idle: list[Chunk] = []

    def malloc(self, bytes: int) -> Pointer:
        cupy = self._cupy
        cupy.did("malloc", bytes)
        assert cupy.thread.streams, "memory is allocated for no stream"
        size = -(-bytes // UNIT) * UNIT
        chunk = next((chunk for chunk in self._idle if chunk.bytes.size == size), None)
        if chunk is not None:
            self._idle.remove(chunk)
            return Pointer(cupy, chunk, self._idle)
        if size > cupy.total - cupy.held[cupy.card]:
            self.free_all_blocks()
        if size > cupy.total - cupy.held[cupy.card]:
            raise OutOfMemoryError(f"Out of memory allocating {bytes:,} bytes")
        cupy.held[cupy.card] += size
        chunk = Chunk(size, cupy.card)
        # Where it is given up, CUDA would first do what was asked for, which may use it.
        cupy.chunks.append(chunk)
        return Pointer(cupy, chunk, self._idle)

    def free_bytes(self) -> int:
        return sum(chunk.bytes.size for chunk in self._idle)

    def free_all_blocks(self) -> None:
        """Memory goes back to the card when all work is done that may use it."""
        self._cupy.did("free_all_blocks")
        self._cupy.finish()
        for chunk in self._idle:
            self._cupy.held[chunk.card] -= chunk.bytes.size
        self._idle.clear()


class Pointer:
    """`cupy.cuda.MemoryPointer` of a pool: its memory goes back with the last reference."""

    def __init__(self, cupy: FakeCupy, chunk: Chunk, idle: list[Chunk]):
        self.ptr = chunk.address
        self.bytes = chunk.bytes
        self._cupy, self._chunk, self._idle = cupy, chunk, idle
        cupy.live[self.ptr] = chunk

    def __del__(self) -> None:
        del self._cupy.live[self.ptr]
        self._idle.append(self._chunk)


class ndarray:
    """`cupy.ndarray` over memory that somebody else owns."""

    def __init__(self, cupy: FakeCupy, shape: Any, dtype: Any, data: Any, strides: Any = None):
        like = np.broadcast_to(np.empty((), dtype), shape)
        self.shape, self.dtype, self.data = shape, like.dtype, data
        self.strides = np.empty(shape, dtype).strides if strides is None else strides
        self._cupy = cupy

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.device_id

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **options: Any) -> Any:
        cupy = self._cupy
        if self.dtype.itemsize == 1 and self.dtype.kind not in "uib":
            raise BufferError("dtype is not supported for dlpack export")
        cupy.did("export", stream, max_version, card=self.data.device_id)
        if stream != -1:
            event = Event(cupy)
            event.record(cupy.stream)
            cupy.stream_of(LEGACY if stream is None else stream).wait_event(event)
        return cupy.capsule(self)


class FakeCupy:
    """The module."""

    __version__ = "14.2.0"

    def __init__(self, total: int = 1 << 24):
        self.log: list[tuple[Any, ...]] = []
        self.kernels: dict[str, Interpreted] = {}
        self.scratch: list[tuple[int, ...]] = []
        self.failures: dict[str, Exception] = {}
        self.live: dict[int, Chunk] = {}
        self.chunks: list[Chunk] = []
        self.modules: dict[int, int] = {}
        self.held = [0] * CARDS
        self.total = total
        self.handles = count(77)
        self.thread = Thread()
        self.working = threading.RLock()
        self.clock_ms = 0.0
        self.launch_ms = 1.0
        """The milliseconds of a launch by the clock of the cards."""
        self._pinned: list[np.ndarray[Any, Any]] = []
        self._streams: dict[tuple[int, int], Stream] = {}
        self._events: WeakValueDictionary[int, Event] = WeakValueDictionary()
        self.cuda = SimpleNamespace(
            runtime=self._runtime(),
            driver=self._driver(),
            function=SimpleNamespace(Module=lambda: Module(self)),
            Device=lambda id: Card(self, id),
            Stream=self._stream,
            MemoryPool=lambda: Pool(self),
            Event=self._event,
            get_elapsed_time=self._elapsed_ms,
            alloc_pinned_memory=self._pin,
            UnownedMemory=lambda ptr, size, owner, card: SimpleNamespace(
                ptr=ptr, size=size, owner=owner, device_id=card
            ),
            MemoryPointer=lambda memory, offset: SimpleNamespace(
                ptr=memory.ptr + offset, device_id=memory.device_id, memory=memory
            ),
        )

    def _runtime(self) -> SimpleNamespace:
        self.facts = {
            "name": b"Fake H200\0\0",
            "major": 9,
            "minor": 0,
            "uuid": bytes(range(16)) + b"rest",
            "totalGlobalMem": self.total,
        }
        return SimpleNamespace(
            cudaDevAttrMaxSharedMemoryPerBlockOptin=97,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            memcpyDeviceToDevice=3,
            memcpyDefault=4,
            memoryTypeUnregistered=0,
            memoryTypeDevice=2,
            getDeviceCount=lambda: CARDS,
            getDeviceProperties=lambda id: self.facts,
            driverGetVersion=lambda: 12080,
            deviceGetAttribute=lambda attribute, id: {97: 232448}[attribute],
            deviceCanAccessPeer=lambda card, peer: 1,
            deviceEnablePeerAccess=lambda peer: self.did("peer", peer),
            deviceSynchronize=self._synchronise,
            pointerGetAttributes=self._attributes,
            memcpyAsync=self._copy,
            memcpyPeerAsync=self._copy_peer,
            memcpy2DAsync=self._copy_rows,
            memsetAsync=self._set,
            memGetInfo=self._free,
            eventQuery=lambda event: 0 if self._events[event].done else 600,
            eventRecord=lambda event, stream: self._events[event].record(self.stream_of(stream)),
            streamWaitEvent=lambda s, event: self.stream_of(s).wait_event(self._events[event]),
        )

    def _driver(self) -> SimpleNamespace:
        self.most_threads = 1024
        return SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK=0,
            moduleUnload=self.unload,
            funcGetAttribute=lambda attribute, function: {0: self.most_threads}[attribute],
            funcSetAttribute=lambda *arguments: self.did("attribute", *arguments),
        )

    # What is current, and what is there.

    @property
    def card(self) -> int:
        """The current card of the thread."""
        assert self.thread.cards, "a call in a thread without a card"
        return self.thread.cards[-1]

    @property
    def stream(self) -> Stream:
        """The current stream of the thread, on its card."""
        mine = [s for s in self.thread.streams if s.device_id == self.card]
        return mine[-1] if mine else self.stream_of(LEGACY)

    def did(self, *call: Any, card: int | None = None) -> None:
        """Note a call, which has to be made with the right card as the current one."""
        assert card is None or self.card == card, f"{call[0]} on card {card}, not {self.card}"
        assert self.thread.cards, f"{call[0]} without a card"
        if self.thread.captures and call[0] not in ("begin", "launch"):
            raise FakeError("cudaErrorStreamCaptureUnsupported", 900)
        if call[0] in self.failures:
            raise self.failures[call[0]]
        self.log.append(call)

    def calls(self, *names: str) -> list[tuple[Any, ...]]:
        """Returns the calls of some functions, by name."""
        return [call for call in self.log if call[0] in names]

    def find(self, address: int, bytes: int, card: int | None = None) -> Chunk:
        """The memory at an address; `card` is whose it has to be."""
        for start, chunk in self.live.items():
            if start <= address and address + bytes <= start + chunk.bytes.size:
                assert card in (None, chunk.card), f"memory of card {chunk.card}, not {card}"
                return chunk
        raise AssertionError(f"{bytes} bytes at {address:#x} are not allocated")

    def stream_of(self, handle: int) -> Stream:
        """A stream by its handle; 1 and 2 are streams that each card has."""
        card = self.card if handle in (LEGACY, PER_THREAD) else -1
        if card >= 0 and (handle, card) not in self._streams:
            self._streams[handle, card] = Stream(self, card, handle)
        return self._streams[handle, card]

    def finish(self, card: int | None = None) -> None:
        """Do all work, of one card or of all."""
        for stream in list(self._streams.values()):
            if card in (None, stream.device_id):
                stream.finish(stream.mark)

    def unload(self, module: int) -> None:
        """Unload a module, on its card."""
        assert self.card == self.modules.pop(module), "a module is unloaded on another card"

    def _stream(self, non_blocking: bool) -> Stream:
        assert non_blocking
        self.did("stream")
        handle = next(self.handles)
        self._streams[handle, -1] = Stream(self, self.card, handle)
        return self._streams[handle, -1]

    def _event(self, block: bool = False, disable_timing: bool = False) -> Event:
        event = Event(self, is_timed=not disable_timing)
        self._events[event.ptr] = event
        return event

    def _elapsed_ms(self, first: Event, last: Event) -> float:
        self.did("elapsed")
        assert first.ms is not None, "the first event is not over, or has no time"
        assert last.ms is not None, "the last event is not over, or has no time"
        return last.ms - first.ms

    def _synchronise(self) -> None:
        self.did("synchronize device")
        self.finish(self.card)

    def _free(self) -> tuple[int, int]:
        self.did("memGetInfo")
        return self.total - self.held[self.card], self.total

    def _attributes(self, address: int) -> SimpleNamespace:
        for start, chunk in self.live.items():
            if start <= address < start + chunk.bytes.size:
                return SimpleNamespace(type=2, device=chunk.card)
        return SimpleNamespace(type=0, device=-2)

    # Copies.

    def _pin(self, bytes: int) -> Any:
        self.did("pin", bytes)
        memory = np.zeros(bytes, np.uint8)
        self._pinned.append(memory)
        block = memory.view(Pinned)
        block.ptr = memory.ctypes.data
        return block

    def _is_pinned(self, address: int, bytes: int) -> bool:
        ends = ((m.ctypes.data, m.ctypes.data + m.size) for m in self._pinned)
        return any(start <= address and address + bytes <= end for start, end in ends)

    def _copy(self, to: int, source: int, bytes: int, kind: int, stream: int) -> None:
        queue = self.stream_of(stream)
        self.did("copy", kind, bytes, card=queue.device_id)
        for address, is_host in ((to, kind == 2), (source, kind == 1)):
            if is_host:
                message = "pageable memory is copied at once, whatever the stream does"
                assert self._is_pinned(address, bytes), message
            else:
                self.find(address, bytes, queue.device_id)
        queue.waiting.append(lambda: _move(to, source, bytes))

    def _copy_peer(
        self, to: int, card: int, source: int, other: int, bytes: int, stream: int
    ) -> None:
        queue = self.stream_of(stream)
        self.did("copy peer", card, other, bytes, card=queue.device_id)
        self.find(to, bytes, card)
        self.find(source, bytes, other)
        queue.waiting.append(lambda: _move(to, source, bytes))

    def _copy_rows(
        self, to: int, pitch: int, source: int, step: int, bytes: int, rows: int, kind: int, s: int
    ) -> None:
        queue = self.stream_of(s)
        self.did("copy rows", bytes, rows, card=queue.device_id)
        assert kind == 4
        assert bytes <= min(pitch, step)
        self.find(to, pitch * (rows - 1) + bytes, queue.device_id)
        self.find(source, step * (rows - 1) + bytes)
        for row in range(rows):
            at = to + row * pitch, source + row * step, bytes
            queue.waiting.append(lambda at=at: _move(*at))

    def _set(self, address: int, value: int, bytes: int, stream: int) -> None:
        queue = self.stream_of(stream)
        self.did("set", value, bytes, card=queue.device_id)
        self.find(address, bytes, queue.device_id)
        queue.waiting.append(lambda: _fill(address, value, bytes))

    # Arrays.

    def ndarray(self, shape: Any, dtype: Any, memptr: Any) -> ndarray:
        return ndarray(self, shape, dtype, memptr)

    def from_dlpack(self, array: Any) -> ndarray:
        """Ask for a capsule, with the card of the array and what stream is current there."""
        kind, card = array.__dlpack_device__()
        assert kind in (2, 13)
        with Card(self, card):
            return array.__dlpack__(stream=self.stream.ptr, max_version=(1, 0), copy=None).array

    def capsule(self, array: ndarray) -> SimpleNamespace:
        """Stands for a capsule of DLPack."""
        return SimpleNamespace(array=array)


class Thread(threading.local):
    """Holds what is current in a thread, and how many graphs it captures."""

    def __init__(self) -> None:
        self.cards: list[int] = []
        self.streams: list[Stream] = []
        self.captures = 0


class Pinned(np.ndarray):
    """Pinned memory, with its address."""

    ptr: int


def _move(to: int, source: int, bytes: int) -> None:
    ctypes.memmove(to, source, bytes)


def _fill(address: int, value: int, bytes: int) -> None:
    ctypes.memset(address, value, bytes)
