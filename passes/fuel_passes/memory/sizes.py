# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rounds sizes of memory up to those that devices are asked for."""

from __future__ import annotations

GRANULE = 256
"""The smallest size, of which all are multiples."""

STEPS = 8
"""Sizes between a power of two and the next; at most an eighth of memory is taken in vain."""


def size_class(bytes: int) -> int:
    """Returns the size of the memory that so many bytes are given."""
    below = 1 << (max(bytes - 1, 1).bit_length() - 1)
    step = max(GRANULE, below // STEPS)
    return -(-max(bytes, 1) // step) * step


def aligned(bytes: int, alignment: int) -> int:
    """Returns the next multiple of an alignment."""
    return -(-bytes // alignment) * alignment


def least_known(one: int | None, other: int | None) -> int | None:
    """Returns the lesser of two sizes of which either may be unknown."""
    known = [size for size in (one, other) if size is not None]
    return min(known) if known else None
