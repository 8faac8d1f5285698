# SPDX-License-Identifier: MIT OR Apache-2.0
"""Selects ops by what they are, for the descriptions of targets: no op is known by its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from xdsl.ir import Attribute, Operation

from fuel_dialect import dtypes
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import is_marked


@dataclass(frozen=True)
class OpSet:
    """Represents the ops of a class, an interface or a trait, on some element types."""

    marker: type[Any] = FuelOp
    """An op class, an interface or a trait; `FuelOp` for all ops."""
    dtypes: tuple[str, ...] | None = None
    """The element types of which an operand or a result has one; None for any."""

    def holds(self, op: type[Operation], types: Iterable[Attribute]) -> bool:
        """Returns True if the set holds an op with such element types."""
        if not is_marked(op, self.marker):
            return False
        return self._types is None or any(type in self._types for type in types)

    @cached_property
    def _types(self) -> frozenset[Attribute] | None:
        if self.dtypes is None:
            return None
        return frozenset(dtypes.BY_NAME[name].type for name in self.dtypes)


class Unstable(NamedTuple):
    """Says that ops may have other bits each time, and why."""

    ops: OpSet
    reason: str
    """A sentence part that follows `other bits`: `where BLAS may use more threads`."""


class Precision(NamedTuple):
    """Bounds the error of ops, in units in the last place."""

    ops: OpSet
    ulps: int


def element_types_of(op: Operation) -> Sequence[Attribute]:
    """Returns the element types of an op's operands, then of its results."""
    return [tensor_type(value).element_type for value in (*op.operands, *op.results)]
