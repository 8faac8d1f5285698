# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes the results of a kernel: in place, or as 32-bit words that another kernel packs.

A packed element is never written alone, so a kernel whose invocations do not own whole quads of a
result writes a word for each element to a temporary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.ir import SSAValue

from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.form import Form
from fuel_lowering.kompute.writer import QUAD, Memory, Shader, register_dtype, write_memory
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.scalars.values import REGISTERS, Value

LOCAL = 256
"""Invocations of a workgroup that packs."""

WORD = 4
"""Bytes of a word."""

PACKED = {
    "i1": "uint({0})",
    "i8": "uint({0})",
    "i16": "uint({0})",
    "ui8": "uint({0})",
    "bf16": "fuel_to_bf16({0})",
    "f16": "fuel_to_f16({0})",
}
"""A word with the bits of an element in its low ones."""


@dataclass(eq=False)
class Outputs:
    """The results of a shader, by number. `first` counts the temporaries that exist already."""

    shader: Shader
    temporaries: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    unpacked: dict[int, int] = field(default_factory=dict[int, int])
    """The slot of the words of each result that is packed later."""

    def memory(self, number: int, wide: bool) -> Memory:
        """The buffer that a result is written to."""
        form = self.shader.form
        value = form.results[number]
        dtype, slot = form.dtype(value), len(form.arguments) + number
        elements = prod(tensor_type(value).get_shape())
        if wide or dtype.itemsize == 4:
            return write_memory(self.shader, slot, dtype, elements, wide, value)
        words = register_dtype(dtype)
        if number not in self.unpacked:
            self.unpacked[number] = self.temporary(words.name, elements)
        hint = f"words_{value.name_hint or 'result'}"
        return self.shader.writes(self.unpacked[number], words, elements, False, hint)

    def temporary(self, dtype: str, elements: int) -> int:
        """The slot of a new temporary."""
        form = self.shader.form
        self.temporaries.append((dtype, elements))
        return len(form.arguments) + len(form.results) + len(self.temporaries) - 1

    def word(self, memory: Memory, term: Value) -> str:
        """A value as an element of a buffer of words."""
        if term.register == "bool":
            return f"int({term.text})"
        return term.text

    def finish(self, written: Sequence[DeviceKernel], launches: Sequence[EmittedLaunch]) -> Emitted:
        """Kernels and their launches, and then what packs."""
        kernels, every = list(written), list(launches)
        for number, slot in self.unpacked.items():
            packing, launch = _packing(self.shader.form, number, slot)
            every.append(replace(launch, kernel=len(kernels)))
            kernels.append(packing)
        return Emitted(tuple(kernels), tuple(every), tuple(self.temporaries))


def _packing(form: Form, number: int, slot: int) -> tuple[DeviceKernel, EmittedLaunch]:
    """A kernel that packs the words of a result."""
    dtype = form.dtype(form.results[number])
    elements = prod(tensor_type(form.results[number]).get_shape())
    shader = Shader(form, [f"{elements} words as {dtype}"], (LOCAL, 1), name=f"pack_{dtype}")
    target = len(form.arguments) + number
    if target in form.unaligned or (target in form.moves and elements % QUAD):
        count = _pack_between(shader, form.results[number], slot, target, elements)
    else:
        count = _pack(shader, form.results[number], slot, target, elements)
    return shader.kernel(), shader.launch(0, -(-count // LOCAL))


def _pack(shader: Shader, value: SSAValue, slot: int, target: int, elements: int) -> int:
    """Four elements for each invocation; how many invocations that takes."""
    dtype = shader.form.dtype(value)
    words = shader.reads(slot, register_dtype(dtype), elements, True, "words")
    out = write_memory(shader, target, dtype, elements, True, value)
    quads = -(-elements // QUAD)
    shader.line(f"uint q = {shader.invocation()};")
    shader.line(f"if (q >= {quads}) return;")
    shader.line(f"uint i = {QUAD} * q;")
    quad = shader.load_quad(words, "i", "words")
    if REGISTERS[dtype.name] == "bool":
        quad = f"notEqual({quad}, ivec4(0))"
    shader.store_quad(out, "i", quad)
    return quads


def _pack_between(shader: Shader, value: SSAValue, slot: int, target: int, elements: int) -> int:
    """
    One word of the result for each invocation, where the result begins or ends inside a word.

    What else is in that word stays as it is; no other launch writes it meanwhile.
    """
    dtype = shader.form.dtype(value)
    count = WORD // dtype.itemsize
    bits = 8 * dtype.itemsize
    words = shader.reads(slot, register_dtype(dtype), elements, False, "words")
    out = shader.exchanges(target, dtype, elements, "result")
    start = out.offset if out.moves else "0"
    total = elements // count + 2
    shader.line(f"uint w = {start} / {count} + {shader.invocation()};")
    shader.line(f"if (w > ({start} + {elements - 1}) / {count}) return;")
    shader.line(f"uint word = {out.name}[w];")
    shader.open(f"[[unroll]] for (uint lane = 0; lane < {count}; lane++)")
    shader.line(f"uint i = w * {count} + lane - {start};")
    shader.line(f"if (i >= {elements}) continue;")
    packed = PACKED[dtype.name].format(f"{words.name}[i]")
    shader.line(f"word = bitfieldInsert(word, {packed}, int(lane) * {bits}, {bits});")
    shader.close()
    shader.line(f"{out.name}[w] = word;")
    return total
