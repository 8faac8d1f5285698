# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The error function and the exact GELU, as rational functions evaluated in place.

`erf` computes in f64 and rounds once. `gelu` computes x times the normal distribution from one
tail, so that nothing cancels for negative x. The coefficients are our own fits: weighted least
squares on Chebyshev nodes, reweighted until the error is level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuel_dialect.reference.precision import Array

ERF_LIMIT = 3.92
"""Beyond it, f32 has 1."""

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
"""exp(z^2 / 2) times the normal tail beyond z, as a quotient of polynomials in z; 1e-10 off."""


def _constants(values: Sequence[float], dtype: Any) -> tuple[Array, ...]:
    return tuple(np.array(value, dtype) for value in values)


_ERF = _constants(ERF_ABOVE, np.float64), _constants(ERF_BELOW, np.float64)
_TAIL = _constants(TAIL_ABOVE, np.float32), _constants(TAIL_BELOW, np.float32)
_HALF, _ZERO, _LIMIT = _constants((-0.5, 0.0, TAIL_LIMIT), np.float32)
_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _polynomial(x: Array, coefficients: Sequence[Array], out: Array) -> None:
    """Horner's rule."""
    np.multiply(x, coefficients[-1], out)
    for coefficient in coefficients[-2:0:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, coefficients[0], out)


def erf(x: Array, out: Array, t: Array, p: Array, q: Array) -> None:
    """The error function of f32; `t`, `p` and `q` are f64."""
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


def gelu(x: Array, out: Array, z: Array, p: Array) -> None:
    """x times the normal distribution, in f32; `out` is not `x`."""
    above, below = _TAIL
    np.absolute(x, z)
    np.minimum(z, _LIMIT, out=z)
    _polynomial(z, above, out)
    _polynomial(z, below, p)
    np.divide(out, p, out)
    np.square(z, z)
    np.multiply(z, _HALF, z)
    np.exp(z, z)
    np.multiply(out, z, out)
    np.greater(x, _ZERO, p)
    np.subtract(p, out, p)
    np.absolute(p, p)
    np.multiply(p, x, out)


def erf64(x: Array, out: Array) -> None:
    """The error function of f64."""
    np.copyto(out, _erf(x), casting="unsafe")


def gelu64(x: Array, out: Array) -> None:
    """x times the normal distribution, in f64."""
    np.copyto(out, 0.5 * x * np.asarray(_erfc(x * -math.sqrt(0.5)), np.float64))
