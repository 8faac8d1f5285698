# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Describes the ops whose results hold elements of their operands, in other places.

Such an op says its pieces once; every target renders pieces, and prices count their bytes. A piece
is a box of the result that one operand fills. Pieces may overlap: a later one lies over an earlier
one. What no piece holds has the value of `fill`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from xdsl.ir import Operation, SSAValue

from fuel_dialect.errors import ShapeError
from fuel_dialect.numbers import scalar_attribute
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import MayReuse

OutOfRange: TypeAlias = Literal["error", "clamp", "fill"]
"""
The effect of an index outside its extent: `IndexOutOfRange` with the op's name, the nearest index
that is inside, or the value of `fill`.
"""


@dataclass(frozen=True)
class Span:
    """
    Represents one axis of a piece.

    Along it, element `start + i` of the result is element `begin + i * step` of the operand, for
    each i below `extent`. The step is 1, -1 (reversed) or 0 (repeated).
    """

    start: int
    extent: int
    begin: int = 0
    step: int = 1


@dataclass(frozen=True)
class Pick:
    """
    Says that an index tensor picks the coordinate in the operand along `axis`.

    `index` is the number of the operand that holds the indices. Axis i of it lies along axis
    `along[i]` of the piece; along the other axes of the piece an index is repeated.
    """

    index: int
    axis: int
    along: tuple[int, ...]
    out_of_range: OutOfRange = "error"


@dataclass(frozen=True)
class Position:
    """
    Says that a piece starts, along `axis` of the result, at a position that an operand holds.

    `index` is the number of that operand, which has one element. With a `modulus` the axis is a
    ring: element i goes to (position + i) mod `modulus`, and every position is in range.
    """

    index: int
    axis: int
    modulus: int | None = None
    out_of_range: Literal["error", "clamp"] = "error"


@dataclass(frozen=True)
class Piece:
    """
    Represents a box of the result whose elements come from one operand, given by its number.

    There is a span for each axis of the result, and the operand has as many axes. `at` says which
    of the places is known only when the program runs.
    """

    operand: int
    spans: tuple[Span, ...]
    at: Pick | Position | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the box."""
        return tuple(span.extent for span in self.spans)

    @property
    def elements(self) -> int:
        """The number of elements of the box."""
        return prod(self.shape)

    @property
    def is_checked(self) -> bool:
        """True if an index of it may raise `IndexOutOfRange`."""
        if isinstance(self.at, Position) and self.at.modulus is not None:
            return False
        return self.at is not None and self.at.out_of_range == "error"

    def covers(self, shape: Sequence[int]) -> bool:
        """Returns True if it fills all of a result of that shape, whatever its indices are."""
        is_fixed = not isinstance(self.at, Position)
        return is_fixed and all(
            span.start == 0 and span.extent == extent
            for span, extent in zip(self.spans, shape, strict=True)
        )


class MovementOp(Operation, abc.ABC):
    """An op whose result has elements of its operands, or one constant, in every place."""

    @abc.abstractmethod
    def pieces(self) -> tuple[Piece, ...]:
        """Returns the pieces of the result, from the lowest to the topmost."""

    def fill(self) -> float | int | None:
        """Returns the value where no piece is; None if there is no such place."""
        return None


def box(
    operand: int,
    shape: Sequence[int],
    starts: Mapping[int, int] | Sequence[int] = (),
    at: Pick | Position | None = None,
) -> Piece:
    """Returns a piece of `shape`, which an operand of that shape fills, from `starts` on."""
    given = starts if isinstance(starts, Mapping) else dict(enumerate(starts))
    spans = (Span(given.get(axis, 0), extent) for axis, extent in enumerate(shape))
    return Piece(operand, tuple(spans), at)


def checks_indices(op: Operation) -> bool:
    """Returns True if an op may raise `IndexOutOfRange` when it runs."""
    return isinstance(op, MovementOp) and any(piece.is_checked for piece in op.pieces())


def checked_name(op: Operation) -> str:
    """
    Returns how an error names an op whose index is out of range: `index_select %rows`.

    The name is that of the result, else those of the operands; where nothing has a name, it is the
    mnemonic alone.
    """
    mnemonic = op.name.removeprefix("fuel.")
    if op.results[0].name_hint:
        return f"{mnemonic} %{op.results[0].name_hint}"
    read = [f"%{value.name_hint}" for value in op.operands if value.name_hint]
    return f"{mnemonic} of {', '.join(read)}" if read else mnemonic


def result_shape(op: MovementOp) -> tuple[int, ...]:
    """Returns the shape of the op's one result."""
    return tuple(tensor_type(op.results[0]).get_shape())


