# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines the cast between element types over the primitives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.ops import elementwise as ops
from fuel_dialect.tensors import tensor_type
from fuel_lowering.scalars.definition import Definitions, Exact
from fuel_lowering.scalars.values import F32, F64, MASK, UI32, AnyValue, ScalarBuilder, V


def cast(code: ScalarBuilder[V], op: ops.CastOp, xs: Sequence[V]) -> V:
    (x,) = xs
    target = dtypes.of_type(tensor_type(op.result))
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
    return code.round_to_dtype(code.into(x, target))


def _saturated(code: ScalarBuilder[V], x: V, target: DType) -> V:
    """Returns a float truncated to the nearest value of the integer type; 0 for NaN."""
    limits = np.iinfo(target.numpy)
    above = code.compare("ge", x, float(limits.max) + 1 if limits.bits < 64 else 2.0**63)
    below = code.compare("le", x, float(limits.min))
    is_nan = code.apply("isnan", x, dtype=MASK)
    outside = code.apply("or", code.apply("or", above, below), is_nan)
    inside = code.into(code.select(outside, code.number(0, x), x), target)
    kept = code.select(above, code.number(int(limits.max), target), inside)
    return code.select(below, code.number(int(limits.min), target), kept)


def _without_double_rounding(code: ScalarBuilder[V], x: V) -> V:
    """
    Returns a value whose f32 rounds to bf16 or f16 as the given value itself does.

    Digits for which f32 has no bits set a low bit, far below those that the result has.
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


def _sticky(code: ScalarBuilder[V], x: V, shift: int) -> V:
    """Returns an integer; one of 2^24 or more has its low bits joined in the bit above them."""
    low = code.number(2**shift - 1, x)
    has_low = code.compare("ne", code.apply("band", x, low), 0)
    rest = code.apply("band", x, code.number(-(2**shift) if _is_signed(x) else _high(x, shift), x))
    sticky = code.select(has_low, code.number(2**shift, x), code.number(0, x))
    gathered = code.apply("bor", rest, sticky)
    large = code.compare("ge", x, 2 ** (16 + shift))
    if _is_signed(x):
        large = code.apply("or", large, code.compare("le", x, -(2 ** (16 + shift))))
    return code.select(large, gathered, x)


def _is_signed(x: AnyValue) -> bool:
    return x.dtype.kind == "signed"


def _high(x: AnyValue, shift: int) -> int:
    return 2**x.dtype.bits - 2**shift


def _odd_f32(code: ScalarBuilder[V], x: V) -> V:
    """Returns an f64 as f32; an inexact one becomes the neighbour with an odd last bit."""
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


DEFINITIONS: Definitions = {ops.CastOp: Exact(cast)}
"""The definition of the op."""
