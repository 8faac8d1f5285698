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
from fuel_lowering.kernels.row_schedule import (
    Part,
    Pass,
    RowSchedule,
    held_in,
    render,
    schedule_rows,
)
from fuel_lowering.kernels.rows import Phase, Reduction, RowForm, identity
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.scalars.values import I32, MASK, UI32, Value
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
    """Rows and columns of a block, and how much of a row a program reads."""

    rows: int
    columns: int
    share: int

    @property
    def warps(self) -> int:
        return max(1, min(MOST_WARPS, self.rows * self.columns // WARP_ELEMENTS))


def tiling_of(form: RowForm) -> Tiling:
    """Represents the cuts of the rows of a kernel."""
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
        return Tiling(high, wide, columns)
    return Tiling(high, wide, -(-chunks // splits) * wide)


def _lies_across(form: RowForm) -> bool:
    """Returns True if the elements of a row lie apart in memory, and those of a column together."""
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
    schedule = schedule_rows(form, tiling.share, INDEX)
    programs = -(-form.rows // tiling.rows)
    kernels: list[DeviceKernel] = []
    launches: list[EmittedLaunch] = []
    for number, launch in enumerate(schedule.launches):
        kernel, slots = RowWriter(form, tiling, schedule, number).write()
        launches.append(EmittedLaunch(number, slots, (), (programs, launch.sharers, 1)))
        kernels.append(kernel)
    return Emitted(tuple(kernels), tuple(launches), tuple(schedule.temporaries(form)))


def _accumulator(form: RowForm, reduction: Reduction) -> DType:
    """Returns the dtype that a reduction is computed in; masks are compared as integers."""
    dtype = form.dtype(reduction.source)
    return I32 if dtype == MASK else dtype


def _identity(form: RowForm, reduction: Reduction) -> np.ndarray[Any, Any]:
    return identity(reduction.combine, dtypes.BY_NAME[held_in(form, reduction)])


class RowWriter(KernelWriter):
    """Writes the kernel of one launch of a `RowForm`, for the rows of a program."""

    def __init__(self, form: RowForm, tiling: Tiling, schedule: RowSchedule, number: int):
        layouts = [load.layout for load in form.loads.values()]
        points = (form.rows + tiling.rows) * (form.columns + tiling.columns)
        suffix = "kernel" if schedule.sharers == 1 else f"pass_{number + 1}_kernel"
        temporaries = schedule.temporaries(form)
        super().__init__(form, suffix, temporaries, needs_64_bits(points, layouts))
        self.rows_form = form
        self.tiling = tiling
        self.sharers = schedule.sharers
        self.launch = schedule.launches[number]
        self.index = "tl.int64" if self.wide else "tl.int32"
        self.code.used |= {"r", "c", "split", "start"}
        self.rows = Axis("r")
        self.columns = Axis("")
        self.in_splits: str | None = None
        self.blocks: set[SSAValue] = set()

    @property
    def is_whole(self) -> bool:
        """True if a row is one block."""
        return self.tiling.columns >= self.rows_form.columns

    def write(self) -> tuple[DeviceKernel, tuple[int, ...]]:
        self._begin()
        render(self.launch, self)
        has_pass = any(isinstance(step, Pass) for step in self.launch.steps)
        return self.finish((("num_warps", self.tiling.warps if has_pass else LAST_WARPS),))

    def _begin(self) -> None:
        """The rows of the program."""
        high, rows = self.tiling.rows, self.rows_form.rows
        self.line(f"r = {self.points(high, rows, '[:, None]')}")
        self.rows = Axis("r", "" if rows % high == 0 else self.let("in_rows", f"r < {rows}"))

    # The steps of a launch.

    def compute(self, ops: Sequence[Operation]) -> None:
        self.evaluate(ops)

    def go_over(self, phase: Phase) -> None:
        for reduction, found in zip(phase.reductions, self.run(phase), strict=True):
            self.values[reduction.result] = self.result_of(reduction, found)

    def go_over_share(self, phase: Phase, parts: Sequence[Part]) -> None:
        """The pass over the columns that are this program's."""
        share, columns = self.tiling.share, self.rows_form.columns
        first = self.let("first", f"{self.program(1)} * {share}")
        last = self.let("last", f"tl.minimum({first} + {share}, {columns})")
        at = Access(f"r * {self.sharers} + {self.program(1)}", self.rows.mask)
        for part, names in zip(parts, self.loop(phase, first, last), strict=True):
            for number, name in zip(_numbers(part), names, strict=True):
                self._store_part(self.temporary_slot(number), at, name)

    def combine(self, reduction: Reduction, part: Part) -> None:
        """Returns the combined results of the programs that shared a row."""
        inside = self._splits()
        at = Access(f"r * {self.sharers} + split", conjunction([self.rows.mask, inside]))
        blocks: list[str] = []
        for index, number in enumerate(_numbers(part)):
            slot = self.temporary_slot(number)
            dtype = dtypes.BY_NAME[self.slots[slot].dtype]
            term = self.load(slot, at, dtype, "partial")
            if inside:
                neutral = np.iinfo(np.int64).max if index else _identity(self.rows_form, reduction)
                text = LANGUAGE.literal(np.array(neutral, dtype.numpy), term.register)
                term = self.code.let(f"tl.where({inside}, {term.text}, {text})", dtype, "partial")
            blocks.append(term.text)
        self.values[reduction.result] = self.result_of(reduction, self.reduced(reduction, blocks))

    def store_rows(self, results: Sequence[int]) -> None:
        """Results of rows, written by one of the programs that share a row."""
        if not results:
            return
        if self.launch.sharers == 1:
            self._store_rows(results)
            return
        with self.block("if tl.program_id(1) == 0:"):
            self._store_rows(results)

    def _store_rows(self, results: Sequence[int]) -> None:
        for number in results:
            at = Access("r", self.rows.mask)
            self.store(self.result_slot(number), at, self.value(self.form.results[number]))

    def _splits(self) -> str:
        """The programs that shared a row as columns of a block, and the mask of these."""
        if self.in_splits is None:
            wide = power_of_two(self.sharers)
            self.line(f"split = tl.arange(0, {wide})[None, :]")
            is_even = self.sharers == wide
            self.in_splits = "" if is_even else self.let("in_splits", f"split < {self.sharers}")
        return self.in_splits

    def _store_part(self, slot: int, at: Access, name: str) -> None:
        dtype = dtypes.BY_NAME[self.slots[slot].dtype]
        text = f"{name}.to(tl.int64)" if dtype.name == INDEX else name
        self.store(slot, at, Value(text, dtype))

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
        """Returns the offsets of a layout over all elements."""
        rows, columns = self.rows_form.split(layout)
        return self.place([(self.rows, rows), (self.columns, columns)], rows.offset, whole)

    # Passes.

    def run(self, phase: Phase) -> list[tuple[str, ...]]:
        """One pass: names of what each of its reductions found."""
        if self.is_whole:
            if not self.columns.index:
                self.chunk("")
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

    # Reductions.

    def sources(self, reduction: Reduction) -> tuple[str, ...]:
        """Returns the value a reduction combines: its neutral element outside the columns."""
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
        """Returns True if a value is known to have an element for each of the block."""
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
        """Returns True if an offset steps along an axis, by its index or its coordinate."""
        made = [name for text, name in self.places.items() if re.search(rf"\b{index}\b", text)]
        return not {index, *made}.isdisjoint(re.findall(r"\w+", offset))

    def begin_reduction(self, reduction: Reduction) -> tuple[str, ...]:
        """Accumulators for the elements of a block."""
        type = TYPES[held_in(self.rows_form, reduction)]
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
        register = held_in(self.rows_form, reduction)
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

    def result_of(self, reduction: Reduction, found: Sequence[str]) -> Value:
        """The result of a reduction, in its own element type."""
        code, hint = self.code, reduction.result.name_hint or "row"
        code.hint = hint
        if reduction.is_argument:
            return code.let(f"{found[1]}.to(tl.uint32)", UI32, hint)
        value = Value(found[0], _accumulator(self.rows_form, reduction))
        if self.rows_form.dtype(reduction.result) == MASK:
            return code.compare("ne", value, 0)
        if reduction.combine == "mean":
            value = code.apply("div", value, code.number(self.rows_form.columns, value))
        return code.round_to_dtype(value) if reduction.combine in ("sum", "mean") else value


def _numbers(part: Part) -> list[int]:
    return [number for number in (part.values, part.places) if number is not None]


INDEX = "i64"
"""The element type of indices between launches."""

PRIMITIVES = {"sum": "add", "mean": "add", "max": "maximum", "min": "minimum"}


def _number(value: np.ndarray[Any, Any]) -> str:
    """A number as an argument of `tl.full`."""
    if value.dtype.kind == "f":
        return "0.0" if value == 0 else f'float("{float(value)}")'
    return str(int(value))
