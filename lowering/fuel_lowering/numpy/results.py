# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Memory for large results.

A result belongs to the caller, so each call needs memory of its own. Memory fresh from the system
is dear: the pages of a 16 MB array take longer to map and clear than eight pointwise ops take to
fill it. So a workspace remembers the arrays it gave out last, and gives one out again once nobody
holds it any more.
"""

from __future__ import annotations

from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SMALLEST = 1 << 20
LARGEST = 1 << 28
"""Sizes in bytes from which and up to which memory is remembered; below, `empty` is as fast."""

REMEMBERED = 2
"""A loop that rebinds one name holds the last result while the next is computed."""


def is_remembered(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Returns True if memory for such a result is worth remembering."""
    return SMALLEST <= prod(shape) * dtype.itemsize <= LARGEST


class Results:
    """
    Gives out uninitialised arrays of one shape and dtype, each a view of memory of its own.

    What a caller holds, be it a result, a view of it or a buffer export, keeps a reference to that
    memory, so a reference count of none but ours means that it is free. Used by one call at a
    time, like the rest of a workspace.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self._shape = shape
        self._dtype = dtype
        self._memory: list[Array] = []

    def __call__(self) -> Array:
        memory = self._memory
        for index in range(len(memory)):
            if _references(memory, index) == UNHELD:
                return memory[index][...]
        fresh = np.empty(self._shape, self._dtype)
        if len(memory) < REMEMBERED:
            memory.append(fresh)
        return fresh[...]


def _references(arrays: list[Array], index: int) -> int:
    return getrefcount(arrays[index])


UNHELD = _references([np.empty(0)], 0)
"""The count of an array that only its list refers to: how the interpreter counts, measured."""
