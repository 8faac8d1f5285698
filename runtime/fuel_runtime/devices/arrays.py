# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents arrays in the memory of a device."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fuel_dialect import dtypes

if TYPE_CHECKING:
    from fuel_dialect.attributes import DeviceAttr
    from fuel_runtime.devices.memory_pool import Lease

    Array = np.ndarray[Any, np.dtype[Any]]

CPU_OF_DLPACK = (1, 0)
"""DLPack's name of the host."""


class ArrayOwner(Protocol):
    """Says what an array asks of the device that it lies on."""

    @property
    def name(self) -> DeviceAttr:
        """The name of the device."""
        ...

    @property
    def dlpack_device(self) -> tuple[int, int] | None:
        """DLPack's name of the device; None if others cannot read its memory."""
        ...

    def get(self, array: DeviceArray) -> Array:
        """Returns a new array of the host with the same elements."""
        ...

    def copy(self, array: DeviceArray) -> DeviceArray:
        """Returns another array of the device with the same elements."""
        ...

    def export(self, array: DeviceArray, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Returns a DLPack capsule, if others can read its memory."""
        ...

    def array_interface(self, array: DeviceArray) -> dict[str, Any] | None:
        """Returns the `__cuda_array_interface__`; None for an array that has no CUDA address."""
        ...


class DeviceArray:
    """
    An array of a device: a result that stays there, to be an argument of a later call.

    It is row-major and is not written to. Its memory is free for other values when the last
    reference goes. `np.asarray(array)` brings it to the host; so does DLPack.
    """

    __slots__ = ("__weakref__", "dtype", "lease", "made_by", "owner", "shape")

    def __init__(
        self,
        owner: ArrayOwner,
        lease: Lease,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        made_by: int,
    ):
        self.made_by = made_by
        """The number of what has made it, as `marks.Progress` has it."""
        self.owner = owner
        self.lease = lease
        self.shape = shape
        self.dtype = dtype

    @property
    def device(self) -> str:
        """The device that holds it: `cuda:0`."""
        return self.owner.name.label

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
        return self.owner.dlpack_device or CPU_OF_DLPACK

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
        found = self.owner.array_interface(self)
        if found is None:
            raise AttributeError(f"an array on {self.device} has no address")
        return found
