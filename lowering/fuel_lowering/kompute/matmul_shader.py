# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The shader of a product, but for its loop along k.

An invocation keeps the sums of a tile in registers. The loops are written as loops and unrolled by
the compiler. A sum that is longer than a loop may be is several launches that hand their sums on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.ir import SSAValue

from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_lowering.kernels.form import Load
from fuel_lowering.kernels.indexing import address, coordinates, merged, needs_64_bits
from fuel_lowering.kernels.matmul import MatmulForm
from fuel_lowering.kernels.matmul_schedule import MatmulSchedule, Tile
from fuel_lowering.kompute.language import TYPES, VECTORS
from fuel_lowering.kompute.outputs import Outputs
from fuel_lowering.kompute.writer import (
    QUAD,
    Memory,
    Shader,
    hint_of,
    is_wide,
    read_memory,
    shape_text,
)
from fuel_lowering.runs.emitter import Emitted
from fuel_lowering.scalars.values import REGISTERS, Value


@dataclass(frozen=True)
class Operand:
    """One side of a product: over (batch, outer axis, k) or (batch, k, outer axis)."""

    value: SSAValue
    slot: int
    dtype: DType
    batch: Layout
    k: int
    """Elements from one k to the next."""
    step: int
    """Elements from one row or column to the next."""
    along_k: bool
    """True if four neighbours along k are a quad of the buffer."""
    along_step: bool
    """True if four neighbouring rows or columns are one."""


