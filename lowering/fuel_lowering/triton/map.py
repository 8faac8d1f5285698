# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pointwise and movement kernels: one block of points a program."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.ir import Operation, SSAValue

from fuel_dialect.layout import Layout, row_major_strides
from fuel_dialect.numbers import int_tuple, int_value
from fuel_dialect.ops.indexing import IndexingOp, IndexSelectOp
from fuel_dialect.ops.memory import WriteAtOp, WriteOp, WriteSliceOp, WriteSliceRotatingOp
from fuel_dialect.ops.shape import ConcatOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Movement
from fuel_lowering.kernels.indexing import needs_64_bits
from fuel_lowering.kernels.map import MapForm, PatchForm
from fuel_lowering.runs.emitter import CHECK, Emitted, EmittedLaunch
from fuel_lowering.scalars.values import Value
from fuel_lowering.triton.language import typed
from fuel_lowering.triton.tiles import emit_tiles, tiles_of
from fuel_lowering.triton.writer import (
    STATUS,
    Access,
    Axis,
    KernelWriter,
    hint_of,
    power_of_two,
)

BLOCK = 1024
"""Points of a program: 8 elements for each of 128 threads."""

BYTES_BLOCK = 2048
"""The same where an element is a byte, of which 16 make a load."""

WARP_POINTS = 256


