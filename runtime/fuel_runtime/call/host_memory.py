# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says what memory the host has, and turns a lack of it into an error that says what was wanted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fuel_dialect.errors import FuelError, OutOfMemory


def physical_bytes() -> int:
    """Returns the bytes of memory that the host has; a bound that is never reached if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def is_unexplained(error: BaseException) -> bool:
    """Returns True for a lack of memory that no error of fuel explains yet."""
    return isinstance(error, MemoryError) and not isinstance(error, FuelError)


def out_of_memory(what: str, error: BaseException, bytes: int | None = None) -> OutOfMemory:
    """Returns the error that says what wanted memory, for the caller to raise from `error`."""
    wanted = f", {bytes:,} bytes," if bytes is not None else ""
    reason = f" ({error})" if str(error) else ""
    return OutOfMemory(f"cpu: {what}{wanted} takes more memory than the host has left{reason}")


@contextmanager
def wanting(what: str, bytes: int | None = None) -> Iterator[None]:
    """Lets a lack of memory inside the block be `OutOfMemory` that says what wanted it."""
    try:
        yield
    except FuelError:
        raise
    except MemoryError as error:
        raise out_of_memory(what, error, bytes) from error
