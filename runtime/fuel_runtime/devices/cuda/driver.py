# SPDX-License-Identifier: MIT OR Apache-2.0
"""
CUDA devices, through CuPy: memory, one stream, cubins, graphs. PyTorch takes no part.

Everything a device is asked for goes to its one stream, in order, so nothing here waits but `read`
and `synchronise`. Only values that are there already come to the host by another stream (`fetch`).
A run is captured as a CUDA graph; where it cannot be, that is an error.

CUDA has a current card for each thread, and calls come from any thread: all of them are made inside
the driver's `guard`, which sets the card, and turns what CUDA reports into an error of fuel.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect.errors import DeviceFailure, DeviceUnavailable, LoweringError, OutOfMemory
from fuel_runtime.devices.cuda.cuda_exchange import CudaExchange
from fuel_runtime.devices.interface import BoundLaunch, Driver
from fuel_runtime.devices.marks import TimedMark

if TYPE_CHECKING:
    from fuel_dialect.attributes import DeviceAttr
    from fuel_lowering.runs.launches import DeviceKernel
    from fuel_lowering.triton.compile import CompiledKernel

    Array = np.ndarray[Any, np.dtype[Any]]

PLAIN_SHARED_BYTES = 48 << 10
"""Shared memory that a kernel has without asking."""

STAGING_BYTES = 4 << 20

OLDEST_CAPABILITY = 80
"""The compute capability below which Triton's kernels are not supported."""

UUID_BYTES = 16
"""CuPy reads on behind it, up to the next 0."""

NS_PER_MS = 1e6

OUT_OF_MEMORY = 2
"""The status of that error, in CUDA's runtime and in its driver."""

DONE, NOT_READY = 0, 600
"""The statuses of an event that CUDA has come to, and of one that it will come to."""


def open_cuda(device: DeviceAttr) -> CudaDriver:
    """Open a GPU by its number. Raises `DeviceUnavailable` that says what is missing."""
    for package in ("triton", "cupy"):
        if find_spec(package) is None:
            raise DeviceUnavailable(
                f"the package {package} is not installed; install fuel with the extra 'cuda'"
            )
    try:
        cupy = import_module("cupy")
    except ImportError as error:
        line = next((line for line in str(error).splitlines()[::-1] if line.strip("= ")), "")
        raise DeviceUnavailable(f"the package cupy cannot be imported: {line.strip()}") from error
    _check_present(device, cupy)
    try:
        driver = CudaDriver(device, cupy)
    except (RuntimeError, DeviceFailure, OutOfMemory) as error:
        raise DeviceUnavailable(f"the card cannot be used: {error}") from error
    if driver.capability < OLDEST_CAPABILITY:
        raise DeviceUnavailable(
            f"{driver.identity}: Triton wants a card of compute capability 8.0 or newer"
        )
    return driver


def _check_present(device: DeviceAttr, cupy: Any) -> None:
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except RuntimeError as error:
        raise DeviceUnavailable(
            f"there is no NVIDIA driver that CuPy {cupy.__version__} can use ({error}); "
            "install or update the driver of the GPU"
        ) from error
    if device.ordinal.data >= count:
        raise DeviceUnavailable(
            f"the CUDA driver has {count} device{'s' * (count != 1)}, numbered from 0"
        )


class LoadedKernel:
    """A kernel on the device."""

    __slots__ = ("_code", "compiled", "function")

    def __init__(self, compiled: CompiledKernel, code: Code, function: Any):
        self.compiled = compiled
        self.function = function
        self._code = code


class Code:
    """
    A module on the card, which goes when the driver next has the card, or is closed.

    CuPy would unload it with the last reference, which may go in a thread that has no current card,
    while its kernel still runs, or when the process has all but ended.
    """

    __slots__ = ("__weakref__", "_gone", "module")

    def __init__(self, module: Any, gone: deque[Any]):
        self.module = module
        self._gone = gone

    def __del__(self) -> None:
        self._gone.append(self.module)


class Recording:
    """A graph that was captured; what its kernels use lives as long."""

    __slots__ = ("graph", "kernels", "scratch")

    def __init__(self, graph: Any, kernels: Sequence[LoadedKernel], scratch: Sequence[_Memory]):
        self.graph: Any = graph
        self.kernels: tuple[LoadedKernel, ...] = tuple(kernels)
        self.scratch: tuple[_Memory, ...] = tuple(scratch)

    def end(self) -> None:
        """Give everything up; CUDA lets a graph that runs come to its end."""
        self.graph, self.kernels, self.scratch = None, (), ()


