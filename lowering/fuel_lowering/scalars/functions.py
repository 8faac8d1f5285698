# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Defines functions of real numbers over the primitives, once for every target.

What is small in the tail of a function is computed as a product, so that nothing cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt

from xdsl.ir import Operation

from fuel_dialect.ops import elementwise as ops
from fuel_lowering.scalars.arithmetic import is_positive
from fuel_lowering.scalars.definition import Definitions, primitive
from fuel_lowering.scalars.values import ScalarBuilder, V

SIGMOID_LIMIT = 40
"""From here on, sigmoid(x) rounds to 1 in f64."""


def sigmoid(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    """Returns e^x / (1 + e^x): keeps the negative tail, and x is limited before e^x overflows."""
    e = code.apply("exp", code.apply("minimum", xs[0], code.number(SIGMOID_LIMIT, xs[0])))
    return code.apply("div", e, code.apply("add", e, code.number(1, e)))


def silu(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    (x,) = xs
    return times_sigmoid(code, x, code.apply("mul", x, code.number(0.5, x)))


def times_sigmoid(code: ScalarBuilder[V], x: V, half: V) -> V:
    """
    Returns x sigmoid(2 half), as x h / (1 + h^2) h with h = exp(half).

    The tail of negative x is rounded once, at the end, where it is too small to be normal.
    """
    limited = code.apply("minimum", half, code.number(SIGMOID_LIMIT / 2, x))
    h = code.apply("exp", limited)
    below = code.apply("add", code.apply("mul", h, h), code.number(1, x))
    return code.apply("mul", code.apply("mul", code.apply("div", h, below), x), h)


def polynomial(code: ScalarBuilder[V], x: V, coefficients: Sequence[float]) -> V:
    """Returns a polynomial of x by Horner's rule; the constant term comes first."""
    result = code.apply("mul", x, code.number(coefficients[-1], x))
    for coefficient in coefficients[-2:0:-1]:
        result = code.apply("mul", code.apply("add", result, code.number(coefficient, x)), x)
    return code.apply("add", result, code.number(coefficients[0], x))


def gelu(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    """Returns x times the normal distribution, by its tail on the side of x: nothing cancels."""
    (x,) = xs
    if x.register == "f64":
        half = code.apply("mul", x, code.number(0.5, x))
        return code.apply("mul", half, _erfc_of_normal(code, x))
    z = code.apply("minimum", code.apply("abs", x), code.number(TAIL_LIMIT, x))
    ratio = code.apply("div", polynomial(code, z, TAIL_ABOVE), polynomial(code, z, TAIL_BELOW))
    power = code.apply("mul", code.apply("mul", z, z), code.number(-0.5, x))
    tail = code.apply("mul", ratio, code.apply("exp", power))
    below = code.apply("abs", code.apply("sub", is_positive(code, x), tail))
    return code.apply("mul", x, below)


def _erfc_of_normal(code: ScalarBuilder[V], x: V) -> V:
    """
    Returns erfc(-x / sqrt 2) in f64.

    erfc(t + rest) is erfc(t) (1 - 2 t rest) where t is large, and erfc(t) elsewhere.
    """
    low = code.apply("maximum", x, code.number(-ERFC_LIMIT, x))
    near = code.apply("minimum", low, code.number(ERFC_LIMIT, x))
    t, rest = _product(code, near, *SQRT_HALF)
    slope = code.apply("mul", code.apply("maximum", t, code.number(0, x)), code.number(-2, x))
    factor = code.apply("add", code.apply("mul", slope, rest), code.number(1, x))
    return code.apply("mul", code.apply("erfc", t), factor)


ERFC_LIMIT = 40.0
"""From here on, erfc(x / sqrt 2) is 0 in f64."""

SQRT_HALF = (-0.7071067811865476, 4.833646656726457e-17)
"""The negative square root of a half: an f64, and its error."""


def _product(code: ScalarBuilder[V], x: V, number: float, error: float) -> tuple[V, V]:
    """Returns the product of an f64 and `number + error`, rounded, and its error (Dekker)."""
    product = code.apply("mul", x, code.number(number, x))
    scaled = code.apply("mul", x, code.number(SPLIT, x))
    head = code.apply("sub", scaled, code.apply("sub", scaled, x))
    rest = code.apply("sub", x, head)
    number_head = SPLIT * number - (SPLIT * number - number)
    number_rest = number - number_head
    off = code.apply("sub", code.apply("mul", head, code.number(number_head, x)), product)
    off = code.apply("add", off, code.apply("mul", head, code.number(number_rest, x)))
    off = code.apply("add", off, code.apply("mul", rest, code.number(number_head, x)))
    off = code.apply("add", off, code.apply("mul", rest, code.number(number_rest, x)))
    return product, code.apply("add", off, code.apply("mul", x, code.number(error, x)))


SPLIT = 2.0**27 + 1
"""A product with it splits an f64 into two of 26 bits (Veltkamp)."""

TAIL_LIMIT = 14.5
"""Beyond it, exp(-z^2 / 2) is 0 in f32."""

TAIL_ABOVE = (
    0.49999999995901717,
    0.5072462877904886,
    0.2503133467832578,
    0.07119904135475359,
    0.011618527822594682,
    0.0008869489456042154,
)
TAIL_BELOW = (
    1.0,
    1.8123771285199997,
    1.446694544053058,
    0.6564655484776852,
    0.18069842868060385,
    0.02912314119679586,
    0.0022232541275874675,
)
"""
exp(z^2 / 2) times the normal tail beyond z, as a quotient of polynomials in z; 1e-10 off.

The coefficients are our own fit: weighted least squares on Chebyshev nodes, reweighted until the
error is level.
"""


def gelu_tanh(code: ScalarBuilder[V], op: Operation, xs: Sequence[V]) -> V:
    """Returns x / 2 (1 + tanh(u)) as x sigmoid(2 u), which keeps the negative tail."""
    (x,) = xs
    slope = polynomial(code, code.apply("mul", x, x), GELU_TANH_SLOPE)
    return times_sigmoid(code, x, code.apply("mul", slope, x))


GELU_TANH_SLOPE = (sqrt(2 / pi), sqrt(2 / pi) * 0.044715)
"""The terms of u / x as a polynomial of x^2."""

DEFINITIONS: Definitions = {
    ops.ExpOp: primitive("exp"),
    ops.LogOp: primitive("log"),
    ops.SinOp: primitive("sin"),
    ops.CosOp: primitive("cos"),
    ops.TanhOp: primitive("tanh"),
    ops.ErfOp: primitive("erf"),
    ops.SigmoidOp: sigmoid,
    ops.SiluOp: silu,
    ops.GeluOp: gelu,
    ops.GeluTanhOp: gelu_tanh,
}
"""The definition of each op."""
