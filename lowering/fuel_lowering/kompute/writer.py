# SPDX-License-Identifier: MIT OR Apache-2.0
"""
One compute shader while it is being written: its buffers, its scalars and its text.

A buffer is declared as 32-bit words, or as quads: four elements, read and written at once. An
element of a type of fewer bits is unpacked from a word, but never written alone, because two
invocations must not write parts of one word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.ir import Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.form import Form
from fuel_lowering.kompute.language import (
    KEPT,
    KEYWORD,
    RESERVED,
    TYPES,
    VECTORS,
    ZERO,
    GlslLanguage,
)
from fuel_lowering.kompute.tuning import MOST_GROUPS
from fuel_lowering.names import LONGEST_STEM
from fuel_lowering.runs.emitter import CHECK, OFFSET, EmittedLaunch
from fuel_lowering.runs.launches import DeviceKernel, Parameter
from fuel_lowering.scalars.code import Code
from fuel_lowering.scalars.table import evaluate
from fuel_lowering.scalars.values import REGISTERS, Value

QUAD = 4
"""Elements that are read and written at once."""

LANGUAGE = GlslLanguage()

WORDS = {
    "i1": "uint",
    "i8": "uint",
    "i16": "uvec2",
    "i32": "ivec4",
    "ui8": "uint",
    "ui32": "uvec4",
    "bf16": "uvec2",
    "f16": "uvec2",
    "f32": "vec4",
}
"""The type that holds four elements of each dtype in memory. Other dtypes are not run."""

ZERO_BITS = "zero_bits"
SCALARS = frozenset({ZERO_BITS, CHECK, "first", "last"})
"""Holds the names that launches give scalars by: no value has one of them."""
STATUS = -1


def check_dtype(dtype: DType, what: str) -> None:
    """Raise for an element type that no shader computes with."""
    if dtype.name not in WORDS:
        raise LoweringError(
            f"{what}: kompute runs {', '.join(WORDS)}; {dtype} needs 64-bit or fp8 features that "
            "a Vulkan device may lack"
        )


@dataclass(frozen=True)
class Memory:
    """A buffer of a shader."""

    name: str
    slot: int
    dtype: DType
    elements: int
    writes: bool
    reads: bool
    wide: bool
    """True if it is declared as quads."""
    moves: bool
    """True if each launch says which element is the first."""

    @property
    def packed(self) -> bool:
        return self.dtype.itemsize < 4

    @property
    def offset(self) -> str:
        return f"{OFFSET}{self.name}"

    def place(self, address: str) -> str:
        """The place of an element, or of the first of a quad, in its buffer."""
        return f"{address} + {self.offset}" if self.moves else address

    def quad_at(self, place: str) -> str:
        """The place of a quad whose first element is at `place`."""
        return _divided(place)

    @property
    def declaration(self) -> str:
        word = WORDS[self.dtype.name] if self.wide else self._word
        access = "coherent buffer" if self.reads else "coherent writeonly buffer"
        access = access if self.writes else "readonly buffer"
        return f"{access} {self.block} {{ {word} {self.name}[]; }};"

    @property
    def block(self) -> str:
        return f"{self.name}_buffer"

    @property
    def _word(self) -> str:
        return "uint" if self.packed else TYPES[REGISTERS[self.dtype.name]]


def _divided(place: str) -> str:
    if place.isdigit():
        return str(int(place) // QUAD)
    return f"{place} / {QUAD}" if place.isidentifier() else f"({place}) / {QUAD}"


class GlslCode(Code):
    """Makes names without keywords, two underscores, or the prefixes of others."""

    def fresh(self, hint: str | None = None) -> str:
        text = re.sub(r"[\W_]+", "_", hint or self.hint, flags=re.ASCII).strip("_")
        text = f"v_{text}" if KEPT.match(text) else text or "t"
        return super().fresh(text[:LONGEST_STEM].rstrip("_"))

    def is_free(self, name: str) -> bool:
        """Returns True if a name, and the names that a buffer derives from it, are free."""
        derived = (name, f"{OFFSET}{name}", f"{name}_buffer")
        return self.used.isdisjoint(derived) and not KEYWORD.fullmatch(name)


@dataclass(eq=False)
class Shader:
    """A shader of a form. `title` says what it computes, a line each."""

    form: Form
    title: Sequence[str]
    local: tuple[int, int] = (256, 1)
    memories: list[Memory] = field(default_factory=list[Memory])
    scalars: list[str] = field(default_factory=list[str])
    functions: list[str] = field(default_factory=list[str])
    name: str = ""

    def __post_init__(self) -> None:
        self.code = GlslCode(LANGUAGE, used=set(RESERVED))
        self.code.used |= set(LANGUAGE.HELPERS) | SCALARS
        self.name = self.code.fresh(self.name or self.form.name)

    # Buffers.

    def reads(self, slot: int, dtype: DType, elements: int, wide: bool, hint: str) -> Memory:
        """A buffer that is only read; the same for the same slot and width."""
        return self._memory(slot, dtype, elements, wide, hint, reads=True)

    def writes(self, slot: int, dtype: DType, elements: int, wide: bool, hint: str) -> Memory:
        """A buffer that is only written."""
        return self._memory(slot, dtype, elements, wide, hint, writes=True)

    def reads_and_writes(self, slot: int, dtype: DType, elements: int, hint: str) -> Memory:
        """A buffer of quads of 32-bit elements that is read and written."""
        return self._memory(slot, dtype, elements, True, hint, reads=True, writes=True)

    def exchanges(self, slot: int, dtype: DType, elements: int, hint: str) -> Memory:
        """A buffer of 32-bit elements that is read and written."""
        return self._memory(slot, dtype, elements, False, hint, reads=True, writes=True)

    def _memory(
        self,
        slot: int,
        dtype: DType,
        elements: int,
        wide: bool,
        hint: str,
        reads: bool = False,
        writes: bool = False,
    ) -> Memory:
        for memory in self.memories:
            if (memory.slot, memory.wide, memory.dtype) == (slot, wide, dtype):
                return memory
        check_dtype(dtype, self.form.name)
        name = self.code.fresh(hint)
        memory = Memory(name, slot, dtype, elements, writes, reads, wide, slot in self.form.moves)
        if memory.moves:
            self.scalar(memory.offset)
        self.code.used.add(memory.block)
        self.memories.append(memory)
        return memory

    def status(self) -> str:
        """The name of the status word."""
        self.scalar(CHECK)
        return self.writes(STATUS, dtypes.BY_NAME["i32"], 1, False, "status").name

    def scalar(self, name: str) -> str:
        """A 32-bit integer that each launch gives."""
        if name not in self.scalars:
            self.scalars.append(name)
            self.code.used.add(name)
        return name

    # Elements.

    def load(self, memory: Memory, address: str, hint: str | None = None) -> Value:
        """One element, by its address as text."""
        place = memory.place(address)
        if not memory.packed:
            return self.code.let(f"{memory.name}[{place}]", memory.dtype, hint)
        at = place
        if not re.fullmatch(r"\w+", place):
            at = self.index(place, "at")
        shift = 4 // memory.dtype.itemsize
        word = f"{memory.name}[{at} / {shift}]"
        return self.code.let(f"fuel_{memory.dtype.name}({word}, {at})", memory.dtype, hint)

    def load_quad(self, memory: Memory, address: str, hint: str) -> str:
        """Four elements from an address that is a multiple of four; the name of the vector."""
        word = f"{memory.name}[{memory.quad_at(memory.place(address))}]"
        unpacked = f"fuel_{memory.dtype.name}_4({word})" if memory.packed else word
        return self.vector(unpacked, memory.dtype, hint)

    def vector(self, text: str, dtype: DType, hint: str) -> str:
        """A named vector of four."""
        name = self.code.fresh(f"{hint}_4")
        suffix = f" = {text};" if text else ";"
        self.line(f"{VECTORS[REGISTERS[dtype.name]]} {name}{suffix}")
        return name

    def store(self, memory: Memory, address: str, text: str) -> None:
        """Write one element of 32 bits."""
        assert not memory.packed
        self.line(f"{memory.name}[{memory.place(address)}] = {text};")

    def store_quad(self, memory: Memory, address: str, vector: str) -> None:
        """Write four elements to an address that is a multiple of four."""
        packed = f"fuel_pack_{memory.dtype.name}({vector})" if memory.packed else vector
        self.line(f"{memory.name}[{memory.quad_at(memory.place(address))}] = {packed};")

    # Lines.

    def line(self, text: str) -> None:
        self.code.lines.append(text)

    def index(self, text: str, hint: str) -> str:
        """A named index; a text that is a name or a number stays."""
        if re.fullmatch(r"\w+", text):
            return text
        name = self.code.fresh(hint)
        self.line(f"uint {name} = {text};")
        return name

    def named(self, type: str, text: str, hint: str) -> str:
        """A named value of a GLSL type."""
        name = self.code.fresh(hint)
        self.line(f"{type} {name} = {text};")
        return name

    def open(self, text: str) -> None:
        self.line(f"{text} {{")

    def close(self) -> None:
        self.line("}")

    def invocation(self) -> str:
        """The flat number of the invocation over all workgroups."""
        return f"{self.group()} * {prod(self.local)} + gl_LocalInvocationIndex"

    def group(self) -> str:
        """The flat number of the workgroup."""
        return "(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x)"

    def evaluate(self, op: Operation, operands: Sequence[Value]) -> Value:
        """The lines of an elementwise op."""
        check_dtype(dtypes.of_type(tensor_type(op.results[0])), op.name.removeprefix("fuel."))
        return evaluate(self.code, op, operands)

    # The whole.

    def kernel(self) -> DeviceKernel:
        """The finished text."""
        body = list(self.code.lines)
        text = "\n".join([*self.functions, *body])
        if re.search(rf"\b{ZERO}\b", text):
            body.insert(0, f"precise float {ZERO} = intBitsToFloat({self.scalar(ZERO_BITS)});")
        parts = ["#version 450", "#extension GL_EXT_control_flow_attributes : require", ""]
        parts += [f"// {self.name}: {self.title[0]}", *(f"// {t}" for t in self.title[1:])]
        parts += [f"layout(local_size_x = {self.local[0]}, local_size_y = {self.local[1]}) in;"]
        for binding, memory in enumerate(self.memories):
            parts.append(f"layout(binding = {binding}) {memory.declaration}")
        if self.scalars:
            names = " ".join(f"int {name};" for name in self.scalars)
            parts.append(f"layout(push_constant) uniform Scalars {{ {names} }};")
        for part in (*LANGUAGE.helpers(text), *self.functions):
            parts += ["", part]
        parts += ["", "void main() {", *indented(body), "}", ""]
        parameters = tuple(
            Parameter(m.name, m.dtype.name, m.elements, m.writes) for m in self.memories
        )
        return DeviceKernel(self.name, "\n".join(parts), parameters, tuple(self.scalars))

    def launch(self, kernel: int, groups: int, **given: int) -> EmittedLaunch:
        """A launch of as many workgroups, with values for the scalars that a run does not know."""
        own = [name for name in self.scalars if name != CHECK and not name.startswith(OFFSET)]
        return EmittedLaunch(
            kernel,
            tuple(memory.slot for memory in self.memories),
            tuple(0 if name == ZERO_BITS else given[name] for name in own),
            grid_of(groups),
        )


def indented(lines: Sequence[str]) -> list[str]:
    """Lines with two spaces for each brace that is open."""
    depth, out = 1, list[str]()
    for line in lines:
        depth -= line.startswith("}")
        out.append("  " * depth + line)
        depth += line.endswith("{")
    return out


def grid_of(groups: int) -> tuple[int, int, int]:
    """A grid of as many workgroups or a few more, none of its axes too long."""
    x = min(groups, MOST_GROUPS)
    return (x, -(-groups // x), 1)


def hint_of(value: SSAValue, otherwise: str) -> str:
    """The name of a value in the IR."""
    return value.name_hint or otherwise


def shape_text(value: Any) -> str:
    """The type of a value as a title says it: `f32[4, 8]`."""
    type = tensor_type(value)
    return f"{dtypes.of_type(type)}{list(type.get_shape())}"


def raw(dtype: DType) -> DType:
    """The element type of the same size whose copies keep every bit."""
    names = {"f32": "ui32", "bf16": "i16", "f16": "i16", "i1": "ui8"}
    return dtypes.BY_NAME[names.get(dtype.name, dtype.name)]


def register_dtype(dtype: DType) -> DType:
    """The 32-bit element type that holds a value of any element type exactly."""
    register = REGISTERS[dtype.name]
    return dtypes.BY_NAME["i32" if register == "bool" else register]


def read_memory(shader: Shader, slot: int, dtype: DType, wide: bool) -> Memory:
    """The buffer of an argument."""
    form = shader.form
    elements = prod(form.arguments[slot].get_shape())
    return shader.reads(slot, dtype, elements, wide, argument_name(form, slot))


def argument_name(form: Form, slot: int) -> str:
    """Returns the name of an argument in the IR."""
    values = (value for value, load in form.loads.items() if load.argument == slot)
    return hint_of(next(values), f"in_{slot}")


def write_memory(
    shader: Shader, slot: int, dtype: DType, elements: int, wide: bool, value: SSAValue
) -> Memory:
    """The buffer of a result; a packed one is written by quads."""
    assert wide or dtype.itemsize == 4
    hint = f"out_{value.name_hint}" if value.name_hint else "result"
    return shader.writes(slot, dtype, elements, wide, hint)


def is_wide(layout: Layout) -> bool:
    """Returns True if four neighbours along the last axis are a quad of the buffer."""
    *outer, inner = layout.strides
    return inner == 1 and not any(s % QUAD for s in outer) and layout.offset % QUAD == 0
