# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers as attributes: converts Python integers and floats to the properties of ops and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute

from fuel_dialect import dtypes
from fuel_dialect.errors import GraphError

AnyNumber = FloatAttr[Any] | IntegerAttr[Any]


def show(value: object) -> str:
    """Show a value in a message, also one that holds an integer too long for Python to print."""
    try:
        return repr(value)
    except ValueError:
        return "an integer of thousands of digits"


def integer(value: int) -> IntegerAttr:
    """Make an `i64` attribute, which dims, lengths and offsets are."""
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


def splat_attribute(value: float, element: Attribute) -> AnyNumber:
    """Make the attribute that holds one element of an element type."""
    if dtypes.of_type(element).kind in ("float", "storage"):
        return FloatAttr(float(value), cast(Any, element))
    return IntegerAttr(int(value), cast(Any, element))
