# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Row kernels: one invocation, or one workgroup, goes over each row, once for every phase.

Four neighbours of a row are read at once where they are a quad; their sums stay four sums until
the end of the pass, which is also more accurate. The invocations of a row then combine what they
have in shared memory. What is written once for a row and is packed goes to a buffer of words first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.ir import Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_lowering.kernels.indexing import address, coordinates, merged, needs_64_bits
from fuel_lowering.kernels.row_schedule import Part, RowLaunch, RowSchedule, render, schedule_rows
from fuel_lowering.kernels.rows import Phase, Reduction, RowForm
from fuel_lowering.kompute.combine import Accumulator
from fuel_lowering.kompute.outputs import Outputs
from fuel_lowering.kompute.tuning import MOST_INVOCATIONS, MOST_TRIPS, Tuning
from fuel_lowering.kompute.writer import (
    QUAD,
    Memory,
    Shader,
    hint_of,
    read_memory,
    shape_text,
)
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.scalars.values import Value

ROWS_OF_GROUP = 64
"""Rows of a workgroup where each has an invocation of its own."""

ALIGNED = 1024
"""The multiple at which shares of a row begin."""


PLACE = dtypes.BY_NAME["ui32"]
"""The element type of the place of an argument."""


def emit_rows(form: RowForm, tuning: Tuning) -> Emitted:
    """The kernels of a form, and those that pack its results; none where there are no rows."""
    if not form.rows:
        return Emitted((), ())
    schedule = schedule_rows(form, share_of(form, tuning), PLACE.name)
    outputs = Outputs(Shader(form, [""]))
    slots = [outputs.temporary(*each) for each in schedule.temporaries(form)]
    kernels: list[DeviceKernel] = []
    launches: list[EmittedLaunch] = []
    for number, each in enumerate(schedule.launches):
        kernel, launch = _Rows(form, tuning, schedule, each, outputs, slots).write()
        launches.append(replace(launch, kernel=number))
        kernels.append(kernel)
    return outputs.finish(kernels, launches)


