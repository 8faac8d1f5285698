# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Elementwise ops as scalar code, the same for every target that generates it.

`RULES` says how an op becomes primitives; a `Language` says how a target writes a primitive. A
value of bf16 or f16 is held in an f32 register, rounded after every op; one of i8, i16 or ui8 in an
i32 register, wrapped after every op; so a language knows few registers.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import pi, sqrt
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from fuel_dialect import dtypes, plugins
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.ops import comparison
from fuel_dialect.ops import elementwise as ops
from fuel_dialect.ops.base import FuelOp, int_value, tensor_type
from fuel_dialect.reference.precision import scalar
from fuel_lowering.names import stem
from fuel_lowering.numpy.special import (
    ERF_ABOVE,
    ERF_BELOW,
    ERF_LIMIT,
    TAIL_ABOVE,
    TAIL_BELOW,
    TAIL_LIMIT,
)

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
"""What holds a value of each element type while it is computed with."""


@dataclass(frozen=True)
class Term:
    """A value of the code being written: a name or a literal, and the element type it has."""

    text: str
    dtype: DType

    @property
    def register(self) -> str:
        return REGISTERS[self.dtype.name]

    @property
    def is_float(self) -> bool:
        return self.dtype.is_float


PRIMITIVES = frozenset(
    "add sub mul div idiv neg abs maximum minimum eq ne lt le gt ge and or not select isnan "
    "sqrt exp log sin cos tanh erf erfc pow fmod floor ceil rint round_bf16 round_f16 "
    "bits from_bits shl shr band bor to_i32 to_i64 to_ui32 to_f32 to_f64".split()
)
"""
What a language writes. `div` is of floats, `idiv` of integers: toward zero, never by 0, nor MIN by
-1. `maximum` and `minimum` of floats give NaN if either is NaN. `rint` is to nearest even.
`round_bf16` and `round_f16` round an f32 to nearest even and widen it again. `bits` are those of an
f32 as ui32, `from_bits` the inverse; `shl`, `shr` (with zeros; with the sign of an i32), `band` and
`bor` are of ui32 and i32. `to_*` convert between registers: to an integer from a float that fits,
else by wrapping.
"""


class Language(abc.ABC):
    """How a target writes scalar code."""

    PRIMITIVES: Mapping[str, str]
    """
    A format of the operands for each primitive; "add.i32" is used before "add" where the first
    operand is in an i32 register.
    """
    HELPERS: Mapping[str, str] = {}
    """Definitions of the functions that formats call, by name."""

    @abc.abstractmethod
    def literal(self, value: np.ndarray[Any, Any], register: str) -> str:
        """A constant; `value` is a rank-0 array, NaN and infinities included."""

    @abc.abstractmethod
    def let(self, name: str, register: str, text: str) -> str:
        """The statement that gives a value a name."""

    def write(self, primitive: str, register: str, operands: Sequence[str]) -> str:
        """The text of one primitive."""
        own = f"{primitive}.{register}"
        template = self.PRIMITIVES.get(own) or self.PRIMITIVES[primitive]
        return template.format(*operands)

    def helpers(self, source: str) -> list[str]:
        """The definitions of all helpers that a text calls, those they call themselves first."""
        found: dict[str, None] = {}

        def visit(text: str) -> None:
            for name in re.findall(r"\w+", text):
                if name in self.HELPERS and name not in found:
                    visit(re.sub(rf"\b{name}\b", "", self.HELPERS[name]))
                    found[name] = None

        visit(source)
        return [self.HELPERS[name] for name in found]


