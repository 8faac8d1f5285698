# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shows on a terminal how far compiling has come, in one line that goes when it is done."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from fuel_dialect.progress import Listener, Progress

EVERY_S = 0.05
"""The line of a stage is drawn this often at most."""

ERASE = "\r\x1b[K"


class ProgressLine:
    """Draws progress over and over in the last line of a terminal."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic):
        self._stream = stream
        self._clock = clock
        self._stage = ""
        self._drawn = 0.0

    def __call__(self, progress: Progress) -> None:
        """Draws the line, unless it did so for the same stage a moment ago."""
        now = self._clock()
        if progress.stage == self._stage and now - self._drawn < EVERY_S:
            return
        self._stage, self._drawn = progress.stage, now
        columns = shutil.get_terminal_size().columns
        self._stream.write(f"{ERASE}{f'fuel-run: {progress}'[: max(columns - 1, 1)]}")
        self._stream.flush()

    def erase(self) -> None:
        """Leaves the terminal as if nothing had been drawn."""
        if self._stage:
            self._stream.write(ERASE)
            self._stream.flush()
            self._stage = ""


@contextmanager
def shown(
    is_wanted: bool, environment: Mapping[str, str] = os.environ
) -> Iterator[Listener | None]:
    """Gives a listener that draws on the standard error; None where that is no terminal."""
    stream = sys.stderr
    if not is_wanted or stream is None or not stream.isatty() or environment.get("TERM") == "dumb":
        yield None
        return
    line = ProgressLine(stream)
    try:
        yield line
    finally:
        line.erase()
