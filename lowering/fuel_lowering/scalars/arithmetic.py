# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines arithmetic, comparisons and selections over the primitives, once for every target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from fuel_dialect.numbers import int_value
from fuel_dialect.ops import comparison as compared
from fuel_dialect.ops import elementwise as ops
from fuel_dialect.reference.precision import scalar
from fuel_lowering.scalars.definition import (
    Definition,
    Definitions,
    Exact,
    comparison,
    is_unsigned,
    of_floats,
    of_signed,
    primitive,
)
from fuel_lowering.scalars.values import MASK, ScalarBuilder, V

# Quotients, remainders and powers.


def div(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    a, b = xs
    return code.apply("div", a, b) if a.is_float else quotient(code, a, b)


def quotient(code: ScalarBuilder[V], a: V, b: V) -> V:
    """Returns the truncated quotient of integers; x / 0 is 0, and MIN / -1 is MIN."""
    if code.divides_by_zero:
        return code.apply("idiv", a, b)
    zero, one = code.number(0, b), code.number(1, b)
    by_zero = code.compare("eq", b, 0)
    safe = code.select(by_zero, one, b)
    if is_unsigned(a):
        return code.select(by_zero, zero, code.apply("idiv", a, safe))
    by_minus_one = code.compare("eq", b, -1)
    result = code.apply("idiv", a, code.select(by_minus_one, one, safe))
    result = code.select(by_minus_one, code.apply("neg", a), result)
    return code.select(by_zero, zero, result)


def rem(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    """Returns the remainder of a floored quotient: it has the sign of the divisor."""
    a, b = xs
    if a.is_float:
        return _float_remainder(code, a, b)
    remainder = code.apply("sub", a, code.apply("mul", quotient(code, a, b), b))
    if not is_unsigned(a):
        moves = code.apply(
            "and", code.compare("ne", remainder, 0), _signs_differ(code, remainder, b)
        )
        remainder = code.select(moves, code.apply("add", remainder, b), remainder)
    return code.select(code.compare("eq", b, 0), code.number(0, b), remainder)


def _float_remainder(code: ScalarBuilder[V], a: V, b: V) -> V:
    """Returns the remainder, a zero too with the sign of the divisor; exact but for one sum."""
    remainder = code.apply("fmod", a, b)
    differs = _signs_differ(code, remainder, b)
    moved = code.select(differs, code.apply("add", remainder, b), remainder)
    zero = code.select(code.compare("lt", b, 0), code.number(-0.0, b), code.number(0.0, b))
    return code.select(code.compare("eq", remainder, 0), zero, moved)


def _signs_differ(code: ScalarBuilder[V], a: V, b: V) -> V:
    return code.apply("ne", code.compare("lt", a, 0), code.compare("lt", b, 0), dtype=MASK)


def rsqrt(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    return code.apply("div", code.number(1, xs[0]), code.apply("sqrt", xs[0]))


def recip(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    return code.apply("div", code.number(1, xs[0]), xs[0])


def sqr(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    return code.apply("mul", xs[0], xs[0])


def powi(code: ScalarBuilder[V], op: ops.PowiOp, xs: Sequence[V]) -> V:
    """Squares and multiplies; floats are rounded once at the end, integers wrap as they go."""
    (x,) = xs
    exponent = int_value(op.exponent)
    power = _power(code, x, abs(exponent))
    if exponent >= 0:
        return power
    one = code.number(1, x)
    return code.apply("div", one, power) if x.is_float else quotient(code, one, power)


def _power(code: ScalarBuilder[V], x: V, exponent: int) -> V:
    def product(a: V, b: V) -> V:
        wide = code.apply("mul", a, b)
        return wide if x.is_float else code.round_to_dtype(wide)

    result: V | None = None
    while exponent:
        if exponent % 2:
            result = x if result is None else product(result, x)
        exponent //= 2
        x = product(x, x) if exponent else x
    return code.number(1, x) if result is None else result


def with_scalar(name: str) -> Definition:
    """Returns the definition of a primitive of x and a number, converted to x's element type."""

    def define(code: ScalarBuilder[V], op: ops.ScalarOp, xs: Sequence[V]) -> V:
        (x,) = xs
        return code.apply(name, x, code.constant(scalar(op.value, x.dtype.numpy)))

    return define


# Selections.


def relu(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    return code.apply("maximum", xs[0], code.number(0, xs[0]))


def step(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    return is_positive(code, xs[0])


def is_positive(code: ScalarBuilder[V], x: V) -> V:
    """Returns 1 where x is above 0, else 0."""
    return code.select(code.compare("gt", x, 0), code.number(1, x), code.number(0, x))


def sign(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    (x,) = xs
    rest = code.number(0, x)
    if x.is_float:
        rest = code.select(code.compare("eq", x, 0), rest, x)
    if not is_unsigned(x):
        rest = code.select(code.compare("lt", x, 0), code.number(-1, x), rest)
    return code.select(code.compare("gt", x, 0), code.number(1, x), rest)


def clamp(code: ScalarBuilder[V], op: ops.ClampOp, xs: Sequence[V]) -> V:
    (x,) = xs
    low, high = (code.constant(scalar(limit, x.dtype.numpy)) for limit in op.limits)
    return code.apply("minimum", code.apply("maximum", x, low), high)


def where(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    return code.select(*xs)


def masked_fill(code: ScalarBuilder[V], op: ops.MaskedFillOp, xs: Sequence[V]) -> V:
    x, mask = xs
    value: Any = op.value
    return code.select(mask, code.constant(scalar(value.value.data, x.dtype.numpy)), x)


DEFINITIONS: Definitions = {
    ops.AddOp: primitive("add"),
    ops.SubOp: primitive("sub"),
    ops.MulOp: primitive("mul"),
    ops.DivOp: div,
    ops.PowOp: primitive("pow"),
    ops.RemOp: rem,
    ops.MaximumOp: Exact(primitive("maximum")),
    ops.MinimumOp: Exact(primitive("minimum")),
    ops.NegOp: primitive("neg"),
    ops.SqrOp: sqr,
    ops.AbsOp: of_signed("abs"),
    ops.ReluOp: Exact(relu),
    ops.StepOp: Exact(step),
    ops.SignOp: sign,
    ops.FloorOp: Exact(of_floats("floor")),
    ops.CeilOp: Exact(of_floats("ceil")),
    ops.RoundOp: Exact(of_floats("rint")),
    ops.SqrtOp: primitive("sqrt"),
    ops.RsqrtOp: rsqrt,
    ops.RecipOp: recip,
    ops.AddScalarOp: with_scalar("add"),
    ops.MulScalarOp: with_scalar("mul"),
    ops.PowiOp: powi,
    ops.ClampOp: Exact(clamp),
    ops.WhereOp: Exact(where),
    ops.MaskedFillOp: Exact(masked_fill),
    compared.EqOp: comparison("eq"),
    compared.NeOp: comparison("ne"),
    compared.LtOp: comparison("lt"),
    compared.LeOp: comparison("le"),
    compared.GtOp: comparison("gt"),
    compared.GeOp: comparison("ge"),
}
"""The definition of each op."""
