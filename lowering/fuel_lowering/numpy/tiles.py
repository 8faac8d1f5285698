# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Steps evaluated tile by tile, on the threads of the pool.

The tiles depend on shapes alone, so that results have the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from fuel_dialect.layout import Layout
from fuel_lowering.numpy.buffers import Buffer
from fuel_lowering.numpy.builder import Rows
from fuel_lowering.numpy.steps import Place, Step, Straight, chains
from fuel_lowering.numpy.values import Ref
from fuel_lowering.numpy.writer import FunctionWriter, bundle

LARGE_TILE = 131_072
SMALL_TILE = 65_536
"""
Elements of a tile; the small one where more than four arrays of 4 bytes would be in use.

A tile must take two threads longer than handing the interpreter lock over does: at 16 to 64 Ki
elements the time of a chain of pointwise ops varies by a factor of two, from 128 Ki on it does not.
"""

NARROWEST = 256
"""Least elements of a tile along a contiguous axis, where the rows lie across it."""

CACHE_BYTES = 4 * 4 * LARGE_TILE

LONE_TILE = 8_192
"""Elements of a tile where one thread does them all, so that temporaries are small."""

MOST_TEMPORARY = 1 << 17
"""The bytes of temporaries from which on such tiles are worth the calls that they take."""


@dataclass(frozen=True)
class Grid:
    """
    Represents the cuts of an iteration shape.

    `groups` are runs of axes read as one; tiles are cut along group `axis`, `rows` at a time. The
    groups in `reduced` are whole in every tile, and so are those after `axis`; each index of the
    others has tiles of its own.
    """

    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    axis: int
    rows: int
    reduced: frozenset[int] = frozenset()
    is_lone: bool = False
    """True if one thread does all tiles."""

    @property
    def group_sizes(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[a] for a in group) for group in self.groups)

    @property
    def blocks(self) -> int:
        """Tiles along the axis that is cut."""
        return -(-self.group_sizes[self.axis] // self.rows)

    @property
    def outer(self) -> tuple[int, ...]:
        """The groups of which a tile has one index."""
        return tuple(g for g in range(self.axis) if g not in self.reduced)

    @property
    def inner(self) -> tuple[int, ...]:
        """The groups that are the axes of a tile."""
        return tuple(g for g in range(len(self.groups)) if g not in self.outer)

    @property
    def tiles(self) -> int:
        return prod(self.group_sizes[g] for g in self.outer) * self.blocks

    @property
    def is_even(self) -> bool:
        return self.group_sizes[self.axis] % self.rows == 0

    def grouped(self, extents: Sequence[int]) -> tuple[int, ...]:
        """The extents of an array, its axes grouped; leading axes it lacks are 1."""
        padded = (1,) * (len(self.shape) - len(extents)) + tuple(extents)
        return tuple(prod(padded[a] for a in group) for group in self.groups)

    def tile(self, extents: Sequence[int]) -> tuple[int, ...]:
        """The shape of a full tile of an array."""
        grouped = self.grouped(extents)
        return tuple(
            min(grouped[g], self.rows) if g == self.axis else grouped[g] for g in self.inner
        )

    def tile_axes(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Axes of the iteration shape, as axes of a tile."""
        inner = [self.groups[g] for g in self.inner]
        return tuple(place for place, group in enumerate(inner) if group[0] in axes)

    def lacking(self, extents: Sequence[int]) -> int | None:
        """Returns how many leading groups an array has no axis for; None for other axes."""
        grouped, rank = self.grouped(extents), len(extents)
        lead = len(grouped) - rank
        fits = lead >= 0 and grouped[lead:] == tuple(extents) and prod(grouped[:lead]) == 1
        return lead if fits else None

    def index(self, extents: Sequence[int], outer: Mapping[int, str]) -> str:
        """The subscript that reads a tile of an array; empty where the whole array is the tile."""
        grouped, lead = self.grouped(extents), self.lacking(extents) or 0

        def part(group: int) -> str:
            if group in self.reduced or (group == self.axis and grouped[group] == 1):
                return ":"
            if group == self.axis:
                return "rows"
            return outer[group] if grouped[group] > 1 else "0"

        parts = [part(group) for group in range(lead, self.axis + 1)]
        return "" if set(parts) <= {":"} else f"[{', '.join(parts)}]"


def iteration_rows(steps: Sequence[Step]) -> Rows | None:
    """Returns the shape all steps iterate over, columns of rows aside; None if there is none."""
    if not steps or any(s.recipe.scope == "whole" or s.fills is not None for s in steps):
        return None
    shape = max((s.result.shape for s in steps), key=prod)
    is_by_row = any(s.recipe.scope == "row" or s.result.shape != shape for s in steps)
    rows = Rows(shape, (len(shape) - 1,) if is_by_row else ())
    if any(s.result.shape not in (shape, rows.column) for s in steps):
        return None
    return rows


def cut(rows: Rows, steps: Sequence[Step]) -> Grid | None:
    """
    The grid for steps that iterate over rows; None where one tile would hold it all, or where the
    rows lie across memory and are too long.

    Cut along the first axis inside of which little enough is left for a tile, else the last.
    """
    shape, limit = rows.shape, _tile_elements(steps)
    is_lone = prod(shape) <= limit
    if prod(rows.column) == 1 or (is_lone and (rows.axes or not _is_worth_a_loop(steps))):
        return None
    limit = LONE_TILE if is_lone else limit
    groups = _collapse(rows, _outside(steps))
    reduced = frozenset(g for g, group in enumerate(groups) if group[0] in rows.axes)
    extents = [prod(shape[a] for a in group) for group in groups]
    kept = [g for g in range(len(groups)) if g not in reduced]
    length = prod(extents[g] for g in reduced)

    def inside(group: int) -> int:
        return length * prod(extents[g] for g in kept if g > group)

    axis = next((g for g in kept if inside(g) <= limit), kept[-1])
    most = max(1, limit // inside(axis))
    lies_across = any(g < axis for g in reduced) and axis == len(groups) - 1
    if lies_across and most < min(NARROWEST, extents[axis]):
        return None
    blocks = -(-extents[axis] // most)
    return Grid(shape, groups, axis, -(-extents[axis] // blocks), reduced, is_lone)


def _is_worth_a_loop(steps: Sequence[Step]) -> bool:
    """Returns True if steps that one tile would hold take much memory beside their results."""
    elements = max(prod(step.result.shape) for step in steps)
    arrays = {id(chain): chain[0].dtype.itemsize for chain in chains(steps, ()).values()}
    if elements < 2 * LONE_TILE or len(arrays) == 1:
        return False
    own = [temp.dtype_for(s.result).itemsize for s in steps for temp in s.recipe.temps]
    return elements * (sum(arrays.values()) - min(arrays.values()) + sum(own)) >= MOST_TEMPORARY


def _tile_elements(steps: Sequence[Step]) -> int:
    arrays = {o.root for s in steps for o in s.operands if prod(o.array_shape) > 1}
    width = max(s.result.dtype.itemsize for s in steps)
    inputs = len(arrays - {s.result for s in steps})
    return LARGE_TILE if (inputs + 2) * width * LARGE_TILE <= CACHE_BYTES else SMALL_TILE


def _outside(steps: Sequence[Step]) -> list[Ref]:
    """The values that the steps read and do not compute."""
    own = {result for step in steps for result in step.results}
    return list(dict.fromkeys(o for s in steps for o in s.operands if o not in own))


def _collapse(rows: Rows, outside: Sequence[Ref]) -> tuple[tuple[int, ...], ...]:
    """Neighbouring axes joined wherever every array steps through them as through one."""
    shape = rows.shape
    strides = [_strides(ref.layout, shape) for ref in outside if ref.array_shape]
    groups: list[list[int]] = [[0]]
    for axis in range(1, len(shape)):
        are_alike = (axis in rows.axes) == (groups[-1][-1] in rows.axes)
        if are_alike and all(_join(s, shape, groups[-1], axis) for s in strides):
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
    """Returns True if an array steps through an axis of more than 1 as through a group."""
    outer = next((axis for axis in reversed(group) if shape[axis] != 1), None)
    if outer is None or shape[inner] == 1:
        return True
    a, b = strides[outer], strides[inner]
    if a is None or b is None:
        return a is b
    return a == b * shape[inner]


def write_tiles(
    writer: FunctionWriter,
    steps: Sequence[Step],
    grid: Grid,
    places: Mapping[Ref, Place],
    name: str,
    given: Collection[Ref] = (),
) -> None:
    """
    A function that computes one tile, and the call that has the pool compute them all.

    Results may be written over `given`.
    """
    writer.clock += 1
    for ref, place in places.items():
        place.make(writer, ref.shape, ref.dtype)
        place.hold(ref)
        writer.touch([ref])
    _Tiles(writer, steps, grid, places, given).write(name)


class _Tiles:
    def __init__(
        self,
        writer: FunctionWriter,
        steps: Sequence[Step],
        grid: Grid,
        places: Mapping[Ref, Place],
        given: Collection[Ref],
    ):
        self.writer = writer
        self.steps = steps
        self.grid = grid
        self.places = places
        self.given = given
        self.temps: list[Buffer] = []
        self.outer = {group: writer.names.fresh("j") for group in grid.outer}
        self.slices: dict[str, str] = {}

    def write(self, name: str) -> None:
        writer, grid = self.writer, self.grid
        outside = _outside(self.steps)
        arrays = {ref: writer.text(self._grouped(ref)) for ref in [*outside, *self.places]}
        writer.open()
        self._index_lines()
        inside = {ref: self._tile_of(ref, arrays[ref]) for ref in outside}
        results = {s.result: self._computed(s.result) for s in self.steps}
        inside |= results
        steps = [
            replace(
                s,
                operands=tuple(inside[o] for o in s.operands),
                result=inside[s.result],
                axes=grid.tile_axes(s.axes),
            )
            for s in self.steps
        ]
        places = {
            results[ref]: Place(self._slice(ref, arrays[ref]), writer.level) for ref in self.places
        }
        head = len(writer.sections[-1])
        given = [inside[ref] for ref in self.given]
        Straight(writer, steps, places, make_buffer=self._temp, given=given).write()
        writer.sections[-1][head:head] = self._temp_lines()
        if grid.is_lone:
            writer.close(f"for i in range({grid.tiles}):")
        else:
            function = writer.names.fresh(f"{name}_tile")
            writer.close(f"def {function}(i, slot):")
            writer.line(f"pool.run({function}, {grid.tiles})")
        writer.clock += 1
        writer.touch([*outside, *self.places])

    def _grouped(self, ref: Ref) -> Ref:
        """The array with its axes joined, where that is another shape."""
        if not ref.array_shape or self.grid.lacking(ref.array_shape) is not None:
            return ref
        return ref.reshape(self.grid.grouped(ref.array_shape))

    def _index_lines(self) -> None:
        grid, writer = self.grid, self.writer
        first = self.outer[grid.outer[0]] if grid.outer else ""
        if first:
            writer.line(f"{first}, i = divmod(i, {grid.blocks})")
        for group in reversed(grid.outer[1:]):
            writer.line(
                f"{first}, {self.outer[group]} = divmod({first}, {grid.group_sizes[group]})"
            )
        writer.line(f"rows = slice(i * {grid.rows}, (i + 1) * {grid.rows})")

    def _slice(self, ref: Ref, array: str) -> str:
        """The name of a tile of an array, in the function."""
        index = self.grid.index(ref.array_shape, self.outer)
        if not ref.array_shape or not index:
            return array
        text = f"{array}{index}"
        if text not in self.slices:
            self.slices[text] = self.writer.names.fresh(f"{ref.hint or array}_t")
            self.writer.line(f"{self.slices[text]} = {text}")
        return self.slices[text]

    def _tile_of(self, ref: Ref, array: str) -> Ref:
        text = self._slice(ref, array)
        extents = self.grid.tile(ref.array_shape) if ref.array_shape else ()
        shape = self.grid.tile(ref.shape)
        layout = Layout.contiguous(extents)
        return Ref(shape, ref.dtype, layout, ref.hint, text, self.writer.level)

    def _computed(self, ref: Ref) -> Ref:
        shape = self.grid.tile(ref.shape)
        return Ref(shape, ref.dtype, Layout.contiguous(shape), ref.hint)

    def _temp(self, hint: str | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        if self.grid.is_lone:
            buffer = self.writer.buffer("t", shape, dtype)
        else:
            self.writer.dtype(dtype)
            clock = self.writer.clock
            buffer = Buffer(self.writer.names.fresh("t"), shape, dtype, clock, clock)
        self.temps.append(buffer)
        return buffer

    def _temp_lines(self) -> list[str]:
        """The temporaries of this thread, cut to the length of the last tile."""
        if not self.temps:
            return []
        names = [buffer.name for buffer in self.temps]
        lines: list[str] = []
        if not self.grid.is_lone:
            lines.append(f"{bundle(names)} = {self.writer.slot_buffers(self.temps)}[slot]")
        if self.grid.is_even:
            return lines
        extent, rows = self.grid.group_sizes[self.grid.axis], self.grid.rows
        lines.append(f"n = min({rows}, {extent} - i * {rows})")
        index = f"[{':, ' * self.grid.inner.index(self.grid.axis)}:n]"
        whole = self._whole_temps() if self.grid.is_lone else names
        return [*lines, *(f"{n} = {w}{index}" for n, w in zip(names, whole, strict=True))]

    def _whole_temps(self) -> list[str]:
        """
        Gives the temporaries of the workspace other names, and returns those.

        A loop must not assign to what it reads again for the next tile.
        """
        for buffer in self.temps:
            buffer.name = self.writer.names.fresh(f"{buffer.name}_whole")
        return [buffer.name for buffer in self.temps]
