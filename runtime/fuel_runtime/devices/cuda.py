# SPDX-License-Identifier: MIT OR Apache-2.0
"""
CUDA devices, through CuPy: memory, one stream, cubins, graphs. PyTorch takes no part.

Everything a device is asked for goes to its one stream, in order, so nothing here waits but `read`
and `synchronise`. A run is captured as a CUDA graph; where it cannot be, that is an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect.errors import DeviceUnavailable, LoweringError, OutOfMemory
from fuel_runtime.devices.interface import BoundLaunch, Limits

if TYPE_CHECKING:
    from fuel_dialect.attributes import DeviceAttr
    from fuel_lowering.kernels import DeviceKernel
    from fuel_lowering.triton.compile import CompiledKernel

    Array = np.ndarray[Any, np.dtype[Any]]

PLAIN_SHARED_BYTES = 48 << 10
"""Shared memory that a kernel has without asking."""

STAGING_BYTES = 4 << 20


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
    return CudaDriver(device, cupy)


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


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel on the device. `module` keeps its code there."""

    compiled: CompiledKernel
    module: Any
    function: Any


@dataclass(frozen=True)
class Recording:
    """A graph that was captured, and the scratch memory that its kernels use."""

    graph: Any
    scratch: tuple[Any, ...]


class CudaDriver:
    """The driver of one GPU. `cupy` is the module, which tests replace."""

    limits = Limits()

    def __init__(self, device: DeviceAttr, cupy: Any):
        self._device = device
        self._cuda = cupy.cuda
        self._runtime = cupy.cuda.runtime
        self._card = cupy.cuda.Device(device.ordinal.data)
        self._facts = self._runtime.getDeviceProperties(device.ordinal.data)
        with self._card:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._pool = cupy.cuda.MemoryPool()
            self._staging = _Staging(cupy, self._stream)

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
        return f"{name}, sm_{self.capability}, {facts.get('uuid', b'').hex()}, CUDA {version}"

    # Memory. What is freed stays in CuPy's pool, which gives it back before memory runs out.

    def allocate(self, bytes: int) -> Any:
        """New memory. Raises `OutOfMemory`."""
        with self._card, self._stream:
            try:
                return _Memory(self._pool.malloc(bytes))
            except MemoryError as error:
                free = self._free_bytes()
                raise OutOfMemory(
                    f"{self._device}: {bytes:,} bytes are wanted, {free:,} are free"
                ) from error

    def free(self, handle: _Memory) -> None:
        """Give memory back; later work of the stream may have it at once."""
        with self._card, self._stream:
            handle.block = None

    def pointer(self, handle: _Memory) -> int:
        """The address on the device."""
        return handle.address

    def write(self, handle: _Memory, host: Array, offset: int = 0) -> None:
        """Copy from the host, by way of pinned memory."""
        with self._card:
            self._staging.write(handle.address + offset, host)

    def read(self, handle: _Memory, host: Array) -> None:
        """Wait for the stream, and copy to the host, by way of pinned memory."""
        with self._card:
            self._staging.read(handle.address, host)

    def copy(self, source: _Memory, destination: _Memory, bytes: int) -> None:
        """Copy from one memory to another."""
        runtime = self._runtime
        with self._card:
            runtime.memcpyAsync(
                destination.address,
                source.address,
                bytes,
                runtime.memcpyDeviceToDevice,
                self._stream.ptr,
            )

    def zero(self, handle: _Memory, bytes: int) -> None:
        """Clear the first bytes."""
        with self._card:
            self._runtime.memsetAsync(handle.address, 0, bytes, self._stream.ptr)

    # Launches.

    def load(self, kernel: DeviceKernel) -> LoadedKernel:
        """Compile a kernel for this GPU and load it. Raises `LoweringError`."""
        from fuel_lowering.triton.compile import compile_kernel

        compiled = compile_kernel(kernel, self.capability)
        driver = self._cuda.driver
        self._check_shared(compiled)
        try:
            with self._card:
                module = self._cuda.function.Module()
                module.load(compiled.cubin)
                function = module.get_function(compiled.name)
                if compiled.shared > PLAIN_SHARED_BYTES:
                    driver.funcSetAttribute(
                        function.ptr,
                        driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        compiled.shared,
                    )
        except RuntimeError as error:
            raise LoweringError(f"kernel {kernel.name} does not load: {error}") from error
        return LoadedKernel(compiled, module, function)

    def _check_shared(self, compiled: CompiledKernel) -> None:
        attribute = self._runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin
        most = self._runtime.deviceGetAttribute(attribute, self._card.id)
        if compiled.shared > most:
            raise LoweringError(
                f"kernel {compiled.name} takes {compiled.shared:,} bytes of shared memory; "
                f"{self._device} has {most:,}"
            )

    def record(self, launches: Sequence[BoundLaunch]) -> Recording:
        """Capture launches as a graph. Raises `LoweringError` if CUDA refuses."""
        scratch = [self._scratch(launch) for launch in launches]
        with self._card:
            try:
                with self._captured() as captured:
                    for launch, blocks in zip(launches, scratch, strict=True):
                        self._launch(launch, blocks)
                captured[0].upload(self._stream)
            except RuntimeError as error:
                names = ", ".join(dict.fromkeys(each.loaded.compiled.name for each in launches))
                raise LoweringError(
                    f"{self._device}: launches of {names} cannot be captured as a CUDA graph: "
                    f"{error}"
                ) from error
        held = tuple(block for blocks in scratch for block in blocks if block is not None)
        return Recording(captured[0], held)

    @contextlib.contextmanager
    def _captured(self) -> Iterator[list[Any]]:
        """Capture what is launched in the block; the list has the graph after it."""
        found: list[Any] = []
        self._stream.begin_capture()
        try:
            yield found
        except BaseException:
            # The stream has to leave its capture; the graph of half a run is of no use.
            with contextlib.suppress(RuntimeError):
                self._stream.end_capture()
            raise
        found.append(self._stream.end_capture())

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
            stream=self._stream,
        )

    def replay(self, recording: Recording) -> None:
        """Launch a graph."""
        with self._card:
            recording.graph.launch(self._stream)

    def discard(self, recording: Recording) -> None:
        """A graph and its scratch memory go with the last reference; CUDA ends what runs first."""

    def synchronise(self) -> None:
        """Wait for the stream."""
        with self._card:
            self._stream.synchronize()

    # Facts and the end.

    def free_bytes(self) -> int | None:
        """What the card has left, and what CuPy's pool keeps."""
        with self._card:
            return self._free_bytes()

    def _free_bytes(self) -> int:
        return self._runtime.memGetInfo()[0] + self._pool.free_bytes()

    def total_bytes(self) -> int | None:
        """All memory of the card."""
        return self._facts["totalGlobalMem"]

    def close(self) -> None:
        """Wait, and give memory back to the card."""
        with self._card:
            self._stream.synchronize()
            self._staging.close()
            self._pool.free_all_blocks()


