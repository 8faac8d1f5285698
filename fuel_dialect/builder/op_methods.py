# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Makes the strict methods of tensors from the op classes: one for each op that is plainly called.

`FAMILIES` maps base classes of ops to the function that makes the method of an op below them.
Editors and type checkers read `op_methods.pyi`, which `docs/make_stubs.py` writes and a test keeps
in step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any, TypeAlias

from xdsl.ir import Operation
from xdsl.irdl import OptPropertyDef

from fuel_dialect import dtypes
from fuel_dialect.builder.arguments import GraphValue, as_f64, as_int, as_shape, unpack
from fuel_dialect.dialect import OPS
from fuel_dialect.numbers import integer
from fuel_dialect.ops import comparison, elementwise, normalization, reduction, shape
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.tensors import tensor

Method: TypeAlias = Callable[..., Any]

WIDTH = 92
"""The columns that a docstring has in the body of a method."""


@dataclass(frozen=True)
class Family:
    """
    Describes methods that are called alike.

    `note` is the sentence that their docstrings add to those of the ops, `types` are the
    annotations of their parameters, `properties` those that their ops must have.
    """

    note: str
    types: Mapping[str, str]
    properties: tuple[str, ...] = ()


def _unary(op: type[FuelOp]) -> Method:
    def method(self: Any) -> Any:
        return self.emit(op)

    return method


def _binary(op: type[FuelOp]) -> Method:
    def method(self: Any, other: Any) -> Any:
        return self.emit(op, other)

    return method


def _along_dim(op: type[FuelOp]) -> Method:
    def method(self: Any, dim: Any) -> Any:
        return self.emit(op, dim=integer(as_int(op.mnemonic(), "dim", dim)))

    return method


def _to_shape(op: type[FuelOp]) -> Method:
    def method(self: Any, *dims: Any) -> Any:
        target = as_shape(op.mnemonic(), unpack(dims))
        return self.emit(op, declared=(tensor(target, self.type.element_type),))

    return method


def _norm(op: type[FuelOp]) -> Method:
    def method(self: Any, eps: Any) -> Any:
        return self.emit(op, eps=as_f64(op.mnemonic(), eps))

    return method


def _broadcast(op: type[FuelOp]) -> Method:
    name = f"broadcast_{op.mnemonic()}"

    def method(self: Any, other: Any) -> Any:
        with self.trace.editing():
            left, right = self._broadcast_pair(name, other)
            return left.emit(op, right)

    return method


ALONE = Family("x is this tensor.", {})
PAIR = Family(
    "a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.",
    {"other": "GraphValue"},
)
BROADCAST_PAIR = Family(
    "a is this tensor, b the other one, of its dtype; both are broadcast to their common shape.",
    {"other": "GraphValue"},
)
WHOLE = Family("The result has rank 0.", {})
ALONG_DIM = Family("The dim is counted from the start.", {"dim": "SupportsIndex"}, ("dim",))
TO_SHAPE = Family("The shape broadcasts to that of this tensor.", {"dims": "Any"})
NORM = Family("x is this tensor.", {"eps": "float"}, ("eps",))

FAMILIES: Mapping[type[Operation], tuple[Callable[[type[FuelOp]], Method], Family]] = {
    elementwise.UnaryOp: (_unary, ALONE),
    elementwise.BinaryOp: (_binary, PAIR),
    comparison.ComparisonOp: (_binary, PAIR),
    shape.ContiguizeOp: (_unary, ALONE),
    reduction.AllReductionOp: (_unary, WHOLE),
    reduction.DimReductionOp: (_along_dim, ALONG_DIM),
    reduction.TargetReductionOp: (_to_shape, TO_SHAPE),
    normalization.NormLastDimOp: (_norm, NORM),
    normalization.LastDimOp: (_unary, ALONE),
}
"""An op gets the method of its nearest base class here, if it has that family's properties."""

BROADCAST: tuple[type[FuelOp], ...] = (
    elementwise.AddOp,
    elementwise.SubOp,
    elementwise.MulOp,
    elementwise.DivOp,
)
"""The ops that have a `broadcast_` method as well."""

TAKES: Mapping[tuple[str, ...], str] = {
    dtypes.FLOATS: "Takes floats.",
    dtypes.NUMERIC: "Takes integers and floats.",
    dtypes.ORDERED: "Takes integers, floats and masks.",
}


def required_properties(op: type[FuelOp]) -> tuple[str, ...]:
    """Return the names of the properties that an op must have."""
    properties = op.get_irdl_definition().properties.items()
    return tuple(name for name, kind in properties if not isinstance(kind, OptPropertyDef))


def documented(method: Method, name: str, op: type[FuelOp], family: Family) -> Method:
    """Give a method its name, the docstring of its op and the types of its parameters."""
    takes = TAKES.get(getattr(op, "DTYPES", ()), "")
    empty = "Raises `ShapeError` over no elements." if getattr(op, "NEEDS_ELEMENTS", 0) else ""
    notes = " ".join(note for note in (family.note, takes, empty) if note)
    method.__name__ = name
    method.__doc__ = "\n\n".join(filter(None, (inspect.getdoc(op), fill(notes, WIDTH))))
    method.__annotations__ = {**family.types, "return": "Self"}
    return method


def _methods() -> Iterator[Method]:
    """Make the methods, in the order of the dialect."""
    for op in OPS:
        found = next((FAMILIES[base] for base in op.__mro__ if base in FAMILIES), None)
        if found is None or required_properties(op) != found[1].properties:
            continue
        make, family = found
        yield documented(make(op), op.mnemonic(), op, family)
    for op in BROADCAST:
        yield documented(_broadcast(op), f"broadcast_{op.mnemonic()}", op, BROADCAST_PAIR)


class OpMethods(GraphValue):
    """The strict methods of tensors that are made from op classes, each under its mnemonic."""

    __slots__ = ()


for _method in _methods():
    setattr(OpMethods, _method.__name__, _method)
