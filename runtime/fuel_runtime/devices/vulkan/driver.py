# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Vulkan devices, through Kompute.

A run is one recorded sequence. Kompute waits for what it submits and holds the GIL while it waits,
so every call is done when it returns. Where there is a bound on waiting, the steps of a run are
submitted one by one instead (`flight`), which takes longer and leaves the host free.

Advertised limits are checked here: a driver may overstep them without a word, and another one
crash.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from fuel_dialect.errors import DeviceTimeout, DeviceUnavailable, LoweringError, OutOfMemory
from fuel_lowering.kompute.compile import CHECKER, COMPILER, compile_all, compile_kernel, find
from fuel_lowering.kompute.lower import lower_run
from fuel_lowering.kompute.spirv import facts_of
from fuel_runtime.devices.interface import BoundLaunch, Driver, Limits
from fuel_runtime.devices.marks import PASSED, Mark
from fuel_runtime.devices.vulkan.facts import VulkanFacts, list_devices
from fuel_runtime.devices.vulkan.flight import ON_THEIR_WAY, Flights

if TYPE_CHECKING:
    from fuel_dialect.attributes import DeviceAttr
    from fuel_dialect.ops.control import RunOp
    from fuel_lowering.runs.launches import DeviceKernel, DeviceRun
    from fuel_runtime.devices.interface import Lower
    from fuel_runtime.devices.vulkan.kompute import Kompute

    Array = np.ndarray[Any, np.dtype[Any]]

LARGEST_TENSOR = (1 << 32) - 16
"""Kompute counts the bytes of a tensor in 32 bits."""

WORD = 4

USABLE = ("Shader",)
"""The capabilities that kernels may ask for: Kompute enables no optional feature."""

_NUMBERS = count(1)


def open_vulkan(device: DeviceAttr) -> VulkanDriver:
    """The driver of `vulkan:N`. Raises `DeviceUnavailable` with what is missing."""
    if find_spec("kp") is None:
        raise DeviceUnavailable(
            "the package kp (Kompute) is not installed; it has no wheels: `make kompute` in fuel's "
            "repository builds it, with the rest of the extra 'kompute'"
        )
    devices = list_devices()
    index = device.ordinal.data
    if index >= len(devices):
        raise DeviceUnavailable(
            f"there is no {device}; the loader lists {len(devices)} Vulkan devices "
            "(drivers are packages of their own, on Debian mesa-vulkan-drivers for a CPU)"
        )
    try:
        for tool in (COMPILER, CHECKER):
            find(*tool)
        return VulkanDriver(device, _opened(index), devices[index])
    except (ImportError, RuntimeError, LoweringError) as error:
        raise DeviceUnavailable(f"Kompute does not open {device}: {error}") from error


_DRIVERS: WeakSet[VulkanDriver] = WeakSet()
_MANAGED: dict[int, Kompute] = {}
"""One logical device for each device, for the life of the process."""


def _opened(index: int) -> Kompute:
    if index not in _MANAGED:
        from fuel_runtime.devices.vulkan.kompute import Kompute

        _MANAGED[index] = Kompute(index)
    return _MANAGED[index]


@atexit.register
def _close_all() -> None:
    """Destroy what Vulkan knows in its order; Python objects that are left are empty shells."""
    for driver in list(_DRIVERS):
        try:
            driver.synchronise()
        except DeviceTimeout:
            driver.abandon()
    left = [flights.kompute for flights in ON_THEIR_WAY]
    for flights in ON_THEIR_WAY:
        flights.kompute.leave(flights.things)
    while _MANAGED:
        kompute = _MANAGED.popitem()[1]
        if kompute not in left:
            kompute.close()


