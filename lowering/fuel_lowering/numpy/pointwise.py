# SPDX-License-Identifier: MIT OR Apache-2.0
"""Elementwise ops as sequences of ufunc calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
from xdsl.ir import Operation

from fuel_dialect import dtypes
from fuel_dialect.ops import comparison
from fuel_dialect.ops import elementwise as ops
from fuel_dialect.ops.base import int_value, tensor_type
from fuel_dialect.reference.precision import is_float, scalar
from fuel_lowering.numpy.builder import Builder, Rule, is_narrow
from fuel_lowering.numpy.steps import Recipe, Temp
from fuel_lowering.numpy.values import Ref

BOOL = np.dtype(np.bool_)

SIGMOID_LIMIT = 40
"""Beyond it, f64 has 1."""


def _helper(call: str, *temps: Temp, reuse: tuple[int, ...] = ()) -> Recipe:
    """One call of a function of `support`."""
    return Recipe((f"support.{call}",), "element", reuse, temps)


DIVIDE = _helper("truncating_divide({0}, {1}, {y}, {t0}, {t1})", Temp(), Temp("?"), reuse=(0, 1))
SATURATE = _helper("saturate({0}, {y}, {t0}, {t1})", Temp("f8"), Temp("?"))
ERF = _helper("erf({0}, {y}, {t0}, {t1}, {t2})", Temp("f8"), Temp("f8"), Temp("f8"))
ERF64 = _helper("erf64({0}, {y})")
GELU = _helper("gelu({0}, {y}, {t0}, {t1})", Temp(), Temp())
GELU64 = _helper("gelu64({0}, {y})")
POWER = _helper("power({0}, {1}, {y})")
CONVERT = Recipe(("copyto({y}, support.convert({0}, {y}.dtype))",), "element")
GREATER = Recipe(("greater({0}, {1}, {y})",), "element")

Wide = Callable[[Builder, Any, Sequence[Ref]], Ref]


def widened(rule: Wide) -> Wide:
    """A rule for operands of f32 or wider, or integers: others are widened, the result rounded."""

    def apply(b: Builder, op: Operation, operands: Sequence[Ref]) -> Ref:
        dtype = operands[0].dtype
        result = rule(b, op, [b.widen(operand) for operand in operands])
        is_mask = result.dtype == BOOL
        return result if is_mask or not is_narrow(dtype) else b.narrow(result, dtype)

    return apply


def ufunc(name: str) -> Wide:
    """A rule for an op that is one ufunc."""
    return widened(lambda b, op, xs: b.call(name, *xs))


def compare(name: str) -> Wide:
    return widened(lambda b, op, xs: b.call(name, *xs, dtype=BOOL))


def on_floats(name: str) -> Wide:
    """A ufunc on floats; integers stay as they are."""
    whole = ufunc(name)
    return lambda b, op, xs: whole(b, op, xs) if is_float(xs[0].dtype) else xs[0]


def _div(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    if is_float(xs[0].dtype):
        return b.call("divide", *xs)
    return _truncating_divide(b, *xs)


def _truncating_divide(b: Builder, lhs: Ref, rhs: Ref) -> Ref:
    if lhs.dtype.kind == "u":
        return b.call("floor_divide", lhs, rhs)
    return b.step(DIVIDE, lhs, rhs)


def _pow(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    return b.step(POWER, *xs) if is_float(xs[0].dtype) else b.call("power", *xs)


def _relu(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    return b.call("maximum", xs[0], 0)


def _step(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    return b.step(GREATER, xs[0], b.number(0, xs[0]))


def _rsqrt(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    return b.call("reciprocal", b.call("sqrt", xs[0]))


def _sigmoid(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    """e^x / (1 + e^x), which keeps the negative tail; no overflow, as 1 + e^x is e^x before."""
    e = b.call("exp", b.call("minimum", xs[0], SIGMOID_LIMIT))
    return b.call("divide", e, b.call("add", e, 1))


def _silu(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    return _gated(b, xs[0], b.call("multiply", xs[0], 0.5))


def _gated(b: Builder, x: Ref, half: Ref) -> Ref:
    """
    x sigmoid(2 half), as x h / (1 + h^2) h with h = exp(half): the tail of negative x is rounded
    once, at the end, where it is too small to be normal.
    """
    h = b.call("exp", b.call("minimum", half, SIGMOID_LIMIT / 2))
    ratio = b.call("divide", h, b.call("add", b.call("square", h), 1))
    return b.call("multiply", b.call("multiply", ratio, x), h)


def _erf(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    return b.step(ERF64 if xs[0].dtype == np.float64 else ERF, xs[0])


def _gelu(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    return b.step(GELU64 if xs[0].dtype == np.float64 else GELU, xs[0])


def _gelu_tanh(b: Builder, op: Any, xs: Sequence[Ref]) -> Ref:
    (x,) = xs
    c = sqrt(2 / pi)
    slope = b.call("add", b.call("multiply", b.call("square", x), c * 0.044715), c)
    return _gated(b, x, b.call("multiply", slope, x))


def _powi(b: Builder, op: ops.PowiOp, xs: Sequence[Ref]) -> Ref:
    (x,) = xs
    exponent = int_value(op.exponent)
    power = _power(b, x, abs(exponent))
    if exponent >= 0:
        return power
    if is_float(x.dtype):
        return b.call("reciprocal", power)
    return _truncating_divide(b, b.number(1, x), power)


def _power(b: Builder, x: Ref, exponent: int) -> Ref:
    result: Ref | None = None
    while exponent:
        if exponent % 2:
            result = x if result is None else b.call("multiply", result, x)
        exponent //= 2
        x = b.call("square", x) if exponent else x
    return b.number(1, x) if result is None else result


def _with_scalar(name: str) -> Wide:
    """A ufunc of x and a number, which is converted to x's dtype first."""

    def apply(b: Builder, op: ops.ScalarOp, xs: Sequence[Ref]) -> Ref:
        (x,) = xs
        number = b.writer.scalar(scalar(op.value, x.dtype), x.shape)
        return ufunc(name)(b, op, [x, number])

    return apply


