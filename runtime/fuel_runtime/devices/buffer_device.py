# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does what all devices with memory of their own do, whatever their driver."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.errors import DeviceFailure, DeviceTimeout, DeviceUnavailable, OutOfMemory
from fuel_dialect.progress import steps
from fuel_passes.memory.sizes import least_known, size_class
from fuel_passes.memory.workspace import shared_workspace
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.loaded_run import LoadedRun, Recordings, array_bytes
from fuel_runtime.devices.marks import Progress
from fuel_runtime.devices.memory_pool import Lease, Pool
from fuel_runtime.devices.uploads import Key, Uploads, Weights
from fuel_runtime.devices.watchdog import Watchdog

if TYPE_CHECKING:
    from fuel_dialect.attributes import DeviceAttr
    from fuel_dialect.ops.control import RunOp
    from fuel_lowering.runs.functions import LoweredRun
    from fuel_lowering.runs.launches import DeviceKernel, DeviceRun
    from fuel_runtime.devices.exchange import ForeignArray
    from fuel_runtime.devices.interface import BoundLaunch, Driver, Limits, Lower
    from fuel_runtime.devices.marks import Mark

    Array = np.ndarray[Any, np.dtype[Any]]

Done = TypeVar("Done")

AGES = 1 << 20
"""The calls as which loading counts: memory that is idle then is of other programs."""


class EndedRun(weakref.ref["LoadedRun"]):
    """
    Tells a device that a run is gone, and holds its recordings.

    It calls the `append` of a deque then, as `memory_pool.End` does, and for the same reasons.
    """

    __slots__ = ("recordings",)

    recordings: Recordings


