# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pointwise and movement kernels: one block of points a program."""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue

from fuel_dialect.layout import Layout
from fuel_dialect.movement import MovementOp, Position, checks_indices
from fuel_lowering.kernels.indexing import needs_64_bits
from fuel_lowering.kernels.map import InPlaceForm, MapForm
from fuel_lowering.kernels.movement import Index
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.triton.movement import MovementWriter, offset_of
from fuel_lowering.triton.tiles import emit_tiles, tiles_of
from fuel_lowering.triton.writer import Access, Axis, KernelWriter, power_of_two

BLOCK = 1024
"""Points of a program: 8 elements for each of 128 threads."""

BYTES_BLOCK = 2048
"""The same where an element is a byte, of which 16 make a load."""

WARP_POINTS = 256


def emit_map(form: MapForm) -> Emitted:
    """Returns one kernel with one launch; none where there is no point."""
    if not prod(form.shape):
        return Emitted((), ())
    tiles = tiles_of(form)
    if tiles is not None:
        return emit_tiles(form, tiles)
    return _emit(MapWriter(form))


def emit_in_place(form: InPlaceForm) -> Emitted:
    """Returns one kernel with one launch."""
    return _emit(InPlaceWriter(form))


def _emit(writer: MapWriter) -> Emitted:
    kernel, slots = writer.write()
    grid = (-(-writer.count // writer.block_size), 1, 1)
    return Emitted((kernel,), (EmittedLaunch(0, slots, (), grid),))


class MapWriter(MovementWriter):
    """Writes the kernel of a `MapForm`."""

    form: MapForm

    def __init__(self, form: MapForm):
        count = prod(form.shape)
        narrowest = min(form.dtype(v).itemsize for v in (*form.loads, *form.results))
        block = min(power_of_two(count), BYTES_BLOCK if narrowest == 1 else BLOCK)
        wide = needs_64_bits(count, [load.layout for load in form.loads.values()])
        super().__init__(form, form.shape, count, block, wide)

    def write(self):
        self.axis = point_axis(self, self.block_size, self.count)
        self.body()
        warps = max(1, min(4, self.block_size // WARP_POINTS))
        return self.finish((("num_warps", warps),))

    def body(self) -> None:
        """Writes what is computed for each point, and its stores."""
        for op in self.form.ops:
            if isinstance(op, MovementOp):
                self.values[op.results[0]] = self.move(op)
                self.checks += checks_indices(op)
            else:
                self.evaluate([op])
        for number, value in enumerate(self.form.results):
            at = self.at(Layout.contiguous(self.shape), whole=True)
            self.store(self.result_slot(number), at, self.value(value))

    def where(self, value: SSAValue) -> Access:
        return self.at(self.form.loads[value].layout)


class InPlaceWriter(MapWriter):
    """Writes the kernel of an `InPlaceForm`."""

    def __init__(self, form: InPlaceForm):
        super().__init__(form)
        self.source = form.source
        self.target = form.target

    def body(self) -> None:
        index = self.source.index
        at = self.at(self.target, whole=True)
        if index is not None:
            assert isinstance(index.at, Position)
            at = self._from_position(index, index.at)
        self.store(self.result_slot(0), at, self.load_piece(self.source))

    def _from_position(self, index: Index, at: Position) -> Access:
        """Returns where elements go, by the position that is known when the program runs."""
        axis, target = at.axis, self.target
        step, steps = target.strides[axis], list(target.strides)
        steps[axis] = 0
        begin, fits = self.begin(index, at)
        place = f"{self.coordinate(axis)} + {begin}"
        if at.modulus is not None:
            place = self.let("place", place)
            place = f"tl.where({place} >= {at.modulus}, {place} - {at.modulus}, {place})"
        place = self.let("place", place)
        moved = f"{place} * {step}" if step != 1 else place
        access = self.at(Layout(target.shape, tuple(steps), target.offset))
        return Access(offset_of(access.offset, moved), access.mask) & self.axis.mask & fits


def point_axis(writer: KernelWriter, block: int, points: int) -> Axis:
    """Returns the points of a program, counted in row-major order."""
    writer.code.used.add("i")
    writer.line(f"i = {writer.points(block, points)}")
    return Axis("i", "" if points % block == 0 else writer.let("live", f"i < {points}"))
