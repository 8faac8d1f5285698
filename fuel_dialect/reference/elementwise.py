# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Elementwise arithmetic (`fuel_dialect.ops.elementwise`).

Integers wrap. Floats follow IEEE; bf16 and f16 are computed in f32 and rounded once per op.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fuel_dialect.reference import precision
from fuel_dialect.reference.precision import Array, convert, is_float, narrow, widen


def _unary(function: Callable[[Array], Any], x: Array) -> Array:
    """`function` of the widened operand, without warnings, in the dtype of the operand."""
    with np.errstate(all="ignore"):
        return narrow(function(widen(x)), x.dtype)


def _binary(function: Callable[[Array, Array], Any], a: Array, b: Array) -> Array:
    """`function` of the widened operands, without warnings, in their dtype."""
    with np.errstate(all="ignore"):
        return narrow(function(widen(a), widen(b)), a.dtype)


def _unary_f64(function: Callable[[Any], Any], x: Array) -> Array:
    """A scalar function of f64, element by element."""
    with np.errstate(all="ignore"):
        return narrow(np.vectorize(function, otypes=[np.float64])(x.astype(np.float64)), x.dtype)


def _in_f64(function: Callable[[Array], Any], x: Array) -> Array:
    """`function` of the operand as f64, without warnings, in the dtype of the operand."""
    with np.errstate(all="ignore"):
        return narrow(function(x.astype(np.float64)), x.dtype)


def add(a: Array, b: Array) -> Array:
    return _binary(np.add, a, b)


def sub(a: Array, b: Array) -> Array:
    return _binary(np.subtract, a, b)


def mul(a: Array, b: Array) -> Array:
    return _binary(np.multiply, a, b)


def div(a: Array, b: Array) -> Array:
    return _binary(np.divide if is_float(a.dtype) else _truncating_div, a, b)


def _truncating_div(a: Array, b: Array) -> Array:
    """Toward zero; x / 0 is 0 and MIN / -1 is MIN, as -MIN wraps."""
    divisor = np.where((b == 0) | (b == -1), 1, b).astype(b.dtype)
    floor, remainder = np.divmod(a, divisor)
    quotient = floor + ((remainder != 0) & ((a < 0) != (divisor < 0)))
    return np.where(b == 0, 0, np.where(b == -1, np.negative(a), quotient))


def pow(a: Array, b: Array) -> Array:
    return _binary(_ieee_power, a, b)


def _ieee_power(a: Array, b: Array) -> Array:
    """IEEE's pow. NumPy takes the square root where the exponent is one 0.5: -0 and NaN there."""
    power = np.power(a, b)
    root = np.where(np.isneginf(a), np.inf, np.where(a == 0, 0, power)).astype(a.dtype)
    return np.where(b == 0.5, root, power)


def rem(a: Array, b: Array) -> Array:
    if is_float(a.dtype):
        return _binary(np.remainder, a, b)
    divisor = np.where((b == 0) | (b == -1), 1, b).astype(b.dtype)
    return _binary(np.remainder, a, divisor)


def maximum(a: Array, b: Array) -> Array:
    return _binary(np.maximum, a, b)


def minimum(a: Array, b: Array) -> Array:
    return _binary(np.minimum, a, b)


def neg(x: Array) -> Array:
    return _unary(np.negative, x)


def sqr(x: Array) -> Array:
    return _unary(np.square, x)


def abs(x: Array) -> Array:
    return _unary(np.abs, x)


def relu(x: Array) -> Array:
    return _unary(lambda x: np.maximum(x, x.dtype.type(0)), x)


def step(x: Array) -> Array:
    return _unary(lambda x: x > 0, x)


def sign(x: Array) -> Array:
    return _unary(np.sign, x)


def floor(x: Array) -> Array:
    return _unary(np.floor, x) if is_float(x.dtype) else x


def ceil(x: Array) -> Array:
    return _unary(np.ceil, x) if is_float(x.dtype) else x


def round(x: Array) -> Array:
    return _unary(np.rint, x) if is_float(x.dtype) else x


def sqrt(x: Array) -> Array:
    return _unary(np.sqrt, x)


def rsqrt(x: Array) -> Array:
    return _unary(lambda x: 1 / np.sqrt(x), x)


def recip(x: Array) -> Array:
    return _unary(np.reciprocal, x)


def exp(x: Array) -> Array:
    return _unary(np.exp, x)


def log(x: Array) -> Array:
    return _unary(np.log, x)


def sin(x: Array) -> Array:
    return _unary(np.sin, x)


def cos(x: Array) -> Array:
    return _unary(np.cos, x)


def tanh(x: Array) -> Array:
    return _unary(np.tanh, x)


def sigmoid(x: Array) -> Array:
    return _in_f64(_sigmoid, x)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def silu(x: Array) -> Array:
    return _in_f64(lambda x: x * _sigmoid(x), x)


def erf(x: Array) -> Array:
    return _unary_f64(math.erf, x)


def gelu(x: Array) -> Array:
    return _unary_f64(lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)), x)


def gelu_tanh(x: Array) -> Array:
    """0.5 x (1 + tanh(u)) is x sigmoid(2 u), in which nothing cancels."""
    c, k = math.sqrt(2 / math.pi), 0.044715
    return _in_f64(lambda x: x * _sigmoid(2 * c * (x + k * x * x * x)), x)


def add_scalar(x: Array, *, scalar: float) -> Array:
    return _binary(np.add, x, precision.scalar(scalar, x.dtype))


def mul_scalar(x: Array, *, scalar: float) -> Array:
    return _binary(np.multiply, x, precision.scalar(scalar, x.dtype))


def powi(x: Array, *, exponent: int) -> Array:
    """By repeated squaring and multiplication; a negative exponent divides 1 at the end."""
    if exponent >= 0:
        return _unary(lambda x: _power(x, exponent), x)
    if not is_float(x.dtype):
        return div(np.ones_like(x), powi(x, exponent=-exponent))
    return _unary(lambda x: 1 / _power(x, -exponent), x)


def _power(x: Array, exponent: int) -> Array:
    result = np.ones_like(x)
    while exponent:
        if exponent % 2:
            result = result * x
        x, exponent = x * x, exponent // 2
    return result


def clamp(x: Array, *, min: float, max: float) -> Array:
    low, high = precision.scalar(min, x.dtype), precision.scalar(max, x.dtype)
    return _unary(lambda x: np.minimum(np.maximum(x, widen(low)), widen(high)), x)


def where(condition: Array, on_true: Array, on_false: Array) -> Array:
    return np.where(condition, on_true, on_false)


def masked_fill(x: Array, mask: Array, *, value: float) -> Array:
    return np.where(mask, precision.scalar(value, x.dtype), x)


def cast(x: Array, *, dtype: np.dtype[Any]) -> Array:
    return convert(x, dtype)
