# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Gives generated code what NumPy lacks: memory, and elementwise functions that no ufunc computes.

The functions fill `out`; `t`, `bits` and `mask` are arrays of its shape that they may overwrite.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.reference.bounds import check_indices
from fuel_dialect.reference.precision import Array, convert
from fuel_lowering.numpy.buffers import ALIGNMENT
from fuel_lowering.numpy.pieces import argmax, argmin, erf64, erfc64
from fuel_lowering.numpy.pool import Pool, quiet_context
from fuel_lowering.numpy.results import Results
from fuel_lowering.numpy.special import (
    erf,
    quotient,
    remainder,
    remainder_of_integers,
    truncating_divide,
)

__all__ = [
    "Pool",
    "Results",
    "arena",
    "argmax",
    "argmin",
    "before_writes",
    "check_indices",
    "check_position",
    "convert",
    "erf",
    "erf64",
    "erfc64",
    "masked_fill",
    "place",
    "place_in_ring",
    "quiet_context",
    "quotient",
    "remainder",
    "remainder_of_integers",
    "saturate",
    "take_along",
    "truncating_divide",
    "view",
    "where",
]

FEW = 2048
"""Elements up to which a masked copy is faster than arithmetic on the bits."""


def arena(bytes: int) -> Array:
    """Uninitialised bytes that start at an aligned address."""
    memory = np.empty(bytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + bytes]


def view(arena: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A row-major array that lies in an arena."""
    bytes = prod(shape) * dtype.itemsize
    return arena[offset : offset + bytes].view(dtype).reshape(shape)


def where(mask: Array, on_true: Array, on_false: Array, out: Array, bits: Array) -> None:
    """
    Select without branches, which random masks would mispredict.

    `out` may be `on_true`.
    """
    if out.size < FEW:
        if out is on_true:
            np.copyto(out, on_false, where=np.logical_not(mask))
            return
        np.copyto(out, on_false)
        np.copyto(out, on_true, where=mask)
        return
    kind = bits.dtype
    a, b, result = on_true.view(kind), on_false.view(kind), out.view(kind)
    np.copyto(bits, mask)
    np.negative(bits, bits)
    np.bitwise_xor(a, b, result)
    np.bitwise_and(result, bits, result)
    np.bitwise_xor(result, b, result)


def masked_fill(x: Array, mask: Array, value: Array, out: Array, bits: Array) -> None:
    """`value` where the mask is true, else x. `out` may be `x`."""
    if out.size < FEW:
        if out is not x:
            np.copyto(out, x)
        np.copyto(out, value, where=mask)
        return
    kind = bits.dtype
    a, b, result = x.view(kind), value.view(kind), out.view(kind)
    np.copyto(bits, mask)
    np.subtract(bits, kind.type(1), bits)
    np.bitwise_xor(a, b, result)
    np.bitwise_and(result, bits, result)
    np.bitwise_xor(result, b, result)


def power(x: Array, exponent: Array, out: Array) -> None:
    """
    IEEE's pow; `out` shares no memory with the operands.

    NumPy takes the square root where its loop meets the same 0.5 again and again: -0 and NaN for
    -0 and -inf, which have 0 and inf.
    """
    np.power(x, exponent, out)
    exponent = np.asarray(exponent)
    if exponent.shape == out.shape and out.ndim and 0 not in exponent.strides:
        return
    is_root = np.equal(exponent, 0.5)
    if is_root.any():
        np.copyto(out, out.dtype.type(np.inf), where=is_root & np.isneginf(x))
        np.copyto(out, out.dtype.type(0), where=is_root & np.equal(x, 0))


def saturate(x: Array, out: Array, t: Array, mask: Array) -> None:
    """Float to integer: truncates, saturates, NaN gives 0. `t` is f64."""
    limits = np.iinfo(out.dtype)
    np.copyto(t, x, casting="unsafe")
    np.maximum(t, float(limits.min), out=t)
    above = float(limits.max)
    if above == limits.max:
        np.minimum(t, above, out=t)
    np.copyto(out, t, casting="unsafe")
    if above != limits.max:
        np.greater_equal(t, above, mask)
        np.copyto(out, limits.max, where=mask)
    np.not_equal(x, x, mask)
    np.copyto(out, 0, where=mask)


def take_along(x: Array, indices: Array, axis: int, out: Array, fill: Array | None = None) -> None:
    """
    Fills `out` with the elements of x that indices, spread over its axes, pick along one axis.

    The indices are in range, but where `fill` is given: it takes the place of those outside.
    """
    inside = indices if fill is None else indices.clip(0, x.shape[axis] - 1)
    np.copyto(out, np.take_along_axis(x, inside.astype(np.intp), axis=axis))
    if fill is not None:
        outside = (indices < 0) | (indices >= x.shape[axis])
        np.copyto(out, fill, where=outside)


class BeforeWrites:
    """Around a check of a run that writes over an operand, but has not done so yet."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, IndexOutOfRange):
            error.before_writes = True


before_writes = BeforeWrites()


def check_position(op: str, position: Array, width: int, extent: int) -> None:
    """Raise `IndexOutOfRange` unless so many elements at a position are within an extent."""
    at = int(position)
    if not 0 <= at <= extent - width:
        raise IndexOutOfRange(f"{op}: {width} at {at} is out of range for extent {extent}")


def place(source: Array, starts: Sequence[int | Array], out: Array) -> None:
    """Writes `source` into `out`, from `starts` on."""
    places = zip(map(int, starts), source.shape, strict=True)
    out[tuple(slice(start, start + width) for start, width in places)] = source


def place_in_ring(
    source: Array, starts: Sequence[int | Array], axis: int, modulus: int, out: Array
) -> None:
    """`place`, where the element after `modulus - 1` along `axis` is element 0."""
    at = int(starts[axis]) % modulus
    first = min(source.shape[axis], modulus - at)
    lead = (slice(None),) * axis
    starts = [*starts[:axis], at, *starts[axis + 1 :]]
    place(source[(*lead, slice(None, first))], starts, out)
    starts[axis] = 0
    place(source[(*lead, slice(first, None))], starts, out)