@dataclass(eq=False)
class Code:
    """Straight scalar code while it is being written: lines, and names not used before."""

    language: Language
    lines: list[str] = field(default_factory=list[str])
    taken: set[str] = field(default_factory=set[str])
    hint: str = "t"

    def fresh(self, hint: str | None = None) -> str:
        """A name that nothing has yet."""
        first = stem(hint or self.hint, "v")
        name, number = first, 1
        while not self.is_free(name):
            number += 1
            name = f"{first}_{number}"
        self.taken.add(name)
        return name

    def is_free(self, name: str) -> bool:
        """Returns True if nothing has a name yet, and the language keeps it for nothing."""
        return name not in self.taken

    def let(self, text: str, dtype: DType, hint: str | None = None) -> Term:
        """A line that names what a text computes."""
        name = self.fresh(hint)
        self.lines.append(self.language.let(name, REGISTERS[dtype.name], text))
        return Term(name, dtype)

    def apply(self, primitive: str, *operands: Term, dtype: DType | None = None) -> Term:
        """One primitive of some values; of the first one's element type unless given."""
        first = operands[0]
        text = self.language.write(primitive, first.register, [o.text for o in operands])
        return self.let(text, first.dtype if dtype is None else dtype)

    def number(self, value: float, like: Term | DType) -> Term:
        """A constant of a value's element type, without rounding to bf16 or f16."""
        dtype = like if isinstance(like, DType) else like.dtype
        register = REGISTERS[dtype.name]
        held = dtypes.BY_NAME["i1" if register == "bool" else register]
        return Term(self.language.literal(scalar(value, held.numpy), register), dtype)

    def constant(self, value: np.ndarray[Any, Any]) -> Term:
        """A constant that is a rank-0 array."""
        dtype = dtypes.of(value.dtype)
        register = REGISTERS[dtype.name]
        held = value if register == "bool" else value.astype(dtypes.BY_NAME[register].numpy)
        return Term(self.language.literal(held, register), dtype)

    def compare(self, primitive: str, a: Term, b: Term | float) -> Term:
        """A mask."""
        b = b if isinstance(b, Term) else self.number(b, a)
        return self.apply(primitive, a, b, dtype=MASK)

    def select(self, mask: Term, a: Term, b: Term) -> Term:
        text = self.language.write("select", a.register, [mask.text, a.text, b.text])
        return self.let(text, a.dtype)

    def settle(self, value: Term) -> Term:
        """A value whose register may hold more than its element type does, rounded or wrapped."""
        name = value.dtype.name
        if name in ("bf16", "f16"):
            return self.apply(f"round_{name}", value)
        if name in ("i8", "i16"):
            bits = self.number(32 - value.dtype.bits, I32)
            return self.apply("shr", self.apply("shl", value, bits), bits)
        if name == "ui8":
            return self.apply("band", value, self.number(255, I32))
        return value

    def into(self, value: Term, dtype: DType) -> Term:
        """The value in the register of another element type, wrapped or rounded to nothing yet."""
        if value.register == REGISTERS[dtype.name]:
            return Term(value.text, dtype)
        return self.apply(f"to_{REGISTERS[dtype.name]}", value, dtype=dtype)


MASK = dtypes.BY_NAME["i1"]
I32, UI32 = dtypes.BY_NAME["i32"], dtypes.BY_NAME["ui32"]
F32, F64 = dtypes.BY_NAME["f32"], dtypes.BY_NAME["f64"]

Rule = Callable[[Code, Any, Sequence[Term]], Term]
"""How an op becomes primitives: the code, the op and its operands; gives its result."""


def evaluate(code: Code, op: Operation, operands: Sequence[Term]) -> Term:
    """
    The result of an elementwise op, rounded or wrapped to its element type.

    Raises `LoweringError` for an op without a rule.
    """
    rule = rules().get(type(op))
    if rule is None:
        types = ", ".join(str(o.type) for o in op.operands)
        raise LoweringError(f"{op.name}: there is no scalar rule for it on {types}")
    code.hint = op.results[0].name_hint or cast(FuelOp, op).mnemonic()
    result = rule(code, op, operands)
    return result if type(op) in EXACT else code.settle(result)


@cache
def rules() -> Mapping[type[Operation], Rule]:
    """How each op becomes primitives; those of other packages too."""
    return plugins.kernels("scalars", RULES)


def result_dtype(value: SSAValue) -> DType:
    return dtypes.of_type(tensor_type(value))


# Rules.


def primitive(name: str) -> Rule:
    """A rule for an op that is one primitive."""
    return lambda code, op, xs: code.apply(name, *xs)


def _of_floats(name: str) -> Rule:
    """One primitive of floats; integers stay as they are."""
    return lambda code, op, xs: code.apply(name, *xs) if xs[0].is_float else xs[0]


