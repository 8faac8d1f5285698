# SPDX-License-Identifier: MIT OR Apache-2.0
"""Constants of a graph: turns numbers, nested lists and arrays into `fuel.const` ops."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from fuel_dialect import dtypes
from fuel_dialect.builder.promotion import host_array, is_number, weak
from fuel_dialect.builder.trace import Trace
from fuel_dialect.errors import DTypeError, ShapeError
from fuel_dialect.numbers import show, splat_attribute
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.tensors import tensor


def make_constant(
    trace: Trace,
    value: object,
    dtype: dtypes.DType | None = None,
    shape: tuple[int, ...] | None = None,
) -> SSAValue:
    """Append a constant to a trace; its value. `Graph.constant` says what it takes and raises."""
    if dtype is not None and is_number(value):
        type = tensor(shape or (), dtype.type)
        number = splat_attribute(weak("constant", value, dtype), dtype.type)
        return trace.leaf(ConstOp.make(declared=[type], value=number))
    array = _numbers(value, dtype)
    return trace.leaf(ConstOp.from_numpy(array if shape is None else _laid_out(array, shape)))


def _numbers(value: object, dtype: dtypes.DType | None) -> np.ndarray[Any, Any]:
    """Numbers as an array. Raises `DTypeError` for others and for what `dtype` does not have."""
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return host_array("constant", value, dtype)  # which says what is wrong
    if given.dtype.kind in "OSTUMmc" and not all(map(is_number, given.flat)):
        raise DTypeError(f"constant: expected a number or an array of numbers, got {show(value)}")
    array = host_array("constant", value, dtype)
    if dtype is not None and (dtype.is_integer or dtype.kind == "mask"):
        _check_kept(given, array, dtype)
    return array


def _check_kept(
    given: np.ndarray[Any, Any], array: np.ndarray[Any, Any], dtype: dtypes.DType
) -> None:
    """Raise `DTypeError` for the first number that is another one in an array of integers."""
    wide = given if given.dtype.kind in "biuO" else given.astype(np.float64)
    kept = wide == array
    if dtype.is_integer and wide.dtype.kind == "f":
        # a float beyond the range may convert to the limit, which rounds to the same float
        low, high = dtype.limits
        kept = kept & (wide >= float(low)) & (wide < float(high + 1))
    if not np.all(kept):
        worst = wide[~np.asarray(kept)][0]
        raise DTypeError(f"constant: {worst} does not fit {dtype}: the value is not representable")


def _laid_out(array: np.ndarray[Any, Any], dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if not array.ndim:
        return np.broadcast_to(array, dims)
    count = int(np.prod(dims, dtype=np.int64))
    if array.size != count:
        raise ShapeError(
            f"constant: {array.size} values: the length does not match shape element count "
            f"{count} of {list(dims)}"
        )
    return array.reshape(dims)
