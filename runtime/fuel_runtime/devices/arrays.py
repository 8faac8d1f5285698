# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays in the memory of a device."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_dialect import dtypes

if TYPE_CHECKING:
    from fuel_runtime.devices.buffers import BufferDevice
    from fuel_runtime.devices.pool import Lease

    Array = np.ndarray[Any, np.dtype[Any]]

CPU_OF_DLPACK = (1, 0)
"""What DLPack calls the host."""


class DeviceArray:
    """
    An array of a device: a result that stays there, to be an argument of a later call.

    It is row-major and is not written to. Its memory is free for other values when the last
    reference goes. `np.asarray(array)` brings it to the host; so does DLPack.
    """

    __slots__ = ("__weakref__", "dtype", "lease", "owner", "shape")

    def __init__(
        self, owner: BufferDevice, lease: Lease, shape: tuple[int, ...], dtype: np.dtype[Any]
    ):
        self.owner = owner
        self.lease = lease
        self.shape = shape
        self.dtype = dtype

    @property
    def device(self) -> str:
        """Where it lies: `cuda:0`."""
        return self.owner.target.device.label

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a device array of rank 0")
        return self.shape[0]

    def __repr__(self) -> str:
        dtype = dtypes.of(self.dtype).name
        return f"<DeviceArray {dtype}{list(self.shape)} on {self.device}>"

    def copy(self) -> DeviceArray:
        """Another array of the same device with the same elements."""
        return self.owner.copy(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"an array on {self.device} cannot be read without a copy")
        array = self.owner.get(self)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_OF_DLPACK

    def __dlpack__(self, **options: Any) -> Any:
        """The elements, brought to the host. Raises `BufferError` for what DLPack cannot say."""
        if options.get("copy") is False:
            raise BufferError(f"an array on {self.device} cannot be exported without a copy")
        options.pop("copy", None)
        return self.owner.get(self).__dlpack__(**options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        pointer = getattr(self.owner.driver, "pointer", None)
        if pointer is None:
            raise AttributeError(f"an array on {self.device} has no address")
        self.owner.synchronise()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (pointer(self.lease.memory.handle), True),
            "version": 3,
        }
