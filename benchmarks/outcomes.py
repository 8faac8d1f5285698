# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares results with the reference's: how far they are, or what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from harness import Array

from fuel_dialect import dtypes


@dataclass(frozen=True)
class Outcome:
    """One check. `failure` is one line, empty where it passed."""

    name: str
    types: tuple[str, ...] = ()
    """Element type and shape of each operand: `f32[3, 4]`."""
    error: float | None = None
    """The greatest difference from the reference; relative, but for integers."""
    allowed: float = 0.0
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failure


def described(arrays: Sequence[Array]) -> tuple[str, ...]:
    return tuple(f"{dtypes.of(array.dtype).name}{list(array.shape)}" for array in arrays)


@dataclass(frozen=True)
class Allowed:
    """
    Bounds how far a result may be from the reference: `relative * (|reference| + scale)`.

    Without a `scale`, it is the root of the mean square of the reference.
    """

    relative: float
    scale: float | None = None


def compared(
    name: str,
    operands: Sequence[Array],
    got: Sequence[Array],
    want: Sequence[Array],
    allowed: Allowed,
) -> Outcome:
    """Measures how far the results of a check are from those of the reference."""
    types = described(operands)
    if len(got) != len(want):
        return Outcome(name, types, failure=f"{len(got)} results in place of {len(want)}")
    worst = 0.0
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        complaint, error = _difference(g, w, allowed)
        worst = max(worst, error)
        limit = allowed.relative if w.dtype.kind not in "biu" else 0.0
        if not complaint and error > limit:
            complaint = f"it is off by {error:.2e}, where {limit:.1e} is allowed"
        if complaint:
            return Outcome(name, types, worst, limit, f"result {number}: {complaint}")
    return Outcome(name, types, worst, allowed.relative)


def _difference(got: Array, want: Array, allowed: Allowed) -> tuple[str, float]:
    """Returns what is wrong beyond a number, or "", and the greatest error."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"it is {described([got])[0]} in place of {described([want])[0]}", 0.0
    if not want.size:
        return "", 0.0
    if want.dtype.kind in "biu":
        # As f64: no two different integers below 2^53 are equal then; larger ones are compared too.
        different = got != want
        off = np.abs(got[different].astype(np.float64) - want[different].astype(np.float64))
        return "", float(max(off.max(), 1.0)) if off.size else 0.0
    with np.errstate(all="ignore"):
        return _float_difference(got.astype(np.float64), want.astype(np.float64), allowed)


def _float_difference(got: Array, want: Array, allowed: Allowed) -> tuple[str, float]:
    finite = np.isfinite(want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    wrong = ~same & ~(finite & np.isfinite(got))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        count = int(wrong.sum())
        return f"{count} elements are {got[at]} in place of {want[at]} or such, first {at}", 0.0
    scale = allowed.scale
    if scale is None:
        scale = float(np.sqrt(np.mean(np.square(want[finite])))) if finite.any() else 1.0
    limit = np.abs(want) + (scale or np.finfo(np.float64).tiny)
    return "", float(np.where(same, 0.0, np.abs(got - want) / limit).max())
