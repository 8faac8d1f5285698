# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the lines of Python that a call runs: the same on every machine and at any load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(call: Callable[[], Any]) -> int:
    """The lines that a call runs, each turn of a loop counted."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def growth(prepare: Callable[[int], Callable[[], Any]], size: int) -> float:
    """
    Returns the ratio of the work of four times a size to that of the size: 4 if it is linear.

    `prepare` makes what is measured; its own work does not count.
    """
    return lines_run(prepare(4 * size)) / lines_run(prepare(size))
