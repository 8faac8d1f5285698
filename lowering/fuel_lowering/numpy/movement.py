# SPDX-License-Identifier: MIT OR Apache-2.0
"""Renders movement as NumPy calls: the pieces of an op are joined, assigned or taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation

from fuel_dialect import dtypes
from fuel_dialect.movement import (
    MovementOp,
    Pick,
    Piece,
    Position,
    Span,
    checked_name,
    kept_operand,
    moved_pieces,
    result_shape,
)
from fuel_dialect.ops.shape import ContiguizeOp
from fuel_dialect.reference.precision import scalar
from fuel_dialect.tensors import tensor_type
from fuel_lowering.numpy.builder import Builder, Rule
from fuel_lowering.numpy.steps import COPY, Recipe
from fuel_lowering.numpy.values import Ref, broadcast_if_needed
from fuel_lowering.numpy.writer import bundle

Shape = tuple[int, ...]


def move(b: Builder, op: Operation, xs: Sequence[Ref]) -> Ref:
    """Adds the step that fills the result of a movement op, piece by piece."""
    assert isinstance(op, MovementOp)
    result, operands = tensor_type(op.results[0]), list(map(broadcast_if_needed, xs))
    dtype = dtypes.of_type(result).numpy
    fill, value = op.fill(), ""
    if fill is not None:
        value = f"{{{len(operands)}}}"
        operands.append(b.writer.scalar(scalar(fill, dtype)))
    recipe = Recipe(tuple(_lines(op, value)), checks=tuple(_checks(op)))
    return b.step(recipe, *operands, dtype=dtype, shape=tuple(result.get_shape()))


def _checks(op: MovementOp) -> Iterator[str]:
    """Yields the calls that raise for an index of the op that is out of range."""
    for piece in op.pieces():
        if not piece.is_checked or piece.at is None:
            continue
        at, name = piece.at, checked_name(op)
        if isinstance(at, Pick):
            yield f'support.check_indices("{name}", {{{at.index}}}, {_picked_extent(op, piece)})'
        else:
            width, extent = piece.shape[at.axis], result_shape(op)[at.axis]
            yield f'support.check_position("{name}", {{{at.index}}}, {width}, {extent})'


def _picked_extent(op: MovementOp, piece: Piece) -> int:
    """Returns the extent that the indices of a piece count in."""
    assert piece.at is not None
    return _operand_shape(op, piece)[piece.at.axis]


def _operand_shape(op: MovementOp, piece: Piece) -> Shape:
    return tuple(tensor_type(op.operands[piece.operand]).get_shape())


def _lines(op: MovementOp, value: str) -> Iterator[str]:
    """Yields the lines that fill the result; `value` is the text of the fill value."""
    joined = _joined(op)
    if joined:
        yield joined
        return
    shape, kept = result_shape(op), kept_operand(op)
    if kept is not None:
        yield f"if {{y}} is not {{{kept}}}: copyto({{y}}, {{{kept}}})"
    elif value and not any(piece.covers(shape) for piece in op.pieces()):
        yield f"copyto({{y}}, {value})"
    for piece in moved_pieces(op):
        if piece.elements:
            yield _line(op, piece, value)


def _joined(op: MovementOp) -> str:
    """Returns the one call for pieces that stand side by side along an axis; "" for others."""
    shape = result_shape(op)
    pieces = [piece for piece in op.pieces() if piece.elements]
    for axis in range(len(shape)):
        row = sorted(pieces, key=lambda piece: piece.spans[axis].start)
        if len(row) > 1 and _stand_side_by_side(row, shape, axis):
            arrays = ", ".join(_source(op, piece) for piece in row)
            return f"concatenate(({arrays}), axis={axis}, out={{y}})"
    return ""


def _stand_side_by_side(row: Sequence[Piece], shape: Shape, axis: int) -> bool:
    """Returns True if pieces follow one another along an axis and fill all others."""
    start = 0
    for piece in row:
        if piece.at is not None or piece.spans[axis].start != start:
            return False
        for a, span in enumerate(piece.spans):
            is_full = a == axis or (span.start, span.extent) == (0, shape[a])
            if not is_full or not span.step:
                return False
        start += piece.shape[axis]
    return start == shape[axis]


def _line(op: MovementOp, piece: Piece, value: str) -> str:
    """Returns the line that writes one piece over what is there."""
    shape, source = result_shape(op), _source(op, piece)
    if isinstance(piece.at, Position):
        return _placed(op, piece, piece.at, source)
    box = _indexing([(span.start, span.extent, 1) for span in piece.spans], shape)
    if isinstance(piece.at, Pick):
        return _picked(op, piece, piece.at, f"{{y}}{box}", value)
    if not box:
        return f"copyto({{y}}, {source})"
    return f"{{y}}{box} = {source}"


def _placed(op: MovementOp, piece: Piece, at: Position, source: str) -> str:
    """Returns the line of a piece that starts at a position known when the program runs."""
    starts = [str(span.start) for span in piece.spans]
    starts[at.axis] = f"{{{at.index}}}"
    if at.modulus is not None:
        rest = f"{bundle(starts)}, {at.axis}, {at.modulus}"
        return f"support.place_in_ring({source}, {rest}, {{y}})"
    if at.out_of_range == "clamp":
        last = result_shape(op)[at.axis] - piece.shape[at.axis]
        starts[at.axis] = f"{{{at.index}}}.clip(0, {last})"
    return f"support.place({source}, {bundle(starts)}, {{y}})"


def _picked(op: MovementOp, piece: Piece, at: Pick, out: str, value: str) -> str:
    """Returns the line of a piece whose elements indices pick."""
    source, index = _source(op, piece), f"{{{at.index}}}"
    if at.along == (at.axis,) and out == "{y}" and at.out_of_range != "fill":
        return f'take({source}, {index}, axis={at.axis}, out={{y}}, mode="clip")'
    if at.out_of_range == "clamp":
        index = f"{index}.clip(0, {_picked_extent(op, piece) - 1})"
    new_axes = _new_axes(at.along, len(piece.spans))
    fill = f", {value}" if at.out_of_range == "fill" else ""
    return f"support.take_along({source}, {index}{new_axes}, {at.axis}, {out}{fill})"


def _new_axes(along: tuple[int, ...], rank: int) -> str:
    """Returns the indexing that gives indices an axis for each axis of their piece."""
    order = sorted(range(len(along)), key=along.__getitem__)
    turned = "" if order == list(range(len(along))) else f".transpose({', '.join(map(str, order))})"
    if len(along) == rank:
        return turned
    return f"{turned}[{', '.join(':' if axis in along else 'None' for axis in range(rank))}]"


def _source(op: MovementOp, piece: Piece) -> str:
    """Returns the text of the operand's elements in the order of the piece."""
    spans = list(piece.spans)
    extents = _operand_shape(op, piece)
    if isinstance(piece.at, Pick):
        spans[piece.at.axis] = Span(0, extents[piece.at.axis])
    steps = [(span.begin, span.extent, span.step) for span in spans]
    source = f"{{{piece.operand}}}{_indexing(steps, extents)}"
    if all(span.step or span.extent == 1 for span in spans):
        return source
    return f"np.broadcast_to({source}, {bundle([str(span.extent) for span in spans])})"


def _indexing(parts: Sequence[tuple[int, int, int]], extents: Shape) -> str:
    """Returns `[...]` for the begin, the length and the step along each axis; "" for all of it."""
    texts = [_slice(*part, extent) for part, extent in zip(parts, extents, strict=True)]
    while texts and texts[-1] == ":":
        texts.pop()
    return f"[{', '.join(texts)}]" if texts else ""


def _slice(begin: int, length: int, step: int, extent: int) -> str:
    if step == 0:
        return f"{begin}:{begin + 1}"
    if step < 0:
        end = begin - length
        return f"{begin}:{end if end >= 0 else ''}:-1"
    return ":" if (begin, length) == (0, extent) else f"{begin}:{begin + length}"


def _contiguize(b: Builder, op: Operation, xs: Sequence[Ref]) -> Ref:
    is_row_major = xs[0].is_full and xs[0].layout.is_contiguous
    return xs[0] if is_row_major else b.step(COPY, xs[0])


RULES: dict[type[Operation], Rule] = {ContiguizeOp: _contiguize}
"""The rules of ops that copy without saying pieces."""
