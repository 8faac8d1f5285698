# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Makes the NumPy-named methods and the operators of tensors that are one op of aligned operands.

Each is a row of a table here. Editors and type checkers read `numpy_methods.pyi`, which
`docs/make_stubs.py` writes and a test keeps in step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from fuel_dialect.builder.arguments import as_int
from fuel_dialect.builder.op_methods import Family, Method, documented
from fuel_dialect.ops import comparison, elementwise, reduction
from fuel_dialect.ops.base import FuelOp


def _binary(name: str, op: type[FuelOp]) -> Method:
    def method(self: Any, other: Any) -> Any:
        return self._binary(name, op, other)

    return method


def _reduced(name: str, op: type[FuelOp]) -> Method:
    def method(self: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduce(name, op, axis, keepdims)

    return method


def _reduced_to_index(name: str, op: type[FuelOp]) -> Method:
    def method(self: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if axis is not None:
            as_int(name, "the axis", axis)
        return self._reduce(name, op, axis, keepdims)

    return method


BOTH = "a is this tensor, b the other operand; both are broadcast and promoted."
OVER = "Over the axes given, which are counted from either end; None is all of them."
INDEX = "`dim` is the axis, counted from either end; None is all elements, in row-major order."

Names: TypeAlias = tuple[Callable[[str, type[FuelOp]], Method], Family, Mapping[str, type[FuelOp]]]

NAMED: tuple[Names, ...] = (
    (
        _binary,
        Family(BOTH, {"other": "Operand"}),
        {
            "remainder": elementwise.RemOp,
            "equal": comparison.EqOp,
            "not_equal": comparison.NeOp,
            "less": comparison.LtOp,
            "less_equal": comparison.LeOp,
            "greater": comparison.GtOp,
            "greater_equal": comparison.GeOp,
        },
    ),
    (
        _reduced,
        Family(OVER, {"axis": "Axes", "keepdims": "bool"}),
        {
            "mean": reduction.MeanDimOp,
            "max": reduction.MaxDimOp,
            "min": reduction.MinDimOp,
        },
    ),
    (
        _reduced_to_index,
        Family(INDEX, {"axis": "SupportsIndex | None", "keepdims": "bool"}),
        {
            "argmax": reduction.ArgmaxDimOp,
            "argmin": reduction.ArgminDimOp,
        },
    ),
)
"""The names of the array API, with the op of each."""

REFLECTED: Mapping[str, tuple[str, type[FuelOp]]] = {
    "__rsub__": ("subtract", elementwise.SubOp),
    "__rmod__": ("remainder", elementwise.RemOp),
    "__rpow__": ("power", elementwise.PowOp),
}
"""The operators whose left operand is no tensor, with the name that their errors say."""

FORWARDED: Mapping[str, str] = {
    "__sub__": "subtract",
    "__mul__": "multiply",
    "__rmul__": "multiply",
    "__truediv__": "divide",
    "__floordiv__": "floor_divide",
    "__mod__": "remainder",
    "__pow__": "power",
    "__eq__": "equal",
    "__ne__": "not_equal",
    "__lt__": "less",
    "__le__": "less_equal",
    "__gt__": "greater",
    "__ge__": "greater_equal",
}
"""The operators that call a method with their other operand."""

FORWARDED_ALONE: Mapping[str, str] = {"__neg__": "neg", "__abs__": "abs"}
"""The operators that call a method without an operand."""


def _reflected(name: str, op: type[FuelOp]) -> Method:
    def method(self: Any, other: Any) -> Any:
        return self._binary(name, op, other, reflected=True)

    return method


def _forwarded(target: str) -> Method:
    def method(self: Any, other: Any) -> Any:
        return getattr(self, target)(other)

    return method


def _forwarded_alone(target: str) -> Method:
    def method(self: Any) -> Any:
        return getattr(self, target)()

    return method


def _operators() -> Iterator[tuple[str, Method, Mapping[str, str]]]:
    other = {"other": "Operand"}
    yield from ((name, _reflected(*row), other) for name, row in REFLECTED.items())
    yield from ((name, _forwarded(target), other) for name, target in FORWARDED.items())
    yield from ((name, _forwarded_alone(target), {}) for name, target in FORWARDED_ALONE.items())


def _methods() -> Iterator[Method]:
    for make, family, ops in NAMED:
        for name, op in ops.items():
            yield documented(make(name, op), name, reduction.OVER_ALL.get(op, op), family)
    for name, method, types in _operators():
        method.__name__ = name
        method.__annotations__ = {**types, "return": "Self"}
        yield method


class NumpyMethods:
    """The NumPy-named methods and operators of tensors that are rows of a table."""

    __slots__ = ()


for _method in _methods():
    setattr(NumpyMethods, _method.__name__, _method)
