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

from xdsl.ir import Attribute, Operation
from xdsl.irdl import OptPropertyDef

from fuel_dialect import dtypes
from fuel_dialect.builder.arguments import GraphValue, as_f64, as_int, as_shape, unpack
from fuel_dialect.dialect import OPS
from fuel_dialect.errors import ShapeError
from fuel_dialect.numbers import int_array, integer
from fuel_dialect.ops import (
    comparison,
    elementwise,
    indexing,
    memory,
    normalization,
    reduction,
    shape,
)
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


def _indexed(op: type[FuelOp]) -> Method:
    def method(self: Any, dim: Any, indices: Any) -> Any:
        return self.emit(op, indices, dim=integer(as_int(op.mnemonic(), "dim", dim)))

    return method


def _written(op: type[FuelOp]) -> Method:
    def method(self: Any, source: Any, ranges: Any) -> Any:
        return self.emit(op, source, starts=_starts(op, self, source, ranges))

    return method


def _written_at(op: type[FuelOp]) -> Method:
    def method(self: Any, source: Any, position: Any, axis: Any, ranges: Any) -> Any:
        starts = _starts(op, self, source, ranges)
        where = integer(as_int(op.mnemonic(), "the axis", axis))
        return self.emit(op, source, position, starts=starts, axis=where)

    return method


def _written_in_ring(op: type[FuelOp]) -> Method:
    def method(self: Any, source: Any, position: Any, axis: Any, modulus: Any, ranges: Any) -> Any:
        name = op.mnemonic()
        return self.emit(
            op,
            source,
            position,
            starts=_starts(op, self, source, ranges),
            axis=integer(as_int(name, "the axis", axis)),
            modulus=integer(as_int(name, "the modulus", modulus)),
        )

    return method


def _starts(op: type[FuelOp], target: Any, source: Any, ranges: Any) -> Attribute:
    """Returns the starts of ranges. Raises `ShapeError` for one not as wide as the source."""
    name = op.mnemonic()
    target.require_same_graph(name, source)
    pairs = [(as_int(name, "a start", a), as_int(name, "an end", b)) for a, b in ranges]
    if len(pairs) == source.ndim:
        for dim, ((start, end), width) in enumerate(zip(pairs, source.shape, strict=True)):
            if end - start != width:
                raise ShapeError(
                    f"{name}: the range {start} to {end} of dim {dim} is {end - start} wide; the "
                    f"source {list(source.shape)} has {width} there"
                )
    return int_array([start for start, _ in pairs])


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
DIM_AND_INDICES = {"dim": "SupportsIndex", "indices": "GraphValue"}
INTO = "The destination is this tensor."
PART = "`ranges` has the part as (start, end) for each dim."
INDEXED = Family("x is this tensor; the dim is counted from the start.", DIM_AND_INDICES, ("dim",))
WRITTEN = Family(f"{INTO} {PART}", {"source": "GraphValue", "ranges": "Ranges"}, ("starts",))
WRITTEN_AT = Family(
    f"{INTO} {PART} The range of the axis begins at 0; the position is added to it.",
    {"source": "GraphValue", "position": "GraphValue", "axis": "SupportsIndex", "ranges": "Ranges"},
    ("starts", "axis"),
)
WRITTEN_IN_RING = Family(
    WRITTEN_AT.note,
    {
        "source": "GraphValue",
        "position": "GraphValue",
        "axis": "SupportsIndex",
        "modulus": "SupportsIndex",
        "ranges": "Ranges",
    },
    ("starts", "axis", "modulus"),
)

FAMILIES: Mapping[type[Operation], tuple[Callable[[type[FuelOp]], Method], Family]] = {
    elementwise.UnaryOp: (_unary, ALONE),
    elementwise.BinaryOp: (_binary, PAIR),
    comparison.ComparisonOp: (_binary, PAIR),
    shape.ContiguizeOp: (_unary, ALONE),
    reduction.AllReductionOp: (_unary, WHOLE),
    reduction.DimReductionOp: (_along_dim, ALONG_DIM),
    reduction.TargetReductionOp: (_to_shape, TO_SHAPE),
    indexing.IndexingOp: (_indexed, INDEXED),
    memory.WriteOp: (_written, WRITTEN),
    memory.WriteAtOp: (_written_at, WRITTEN_AT),
    memory.WriteSliceRotatingOp: (_written_in_ring, WRITTEN_IN_RING),
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


def required_properties(op: type[FuelOp]) -> set[str]:
    """Return the names of the properties that an op must have."""
    properties = op.get_irdl_definition().properties.items()
    return {name for name, kind in properties if not isinstance(kind, OptPropertyDef)}


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
        if found is None or required_properties(op) != set(found[1].properties):
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
