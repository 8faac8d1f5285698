# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Rounds for the reference: casts between element types, and widens to the type it computes in.

bf16 and f16 are computed in f32 and rounded once per op.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fuel_dialect import dtypes

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def is_float(dtype: np.dtype[Any]) -> bool:
    """Returns True if the elements are floats, those of ml_dtypes included."""
    return dtypes.of(dtype).kind in ("float", "storage")


def widen(x: Array) -> Array:
    """bf16 and f16 as f32; other arrays as they are."""
    with np.errstate(all="ignore"):
        return x.astype(np.float32) if dtypes.of(x.dtype).name in ("bf16", "f16") else x


def narrow(x: Any, dtype: np.dtype[Any]) -> Array:
    """The inverse of `widen`: one rounding to `dtype`."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype, copy=False)


def convert(x: Array, dtype: np.dtype[Any]) -> Array:
    """
    Cast element by element.

    To float: nearest-even. Float to integer: truncates and saturates, NaN gives 0. Integer to
    integer: wraps. To bool: non-zero, so that NaN is true.
    """
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        if dtype == np.bool_:
            return np.asarray(x != x.dtype.type(0))
        if is_float(x.dtype) and not is_float(dtype):
            return _to_integer(x.astype(np.float64), dtype)
        if is_float(dtype) and not hasattr(np, dtype.name):
            return _to_f32_odd(x).astype(dtype)
        return x.astype(dtype)


def scalar(value: float, dtype: np.dtype[Any]) -> Array:
    """A number as a rank-0 array: an int exactly, a float by `convert`."""
    if isinstance(value, int):
        return np.asarray(value).astype(dtype)
    return convert(np.asarray(value, np.float64), dtype)


def _to_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    whole = np.trunc(np.where(np.isnan(x), 0.0, x))
    above, below = whole >= float(limits.max), whole <= float(limits.min)
    inside = np.where(above | below, 0.0, whole).astype(dtype)
    return np.where(above, limits.max, np.where(below, limits.min, inside)).astype(dtype)


def _to_f32_odd(x: Array) -> Array:
    """
    f32, inexact values rounded to the neighbour with an odd last bit.

    Rounding that to a type of at most 22 bits of precision equals rounding `x` itself; ml_dtypes
    goes through f32 to nearest, which rounds ties twice.
    """
    if x.dtype == np.float32:
        return x
    if x.dtype == np.int64:
        x = np.where(np.abs(x) < 2**53, x, x | ((x & 0x7FF) != 0).astype(np.int64) << 11)
        x = np.where(np.abs(x) < 2**53, x, x & ~0x7FF)
    exact = x.astype(np.float64)
    nearest = np.asarray(exact.astype(np.float32))
    beyond = np.abs(nearest).astype(np.float64) > np.abs(exact)
    toward_zero = np.asarray(np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest))
    inexact = (toward_zero.astype(np.float64) != exact) & ~np.isnan(exact)
    return (toward_zero.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
