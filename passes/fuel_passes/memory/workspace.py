# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sizes the buffers that the runs of a device share while they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from fuel_passes.memory.sizes import size_class


def shared_workspace(wanted: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """
    Returns the buffers that serve each of some runs, the largest first.

    Each run takes the first ones, its largest buffer the first: one is as large as the largest
    that any run has at that place.
    """
    ranked = (sorted(map(size_class, buffers), reverse=True) for buffers in wanted)
    return tuple(max(sizes) for sizes in zip_longest(*ranked, fillvalue=0))
