# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Row kernels: one invocation, or one workgroup (a team), goes over each row, once for every phase.

Four neighbours of a row are read at once where they are a quad; their sums stay four sums until
the end of the pass, which is also more accurate. A team then combines what its members have in
shared memory. What is written once for a row and is packed goes to a buffer of words first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_lowering.forms import Phase, Reduction, RowForm
from fuel_lowering.indexing import address, coordinates, merged, needs_64_bits
from fuel_lowering.kompute.combine import Accumulator
from fuel_lowering.kompute.outputs import Outputs
from fuel_lowering.kompute.shader import QUAD, Memory, Shader, hint_of, read_memory, shape_text
from fuel_lowering.kompute.tuning import LARGEST_TEAM, MOST_TRIPS, Tuning
from fuel_lowering.runs import Emitted
from fuel_lowering.scalars import Term

ROWS_OF_GROUP = 64
"""Rows of a workgroup where each has an invocation of its own."""


def emit_rows(form: RowForm, tuning: Tuning) -> Emitted:
    """The kernel of a form, and those that pack its results; none where there are no rows."""
    if not form.rows:
        return Emitted((), ())
    return _Rows(form, tuning).emit()


def team_of(form: RowForm, lanes: int, tuning: Tuning) -> int:
    """How many invocations share a row: one if rows are short, a power of two."""
    columns = form.columns
    turns = -(-columns // lanes)
    passes = len(form.phases)
    team = 1
    if columns > tuning.row_elements * lanes // QUAD:
        most = tuning.team if form.rows >= tuning.team or tuning.device_type == "gpu" else 64
        while team < most and team * 2 <= turns:
            team *= 2
    while passes * -(-turns // team) > MOST_TRIPS and team < LARGEST_TEAM:
        team *= 2
    if passes * -(-turns // team) > MOST_TRIPS:
        raise LoweringError(
            f"{form.name}: rows of {columns} elements read {passes} times are longer than a "
            "workgroup of a Vulkan device can be trusted to loop over"
        )
    return team


class _Rows:
    def __init__(self, form: RowForm, tuning: Tuning):
        self.form = form
        self.loads = self._full_loads()
        self._merge()
        is_even = len(self.columns) == 1 and self.columns[0] % QUAD == 0
        self.lanes = QUAD if is_even else 1
        self.team = team_of(form, self.lanes, tuning)
        local = self.team if self.team > 1 else ROWS_OF_GROUP
        self.shader = Shader(form, self._title(), (local, 1))
        self.outputs = Outputs(self.shader)
        self.values: dict[SSAValue, Term] = {}

    def _title(self) -> list[str]:
        form = self.form
        results = ", ".join(shape_text(v) for v in form.results)
        return [
            f"{form.rows} rows of {form.columns} -> {results}",
            f"{self.team} invocation{'s' if self.team > 1 else ''} for each row",
        ]

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
        """Whether four neighbours of a row are a quad of the buffer."""
        if self.lanes == 1 or slot in self.form.unaligned:
            return False
        return self.column_layouts[index].strides == (1,) and not _odd(self.row_layouts[index])

    # Text.

    def emit(self) -> Emitted:
        shader, form = self.shader, self.form
        row = shader.code.fresh("row")
        if self.team > 1:
            shader.line(f"uint {row} = min({shader.group()}, {form.rows - 1});")
        else:
            shader.line(f"uint {row} = {shader.invocation()};")
            shader.line(f"if ({row} >= {form.rows}) return;")
        self.row = row
        self.bases = self._bases()
        for op in form.prologue:
            self._row_op(op)
        for phase in form.phases:
            self._phase(phase)
        kernel = shader.kernel()
        groups = form.rows if self.team > 1 else -(-form.rows // ROWS_OF_GROUP)
        return self.outputs.finish(kernel, shader.launch(0, groups))

    def _bases(self) -> list[str]:
        texts = coordinates(self.row, self.rows, "/")
        points = [self.shader.index(t, "r") for t in texts]
        names: dict[str, str] = {}
        for layout in self.row_layouts:
            text = address(layout, points)
            if text not in names:
                names[text] = self.shader.index(text, "start")
        return [names[address(layout, points)] for layout in self.row_layouts]

    def _phase(self, phase: Phase) -> None:
        accumulators = [self._accumulator(r) for r in phase.reductions]
        if phase.reductions or phase.full_stores:
            self._pass(phase, accumulators)
        for reduction, accumulator in zip(phase.reductions, accumulators, strict=True):
            self.values[reduction.result] = accumulator.finish(self.form.columns)
        for op in phase.row:
            self._row_op(op)
        for number in phase.row_stores:
            value = self.form.results[number]
            self._store_row(number, self._row_value(value))

    def _accumulator(self, reduction: Reduction) -> Accumulator:
        source = self.form.dtype(reduction.source)
        result = self.form.dtype(reduction.result)
        hint = hint_of(reduction.result, reduction.combine)
        return Accumulator(
            self.shader, reduction.combine, source, result, self.lanes, self.team, hint
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
        first = first if self.team > 1 else "0"
        step = self.lanes * self.team
        shader.open(
            f"for (uint {column} = {first}; {column} < {self.form.columns}; {column} += {step})"
        )
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

    def _same_loads(self, phase: Phase) -> dict[SSAValue, Term]:
        """Operands that have one element for the whole row."""
        found: dict[SSAValue, Term] = {}
        for value in self._needed(phase):
            index = self.loads.index(value)
            if any(self.column_layouts[index].strides):
                continue
            memory = self._memory(value, False)
            found[value] = self.shader.load(memory, self.bases[index], hint_of(value, "x"))
        return found

    def _quads(
        self, phase: Phase, column: str, before: dict[SSAValue, Term]
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
        before: dict[SSAValue, Term],
        vectors: dict[SSAValue, str],
    ) -> dict[SSAValue, Term]:
        """The values of one element: what is read, then what is computed."""
        full = dict(before)
        for value in self._needed(phase):
            if value in vectors:
                full[value] = Term(f"{vectors[value]}[{lane}]", self.form.dtype(value))
            elif value not in full:
                index = self.loads.index(value)
                memory = self._memory(value, False)
                full[value] = self.shader.load(memory, self._place(index, at), hint_of(value, "x"))
        for op in phase.full:
            operands = [self._full_value(v, full) for v in op.operands]
            full[op.results[0]] = self.shader.evaluate(op, operands)
        return full

    def _full_value(self, value: SSAValue, full: dict[SSAValue, Term]) -> Term:
        return full[value] if value in full else self._row_value(value)

    # Results.

    def _store(self, number: int) -> tuple[Memory, str]:
        wide = self._is_wide(-1, len(self.form.arguments) + number)
        memory = self.outputs.memory(number, wide)
        return memory, self.shader.vector("", memory.dtype, memory.name) if wide else ""

    def _store_element(self, memory: Memory, vector: str, lane: str, at: str, term: Term) -> None:
        if vector:
            self.shader.line(f"{vector}[{lane}] = {term.text};")
        else:
            self.shader.store(memory, self._place(-1, at), self.outputs.word(memory, term))

    def _store_row(self, number: int, term: Term) -> None:
        shader = self.shader
        memory = self.outputs.memory(number, False)
        if self.team > 1:
            shader.open("if (gl_LocalInvocationID.x == 0)")
        shader.store(memory, self.row, self.outputs.word(memory, term))
        if self.team > 1:
            shader.close()

    # Values of the row.

    def _row_op(self, op: Operation) -> None:
        operands = [self._row_value(v) for v in op.operands]
        self.values[op.results[0]] = self.shader.evaluate(op, operands)

    def _row_value(self, value: SSAValue) -> Term:
        value = self.form.source(value)
        if value in self.form.splats:
            return self.shader.code.constant(self.form.splats[value])
        if value not in self.values:
            self.values[value] = self._row_load(value)
        return self.values[value]

    def _row_load(self, value: SSAValue) -> Term:
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
    """Whether rows begin elsewhere than at quads."""
    return layout.offset % QUAD != 0 or any(s % QUAD for s in layout.strides)
