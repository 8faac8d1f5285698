# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes files as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """
    Writes a file under another name, then gives it its own: readers see all of it or none.

    What is there and is no file, such as a pipe or a terminal, stays and is written to.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            write(file)
        return
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.chmod(temporary, 0o666 & ~_umask())
        _take_place(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _take_place(temporary: str, path: Path) -> None:
    """Gives a file its own name. Raises `OSError` that names no other."""
    try:
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
