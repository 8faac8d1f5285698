# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Binds runs of a device to memory, records and replays them.

A recording holds the memory of inputs and results. Calls that come with other memory make other
recordings; the newest `MOST_RECORDINGS` are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.errors import IndexOutOfRange, LoweringError, OutOfMemory
from fuel_passes.memory.sizes import size_class
from fuel_runtime.devices.arrays import DeviceArray
from fuel_runtime.devices.interface import BoundLaunch
from fuel_runtime.devices.uploads import LOADED, key_of

if TYPE_CHECKING:
    from fuel_dialect.tensors import AnyTensor
    from fuel_lowering.runs.launches import DeviceKernel, DeviceRun, Launch
    from fuel_runtime.devices.memory_pool import Lease
    from fuel_runtime.devices.owner import Owner
    from fuel_runtime.devices.uploads import Weights

    Array = np.ndarray[Any, np.dtype[Any]]

MOST_RECORDINGS = 8
STATUS_BYTES = 4

Recordings = dict[tuple[int, ...], Any]
"""
By the numbers of the memory of inputs and results, and that of the set of all other memory; the
oldest first.
"""

Began = Callable[[int], None]
"""Hears the number of the kernel that begins; -1 where one has ended."""

Output = tuple[tuple[int, ...], np.dtype[Any], int]
"""Shape, dtype and size class of the memory of a result."""