def emit_map(form: MapForm) -> Emitted:
    """One kernel, one launch; none where there is no point."""
    points = prod(form.shape)
    if not points:
        return Emitted((), ())
    is_patch = isinstance(form, PatchForm)
    tiles = None if is_patch else tiles_of(form)
    if tiles is not None:
        return emit_tiles(form, tiles)
    writer = PatchWriter(form) if is_patch else MapWriter(form)
    kernel, slots = writer.write()
    grid = (-(-points // writer.block_size), 1, 1)
    return Emitted((kernel,), (EmittedLaunch(0, slots, (), grid),))


class MapWriter(KernelWriter):
    """Writes the kernel of a `MapForm`."""

    def __init__(self, form: MapForm):
        self.count = prod(form.shape)
        layouts = [load.layout for load in form.loads.values()]
        super().__init__(form, wide=needs_64_bits(self.count, layouts))
        self.shape = form.shape
        narrowest = min(form.dtype(v).itemsize for v in (*form.loads, *form.results))
        self.block_size = min(power_of_two(self.count), BYTES_BLOCK if narrowest == 1 else BLOCK)
        self.axis = Axis("i")
        self.checks = 0

    def write(self):
        self.axis = point_axis(self, self.block_size, self.count)
        self.body()
        warps = max(1, min(4, self.block_size // WARP_POINTS))
        return self.finish((("num_warps", warps),))

    def body(self) -> None:
        """What is computed for each point, and stored."""
        for op in self.form.ops:
            if op.has_trait(Movement):
                self.values[op.results[0]] = MOVEMENTS[type(op)](self, op)
            else:
                self.evaluate([op])
        for number, value in enumerate(self.form.results):
            at = self.at(Layout.contiguous(self.shape), whole=True)
            self.store(self.result_slot(number), at, self.value(value))

    def at(self, layout: Layout, whole: bool = False) -> Access:
        """Where a layout over the shape lies."""
        return self.place([(self.axis, layout)], layout.offset, whole)

    def where(self, value: SSAValue) -> Access:
        return self.at(self.form.loads[value].layout)

    def coordinate(self, dim: int) -> str:
        """The coordinate of the points along an axis of the shape, as a name."""
        step, extent = row_major_strides(self.shape)[dim], self.shape[dim]
        text = self.axis.index if step == 1 else f"{self.axis.index} // {step}"
        return self.let("at", text if dim == 0 else f"{text} % {extent}")


class PatchWriter(MapWriter):
    """Writes the kernel of a `PatchForm`."""

    def __init__(self, form: PatchForm):
        super().__init__(form)
        self.patch = form

    def body(self) -> None:
        write = self.patch.write
        assert write is not None
        target = self._moved(write) if isinstance(write, WriteAtOp) else self._fixed()
        self.store(self.result_slot(0), target, self.value(write.source))

    def _fixed(self) -> Access:
        return self.at(self.patch.target, whole=True)

    def _moved(self, write: WriteAtOp) -> Access:
        """Where elements go, by the position that is known when the program runs."""
        axis, target = int_value(write.axis), self.patch.target
        step, steps = target.strides[axis], list(target.strides)
        steps[axis] = 0
        begin, fits = _begin(self, write)
        place = f"{self.coordinate(axis)} + {begin}"
        if isinstance(write, WriteSliceRotatingOp):
            modulus, place = int_value(write.modulus), self.let("place", place)
            place = f"tl.where({place} >= {modulus}, {place} - {modulus}, {place})"
        place = self.let("place", place)
        at = self.at(Layout(target.shape, tuple(steps), target.offset))
        moved = f"{at.offset} + {place} * {step}" if step != 1 else f"{at.offset} + {place}"
        return Access(moved.removeprefix("0 + "), at.mask) & self.axis.mask & fits


def point_axis(writer: KernelWriter, block: int, points: int) -> Axis:
    """The points of a program, counted in row-major order."""
    writer.code.taken.add("i")
    writer.line(f"i = {writer.points(block, points)}")
    return Axis("i", "" if points % block == 0 else writer.let("live", f"i < {points}"))


# Movement.


def _concat(writer: MapWriter, op: Operation) -> Value:
    """Each operand where the coordinate along `dim` is in it, from the last to the first."""
    dim = int_value(op.properties["dim"])
    at = writer.coordinate(dim)
    parts: list[tuple[int, Value]] = []
    start = 0
    for operand in op.operands:
        extent = tensor_type(operand).get_shape()[dim]
        if extent:
            inside = f"(({at} >= {start}) & ({at} < {start + extent}))"
            parts.append((start + extent, _part(writer, operand, dim, start, inside)))
        start += extent
    _, joined = parts[-1]
    for end, part in reversed(parts[:-1]):
        mask = Value(writer.let("before", f"{at} < {end}"), part.dtype)
        joined = writer.code.select(mask, part, joined)
    return joined


def _part(writer: MapWriter, operand: SSAValue, dim: int, start: int, inside: str) -> Value:
    """An operand of a concat, which begins at `start`."""
    load = writer.form.loads.get(operand)
    if load is None:
        term = writer.value(operand)
        return Value(typed(term.text, term.register), term.dtype)
    layout = load.layout
    over = Layout(writer.shape, layout.strides, layout.offset - start * layout.strides[dim])
    access = writer.at(over)
    if is_constant(access):
        access = Access(f"{access.offset} + i * 0")
    dtype = writer.form.dtype(operand)
    return writer.load(load.argument, access & inside, dtype, hint_of(operand))


def _indexed(writer: MapWriter, op: Operation) -> Value:
    """The data at an index in range; an index out of range is told, and gives 0."""
    assert isinstance(op, IndexingOp)
    form, dim = writer.form, int_value(op.dim)
    extent = tensor_type(op.input).get_shape()[dim]
    index = _indices(writer, op, dim)
    inside = writer.let("inside", f"{index.text} < {_ui32(extent)}")
    _tell(writer, inside)
    load = form.loads.get(op.input)
    if load is None:
        return writer.value(op.input)
    layout, stride = load.layout, load.layout.strides[dim]
    strides = (*layout.strides[:dim], 0, *layout.strides[dim + 1 :])
    access = writer.at(Layout(writer.shape, strides, layout.offset))
    row = writer.let("row", f"{index.text}.to({'tl.int64' if writer.wide else 'tl.int32'})")
    moved = Access(f"{access.offset} + {row} * {stride}", access.mask) & inside
    return writer.load(
        load.argument, moved & writer.axis.mask, form.dtype(op.input), hint_of(op.input)
    )


def _indices(writer: MapWriter, op: IndexingOp, dim: int) -> Value:
    """The index of each point, as a block."""
    form = writer.form
    load = form.loads.get(op.indices)
    if load is None:
        return _as_block(writer, writer.value(op.indices))
    layout = load.layout
    if isinstance(op, IndexSelectOp):
        steps = [layout.strides[0] if axis == dim else 0 for axis in range(len(writer.shape))]
        layout = Layout(writer.shape, tuple(steps), layout.offset)
    access = writer.at(layout)
    index = writer.load(load.argument, access, form.dtype(op.indices), hint_of(op.indices))
    return _as_block(writer, index) if is_constant(access) else index


def _as_block(writer: MapWriter, index: Value) -> Value:
    text = f"{index.text} + tl.zeros(({writer.block_size},), tl.uint32)"
    return writer.code.let(text, index.dtype, "index")


def is_constant(access: Access) -> bool:
    """Whether all points of a block read one element."""
    return access.offset.lstrip("-").isdigit()


def _ui32(number: int) -> str:
    return f"tl.full((), {number}, tl.uint32)"


def _tell(writer: MapWriter, inside: str) -> None:
    """Write the number of the op to the status, unless an earlier op's is there."""
    status = writer.parameter(STATUS, writes=True)
    outside = writer.let("outside", f"(i < {writer.count}) & ~{inside}")
    number = f"{CHECK} + {writer.checks}" if writer.checks else CHECK
    writer.checks += 1
    writer.line("if tl.max(outside.to(tl.int32), 0) > 0:".replace("outside", outside))
    writer.line(f"    tl.atomic_cas({status}, 0, {number})")


def _written(writer: MapWriter, op: Operation) -> Value:
    """The source's element where the point is in it, else the destination's at the same place."""
    assert isinstance(op, WriteOp)
    starts, widths = int_tuple(op.starts), tensor_type(op.source).get_shape()
    inside: list[str] = []
    along: tuple[int, str] | None = None
    for dim, (start, width, extent) in enumerate(zip(starts, widths, writer.shape, strict=True)):
        if isinstance(op, WriteAtOp) and dim == int_value(op.axis):
            place, mask = _along_axis(writer, op, dim, width)
            along = dim, place
            inside.append(mask)
        elif width != extent:
            at = writer.coordinate(dim)
            inside.append(f"({at} >= {start}) & ({at} < {start + width})")
    mask = writer.let("inside", " & ".join(inside)) if inside else ""
    part = _source_at(writer, op, along, mask)
    if not mask:
        return part
    old = writer.value(op.input)
    old = Value(typed(old.text, old.register), old.dtype)
    return writer.code.select(Value(mask, part.dtype), part, old)


def _along_axis(writer: MapWriter, op: WriteAtOp, axis: int, width: int) -> tuple[str, str]:
    """Which element of the source a point has along the axis, and the mask of where it has one."""
    at = writer.coordinate(axis)
    begin, fits = _begin(writer, op)
    if isinstance(op, WriteSliceRotatingOp):
        modulus = int_value(op.modulus)
        place = f"tl.where({at} >= {begin}, {at} - {begin}, {at} - {begin} + {modulus})"
        place = writer.let("place", place)
        return place, f"({at} < {modulus}) & ({place} < {width})"
    place = writer.let("place", f"{at} - {begin}")
    return place, f"{fits} & ({place} >= 0) & ({place} < {width})"


def _begin(writer: MapWriter, op: WriteAtOp) -> tuple[str, str]:
    """Where a source begins along the axis, and the mask of whether it fits; a ring has room."""
    position = writer.value(op.position)
    begin = f"{typed(position.text, position.register)}.to(tl.int64)"
    index = "tl.int64" if writer.wide else "tl.int32"
    if isinstance(op, WriteSliceRotatingOp):
        return writer.let("begin", f"({begin} % {int_value(op.modulus)}).to({index})"), ""
    begin = writer.let("begin", f"{begin} + tl.zeros(({writer.block_size},), tl.int64)")
    axis = int_value(op.axis)
    extent, width = (tensor_type(v).get_shape()[axis] for v in (op.input, op.source))
    fits = writer.let("fits", f"({begin} >= 0) & ({begin} <= {extent - width})")
    _tell(writer, fits)
    return writer.let("begin", f"tl.where({fits}, {begin}, 0).to({index})"), fits


def _source_at(writer: MapWriter, op: WriteOp, along: tuple[int, str] | None, inside: str) -> Value:
    """The elements of the source; `along` has an axis and the place along it."""
    load = writer.form.loads.get(op.source)
    if load is None:
        term = writer.value(op.source)
        return Value(typed(term.text, term.register), term.dtype)
    steps, starts = list(load.layout.strides), int_tuple(op.starts)
    offset = load.layout.offset - sum(s * step for s, step in zip(starts, steps, strict=True))
    added = "i * 0"
    if along:
        axis, place = along
        added = place if steps[axis] == 1 else f"{place} * {steps[axis]}"
        steps[axis] = 0
    access = writer.at(Layout(writer.shape, tuple(steps), offset))
    if along or is_constant(access):
        access = Access(f"{access.offset} + {added}".removeprefix("0 + "), access.mask)
    access = access & inside & writer.axis.mask
    return writer.load(load.argument, access, writer.form.dtype(op.source), hint_of(op.source))


MOVEMENTS: dict[type[Operation], Callable[[MapWriter, Operation], Value]] = {
    ConcatOp: _concat,
    **{op: _indexed for op in IndexingOp.__subclasses__()},
    **{op: _written for op in (WriteSliceOp, *WriteAtOp.__subclasses__())},
}
