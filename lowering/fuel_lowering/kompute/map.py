# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Pointwise kernels and movement: an invocation computes four neighbours of the result.

The four are one quad of every result, which is contiguous, and of every operand that lies along
with it; the others are read element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.movement import MovementOp
from fuel_dialect.traits import Elementwise
from fuel_lowering.kernels.form import Load
from fuel_lowering.kernels.indexing import address, coordinates, merged, needs_64_bits
from fuel_lowering.kernels.map import MapForm
from fuel_lowering.kernels.movement import Source, sources_of
from fuel_lowering.kompute.movement import PieceReader
from fuel_lowering.kompute.outputs import Outputs
from fuel_lowering.kompute.tuning import Tuning
from fuel_lowering.kompute.writer import (
    QUAD,
    Memory,
    Shader,
    hint_of,
    is_wide,
    raw,
    read_memory,
    shape_text,
    write_memory,
)
from fuel_lowering.runs.emitter import Emitted
from fuel_lowering.scalars.values import Value

LOCAL = 256
"""Invocations of a workgroup."""


def emit_map(form: MapForm, tuning: Tuning) -> Emitted:
    """The kernel of a form; none where it has no points."""
    if not prod(form.shape):
        return Emitted((), ())
    writer = _Map(form)
    writer.write()
    kernel = writer.shader.kernel()
    groups = -(-prod(form.shape) // (QUAD * LOCAL))
    return writer.outputs.finish([kernel], [writer.shader.launch(0, groups)])


class _Map:
    """Writes the shader of a form."""

    def __init__(self, form: MapForm):
        self.form = form
        self.points = prod(form.shape)
        self.copies = self._only_copies()
        self.shader = Shader(form, self._title(), (LOCAL, 1))
        self.outputs = Outputs(self.shader)
        self.loads: dict[SSAValue, Load] = {}
        self.moved: dict[MovementOp, list[Source]] = {}
        self.axes: dict[int, int] = {}
        self.values: dict[SSAValue, Value] = {}
        self._gather_sources()
        self._merge()

    def _only_copies(self) -> bool:
        """Returns True if bits are moved alone, and results in place: types do not count."""
        form = self.form
        in_place = not any(slot >= len(form.arguments) for slot in form.unaligned)
        if (self.points % QUAD and form.moves) or not in_place:
            return False
        return not any(op.has_trait(Elementwise) for op in form.ops)

    def _title(self) -> list[str]:
        results = ", ".join(shape_text(v) for v in self.form.results)
        return [f"{list(self.form.shape)} points -> {results}"]

    # What is read, over few axes.

    def _gather_sources(self) -> None:
        """Collects the pieces of movement ops, and the loads that points read where they are."""
        form = self.form
        wanted = list(form.results)
        for op in form.ops:
            if not isinstance(op, MovementOp):
                wanted += op.operands
                continue
            self.moved[op] = sources_of(form, op, form.shape)
            for source in self.moved[op]:
                if source.is_whole:
                    wanted.append(source.value)
                self._gather_index(source)
        for value in wanted:
            if value in form.loads:
                self.loads[value] = form.loads[value]

    def _gather_index(self, source: Source) -> None:
        """Adds an index that is one element for all points to the loads."""
        index = source.index
        if index is not None and index.load is not None and index.is_repeated:
            self.loads[index.value] = index.load

    def _layouts(self) -> list[Load]:
        """Returns all that is read, in the order in which `_merge` puts it back."""
        pieces = [source for sources in self.moved.values() for source in sources]
        indices = [source.index for source in pieces if source.index is not None]
        loads = [each.load for each in (*pieces, *indices) if each.load is not None]
        return [*self.loads.values(), *loads]

    def _merge(self) -> None:
        """Iterates over few axes: those that every layout steps through as one become one."""
        form, every = self.form, self._layouts()
        keep = sorted({axis for sources in self.moved.values() for s in sources for axis in s.axes})
        markers = [_marker(form.shape, axis) for axis in keep]
        layouts = [load.layout for load in every] + markers
        if needs_64_bits(self.points, layouts):
            raise LoweringError(
                f"{form.name}: {list(form.shape)} needs 64-bit indices, which kompute does not use"
            )
        extents, short = merged(form.shape, layouts, keep)
        self.extents = extents or (1,)
        short = [Layout(self.extents, s.strides or (0,), s.offset) for s in short]
        over = {
            load: replace(load, layout=layout)
            for load, layout in zip(every, short[: len(every)], strict=True)
        }
        self.loads = {value: over[load] for value, load in self.loads.items()}
        self.moved = {
            op: [source.over(over) for source in sources] for op, sources in self.moved.items()
        }
        self.axes = {
            axis: marker.strides.index(1)
            for axis, marker in zip(keep, short[len(every) :], strict=True)
        }

    # Text.

    def dtype(self, value: SSAValue) -> DType:
        dtype = self.form.dtype(value)
        return raw(dtype) if self.copies else dtype

    def write(self) -> None:
        shader = self.shader
        i = shader.code.fresh("i")
        quads = -(-self.points // QUAD)
        q = shader.code.fresh("q")
        shader.line(f"uint {q} = {shader.invocation()};")
        shader.line(f"if ({q} >= {quads}) return;")
        shader.line(f"uint {i} = {QUAD} * {q};")
        self.first = i
        self.lane = shader.code.fresh("lane")
        self._outer()
        before = self._loads_before()
        outputs = [self._output(number) for number in range(len(self.form.results))]
        shader.open(f"[[unroll]] for (uint {self.lane} = 0; {self.lane} < {QUAD}; {self.lane}++)")
        self._inner()
        self._points(before)
        self._give(outputs)
        shader.close()
        for memory, vector in outputs:
            if vector:
                shader.store_quad(memory, i, vector)

    @property
    def is_stepped(self) -> bool:
        """True if the four points of an invocation differ in the last coordinate alone."""
        return len(self.extents) == 1 or self.extents[-1] % QUAD == 0

    def _outer(self) -> None:
        """The coordinates of the first point, where the others are beside it."""
        self.outer: list[str] = []
        if self.is_stepped and len(self.extents) > 1:
            texts = coordinates(self.first, self.extents, "/")
            self.outer = [self.shader.index(t, f"c{a}") for a, t in enumerate(texts)]

    def _inner(self) -> None:
        """The coordinates of a point."""
        shader = self.shader
        scalars = [s for v, s in self.loads.items() if v not in self.values]
        self.point: list[str] = []
        if not scalars and not self.moved:
            return
        if self.outer:
            last = shader.index(f"{self.outer[-1]} + {self.lane}", "c")
            self.point = [*self.outer[:-1], last]
            return
        text = f"{self.first} + {self.lane}"
        if self.points % QUAD:
            text = f"min({text}, {self.points - 1})"
        p = shader.index(text, "p")
        texts = coordinates(p, self.extents, "/")
        self.point = [shader.index(t, f"c{a}") for a, t in enumerate(texts)]

    def _loads_before(self) -> dict[SSAValue, str]:
        """Vectors of what lies along with the result, and what is one element for all four."""
        if not self.is_stepped:
            return {}
        vectors: dict[SSAValue, str] = {}
        known: dict[Load, Value | str] = {}
        for value, load in self.loads.items():
            if load not in known:
                found = self._load_before(value, load)
                if found is None:
                    continue
                known[load] = found
            got = known[load]
            self.values[value] = Value("", self.dtype(value)) if isinstance(got, str) else got
            if isinstance(got, str):
                vectors[value] = got
        return vectors

    def _load_before(self, value: SSAValue, load: Load) -> Value | str | None:
        layout, shader = load.layout, self.shader
        start = self.outer or [self.first]
        hint = hint_of(value, "x")
        if layout.strides[-1] == 0:
            return shader.load(self._memory(value, load, False), address(layout, start), hint)
        if not is_wide(layout) or load.argument in self.form.unaligned:
            return None
        return shader.load_quad(self._memory(value, load, True), address(layout, start), hint)

    def _memory(self, value: SSAValue, load: Load, wide: bool) -> Memory:
        return read_memory(self.shader, load.argument, self.dtype(value), wide)

    def _points(self, vectors: dict[SSAValue, str]) -> None:
        shader, lane = self.shader, self.lane
        for value, vector in vectors.items():
            self.values[value] = Value(f"{vector}[{lane}]", self.dtype(value))
        loaded: dict[Load, Value] = {}
        for value, load in self.loads.items():
            if value in self.values:
                continue
            if load not in loaded:
                memory = self._memory(value, load, False)
                place = address(load.layout, self.point)
                loaded[load] = shader.load(memory, place, hint_of(value, "x"))
            self.values[value] = loaded[load]
        for op in self.form.ops:
            if isinstance(op, MovementOp):
                self.values[op.results[0]] = self._move(op)
            else:
                operands = [self.value(v) for v in op.operands]
                self.values[op.results[0]] = shader.evaluate(op, operands)

    def value(self, value: SSAValue) -> Value:
        """Returns a value at the points: a constant, or what is loaded or computed already."""
        if value in self.form.splats:
            return self.constant(self.form.splats[value])
        return self.values[value]

    # Movement.

    def _move(self, op: MovementOp) -> Value:
        coordinates = {axis: self.point[merged] for axis, merged in self.axes.items()}
        reader = PieceReader(self, op, self.moved[op], self.point, coordinates)
        return reader.write()

    def element(self, value: SSAValue, load: Load | None, place: str) -> Value:
        """Returns one element of an operand of a movement op; a constant has no place."""
        if load is None:
            return self.value(value)
        return self.shader.load(self._memory(value, load, False), place, hint_of(value, "x"))

    def constant(self, number: np.ndarray[Any, Any]) -> Value:
        """Returns a constant, of which the shader may move the bits alone."""
        kept = raw(dtypes.of(number.dtype)) if self.copies else dtypes.of(number.dtype)
        return self.shader.code.constant(number.view(kept.numpy))

    # Results.

    def _output(self, number: int) -> tuple[Memory, str]:
        """The buffer of a result, and the vector to be written to it; '' where there is none."""
        form = self.form
        value = form.results[number]
        slot = len(form.arguments) + number
        by_quads = slot not in form.unaligned and not (slot in form.moves and self.points % QUAD)
        if by_quads:
            memory = write_memory(self.shader, slot, self.dtype(value), self.points, True, value)
            return memory, self.shader.vector("", memory.dtype, memory.name)
        return self.outputs.memory(number, False), ""

    def _give(self, outputs: Sequence[tuple[Memory, str]]) -> None:
        shader = self.shader
        for value, (memory, vector) in zip(self.form.results, outputs, strict=True):
            term = self.value(value)
            if vector:
                shader.line(f"{vector}[{self.lane}] = {term.text};")
                continue
            at = f"{self.first} + {self.lane}"
            place = f"{memory.name}[{memory.place(at)}]"
            word = self.outputs.word(memory, term)
            shader.line(f"if ({at} < {self.points}) {place} = {word};")


def _marker(shape: Sequence[int], dim: int) -> Layout:
    """Returns a layout that only says which axis `dim` is."""
    return Layout(tuple(shape), tuple(int(a == dim) for a in range(len(shape))), 0)
