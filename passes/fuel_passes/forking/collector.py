# SPDX-License-Identifier: MIT OR Apache-2.0
"""Python's cyclic garbage collector, out of the way of long rewrites."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Generator[None]:
    """
    Python's cyclic garbage collector, off for a while.

    It would visit the whole module each time some part of it has been rewritten, which makes the
    time per op grow with the module.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
