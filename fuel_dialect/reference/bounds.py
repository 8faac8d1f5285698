# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks index operands against the extent they index."""

from __future__ import annotations

from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.reference.precision import Array


def check_indices(op: str, indices: Array, extent: int) -> None:
    """Raise `IndexOutOfRange` for the first index that is not below `extent`, or is negative."""
    is_outside = indices >= extent
    if indices.dtype.kind == "i":
        is_outside |= indices < 0
    outside = indices[is_outside]
    if outside.size:
        raise IndexOutOfRange(f"{op}: index {outside.flat[0]} is out of range for extent {extent}")