class MatmulShader(ABC):
    """
    Writes the shader of a product, its programs those of a schedule.

    An invocation computes a tile of `rows` by `columns` elements, `columns` a multiple of four. A
    body says how tiles are numbered and how a step along k adds to the sums.
    """

    local: ClassVar[tuple[int, int]]
    """Invocations of a workgroup."""

    def __init__(self, form: MatmulForm, schedule: MatmulSchedule[Tile], tile: tuple[int, int]):
        self.form = form
        self.schedule = schedule
        self.tile = tile
        self._merge()
        self.shader = Shader(form, self._title(), self.local)
        self.outputs = Outputs(self.shader)
        self.register = REGISTERS[form.accumulator.name]
        self.vector, self.scalar = VECTORS[self.register], TYPES[self.register]
        self.values: dict[SSAValue, Value] = {}
        self.carried = 0

    @property
    @abstractmethod
    def groups(self) -> int:
        """Workgroups of a launch."""

    @property
    @abstractmethod
    def tiles(self) -> tuple[int, int]:
        """Tiles of invocations along the rows and along the columns of one product."""

    @abstractmethod
    def start(self) -> None:
        """Writes where the tile of an invocation begins: `entry`, `row` and `column`."""

    @abstractmethod
    def before_steps(self) -> None:
        """Writes what the steps need before the first."""

    @abstractmethod
    def step(self, k: str, last: str) -> None:
        """Writes one step: what the sums gain from the values of k that begin at `k`."""

    def _title(self) -> list[str]:
        form = self.form
        results = ", ".join(shape_text(v) for v in form.results)
        sizes = f"{prod(form.batch)} of [{form.m}, {form.k}] x [{form.k}, {form.n}] -> {results}"
        return [sizes, f"{self.tile[0]} x {self.tile[1]} elements for each invocation"]

    # Operands.

    def _merge(self) -> None:
        form = self.form
        assert form.lhs is not None
        assert form.rhs is not None
        sides = [form.lhs, form.rhs]
        epilogue = [form.loads[v].layout for v in self._read()]
        if needs_64_bits(prod(form.shape), [s.layout for s in sides] + epilogue):
            raise LoweringError(
                f"{form.name}: {list(form.shape)} needs 64-bit indices, which kompute does not use"
            )
        depth = len(form.batch)
        batches = [Layout(form.batch, s.layout.strides[:depth], s.layout.offset) for s in sides]
        self.batch, short = merged(form.batch, batches)
        a, b = form.lhs.layout.strides[depth:], form.rhs.layout.strides[depth:]
        self.lhs = self._operand(form.lhs, short[0], a[1], a[0], form.k, form.m)
        self.rhs = self._operand(form.rhs, short[1], b[0], b[1], form.k, form.n)

    def _operand(
        self, load: Load, batch: Layout, k: int, step: int, extent: int, across: int
    ) -> Operand:
        form = self.form
        value = next(v for v, known in form.loads.items() if known.argument == load.argument)
        aligned = load.argument not in form.unaligned
        wide_k = Layout((*batch.shape, across, extent), (*batch.strides, step, k), batch.offset)
        wide_step = Layout((*batch.shape, extent, across), (*batch.strides, k, step), batch.offset)
        return Operand(
            value,
            load.argument,
            form.dtype(value),
            batch,
            k,
            step,
            aligned and is_wide(wide_k) and extent % QUAD == 0,
            aligned and is_wide(wide_step) and across % QUAD == 0,
        )

    def _read(self) -> list[SSAValue]:
        """Returns what the ops after the product read from memory."""
        form = self.form
        values = [*form.results, *(v for op in form.ops for v in op.operands)]
        return [v for v in dict.fromkeys(values) if v in form.loads]

    # The whole.

    def emit(self) -> Emitted:
        """Returns the shader and its launches, and what packs results."""
        self.start()
        self.begin()
        self.sums()
        self._loop()
        self._finish()
        kernel = self.shader.kernel()
        launches = [
            self.shader.launch(0, self.groups, first=first, last=last)
            for first, last in self.schedule.spans
        ]
        return self.outputs.finish([kernel], launches)

    def place_tile(self, tile: str, size: tuple[int, int]) -> None:
        """Names where a tile, by its number, begins."""
        counts = self.schedule.counts
        entry, down, across = coordinates(tile, counts, "/")
        self.entry = self.shader.index("0" if counts[0] == 1 else entry, "entry")
        self.row = self.shader.index("0" if counts[1] == 1 else f"{down} * {size[0]}", "row")
        self.column = self.shader.index(
            "0" if counts[2] == 1 else f"{across} * {size[1]}", "column"
        )

    def begin(self) -> None:
        """Writes the place at which each operand begins."""
        points = [self.shader.index(t, "b") for t in coordinates(self.entry, self.batch, "/")]
        self.bases = {
            side: self.shader.index(address(side.batch, points), f"start_{hint}")
            for side, hint in ((self.lhs, "left"), (self.rhs, "right"))
        }

    # The sums.

    @property
    def quads(self) -> int:
        """Quads of columns of a tile."""
        return self.tile[1] // QUAD

    def unrolled(self, name: str, count: int) -> None:
        self.shader.open(f"[[unroll]] for (uint {name} = 0; {name} < {count}; {name}++)")

    def sums(self) -> None:
        """Writes the sums, all zero."""
        shader = self.shader
        names = ["sums", "left", "right", "m", "n", "u", "k", "c"]
        self.names = {name: shader.code.fresh(name) for name in names}
        shader.line(f"{self.vector} {self.names['sums']}[{self.tile[0]}][{self.quads}];")
        self.each_sum(f"{self.sum_at} = {self.vector}(0);")

    @property
    def sum_at(self) -> str:
        names = self.names
        return f"{names['sums']}[{names['m']}][{names['n']}]"

    def each_sum(self, line: str) -> None:
        self.unrolled(self.names["m"], self.tile[0])
        self.unrolled(self.names["n"], self.quads)
        self.shader.line(line)
        self.shader.close()
        self.shader.close()

    def _loop(self) -> None:
        """Adds the products of a range of k."""
        shader, k = self.shader, self.names["k"]
        first, last = "0", str(self.form.k)
        if self.schedule.is_split:
            first, last = (shader.scalar(name) for name in ("first", "last"))
            self._take_up()
        self.before_steps()
        shader.open(f"for (uint {k} = {first}; {k} < {last}; {k} += {self.schedule.tile.k})")
        self.step(k, last)
        shader.close()

    def place(self, side: Operand, across: str, k: str) -> str:
        base = self.bases[side]
        layout = Layout((1, 1), (side.step, side.k), 0)
        text = address(layout, [bracketed(across), bracketed(k)])
        return text if base == "0" else base if text == "0" else f"{base} + {text}"

    def memory(self, side: Operand, wide: bool) -> Memory:
        return read_memory(self.shader, side.slot, side.dtype, wide)

    def quad(self, memory: Memory, place: str) -> str:
        """Returns four elements of memory as a vector of accumulators."""
        word = f"{memory.name}[{memory.quad_at(memory.place(place))}]"
        return f"fuel_{memory.dtype.name}_4({word})" if memory.packed else word

    def element(self, memory: Memory, place: str) -> str:
        """Returns one element of memory as an accumulator."""
        return self.shader.load(memory, place, "x").text

    # Sums that are handed on.

    def _take_up(self) -> None:
        """Begins with the sums of the launch before, unless this is the first."""
        shader, form = self.shader, self.form
        elements = prod(form.batch) * prod(self.tiles) * prod(self.tile)
        self.carried = self.outputs.temporary(form.accumulator.name, elements)
        self.kept = shader.reads_and_writes(self.carried, form.accumulator, elements, "sums_before")
        shader.open(f"if ({self.shader.scalar('first')} > 0)")
        self.each_sum(f"{self.sum_at} = {self._kept_at()};")
        shader.close()

    def _kept_at(self) -> str:
        names = self.names
        tile = f"({self.entry} * {self.tiles[0]} + {self.row} / {self.tile[0]}) * {self.tiles[1]}"
        tile = f"({tile} + {self.column} / {self.tile[1]})"
        quad = f"{tile} * {prod(self.tile) // QUAD} + {names['m']} * {self.quads} + {names['n']}"
        return f"{self.kept.name}[{quad}]"

    # After the sums.

    def _finish(self) -> None:
        if self.schedule.is_split:
            last = self.shader.scalar("last")
            self.shader.open(f"if ({last} < {self.form.k})")
            self.each_sum(f"{self._kept_at()} = {self.sum_at};")
            self.shader.line("return;")
            self.shader.close()
        self.epilogue()

    @property
    def is_long(self) -> bool:
        """True if the code after the product is too long to be repeated for every quad."""
        return len(self.form.ops) > 1

    def epilogue(self) -> None:
        """Writes the ops after the product, and the stores, quad by quad."""
        shader, names = self.shader, self.names
        m, n = names["m"], names["n"]
        if not self.is_long:
            self.unrolled(m, self.tile[0])
            self.unrolled(n, self.quads)
            self._store(f"{self.row} + {m}", f"{self.column} + {QUAD} * {n}", self.sum_at)
            shader.close()
            shader.close()
            return
        done, t = (shader.code.fresh(name) for name in ("done", "t"))
        shader.line(f"{self.vector} {done}[{self.tile[0] * self.quads}];")
        self.each_sum(f"{done}[{m} * {self.quads} + {n}] = {self.sum_at};")
        count = self.tile[0] * self.quads
        shader.open(f"[[dont_unroll]] for (uint {t} = 0; {t} < {count}; {t}++)")
        column = f"{self.column} + {QUAD} * ({t} % {self.quads})"
        self._store(f"{self.row} + {t} / {self.quads}", column, f"{done}[{t}]")
        shader.close()

    def _store(self, row: str, column: str, sums: str) -> None:
        """Computes and writes four neighbours of a row, where they are inside."""
        shader, form = self.shader, self.form
        row, column = (shader.index(t, h) for t, h in ((row, "at_row"), (column, "at_column")))
        shader.open(f"if ({row} < {form.m} && {column} < {form.n})")
        flat = f"({self.entry} * {form.m} + {row}) * {form.n} + {column}"
        i = shader.index(flat, "i")
        product = shader.named(self.vector, sums, "product")
        wide = form.n % QUAD == 0
        stores: list[tuple[Memory, str]] = []
        for number in range(len(form.results)):
            memory = self.outputs.memory(number, wide and self._may_be_wide(number))
            stores.append((memory, shader.vector("", memory.dtype, memory.name)))
        lane = shader.code.fresh("lane")
        self.unrolled(lane, QUAD)
        self._element(i, lane, product)
        for value, (memory, vector) in zip(form.results, stores, strict=True):
            term = self._value(value)
            shader.line(f"{vector}[{lane}] = {self._converted(memory, term)};")
        shader.close()
        for memory, vector in stores:
            self._write(memory, vector, i, column)
        shader.close()

    def _may_be_wide(self, number: int) -> bool:
        return len(self.form.arguments) + number not in self.form.unaligned

    def _converted(self, memory: Memory, term: Value) -> str:
        is_word = memory.slot >= len(self.form.arguments) + len(self.form.results)
        return self.outputs.word(memory, term) if is_word else term.text

    def _write(self, memory: Memory, vector: str, i: str, column: str) -> None:
        shader = self.shader
        if memory.wide:
            shader.store_quad(memory, i, vector)
            return
        for lane in range(QUAD):
            place = memory.place(f"{i} + {lane}" if lane else i)
            inside = f"if ({column} + {lane} < {self.form.n}) " if lane else ""
            shader.line(f"{inside}{memory.name}[{place}] = {vector}[{lane}];")

    def _element(self, i: str, lane: str, product: str) -> None:
        """Evaluates the ops after the product at one element."""
        shader, form = self.shader, self.form
        assert form.product is not None
        self.values = {}
        total = Value(f"{product}[{lane}]", form.accumulator)
        shader.code.hint = hint_of(form.product, "product")
        self.values[form.product] = shader.code.round_to_dtype(
            shader.code.into(total, form.dtype(form.product))
        )
        self._loads(f"{i} + {lane}")
        for op in form.ops:
            operands = [self._value(v) for v in op.operands]
            self.values[op.results[0]] = shader.evaluate(op, operands)

    def _loads(self, flat: str) -> None:
        values = self._read()
        if not values:
            return
        shader, form = self.shader, self.form
        layouts = [form.loads[v].layout for v in values]
        extents, short = merged(form.shape, layouts)
        at = flat
        if form.n % QUAD:
            at = f"min({flat}, {prod(form.shape) - 1})"
        p = shader.index(at, "p")
        points = [shader.index(t, "e") for t in coordinates(p, extents, "/")]
        for value, layout in zip(values, short, strict=True):
            memory = read_memory(shader, form.loads[value].argument, form.dtype(value), False)
            place = address(layout, points)
            self.values[value] = shader.load(memory, place, hint_of(value, "x"))

    def _value(self, value: SSAValue) -> Value:
        if value in self.form.splats:
            return self.shader.code.constant(self.form.splats[value])
        return self.values[value]


def bracketed(text: str) -> str:
    """Returns a text as an operand of a product."""
    is_one = text.isalnum() or (text.startswith("min(") and text.endswith(")"))
    return text if is_one else f"({text})"
