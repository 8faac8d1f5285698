# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the cores of the host."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
