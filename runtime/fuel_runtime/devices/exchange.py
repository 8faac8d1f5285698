# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says how arrays pass between a device and other devices or libraries without the host."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np


class ForeignArray(Protocol):
    """Elements in memory that belongs to somebody else, until this object goes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        ...


class Exchange(abc.ABC):
    """Passes arrays between a driver's memory and that of others."""

    @property
    @abc.abstractmethod
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's name of the device; exchanges with the same first number reach each other."""

    @abc.abstractmethod
    def holds(self, value: object) -> bool:
        """Returns True if an object says that it is an array in memory of this kind."""

    @abc.abstractmethod
    def is_home_of(self, value: object) -> bool:
        """Returns True if an object says that it is an array on this very device."""

    @abc.abstractmethod
    def lend(self, handle: Any, shape: tuple[int, ...], dtype: np.dtype[Any], keep: Any) -> Any:
        """Returns row-major elements at the start of some memory, for others to read."""

    @abc.abstractmethod
    def borrow(self, array: object, dtype: np.dtype[Any] | None) -> Any:
        """
        Returns an array of another library as a `ForeignArray` of this kind of exchange.

        `dtype` is what its elements are where they have no name. Any thread may ask, at any time:
        what the library then does may come back to this device. Raises `ArgumentError` for what
        cannot be read.
        """

    @abc.abstractmethod
    def take_in(self, foreign: Any, handle: Any) -> None:
        """Copies elements, one or more, to the start of some memory of the device."""

    @abc.abstractmethod
    def export(self, foreign: Any, stream: int | None, max_version: tuple[int, int] | None) -> Any:
        """Returns a DLPack capsule. Raises `BufferError` for what DLPack cannot say."""

    @abc.abstractmethod
    def array_interface(self, foreign: Any) -> Mapping[str, Any]:
        """Returns the `__cuda_array_interface__` of elements that are there by now."""
