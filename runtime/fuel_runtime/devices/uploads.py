# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Keeps weights and constants on a device, and gives them up where there is no room for all.

Executables of one device that are bound to the same array share its memory there. An array that
somebody may have written to meanwhile is compared first, with what is on the device.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fuel_passes.memory.streaming import next_use, uses_of

if TYPE_CHECKING:
    from fuel_lowering.runs.launches import DeviceRun
    from fuel_runtime.devices.memory_pool import Lease
    from fuel_runtime.devices.owner import Owner

    Array = np.ndarray[Any, np.dtype[Any]]


LOADED = ("weight", "constant")
"""The roles of buffers whose elements come from the host, the same in every call."""


class Upload:
    """An array of the host and its elements on a device. While this lives, so does the array."""

    __slots__ = ("__weakref__", "array", "lease", "was_fixed")

    def __init__(self, array: Array, lease: Lease):
        self.array = array
        self.lease = lease
        self.was_fixed = _is_fixed(array)


Uploads = weakref.WeakValueDictionary[tuple[int, int], Upload]
"""By where the array lies in the host's memory, and its bytes."""


class Reader(Protocol):
    """A run that reads weights."""

    def give_up(self) -> None:
        """Gives up what it holds of weights between calls."""
        ...


Key = str | tuple[int, str]
"""The key of a weight; or of a constant, behind the position of its run."""


class Weights:
    """The weights and constants of one executable on one device; under the device's lock."""

    def __init__(self, device: Owner, arrays: Mapping[str, Array], runs: Sequence[DeviceRun]):
        self._device = device
        self._arrays: dict[Key, Array] = {**arrays}
        for position, run in enumerate(runs):
            self._arrays.update(((position, key), a) for key, a in run.constants.items())
        self._uploads: dict[Key, Upload] = {}
        self._uses = uses_of(
            [key_of(b.role, b.key, position) for b in run.buffers if b.role in LOADED]
            for position, run in enumerate(runs)
        )
        self._runs: list[weakref.ref[Reader]] = []
        self.reference = weakref.ref(self)
        self.called = 0
        """The position of the run that was called last."""
        self.is_called = False
        """True while that run is being called: it cannot give up what it reads."""

    def add(self, run: Reader) -> None:
        """Adds the next run of the executable."""
        self._runs.append(weakref.ref(run))

    @property
    def run_count(self) -> int:
        """The number of runs of the executable on the device."""
        return len(self._runs)

    def __getitem__(self, key: Key) -> Lease:
        upload = self._uploads.get(key)
        if upload is None:
            array = self._arrays[key]
            upload = self._shared(array) if isinstance(key, str) else self._upload(array)
            self._uploads[key] = upload
        return upload.lease

    def next_uses(self) -> Iterator[tuple[int, Key]]:
        """Yields what can be given up, after how many runs it is used next."""
        for key in self._uploads:
            positions = self._uses[key]
            if not (self.is_called and self.called in positions):
                yield next_use(positions, self.called + 1, len(self._runs)), key

    def give_up(self, key: Key) -> int:
        """
        Gives an upload up, with all that runs that read it hold between calls.

        It is made again when it is read next. Returns the number of its memory.
        """
        runs = [self._runs[position]() for position in self._uses[key]]
        for run in runs:
            if run is not None:
                run.give_up()
        return self._uploads.pop(key).lease.number

    def _shared(self, array: Array) -> Upload:
        """Returns the upload of another executable if its elements agree, else a new one."""
        place = array.ctypes.data, array.nbytes
        known = self._device.uploads.get(place)
        if known is not None and ((known.was_fixed and _is_fixed(array)) or self._is_same(known)):
            return known
        made = self._device.uploads[place] = self._upload(array)
        return made

    def _upload(self, array: Array) -> Upload:
        lease = self._device.upload(array)
        self._device.uploaded_bytes += lease.memory.bytes
        return Upload(array, lease)

    def _is_same(self, upload: Upload) -> bool:
        there = np.empty(upload.array.nbytes, np.uint8)
        if there.size:
            self._device.driver.read(upload.lease.memory.handle, there)
        return bool(np.array_equal(there, upload.array.reshape(-1).view(np.uint8)))


def key_of(role: str, key: str, position: int) -> Key:
    """Returns the key of a weight, or of a constant of the run at a position."""
    return key if role == "weight" else (position, key)


def _is_fixed(array: Array) -> bool:
    """Returns True if neither an array nor what it is a view of is writeable."""
    held: Any = array
    while isinstance(held, np.ndarray):
        if held.flags.writeable:
            return False
        held = held.base
    return held is None or isinstance(held, bytes)