class LoadedRun:
    """A run of an executable on a device; calls of several threads follow one another."""

    def __init__(
        self,
        device: Owner,
        run: DeviceRun,
        kernels: Mapping[DeviceKernel, Any],
        weights: Weights,
        workspace: Sequence[int],
        position: int,
    ):
        _check_sizes(device, run)
        self._device = device
        self._run = run
        self._kernels = [kernels[kernel] for kernel in run.kernels]
        self._weights = weights
        self._workspace = workspace
        self._position = position
        least = run.result_bytes or [0] * len(run.outputs)
        self._outputs = [_output_of(t, b) for t, b in zip(run.outputs, least, strict=True)]
        self._reuses = dict(run.reuses)
        self._fixed: dict[int, Lease] | None = None
        self._status: Lease | None = None
        self._poisoned: list[Lease] = []
        """The temporaries that are filled before each replay."""
        self._recordings: Recordings = {}
        self._sets: dict[tuple[int, ...], int] = {}
        """A number below 0 for each set of memory, beside inputs and results, of recordings."""
        self._set = 0
        device.watch(self, self._recordings)
        weights.add(self)

    def __call__(self, *values: DeviceArray) -> tuple[DeviceArray, ...]:
        """
        The results: new arrays, but for those that take over the memory of an input.

        Raises `IndexOutOfRange`, or `OutOfMemory` that names the run. What can be done once is: a
        decode step is a few replays and little else.
        """
        try:
            with self._device.lock:
                return self._call(values)
        except OutOfMemory as error:
            reason = self._refusal(error)
        raise OutOfMemory(reason)

    def watched(self, began: Began) -> Callable[..., tuple[DeviceArray, ...]]:
        """
        Returns a function like the run, which launches kernel by kernel and waits for each.

        It calls `began` with the number of each kernel when that begins, and with -1 when it has
        ended.
        """

        def call(*values: DeviceArray) -> tuple[DeviceArray, ...]:
            try:
                with self._device.lock:
                    return self._call(values, began)
            except OutOfMemory as error:
                reason = self._refusal(error)
            raise OutOfMemory(reason)

        return call

    def _refusal(self, error: OutOfMemory) -> str:
        """
        Returns what an error says, with what the run takes, and lets go of the frames of the error.

        They hold memory that another arm needs; so would an error that is a variable of a frame.
        """
        error.__traceback__ = None
        return f"{self._run.entry}: {error}; {self._sizes()}"

    def _sizes(self) -> str:
        """Says what the run takes."""
        buffers = self._run.buffers
        fixed = sum(size_class(b.bytes) for b in buffers if b.role in LOADED)
        results = sum(size for _, _, size in self._outputs)
        return (
            f"the run takes {fixed:,} bytes of weights and constants, {sum(self._workspace):,} of "
            f"workspace and {results:,} of results on {self._device.name}"
        )

    def _call(
        self, values: Sequence[DeviceArray], began: Began | None = None
    ) -> tuple[DeviceArray, ...]:
        device, weights = self._device, self._weights
        try:
            if device.watchdog.late is not None:
                device.check_ready()
            weights.called, weights.is_called = self._position, True
            device.latest = weights.reference
            device.pool.clock += 1
            if not device.is_open or self._fixed is None:
                self._prepare()
            number = device.progress.begin_run()
            find, allocate, reuses = device.pool.find, device.allocate, self._reuses
            outputs = tuple(
                [
                    DeviceArray(
                        device,
                        values[reuses[index]].lease
                        if index in reuses
                        else find(size) or allocate(size),
                        shape,
                        dtype,
                        number,
                    )
                    for index, (shape, dtype, size) in enumerate(self._outputs)
                ]
            )
            key = (*[array.lease.number for array in (*values, *outputs)], self._set)
            replay = device.driver.replay
            if began is None:
                recording = self._recordings.get(key)
                if recording is None and self._run.launches:
                    recording = self._record(key, values, outputs)
            else:
                recording = self._apart(values, outputs)
                replay = partial(self._replay_apart, began=began)
            for lease in self._poisoned:
                device.pool.poison(lease.memory)
            if self._status is not None:
                self._replay_checked(recording, self._status, replay)
            elif recording is not None:
                replay(recording)
            return outputs
        finally:
            weights.is_called = False

    def _replay_checked(self, recording: Any, status: Lease, replay: Callable[[Any], None]) -> None:
        """Replay, wait, and raise if an index was out of range."""
        driver, word = self._device.driver, np.zeros(STATUS_BYTES, np.uint8)
        driver.zero(status.memory.handle, STATUS_BYTES)
        replay(recording)
        driver.read(status.memory.handle, word)
        number = int(word.view("<i4")[0])
        if number:
            raise IndexOutOfRange(
                f"{self._run.checks[number - 1]}: an index is out of range (on {self._device.name})"
            )

    def _record(
        self,
        key: tuple[int, ...],
        values: Sequence[DeviceArray],
        outputs: Sequence[DeviceArray],
    ) -> Any:
        handles = self._handles(values, outputs)
        launches = [self._bound(launch, handles) for launch in self._run.launches]
        recording = self._recordings[key] = self._device.record(launches)
        if len(self._recordings) > MOST_RECORDINGS:
            oldest = next(iter(self._recordings))
            self._device.driver.discard(self._recordings.pop(oldest))
        return recording

    def _handles(self, values: Sequence[DeviceArray], outputs: Sequence[DeviceArray]) -> list[Any]:
        """Returns the memory of each buffer of the run in a call."""
        fixed = self._fixed
        assert fixed is not None
        arrays = {"input": values, "output": outputs}
        return [
            (arrays[b.role][b.index].lease if b.role in arrays else fixed[i]).memory.handle
            for i, b in enumerate(self._run.buffers)
        ]

    def _apart(
        self, values: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> list[tuple[int, list[BoundLaunch]]]:
        """Returns the number of each kernel with its launches, in order."""
        handles = self._handles(values, outputs)
        return [
            (number, [self._bound(launch, handles) for launch in launches])
            for number, launches in groupby(self._run.launches, lambda launch: launch.origin)
        ]

    def _replay_apart(self, kernels: Sequence[tuple[int, list[BoundLaunch]]], began: Began) -> None:
        """Does kernel by kernel what a recording does at once."""
        driver = self._device.driver
        for number, launches in kernels:
            recording = self._device.record(launches)
            try:
                began(number)
                driver.replay(recording)
                driver.synchronise()
                began(-1)
            finally:
                driver.discard(recording)

    def _bound(self, launch: Launch, handles: Sequence[Any]) -> BoundLaunch:
        return BoundLaunch(
            self._kernels[launch.kernel],
            tuple(handles[i] for i in launch.buffers),
            launch.byte_offsets,
            launch.scalars,
            launch.grid,
        )

    def _prepare(self) -> None:
        """Take the memory of all buffers that are the same in every call."""
        device, run = self._device, self._run
        device.check_ready()
        fixed: dict[int, Lease] = {}
        sizes: dict[int, int] = {}
        for index, buffer in enumerate(run.buffers):
            if buffer.role in LOADED:
                fixed[index] = self._weights[key_of(buffer.role, buffer.key, self._position)]
            elif buffer.role == "status":
                fixed[index] = self._status = self._status or device.take(STATUS_BYTES)
            elif buffer.role == "temporary":
                sizes[index] = buffer.bytes
        ranked = sorted(sizes, key=lambda index: -sizes[index])
        temporaries = device.workspace(self._workspace[: len(ranked)])
        fixed.update(zip(ranked, temporaries, strict=True))
        self._poisoned = temporaries if device.pool.is_poisoned else []
        self._number(tuple([lease.number for lease in fixed.values()]))
        self._fixed = fixed

    def _number(self, memory: tuple[int, ...]) -> None:
        """Numbers a set of memory: recordings that hold another are not for the calls to come."""
        recorded = {key[-1] for key in self._recordings}
        self._sets = {held: number for held, number in self._sets.items() if number in recorded}
        self._set = self._sets.setdefault(memory, min(self._sets.values(), default=0) - 1)

    def give_up(self) -> None:
        """
        Gives weights, constants and workspace up; under the device's lock.

        Recordings stay for the case that the same memory is taken again.
        """
        self._fixed, self._poisoned = None, []

    def forget(self, numbers: AbstractSet[int] | None = None) -> None:
        """Gives up recordings that hold memory of some numbers, or all; under the device's lock."""
        for key in list(self._recordings):
            if numbers is None or self._holds(key, numbers):
                self._device.driver.discard(self._recordings.pop(key))

    def _holds(self, key: tuple[int, ...], numbers: AbstractSet[int]) -> bool:
        """Returns True if the recording of a key holds memory of some numbers."""
        held = (memory for memory, number in self._sets.items() if number == key[-1])
        return not numbers.isdisjoint((*key, *next(held)))


def array_bytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Returns the bytes of the elements of an array."""
    bytes = dtype.itemsize
    for extent in shape:
        bytes *= extent
    return bytes


def _output_of(type: AnyTensor, least: int) -> Output:
    shape, dtype = tuple(type.get_shape()), dtypes.of_type(type).numpy
    return shape, dtype, size_class(max(array_bytes(shape, dtype), least))


def _check_sizes(device: Owner, run: DeviceRun) -> None:
    """Raise `LoweringError` if a buffer is larger than the device can give to a kernel."""
    most = device.limits.largest_buffer_bytes
    if most is None:
        return
    for buffer in run.buffers:
        if buffer.bytes > most:
            raise LoweringError(
                f"{run.entry}: {buffer.role} {buffer.key or buffer.index} is {buffer.elements} "
                f"elements of {buffer.dtype}, {buffer.bytes:,} bytes; a kernel on "
                f"{device.name} can be given {most:,}"
            )
