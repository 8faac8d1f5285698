# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Where a kernel writes its results: in place, or as 32-bit words that another kernel packs.

A packed element is never written alone, so a kernel whose invocations do not own whole quads of a
result writes a word for each element to a temporary.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from fuel_dialect.ops.base import tensor_type
from fuel_lowering.forms import Form
from fuel_lowering.kernels import DeviceKernel
from fuel_lowering.kompute.map import LOCAL, write_memory
from fuel_lowering.kompute.shader import QUAD, Memory, Shader, register_dtype
from fuel_lowering.runs import Emitted, EmittedLaunch
from fuel_lowering.scalars import REGISTERS, Term


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

    def word(self, memory: Memory, term: Term) -> str:
        """A value as an element of a buffer of words."""
        if term.register == "bool":
            return f"int({term.text})"
        return term.text

    def finish(self, kernel: DeviceKernel, *launches: EmittedLaunch) -> Emitted:
        """The kernel and its launches, and then what packs."""
        kernels, every = [kernel], list(launches)
        for number, slot in self.unpacked.items():
            packing, launch = _packing(self.shader.form, number, slot)
            every.append(replace(launch, kernel=len(kernels)))
            kernels.append(packing)
        return Emitted(tuple(kernels), tuple(every), tuple(self.temporaries))


def _packing(form: Form, number: int, slot: int) -> tuple[DeviceKernel, EmittedLaunch]:
    """A kernel that packs the words of a result."""
    value = form.results[number]
    dtype = form.dtype(value)
    elements = prod(tensor_type(value).get_shape())
    shader = Shader(form, [f"{elements} words as {dtype}"], (LOCAL, 1), name=f"pack_{dtype}")
    words = shader.reads(slot, register_dtype(dtype), elements, True, "words")
    target = len(form.arguments) + number
    wide = not (target in form.unaligned or (target in form.moves and elements % QUAD))
    out = write_memory(shader, target, dtype, elements, wide, value)
    quads = -(-elements // QUAD)
    shader.line(f"uint q = {shader.invocation()};")
    shader.line(f"if (q >= {quads}) return;")
    shader.line("uint i = 4 * q;")
    quad = shader.load_quad(words, "i", "words")
    if REGISTERS[dtype.name] == "bool":
        quad = f"notEqual({quad}, ivec4(0))"
    shader.store_quad(out, "i", quad)
    return shader.kernel(), shader.launch(0, -(-quads // LOCAL))