class Guard:
    """A block with a card as the current one, and with fuel's errors in place of CUDA's."""

    def __init__(self, name: str, card: Any):
        self._name = name
        self._card = card

    def __enter__(self) -> None:
        try:
            self._card.__enter__()
        except RuntimeError as error:
            raise self._error_of(error) from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._card.__exit__(kind, error, trace)
        if isinstance(error, RuntimeError):
            raise self._error_of(error) from error

    def _error_of(self, error: RuntimeError) -> DeviceFailure | OutOfMemory:
        if is_out_of_memory(error):
            return OutOfMemory(f"{self._name}: {error}")
        return DeviceFailure(f"{self._name} failed: {error}")


class EventMark(TimedMark):
    """Represents an event in a stream; any thread may look at it or wait for it."""

    def __init__(self, event: Any, guard: Guard, cuda: Any):
        self.event = event
        self._guard = guard
        self._cuda = cuda

    def is_done(self) -> bool:
        """Returns True if the card has come to the event. Raises `DeviceFailure`."""
        with self._guard:
            status = self._cuda.runtime.eventQuery(self.event.ptr)
            if status not in (DONE, NOT_READY):
                self.event.synchronize()  # which says what the status means
        return status != NOT_READY

    def wait(self) -> None:
        """Waits until the card has come to the event, not for what the stream has to do then."""
        with self._guard:
            self.event.synchronize()

    def ns_since(self, first: TimedMark) -> float:
        """Returns the nanoseconds between two events, by the clock of the card."""
        assert isinstance(first, EventMark)
        with self._guard:
            return self._cuda.get_elapsed_time(first.event, self.event) * NS_PER_MS


def is_out_of_memory(error: RuntimeError) -> bool:
    """Returns True if an error of CuPy says that a card has no memory left."""
    return getattr(error, "status", None) == OUT_OF_MEMORY


