# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Leaves, transfers and writes (`fuel_dialect.ops.memory`).

The reference has one memory, so a transfer returns its operand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import IndexOutOfRange, WeightError
from fuel_dialect.reference.precision import Array


def weight(
    *, key: str, weights: Mapping[str, Array], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    if key not in weights:
        raise WeightError(f"weight {key!r} is missing; given are {', '.join(weights) or 'none'}")
    array = np.asarray(weights[key])
    if (array.shape, array.dtype) != (shape, dtype):
        raise WeightError(
            f"weight {key!r} is {array.dtype}{list(array.shape)}, expected {dtype}{list(shape)}"
        )
    return array


def iota(*, shape: tuple[int, ...]) -> Array:
    return np.arange(shape[0]).astype(np.float32)


def copy(x: Array, *, to: DeviceAttr) -> Array:
    return x


def move(x: Array, *, to: DeviceAttr) -> Array:
    return x


def write_slice(x: Array, source: Array, *, starts: Sequence[int]) -> Array:
    result = x.copy()
    places = zip(starts, source.shape, strict=True)
    result[tuple(slice(start, start + width) for start, width in places)] = source
    return result


def write_slice_doff(
    x: Array, source: Array, position: Array, *, starts: Sequence[int], axis: int
) -> Array:
    at, width, extent = int(position), source.shape[axis], x.shape[axis]
    if not 0 <= at <= extent - width:
        raise IndexOutOfRange(
            f"write_slice_doff: {width} at {at} is out of range for extent {extent}"
        )
    return write_slice(x, source, starts=[*starts[:axis], at, *starts[axis + 1 :]])


def write_slice_rotating(
    x: Array, source: Array, position: Array, *, starts: Sequence[int], axis: int, modulus: int
) -> Array:
    result = x
    for j in range(source.shape[axis]):
        at = (int(position) + j) % modulus
        part = source.take([j], axis)
        result = write_slice(result, part, starts=[*starts[:axis], at, *starts[axis + 1 :]])
    return result
