# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The weights on a device: each array of the host once, however many executables read it.

Executables of one device that are bound to the same array share its memory there. An array that
somebody may have written to meanwhile is compared first, with what is on the device.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fuel_runtime.devices.memory_pool import Lease
    from fuel_runtime.devices.owner import Owner

    Array = np.ndarray[Any, np.dtype[Any]]


class Upload:
    """An array of the host and its elements on a device. While this lives, so does the array."""

    __slots__ = ("__weakref__", "array", "lease", "was_fixed")

    def __init__(self, array: Array, lease: Lease):
        self.array = array
        self.lease = lease
        self.was_fixed = _is_fixed(array)


Uploads = weakref.WeakValueDictionary[tuple[int, int], Upload]
"""By where the array lies in the host's memory, and its bytes."""


class Weights:
    """The weights of one executable on one device; under the device's lock."""

    def __init__(self, device: Owner, arrays: Mapping[str, Array]):
        self._device = device
        self._arrays = arrays
        self._uploads: dict[str, Upload] = {}

    def __getitem__(self, key: str) -> Lease:
        upload = self._uploads.get(key)
        if upload is None:
            upload = self._uploads[key] = self._shared(self._arrays[key])
        return upload.lease

    def _shared(self, array: Array) -> Upload:
        """Returns the upload of another executable if its elements agree, else a new one."""
        place = array.ctypes.data, array.nbytes
        known = self._device.uploads.get(place)
        if known is not None and ((known.was_fixed and _is_fixed(array)) or self._is_same(known)):
            return known
        made = self._device.uploads[place] = Upload(array, self._device.upload(array))
        return made

    def _is_same(self, upload: Upload) -> bool:
        there = np.empty(upload.array.nbytes, np.uint8)
        if there.size:
            self._device.driver.read(upload.lease.memory.handle, there)
        return bool(np.array_equal(there, upload.array.reshape(-1).view(np.uint8)))


def _is_fixed(array: Array) -> bool:
    """Returns True if neither an array nor what it is a view of is writeable."""
    held: Any = array
    while isinstance(held, np.ndarray):
        if held.flags.writeable:
            return False
        held = held.base
    return held is None or isinstance(held, bytes)
