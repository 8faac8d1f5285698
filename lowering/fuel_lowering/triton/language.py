# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes scalar code in Triton. Each text is right for blocks of any shape, and for scalars."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fuel_dialect.dtypes import DType
from fuel_lowering.scalars.language import Language
from fuel_lowering.scalars.values import REGISTERS

TYPES = {
    "bool": "tl.int1",
    "i32": "tl.int32",
    "i64": "tl.int64",
    "ui32": "tl.uint32",
    "f32": "tl.float32",
    "f64": "tl.float64",
}
"""The Triton type of each register."""

ELEMENTS = {
    "i1": "tl.uint8",
    "i8": "tl.int8",
    "i16": "tl.int16",
    "i32": "tl.int32",
    "i64": "tl.int64",
    "ui8": "tl.uint8",
    "ui32": "tl.uint32",
    "bf16": "tl.bfloat16",
    "f16": "tl.float16",
    "f32": "tl.float32",
    "f64": "tl.float64",
}
"""The Triton type of the elements of a buffer, by dtype."""

BARE = re.compile(r"-?\d[\w.+-]*|float\(\"-?\w+\"\)")
"""Matches a literal without a type of its own, which takes that of the other operand."""

SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


class TritonLanguage(Language):
    """Writes Triton's block language."""

    PRIMITIVES: Mapping[str, str] = {
        "add": "{0} + {1}",
        "sub": "{0} - {1}",
        "mul": "{0} * {1}",
        "div.f32": "tl.div_rn({0}, {1})",
        "div.f64": "{0} / {1}",
        "idiv": "{0} // {1}",
        "neg": "0 - {0}",
        "neg.f32": "-{0}",
        "neg.f64": "-{0}",
        "abs": "tl.abs({0})",
        "maximum": "tl.maximum({0}, {1})",
        "maximum.f32": "nan_maximum({0}, {1})",
        "maximum.f64": "nan_maximum({0}, {1})",
        "minimum": "tl.minimum({0}, {1})",
        "minimum.f32": "nan_minimum({0}, {1})",
        "minimum.f64": "nan_minimum({0}, {1})",
        "eq": "{0} == {1}",
        "ne": "{0} != {1}",
        "lt": "{0} < {1}",
        "le": "{0} <= {1}",
        "gt": "{0} > {1}",
        "ge": "{0} >= {1}",
        "and": "{0} & {1}",
        "or": "{0} | {1}",
        "not": "~{0}",
        "select": "tl.where({0}, {1}, {2})",
        "isnan": "{0} != {0}",
        "sqrt.f32": "tl.sqrt_rn({0})",
        "sqrt.f64": "tl.sqrt({0})",
        "exp": "libdevice.exp({0})",
        "log": "libdevice.log({0})",
        "sin": "libdevice.sin({0})",
        "cos": "libdevice.cos({0})",
        "tanh": "libdevice.tanh({0})",
        "erf": "libdevice.erf({0})",
        "erfc": "libdevice.erfc({0})",
        "pow": "libdevice.pow({0}, {1})",
        "fmod": "libdevice.fmod({0}, {1})",
        "floor": "tl.floor({0})",
        "ceil": "tl.ceil({0})",
        "rint": "libdevice.rint({0})",
        "round_bf16": "{0}.to(tl.bfloat16).to(tl.float32)",
        "round_f16": "{0}.to(tl.float16).to(tl.float32)",
        "bits": "{0}.to(tl.uint32, bitcast=True)",
        "from_bits": "{0}.to(tl.float32, bitcast=True)",
        "shl": "{0} << {1}",
        "shr": "{0} >> {1}",
        "band": "{0} & {1}",
        "bor": "{0} | {1}",
        **{f"to_{held}": f"{{0}}.to({name})" for held, name in TYPES.items() if held != "bool"},
    }

    HELPERS: Mapping[str, str] = {
        "nan_maximum": (
            "@triton.jit\n"
            "def nan_maximum(a, b):\n"
            "    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"
        ),
        "nan_minimum": (
            "@triton.jit\n"
            "def nan_minimum(a, b):\n"
            "    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"
        ),
        "add": "@triton.jit\ndef add(a, b):\n    return a + b\n",
        "argmax": (
            "@triton.jit\n"
            "def argmax(a, i, b, j):\n"
            "    # The first NaN, else the first of the greatest.\n"
            "    tie = (a == b) | ((a != a) & (b != b))\n"
            "    left = (a > b) | ((a != a) & (b == b)) | (tie & (i < j))\n"
            "    return tl.where(left, a, b), tl.where(left, i, j)\n"
        ),
        "argmin": (
            "@triton.jit\n"
            "def argmin(a, i, b, j):\n"
            "    # The first NaN, else the first of the least.\n"
            "    tie = (a == b) | ((a != a) & (b != b))\n"
            "    left = (a < b) | ((a != a) & (b == b)) | (tie & (i < j))\n"
            "    return tl.where(left, a, b), tl.where(left, i, j)\n"
        ),
    }

    def literal(self, value: np.ndarray[Any, Any], register: str) -> str:
        if register == "bool":
            return f"tl.full((), {bool(value)}, tl.int1)"
        if register in ("f32", "f64"):
            return _float(value, register)
        number = int(value)
        return str(number) if register == "i32" else f"tl.full((), {number}, {TYPES[register]})"

    def let(self, name: str, register: str, text: str) -> str:
        return f"{name} = {text}"

    def write(self, primitive: str, register: str, operands: Sequence[str]) -> str:
        """Returns the text of one primitive; among literals alone, the first gets a type."""
        if all(map(is_bare, operands)):
            operands = [typed(operands[0], register), *operands[1:]]
        return super().write(primitive, register, operands)


LANGUAGE = TritonLanguage()

RESERVED = frozenset(
    {
        *keyword.kwlist,
        "__debug__",
        *("tl", "triton", "libdevice", "range", "float"),
        *TritonLanguage.HELPERS,
    }
)
"""Holds the names that no variable may have; `__debug__` is no keyword, but Python keeps it."""


def is_bare(text: str) -> bool:
    """Returns True if a text is a literal without a type."""
    return BARE.fullmatch(text) is not None


def typed(text: str, register: str) -> str:
    """Returns a literal as a scalar of a register; other text as it is."""
    return f"tl.full((), {text}, {TYPES[register]})" if is_bare(text) else text


def loaded(text: str, dtype: DType) -> str:
    """Returns a loaded element in the register of its dtype."""
    if dtype.kind == "mask":
        return f"{text} != 0"
    register = REGISTERS[dtype.name]
    return text if register == dtype.name else f"{text}.to({TYPES[register]})"


def stored(text: str, dtype: DType) -> str:
    """Returns a value of a register as an element of a buffer."""
    register = REGISTERS[dtype.name]
    if is_bare(text):
        text = typed(text, register)
    return text if register == dtype.name else f"{text}.to({ELEMENTS[dtype.name]})"


def _float(value: np.ndarray[Any, Any], register: str) -> str:
    number = float(value)
    text = _digits(value, number)
    is_plain = number == 0 or not np.isfinite(number) or abs(number) >= SMALLEST_NORMAL
    if register == "f32" and is_plain:
        return text
    return f"tl.full((), {text}, {TYPES[register]})"


def _digits(value: np.ndarray[Any, Any], number: float) -> str:
    """Returns the shortest text of a number; that of an f32 may be another f64."""
    if not np.isfinite(number):
        return f'float("{number}")'
    short = str(value.dtype.type(value))
    return short if value.dtype.type(float(short)) == value else repr(number)