class CudaDriver(Driver):
    """The driver of one GPU. `cupy` is the module, which tests replace."""

    def __init__(self, device: DeviceAttr, cupy: Any):
        self._device = device
        self.cupy = cupy
        self._cuda = cupy.cuda
        self._runtime = cupy.cuda.runtime
        self.card = cupy.cuda.Device(device.ordinal.data)
        self.guard = Guard(str(device), self.card)
        self._facts = self._runtime.getDeviceProperties(device.ordinal.data)
        self._codes: weakref.WeakSet[Code] = weakref.WeakSet()
        self._unused: deque[Any] = deque()
        with self.guard:
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self._pool = cupy.cuda.MemoryPool()
            self._staging = _Staging(cupy, self.stream, self.wait_for)
            self._fetching = _Staging(cupy, cupy.cuda.Stream(non_blocking=True), self.wait_for)
        self._exchange = CudaExchange(self)

    @property
    def capability(self) -> int:
        """The compute capability, as 90 for 9.0."""
        return 10 * self._facts["major"] + self._facts["minor"]

    @property
    def identity(self) -> str:
        """Name, compute capability, UUID of the card, and the newest CUDA its driver knows."""
        facts, known = self._facts, self._runtime.driverGetVersion()
        name = facts["name"].rstrip(b"\0").decode()
        version = f"{known // 1000}.{known % 1000 // 10}"
        card = facts.get("uuid", b"")[:UUID_BYTES].hex()
        return f"{name}, sm_{self.capability}, {card}, CUDA {version}"

    @property
    def exchange(self) -> CudaExchange:
        """The way to other cards and libraries."""
        return self._exchange

    # Memory. What is freed stays in CuPy's pool, which gives it back before memory runs out.

    def allocate(self, bytes: int) -> _Memory:
        """New memory. Raises `OutOfMemory`."""
        if self.watchdog.within is not None:
            self._drain()  # CUDA waits for the card to make room, for ever
        with self.guard, self.stream:
            try:
                return _Memory(self._pool.malloc(bytes))
            except MemoryError as error:
                free = self._free_bytes()
                raise OutOfMemory(
                    f"{self._device}: {bytes:,} bytes are wanted, {free:,} are free"
                ) from error

    def free(self, handle: _Memory) -> None:
        """Give memory back; later work of the stream may have it at once."""
        with self.guard:
            handle.block = None

    def write(self, handle: _Memory, host: Array, offset: int = 0) -> None:
        """Copy from the host, by way of pinned memory."""
        with self.guard:
            self._staging.write(handle.address + offset, host)

    def read(self, handle: _Memory, host: Array) -> None:
        """Wait for the stream, and copy to the host, by way of pinned memory."""
        with self.guard:
            self._staging.read(handle.address, host)

    def fetch(self, handle: _Memory, host: Array) -> None:
        """Copies to the host in a stream beside that of the card."""
        with self.guard:
            self._fetching.read(handle.address, host)

    def copy(self, source: _Memory, destination: _Memory, bytes: int) -> None:
        """Copy from one memory to another."""
        runtime = self._runtime
        with self.guard:
            runtime.memcpyAsync(
                destination.address,
                source.address,
                bytes,
                runtime.memcpyDeviceToDevice,
                self.stream.ptr,
            )

    def zero(self, handle: _Memory, bytes: int) -> None:
        """Clear the first bytes."""
        with self.guard:
            self._runtime.memsetAsync(handle.address, 0, bytes, self.stream.ptr)

    # Launches.

    def load(self, kernel: DeviceKernel) -> LoadedKernel:
        """Compile a kernel for this GPU and load it. Raises `LoweringError`."""
        from fuel_lowering.triton.compile import compile_kernel

        compiled = compile_kernel(kernel, self.capability)
        with self.guard:
            if self._unused:
                self._drain()
                self._unload()
            self._check_shared(compiled)
            try:
                code = Code(self._cuda.function.Module(), self._unused)
                self._codes.add(code)
                code.module.load(compiled.cubin)
                function = code.module.get_function(compiled.name)
                self._fit(compiled, function)
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                raise LoweringError(f"kernel {kernel.name} does not load: {error}") from error
        return LoadedKernel(compiled, code, function)

    def _fit(self, compiled: CompiledKernel, function: Any) -> None:
        """Check the block that a kernel runs in, and ask for the shared memory that it takes."""
        driver = self._cuda.driver
        # That its code is asked about makes CUDA load it now, and not while a graph is captured.
        most = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function.ptr)
        if compiled.threads > most:
            raise LoweringError(
                f"kernel {compiled.name} runs blocks of {compiled.threads} threads; with the "
                f"registers that it takes {self._device} has room for {most}"
            )
        if compiled.shared > PLAIN_SHARED_BYTES:
            wanted = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function.ptr, wanted, compiled.shared)

    def _unload(self) -> None:
        """Give the code of kernels up that nobody has; none of it may run any more."""
        while self._unused:
            module = self._unused.popleft()
            if module.ptr:
                self._cuda.driver.moduleUnload(module.ptr)
            module.ptr = 0

    def _check_shared(self, compiled: CompiledKernel) -> None:
        attribute = self._runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin
        most = self._runtime.deviceGetAttribute(attribute, self.card.id)
        if compiled.shared > most:
            raise LoweringError(
                f"kernel {compiled.name} takes {compiled.shared:,} bytes of shared memory; "
                f"{self._device} has {most:,}"
            )

    def record(self, launches: Sequence[BoundLaunch]) -> Recording:
        """Capture launches as a graph. Raises `LoweringError` if CUDA refuses."""
        scratch = [self._scratch(launch) for launch in launches]
        with self.guard:
            try:
                with self._captured() as captured:
                    for launch, blocks in zip(launches, scratch, strict=True):
                        self._launch(launch, blocks)
                captured[0].upload(self.stream)
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                names = ", ".join(dict.fromkeys(each.loaded.compiled.name for each in launches))
                raise LoweringError(
                    f"{self._device}: launches of {names} cannot be captured as a CUDA graph: "
                    f"{error}"
                ) from error
        held = [block for blocks in scratch for block in blocks if block is not None]
        return Recording(captured[0], [launch.loaded for launch in launches], held)

    @contextlib.contextmanager
    def _captured(self) -> Iterator[list[Any]]:
        """Capture what is launched in the block; the list has the graph after it."""
        found: list[Any] = []
        self.stream.begin_capture()
        try:
            yield found
        except BaseException:
            # The stream has to leave its capture; the graph of half a run is of no use.
            with contextlib.suppress(RuntimeError):
                self.stream.end_capture()
            raise
        found.append(self.stream.end_capture())

    def _scratch(self, launch: BoundLaunch) -> tuple[_Memory | None, _Memory | None]:
        """Memory that Triton's code wants besides its arguments: a part for each block."""
        compiled, blocks = launch.loaded.compiled, prod(launch.grid)
        sizes = compiled.global_scratch * blocks, compiled.profile_scratch * blocks
        first, second = (self.allocate(size) if size else None for size in sizes)
        return first, second

    def _launch(self, launch: BoundLaunch, scratch: tuple[_Memory | None, _Memory | None]) -> None:
        compiled = launch.loaded.compiled
        starts = (handle.address for handle in launch.handles)
        pointers = [s + o for s, o in zip(starts, launch.byte_offsets, strict=True)]
        scalars = [np.int32(value) for value in launch.scalars]
        blocks = [0 if block is None else block.address for block in scratch]
        launch.loaded.function(
            launch.grid,
            (compiled.threads, 1, 1),
            (*pointers, *scalars, *blocks),
            shared_mem=compiled.shared,
            stream=self.stream,
        )

    def replay(self, recording: Recording) -> None:
        """Launch a graph."""
        with self.guard:
            recording.graph.launch(self.stream)

    def discard(self, recording: Recording) -> None:
        """Give a graph and its scratch memory up."""
        with self.guard:
            recording.end()

    def synchronise(self) -> None:
        """Waits for the stream."""
        with self.guard:
            self._drain()
            self._unload()

    def _drain(self) -> None:
        if self.watchdog.within is None:
            with self.guard:
                self.stream.synchronize()
        else:
            self.watchdog.wait(self.mark())

    def wait_for(self, event: Any) -> None:
        """Waits until the card has come to an event. Raises `DeviceTimeout`."""
        self.watchdog.wait(EventMark(event, self.guard, self._cuda))

    def mark(self) -> EventMark:
        """Returns an event behind the work of the stream, which notes when the card gets there."""
        with self.guard:
            event = self._cuda.Event()
            event.record(self.stream)
        return EventMark(event, self.guard, self._cuda)

    # Facts and the end.

    def free_bytes(self) -> int | None:
        """Returns the bytes that the card has left, and those that CuPy's pool keeps."""
        with self.guard:
            return self._free_bytes()

    def _free_bytes(self) -> int:
        return self._runtime.memGetInfo()[0] + self._pool.free_bytes()

    def total_bytes(self) -> int | None:
        """All memory of the card."""
        return self._facts["totalGlobalMem"]

    def close(self) -> None:
        """Wait, and give memory back to the card."""
        with self.guard:
            # After a failure of the card nothing of this works any more, nor has to.
            with contextlib.suppress(RuntimeError):
                self.stream.synchronize()
                self._unused.extend(code.module for code in self._codes)
                self._codes.clear()
                self._unload()
            self._staging.close()
            self._fetching.close()
            self._pool.free_all_blocks()

    def after_fork(self) -> bool:
        """In a forked child CUDA refuses every call, those that would give memory back too."""
        return False


