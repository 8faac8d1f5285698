# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines what a row of the table of elementwise ops is, and the rows that are one primitive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from fuel_lowering.scalars.values import ScalarBuilder

Definition = Callable[[ScalarBuilder[Any], Any, Sequence[Any]], Any]
"""Builds an op over primitives: takes the builder, the op and its operands; returns its result."""

Definitions = Mapping[type[Operation], Definition]


@dataclass(frozen=True)
class Exact:
    """
    Marks a definition whose result needs no rounding to the element type.

    It is one of the operands, a constant, or rounded by the definition.
    """

    definition: Definition

    def __call__(self, code: ScalarBuilder[Any], op: Operation, operands: Sequence[Any]) -> Any:
        return self.definition(code, op, operands)


def primitive(name: str) -> Definition:
    """Returns the definition of an op that is one primitive."""
    return lambda code, op, xs: code.apply(name, *xs)


def of_floats(name: str) -> Definition:
    """Returns the definition of an op that is one primitive on floats and leaves integers alone."""
    return lambda code, op, xs: code.apply(name, *xs) if xs[0].is_float else xs[0]


def of_signed(name: str) -> Definition:
    """Returns the definition of an op that is one primitive, and leaves unsigned integers alone."""
    return lambda code, op, xs: xs[0] if is_unsigned(xs[0]) else code.apply(name, *xs)


def comparison(name: str) -> Definition:
    """Returns the definition of a comparison."""
    return Exact(lambda code, op, xs: code.compare(name, *xs))


def is_unsigned(x: Any) -> bool:
    """Returns True for a value of unsigned integers."""
    return x.dtype.kind == "unsigned"
