# SPDX-License-Identifier: MIT OR Apache-2.0
"""Converts the value of a `fuel.const` to the array it stands for, and back, bit for bit."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute

from fuel_dialect import dtypes
from fuel_dialect.attributes import BytesAttr
from fuel_dialect.numbers import AnyNumber, splat_attribute
from fuel_dialect.reference.precision import Array, scalar
from fuel_dialect.tensors import AnyTensor


def elements(value: Attribute, type: AnyTensor) -> Array:
    """Return the elements of a constant of a type, read-only; a splat has stride 0."""
    dtype = dtypes.of_type(type).numpy
    if isinstance(value, BytesAttr):
        return elements_of(value.data, type.get_shape(), dtype)
    return elements_of(cast(AnyNumber, value).value.data, type.get_shape(), dtype)


def elements_of(value: float | bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return the elements, read-only: those in the bytes, or one number repeated by stride 0."""
    if isinstance(value, bytes):
        return np.frombuffer(value, dtype.newbyteorder("<")).reshape(shape)
    return np.broadcast_to(scalar(value, dtype), shape)


def attribute(array: Array) -> AnyNumber | BytesAttr:
    """
    Make the value of a constant that equals an array, bit for bit.

    It is a splat where all elements have the same bits and a number can hold them, which is all but
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