def share_of(form: RowForm, tuning: Tuning) -> int:
    """
    The share of a row that a workgroup reads: less than all if rows are few and long, enough for
    all of its invocations.
    """
    splits = min(form.columns // tuning.share, tuning.groups // form.rows)
    if splits < 2:
        return form.columns
    share = -(-form.columns // splits)
    share = -(-share // ALIGNED) * ALIGNED
    return share if share > tuning.row_elements else form.columns


def invocations_of_row(form: RowForm, columns: int, lanes: int, tuning: Tuning) -> int:
    """Returns the invocations that share `columns` of a row: a power of two, one for few."""
    turns = -(-columns // lanes)
    passes = len(form.phases)
    invocations = 1
    if columns > tuning.row_elements * lanes // QUAD:
        most = tuning.per_row if form.rows >= tuning.per_row or tuning.device_type == "gpu" else 64
        while invocations < most and invocations * 2 <= turns:
            invocations *= 2
    while passes * -(-turns // invocations) > MOST_TRIPS and invocations < MOST_INVOCATIONS:
        invocations *= 2
    if passes * -(-turns // invocations) > MOST_TRIPS:
        raise LoweringError(
            f"{form.name}: rows of {columns} elements read {passes} times are longer than a "
            "workgroup of a Vulkan device can be trusted to loop over"
        )
    return invocations


class _Rows:
    """Writes the kernel of one launch, over the share of each row that is a workgroup's."""

    def __init__(
        self,
        form: RowForm,
        tuning: Tuning,
        schedule: RowSchedule,
        launch: RowLaunch,
        outputs: Outputs,
        slots: Sequence[int],
    ):
        self.form = form
        self.schedule = schedule
        self.launch = launch
        self.slots = slots
        self.loads = self._full_loads()
        self._merge()
        is_even = len(self.columns) == 1 and self.columns[0] % QUAD == 0
        self.lanes = QUAD if is_even else 1
        self.per_row = invocations_of_row(form, schedule.share, self.lanes, tuning)
        local = self.per_row if self.per_row > 1 else ROWS_OF_GROUP
        self.shader = Shader(form, self._title(), (local, 1))
        self.outputs = outputs
        self.outputs.shader = self.shader
        self.first, self.last = "0", str(form.columns)
        self.split = "0"
        self.values: dict[SSAValue, Value] = {}

    def _title(self) -> list[str]:
        form, sharers = self.form, self.schedule.sharers
        results = ", ".join(shape_text(v) for v in form.results)
        invocations = f"{self.per_row} invocation{'s' if self.per_row > 1 else ''} for each row"
        if sharers > 1:
            invocations += f" and workgroup, {sharers} workgroups for each row"
        return [f"{form.rows} rows of {form.columns} -> {results}", invocations]

    # Where full operands and results lie.

    def _full_loads(self) -> list[SSAValue]:
        form = self.form
        read = [v for phase in form.phases for op in phase.full for v in op.operands]
        read += [r.source for phase in form.phases for r in phase.reductions]
        read += [form.results[i] for phase in form.phases for i in phase.full_stores]
        return [v for v in dict.fromkeys(read) if v in form.loads and v not in form.statistics]

    def _merge(self) -> None:
        form = self.form
        layouts = [form.loads[v].layout for v in self.loads] + [Layout.contiguous(form.shape)]
        if needs_64_bits(prod(form.shape), layouts):
            raise LoweringError(
                f"{form.name}: {list(form.shape)} needs 64-bit indices, which kompute does not use"
            )
        pairs = [form.split(layout) for layout in layouts]
        rows, self.row_layouts = merged(pairs[0][0].shape, [row for row, _ in pairs])
        columns, self.column_layouts = merged(pairs[0][1].shape, [column for _, column in pairs])
        self.rows, self.columns = rows or (1,), columns or (1,)
        self.row_layouts = [_at_least_one(x) for x in self.row_layouts]
        self.column_layouts = [_at_least_one(x) for x in self.column_layouts]

    def _is_wide(self, index: int, slot: int) -> bool:
        """Returns True if four neighbours of a row are a quad of the buffer."""
        if self.lanes == 1 or slot in self.form.unaligned:
            return False
        return self.column_layouts[index].strides == (1,) and not _odd(self.row_layouts[index])

    # Text.

    def write(self) -> tuple[DeviceKernel, EmittedLaunch]:
        """The kernel and its launch."""
        shader, rows = self.shader, self.form.rows
        if self.schedule.sharers > 1:
            self._begin_share(self.launch.sharers)
            groups = rows * self.launch.sharers
        else:
            self._begin()
            groups = rows if self.per_row > 1 else -(-rows // ROWS_OF_GROUP)
        self.bases = self._bases()
        render(self.launch, self)
        return shader.kernel(), shader.launch(0, groups)

    def _begin(self) -> None:
        """The row of the workgroup or, where rows are short, of the invocation."""
        shader, rows = self.shader, self.form.rows
        self.row = row = shader.code.fresh("row")
        if self.per_row > 1:
            shader.line(f"uint {row} = min({shader.group()}, {rows - 1});")
        else:
            shader.line(f"uint {row} = {shader.invocation()};")
            shader.line(f"if ({row} >= {rows}) return;")

    def _begin_share(self, sharers: int) -> None:
        """The row of the workgroup and, where it is shared, which share of it."""
        shader, rows, share = self.shader, self.form.rows, self.schedule.share
        group = shader.index(f"min({shader.group()}, {rows * sharers - 1})", "group")
        self.row = group
        if sharers > 1:
            self.row = shader.index(f"{group} / {sharers}", "row")
            self.split = shader.index(f"{group} % {sharers}", "split")
            self.first = shader.index(f"{self.split} * {share}", "first")
            last = f"min({self.first} + {share}, {self.form.columns})"
            self.last = shader.index(last, "last")

    # The steps of a launch.

    def compute(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            operands = [self._row_value(v) for v in op.operands]
            self.values[op.results[0]] = self.shader.evaluate(op, operands)

    def go_over(self, phase: Phase) -> None:
        for reduction, accumulator in self._accumulate(phase):
            self.values[reduction.result] = accumulator.finish(self.form.columns)

    def go_over_share(self, phase: Phase, parts: Sequence[Part]) -> None:
        """The pass over the columns of a share."""
        for part, (_, accumulator) in zip(parts, self._accumulate(phase), strict=True):
            self._keep(part, accumulator)

    def combine(self, reduction: Reduction, part: Part) -> None:
        """Returns the combined results of all shares of a row."""
        shader = self.shader
        one = self._accumulator(reduction, lanes=1)
        one.start()
        s, sharers = shader.code.fresh("s"), self.schedule.sharers
        shader.open(
            f"for (uint {s} = gl_LocalInvocationID.x; {s} < {sharers}; {s} += {self.per_row})"
        )
        at = shader.index(f"{self.row} * {sharers} + {s}", "part")
        value = shader.load(self._memory_of(part.values, one.dtype), at, "found")
        place = ""
        if part.places is not None:
            place = shader.load(self._memory_of(part.places, PLACE), at, "found_at").text
        one.add(value, place, "")
        shader.close()
        self.values[reduction.result] = one.finish(self.form.columns)

    def store_rows(self, results: Sequence[int]) -> None:
        """Results of rows, written by the first of the workgroups that share a row."""
        values = [self._row_value(self.form.results[number]) for number in results]
        is_guarded = self.split != "0" and bool(results)
        if is_guarded:
            self.shader.open(f"if ({self.split} == 0)")
        for number, value in zip(results, values, strict=True):
            self._store_row(number, value)
        if is_guarded:
            self.shader.close()

    def _accumulate(self, phase: Phase) -> list[tuple[Reduction, Accumulator]]:
        """Each reduction of a pass with what has gone over the elements."""
        accumulators = [self._accumulator(r) for r in phase.reductions]
        if phase.reductions or phase.full_stores:
            self._pass(phase, accumulators)
        return list(zip(phase.reductions, accumulators, strict=True))

    def _keep(self, part: Part, accumulator: Accumulator) -> None:
        """Write what a share has given, once."""
        shader, sharers = self.shader, self.schedule.sharers
        value, place = accumulator.gathered()
        place = shader.index(place, "found_at") if place else ""
        value = shader.code.let(value, accumulator.dtype, "found").text
        at = shader.index(f"{self.row} * {sharers} + {self.split}", "part")
        shader.open("if (gl_LocalInvocationID.x == 0)")
        shader.store(self._memory_of(part.values, accumulator.dtype, writes=True), at, value)
        if part.places is not None:
            shader.store(self._memory_of(part.places, PLACE, writes=True), at, place)
        shader.close()

    def _memory_of(self, part: int, dtype: DType, writes: bool = False) -> Memory:
        elements = self.form.rows * self.schedule.sharers
        open = self.shader.writes if writes else self.shader.reads
        return open(self.slots[part], dtype, elements, False, "parts")

    def _bases(self) -> list[str]:
        texts = coordinates(self.row, self.rows, "/")
        points = [self.shader.index(t, "r") for t in texts]
        names: dict[str, str] = {}
        for layout in self.row_layouts:
            text = address(layout, points)
            if text not in names:
                names[text] = self.shader.index(text, "start")
        return [names[address(layout, points)] for layout in self.row_layouts]

    def _accumulator(self, reduction: Reduction, lanes: int | None = None) -> Accumulator:
        source = self.form.dtype(reduction.source)
        result = self.form.dtype(reduction.result)
        hint = hint_of(reduction.result, reduction.combine)
        return Accumulator(
            self.shader,
            reduction.combine,
            source,
            result,
            lanes or self.lanes,
            self.per_row,
            hint,
        )

    def _pass(self, phase: Phase, accumulators: Sequence[Accumulator]) -> None:
        """A loop over the elements of the row."""
        shader = self.shader
        before = self._same_loads(phase)
        for accumulator in accumulators:
            accumulator.start()
        column = shader.code.fresh("column")
        member = "gl_LocalInvocationID.x"
        first = member if self.lanes == 1 else f"{self.lanes} * {member}"
        first = first if self.per_row > 1 else "0"
        first = first if self.first == "0" else f"{self.first} + {first}"
        step = self.lanes * self.per_row
        shader.open(f"for (uint {column} = {first}; {column} < {self.last}; {column} += {step})")
        vectors = self._quads(phase, column, before)
        stores = [self._store(number) for number in phase.full_stores]
        lane = ""
        if self.lanes > 1:
            lane = shader.code.fresh("lane")
            shader.open(f"[[unroll]] for (uint {lane} = 0; {lane} < {QUAD}; {lane}++)")
        at = shader.index(f"{column} + {lane}", "c") if lane else column
        full = self._element(phase, at, lane, before, vectors)
        for reduction, accumulator in zip(phase.reductions, accumulators, strict=True):
            accumulator.add(self._full_value(reduction.source, full), at, lane)
        for number, (memory, vector) in zip(phase.full_stores, stores, strict=True):
            term = self._full_value(self.form.results[number], full)
            self._store_element(memory, vector, lane, at, term)
        if lane:
            shader.close()
        for memory, vector in stores:
            if vector:
                shader.store_quad(memory, self._place(-1, column), vector)
        shader.close()

    # Elements.

    def _needed(self, phase: Phase) -> list[SSAValue]:
        values = [v for op in phase.full for v in op.operands]
        values += [r.source for r in phase.reductions]
        values += [self.form.results[i] for i in phase.full_stores]
        return [v for v in dict.fromkeys(values) if v in self.loads]

    def _memory(self, value: SSAValue, wide: bool) -> Memory:
        form = self.form
        return read_memory(self.shader, form.loads[value].argument, form.dtype(value), wide)

    def _place(self, index: int, column: str) -> str:
        """The address of an element of the row, by its column."""
        layout = self.column_layouts[index]
        points = [column]
        if len(self.columns) > 1:
            points = [f"({t})" for t in coordinates(column, self.columns, "/")]
        text = address(layout, points)
        base = self.bases[index]
        return base if text == "0" else f"{base} + {text}" if base != "0" else text

    def _same_loads(self, phase: Phase) -> dict[SSAValue, Value]:
        """Operands that have one element for the whole row."""
        found: dict[SSAValue, Value] = {}
        for value in self._needed(phase):
            index = self.loads.index(value)
            if any(self.column_layouts[index].strides):
                continue
            memory = self._memory(value, False)
            found[value] = self.shader.load(memory, self.bases[index], hint_of(value, "x"))
        return found

    def _quads(
        self, phase: Phase, column: str, before: dict[SSAValue, Value]
    ) -> dict[SSAValue, str]:
        found: dict[SSAValue, str] = {}
        for value in self._needed(phase):
            index = self.loads.index(value)
            slot = self.form.loads[value].argument
            if value not in before and self._is_wide(index, slot):
                memory = self._memory(value, True)
                place = self._place(index, column)
                found[value] = self.shader.load_quad(memory, place, hint_of(value, "x"))
        return found

    def _element(
        self,
        phase: Phase,
        at: str,
        lane: str,
        before: dict[SSAValue, Value],
        vectors: dict[SSAValue, str],
    ) -> dict[SSAValue, Value]:
        """The values of one element: what is read, then what is computed."""
        full = dict(before)
        for value in self._needed(phase):
            if value in vectors:
                full[value] = Value(f"{vectors[value]}[{lane}]", self.form.dtype(value))
            elif value not in full:
                index = self.loads.index(value)
                memory = self._memory(value, False)
                full[value] = self.shader.load(memory, self._place(index, at), hint_of(value, "x"))
        for op in phase.full:
            operands = [self._full_value(v, full) for v in op.operands]
            full[op.results[0]] = self.shader.evaluate(op, operands)
        return full

    def _full_value(self, value: SSAValue, full: dict[SSAValue, Value]) -> Value:
        return full[value] if value in full else self._row_value(value)

    # Results.

    def _store(self, number: int) -> tuple[Memory, str]:
        wide = self._is_wide(-1, len(self.form.arguments) + number)
        memory = self.outputs.memory(number, wide)
        return memory, self.shader.vector("", memory.dtype, memory.name) if wide else ""

    def _store_element(self, memory: Memory, vector: str, lane: str, at: str, term: Value) -> None:
        if vector:
            self.shader.line(f"{vector}[{lane}] = {term.text};")
        else:
            self.shader.store(memory, self._place(-1, at), self.outputs.word(memory, term))

    def _store_row(self, number: int, term: Value) -> None:
        shader = self.shader
        memory = self.outputs.memory(number, False)
        if self.per_row > 1:
            shader.open("if (gl_LocalInvocationID.x == 0)")
        shader.store(memory, self.row, self.outputs.word(memory, term))
        if self.per_row > 1:
            shader.close()

    # Values of the row.

    def _row_value(self, value: SSAValue) -> Value:
        value = self.form.source(value)
        if value in self.form.splats:
            return self.shader.code.constant(self.form.splats[value])
        if value not in self.values:
            self.values[value] = self._row_load(value)
        return self.values[value]

    def _row_load(self, value: SSAValue) -> Value:
        """An operand that has one element for each row, in the order of rows."""
        form = self.form
        layout = form.loads[value].layout
        extents, (short,) = merged(layout.shape, [layout])
        points = [f"({t})" for t in coordinates(self.row, extents, "/")]
        memory = self._memory(value, False)
        return self.shader.load(memory, address(short, points), hint_of(value, "x"))


def _at_least_one(layout: Layout) -> Layout:
    return Layout(layout.shape or (1,), layout.strides or (0,), layout.offset)


def _odd(layout: Layout) -> bool:
    """Returns True if rows begin elsewhere than at quads."""
    return layout.offset % QUAD != 0 or any(s % QUAD for s in layout.strides)
