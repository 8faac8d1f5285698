# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Defines the values of elementwise code, and the interface that definitions of ops are written to.

A value of bf16 or f16 is held in an f32 register and rounded after every op; one of i8, i16 or ui8
is held in an i32 register and wrapped after every op. So a language knows few registers.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType

REGISTERS = {
    "i1": "bool",
    "i8": "i32",
    "i16": "i32",
    "i32": "i32",
    "i64": "i64",
    "ui8": "i32",
    "ui32": "ui32",
    "bf16": "f32",
    "f16": "f32",
    "f32": "f32",
    "f64": "f64",
}
"""The register that holds a value of each element type while code computes with it."""

MASK = dtypes.BY_NAME["i1"]
I32, UI32 = dtypes.BY_NAME["i32"], dtypes.BY_NAME["ui32"]
F32, F64 = dtypes.BY_NAME["f32"], dtypes.BY_NAME["f64"]

PRIMITIVES = frozenset(
    "add sub mul div idiv neg abs maximum minimum eq ne lt le gt ge and or not select isnan "
    "sqrt exp log sin cos tanh erf erfc pow fmod floor ceil rint round_bf16 round_f16 "
    "bits from_bits shl shr band bor to_i32 to_i64 to_ui32 to_f32 to_f64".split()
)
"""
The primitives that a language writes. `div` takes floats, `idiv` integers: it truncates, and is
never given a divisor of 0, nor MIN by -1. `maximum` and `minimum` of floats give NaN if either is
NaN. `rint` rounds to nearest even. `fmod` is exact, with the sign of the dividend. `erfc` takes
f64. `round_bf16` and `round_f16` round an f32 to nearest even and widen it again. `bits` reads an
f32 as ui32, `from_bits` is the inverse; `shl`, `shr` (with zeros; with the sign of an i32), `band`
and `bor` take ui32 and i32. `to_*` convert between registers: to an integer from a float that fits,
else by wrapping.
"""


class AnyValue(Protocol):
    """A value that a definition computes with: text of a language, or an array of NumPy."""

    @property
    def dtype(self) -> DType: ...

    @property
    def register(self) -> str: ...

    @property
    def is_float(self) -> bool: ...


@dataclass(frozen=True)
class Value:
    """Represents a value in text: a name or a literal, and its element type."""

    text: str
    dtype: DType

    @property
    def register(self) -> str:
        return REGISTERS[self.dtype.name]

    @property
    def is_float(self) -> bool:
        return self.dtype.is_float


V = TypeVar("V", bound=AnyValue)


class ScalarBuilder(abc.ABC, Generic[V]):
    """
    Builds elementwise code from primitives; definitions of ops call it.

    `Code` builds text of a language; `ArrayCode` of the NumPy target builds ufunc calls.
    """

    divides_by_zero: ClassVar[bool] = False
    """True if `idiv` takes every divisor: x / 0 is 0 and MIN / -1 is MIN."""

    @abc.abstractmethod
    def apply(self, primitive: str, *operands: V, dtype: DType | None = None) -> V:
        """Returns a primitive of values; it has the first one's element type unless given."""

    @abc.abstractmethod
    def number(self, value: float, like: V | DType) -> V:
        """Returns a constant in the register of a value, not rounded to bf16 or f16."""

    @abc.abstractmethod
    def constant(self, value: np.ndarray[Any, Any]) -> V:
        """Returns a constant, which is given as a rank-0 array of its element type."""

    @abc.abstractmethod
    def compare(self, primitive: str, a: V, b: V | float) -> V:
        """Returns the mask of a comparison; masks are compared as numbers."""

    @abc.abstractmethod
    def select(self, mask: V, a: V, b: V) -> V:
        """Returns `a` where the mask is true, else `b`."""

    @abc.abstractmethod
    def into(self, value: V, dtype: DType) -> V:
        """Returns a value in the register of another element type, not rounded to that type."""

    @abc.abstractmethod
    def round_to_dtype(self, value: V) -> V:
        """Returns a value rounded or wrapped to its element type, which its register exceeds."""
