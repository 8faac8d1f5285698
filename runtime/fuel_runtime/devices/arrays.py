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

CUDA_OF_DLPACK = 2
"""What DLPack calls CUDA cards, which it numbers."""


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
        exchange = self.owner.driver.exchange
        return CPU_OF_DLPACK if exchange is None else (CUDA_OF_DLPACK, exchange.card)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """
        The elements: on a CUDA device the memory itself, or a copy if that is wanted.

        `stream` is the one that reads them there, as the protocol has it. Elsewhere, and where
        `dl_device` is the host, they are brought to the host. Raises `BufferError` for what DLPack
        cannot say.
        """
        home = self.__dlpack_device__()
        if dl_device not in (None, home, CPU_OF_DLPACK):
            raise BufferError(f"an array on {self.device} cannot be exported to device {dl_device}")
        if home != CPU_OF_DLPACK and dl_device != CPU_OF_DLPACK:
            array = self.copy() if copy else self
            return self.owner.export(array, stream, max_version)
        if copy is False:
            raise BufferError(f"an array on {self.device} cannot be exported without a copy")
        return self.owner.get(self).__dlpack__(max_version=max_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        lent = self.owner.lend(self)
        if lent is None:
            raise AttributeError(f"an array on {self.device} has no address")
        # That nobody need wait for a stream is for PyTorch, which would not.
        self.owner.synchronise()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (lent.address, True),
            "strides": None,
            "stream": None,
            "version": 3,
        }
