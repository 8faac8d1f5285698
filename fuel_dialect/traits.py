# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The classification of ops, as traits and interfaces.

Passes, lowerings and the runtime ask for a trait; no part of fuel keeps a list of op names.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue
from xdsl.traits import OpTrait

if TYPE_CHECKING:
    from xdsl.builder import Builder

    from fuel_dialect.layout import Layout


@dataclass(frozen=True)
class Elementwise(OpTrait):
    """
    Element i of the result depends on element i of each operand alone; all shapes are equal.

    Such ops fuse into pointwise kernels.
    """


@dataclass(frozen=True)
class RowWise(OpTrait):
    """Each row (the last axis) of the result depends on the same row of the operands alone."""


@dataclass(frozen=True)
class Exact(OpTrait):
    """
    Each element of the result is right to the last bit, on every target.

    The op compares, selects or changes a sign, or its rounding is part of its definition.
    """


@dataclass(frozen=True)
class AmplifiesError(OpTrait):
    """
    The formula of the op loses more bits the larger its result is: `exp(y log x)` for a power.

    A description may state another precision for it.
    """


@dataclass(frozen=True)
class Contraction(OpTrait):
    """
    Each element of the result is a sum of products of elements of two operands.

    The order of the terms is free, so that a library may compute it.
    """


@dataclass(frozen=True)
class Reduction(OpTrait):
    """The result has fewer elements than the operand: one per group of reduced elements."""


@dataclass(frozen=True)
class FreeWhenContiguous(OpTrait):
    """The result is the operand's own buffer where that is contiguous, and a copy elsewhere."""


@dataclass(frozen=True)
class Leaf(OpTrait):
    """
    No operands, and cheaper to repeat than to pass: constants, weights, iota.

    Leaves are cloned into the arms and runs that read them.
    """


@dataclass(frozen=True)
class MayReuse(OpTrait):
    """The result may take over the buffer of one operand at its last use."""

    operand: int


@dataclass(frozen=True)
class Transfer(OpTrait):
    """Moves a value between devices; ends a run."""


@dataclass(frozen=True)
class Container(OpTrait):
    """Holds ops of a plan (kernel, run): `fuel-strip-plan` dissolves it."""


def is_marked(op: type[Operation], marker: type[Any]) -> bool:
    """Returns True if an op is of a class or an interface, or has a trait."""
    if issubclass(marker, Operation):
        return issubclass(op, marker)
    return op.has_trait(marker, value_if_unregistered=False)


class ViewOp(Operation, abc.ABC):
    """A metadata-only op: its result is another layout of its operand's buffer."""

    @abc.abstractmethod
    def derive_layout(self, layout: Layout) -> Layout:
        """The layout of the result, given the operand's. Raises `ShapeError`."""


class AlongAxesOp(Operation, abc.ABC):
    """
    An op along some axes of its one operand: a reduction, or a function of rows.

    Ops along the same axes fuse, with what is elementwise around them, into reduction kernels.
    """

    @abc.abstractmethod
    def axes(self) -> tuple[int, ...]:
        """The axes of the operand, ascending, over which elements are read together."""


class DecomposableOp(Operation, abc.ABC):
    """An op that other ops of the dialect define."""

    @abc.abstractmethod
    def decompose(self, builder: Builder) -> Sequence[SSAValue]:
        """Insert the defining ops at the builder's point; one value for each result."""


class SplittableOp(Operation, abc.ABC):
    """An op of any number of operands that several ops of its kind with fewer operands define."""

    @abc.abstractmethod
    def split(self, builder: Builder) -> Sequence[SSAValue]:
        """Inserts ops of its kind that each read about half of the operands, and one that joins."""