class Memory:
    """
    A tensor of words; `bytes` is what the host sees of it.

    Where the device has memory of its own, that is a copy: `upload` and `download` are recorded
    when they are first needed. `is_written` says that the device may have changed its own.
    """

    __slots__ = ("__weakref__", "bytes", "download", "is_written", "number", "tensor", "upload")

    def __init__(self, tensor: Any, view: Array):
        self.tensor = tensor
        self.bytes = view
        self.number = next(_NUMBERS)
        self.is_written = False
        self.upload: Any = None
        self.download: Any = None


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel that this device can run."""

    name: str
    spirv: bytes
    writes: tuple[bool, ...]
    scalars: int


@dataclass(frozen=True, eq=False)
class Recording:
    """
    Represents steps to be done again and again.

    `sequence` is None if there is nothing to do, or the steps are submitted one by one.
    """

    sequence: Any
    algorithms: tuple[Any, ...]
    steps: tuple[Any, ...] = ()


class VulkanDriver(Driver):
    """
    The driver of one Vulkan device.

    `staged` is whether the host sees copies of the device's memory instead of the memory itself;
    by default it goes by the kind of device.
    """

    def __init__(
        self, device: DeviceAttr, kompute: Kompute, facts: VulkanFacts, staged: bool | None = None
    ):
        self.facts = facts
        self._device = device
        self._kompute = kompute
        self.staged = not facts.shares_memory if staged is None else staged
        self._live: WeakValueDictionary[int, Memory] = WeakValueDictionary()
        self._recordings: WeakValueDictionary[int, Recording] = WeakValueDictionary()
        self._algorithms: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
        self._made_flights: Flights | None = None
        _DRIVERS.add(self)
        self._most = min(facts.storage_range, LARGEST_TENSOR)
        self.limits = Limits(self._most, facts.storage_buffers, facts.on_host_cores)

    @property
    def identity(self) -> str:
        """The name of the hardware and the version of its driver."""
        return f"{self.facts.name}, {self.facts.kind}, driver {self.facts.driver_version}"

    # Memory.

    def allocate(self, bytes: int) -> Memory:
        """New memory. Raises `OutOfMemory`; Kompute itself does not notice that there is none."""
        free = self.free_bytes()
        if bytes > free:
            raise OutOfMemory(f"{self._device}: {bytes:,} bytes are wanted, {free:,} are free")
        if bytes > self._most:
            raise OutOfMemory(
                f"{self._device}: {bytes:,} bytes are wanted in one buffer, which may have "
                f"{self._most:,}"
            )
        if 2 * len(self._live) + 2 > self.facts.allocations:
            raise OutOfMemory(
                f"{self._device}: {len(self._live)} buffers are as many as the device takes "
                f"({self.facts.allocations} allocations); {bytes:,} bytes are wanted in one more"
            )
        tensor = self._kompute.memory(bytes, staged=self.staged)
        memory = Memory(tensor, self._kompute.view(tensor))
        self._live[memory.number] = memory
        return memory

    def free(self, handle: Memory) -> None:
        """Give memory back."""
        self._settle()
        del self._live[handle.number]
        handle.bytes = handle.bytes[:0].copy()
        for thing in (handle.upload, handle.download, handle.tensor):
            if thing is not None:
                self._kompute.destroy(thing)

    def write(self, handle: Memory, host: Array, offset: int = 0) -> None:
        """Copy from the host; what is around the bytes written stays."""
        self._settle()
        if host.size < handle.bytes.size:
            self._download(handle)
        handle.bytes[offset : offset + host.size] = host
        self._upload(handle)

    def read(self, handle: Memory, host: Array) -> None:
        """Copy to the host."""
        self._download(handle)
        host[:] = handle.bytes[: host.size]

    def copy(self, source: Memory, destination: Memory, bytes: int) -> None:
        """Copy between memory of the device, on the device where sizes allow it."""
        if self.staged and source.bytes.size == destination.bytes.size == bytes:
            step = self._kompute.copy(source.tensor, destination.tensor)
            destination.is_written = True
            if self.is_bounded:
                self._submit([step], (source, destination))
                return
            sequence = self._kompute.sequence([step])
            self._kompute.evaluate(sequence)
            self._kompute.destroy(sequence)
            return
        self._download(source)
        self.write(destination, source.bytes[:bytes])

    def zero(self, handle: Memory, bytes: int) -> None:
        """Clear the first bytes."""
        self.write(handle, np.zeros(bytes, np.uint8))

    def _download(self, handle: Memory) -> None:
        self._settle()
        if not self.staged or not handle.is_written:
            return
        if self.is_bounded:
            self._submit([self._kompute.download(handle.tensor)], handle)
            self._settle()
            return
        if handle.download is None:
            handle.download = self._kompute.sequence([self._kompute.download(handle.tensor)])
        self._kompute.evaluate(handle.download)

    def _upload(self, handle: Memory) -> None:
        if not self.staged:
            return
        if self.is_bounded:
            self._submit([self._kompute.upload(handle.tensor)], handle)
            return
        if handle.upload is None:
            handle.upload = self._kompute.sequence([self._kompute.upload(handle.tensor)])
        self._kompute.evaluate(handle.upload)

    # Launches.

    @property
    def lowerings(self) -> Mapping[str, Lower]:
        """The target `kompute`, with shaders that fit this type of device."""
        return {"kompute": self._lower}

    def _lower(self, run: RunOp, entry: str) -> DeviceRun:
        return lower_run(run, entry, "cpu" if self.facts.on_host_cores else "gpu")

    def prepare(self, kernels: Sequence[DeviceKernel]) -> bool:
        """Compiles kernels side by side; each compiler is a process of its own."""
        compile_all(kernels)
        return True

    def load(self, kernel: DeviceKernel) -> LoadedKernel:
        """Compile a kernel. Raises `LoweringError`, also for one that is too much here."""
        spirv = compile_kernel(kernel)
        for why in _refusals(kernel, spirv, self.facts):
            raise LoweringError(f"kernel {kernel.name} cannot run on {self._device}: {why}")
        writes = tuple(parameter.writes for parameter in kernel.parameters)
        return LoadedKernel(kernel.name, spirv, writes, len(kernel.scalars))

    def record(self, launches: Sequence[BoundLaunch]) -> Recording:
        """Record launches in one sequence. Raises `LoweringError` for a grid that is too large."""
        wanted = [launch for launch in launches if 0 not in launch.grid]
        for launch in wanted:
            self._check(launch)
        bound = [self._algorithm(launch) for launch in wanted]
        steps = tuple(self._steps(wanted, bound))
        is_recorded = bool(steps) and not self.is_bounded
        sequence = self._kompute.sequence(steps) if is_recorded else None
        recording = Recording(sequence, tuple(bound), steps)
        self._recordings[id(recording)] = recording
        return recording

    def _steps(self, launches: Sequence[BoundLaunch], bound: Sequence[Any]) -> Iterator[Any]:
        """Launches, with a barrier before each that meets memory in use since the last one."""
        read: set[int] = set()
        written: set[int] = set()
        for launch, algorithm in zip(launches, bound, strict=True):
            touched = {handle.number for handle in launch.handles}
            pairs = zip(launch.handles, launch.loaded.writes, strict=True)
            changed = {handle.number for handle, writes in pairs if writes}
            if touched & written or changed & read:
                yield self._kompute.barrier()
                read, written = set(), set()
            yield self._kompute.dispatch(algorithm, launch.scalars)
            read |= touched
            written |= changed

    def _algorithm(self, launch: BoundLaunch) -> Any:
        loaded = launch.loaded
        numbers = tuple(handle.number for handle in launch.handles)
        key = (loaded.spirv, loaded.scalars, numbers, launch.grid)
        algorithm = self._algorithms.get(key)
        for handle, writes in zip(launch.handles, loaded.writes, strict=True):
            handle.is_written |= writes
        if algorithm is None:
            tensors = [handle.tensor for handle in launch.handles]
            algorithm = self._kompute.algorithm(tensors, loaded.spirv, launch.grid, loaded.scalars)
            self._algorithms[key] = algorithm
        return algorithm

    def _check(self, launch: BoundLaunch) -> None:
        name, most = launch.loaded.name, self.facts.group_counts
        if any(wanted > limit for wanted, limit in zip(launch.grid, most, strict=True)):
            raise LoweringError(
                f"kernel {name}: {launch.grid} workgroups are wanted, {self._device} runs {most}; "
                "the kernel has to fold its grid"
            )
        if any(launch.byte_offsets):
            raise LoweringError(
                f"kernel {name}: byte offsets {launch.byte_offsets} are wanted, and shaders on "
                f"{self._device} are given whole buffers; the kernel has to take them as scalars"
            )

    def replay(self, recording: Recording) -> None:
        """Does what was recorded, and waits for it unless waiting is bounded."""
        if self.is_bounded and recording.steps:
            self._submit(recording.steps, recording)
        elif recording.sequence is not None:
            self._kompute.evaluate(recording.sequence)

    def discard(self, recording: Recording) -> None:
        """Give a sequence up, and the shaders that no other recording has."""
        if self._recordings.pop(id(recording), None) is not None and recording.sequence is not None:
            self._kompute.destroy(recording.sequence)

    def synchronise(self) -> None:
        """Waits for what is on its way. Raises `DeviceTimeout`."""
        self._settle()

    # Work that nobody waits for yet, where there is a bound on waiting.

    @property
    def is_bounded(self) -> bool:
        """True if nobody may wait for the device for ever."""
        return self.watchdog.within is not None

    @property
    def _flights(self) -> Flights:
        if self._made_flights is None:
            self._made_flights = Flights(self._kompute)
        return self._made_flights

    def _submit(self, steps: Sequence[Any], kept: Any) -> None:
        """Has the device do steps, behind what is on its way. Raises `DeviceTimeout`."""
        self._settle()
        self._flights.submit(steps, kept)

    def _settle(self) -> None:
        """Waits for what is on its way. Raises `DeviceTimeout`."""
        flights = self._made_flights
        if flights is None or flights.mark is None:
            return
        self.watchdog.wait(flights.mark)
        flights.land()

    def mark(self) -> Mark:
        """Returns the end of what is on its way; a moment that has passed if there is nothing."""
        flights = self._made_flights
        return (flights and flights.mark) or PASSED

    # Facts.

    def free_bytes(self) -> int:
        """Returns the bytes that are left of the device's heap if nobody else takes from it."""
        return self.total_bytes() - sum(m.bytes.size for m in list(self._live.values()))

    def total_bytes(self) -> int:
        """The device's heap."""
        return self.facts.heap

    def close(self) -> None:
        """Give up recordings, then memory; the logical device stays until the process ends."""
        self._settle()
        if self._made_flights is not None:
            self._made_flights.close()
            self._made_flights = None
        for recording in list(self._recordings.values()):
            self.discard(recording)
        for memory in list(self._live.values()):
            self.free(memory)

    def after_fork(self) -> bool:
        """In a forked child: the device and all it holds stay the parent's."""
        self._leave()
        _MANAGED.clear()
        _DRIVERS.clear()
        ON_THEIR_WAY.clear()
        return False

    def abandon(self) -> None:
        """Gives up nothing of a device that does not answer, now or when the process ends."""
        self._leave()

    def _leave(self) -> None:
        """Keeps all that belongs to the device from being destroyed."""
        held = [t for m in self._live.values() for t in (m.tensor, m.upload, m.download)]
        held += [t for r in self._recordings.values() for t in (r.sequence, *r.algorithms)]
        flights = self._made_flights
        self._kompute.leave([*held, *([] if flights is None else flights.things)])


def _refusals(kernel: DeviceKernel, spirv: bytes, facts: VulkanFacts) -> Iterator[str]:
    """Yields the reasons why a device cannot run a kernel, by what the device advertises."""
    shader = facts_of(spirv)
    foreign = [name for name in shader.capabilities if name not in USABLE]
    if foreign:
        yield f"it needs {', '.join(foreign)}, and Kompute enables no optional feature"
    sizes = zip(shader.local_size, facts.group_sizes, strict=True)
    if shader.invocations > facts.group_invocations or any(size > most for size, most in sizes):
        yield (
            f"its workgroups are {shader.local_size}; the device runs {facts.group_invocations} "
            f"invocations, {facts.group_sizes} at most"
        )
    for what, wanted, most in (
        ("bytes of shared memory", shader.shared_bytes, facts.shared),
        ("bytes of push constants", WORD * len(kernel.scalars), facts.push_constants),
        ("buffers", len(kernel.parameters), facts.storage_buffers),
    ):
        if wanted > most:
            yield f"it takes {wanted:,} {what}, and the device has {most:,}"
