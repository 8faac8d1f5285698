# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Row kernels: reductions along rows, and what is elementwise around them.

A program has a block of rows. A row that fits stays in registers from its loads to its stores;
a longer one is read again in each pass, a chunk at a time. Where long rows are few, each is shared
by several programs, and a launch follows each pass, which combines what these programs found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.layout import Layout
from fuel_lowering.kernels.indexing import needs_64_bits
from fuel_lowering.kernels.rows import Phase, Reduction, RowForm, identity
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.scalars.rules import I32, MASK, REGISTERS, UI32, Term
from fuel_lowering.triton.language import LANGUAGE, TYPES, typed
from fuel_lowering.triton.writer import Access, Axis, KernelWriter, conjunction, power_of_two

WHOLE = 16_384
"""The most elements of a row that stays in registers."""

CHUNK = 4_096
"""The elements of a block, where a row is read in chunks."""

SHORT = 2_048
"""Rows shorter than this share a program."""

ACROSS = 32
"""The rows of a program where neighbours in memory are of different rows."""

ENOUGH_PROGRAMS = 128
"""Fewer than about as many programs as a GPU has processors leave some idle."""

WANTED_PROGRAMS = 256
LEAST_CHUNKS = 4
"""A program that shares a row reads this many chunks of it or more."""

WARP_ELEMENTS = 512
MOST_WARPS = 16
LAST_WARPS = 1
"""Of the launch after the last pass, which combines and computes next to nothing."""


