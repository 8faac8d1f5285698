# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds straight scalar code as text of a language."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.reference.precision import scalar
from fuel_lowering.names import stem
from fuel_lowering.scalars.language import Language
from fuel_lowering.scalars.values import I32, MASK, REGISTERS, ScalarBuilder, Value


@dataclass(eq=False)
class Code(ScalarBuilder[Value]):
    """Represents scalar code while it is being written: lines, and names not used before."""

    language: Language
    lines: list[str] = field(default_factory=list[str])
    used: set[str] = field(default_factory=set[str])
    hint: str = "t"

    def fresh(self, hint: str | None = None) -> str:
        """Returns a name that nothing has yet."""
        first = stem(hint or self.hint, "v")
        name, number = first, 1
        while not self.is_free(name):
            number += 1
            name = f"{first}_{number}"
        self.used.add(name)
        return name

    def is_free(self, name: str) -> bool:
        """Returns True if nothing has a name yet, and the language keeps it for nothing."""
        return name not in self.used

    def let(self, text: str, dtype: DType, hint: str | None = None) -> Value:
        """Writes a line that names the value of a text."""
        name = self.fresh(hint)
        self.lines.append(self.language.let(name, REGISTERS[dtype.name], text))
        return Value(name, dtype)

    def apply(self, primitive: str, *operands: Value, dtype: DType | None = None) -> Value:
        first = operands[0]
        text = self.language.write(primitive, first.register, [o.text for o in operands])
        return self.let(text, first.dtype if dtype is None else dtype)

    def number(self, value: float, like: Value | DType) -> Value:
        dtype = like if isinstance(like, DType) else like.dtype
        register = REGISTERS[dtype.name]
        held = dtypes.BY_NAME["i1" if register == "bool" else register]
        return Value(self.language.literal(scalar(value, held.numpy), register), dtype)

    def constant(self, value: np.ndarray[Any, Any]) -> Value:
        dtype = dtypes.of(value.dtype)
        register = REGISTERS[dtype.name]
        held = value if register == "bool" else value.astype(dtypes.BY_NAME[register].numpy)
        return Value(self.language.literal(held, register), dtype)

    def compare(self, primitive: str, a: Value, b: Value | float) -> Value:
        other = b if isinstance(b, Value) else self.number(b, a)
        if a.dtype == MASK:
            a, other = self.into(a, I32), self.into(other, I32)
        return self.apply(primitive, a, other, dtype=MASK)

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        text = self.language.write("select", a.register, [mask.text, a.text, b.text])
        return self.let(text, a.dtype)

    def round_to_dtype(self, value: Value) -> Value:
        name = value.dtype.name
        if name in ("bf16", "f16"):
            return self.apply(f"round_{name}", value)
        if name in ("i8", "i16"):
            bits = self.number(32 - value.dtype.bits, I32)
            return self.apply("shr", self.apply("shl", value, bits), bits)
        if name == "ui8":
            return self.apply("band", value, self.number(255, I32))
        return value

    def into(self, value: Value, dtype: DType) -> Value:
        if value.register == REGISTERS[dtype.name]:
            return Value(value.text, dtype)
        return self.apply(f"to_{REGISTERS[dtype.name]}", value, dtype=dtype)
