# SPDX-License-Identifier: MIT OR Apache-2.0
"""For tests: one op applied to arrays by the reference, and arrays with every kind of element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from xdsl.dialects.builtin import FloatAttr, StringAttr, f64
from xdsl.ir import Attribute
from xdsl.utils.test_value import create_ssa_value

from effort import USUAL, examples
from fuel_dialect import dtypes
from fuel_dialect.dialect import OPS
from fuel_dialect.interpreter.evaluate import evaluate_op
from fuel_dialect.numbers import int_array, integer
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import AnyTensor, tensor_type
from op_modules import type_of

few = examples(USUAL // 8)
"""For tests that run once for each of many ops and dtypes, on arrays of many elements."""

BY_MNEMONIC = {op.name.removeprefix("fuel."): op for op in OPS}


def make(
    mnemonic: str,
    *operands: AnyTensor,
    declared: Sequence[AnyTensor] = (),
    **properties: object,
) -> FuelOp:
    """The op on operands of these types; properties as Python values."""
    values = [create_ssa_value(operand) for operand in operands]
    given = {name: _attribute(value) for name, value in properties.items()}
    return BY_MNEMONIC[mnemonic].make(*values, declared=declared, **given)


def _attribute(value: object) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, int):
        return integer(value)
    assert isinstance(value, tuple)
    return int_array(value)


def apply(
    mnemonic: str, *arrays: Array, declared: AnyTensor | None = None, **properties: object
) -> Array:
    """The result of the op; its shape and dtype are those the op infers."""
    types = [type_of(array) for array in arrays]
    op = make(mnemonic, *types, declared=() if declared is None else (declared,), **properties)
    op.verify()
    (result,) = evaluate_op(op, arrays)
    assert type_of(result) == tensor_type(op.results[0])
    return result


def same_bits(a: Array, b: Array) -> bool:
    """Equal in shape, dtype and every bit, up to which NaN a NaN is."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    if dtypes.of(a.dtype).kind not in ("float", "storage"):
        return bool(np.array_equal(a, b))
    nan = np.isnan(a)
    bits = f"u{a.dtype.itemsize}"
    left, right = np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)
    return bool(np.array_equal(nan, np.isnan(b)) and np.array_equal(left[~nan], right[~nan]))


def shapes(min_side: int = 0, max_dims: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    return hnp.array_shapes(min_dims=0, max_dims=max_dims, min_side=min_side, max_side=4)


@st.composite
def arrays(
    draw: st.DrawFn,
    dtype: str,
    shape: tuple[int, ...] | st.SearchStrategy[tuple[int, ...]] = (9,),
) -> Array:
    """Any bits: NaNs of every kind, infinities, both zeros, subnormals, the extreme integers."""
    entry = dtypes.of(dtype)
    if entry.kind == "mask":
        return draw(hnp.arrays(np.bool_, shape))
    word = np.dtype(f"u{entry.itemsize}")
    corners = st.sampled_from(sorted({int(b) for b in _corners(entry.numpy).view(word)}))
    element = st.one_of(corners, st.integers(0, 2 ** (8 * entry.itemsize) - 1))
    return draw(hnp.arrays(word, shape, elements=element)).view(entry.numpy)


def _corners(dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, limits.min + limits.max, 0, 1, 2, 3], dtype)
    with np.errstate(all="ignore"):
        return np.array([0.0, -0.0, 1, -1, 0.5, 2.5, -1.5, np.inf, -np.inf, np.nan], dtype)


def floats(dtype: str, shape: tuple[int, ...], seed: int = 0, scale: float = 1.0) -> Array:
    """Ordinary numbers."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return np.asarray(values).astype(dtypes.of(dtype).numpy)
