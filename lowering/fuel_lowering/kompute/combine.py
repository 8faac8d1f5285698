# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reduces a row while it is read: to one value for each lane, then to one for the row.

NaN wins every max and min, and the first NaN is their argument; of ties the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fuel_dialect.dtypes import DType
from fuel_lowering.kernels.rows import Combine, identity, is_argument
from fuel_lowering.kompute.language import TYPES
from fuel_lowering.kompute.writer import LANGUAGE, Shader, register_dtype
from fuel_lowering.scalars.values import REGISTERS, Value

NOWHERE = "0xffffffffu"
"""The index of no element: that of the value before the first."""


@dataclass(eq=False)
class Accumulator:
    """One reduction of a pass over a row, by `per_row` invocations, with `lanes` values each."""

    shader: Shader
    combine: Combine
    source: DType
    result: DType
    lanes: int
    per_row: int
    hint: str
    values: list[str] = field(default_factory=list[str])
    places: list[str] = field(default_factory=list[str])

    @property
    def dtype(self) -> DType:
        """The 32-bit type of what is accumulated."""
        return register_dtype(self.source)

    @property
    def is_argument(self) -> bool:
        return is_argument(self.combine)

    @property
    def type(self) -> str:
        return TYPES[REGISTERS[self.dtype.name]]

    def start(self) -> None:
        """The values before the first element."""
        shader = self.shader
        value = shader.code.fresh(self.hint)
        suffix = f"[{self.lanes}]" if self.lanes > 1 else ""
        qualifier = "precise " if self.type == "float" else ""
        shader.line(f"{qualifier}{self.type} {value}{suffix};")
        self.values = self._lanes(value)
        if self.is_argument:
            place = shader.code.fresh(f"{self.hint}_at")
            shader.line(f"uint {place}{suffix};")
            self.places = self._lanes(place)
        for lane in range(self.lanes):
            shader.line(f"{self.values[lane]} = {self._first()};")
            if self.is_argument:
                shader.line(f"{self.places[lane]} = {NOWHERE};")

    def _lanes(self, name: str) -> list[str]:
        return [name] if self.lanes == 1 else [f"{name}[{lane}]" for lane in range(self.lanes)]

    def _first(self) -> str:
        register = REGISTERS[self.dtype.name]
        return LANGUAGE.literal(identity(self.combine, self.dtype), register)

    def add(self, term: Value, at: str, lane: str) -> None:
        """One more element, of column `at`."""
        stem = self.values[0].removesuffix("[0]")
        value = f"{stem}[{lane}]" if lane else stem
        text = f"int({term.text})" if term.register == "bool" else term.text
        if not self.is_argument:
            self.shader.line(f"{value} = {self._combined(value, text)};")
            return
        stem = self.places[0].removesuffix("[0]")
        self._take(value, f"{stem}[{lane}]" if lane else stem, text, at)

    def _take(self, value: str, place: str, other: str, at: str) -> None:
        """Let another value and its place replace those that are kept if it is better."""
        better = f"fuel_{self.combine}_{self.type}({other}, {at}, {value}, {place})"
        self._need_better()
        self.shader.open(f"if ({better})")
        self.shader.line(f"{value} = {other};")
        self.shader.line(f"{place} = {at};")
        self.shader.close()

    def _combined(self, a: str, b: str) -> str:
        if self.combine in ("sum", "mean"):
            return f"{a} + {b}"
        name = "maximum" if self.combine == "max" else "minimum"
        return LANGUAGE.write(name, REGISTERS[self.dtype.name], [a, b])

    def gathered(self) -> tuple[str, str]:
        """Returns what the workgroup found and, of an argument, its place; until the next call."""
        shader = self.shader
        value, *others = self.values
        for number, other in enumerate(others, 1):
            if self.is_argument:
                self._take(value, self.places[0], other, self.places[number])
            else:
                shader.line(f"{value} = {self._combined(value, other)};")
        place = self.places[0] if self.is_argument else ""
        if self.per_row == 1:
            return value, place
        if not self.is_argument:
            return f"{self._workgroup_function()}({value})", ""
        function = self._workgroup_argument()
        return f"shared_{self.type}[0]", f"{function}({value}, {place})"

    def finish(self, columns: int) -> Value:
        """The result for the row, the same in every invocation of the row."""
        shader, (value, place) = self.shader, self.gathered()
        if self.is_argument:
            return shader.code.let(place, self.result, self.hint)
        total = shader.code.let(value, self.dtype, self.hint)
        if self.combine == "mean":
            total = shader.code.apply("div", total, shader.code.number(columns, self.dtype))
        return self._settled(total)

    def _settled(self, total: Value) -> Value:
        code = self.shader.code
        code.hint = self.hint
        if self.result.name == "i1":
            return code.compare("ne", total, 0)
        return code.round_to_dtype(code.into(total, self.result))

    # Functions.

    def _need_better(self) -> None:
        """Returns True if (x, i) comes before (y, j): larger or smaller, NaN first, lower index."""
        name = f"fuel_{self.combine}_{self.type}"
        sign = ">" if self.combine == "argmax" else "<"
        test = f"x {sign} y || (x == y && i < j)"
        if self.type == "float":
            test = f"fuel_isnan(x) ? !fuel_isnan(y) || i < j : {test}"
        parameters = f"{self.type} x, uint i, {self.type} y, uint j"
        self._function(f"bool {name}({parameters}) {{ return {test}; }}")

    def _function(self, text: str) -> None:
        if text not in self.shader.functions:
            self.shader.functions.append(text)

    def _shared(self, name: str, type: str) -> None:
        self._function(f"shared {type} {name}[{self.per_row}];")

    def _workgroup_function(self) -> str:
        """Writes the function that combines the values of a row; all its invocations call it."""
        combine = "sum" if self.combine == "mean" else self.combine
        name, parts = f"workgroup_{combine}_{self.type}", f"shared_{self.type}"
        self._shared(parts, self.type)
        step = self._combined(f"{parts}[t]", f"{parts}[t + half_size]")
        self._function(
            f"{self.type} {name}({self.type} value) {{\n"
            "  uint t = gl_LocalInvocationID.x;\n"
            "  barrier();\n"
            f"  {parts}[t] = value;\n"
            "  barrier();\n"
            f"  for (uint half_size = {self.per_row // 2}; half_size > 0; half_size /= 2) {{\n"
            f"    if (t < half_size) {parts}[t] = {step};\n"
            "    barrier();\n"
            "  }\n"
            f"  return {parts}[0];\n"
            "}"
        )
        return name

    def _workgroup_argument(self) -> str:
        name, parts = f"workgroup_{self.combine}_{self.type}", f"shared_{self.type}"
        self._need_better()
        self._shared(parts, self.type)
        self._shared("shared_at", "uint")
        better = f"fuel_{self.combine}_{self.type}"
        other = f"{parts}[t + half_size], shared_at[t + half_size]"
        self._function(
            f"uint {name}({self.type} value, uint at) {{\n"
            "  uint t = gl_LocalInvocationID.x;\n"
            "  barrier();\n"
            f"  {parts}[t] = value;\n"
            "  shared_at[t] = at;\n"
            "  barrier();\n"
            f"  for (uint half_size = {self.per_row // 2}; half_size > 0; half_size /= 2) {{\n"
            f"    if (t < half_size && {better}({other}, {parts}[t], shared_at[t])) {{\n"
            f"      {parts}[t] = {parts}[t + half_size];\n"
            "      shared_at[t] = shared_at[t + half_size];\n"
            "    }\n"
            "    barrier();\n"
            "  }\n"
            "  return shared_at[0];\n"
            "}"
        )
        return name
