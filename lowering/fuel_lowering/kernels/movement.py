# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The pieces of a movement op as a kernel reads them: layouts, bounds and indices over its points.

Every target that writes loops or shaders starts from these; it adds the text of its language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.movement import MovementOp, Pick, Piece, Position, is_identity
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.form import Form, Load


@dataclass(frozen=True)
class Bound:
    """Says that a piece holds the points from `start` to `end` along an axis, not all."""

    axis: int
    start: int
    end: int
    extent: int


@dataclass(frozen=True)
class Index:
    """
    Represents the indices, or the position, of a piece.

    `load` has the layout of the indices over the points; None for a value that has no place in
    memory. A coordinate counts in `extent`, and moves the address by `stride` elements. `width` is
    the extent of the piece along the axis.
    """

    value: SSAValue
    at: Pick | Position
    load: Load | None
    extent: int
    width: int
    stride: int

    @property
    def is_repeated(self) -> bool:
        """True if all points read the same index; an axis of one point steps nowhere."""
        if self.load is None:
            return True
        axes = zip(self.load.layout.shape, self.load.layout.strides, strict=True)
        return not any(stride for extent, stride in axes if extent > 1)


@dataclass(frozen=True)
class Source:
    """
    Represents a piece over the points of a kernel.

    `load` has the layout of the operand, at coordinate 0 of the axis of the index; None for a
    constant, or a value of the kernel that is read where it is. `bounds` say which points the piece
    holds, but for what the index says. `is_whole` is True for an operand of the shape of the points
    that is read point by point.
    """

    value: SSAValue
    load: Load | None
    bounds: tuple[Bound, ...]
    index: Index | None
    is_whole: bool

    @property
    def axes(self) -> set[int]:
        """The axes whose coordinate says if the piece holds a point, or where it reads."""
        axes = {bound.axis for bound in self.bounds}
        if self.index is not None and isinstance(self.index.at, Position):
            axes.add(self.index.at.axis)
        return axes

    def over(self, loads: Mapping[Load, Load]) -> Source:
        """Returns the piece over other axes, given its loads over them."""
        index = self.index
        if index is not None and index.load is not None:
            index = replace(index, load=loads[index.load])
        load = None if self.load is None else loads[self.load]
        return replace(self, load=load, index=index)


def sources_of(form: Form, op: MovementOp, shape: Sequence[int]) -> list[Source]:
    """
    Returns the pieces of an op from the lowest on.

    The points are those of the result, whose shape is `shape`. Raises `LoweringError` for a value
    that is computed in the kernel and read at other points.
    """
    return [_source(form, op, piece, tuple(shape)) for piece in op.pieces()]


def source_of_piece(form: Form, op: MovementOp, piece: Piece) -> Source:
    """Returns a piece, whose start an index may say, over points of its own elements."""
    shape = piece.shape
    starts = [0] * len(shape)
    value = op.operands[piece.operand]
    load = _over(form.loads.get(value), replace(piece, at=None), shape, starts)
    index = _index(form, op, piece, shape, starts)
    return Source(value, load, (), index, is_whole=False)


def _source(form: Form, op: MovementOp, piece: Piece, shape: tuple[int, ...]) -> Source:
    value, starts = op.operands[piece.operand], [span.start for span in piece.spans]
    is_whole = is_identity(op, piece)
    if not is_whole and value not in form.loads and value not in form.splats:
        raise LoweringError(
            f"{form.name}: {op.name} moves the elements of a value that is computed in its kernel"
        )
    load = _over(form.loads.get(value), piece, shape, starts)
    index = _index(form, op, piece, shape, starts)
    return Source(value, load, _bounds(piece, shape), index, is_whole)


def _bounds(piece: Piece, shape: Sequence[int]) -> tuple[Bound, ...]:
    moved = piece.at.axis if isinstance(piece.at, Position) else -1
    return tuple(
        Bound(axis, span.start, span.start + span.extent, extent)
        for axis, (span, extent) in enumerate(zip(piece.spans, shape, strict=True))
        if axis != moved and (span.start, span.extent) != (0, extent)
    )


def _over(
    load: Load | None, piece: Piece, shape: tuple[int, ...], starts: Sequence[int]
) -> Load | None:
    """Returns the layout of an operand over points at which its piece begins at `starts`."""
    if load is None:
        return None
    moved = -1 if piece.at is None else piece.at.axis
    offset, strides = load.layout.offset, list[int]()
    steps = zip(piece.spans, starts, load.layout.strides, strict=True)
    for axis, (span, start, stride) in enumerate(steps):
        along = 0 if axis == moved else span.step * stride
        strides.append(along)
        offset += (0 if isinstance(piece.at, Pick) and axis == moved else span.begin) * stride
        offset -= start * along
    return Load(load.argument, Layout(shape, tuple(strides), offset))


def _index(
    form: Form, op: MovementOp, piece: Piece, shape: tuple[int, ...], starts: Sequence[int]
) -> Index | None:
    at = piece.at
    if at is None:
        return None
    value, operand = op.operands[at.index], op.operands[piece.operand]
    along = at.along if isinstance(at, Pick) else ()
    load = _indices_over(form, op, value, along, shape, starts)
    data = form.loads.get(operand)
    stride = 0 if data is None else data.layout.strides[at.axis]
    width = piece.shape[at.axis]
    if isinstance(at, Pick):
        extent = tensor_type(operand).get_shape()[at.axis]
        return Index(value, at, load, extent, width, stride)
    extent = tensor_type(op.results[0]).get_shape()[at.axis]
    return Index(value, at, load, extent, width, piece.spans[at.axis].step * stride)


def _indices_over(
    form: Form,
    op: MovementOp,
    value: SSAValue,
    along: tuple[int, ...],
    shape: tuple[int, ...],
    starts: Sequence[int],
) -> Load | None:
    load = form.loads.get(value)
    if load is None:
        if value in form.splats:
            return None
        raise LoweringError(f"{form.name}: {op.name} reads indices that are computed in its kernel")
    strides, offset = [0] * len(shape), load.layout.offset
    for axis, stride in zip(along, load.layout.strides, strict=False):
        strides[axis] += stride
        offset -= starts[axis] * stride
    return Load(load.argument, Layout(shape, tuple(strides), offset))
