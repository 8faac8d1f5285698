# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Pointwise kernels with an operand that lies across the results, such as the copy of a transpose.

A program has a tile of two axes: one along which that operand is contiguous, one along which the
results are. Then both are read and written in whole lines of memory, and the compiler turns the
tile over in shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from fuel_dialect.layout import Layout
from fuel_dialect.traits import Elementwise
from fuel_lowering.kernels.indexing import merged, needs_64_bits, select_axes
from fuel_lowering.kernels.map import MapForm
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.triton.writer import Access, Axis, KernelWriter

SIDE = 64
"""Elements of a tile along each axis: lines of 128 bytes and more for types of 2 bytes and more."""

SHORTEST = 32
"""Of shorter axes a line of memory has little that a tile would use."""

WARPS = 8


@dataclass(frozen=True)
class Tiles:
    """
    A space of few axes: `down` is the axis along which an operand is contiguous, the last the one
    of the results. `layouts` are those of the operands, `whole` that of the results.
    """

    extents: tuple[int, ...]
    down: int
    layouts: Mapping[SSAValue, Layout]
    whole: Layout

    @property
    def batch(self) -> tuple[int, ...]:
        """The other axes, of which a tile has one index each."""
        return tuple(a for a in range(len(self.extents) - 1) if a != self.down)

    @property
    def high(self) -> int:
        """Tiles along `down`."""
        return -(-self.extents[self.down] // SIDE)

    @property
    def wide(self) -> int:
        """Tiles along the last axis."""
        return -(-self.extents[-1] // SIDE)

    @property
    def count(self) -> int:
        return prod(self.extents[a] for a in self.batch) * self.high * self.wide


def tiles_of(form: MapForm) -> Tiles | None:
    """Returns the tiling of a kernel; None if operands lie along with results, or are short."""
    if not all(op.has_trait(Elementwise) for op in form.ops):
        return None
    values = list(form.loads)
    whole = Layout.contiguous(form.shape)
    over = [_over(form.loads[v].layout, form.shape) for v in values]
    read = [layout for layout in over if layout is not None]
    extents, short = merged(form.shape, [*read, whole])
    if len(extents) < 2 or extents[-1] < SHORTEST:
        return None
    down = next((a for a in map(_across, short) if a is not None), None)
    if down is None:
        return None
    again = iter(short)
    layouts = {v: next(again) for v, layout in zip(values, over, strict=True) if layout}
    return Tiles(extents, down, layouts, short[-1])


def _over(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """A load's layout if it is over the points; what another one is a view of is not read."""
    return layout if layout.shape == shape else None


def _across(layout: Layout) -> int | None:
    """The long axis that an operand is contiguous along while it steps far along the last one."""
    *outer, last = layout.strides
    if abs(last) <= 1:
        return None
    found = (a for a, step in enumerate(outer) if abs(step) == 1 and layout.shape[a] >= SHORTEST)
    return next(found, None)


def emit_tiles(form: MapForm, tiles: Tiles) -> Emitted:
    """One kernel, a program for each tile."""
    kernel, slots = TileWriter(form, tiles).write()
    return Emitted((kernel,), (EmittedLaunch(0, slots, (), (tiles.count, 1, 1)),))


class TileWriter(KernelWriter):
    """Writes the kernel of a form that is tiled."""

    def __init__(self, form: MapForm, tiles: Tiles):
        points = tiles.count * SIDE * SIDE
        super().__init__(form, wide=needs_64_bits(points, [*tiles.layouts.values(), tiles.whole]))
        self.tiles = tiles
        self.code.used |= {"tile", "r", "c", "b"}

    def write(self):
        tiles = self.tiles
        self.line(f"tile = {self.program(0)}")
        below = f"tile // {tiles.wide}" + (f" % {tiles.high}" if tiles.batch else "")
        self.down = self._axis("r", below, tiles.extents[tiles.down], "[:, None]")
        self.across = self._axis("c", f"tile % {tiles.wide}", tiles.extents[-1], "[None, :]")
        self.batch = Axis("b")
        if tiles.batch:
            self.line(f"b = tile // {tiles.high * tiles.wide}")
        self.evaluate(self.form.ops)
        for number, value in enumerate(self.form.results):
            self.store(self.result_slot(number), self._at(tiles.whole), self.value(value))
        return self.finish((("num_warps", WARPS),))

    def _axis(self, name: str, tile: str, extent: int, expand: str) -> Axis:
        self.line(f"{name} = ({tile}) * {SIDE} + tl.arange(0, {SIDE}){expand}")
        mask = "" if extent % SIDE == 0 else self.let(f"in_{name}", f"{name} < {extent}")
        return Axis(name, mask)

    def where(self, value: SSAValue) -> Access:
        return self._at(self.tiles.layouts[value])

    def _at(self, layout: Layout) -> Access:
        tiles = self.tiles
        parts = [
            (self.batch, select_axes(layout, tiles.batch)),
            (self.down, select_axes(layout, (tiles.down,))),
            (self.across, select_axes(layout, (len(tiles.extents) - 1,))),
        ]
        return self.place(parts, layout.offset)
