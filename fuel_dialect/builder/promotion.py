# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Promotes the operands of a NumPy-style call to one element type.

The table is the array API's: types promote within integers and within floats, never across, and
Python numbers are weak: they take the element type of the tensor they meet. What the array API
leaves undefined is refused, but for bf16 with f16, which meet in f32.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.builder.arguments import GraphValue
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import DTypeError
from fuel_dialect.numbers import show

Number = bool | int | float

Operand: TypeAlias = GraphValue | Number | np.ndarray[Any, Any] | np.generic
"""An operand of an operator or a NumPy-named method: a tensor, a Python number or an array."""


def promote(op: str, *types: DType) -> DType:
    """The smallest type that holds every value of all. Raises `DTypeError` if they do not meet."""
    return reduce(lambda a, b: _promote_pair(op, a, b), types)


def _promote_pair(op: str, a: DType, b: DType) -> DType:
    if a == b:
        return a
    if a.is_float and b.is_float:
        return _wider(a, b) if a.bits != b.bits else dtypes.BY_NAME["f32"]
    if not (a.is_integer and b.is_integer):
        raise DTypeError(
            f"{op}: {a} and {b} do not promote to a common dtype; cast one of them with astype"
        )
    if a.kind == b.kind:
        return _wider(a, b)
    signed, unsigned = (a, b) if a.kind == "signed" else (b, a)
    return dtypes.BY_NAME[f"i{max(signed.bits, 2 * unsigned.bits)}"]


def _wider(a: DType, b: DType) -> DType:
    return a if a.bits >= b.bits else b


def weak(op: str, number: Number, dtype: DType) -> Number:
    """
    A Python number as an element of `dtype`.

    Raises `DTypeError` when that would change the category (a float with an integer tensor, a
    bool with numbers) or when an integer does not fit.
    """
    if isinstance(number, bool) != (dtype.kind == "mask"):
        raise DTypeError(
            f"{op}: {show(number)} does not go with a tensor of {dtype}; masks take True and "
            "False, numbers go with numbers: cast with astype"
        )
    if isinstance(number, bool):
        return number
    if dtype.is_integer:
        return _weak_integer(op, number, dtype)
    if not dtype.is_float:
        raise DTypeError(f"{op}: {dtype} is for storage; cast to a float dtype first")
    return _float(op, number)


def _weak_integer(op: str, number: float, dtype: DType) -> int:
    if isinstance(number, float):
        raise DTypeError(
            f"{op}: a tensor of {dtype} and the float {show(number)} have no common dtype; cast "
            'the tensor to a float dtype first, such as astype("f32")'
        )
    low, high = dtype.limits
    if not low <= number <= high:
        raise DTypeError(f"{op}: {show(number)} does not fit {dtype}, which holds {low} to {high}")
    return number


def _float(op: str, number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise DTypeError(f"{op}: {show(number)} is beyond the range of a float") from None


def is_number(value: object) -> TypeGuard[Number]:
    """Returns True for a Python number; NumPy's scalars are arrays of rank 0, not numbers."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def is_array(value: object) -> TypeGuard[np.ndarray[Any, Any] | np.generic[Any]]:
    """Returns True for a NumPy array or scalar."""
    return isinstance(value, np.ndarray | np.generic)


def host_array(op: str, value: object, dtype: DType | None) -> np.ndarray[Any, Any]:
    """
    Numbers, nested lists or an array as an array of a fuel dtype.

    Without `dtype` NumPy decides: Python floats make f64, ints i64. Raises `DTypeError` for
    ragged lists, objects, and integers that do not fit.
    """
    try:
        if dtype is None:
            array = np.asarray(value)
        elif is_array(value):
            array = _convert(np.asarray(value), dtype)
        else:
            array = np.asarray(value, dtype=dtype.numpy)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"{op}: cannot make a tensor of {show(value)}: {error}") from None
    dtypes.of(array.dtype)
    return array


def _convert(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)
