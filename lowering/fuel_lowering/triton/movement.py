# SPDX-License-Identifier: MIT OR Apache-2.0
"""Renders the pieces of movement ops as masked loads of a block of points."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from fuel_dialect.layout import Layout, row_major_strides
from fuel_dialect.movement import MovementOp, Pick, Position
from fuel_dialect.reference.precision import scalar
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.movement import Bound, Index, Source, sources_of
from fuel_lowering.runs.emitter import CHECK
from fuel_lowering.scalars.values import Value
from fuel_lowering.triton.language import TYPES, typed
from fuel_lowering.triton.writer import (
    STATUS,
    Access,
    Axis,
    KernelWriter,
    conjunction,
    hint_of,
)


class MovementWriter(KernelWriter, abc.ABC):
    """Writes what points of a block read; `shape` has a point for each element of the result."""

    def __init__(self, form: Form, shape: tuple[int, ...], count: int, block: int, wide: bool):
        super().__init__(form, wide=wide)
        self.shape = shape
        self.count = count
        self.block_size = block
        self.axis = Axis("i")
        self.checks = 0

    # Places.

    def at(self, layout: Layout, whole: bool = False) -> Access:
        """Returns the place of the points in a layout over the shape."""
        return self.place([(self.axis, layout)], layout.offset, whole)

    def coordinate(self, dim: int) -> str:
        """Returns the coordinate of the points along an axis of the shape, as a name."""
        step, extent = row_major_strides(self.shape)[dim], self.shape[dim]
        text = self.axis.index if step == 1 else f"{self.axis.index} // {step}"
        if dim == 0 and step == 1:
            return text
        return self.named_once(text if dim == 0 else f"{text} % {extent}")

    @property
    def index_type(self) -> str:
        """The type of addresses."""
        return "tl.int64" if self.wide else "tl.int32"

    # Pieces.

    def move(self, op: MovementOp) -> Value:
        """Returns the elements of a result: those of the topmost piece that has the point."""
        fill = op.fill()
        dtype = self.form.dtype(op.results[0])
        filled = None if fill is None else self._constant(scalar(fill, dtype.numpy))
        moved = filled
        for source in sources_of(self.form, op, self.shape):
            part, inside = self._piece(source, filled)
            moved = self._over(moved, part, inside)
        return self.code.number(0, dtype) if moved is None else moved

    def _over(self, below: Value | None, part: Value, inside: str) -> Value:
        if below is None or not inside:
            return part
        mask = Value(inside, part.dtype)
        return self.code.select(mask, self.as_scalar(part), self.as_scalar(below))

    def as_scalar(self, value: Value) -> Value:
        """Returns a value whose text has a type by itself, also where it is a literal."""
        return Value(typed(value.text, value.register), value.dtype)

    def _piece(self, source: Source, fill: Value | None) -> tuple[Value, str]:
        """Returns the elements of a piece, and the mask of the points it holds, "" for all."""
        inside = self._bounds(source.bounds)
        index = source.index
        if index is None:
            if source.is_whole and not inside:
                return self.value(source.value), ""
            return self.load_piece(source, inside), inside
        if isinstance(index.at, Position):
            place, mask = self._along_axis(index, index.at)
            inside = self._named_mask([inside, mask])
            return self.load_piece(source, inside, place), inside
        return self._picked(source, index, index.at, inside, fill), inside

    def _bounds(self, bounds: Sequence[Bound]) -> str:
        masks: list[str] = []
        for bound in bounds:
            at = self.coordinate(bound.axis)
            tests = [f"({at} >= {bound.start})"] if bound.start else []
            tests += [f"({at} < {bound.end})"] if bound.end < bound.extent else []
            masks += tests
        return self._named_mask(masks)

    def _named_mask(self, masks: Sequence[str]) -> str:
        text = conjunction(masks)
        return text if text.isidentifier() or not text else self.let("inside", text)

    def load_piece(self, source: Source, inside: str = "", place: str = "") -> Value:
        """Returns the elements of a piece, at a coordinate along the axis of its index."""
        load, form = source.load, self.form
        if load is None:
            return self.as_scalar(self.value(source.value))
        access = self.at(load.layout)
        if place:
            assert source.index is not None
            stride = source.index.stride
            moved = place if stride == 1 else f"{place} * {stride}"
            access = Access(offset_of(access.offset, moved), access.mask)
        elif inside and is_constant(access):
            access = self._repeated(access)
        if inside:
            access = access & inside & self.axis.mask
        return self.load(load.argument, access, form.dtype(source.value), hint_of(source.value))

    def _repeated(self, access: Access) -> Access:
        """Returns the place of one element as a block, which a mask can be put on."""
        return Access(offset_of(access.offset, f"{self.axis.index} * 0"), access.mask)

    # Indices.

    def _picked(
        self, source: Source, index: Index, at: Pick, bounds: str, fill: Value | None
    ) -> Value:
        """Returns the elements at indices; one out of range is reported, clamped or filled."""
        number = self._index(index, bounds)
        if at.out_of_range == "clamp":
            place = self.let("row", f"{self._clamped(number, index.extent)}.to({self.index_type})")
            return self.load_piece(source, conjunction([bounds, self.axis.mask]), place)
        inside = self.let("inside", self._in_range(number, index.extent))
        if at.out_of_range == "error":
            self.report_out_of_bounds(inside, bounds)
        place = self.let("row", f"{number.text}.to({self.index_type})")
        part = self.load_piece(source, conjunction([bounds, inside]), place)
        return part if at.out_of_range == "error" else self._over(fill, part, inside)

    def _in_range(self, number: Value, extent: int) -> str:
        below = f"{number.text} < {typed(str(extent), number.register)}"
        return below if not number.dtype.limits[0] else f"({number.text} >= 0) & ({below})"

    def _clamped(self, number: Value, extent: int) -> str:
        zero, last = (typed(str(n), number.register) for n in (0, extent - 1))
        low = f"tl.maximum({number.text}, {zero})" if number.dtype.limits[0] else number.text
        return f"tl.minimum({low}, {last})"

    def _index(self, index: Index, bounds: str) -> Value:
        """Returns the index of each point, as a block."""
        load = index.load
        if load is None:
            return self._as_block(self.value(index.value))
        access = self.at(load.layout)
        is_block = not is_constant(access)
        if bounds:
            access = (access if is_block else self._repeated(access)) & bounds & self.axis.mask
        dtype = self.form.dtype(index.value)
        number = self.load(load.argument, access, dtype, hint_of(index.value))
        return number if is_block or bounds else self._as_block(number)

    def _as_block(self, number: Value) -> Value:
        text = f"{number.text} + tl.zeros(({self.block_size},), {TYPES[number.register]})"
        return self.code.let(text, number.dtype, "index")

    def _along_axis(self, index: Index, at: Position) -> tuple[str, str]:
        """Returns the element of a piece that a point has along the axis, and if it has one."""
        point, begin, fits = self.coordinate(at.axis), *self.begin(index, at)
        if at.modulus is not None:
            behind = f"{point} - {begin} + {at.modulus}"
            text = f"tl.where({point} >= {begin}, {point} - {begin}, {behind})"
            place = self.let("place", text)
            return place, f"({point} < {at.modulus}) & ({place} < {index.width})"
        place = self.let("place", f"{point} - {begin}")
        return place, conjunction([fits, f"({place} >= 0) & ({place} < {index.width})"])

    def begin(self, index: Index, at: Position) -> tuple[str, str]:
        """Returns the start of a piece along the axis, and the mask that says if it fits."""
        begin = f"{self._position(index)}.to(tl.int64)"
        if at.modulus is not None:
            return self.let("begin", f"({begin} % {at.modulus}).to({self.index_type})"), ""
        last = index.extent - index.width
        if at.out_of_range == "clamp":
            text = f"tl.minimum(tl.maximum({begin}, 0), {last}).to({self.index_type})"
            return self.let("begin", text), ""
        begin = self.let("begin", f"{begin} + tl.zeros(({self.block_size},), tl.int64)")
        fits = self.let("fits", f"({begin} >= 0) & ({begin} <= {last})")
        self.report_out_of_bounds(fits)
        text = f"tl.where({fits}, {begin}, 0).to({self.index_type})"
        return self.let("begin", text), fits

    def _position(self, index: Index) -> str:
        load = index.load
        if load is None:
            position = self.value(index.value)
        else:
            dtype, hint = self.form.dtype(index.value), hint_of(index.value)
            position = self.load(load.argument, Access(str(load.layout.offset)), dtype, hint)
        return typed(position.text, position.register)

    def report_out_of_bounds(self, inside: str, bounds: str = "") -> None:
        """Writes the number of the op to the status, unless that of an earlier op is there."""
        status = self.parameter(STATUS, writes=True)
        live = conjunction([f"({self.axis.index} < {self.count})", bounds])
        outside = self.let("outside", f"{live} & ~{inside}")
        number = f"{CHECK} + {self.checks}" if self.checks else CHECK
        self.line(f"if tl.max({outside}.to(tl.int32), 0) > 0:")
        self.line(f"    tl.atomic_cas({status}, 0, {number})")


def is_constant(access: Access) -> bool:
    """Returns True if all points of a block read one element."""
    return access.offset.lstrip("-").isdigit()


def offset_of(offset: str, added: str) -> str:
    """Returns the text of an offset and what is added to it."""
    return added if offset == "0" else f"{offset} + {added}"