def _clamp(b: Builder, op: ops.ClampOp, xs: Sequence[Ref]) -> Ref:
    (x,) = xs
    dtype = dtypes.of_type(tensor_type(op.result)).numpy
    low, high = (scalar(limit.value.data, dtype) for limit in (op.min, op.max))
    limits = [b.widen(b.writer.scalar(limit, x.shape)) for limit in (low, high)]
    return b.call("minimum", b.call("maximum", x, limits[0]), limits[1])


def _bits(dtype: np.dtype[Any]) -> Temp:
    """A temporary of integers as wide as the elements."""
    return Temp(f"i{dtype.itemsize}")


def _where(b: Builder, op: ops.WhereOp, xs: Sequence[Ref]) -> Ref:
    mask, on_true, on_false = xs
    bits = _bits(on_true.dtype)
    recipe = _helper("where({0}, {1}, {2}, {y}, {t0})", bits, reuse=(1,))
    return b.step(recipe, mask, on_true, on_false, dtype=on_true.dtype)


def _masked_fill(b: Builder, op: ops.MaskedFillOp, xs: Sequence[Ref]) -> Ref:
    x, mask = xs
    value: Any = op.value
    number = b.writer.scalar(scalar(value.value.data, x.dtype), x.shape)
    recipe = _helper("masked_fill({0}, {1}, {2}, {y}, {t0})", _bits(x.dtype), reuse=(0,))
    return b.step(recipe, x, mask, number)


def _cast(b: Builder, op: ops.CastOp, xs: Sequence[Ref]) -> Ref:
    (x,) = xs
    source, target = dtypes.of(x.dtype), dtypes.of_type(tensor_type(op.result))
    dtype = target.numpy
    if source == target:
        return x
    if "storage" in (source.kind, target.kind) or _rounds_twice(source, target):
        return b.step(CONVERT, x, dtype=dtype)
    if target.kind == "mask":
        wide = b.widen(x)
        return b.call("not_equal", wide, 0, dtype=dtype)
    if source.is_float and target.is_integer:
        return b.step(SATURATE, b.widen(x), dtype=dtype)
    if source.is_float and target.is_float and is_narrow(x.dtype):
        return b.narrow(b.widen(x), dtype)
    return b.convert(x, dtype)


def _rounds_twice(source: dtypes.DType, target: dtypes.DType) -> bool:
    """Whether ml_dtypes would go through f32 and round there first."""
    return target.name == "bf16" and source.bits >= 32 and source.name != "f32"


UFUNCS: dict[type[Operation], str] = {
    ops.AddOp: "add",
    ops.SubOp: "subtract",
    ops.MulOp: "multiply",
    ops.RemOp: "remainder",
    ops.MaximumOp: "maximum",
    ops.MinimumOp: "minimum",
    ops.NegOp: "negative",
    ops.SqrOp: "square",
    ops.AbsOp: "absolute",
    ops.SignOp: "sign",
    ops.SqrtOp: "sqrt",
    ops.RecipOp: "reciprocal",
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
    comparison.EqOp: "equal",
    comparison.NeOp: "not_equal",
    comparison.LtOp: "less",
    comparison.LeOp: "less_equal",
    comparison.GtOp: "greater",
    comparison.GeOp: "greater_equal",
}

COMPOSED: dict[type[Operation], Wide] = {
    ops.DivOp: _div,
    ops.PowOp: _pow,
    ops.ReluOp: _relu,
    ops.StepOp: _step,
    ops.RsqrtOp: _rsqrt,
    ops.SigmoidOp: _sigmoid,
    ops.SiluOp: _silu,
    ops.ErfOp: _erf,
    ops.GeluOp: _gelu,
    ops.GeluTanhOp: _gelu_tanh,
    ops.PowiOp: _powi,
    ops.ClampOp: _clamp,
}

RULES: dict[type[Operation], Rule] = {
    **{op: ufunc(name) for op, name in UFUNCS.items()},
    **{op: on_floats(name) for op, name in ROUNDINGS.items()},
    **{op: compare(name) for op, name in COMPARISONS.items()},
    **{op: widened(rule) for op, rule in COMPOSED.items()},
    ops.AddScalarOp: _with_scalar("add"),
    ops.MulScalarOp: _with_scalar("multiply"),
    ops.WhereOp: _where,
    ops.MaskedFillOp: _masked_fill,
    ops.CastOp: _cast,
}
"""How each elementwise op becomes steps."""
