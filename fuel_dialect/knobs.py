# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Every switch that fuel reads from the environment, with its type and default.

Each is read when it is asked for, so that a test or a program may set it at any time.
"""

from __future__ import annotations

import os
from pathlib import Path

from fuel_dialect.errors import SettingError

CACHE_DIR = "FUEL_CACHE_DIR"
"""Names the folder of compiled kernels; default `fuel` under XDG_CACHE_HOME or `~/.cache`."""

CACHE_BYTES = "FUEL_CACHE_BYTES"
"""Bounds the bytes of compiled kernels that are kept; 0 keeps none."""

DEFAULT_CACHE_BYTES = 512 << 20

MAX_DIGITS = 40
"""A number has at most this many digits; Python refuses to read one of some thousands."""


def cache_directory() -> Path | None:
    """The folder of compiled kernels; None where this user has no home."""
    if named := os.environ.get(CACHE_DIR):
        return Path(named)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "fuel"
    try:
        return Path.home() / ".cache" / "fuel"
    except RuntimeError:
        return None


def cache_bytes() -> int:
    """The bound on the cache of compiled kernels. Raises `SettingError` for what is no number."""
    text = os.environ.get(CACHE_BYTES)
    if not text:
        return DEFAULT_CACHE_BYTES
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS:
        shown = repr(text) if len(text) <= MAX_DIGITS else f"{text[:MAX_DIGITS]}..."
        raise SettingError(
            f"the environment variable {CACHE_BYTES} is {shown}; it must be a whole number of "
            "bytes, such as 536870912, or 0 to keep no compiled kernels"
        )
    return int(text)


def triton_environment() -> str:
    """Returns the switches of Triton's compiler, which may change the code that comes out."""
    prefixes = ("TRITON_", "LLVM_", "MLIR_")
    switches = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    return repr(sorted(switches.items()))