class BufferDevice:
    """
    A device whose values are `DeviceArray`s.

    One lock guards it. What ends while somebody else holds the lock waits for the next use.
    """

    def __init__(self, name: DeviceAttr, driver: Driver, lowerings: Mapping[str, Lower]):
        self.name = name
        self.targets = tuple(TargetAttr.of(name, backend) for backend in lowerings)
        self.driver = driver
        self.lock = Lock()
        self.watchdog = driver.watchdog = Watchdog(str(name))
        self.progress = Progress(lambda: driver.mark())
        self._lowerings = dict(lowerings)
        self.pool = Pool(driver)
        self._runs: dict[int, EndedRun] = {}
        self._workspaces: weakref.WeakSet[Lease] = weakref.WeakSet()
        self._ended: deque[EndedRun] = deque()
        self.uploads = Uploads()
        self.cap: int | None = None
        self._weights: weakref.WeakSet[Weights] = weakref.WeakSet()
        self.latest: weakref.ref[Weights] | None = None
        self.uploaded_bytes = 0
        self.is_open = True
        self._is_left_behind = False
        _OPEN.add(self)

    @property
    def identity(self) -> str:
        """The name of the hardware."""
        return self.driver.identity

    @property
    def limits(self) -> Limits:
        """The limits of the device."""
        return self.driver.limits

    def free_bytes(self) -> int | None:
        """Returns the bytes that the device has left, and those that are kept for later values."""
        with self.lock:
            self.check_ready()
            self._collect()
            own = None if self.cap is None else self.cap - self.pool.taken
            free = least_known(self.driver.free_bytes(), own)
            return None if free is None else free + self.pool.idle_bytes

    def total_bytes(self) -> int | None:
        """Returns the bytes of its memory, or those that it may give at most."""
        return least_known(self.driver.total_bytes(), self.cap)

    def held_bytes(self) -> Mapping[str, int]:
        """Returns the bytes of values and workspaces, and those that are kept for later ones."""
        with self.lock:
            if self.watchdog.late is None:
                self.pool.collect()
            idle = self.pool.idle_bytes
            return {"in use": self.pool.taken - idle, "kept": idle}

    def limit(self, bytes: int) -> None:
        """Gives no more than so many bytes at once from now on."""
        with self.lock:
            self.cap = least_known(self.cap, bytes)

    def answer_within(self, seconds: float) -> None:
        """Has nobody wait for longer from now on: who does gets `DeviceTimeout`."""
        with self.lock:
            self.watchdog.bound(seconds)

    def poison(self) -> None:
        """Fills memory that is given back from now on with what shows wherever it is read."""
        with self.lock:
            self.pool.is_poisoned = True

    # Runs.

    def lower(self, run: RunOp, entry: str) -> DeviceRun:
        """Turns a run into kernels, as its target does. Raises `LoweringError`."""
        return self._lowerings[run.target.backend.data](run, entry)

    def load(
        self, lowered: Sequence[LoweredRun], weights: Mapping[str, Array]
    ) -> Mapping[str, LoadedRun]:
        """Compile kernels, each once; memory is taken by the first call that needs it."""
        runs = cast("Sequence[DeviceRun]", lowered)
        shared = Weights(self, weights, runs)
        loaded: dict[DeviceKernel, Any] = {}
        with self.lock:
            self.check_ready()
            kernels = list(dict.fromkeys(kernel for run in runs for kernel in run.kernels))
            is_told = len(kernels) > 1 and self.driver.prepare(kernels)
            left = kernels if is_told else _told(kernels)
            for kernel in left:
                loaded[kernel] = self.driver.load(kernel)
            self._weights.add(shared)
            self.pool.clock += AGES
        temporaries = ([b.bytes for b in run.buffers if b.role == "temporary"] for run in runs)
        workspace = shared_workspace(temporaries)
        return {
            run.entry: LoadedRun(self, run, loaded, shared, workspace, position)
            for position, run in enumerate(runs)
        }

    def watched(
        self,
        lowered: LoweredRun,
        weights: Mapping[str, Array],
        loaded: Callable[..., Any],
        began: Callable[[int], None],
    ) -> Callable[..., Any]:
        """Returns a run that launches its kernels one by one, and waits for each."""
        return cast("LoadedRun", loaded).watched(began)

    def compile_again(self, lowered: LoweredRun) -> None:
        """Has the kernels of a run compiled, so that `fuel_lowering.cache` comes to know them."""
        with self.lock:
            self.check_ready()
            for kernel in cast("DeviceRun", lowered).kernels:
                self.driver.load(kernel)

    def watch(self, run: Any, recordings: Recordings) -> None:
        """Gives the recordings of a run up once it is gone, when the device is used next."""
        end = EndedRun(run, self._ended.append)
        end.recordings = recordings
        self._runs[id(end)] = end

    # Values.

    def receive(self, value: Array | DeviceArray, bytes: int = 0) -> DeviceArray:
        """
        Returns a value as one that lives here, in memory of so many bytes at least.

        Between CUDA cards it comes directly, from other devices through the host.
        """
        if not isinstance(value, DeviceArray):
            return self.put(value, bytes)
        if value.owner is self:
            return value
        if isinstance(value.owner, BufferDevice) and self.reaches(value.owner):
            return self._fetch(value, value.owner, bytes)
        return self.put(value.owner.get(value), bytes)

    def reaches(self, other: BufferDevice) -> bool:
        """Returns True if values come here from another device without passing the host."""
        here, there = self.dlpack_device, other.dlpack_device
        return here is not None and there is not None and here[0] == there[0]

    def _fetch(self, value: DeviceArray, owner: BufferDevice, bytes: int) -> DeviceArray:
        """Copies a value of another device; both are held, always in the same order."""
        first, second = sorted((self, owner), key=id)
        with first.lock, second.lock:
            return self._taken_in(owner.lend(value), bytes)

    def put(self, array: Array, bytes: int = 0) -> DeviceArray:
        """Returns a copy of an array of the host, in memory of so many bytes at least."""
        with self.lock:
            self.check_ready()
            number, lease = self.progress.asked(), self.upload(array, bytes)
            return DeviceArray(self, lease, array.shape, array.dtype, number)

    @property
    def taker(self) -> BufferDevice | None:
        """The device itself if it reads arrays of other libraries where they lie, else None."""
        return None if self.driver.exchange is None else self

    @property
    def dlpack_device(self) -> tuple[int, int] | None:
        """DLPack's name of the device; None if others cannot read its memory."""
        exchange = self.driver.exchange
        return None if exchange is None else exchange.dlpack_device

    def holds(self, value: object) -> bool:
        """Returns True if an object is an array of another library that it can read."""
        exchange = self.driver.exchange
        return exchange is not None and exchange.holds(value)

    def is_home_of(self, value: object) -> bool:
        """Returns True if an object is an array of another library on this very device."""
        exchange = self.driver.exchange
        return exchange is not None and exchange.is_home_of(value)

    def adopt(self, array: object, dtype: np.dtype[Any] | None = None) -> DeviceArray:
        """
        Copies an array of another library that it `holds`.

        `dtype` is what its elements are where they have no name. Raises `ArgumentError`.
        """
        exchange = self.driver.exchange
        assert exchange is not None
        self.check_ready()
        foreign = exchange.borrow(array, dtype)
        with self.lock:
            return self._taken_in(foreign)

    def _taken_in(self, foreign: ForeignArray, least: int = 0) -> DeviceArray:
        exchange = self.driver.exchange
        assert exchange is not None
        self.check_ready()
        bytes = array_bytes(foreign.shape, foreign.dtype)
        lease, number = self.take(max(bytes, least)), self.progress.asked()
        if bytes:
            exchange.take_in(foreign, lease.memory.handle)
        return DeviceArray(self, lease, foreign.shape, foreign.dtype, number)

    def lend(self, array: DeviceArray) -> ForeignArray:
        """Returns an array of this device for others to read."""
        self.check_ready()
        exchange, handle = self.driver.exchange, array.lease.memory.handle
        assert exchange is not None
        return exchange.lend(handle, array.shape, array.dtype, array)

    def export(self, array: DeviceArray, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Returns a DLPack capsule of an array, if others can read its memory."""
        exchange = self.driver.exchange
        assert exchange is not None
        with self.lock:
            return exchange.export(self.lend(array), stream, max_version)

    def array_interface(self, array: DeviceArray) -> dict[str, Any] | None:
        """Returns the `__cuda_array_interface__` of an array; None if it has no such address."""
        exchange = self.driver.exchange
        if exchange is None:
            return None
        foreign = self.lend(array)
        # That nobody need wait for a stream is for PyTorch, which would not.
        self.synchronise()
        return dict(exchange.array_interface(foreign))

    def get(self, array: DeviceArray) -> Array:
        """
        Returns a new array of the host with the elements of one of this device.

        It waits for what made that, and not for what the device was asked for since.
        """
        host = np.empty(array.shape, array.dtype)
        with self.lock:
            self.check_ready()
            mark = self.progress.after(array.made_by)
        self.wait(mark)
        with self.lock:
            self.check_ready()
            if host.size:
                self.driver.fetch(array.lease.memory.handle, host.reshape(-1).view(np.uint8))
        return host

    def copy(self, array: DeviceArray) -> DeviceArray:
        """Another array of this device with the same elements."""
        with self.lock:
            self.check_ready()
            lease, number = self.take(array.nbytes), self.progress.asked()
            if array.nbytes:
                self.driver.copy(array.lease.memory.handle, lease.memory.handle, array.nbytes)
        return DeviceArray(self, lease, array.shape, array.dtype, number)

    def synchronise(self) -> None:
        """Waits until everything that was asked for is done, while other threads go on."""
        with self.lock:
            self.check_ready()
            mark = self.driver.mark()
        self.wait(mark)
        with self.lock:
            self.check_ready()
            self._collect()
            self.driver.synchronise()

    def mark(self) -> Mark:
        """Returns the moment in which all that the device was asked for so far is done."""
        with self.lock:
            self.check_ready()
            return self.driver.mark()

    def wait(self, mark: Mark) -> None:
        """Waits for a mark of the device, without the lock. Raises `DeviceTimeout`."""
        self.watchdog.wait(mark)

    # Memory; under the lock.

    def upload(self, array: Array, least: int = 0) -> Lease:
        """Returns memory with the elements of an array of the host."""
        lease = self.take(max(array_bytes(array.shape, array.dtype), least))
        if array.size:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.driver.write(lease.memory.handle, flat)
        return lease

    def take(self, bytes: int) -> Lease:
        """Memory for so many bytes. Raises `OutOfMemory`."""
        self._discard_ended()
        size = size_class(bytes)
        return self.pool.find(size) or self.allocate(size)

    def allocate(self, size: int) -> Lease:
        """Returns memory of a size class, for which others give way. Raises `OutOfMemory`."""
        self._discard_ended()
        return self._with_room(lambda: self.pool.find(size) or self._allocate(size))

    def _with_room(self, action: Callable[[], Done]) -> Done:
        """Returns what an action does; as long as that lacks memory, others give memory up."""
        for _ in self._making_room():
            with contextlib.suppress(OutOfMemory):
                return action()
        return action()

    def _making_room(self) -> Iterator[None]:
        """
        Has memory given up, step by step: what has been idle for two calls of the program that
        runs, then weights, those that are used last first, then all that is idle.
        """
        yield
        latest = None if self.latest is None else self.latest()
        calls = 0 if latest is None else 2 * latest.run_count
        self._trim(self.pool.idle_for(calls))
        yield
        for weights, key in self._by_next_use(latest):
            number = weights.give_up(key)
            yield
            self._trim({number})
            yield
        self._trim()

    def _by_next_use(self, latest: Weights | None) -> list[tuple[Weights, Key]]:
        """
        Returns what can be given up, what is used last first.

        The runs of an executable come in order, again and again (Belady's rule); those of other
        executables are not being called, and go before.
        """
        found = [
            (weights is not latest, distance, weights, key)
            for weights in list(self._weights)
            for distance, key in weights.next_uses()
        ]
        found.sort(key=lambda each: each[:2])
        return [(weights, key) for _, _, weights, key in reversed(found)]

    def _allocate(self, size: int) -> Lease:
        """Returns new memory within the bound that was set. Raises `OutOfMemory`."""
        if self.cap is not None and self.pool.taken + size > self.cap:
            free = max(self.cap - self.pool.taken, 0)
            raise OutOfMemory(
                f"{self.name}: {size:,} bytes are wanted, {free:,} are free of the {self.cap:,} "
                "that it may give (memory= of a session; the least one holds for the process)"
            )
        return self.pool.allocate(size)

    def record(self, launches: Sequence[BoundLaunch]) -> Any:
        """Records launches, for which a driver may need memory of its own."""
        return self._with_room(lambda: self.driver.record(launches))

    def workspace(self, sizes: Sequence[int]) -> list[Lease]:
        """
        Returns memory of some sizes for the temporaries of a run.

        Runs share it: one begins when the one before has ended.
        """
        shared = sorted(self._workspaces, key=lambda lease: lease.memory.number)
        found: list[Lease] = []
        for size in sizes:
            lease = next((lease for lease in shared if lease.memory.bytes == size), None)
            if lease is None:
                lease = self.take(size)
                self._workspaces.add(lease)
            else:
                shared.remove(lease)
            found.append(lease)
        return found

    def _collect(self) -> None:
        self._discard_ended()
        self.pool.collect()

    def _discard_ended(self) -> None:
        while self._ended:
            end = self._ended[0]
            while end.recordings:
                self.driver.discard(end.recordings.popitem()[1])
            self._runs.pop(id(end), None)
            self._ended.popleft()

    def _trim(self, numbers: AbstractSet[int] | None = None) -> None:
        """Gives idle memory of some numbers, or all, back; recordings that hold it go before."""
        if numbers is not None and not numbers:
            return
        self.driver.synchronise()
        self._discard_ended()
        for end in list(self._runs.values()):
            run = end()
            if run is not None:
                run.forget(numbers)
        self.pool.trim(numbers)

    # The end.

    def check_ready(self) -> None:
        """Raises `DeviceUnavailable` if the device is closed, `DeviceTimeout` while it is late."""
        self.check_open()
        self.watchdog.check()

    def check_open(self) -> None:
        """Raises `DeviceUnavailable` if the device is closed."""
        if self._is_left_behind:
            raise DeviceUnavailable(
                f"{self.name} was opened before this process was forked, and works only "
                "in the process that opened it; open it after the fork, or start processes with "
                "the method 'spawn' of multiprocessing"
            )
        if not self.is_open:
            raise DeviceUnavailable(f"{self.name} is closed")

    def close(self) -> None:
        """
        Gives up recordings, then memory, then the driver; once.

        What belongs to a device that does not answer stays until the process ends.
        """
        with self.lock:
            if not self.is_open:
                return
            # At the end of a process the library may be gone: memory is freed, not written.
            self.pool.is_poisoned = False
            try:
                self.watchdog.check()
                self._trim()
            except DeviceTimeout:
                self.is_open = False
                self.driver.abandon()
                return
            except DeviceFailure:
                pass  # a device that has failed can at least be closed
            self.is_open = False
            self.driver.close()

    def after_fork(self) -> None:
        """In a forked child: nobody holds the lock, and hardware stayed with the parent."""
        self.lock = Lock()
        if self.is_open and not self.driver.after_fork():
            self.is_open, self._is_left_behind = False, True

    def __repr__(self) -> str:
        return f"<BufferDevice {self.name}: {self.identity}>"


def _told(kernels: Sequence[DeviceKernel]) -> Iterable[DeviceKernel]:
    return steps("compile kernels", kernels, len(kernels), lambda kernel: kernel.name)


_OPEN: weakref.WeakSet[BufferDevice] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close devices while the libraries under them still stand; values that are left are void."""
    for device in list(_OPEN):
        device.close()


def _after_fork() -> None:
    for device in list(_OPEN):
        device.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
