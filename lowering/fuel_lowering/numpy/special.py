# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Computes the error function, which NumPy lacks, and quotients and remainders, at which it is slow.

The error function of f32 is a quotient of polynomials, evaluated in f64 and rounded once. The
coefficients are our own fit: weighted least squares on Chebyshev nodes, reweighted until the error
is level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuel_dialect.reference.precision import Array

ERF_LIMIT = 3.92
"""From here on, erf(x) rounds to 1 in f32."""

ERF_ABOVE = (
    1.1283791691429674,
    0.18513593993101868,
    0.05424383386379712,
    0.00383861818496282,
    0.000376749177181842,
    4.608959300799211e-06,
    -1.2798430814554334e-08,
)
ERF_BELOW = (
    1.0,
    0.4974058610179996,
    0.11387382046350296,
    0.015430005253340543,
    0.0013015107880645024,
    6.23965675407312e-05,
)
"""erf(x) / x is the quotient of two polynomials in x^2, constant term first; 1.9e-9 off."""


def _constants(values: Sequence[float], dtype: Any) -> tuple[Array, ...]:
    return tuple(np.array(value, dtype) for value in values)


_ERF = _constants(ERF_ABOVE, np.float64), _constants(ERF_BELOW, np.float64)


def _polynomial(x: Array, coefficients: Sequence[Array], out: Array) -> None:
    """Evaluates a polynomial by Horner's rule, the constant term first."""
    np.multiply(x, coefficients[-1], out)
    for coefficient in coefficients[-2:0:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, coefficients[0], out)


def erf(x: Array, out: Array, t: Array, p: Array, q: Array) -> None:
    """Computes the error function of f32; `t`, `p` and `q` are f64."""
    above, below = _ERF
    np.copyto(t, x)
    np.maximum(t, -ERF_LIMIT, out=t)
    np.minimum(t, ERF_LIMIT, out=t)
    np.square(t, p)
    _polynomial(p, below, q)
    np.divide(t, q, q)
    np.copyto(t, p)
    _polynomial(t, above, p)
    np.multiply(p, q, p)
    np.copyto(out, p, casting="unsafe")


EXACT_QUOTIENT = 2.0**28
"""Below it, f64 floors the quotient of two f32 right, and holds the product with the divisor."""

FEW = 512
"""Elements below which one slow call takes less time than ten fast ones."""


def remainder(a: Array, b: Array, out: Array, q: Array, t: Array) -> None:
    """
    Computes the remainder of the floored quotient of f32, as `np.remainder`; `q` and `t` are f64.

    The difference of a and the product is exact, or rounds twice as a sum of two f32 does once.
    `out` may be `a` or `b`.
    """
    if out.size < FEW:
        np.remainder(a, b, out)
        return
    np.copyto(t, b)
    np.divide(a, t, q)
    np.floor(q, q)
    np.multiply(q, t, t)
    np.subtract(a, t, t)
    np.copysign(t, b, t)
    np.absolute(q, q)
    if not (q.max() < EXACT_QUOTIENT and t.max() == t.max()):
        np.remainder(a, b, t, where=~(q < EXACT_QUOTIENT) | np.isnan(t))
    np.copyto(out, t, casting="unsafe")


def truncating_divide(a: Array, b: Array, out: Array, t: Array, mask: Array) -> None:
    """Divides integers toward zero; x / 0 is 0 and MIN / -1 is MIN. `out` may be `a` or `b`."""
    np.bitwise_xor(a, b, t)
    np.less(t, 0, mask)
    np.remainder(a, b, t)
    np.logical_and(mask, t, mask)
    np.floor_divide(a, b, out)
    np.add(out, mask, out)


def quotient(a: Array, b: Array, out: Array, q: Array, zero: Array) -> None:
    """Divides as `truncating_divide`, integers of 32 bits or less, in f64; `q` is f64."""
    if out.size < FEW:
        truncating_divide(a, b, out, np.empty_like(out), zero)
        return
    np.equal(b, 0, zero)
    np.divide(a, b, q)
    np.trunc(q, q)
    if zero.any():
        np.copyto(q, 0, where=zero)
    limits = np.iinfo(out.dtype)
    if q.max() > limits.max:
        np.copyto(q, limits.min, where=q > limits.max)
    np.copyto(out, q, casting="unsafe")


def remainder_of_integers(a: Array, b: Array, out: Array, q: Array, zero: Array) -> None:
    """Computes `np.remainder` of integers of 32 bits or less in f64; `q` is f64."""
    if out.size < FEW:
        np.remainder(a, b, out)
        return
    np.equal(b, 0, zero)
    np.divide(a, b, q)
    np.floor(q, q)
    np.multiply(q, b, q)
    np.subtract(a, q, q)
    if zero.any():
        np.copyto(q, 0, where=zero)
    np.copyto(out, q, casting="unsafe")