class _Memory:
    """A piece of device memory; its block goes back to CuPy's pool when `block` does."""

    __slots__ = ("address", "block")

    def __init__(self, block: Any):
        self.block = block
        self.address: int = block.ptr


class _Staging:
    """Two pieces of pinned memory of the host that take turns: one is copied while one is sent."""

    def __init__(self, cupy: Any, stream: Any, wait_for: Callable[[Any], None]):
        self._cuda = cupy.cuda
        self._stream = stream
        self._wait_for = wait_for
        self._slots: list[_Slot] = []

    def write(self, address: int, host: Array) -> None:
        """Send bytes; the host's may change when this returns."""
        for start, slot in self._turns(host.size):
            part = host[start : start + STAGING_BYTES]
            self._wait_for(slot.event)
            slot.bytes[: part.size] = part
            self._send(address + start, slot.address, part.size, "memcpyHostToDevice")
            slot.event.record(self._stream)

    def read(self, address: int, host: Array) -> None:
        """Fetch bytes, and wait for them."""
        waiting: list[tuple[int, _Slot]] = []
        for start, slot in self._turns(host.size):
            if len(waiting) == len(self._slots):
                self._take(host, *waiting.pop(0))
            self._wait_for(slot.event)
            size = min(STAGING_BYTES, host.size - start)
            self._send(slot.address, address + start, size, "memcpyDeviceToHost")
            slot.event.record(self._stream)
            waiting.append((start, slot))
        for start, slot in waiting:
            self._take(host, start, slot)

    def _take(self, host: Array, start: int, slot: _Slot) -> None:
        self._wait_for(slot.event)
        part = host[start : start + STAGING_BYTES]
        part[:] = slot.bytes[: part.size]

    def _turns(self, bytes: int) -> Iterator[tuple[int, _Slot]]:
        if not self._slots:
            self._slots = [_Slot(self._cuda), _Slot(self._cuda)]
        for start in range(0, bytes, STAGING_BYTES):
            slot = self._slots.pop(0)
            self._slots.append(slot)
            yield start, slot

    def _send(self, to: int, source: int, bytes: int, kind: str) -> None:
        runtime = self._cuda.runtime
        runtime.memcpyAsync(to, source, bytes, getattr(runtime, kind), self._stream.ptr)

    def close(self) -> None:
        """Give the pinned memory up."""
        self._slots.clear()


class _Slot:
    """A piece of pinned memory, and when the last copy from or to it is done."""

    def __init__(self, cuda: Any):
        block = cuda.alloc_pinned_memory(STAGING_BYTES)
        self.bytes: Array = np.frombuffer(block, np.uint8, STAGING_BYTES)
        self.address: int = block.ptr
        self.event = cuda.Event(disable_timing=True)
