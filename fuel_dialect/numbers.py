# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers as attributes: converts Python integers and floats to the properties of ops and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, isinf
from operator import index
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, IntegerType, f64, i64
from xdsl.ir import Attribute

from fuel_dialect import dtypes
from fuel_dialect.errors import DTypeError, GraphError

AnyNumber = FloatAttr[Any] | IntegerAttr[Any]


def show(value: object) -> str:
    """Show a value in a message, also one that holds an integer too long for Python to print."""
    try:
        return repr(value)
    except ValueError:
        return "an integer of thousands of digits"


def integer(value: int) -> IntegerAttr:
    """
    Make an `i64` attribute, which dims, lengths and offsets are.

    Raises `DTypeError` for an integer that it does not hold.
    """
    if not -(2**63) <= value < 2**63:
        raise DTypeError(f"{show(value)} does not fit i64")
    return IntegerAttr(value, i64)


def int_value(attribute: Attribute) -> int:
    """Return the value of an integer attribute."""
    return cast("IntegerAttr[Any]", attribute).value.data


def int_tuple(attribute: Attribute) -> tuple[int, ...]:
    """Return the integers of an `array<i64: ...>`. Raises `GraphError` for another attribute."""
    array = cast("DenseArrayBase[IntegerType]", attribute)
    if array.elt_type != i64:
        raise GraphError(f"expected an array<i64: ...>, got {attribute}")
    return array.get_values()


def int_array(values: Sequence[int]) -> DenseArrayBase:
    """Make an `array<i64: ...>` attribute."""
    return DenseArrayBase.from_list(i64, list(values))


def scalar_attribute(op: str, what: str, number: object, element: Attribute) -> AnyNumber:
    """
    Make the attribute of a number that meets a tensor of an element type.

    It is an f64 for floats and an i64 for integers, which hold every value of theirs. Raises
    `DTypeError` for what is no number, and for one that an integer type does not hold.
    """
    dtype = dtypes.of_type(element)
    try:
        given = float(number)  # pyright: ignore[reportArgumentType]
    except OverflowError:
        given = inf
    except (TypeError, ValueError):
        raise DTypeError(f"{op}: {what}: expected a number, got {show(number)}") from None
    if not dtype.is_integer:
        if isinf(given) and isinstance(number, int):
            raise DTypeError(f"{op}: {what}: {show(number)} is beyond the range of a float")
        return FloatAttr(given, f64)
    try:
        whole = index(number)  # pyright: ignore[reportArgumentType]
    except TypeError:
        whole = int(given) if isfinite(given) else None
    low, high = dtype.limits
    if whole is None or whole != number or not low <= whole <= high:
        raise DTypeError(
            f"{op}: {what}: {show(number)} is no {dtype}, which holds the integers {low} to {high}"
        )
    return integer(whole)


def exact_scalar(attribute: Attribute, element: Attribute) -> Attribute:
    """
    Convert the attribute of a scalar to the one that `scalar_attribute` makes, if it is exact.

    Texts may write `2.0 : f64` for an integer tensor, or an integer of another width.
    """
    if not isinstance(attribute, FloatAttr | IntegerAttr):
        return attribute
    number = cast(AnyNumber, attribute)
    try:
        is_integer = dtypes.of_type(element).is_integer
        return scalar_attribute("", "", number.value.data, element) if is_integer else number
    except DTypeError:
        return number


def check_scalar(op: str, what: str, attribute: Attribute, element: Attribute) -> None:
    """Raise `DTypeError` unless an attribute is a scalar that meets tensors of an element type."""
    dtype = dtypes.of_type(element)
    if not isinstance(attribute, FloatAttr if not dtype.is_integer else FloatAttr | IntegerAttr):
        kind = "an integer" if dtype.is_integer else "a float"
        raise DTypeError(f"{op}: {what}: {attribute} must be {kind}, as the tensor is {dtype}")
    scalar_attribute(op, what, cast(AnyNumber, attribute).value.data, element)


def splat_attribute(value: float, element: Attribute) -> AnyNumber:
    """Make the attribute that holds one element of an element type."""
    if dtypes.of_type(element).kind in ("float", "storage"):
        return FloatAttr(float(value), cast(Any, element))
    return IntegerAttr(int(value), cast(Any, element))