def _compare(name: str) -> Rule:
    """A comparison; masks are compared as numbers."""

    def apply(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
        a, b = (code.into(x, I32) if x.dtype == MASK else x for x in xs)
        return code.compare(name, a, b)

    return apply


def _div(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    a, b = xs
    return code.apply("div", a, b) if a.is_float else _quotient(code, a, b)


def _quotient(code: Code, a: Term, b: Term) -> Term:
    """Toward zero; x / 0 is 0 and MIN / -1 is MIN, as -MIN wraps."""
    zero, one = code.number(0, b), code.number(1, b)
    by_zero = code.compare("eq", b, 0)
    safe = code.select(by_zero, one, b)
    if a.dtype.kind == "unsigned":
        return code.select(by_zero, zero, code.apply("idiv", a, safe))
    by_minus_one = code.compare("eq", b, -1)
    quotient = code.apply("idiv", a, code.select(by_minus_one, one, safe))
    quotient = code.select(by_minus_one, code.apply("neg", a), quotient)
    return code.select(by_zero, zero, quotient)


def _rem(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    a, b = xs
    if a.is_float:
        return _float_remainder(code, a, b)
    remainder = code.apply("sub", a, code.apply("mul", _quotient(code, a, b), b))
    zero = code.number(0, b)
    if a.dtype.kind == "signed":
        differs = code.apply(
            "ne", code.compare("lt", remainder, 0), code.compare("lt", b, 0), dtype=MASK
        )
        moves = code.apply("and", code.compare("ne", remainder, 0), differs)
        remainder = code.select(moves, code.apply("add", remainder, b), remainder)
    return code.select(code.compare("eq", b, 0), zero, remainder)


def _float_remainder(code: Code, a: Term, b: Term) -> Term:
    """With the sign of the divisor, a zero too; exact but for one sum."""
    remainder = code.apply("fmod", a, b)
    is_below = code.compare("lt", b, 0)
    differs = code.apply("ne", code.compare("lt", remainder, 0), is_below, dtype=MASK)
    moved = code.select(differs, code.apply("add", remainder, b), remainder)
    zero = code.select(is_below, code.number(-0.0, b), code.number(0.0, b))
    return code.select(code.compare("eq", remainder, 0), zero, moved)


def _relu(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    return code.apply("maximum", xs[0], code.number(0, xs[0]))


def _step(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    (x,) = xs
    return code.select(code.compare("gt", x, 0), code.number(1, x), code.number(0, x))


def _sign(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    (x,) = xs
    rest = code.number(0, x)
    if x.is_float:
        rest = code.select(code.compare("eq", x, 0), rest, x)
    if x.dtype.kind != "unsigned":
        rest = code.select(code.compare("lt", x, 0), code.number(-1, x), rest)
    return code.select(code.compare("gt", x, 0), code.number(1, x), rest)


def _unsigned_or(name: str) -> Rule:
    """`abs` and the like: nothing to do for unsigned types."""

    def apply(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
        return xs[0] if xs[0].dtype.kind == "unsigned" else code.apply(name, *xs)

    return apply


def _rsqrt(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    return code.apply("div", code.number(1, xs[0]), code.apply("sqrt", xs[0]))


def _recip(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    one = code.number(1, xs[0])
    return code.apply("div", one, xs[0]) if xs[0].is_float else _quotient(code, one, xs[0])


def _sigmoid(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    """Of exp(-|x|), so that nothing overflows and the negative tail is kept."""
    (x,) = xs
    one = code.number(1, x)
    small = code.apply("exp", code.apply("neg", code.apply("abs", x)))
    above = code.select(code.compare("lt", x, 0), small, one)
    return code.apply("div", above, code.apply("add", one, small))


def _silu(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    return _gated(code, xs[0], code.apply("mul", xs[0], code.number(0.5, xs[0])))


def _gated(code: Code, x: Term, half: Term) -> Term:
    """
    x sigmoid(2 half), as x h / (1 + h^2) h with h = exp(half): the tail of negative x is rounded
    once, at the end, where it is too small to be normal.
    """
    one = code.number(1, x)
    h = code.apply("exp", code.apply("minimum", half, code.number(GATE_LIMIT, x)))
    ratio = code.apply("div", h, code.apply("add", one, code.apply("mul", h, h)))
    return code.apply("mul", code.apply("mul", ratio, x), h)


GATE_LIMIT = 20
"""Beyond it, the sigmoid of twice that is 1 in f64."""


def polynomial(code: Code, x: Term, coefficients: Sequence[float]) -> Term:
    """Horner's rule, constant term first."""
    result = code.number(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        scaled = code.apply("mul", result, x)
        result = code.apply("add", scaled, code.number(coefficient, x))
    return result


def _clipped(code: Code, x: Term, limit: float) -> Term:
    low = code.apply("maximum", x, code.number(-limit, x))
    return code.apply("minimum", low, code.number(limit, x))


def _erf(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    """The quotient of polynomials of `numpy.special` for f32; the language's own for f64."""
    (x,) = xs
    if x.register == "f64":
        return code.apply("erf", x)
    near = _clipped(code, x, ERF_LIMIT)
    square = code.apply("mul", near, near)
    above = code.apply("mul", near, polynomial(code, square, ERF_ABOVE))
    return code.apply("div", above, polynomial(code, square, ERF_BELOW))


def _gelu(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    """x times the normal distribution, by its tail on the side of x: nothing cancels."""
    (x,) = xs
    half, one = code.number(0.5, x), code.number(1, x)
    if x.register == "f64":
        tail = code.apply("erfc", code.apply("mul", x, code.number(-sqrt(0.5), x)))
        return code.apply("mul", code.apply("mul", half, x), tail)
    z = code.apply("minimum", code.apply("abs", x), code.number(TAIL_LIMIT, x))
    ratio = code.apply("div", polynomial(code, z, TAIL_ABOVE), polynomial(code, z, TAIL_BELOW))
    power = code.apply("mul", code.apply("mul", z, z), code.number(-0.5, x))
    tail = code.apply("mul", ratio, code.apply("exp", power))
    below = code.select(code.compare("gt", x, 0), code.apply("sub", one, tail), tail)
    return code.apply("mul", x, below)


def _gelu_tanh(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    (x,) = xs
    cube = code.apply("mul", code.apply("mul", x, x), x)
    inner = code.apply("add", x, code.apply("mul", code.number(0.044715, x), cube))
    return _gated(code, x, code.apply("mul", code.number(sqrt(2 / pi), x), inner))


def _powi(code: Code, op: ops.PowiOp, xs: Sequence[Term]) -> Term:
    """By repeated squaring; floats are rounded once at the end, integers are wrapped as they go."""
    (x,) = xs
    exponent = int_value(op.exponent)
    result, factor, left = code.number(1, x), x, abs(exponent)

    def product(a: Term, b: Term) -> Term:
        wide = code.apply("mul", a, b)
        return wide if x.is_float else code.settle(wide)

    while left:
        if left % 2:
            result = product(result, factor)
        left //= 2
        factor = product(factor, factor) if left else factor
    return result if exponent >= 0 else _recip(code, op, [result])


def _with_scalar(name: str) -> Rule:
    """A primitive of x and a number, which is converted to x's element type first."""

    def apply(code: Code, op: ops.ScalarOp, xs: Sequence[Term]) -> Term:
        (x,) = xs
        return code.apply(name, x, code.constant(scalar(op.value, x.dtype.numpy)))

    return apply


def _clamp(code: Code, op: ops.ClampOp, xs: Sequence[Term]) -> Term:
    (x,) = xs
    low, high = (
        code.constant(scalar(limit.value.data, x.dtype.numpy)) for limit in (op.min, op.max)
    )
    return code.apply("minimum", code.apply("maximum", x, low), high)


def _where(code: Code, op: Operation, xs: Sequence[Term]) -> Term:
    return code.select(*xs)


def _masked_fill(code: Code, op: ops.MaskedFillOp, xs: Sequence[Term]) -> Term:
    x, mask = xs
    value: Any = op.value
    return code.select(mask, code.constant(scalar(value.value.data, x.dtype.numpy)), x)


# Casts.


def _cast(code: Code, op: ops.CastOp, xs: Sequence[Term]) -> Term:
    (x,) = xs
    target = result_dtype(op.result)
    if x.dtype == target:
        return x
    if "storage" in (x.dtype.kind, target.kind):
        raise LoweringError(f"cast: there is no scalar rule from {x.dtype} to {target}")
    if x.dtype == MASK:
        return code.select(x, code.number(1, target), code.number(0, target))
    if target == MASK:
        return code.compare("ne", x, 0)
    if x.is_float and target.is_integer:
        return _saturated(code, x, target)
    if target.bits == 16 and target.is_float:
        x = _without_double_rounding(code, x)
    return code.settle(code.into(x, target))


def _saturated(code: Code, x: Term, target: DType) -> Term:
    """Truncated; the nearest value of the integer type, and 0 for NaN."""
    limits = np.iinfo(target.numpy)
    above = code.compare("ge", x, float(limits.max) + 1 if limits.bits < 64 else 2.0**63)
    below = code.compare("le", x, float(limits.min))
    is_nan = code.apply("isnan", x, dtype=MASK)
    outside = code.apply("or", code.apply("or", above, below), is_nan)
    inside = code.into(code.select(outside, code.number(0, x), x), target)
    kept = code.select(above, code.number(int(limits.max), target), inside)
    return code.select(below, code.number(int(limits.min), target), kept)


def _without_double_rounding(code: Code, x: Term) -> Term:
    """
    A value whose f32 rounds to bf16 or f16 as the value itself does.

    What f32 has no bits for is gathered in a low bit, far below those that the result has.
    """
    if x.register == "f32":
        return x
    if x.register == "f64":
        return _odd_f32(code, x)
    if x.dtype.bits < 32:
        return x
    for shift in range(8, x.dtype.bits - 16, 8):
        x = _sticky(code, x, shift)
    return x


def _sticky(code: Code, x: Term, shift: int) -> Term:
    """An integer of 2^24 or more with its low bits gathered in the one above them."""
    low = code.number(2**shift - 1, x)
    has_low = code.compare("ne", code.apply("band", x, low), 0)
    rest = code.apply("band", x, code.number(-(2**shift) if _is_signed(x) else _high(x, shift), x))
    sticky = code.select(has_low, code.number(2**shift, x), code.number(0, x))
    gathered = code.apply("bor", rest, sticky)
    large = code.compare("ge", x, 2 ** (16 + shift))
    if _is_signed(x):
        large = code.apply("or", large, code.compare("le", x, -(2 ** (16 + shift))))
    return code.select(large, gathered, x)


def _is_signed(x: Term) -> bool:
    return x.dtype.kind == "signed"


def _high(x: Term, shift: int) -> int:
    return 2**x.dtype.bits - 2**shift


def _odd_f32(code: Code, x: Term) -> Term:
    """f64 as f32, inexact values rounded to the neighbour with an odd last bit."""
    nearest = code.into(x, F32)
    back = code.into(nearest, F64)
    bits = code.apply("bits", nearest, dtype=UI32)
    beyond = code.compare("gt", code.apply("abs", back), code.apply("abs", x))
    down = code.apply("sub", bits, code.number(1, UI32))
    bits = code.select(beyond, down, bits)
    exact = code.compare("eq", back, x)
    is_nan = code.apply("isnan", x, dtype=MASK)
    odd = code.apply("bor", bits, code.number(1, UI32))
    keeps = code.apply("or", exact, is_nan)
    return code.apply("from_bits", code.select(keeps, bits, odd), dtype=F32)


SAME: dict[type[Operation], str] = {
    ops.AddOp: "add",
    ops.SubOp: "sub",
    ops.MulOp: "mul",
    ops.PowOp: "pow",
    ops.MaximumOp: "maximum",
    ops.MinimumOp: "minimum",
    ops.NegOp: "neg",
    ops.SqrtOp: "sqrt",
    ops.ExpOp: "exp",
    ops.LogOp: "log",
    ops.SinOp: "sin",
    ops.CosOp: "cos",
    ops.TanhOp: "tanh",
}

ROUNDINGS: dict[type[Operation], str] = {
    ops.FloorOp: "floor",
    ops.CeilOp: "ceil",
    ops.RoundOp: "rint",
}

COMPARISONS: dict[type[Operation], str] = {
    comparison.EqOp: "eq",
    comparison.NeOp: "ne",
    comparison.LtOp: "lt",
    comparison.LeOp: "le",
    comparison.GtOp: "gt",
    comparison.GeOp: "ge",
}

RULES: dict[type[Operation], Rule] = {
    **{op: primitive(name) for op, name in SAME.items()},
    **{op: _of_floats(name) for op, name in ROUNDINGS.items()},
    **{op: _compare(name) for op, name in COMPARISONS.items()},
    ops.SqrOp: lambda code, op, xs: code.apply("mul", xs[0], xs[0]),
    ops.AbsOp: _unsigned_or("abs"),
    ops.DivOp: _div,
    ops.RemOp: _rem,
    ops.ReluOp: _relu,
    ops.StepOp: _step,
    ops.SignOp: _sign,
    ops.RsqrtOp: _rsqrt,
    ops.RecipOp: _recip,
    ops.SigmoidOp: _sigmoid,
    ops.SiluOp: _silu,
    ops.ErfOp: _erf,
    ops.GeluOp: _gelu,
    ops.GeluTanhOp: _gelu_tanh,
    ops.PowiOp: _powi,
    ops.AddScalarOp: _with_scalar("add"),
    ops.MulScalarOp: _with_scalar("mul"),
    ops.ClampOp: _clamp,
    ops.WhereOp: _where,
    ops.MaskedFillOp: _masked_fill,
    ops.CastOp: _cast,
}
"""How each elementwise op becomes primitives."""

EXACT = frozenset(
    {
        *ROUNDINGS,
        *COMPARISONS,
        ops.MaximumOp,
        ops.MinimumOp,
        ops.ReluOp,
        ops.StepOp,
        ops.ClampOp,
        ops.WhereOp,
        ops.MaskedFillOp,
        ops.CastOp,
    }
)
"""Ops whose results are operands, constants, or settled by their rule."""