def kept_operand(op: MovementOp) -> int | None:
    """Returns the operand that the result may lie on, where what no other piece fills stays."""
    reused = op.get_trait(MayReuse)
    first = next(iter(op.pieces()), None)
    if reused is None or first is None or first.operand != reused.operand:
        return None
    return first.operand if is_identity(op, first) else None


def is_identity(op: MovementOp, piece: Piece) -> bool:
    """Returns True if a piece is a whole operand, each element in its own place."""
    shape = result_shape(op)
    is_plain = all(span.begin == 0 and span.step == 1 for span in piece.spans)
    has_shape = tuple(tensor_type(op.operands[piece.operand]).get_shape()) == shape
    return piece.at is None and is_plain and has_shape and piece.covers(shape)


def moved_pieces(op: MovementOp) -> list[Piece]:
    """Returns the pieces whose elements are moved: all but the operand that the result lies on."""
    pieces = op.pieces()
    return list(pieces[1:] if kept_operand(op) is not None else pieces)


def filled_elements(op: MovementOp) -> int:
    """Returns how many elements the fill value is written to, at least."""
    if op.fill() is None:
        return 0
    covered = sum(piece.elements for piece in op.pieces())
    return max(prod(result_shape(op)) - covered, 0)


def check_pieces(op: MovementOp) -> None:
    """
    Checks that pieces lie in the result and read what is in their operands.

    Raises `ShapeError`, or `DTypeError` for a fill that the element type of the result cannot hold.
    """
    shape, pieces, fill = result_shape(op), op.pieces(), op.fill()
    for number, piece in enumerate(pieces):
        reason = _why_wrong(op, piece, shape)
        if reason is not None:
            raise ShapeError(f"{op.name}: piece {number} {reason}")
    if fill is not None:
        scalar_attribute(op.name, "fill", fill, tensor_type(op.results[0]).element_type)
    elif sum(piece.elements for piece in pieces) < prod(shape):
        raise ShapeError(
            f"{op.name}: its pieces leave places of {list(shape)} without a value, and it has no "
            "fill"
        )


def _why_wrong(op: MovementOp, piece: Piece, shape: tuple[int, ...]) -> str | None:
    """Returns what is wrong with a piece; None for nothing."""
    read = (piece.operand,) if piece.at is None else (piece.operand, piece.at.index)
    absent = next((each for each in read if not 0 <= each < len(op.operands)), None)
    if absent is not None:
        return f"reads operand {absent}; the op has {len(op.operands)}"
    source = tensor_type(op.operands[piece.operand]).get_shape()
    if not len(piece.spans) == len(shape) == len(source):
        return f"has {len(piece.spans)} spans; its operand is {list(source)}, the result {[*shape]}"
    for axis, span in enumerate(piece.spans):
        if span.extent < 0 or span.step not in (-1, 0, 1):
            return f"has an extent of {span.extent} and a step of {span.step} along axis {axis}"
        if not span.extent:
            continue
        if not 0 <= span.start <= shape[axis] - span.extent:
            return f"is outside the result {[*shape]} along axis {axis}: {span}"
        ends = span.begin, span.begin + (span.extent - 1) * span.step
        is_picked = isinstance(piece.at, Pick) and piece.at.axis == axis
        if not is_picked and not all(0 <= end < source[axis] for end in ends):
            return f"reads outside its operand {[*source]} along axis {axis}: {span}"
    return None


def index_of(op: MovementOp, piece: Piece) -> SSAValue | None:
    """Returns the operand that holds the indices, or the position, of a piece."""
    return None if piece.at is None else op.operands[piece.at.index]
