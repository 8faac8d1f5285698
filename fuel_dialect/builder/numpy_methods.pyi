# SPDX-License-Identifier: MIT OR Apache-2.0
# Written by docs/make_stubs.py; change the docstrings of the ops or the tables instead.

from collections.abc import Mapping
from typing import Self, SupportsIndex

from fuel_dialect.builder.arguments import Axes
from fuel_dialect.builder.promotion import Operand

FORWARDED: Mapping[str, str]

class NumpyMethods:
    __slots__ = ()

    def __hash__(self) -> int: ...
    def remainder(self, other: Operand) -> Self:
        """
        a - floor(a / b) * b: the sign of the divisor; an integer zero divisor gives 0.

        a is this tensor, b the other operand; both are broadcast and promoted. Takes integers and
        floats.
        """

    def equal(self, other: Operand) -> Self:
        """
        a == b.

        a is this tensor, b the other operand; both are broadcast and promoted. Takes integers,
        floats and masks.
        """

    def not_equal(self, other: Operand) -> Self:
        """
        a != b; true where either is NaN.

        a is this tensor, b the other operand; both are broadcast and promoted. Takes integers,
        floats and masks.
        """

    def less(self, other: Operand) -> Self:
        """
        a < b.

        a is this tensor, b the other operand; both are broadcast and promoted. Takes integers,
        floats and masks.
        """

    def less_equal(self, other: Operand) -> Self:
        """
        a <= b.

        a is this tensor, b the other operand; both are broadcast and promoted. Takes integers,
        floats and masks.
        """

    def greater(self, other: Operand) -> Self:
        """
        a > b.

        a is this tensor, b the other operand; both are broadcast and promoted. Takes integers,
        floats and masks.
        """

    def greater_equal(self, other: Operand) -> Self:
        """
        a >= b.

        a is this tensor, b the other operand; both are broadcast and promoted. Takes integers,
        floats and masks.
        """

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """
        The mean of all elements.

        Over the axes given, which are counted from either end; None is all of them. Takes floats.
        """

    def max(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """
        The largest element; NaN if any is NaN.

        Over the axes given, which are counted from either end; None is all of them. Takes integers,
        floats and masks. Raises `ShapeError` over no elements.
        """

    def min(self, axis: Axes = None, keepdims: bool = False) -> Self:
        """
        The smallest element; NaN if any is NaN.

        Over the axes given, which are counted from either end; None is all of them. Takes integers,
        floats and masks. Raises `ShapeError` over no elements.
        """

    def argmax(self, axis: SupportsIndex | None = None, keepdims: bool = False) -> Self:
        """
        The index of the largest along `dim`, as ui32: the first of ties, or the first NaN.

        `dim` is the axis, counted from either end; None is all elements, in row-major order. Takes
        integers, floats and masks. Raises `ShapeError` over no elements.
        """

    def argmin(self, axis: SupportsIndex | None = None, keepdims: bool = False) -> Self:
        """
        The index of the smallest along `dim`, as ui32: the first of ties, or the first NaN.

        `dim` is the axis, counted from either end; None is all elements, in row-major order. Takes
        integers, floats and masks. Raises `ShapeError` over no elements.
        """

    def __rsub__(self, other: Operand) -> Self: ...
    def __rmod__(self, other: Operand) -> Self: ...
    def __rpow__(self, other: Operand) -> Self: ...
    def __sub__(self, other: Operand) -> Self: ...
    def __mul__(self, other: Operand) -> Self: ...
    def __rmul__(self, other: Operand) -> Self: ...
    def __truediv__(self, other: Operand) -> Self: ...
    def __floordiv__(self, other: Operand) -> Self: ...
    def __mod__(self, other: Operand) -> Self: ...
    def __pow__(self, other: Operand) -> Self: ...
    def __eq__(self, other: Operand) -> Self: ...  # pyright: ignore[reportIncompatibleMethodOverride]
    def __ne__(self, other: Operand) -> Self: ...  # pyright: ignore[reportIncompatibleMethodOverride]
    def __lt__(self, other: Operand) -> Self: ...
    def __le__(self, other: Operand) -> Self: ...
    def __gt__(self, other: Operand) -> Self: ...
    def __ge__(self, other: Operand) -> Self: ...
    def __neg__(self) -> Self: ...
    def __abs__(self) -> Self: ...
