# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reductions (`fuel_dialect.ops.reduction`).

bf16 and f16 accumulate in f32 and round once. NaN wins every max and min.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from fuel_dialect.reference.precision import Array, narrow, widen

Axes = int | tuple[int, ...] | None


def _sum(x: Array, axis: Axes) -> Array:
    wide = widen(x)
    with np.errstate(all="ignore"):
        return np.asarray(np.sum(wide, axis=axis, dtype=wide.dtype))


def _mean(x: Array, axis: Axes, count: int) -> Array:
    with np.errstate(all="ignore"):
        total = _sum(x, axis)
        return narrow(total / total.dtype.type(count), x.dtype)


def _extreme(function: Callable[..., Any], x: Array, axis: Axes, shape: tuple[int, ...]) -> Array:
    """`function` along `axis`; a result without elements needs none of the operand."""
    if not prod(shape):
        return np.zeros(shape, x.dtype)
    with np.errstate(all="ignore"):
        return narrow(function(widen(x), axis=axis), x.dtype).reshape(shape)


def _without(x: Array, dim: int) -> tuple[int, ...]:
    return (*x.shape[:dim], *x.shape[dim + 1 :])


def sum_all(x: Array) -> Array:
    return narrow(_sum(x, None), x.dtype)


def max_all(x: Array) -> Array:
    return _extreme(np.max, x, None, ())


def min_all(x: Array) -> Array:
    return _extreme(np.min, x, None, ())


def mean_all(x: Array) -> Array:
    return _mean(x, None, x.size)


def sum_dim(x: Array, *, dim: int) -> Array:
    return narrow(_sum(x, dim), x.dtype)


def max_dim(x: Array, *, dim: int) -> Array:
    return _extreme(np.max, x, dim, _without(x, dim))


def min_dim(x: Array, *, dim: int) -> Array:
    return _extreme(np.min, x, dim, _without(x, dim))


def mean_dim(x: Array, *, dim: int) -> Array:
    return _mean(x, dim, x.shape[dim])


def argmax_dim(x: Array, *, dim: int) -> Array:
    return _arg(np.argmax, x, dim)


def argmin_dim(x: Array, *, dim: int) -> Array:
    return _arg(np.argmin, x, dim)


def _arg(function: Callable[..., Any], x: Array, dim: int) -> Array:
    """NumPy's argmax and argmin: the first NaN, else the first of ties."""
    kept = _without(x, dim)
    if not prod(kept):
        return np.zeros(kept, np.uint32)
    with np.errstate(all="ignore"):
        return np.asarray(function(widen(x), axis=dim)).astype(np.uint32)


def reduce_sum_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    return narrow(_sum(x, _reduced(x, shape)), x.dtype).reshape(shape)


def reduce_max_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    return _extreme(np.max, x, _reduced(x, shape), shape)


def _reduced(x: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dims that `shape` lacks or keeps as 1."""
    new = x.ndim - len(shape)
    return tuple(dim for dim in range(x.ndim) if dim < new or shape[dim - new] == 1)