@dataclass(frozen=True)
class Tiling:
    """Rows and columns of a block; by how many programs each row is read, and in what share."""

    rows: int
    columns: int
    splits: int
    share: int

    @property
    def warps(self) -> int:
        return max(1, min(MOST_WARPS, self.rows * self.columns // WARP_ELEMENTS))


def tiling_of(form: RowForm) -> Tiling:
    """How the rows of a kernel are cut."""
    rows, columns = form.rows, max(form.columns, 1)
    wide = power_of_two(columns)
    high = min(ACROSS, power_of_two(rows)) if _lies_across(form) else 1
    if wide * high > WHOLE:
        wide = max(CHUNK // high, 1)
    elif high == 1:
        high = min(power_of_two(rows), max(SHORT // wide, 1))
    programs = -(-rows // high)
    chunks = -(-columns // wide)
    splits = 1
    if programs < ENOUGH_PROGRAMS:
        splits = min(chunks // LEAST_CHUNKS, WANTED_PROGRAMS // programs)
    if splits < 2:
        return Tiling(high, wide, 1, columns)
    share = -(-chunks // splits) * wide
    return Tiling(high, wide, -(-columns // share), share)


def _lies_across(form: RowForm) -> bool:
    """Whether the elements of a row lie apart in memory, and those of a column together."""
    layouts = [load.layout for v, load in form.loads.items() if _is_full(form, v)]
    if not layouts or form.rows < 2:
        return False
    rows, columns = form.split(max(layouts, key=_distinct))
    return _least_step(rows) < _least_step(columns)


def _distinct(layout: Layout) -> int:
    return sum(abs(s) * (n - 1) for s, n in zip(layout.strides, layout.shape, strict=True))


def _least_step(layout: Layout) -> int:
    steps = zip(layout.strides, layout.shape, strict=True)
    return min((abs(s) for s, n in steps if s and n > 1), default=1 << 62)


def _is_full(form: RowForm, value: SSAValue) -> bool:
    return (
        value in form.loads
        and value not in form.statistics
        and (tuple(form.loads[value].layout.shape) == form.shape)
    )


def emit_rows(form: RowForm) -> Emitted:
    """One launch; one more for each pass, where rows are shared by programs."""
    if not form.rows:
        return Emitted((), ())
    tiling = tiling_of(form)
    if tiling.splits == 1:
        writer = RowWriter(form, tiling)
        kernel, slots = writer.write()
        grid = (-(-form.rows // tiling.rows), 1, 1)
        return Emitted((kernel,), (EmittedLaunch(0, slots, (), grid),))
    return _emit_split(form, tiling)


def _emit_split(form: RowForm, tiling: Tiling) -> Emitted:
    kernels: list[DeviceKernel] = []
    launches: list[EmittedLaunch] = []
    partials = _partials(form, tiling)
    programs = -(-form.rows // tiling.rows)
    ends_whole = not form.phases[-1].reductions
    for number in range(len(form.phases) + (not ends_whole)):
        is_last = number == len(form.phases)
        writer = SplitWriter(form, tiling, partials, number)
        kernel, slots = writer.write()
        grid = (programs, 1 if is_last else tiling.splits, 1)
        launches.append(EmittedLaunch(len(kernels), slots, (), grid))
        kernels.append(kernel)
    return Emitted(tuple(kernels), tuple(launches), tuple(partials))


def _partials(form: RowForm, tiling: Tiling) -> list[tuple[str, int]]:
    """The buffers between launches: what each program found, and the index of what it found."""
    found: list[tuple[str, int]] = []
    for phase in form.phases:
        for reduction in phase.reductions:
            found.append((_register(form, reduction), form.rows * tiling.splits))
            if reduction.is_argument:
                found.append((INDEX, form.rows * tiling.splits))
    return found


def _accumulator(form: RowForm, reduction: Reduction) -> DType:
    """What a reduction is computed in; masks are compared as integers."""
    dtype = form.dtype(reduction.source)
    return I32 if dtype == MASK else dtype


def _register(form: RowForm, reduction: Reduction) -> str:
    return REGISTERS[_accumulator(form, reduction).name]


def _identity(form: RowForm, reduction: Reduction) -> np.ndarray[Any, Any]:
    return identity(reduction.combine, dtypes.BY_NAME[_register(form, reduction)])


class RowWriter(KernelWriter):
    """Writes the kernel of a `RowForm`: all passes over the rows of a program."""

    def __init__(
        self,
        form: RowForm,
        tiling: Tiling,
        suffix: str = "kernel",
        partials: Sequence[tuple[str, int]] = (),
    ):
        layouts = [load.layout for load in form.loads.values()]
        points = (form.rows + tiling.rows) * (form.columns + tiling.columns)
        super().__init__(form, suffix, partials, needs_64_bits(points, layouts))
        self.rows_form = form
        self.tiling = tiling
        self.index = "tl.int64" if self.wide else "tl.int32"
        self.code.taken |= {"r", "c", "split", "start"}
        self.rows = Axis("r")
        self.columns = Axis("c")
        self.blocks: set[SSAValue] = set()

    @property
    def is_whole(self) -> bool:
        """Whether a row is one block."""
        return self.tiling.columns >= self.rows_form.columns

    def write(self) -> tuple[DeviceKernel, tuple[int, ...]]:
        form = self.rows_form
        self.begin()
        if self.is_whole:
            self.chunk("")
        for phase in form.phases:
            for reduction, found in zip(phase.reductions, self.run(phase), strict=True):
                self.values[reduction.result] = self.result_of(reduction, found)
            self.evaluate(phase.row)
            self.store_rows(phase)
        return self.finish((("num_warps", self.tiling.warps),))

    def begin(self) -> None:
        """The rows of the program, and what is known of them before any pass."""
        high, rows = self.tiling.rows, self.rows_form.rows
        self.line(f"r = {self.points(high, rows, '[:, None]')}")
        self.rows = Axis("r", "" if rows % high == 0 else self.let("in_rows", f"r < {rows}"))
        self.evaluate(self.rows_form.prologue)

    def chunk(self, start: str) -> None:
        """The columns of a block, from `start`."""
        width, columns = self.tiling.columns, self.rows_form.columns
        index = f"tl.arange(0, {width})[None, :]" + (".to(tl.int64)" if self.wide else "")
        self.line(f"c = {start} + {index}" if start else f"c = {index}")
        mask = "" if columns and columns % width == 0 else self.let("in_row", f"c < {columns}")
        self.columns = Axis("c", mask)

    # Where things lie.

    def resolve(self, value: SSAValue) -> SSAValue:
        return self.rows_form.source(value)

    def where(self, value: SSAValue) -> Access:
        layout = self.form.loads[value].layout
        if value in self.rows_form.statistics:
            return self.place([(self.rows, layout)], layout.offset)
        return self.full(layout)

    def full(self, layout: Layout, whole: bool = False) -> Access:
        """Where a layout over all elements lies."""
        rows, columns = self.rows_form.split(layout)
        return self.place([(self.rows, rows), (self.columns, columns)], rows.offset, whole)

    # Passes.

    def run(self, phase: Phase) -> list[tuple[str, ...]]:
        """One pass: names of what each of its reductions found."""
        if self.is_whole:
            self.evaluate(phase.full)
            self.store_full(phase)
            return [self.reduced(each, self.sources(each)) for each in phase.reductions]
        return self.loop(phase, "0", str(self.rows_form.columns))

    def loop(self, phase: Phase, start: str, stop: str) -> list[tuple[str, ...]]:
        """One pass, a chunk at a time."""
        if not phase.reductions and not phase.full_stores:
            return []
        running = [self.begin_reduction(each) for each in phase.reductions]
        with self.block(f"for start in range({start}, {stop}, {self.tiling.columns}):"):
            self.chunk("start")
            self.evaluate(phase.full)
            self.store_full(phase)
            for reduction, names in zip(phase.reductions, running, strict=True):
                self.accumulate(reduction, names, self.sources(reduction))
        return [
            self.reduced(each, names) for each, names in zip(phase.reductions, running, strict=True)
        ]

    def store_full(self, phase: Phase) -> None:
        contiguous = Layout.contiguous(self.rows_form.shape)
        for number in phase.full_stores:
            at = self.full(contiguous, whole=True)
            self.store(self.result_slot(number), at, self.value(self.form.results[number]))

    def store_rows(self, phase: Phase) -> None:
        for number in phase.row_stores:
            at = Access("r", self.rows.mask)
            self.store(self.result_slot(number), at, self.value(self.form.results[number]))

    # Reductions.

    def sources(self, reduction: Reduction) -> tuple[str, ...]:
        """What a reduction combines: its neutral element where there is no column."""
        shape, dtype = self.shape, _accumulator(self.rows_form, reduction)
        value = self.value(reduction.source)
        if value.dtype == MASK:
            value = self.code.into(self.code.let(typed(value.text, "bool"), MASK), dtype)
        text = typed(value.text, value.register)
        if not self._is_block(reduction.source):
            text = f"tl.broadcast_to({text}, {shape})"
        if self.columns.mask:
            neutral = LANGUAGE.literal(_identity(self.rows_form, reduction), value.register)
            text = f"tl.where({self.columns.mask}, {text}, {neutral})"
        name = text if text.isidentifier() else self.let("part", text)
        if not reduction.is_argument:
            return (name,)
        return name, self.let("index", f"c + tl.zeros({shape}, {self.index})")

    @property
    def shape(self) -> str:
        return f"({self.tiling.rows}, {self.tiling.columns})"

    def _is_block(self, value: SSAValue) -> bool:
        """Whether a value is known to have an element for each of the block."""
        value = self.resolve(value)
        if value in self.blocks:
            return True
        if value in self.rows_form.statistics or value in self.form.splats:
            return False
        if value in self.form.loads:
            offset = self.where(value).offset
            down, across = self._steps(offset, "r"), self._steps(offset, "c")
            is_block = (down or self.tiling.rows == 1) and (across or self.tiling.columns == 1)
            is_block &= down or across
        else:
            assert isinstance(value.owner, Operation)
            is_block = not self.is_literal(value)
            is_block &= any(map(self._is_block, value.owner.operands))
        if is_block:
            self.blocks.add(value)
        return is_block

    def _steps(self, offset: str, index: str) -> bool:
        """Whether an offset steps along an axis, by its index or a coordinate made of it."""
        made = [name for text, name in self.places.items() if re.search(rf"\b{index}\b", text)]
        return not {index, *made}.isdisjoint(re.findall(r"\w+", offset))

    def begin_reduction(self, reduction: Reduction) -> tuple[str, ...]:
        """Accumulators for the elements of a block."""
        type = TYPES[_register(self.rows_form, reduction)]
        number = _number(_identity(self.rows_form, reduction))
        running = self.let("running", f"tl.full({self.shape}, {number}, {type})")
        if not reduction.is_argument:
            return (running,)
        last = np.iinfo(np.int64 if self.wide else np.int32).max
        return running, self.let("running_index", f"tl.full({self.shape}, {last}, {self.index})")

    def accumulate(
        self, reduction: Reduction, running: Sequence[str], found: Sequence[str]
    ) -> None:
        if reduction.is_argument:
            values = ", ".join((*running, *found))
            self.line(f"{', '.join(running)} = {reduction.combine}({values})")
            return
        primitive = PRIMITIVES[reduction.combine]
        register = _register(self.rows_form, reduction)
        self.line(f"{running[0]} = {LANGUAGE.write(primitive, register, [running[0], *found])}")

    def reduced(self, reduction: Reduction, blocks: Sequence[str]) -> tuple[str, ...]:
        """The result along the columns of a block, for each row."""
        combine = reduction.combine
        name = f"row_{combine}"
        if reduction.is_argument:
            names = self.code.fresh(name.replace("arg", "")), self.code.fresh(name)
            pair = f"({', '.join(blocks)})"
            self.line(f"{', '.join(names)} = tl.reduce({pair}, 1, {combine}, keep_dims=True)")
            return names
        if combine in ("sum", "mean"):
            return (self.let("row_sum", f"tl.sum({blocks[0]}, 1, keep_dims=True)"),)
        if _accumulator(self.rows_form, reduction).is_float:
            function = f"nan_{PRIMITIVES[combine]}"
            return (self.let(name, f"tl.reduce({blocks[0]}, 1, {function}, keep_dims=True)"),)
        return (self.let(name, f"tl.{combine}({blocks[0]}, 1, keep_dims=True)"),)

    def result_of(self, reduction: Reduction, found: Sequence[str]) -> Term:
        """The result of a reduction, in its own element type."""
        code, hint = self.code, reduction.result.name_hint or "row"
        code.hint = hint
        if reduction.is_argument:
            return code.let(f"{found[1]}.to(tl.uint32)", UI32, hint)
        value = Term(found[0], _accumulator(self.rows_form, reduction))
        if self.rows_form.dtype(reduction.result) == MASK:
            return code.compare("ne", value, 0)
        if reduction.combine == "mean":
            value = code.apply("div", value, code.number(self.rows_form.columns, value))
        return code.settle(value) if reduction.combine in ("sum", "mean") else value


class SplitWriter(RowWriter):
    """
    Writes the kernel of one pass, whose rows are shared by programs.

    It begins by combining what the programs of earlier passes found. The kernel after the last
    pass writes what is known then.
    """

    def __init__(
        self, form: RowForm, tiling: Tiling, partials: Sequence[tuple[str, int]], number: int
    ):
        super().__init__(form, tiling, f"pass_{number + 1}_kernel", partials)
        self.number = number
        self.slots_taken = 0
        self.in_splits = ""

    def write(self) -> tuple[DeviceKernel, tuple[int, ...]]:
        phases, number = self.rows_form.phases, self.number
        self.begin()
        if number:
            self._begin_combining()
        for phase in phases[:number]:
            for reduction in phase.reductions:
                self.values[reduction.result] = self.result_of(reduction, self._combined(reduction))
            self.evaluate(phase.row)
        if number:
            self._store_rows_once(phases[number - 1], number == len(phases))
        if number < len(phases):
            self._share(phases[number])
        warps = self.tiling.warps if number < len(phases) else LAST_WARPS
        return self.finish((("num_warps", warps),))

    def _begin_combining(self) -> None:
        """The programs that shared a row, as columns of a block."""
        splits = self.tiling.splits
        self.line(f"split = tl.arange(0, {power_of_two(splits)})[None, :]")
        if splits != power_of_two(splits):
            self.in_splits = self.let("in_splits", f"split < {splits}")

    def _share(self, phase: Phase) -> None:
        """The pass over the columns that are this program's."""
        share, columns = self.tiling.share, self.rows_form.columns
        first = self.let("first", f"{self.program(1)} * {share}")
        last = self.let("last", f"tl.minimum({first} + {share}, {columns})")
        found = self.loop(phase, first, last)
        at = Access(f"r * {self.tiling.splits} + {self.program(1)}", self.rows.mask)
        for names in found:
            for name in names:
                self._store_partial(at, name)
        if not phase.reductions:
            self.evaluate(phase.row)
            self._store_rows_once(phase, False)

    def _store_partial(self, at: Access, name: str) -> None:
        slot = self._next_partial()
        dtype = dtypes.BY_NAME[self.slots[slot].dtype]
        text = f"{name}.to(tl.int64)" if dtype.name == INDEX else name
        self.store(slot, at, Term(text, dtype))

    def _next_partial(self) -> int:
        self.slots_taken += 1
        return self.temporary_slot(self.slots_taken - 1)

    def _store_rows_once(self, phase: Phase, is_alone: bool) -> None:
        """Results of rows, written by one of the programs that share a row."""
        if not phase.row_stores:
            return
        if is_alone:
            self.store_rows(phase)
            return
        with self.block("if tl.program_id(1) == 0:"):
            self.store_rows(phase)

    def _combined(self, reduction: Reduction) -> tuple[str, ...]:
        """What the programs that shared a row found, combined."""
        inside = self.in_splits
        at = Access(f"r * {self.tiling.splits} + split", conjunction([self.rows.mask, inside]))
        blocks: list[str] = []
        for index in range(1 + reduction.is_argument):
            slot = self._next_partial()
            dtype = dtypes.BY_NAME[self.slots[slot].dtype]
            term = self.load(slot, at, dtype, "partial")
            if inside:
                neutral = np.iinfo(np.int64).max if index else _identity(self.rows_form, reduction)
                text = LANGUAGE.literal(np.array(neutral, dtype.numpy), term.register)
                term = self.code.let(f"tl.where({inside}, {term.text}, {text})", dtype, "partial")
            blocks.append(term.text)
        return self.reduced(reduction, blocks)


INDEX = "i64"
"""The element type of indices between launches."""

PRIMITIVES = {"sum": "add", "mean": "add", "max": "maximum", "min": "minimum"}


def _number(value: np.ndarray[Any, Any]) -> str:
    """A number as an argument of `tl.full`."""
    if value.dtype.kind == "f":
        return "0.0" if value == 0 else f'float("{float(value)}")'
    return str(int(value))
