# SPDX-License-Identifier: MIT OR Apache-2.0
"""Constants: between the value of a `fuel.const` and the array it stands for, bit for bit."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute

from fuel_dialect import dtypes
from fuel_dialect.attributes import BytesAttr
from fuel_dialect.ops.base import AnyTensor, splat_attribute
from fuel_dialect.reference.precision import Array, scalar


def const(*, value: float | bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The elements, read-only: of the given bytes, or one value broadcast by stride 0."""
    if isinstance(value, bytes):
        return np.frombuffer(value, dtype.newbyteorder("<")).reshape(shape)
    return np.broadcast_to(scalar(value, dtype), shape)


def elements(value: Attribute, type: AnyTensor) -> Array:
    """The elements of a constant of tensor type `type`, read-only; a splat has stride 0."""
    dtype = dtypes.of_type(type).numpy
    if isinstance(value, BytesAttr):
        return const(value=value.data, shape=type.get_shape(), dtype=dtype)
    number = cast("FloatAttr[Any] | IntegerAttr[Any]", value).value.data
    return const(value=number, shape=type.get_shape(), dtype=dtype)


def attribute(array: Array) -> FloatAttr[Any] | IntegerAttr[Any] | BytesAttr:
    """
    The value of a constant equal to `array`, bit for bit.

    A splat where all elements have the same bits and a number can hold them, which is all but
    signalling NaNs.
    """
    dtype = dtypes.of(array.dtype)
    if not array.size:
        return BytesAttr(b"")
    first = array[(0,) * array.ndim]
    number = splat_attribute(first, dtype.type)
    same = np.asarray(first).tobytes() == scalar(number.value.data, array.dtype).tobytes()
    if same and _is_splat(array):
        return number
    return BytesAttr(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())


def _is_splat(array: Array) -> bool:
    if not any(array.strides):
        return True
    bits = np.array(array, order="C").view(f"u{array.dtype.itemsize}")
    return bool((bits == bits.flat[0]).all())
