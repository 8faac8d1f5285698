# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs commands of a terminal: lines to print, one sentence for an error, and files to write."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from xdsl.utils.exceptions import DiagnosticException

from fuel_dialect.errors import ArgumentError, FuelError

FAILURE = 2
"""The exit code after an error."""


def run_command(name: str, lines: Callable[[], Iterable[str]]) -> int:
    """
    Prints the lines of a command; returns 0, or 2 after an error, which is one line.

    A reader that goes away, such as `head`, is no error, nor is a process without standard output.
    """
    try:
        for line in lines():
            print(line)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        tell(name, "error", message)
        return FAILURE
    except (FuelError, DiagnosticException, MemoryError) as error:
        # What follows the first line of a pass's error is the whole program.
        tell(name, "error", str(error).strip().partition("\n")[0] or "out of memory")
        return FAILURE
    return 0


def tell(name: str, kind: str, message: str) -> None:
    """Prints one line of a command on the standard error, unless there is none."""
    if sys.stderr is not None:
        print(f"{name}: {kind}: {' '.join(message.split())}", file=sys.stderr)


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


def check_outputs(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """
    Checks the files that a command is to write, by what a person calls them, before it begins.

    Raises `ArgumentError` for one in the place of another or of an input, and `OSError` as
    `check_place` does.
    """
    taken = {os.path.realpath(file): what for what, file in inputs.items() if file}
    for name, path in outputs.items():
        if path is None:
            continue
        check_place(path)
        known = taken.setdefault(os.path.realpath(path), name)
        if known != name:
            raise ArgumentError(f"{name} {path} would write over {known}")
