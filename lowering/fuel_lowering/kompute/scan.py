# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Scans: an invocation takes its points through all steps, the carries in registers.

A loop may have only so many turns, so a long scan is several launches; between them the carries lie
in buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.ir import SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_lowering.kernels.indexing import address, coordinates, merged, needs_64_bits
from fuel_lowering.kernels.scan import ScanForm, schedule_scan
from fuel_lowering.kompute.language import TYPES, VECTORS
from fuel_lowering.kompute.outputs import Outputs
from fuel_lowering.kompute.tuning import Tuning
from fuel_lowering.kompute.writer import (
    QUAD,
    Memory,
    Shader,
    hint_of,
    is_wide,
    read_memory,
    register_dtype,
    shape_text,
)
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.scalars.values import REGISTERS, Value

LOCAL = 64
"""Invocations of a workgroup."""

MOST_STEPS = 16_384
"""Steps of one launch."""


def emit_scan(form: ScanForm, tuning: Tuning) -> Emitted:
    """The kernel of a form and its launches; none where there are no points."""
    if not prod(form.shape):
        return Emitted((), ())
    return _Scan(form, tuning).emit()


class _Scan:
    def __init__(self, form: ScanForm, tuning: Tuning):
        self.form = form
        self.points = prod(form.shape)
        packed = any(form.dtype(v).itemsize < 4 for v in form.results)
        lanes = max(tuning.scan_lanes, QUAD if packed else 1)
        self.lanes = lanes if self.points % QUAD == 0 else 1
        self.schedule = schedule_scan(form, self.lanes, MOST_STEPS)
        self.shader = Shader(form, self._title(), (LOCAL, 1))
        self.outputs = Outputs(self.shader)
        self._merge()
        self.kept: list[Memory] = []

    def _title(self) -> list[str]:
        form = self.form
        results = ", ".join(shape_text(v) for v in form.results)
        return [f"{form.length} steps at {list(form.shape)} points -> {results}"]

    # What is read.

    def _read(self) -> list[SSAValue]:
        form = self.form
        values = [v for op in form.ops for v in op.operands]
        values += [*form.next_carries, *form.ys, *form.inits]
        return [v for v in dict.fromkeys(values) if v in form.loads]

    def _merge(self) -> None:
        form = self.form
        values = self._read()
        layouts = [form.loads[v].layout for v in values]
        far = [self.points * form.length, *(abs(s) * form.length for s in form.x_steps.values())]
        if needs_64_bits(max(far), layouts):
            raise LoweringError(
                f"{form.name}: {form.length} steps over {list(form.shape)} need 64-bit indices, "
                "which kompute does not use"
            )
        extents, short = merged(form.shape, layouts)
        self.extents = extents or (1,)
        fixed = [Layout(self.extents, s.strides or (0,), s.offset) for s in short]
        self.layouts = dict(zip(values, fixed, strict=True))

    def _is_wide(self, value: SSAValue) -> bool:
        form, layout = self.form, self.layouts[value]
        if self.lanes == 1 or form.loads[value].argument in form.unaligned:
            return False
        is_stepped = len(self.extents) == 1 or self.extents[-1] % QUAD == 0
        return is_stepped and is_wide(layout) and form.x_steps.get(value, 0) % QUAD == 0

    # The whole.

    def emit(self) -> Emitted:
        shader, form = self.shader, self.form
        self._start()
        self.constants = self._fixed()
        pairs = zip(form.carries, form.inits, strict=True)
        self.carries = [self._carry(value, init) for value, init in pairs]
        if self.schedule.is_cut:
            self._take_up()
        self._steps()
        if self.schedule.is_cut:
            self._hand_on()
        self._give_carries()
        kernel = shader.kernel()
        return self.outputs.finish([kernel], self._launches())

    def _launches(self) -> list[EmittedLaunch]:
        groups = self.schedule.groups(self.form, LOCAL)
        parts = self.schedule.parts
        return [self.shader.launch(0, groups, first=first, last=last) for first, last in parts]

    def _start(self) -> None:
        """The first point of the invocation, and the coordinates of each of its points."""
        shader = self.shader
        self.first = shader.index(
            f"{self.lanes} * ({shader.invocation()})" if self.lanes > 1 else shader.invocation(),
            "i",
        )
        shader.line(f"if ({self.first} >= {self.points}) return;")
        self.lane = shader.code.fresh("lane")
        texts = coordinates(self.first, self.extents, "/")
        self.point = [shader.index(t, "c") for t in texts]

    def lanes_open(self) -> None:
        if self.lanes > 1:
            name = self.lane
            self.shader.open(f"[[unroll]] for (uint {name} = 0; {name} < {QUAD}; {name}++)")

    def lanes_close(self) -> None:
        if self.lanes > 1:
            self.shader.close()

    @property
    def at(self) -> str:
        return f"[{self.lane}]" if self.lanes > 1 else ""

    def _points(self) -> list[str]:
        """The coordinates of one of the points."""
        if self.lanes == 1:
            return self.point
        if len(self.extents) == 1 or self.extents[-1] % QUAD == 0:
            return [*self.point[:-1], f"({self.point[-1]} + {self.lane})"]
        texts = coordinates(f"({self.first} + {self.lane})", self.extents, "/")
        return [f"({text})" for text in texts]

    # Elements.

    def _fixed(self) -> dict[SSAValue, str]:
        """Reads what the steps share, once, before them: a register, or a vector of four."""
        form = self.form
        read = {v for op in form.ops for v in op.operands} | {*form.next_carries, *form.ys}
        wanted = [v for v in self.layouts if v not in form.x_steps and v in read]
        return {value: self._register(value, None) for value in wanted}

    def _register(self, value: SSAValue, step: str | None) -> str:
        """A register with the elements of the invocation's points, at one step."""
        shader, form = self.shader, self.form
        layout = self.layouts[value]
        dtype = form.dtype(value)
        hint = hint_of(value, "x")
        if self._is_wide(value):
            memory = read_memory(shader, form.loads[value].argument, dtype, True)
            return shader.load_quad(memory, self._place(layout, self.point, value, step), hint)
        memory = read_memory(shader, form.loads[value].argument, dtype, False)
        if self.lanes == 1:
            return shader.load(memory, self._place(layout, self.point, value, step), hint).text
        vector = shader.vector("", dtype, hint)
        self.lanes_open()
        term = shader.load(memory, self._place(layout, self._points(), value, step), hint)
        shader.line(f"{vector}[{self.lane}] = {term.text};")
        self.lanes_close()
        return vector

    def _place(self, layout: Layout, points: list[str], value: SSAValue, step: str | None) -> str:
        text = address(layout, points)
        size = self.form.x_steps.get(value, 0)
        if step is None or not size:
            return text
        moved = f"{step} * {abs(size)}"
        sign = "+" if size > 0 else "-"
        return moved if text == "0" and size > 0 else f"{text} {sign} {moved}"

    def _carry(self, value: SSAValue, init: SSAValue) -> str:
        """A variable for a carry, with its initial value."""
        form, shader = self.form, self.shader
        dtype = form.dtype(value)
        hint = hint_of(value, "carry")
        if init in form.splats:
            initial = shader.code.constant(form.splats[init]).text
        else:
            initial = self._register(init, None)
        if self.lanes > 1:
            type = VECTORS[REGISTERS[dtype.name]]
            return shader.named(type, f"{type}({initial})", f"{hint}_now")
        qualifier = "precise " if dtype.is_float else ""
        return shader.named(f"{qualifier}{TYPES[REGISTERS[dtype.name]]}", initial, f"{hint}_now")

    # The steps.

    def _steps(self) -> None:
        shader, form = self.shader, self.form
        if form.is_idle:
            return
        first, last = "0", str(form.length)
        if self.schedule.is_cut:
            first, last = (shader.scalar(name) for name in ("first", "last"))
        count = shader.code.fresh("count")
        shader.open(f"for (uint {count} = {first}; {count} < {last}; {count}++)")
        step = count
        if form.reverse:
            step = shader.index(f"{form.length - 1} - {count}", "step")
        moving = {v: self._register(v, step) for v in self.layouts if v in form.x_steps}
        ys = self._stacks()
        self.lanes_open()
        self._body({**self.constants, **moving}, ys, step)
        self.lanes_close()
        for memory, vector, _ in ys:
            if vector:
                shader.store_quad(memory, self._stacked(step), vector)
        shader.close()

    def _stacked(self, step: str) -> str:
        return f"{step} * {self.points} + {self.first}"

    def _stacks(self) -> list[tuple[Memory, str, SSAValue]]:
        """For each result that stacks ys: its buffer, a vector to be written, and the value."""
        form = self.form
        found: list[tuple[Memory, str, SSAValue]] = []
        for number, (kind, index) in enumerate(form.sources):
            if kind == "y":
                memory = self.outputs.memory(number, self._stores_quads(number))
                vector = self.shader.vector("", memory.dtype, memory.name) if memory.wide else ""
                found.append((memory, vector, form.ys[index]))
        return found

    def _stores_quads(self, number: int) -> bool:
        return self.lanes > 1 and len(self.form.arguments) + number not in self.form.unaligned

    def _body(
        self,
        registers: dict[SSAValue, str],
        ys: list[tuple[Memory, str, SSAValue]],
        step: str,
    ) -> None:
        shader, form = self.shader, self.form
        values = {v: Value(f"{name}{self.at}", form.dtype(v)) for v, name in registers.items()}
        for value, name in zip(form.carries, self.carries, strict=True):
            values[value] = Value(f"{name}{self.at}", form.dtype(value))

        def known(value: SSAValue) -> Value:
            if value in form.splats:
                return shader.code.constant(form.splats[value])
            return values[value]

        for op in form.ops:
            values[op.results[0]] = shader.evaluate(op, [known(v) for v in op.operands])
        for memory, vector, value in ys:
            self._stack(memory, vector, known(value), step)
        self._copy({i: known(form.next_carries[i]) for i in form.changing})

    def _copy(self, following: Mapping[int, Value]) -> None:
        """Copy next values into the carries in parallel: carries among them are saved first."""
        carries = {f"{name}{self.at}" for name in self.carries}
        code = self.shader.code
        saved = {
            number: code.let(term.text, term.dtype, "saved") if term.text in carries else term
            for number, term in following.items()
        }
        for number, term in saved.items():
            self.shader.line(f"{self.carries[number]}{self.at} = {term.text};")

    def _stack(self, memory: Memory, vector: str, term: Value, step: str) -> None:
        if vector:
            self.shader.line(f"{vector}[{self.lane}] = {term.text};")
            return
        place = self._stacked(step) + (f" + {self.lane}" if self.lanes > 1 else "")
        self.shader.store(memory, place, self._word(memory, term))

    def _word(self, memory: Memory, term: Value) -> str:
        is_word = memory.slot >= len(self.form.arguments) + len(self.form.results)
        return self.outputs.word(memory, term) if is_word else term.text

    # The carries between launches, and at the end.

    def _take_up(self) -> None:
        """Begin where the launch before ended."""
        shader, form = self.shader, self.form
        first = shader.scalar("first")
        for value in form.carries:
            dtype = register_dtype(form.dtype(value))
            slot = self.outputs.temporary(dtype.name, self.points)
            self.kept.append(shader.exchanges(slot, dtype, self.points, "carry_before"))
        shader.open(f"if ({first} > 0)")
        self.lanes_open()
        for value, name, memory in zip(form.carries, self.carries, self.kept, strict=True):
            text = f"{memory.name}[{self._point_place()}]"
            if form.dtype(value).name == "i1":
                text = f"{text} != 0"
            shader.line(f"{name}{self.at} = {text};")
        self.lanes_close()
        shader.close()

    def _point_place(self) -> str:
        return f"{self.first} + {self.lane}" if self.lanes > 1 else self.first

    def _hand_on(self) -> None:
        shader, form = self.shader, self.form
        shader.open(f"if ({shader.scalar('last')} < {form.length})")
        self.lanes_open()
        for value, name, memory in zip(form.carries, self.carries, self.kept, strict=True):
            text = self.outputs.word(memory, Value(f"{name}{self.at}", form.dtype(value)))
            shader.line(f"{memory.name}[{self._point_place()}] = {text};")
        self.lanes_close()
        shader.line("return;")
        shader.close()

    def _give_carries(self) -> None:
        """Write the final carries that are results."""
        shader, form = self.shader, self.form
        for number, (kind, index) in enumerate(form.sources):
            if kind != "carry":
                continue
            memory = self.outputs.memory(number, self._stores_quads(number))
            name = self.carries[index]
            if memory.wide:
                shader.store_quad(memory, self.first, name)
                continue
            self.lanes_open()
            term = Value(f"{name}{self.at}", form.dtype(form.carries[index]))
            shader.store(memory, self._point_place(), self._word(memory, term))
            self.lanes_close()
