# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Steps evaluated tile by tile, on the threads of the pool.

The tiles depend on shapes alone, so that results have the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from fuel_dialect.layout import Layout
from fuel_lowering.numpy.buffers import Buffer
from fuel_lowering.numpy.emit import Emitter, bundle
from fuel_lowering.numpy.steps import Place, Step, Straight
from fuel_lowering.numpy.values import Ref

LARGE_TILE = 65_536
SMALL_TILE = 32_768
"""Elements of a tile; the small one where more than four arrays of 4 bytes would be in use."""

CACHE_BYTES = 4 * 4 * LARGE_TILE


@dataclass(frozen=True)
class Grid:
    """
    How an iteration shape is cut.

    `groups` are runs of axes read as one; tiles are cut along group `axis`, `rows` at a time.
    """

    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    axis: int
    rows: int

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[a] for a in group) for group in self.groups)

    @property
    def blocks(self) -> int:
        """Tiles along the axis that is cut."""
        return -(-self.extents[self.axis] // self.rows)

    @property
    def tiles(self) -> int:
        return prod(self.extents[: self.axis]) * self.blocks

    @property
    def is_even(self) -> bool:
        return self.extents[self.axis] % self.rows == 0

    def grouped(self, extents: Sequence[int]) -> tuple[int, ...]:
        """The extents of an array, its axes grouped; leading axes it lacks are 1."""
        padded = (1,) * (len(self.shape) - len(extents)) + tuple(extents)
        return tuple(prod(padded[a] for a in group) for group in self.groups)

    def tile(self, extents: Sequence[int]) -> tuple[int, ...]:
        """The shape of a full tile of an array."""
        grouped = self.grouped(extents)[self.axis :]
        return (min(grouped[0], self.rows), *grouped[1:])

    def lacking(self, extents: Sequence[int]) -> int | None:
        """How many leading groups an array has no axis for; None: its axes are not the groups."""
        grouped, rank = self.grouped(extents), len(extents)
        lead = len(grouped) - rank
        fits = lead >= 0 and grouped[lead:] == tuple(extents) and prod(grouped[:lead]) == 1
        return lead if fits else None

    def index(self, extents: Sequence[int], outer: Sequence[str]) -> str:
        """The subscript that reads a tile of an array; empty where the whole array is the tile."""
        grouped, lead = self.grouped(extents), self.lacking(extents) or 0
        parts = [outer[g] if grouped[g] > 1 else "0" for g in range(lead, self.axis)]
        if lead <= self.axis:
            parts.append("rows" if grouped[self.axis] > 1 else ":")
        return "" if parts in ([], [":"]) else f"[{', '.join(parts)}]"


def iteration_shape(steps: Sequence[Step]) -> tuple[int, ...] | None:
    """The shape that all steps iterate over, columns of its rows aside; None if there is none."""
    if not steps or any(s.recipe.scope == "whole" or s.fills is not None for s in steps):
        return None
    shape = max((s.result.shape for s in steps), key=prod)
    column = (*shape[:-1], 1)
    if any(s.result.shape not in (shape, column) for s in steps):
        return None
    return shape


def cut(shape: tuple[int, ...], steps: Sequence[Step]) -> Grid | None:
    """The grid for steps that iterate over `shape`; None where one tile would hold it all."""
    has_rows = any(s.recipe.scope == "row" or s.result.shape != shape for s in steps)
    limit = _tile_elements(steps)
    if prod(shape) <= limit or (has_rows and prod(shape) == shape[-1]):
        return None
    groups = _collapse(shape, _outside(steps), has_rows)
    extents = [prod(shape[a] for a in group) for group in groups]
    last = len(extents) - (2 if has_rows else 1)
    axis = next((a for a in range(last) if prod(extents[a + 1 :]) <= limit), last)
    inner = prod(extents[axis + 1 :])
    blocks = -(-extents[axis] // max(1, limit // inner))
    return Grid(shape, groups, axis, -(-extents[axis] // blocks))


def _tile_elements(steps: Sequence[Step]) -> int:
    arrays = {o.root for s in steps for o in s.operands if prod(o.extents) > 1}
    width = max(s.result.dtype.itemsize for s in steps)
    inputs = len(arrays - {s.result for s in steps})
    return LARGE_TILE if (inputs + 2) * width * LARGE_TILE <= CACHE_BYTES else SMALL_TILE


def _outside(steps: Sequence[Step]) -> list[Ref]:
    """The values that the steps read and do not compute."""
    own = {result for step in steps for result in step.results}
    return list(dict.fromkeys(o for s in steps for o in s.operands if o not in own))


def _collapse(
    shape: tuple[int, ...], outside: Sequence[Ref], has_rows: bool
) -> tuple[tuple[int, ...], ...]:
    """Neighbouring axes joined wherever every array steps through them as through one."""
    strides = [_strides(ref.layout, shape) for ref in outside if ref.extents]
    groups: list[list[int]] = [[0]]
    for axis in range(1, len(shape)):
        is_row = has_rows and axis == len(shape) - 1
        joins = not is_row and all(_join(s, shape, groups[-1], axis) for s in strides)
        if joins:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return tuple(tuple(group) for group in groups)


def _strides(layout: Layout, shape: Sequence[int]) -> tuple[int | None, ...]:
    """The strides over an iteration shape; None where the array repeats."""
    new = len(shape) - len(layout.shape)
    own = zip(layout.shape, layout.strides, shape[new:], strict=True)
    return (None,) * new + tuple(s if extent == want else None for extent, s, want in own)


def _join(
    strides: Sequence[int | None], shape: Sequence[int], group: Sequence[int], inner: int
) -> bool:
    """Whether an array steps through an axis as it does through a group; an extent of 1 says no."""
    outer = next((axis for axis in reversed(group) if shape[axis] != 1), None)
    if outer is None or shape[inner] == 1:
        return True
    a, b = strides[outer], strides[inner]
    if a is None or b is None:
        return a is b
    return a == b * shape[inner]


def write_tiles(
    emitter: Emitter, steps: Sequence[Step], grid: Grid, places: Mapping[Ref, Place], name: str
) -> None:
    """A function that computes one tile, and the call that has the pool compute them all."""
    emitter.clock += 1
    for ref, place in places.items():
        place.make(emitter, ref.shape, ref.dtype)
        place.hold(ref)
        emitter.touch([ref])
    _Tiles(emitter, steps, grid, places).write(name)


class _Tiles:
    def __init__(
        self, emitter: Emitter, steps: Sequence[Step], grid: Grid, places: Mapping[Ref, Place]
    ):
        self.emitter = emitter
        self.steps = steps
        self.grid = grid
        self.places = places
        self.temps: list[Buffer] = []
        self.outer = [emitter.names.fresh("j") for _ in range(grid.axis)]

    def write(self, name: str) -> None:
        emitter, grid = self.emitter, self.grid
        outside = _outside(self.steps)
        arrays = {ref: emitter.text(self._grouped(ref)) for ref in [*outside, *self.places]}
        emitter.open()
        self._index_lines()
        inside = {ref: self._tile_of(ref, arrays[ref]) for ref in outside}
        results = {s.result: self._computed(s.result) for s in self.steps}
        inside |= results
        steps = [
            replace(s, operands=tuple(inside[o] for o in s.operands), result=inside[s.result])
            for s in self.steps
        ]
        places = {
            results[ref]: Place(self._slice(ref, arrays[ref]), emitter.level) for ref in self.places
        }
        head = len(emitter.sections[-1])
        Straight(emitter, steps, places, make_buffer=self._temp).write()
        emitter.sections[-1][head:head] = self._temp_lines()
        function = emitter.names.fresh(f"{name}_tile")
        emitter.close(f"def {function}(i, slot):")
        emitter.line(f"pool.run({function}, {grid.tiles})")
        emitter.clock += 1
        emitter.touch([*outside, *self.places])

    def _grouped(self, ref: Ref) -> Ref:
        """The array with its axes joined, where that is another shape."""
        if not ref.extents or self.grid.lacking(ref.extents) is not None:
            return ref
        return ref.reshape(self.grid.grouped(ref.extents))

    def _index_lines(self) -> None:
        grid, emitter = self.grid, self.emitter
        if grid.axis:
            emitter.line(f"{self.outer[0]}, i = divmod(i, {grid.blocks})")
        for position in range(grid.axis - 1, 0, -1):
            extent = grid.extents[position]
            first, name = self.outer[0], self.outer[position]
            emitter.line(f"{first}, {name} = divmod({first}, {extent})")
        emitter.line(f"rows = slice(i * {grid.rows}, (i + 1) * {grid.rows})")

    def _slice(self, ref: Ref, array: str) -> str:
        """The name of a tile of an array, in the function."""
        index = self.grid.index(ref.extents, self.outer)
        if not ref.extents or not index:
            return array
        name = self.emitter.names.fresh(f"{ref.hint or array}_t")
        self.emitter.line(f"{name} = {array}{index}")
        return name

    def _tile_of(self, ref: Ref, array: str) -> Ref:
        text = self._slice(ref, array)
        extents = self.grid.tile(ref.extents) if ref.extents else ()
        shape = self.grid.tile(ref.shape)
        layout = Layout.contiguous(extents)
        return Ref(shape, ref.dtype, layout, ref.hint, text, self.emitter.level)

    def _computed(self, ref: Ref) -> Ref:
        shape = self.grid.tile(ref.shape)
        return Ref(shape, ref.dtype, Layout.contiguous(shape), ref.hint)

    def _temp(self, hint: str | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        self.emitter.dtype(dtype)
        clock = self.emitter.clock
        buffer = Buffer(self.emitter.names.fresh("t"), shape, dtype, clock, clock)
        self.temps.append(buffer)
        return buffer

    def _temp_lines(self) -> list[str]:
        """The temporaries of this thread, cut to the length of the last tile."""
        if not self.temps:
            return []
        names = [buffer.name for buffer in self.temps]
        lines = [f"{bundle(names)} = {self.emitter.slot_buffers(self.temps)}[slot]"]
        if self.grid.is_even:
            return lines
        extent, rows = self.grid.extents[self.grid.axis], self.grid.rows
        lines.append(f"n = min({rows}, {extent} - i * {rows})")
        return [*lines, *(f"{name} = {name}[:n]" for name in names)]