class _Memory:
    """A piece of device memory; its block goes back to CuPy's pool when `block` does."""

    __slots__ = ("address", "block")

    def __init__(self, block: Any):
        self.block = block
        self.address: int = block.ptr


class _Staging:
    """Two pieces of pinned memory of the host that take turns: one is copied while one is sent."""

    def __init__(self, cupy: Any, stream: Any):
        self._cuda = cupy.cuda
        self._stream = stream
        self._slots: list[_Slot] = []

    def write(self, address: int, host: Array) -> None:
        """Send bytes; the host's may change when this returns."""
        for start, slot in self._turns(host.size):
            part = host[start : start + STAGING_BYTES]
            slot.event.synchronize()
            slot.bytes[: part.size] = part
            self._send(address + start, slot.address, part.size, "memcpyHostToDevice")
            slot.event.record(self._stream)

    def read(self, address: int, host: Array) -> None:
        """Fetch bytes, and wait for them."""
        waiting: list[tuple[int, _Slot]] = []
        for start, slot in self._turns(host.size):
            if len(waiting) == len(self._slots):
                _take(host, *waiting.pop(0))
            slot.event.synchronize()
            size = min(STAGING_BYTES, host.size - start)
            self._send(slot.address, address + start, size, "memcpyDeviceToHost")
            slot.event.record(self._stream)
            waiting.append((start, slot))
        for start, slot in waiting:
            _take(host, start, slot)

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


def _take(host: Array, start: int, slot: _Slot) -> None:
    slot.event.synchronize()
    part = host[start : start + STAGING_BYTES]
    part[:] = slot.bytes[: part.size]
