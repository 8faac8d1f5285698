# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Pointwise kernels and movement: an invocation computes four neighbours of the result.

The four are one quad of every result, which is contiguous, and of every operand that lies along
with it; the others are read element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.numbers import int_tuple, int_value
from fuel_dialect.ops.indexing import GatherOp, IndexingOp
from fuel_dialect.ops.memory import WriteAtOp, WriteOp, WriteSliceRotatingOp
from fuel_dialect.ops.shape import ConcatOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Elementwise, Movement
from fuel_lowering.kernels.form import Load
from fuel_lowering.kernels.indexing import address, coordinates, merged, needs_64_bits
from fuel_lowering.kernels.map import MapForm
from fuel_lowering.kompute.outputs import Outputs
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
from fuel_lowering.runs.emitter import CHECK, Emitted
from fuel_lowering.scalars.values import Value

LOCAL = 256
"""Invocations of a workgroup."""

NOWHERE = -2
"""The slot of a constant."""


def emit_map(form: MapForm) -> Emitted:
    """The kernel of a form; none where it has no points."""
    if not prod(form.shape):
        return Emitted((), ())
    writer = _Map(form)
    writer.write()
    kernel = writer.shader.kernel()
    groups = -(-prod(form.shape) // (QUAD * LOCAL))
    return writer.outputs.finish([kernel], [writer.shader.launch(0, groups)])


@dataclass(frozen=True)
class _Source:
    """Elements that a point reads: a slot, and where they lie over the points."""

    slot: int
    layout: Layout


class _Map:
    def __init__(self, form: MapForm):
        self.form = form
        self.points = prod(form.shape)
        self.copies = self._only_copies()
        self.shader = Shader(form, self._title(), (LOCAL, 1))
        self.outputs = Outputs(self.shader)
        self.sources: dict[SSAValue, _Source] = {}
        self.moved: dict[Operation, list[_Source]] = {}
        self.axes: dict[tuple[Operation, int], int] = {}
        self.values: dict[SSAValue, Value] = {}
        self._gather_sources()
        self._merge()

    def _only_copies(self) -> bool:
        """Whether bits are moved and nothing else; results in place, so that types do not count."""
        form = self.form
        in_place = not any(slot >= len(form.arguments) for slot in form.unaligned)
        if form.splats or (self.points % QUAD and form.moves) or not in_place:
            return False
        return not any(op.has_trait(Elementwise) for op in form.ops)

    def _title(self) -> list[str]:
        results = ", ".join(shape_text(v) for v in self.form.results)
        return [f"{list(self.form.shape)} points -> {results}"]

    # What is read, over few axes.

    def _gather_sources(self) -> None:
        form = self.form
        wanted = list(form.results)
        for op in form.ops:
            if op.has_trait(Movement):
                self.moved[op] = self._moved(op)
            if isinstance(op, WriteOp):
                wanted.append(op.input)
            if isinstance(op, WriteAtOp):
                self._gather_position(op)
            elif not op.has_trait(Movement):
                wanted += op.operands
        for value in wanted:
            if value in form.loads:
                load = form.loads[value]
                self.sources[value] = _Source(load.argument, load.layout)

    def _gather_position(self, op: WriteAtOp) -> None:
        """The position of a write is one element for all points."""
        load = self.form.loads.get(op.position)
        if load is not None:
            steps = (0,) * len(self.form.shape)
            layout = Layout(self.form.shape, steps, load.layout.offset)
            self.sources[op.position] = _Source(load.argument, layout)

    def _moved(self, op: Operation) -> list[_Source]:
        """Operands of a movement op as if they had the shape of its result."""
        if isinstance(op, WriteOp):
            return [self._part(op)]
        loads = [self._operand(v) for v in op.operands]
        (dim,) = _dims(op)
        if isinstance(op, ConcatOp):
            return self._concatenated(loads, dim)
        assert isinstance(op, IndexingOp)
        data, indices = (load.layout for load in loads)
        along = tuple(0 if a == dim else s for a, s in enumerate(data.strides))
        steps = indices.strides
        if not isinstance(op, GatherOp):
            steps = tuple(steps[0] if a == dim else 0 for a in range(len(data.shape)))
        return [
            _Source(loads[0].argument, Layout(self.form.shape, along, data.offset)),
            _Source(loads[1].argument, Layout(self.form.shape, steps, indices.offset)),
        ]

    def _part(self, op: WriteOp) -> _Source:
        """The source of a write, from where it begins; at its first element along the axis."""
        load, starts = self._operand(op.source), int_tuple(op.starts)
        steps = load.layout.strides
        offset = load.layout.offset - sum(s * step for s, step in zip(starts, steps, strict=True))
        if isinstance(op, WriteAtOp):
            axis = int_value(op.axis)
            steps = (*steps[:axis], 0, *steps[axis + 1 :])
        return _Source(load.argument, Layout(self.form.shape, steps, offset))

    def _operand(self, value: SSAValue) -> Load:
        """Where an operand of a movement op lies; one that is a constant lies nowhere."""
        shape = tuple(tensor_type(value).get_shape())
        return self.form.loads.get(value) or Load(NOWHERE, Layout.contiguous(shape))

    def _concatenated(self, loads: Sequence[Load], dim: int) -> list[_Source]:
        sources: list[_Source] = []
        start = 0
        for load in loads:
            layout = load.layout
            offset = layout.offset - start * layout.strides[dim]
            sources.append(_Source(load.argument, Layout(self.form.shape, layout.strides, offset)))
            start += layout.shape[dim]
        return sources

    def _merge(self) -> None:
        form = self.form
        every = [*self.sources.values(), *(s for each in self.moved.values() for s in each)]
        kept = [(op, dim) for op in self.moved for dim in _dims(op)]
        keep = {dim for _, dim in kept}
        markers = [_marker(form.shape, dim) for _, dim in kept]
        layouts = [source.layout for source in every] + markers
        if needs_64_bits(self.points, layouts):
            raise LoweringError(
                f"{form.name}: {list(form.shape)} needs 64-bit indices, which kompute does not use"
            )
        extents, short = merged(form.shape, layouts, keep)
        self.extents = extents or (1,)
        short = [Layout(self.extents, s.strides or (0,), s.offset) for s in short]
        again = iter(_Source(s.slot, layout) for s, layout in zip(every, short, strict=False))
        self.sources = {value: next(again) for value in self.sources}
        self.moved = {op: [next(again) for _ in each] for op, each in self.moved.items()}
        for key, marker in zip(kept, short[len(every) :], strict=True):
            self.axes[key] = marker.strides.index(1)

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
        """Whether the four points of an invocation differ in the last coordinate alone."""
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
        scalars = [s for v, s in self.sources.items() if v not in self.values]
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
        known: dict[tuple[int, Layout], Value | str] = {}
        for value, source in self.sources.items():
            key = source.slot, source.layout
            if key not in known:
                found = self._load_before(value, source)
                if found is None:
                    continue
                known[key] = found
            got = known[key]
            self.values[value] = Value("", self.dtype(value)) if isinstance(got, str) else got
            if isinstance(got, str):
                vectors[value] = got
        return vectors

    def _load_before(self, value: SSAValue, source: _Source) -> Value | str | None:
        layout, shader = source.layout, self.shader
        start = self.outer or [self.first]
        hint = hint_of(value, "x")
        if layout.strides[-1] == 0:
            return shader.load(self._memory(value, source, False), address(layout, start), hint)
        if not is_wide(layout) or source.slot in self.form.unaligned:
            return None
        return shader.load_quad(self._memory(value, source, True), address(layout, start), hint)

    def _memory(self, value: SSAValue, source: _Source, wide: bool) -> Memory:
        return read_memory(self.shader, source.slot, self.dtype(value), wide)

    def _points(self, vectors: dict[SSAValue, str]) -> None:
        shader, lane = self.shader, self.lane
        for value, vector in vectors.items():
            self.values[value] = Value(f"{vector}[{lane}]", self.dtype(value))
        loaded: dict[_Source, Value] = {}
        for value, source in self.sources.items():
            if value in self.values:
                continue
            if source not in loaded:
                memory = self._memory(value, source, False)
                place = address(source.layout, self.point)
                loaded[source] = shader.load(memory, place, hint_of(value, "x"))
            self.values[value] = loaded[source]
        for op in self.form.ops:
            if op in self.moved:
                self.values[op.results[0]] = self._move(op)
            else:
                operands = [self._value(v) for v in op.operands]
                self.values[op.results[0]] = shader.evaluate(op, operands)

    def _value(self, value: SSAValue) -> Value:
        if value in self.form.splats:
            return self.shader.code.constant(self.form.splats[value])
        return self.values[value]

    # Movement.

    def _move(self, op: Operation) -> Value:
        result = op.results[0]
        dtype = self.dtype(result)
        first = self.shader.code.number(0, dtype)
        if isinstance(op, WriteOp):
            first = self._value(op.input)
        name = self.shader.code.fresh(hint_of(result, "moved"))
        self.shader.line(self.shader.code.language.let(name, first.register, first.text))
        if isinstance(op, WriteOp):
            self._write(op, name)
        elif isinstance(op, ConcatOp):
            self._concat(op, name)
        else:
            self._indexed(op, name)
        return Value(name, dtype)

    def _concat(self, op: ConcatOp, name: str) -> None:
        shader = self.shader
        (dim,) = _dims(op)
        at, end = self.point[self.axes[op, dim]], 0
        for value, source in zip(op.operands, self.moved[op], strict=True):
            word = "else if" if end else "if"
            end += tensor_type(value).get_shape()[dim]
            shader.open(f"{word} ({at} < {end})")
            term = self._element(value, source, address(source.layout, self.point))
            shader.line(f"{name} = {term.text};")
            shader.close()

    def _indexed(self, op: Operation, name: str) -> None:
        shader = self.shader
        data, indices = self.moved[op]
        value, index_value = op.operands
        at = self._element(index_value, indices, address(indices.layout, self.point))
        layout = self._operand(value).layout
        (dim,) = _dims(op)
        extent, step = layout.shape[dim], layout.strides[dim]
        shader.open(f"if ({at.text} < {extent}u)")
        place = address(data.layout, self.point)
        moved = address(Layout((extent,), (step,), 0), [at.text])
        term = self._element(value, data, f"{place} + {moved}")
        shader.line(f"{name} = {term.text};")
        shader.close()
        shader.line(f"else {self._told(op)}")

    def _told(self, op: Operation) -> str:
        """The statement that tells of an index out of range."""
        number = self.form.checks.index(op)
        wrong = f"{CHECK} + {number}" if number else CHECK
        return f"{self.shader.status()}[0] = {wrong};"

    def _write(self, op: WriteOp, name: str) -> None:
        """The source's element where the point is in it; `name` has the destination's."""
        shader, (source,) = self.shader, self.moved[op]
        place, inside = address(source.layout, self.point), list[str]()
        layout = self._operand(op.source).layout
        for dim in _dims(op):
            at, width = self.point[self.axes[op, dim]], layout.shape[dim]
            if isinstance(op, WriteAtOp) and dim == int_value(op.axis):
                at, conditions = self._along_axis(op, at)
                inside += conditions
                step = Layout((width,), (layout.strides[dim],), 0)
                place = f"{place} + {address(step, [at])}".removeprefix("0 + ")
            elif start := int_tuple(op.starts)[dim]:
                at = f"{at} - {start}u"
            inside.append(f"{at} < {width}u")
        if inside:
            shader.open(f"if ({' && '.join(inside)})")
        term = self._element(op.source, source, place)
        shader.line(f"{name} = {term.text};")
        if inside:
            shader.close()

    def _along_axis(self, op: WriteAtOp, at: str) -> tuple[str, list[str]]:
        """How far a point is from the position, modulo 2^32 or in the ring, and what must hold."""
        shader, position, axis = self.shader, self._value(op.position).text, int_value(op.axis)
        if isinstance(op, WriteSliceRotatingOp):
            modulus = int_value(op.modulus)
            begin = shader.index(f"{position} % {modulus}u", "begin")
            around = f"{at} - {begin} + ({at} < {begin} ? {modulus}u : 0u)"
            return shader.index(around, "place"), [f"{at} < {modulus}u"]
        last = self.form.shape[axis] - tensor_type(op.source).get_shape()[axis]
        shader.line(f"if ({position} > {last}u) {self._told(op)}")
        return shader.index(f"{at} - {position}", "place"), [f"{position} <= {last}u"]

    def _element(self, value: SSAValue, source: _Source, place: str) -> Value:
        """One element of an operand of a movement op."""
        if source.slot == NOWHERE:
            return self.shader.code.constant(self.form.splats[value])
        return self.shader.load(self._memory(value, source, False), place, hint_of(value, "x"))

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
            term = self._value(value)
            if vector:
                shader.line(f"{vector}[{self.lane}] = {term.text};")
                continue
            at = f"{self.first} + {self.lane}"
            place = f"{memory.name}[{memory.place(at)}]"
            word = self.outputs.word(memory, term)
            shader.line(f"if ({at} < {self.points}) {place} = {word};")


def _dims(op: Operation) -> tuple[int, ...]:
    """The axes along which the coordinate says what a movement op reads."""
    if isinstance(op, ConcatOp | IndexingOp):
        return (int_value(op.dim),)
    assert isinstance(op, WriteOp)
    axis = int_value(op.axis) if isinstance(op, WriteAtOp) else -1
    ends = zip(tensor_type(op.source).get_shape(), tensor_type(op.input).get_shape(), strict=True)
    return tuple(d for d, (width, extent) in enumerate(ends) if d == axis or width != extent)


def _marker(shape: Sequence[int], dim: int) -> Layout:
    """A layout that only says which axis `dim` is."""
    return Layout(tuple(shape), tuple(int(a == dim) for a in range(len(shape))), 0)
