# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the arguments of builder methods: integers, shapes, axes and scalars."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

from xdsl.dialects.builtin import FloatAttr, f64

from fuel_dialect.errors import DTypeError, ShapeError
from fuel_dialect.numbers import show

MAX_BITS = 1024
"""An integer argument has at most this many bits, so that messages can print it."""


Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""One axis, several, or None for all of them."""


class GraphValue:
    """Marks the values of a graph: they iterate over their rows, and are never a shape."""

    __slots__ = ()


def as_int(op: str, what: str, value: object) -> int:
    """Read an integer argument. Raises `DTypeError` for anything else, `True` included."""
    try:
        # a bool counts as an integer in Python, but nobody means one by it
        number = operator.index(None if isinstance(value, bool) else value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise DTypeError(f"{op}: {what} must be an integer, got {show(value)}") from None
    if number.bit_length() > MAX_BITS:
        raise DTypeError(f"{op}: {what} must fit i64, got an integer of {number.bit_length()} bits")
    return number


def as_shape(op: str, dims: object) -> tuple[int, ...]:
    """Read a shape. Raises `DTypeError` for no integers, `ShapeError` for a negative one."""
    if isinstance(dims, str | GraphValue) or not hasattr(dims, "__iter__"):
        return as_shape(op, (dims,))
    sizes = tuple(as_int(op, "an extent", d) for d in dims)  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType, reportUnknownArgumentType]
    if any(size < 0 for size in sizes):
        raise ShapeError(f"{op}: extents must be >= 0, got {list(sizes)}; fuel shapes are static")
    return sizes


def normal_axis(op: str, axis: object, rank: int, shape: Sequence[int]) -> int:
    """Count an axis from the start. Raises `ShapeError` unless -rank <= axis < rank."""
    index = as_int(op, "an axis", axis)
    if not -rank <= index < rank:
        raise ShapeError(f"{op}: axis {index} is out of bounds for shape {list(shape)}")
    return index % rank


def unpack(dims: tuple[Any, ...]) -> Sequence[Any]:
    """Return the sequence that `f(2, 3)` and `f((2, 3))` both mean."""
    if len(dims) != 1 or isinstance(dims[0], GraphValue) or not hasattr(dims[0], "__iter__"):
        return dims
    return dims[0]


def as_f64(op: str, number: object) -> FloatAttr[Any]:
    """Read a number as an f64 attribute. Raises `DTypeError` for what is no number."""
    try:
        return FloatAttr(float(number), f64)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        raise DTypeError(f"{op}: expected a number, got {show(number)}") from None
