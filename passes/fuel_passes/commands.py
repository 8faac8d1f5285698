# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs commands of a terminal: lines to print, one sentence for an error, and files to write."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from fuel_dialect.errors import FuelError

FAILURE = 2
"""The exit code after an error."""


def run_command(name: str, lines: Callable[[], Iterable[str]]) -> int:
    """
    Prints the lines of a command; returns 0, or 2 after an error, which is one line.

    A reader that goes away, such as `head`, is no error.
    """
    try:
        for line in lines():
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _fail(name, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except FuelError as error:
        return _fail(name, str(error).strip().partition("\n")[0])
    return 0


def _fail(name: str, message: str) -> int:
    print(f"{name}: error: {message}", file=sys.stderr)
    return FAILURE


def check_place(path: str | os.PathLike[str]) -> None:
    """Raises `OSError` if a file cannot be written at a path, before there is anything to write."""
    place = Path(path).absolute()
    number = 0
    if not os.fspath(path) or not place.parent.exists():
        number = errno.ENOENT
    elif not place.parent.is_dir():
        number = errno.ENOTDIR
    elif place.is_dir():
        number = errno.EISDIR
    elif not os.access(place.parent, os.W_OK) or (place.exists() and not os.access(place, os.W_OK)):
        number = errno.EACCES
    if number:
        raise OSError(number, os.strerror(number), os.fspath(path))
