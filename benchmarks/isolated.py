# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Work in another process, so that what crashes, hangs or spoils a device ends that process alone.

Errors of a GPU such as an address out of bounds stay with the process they happened in: every
later call of it fails. So a step that failed is followed by a probe, and a process whose probe
fails is given up for a new one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self


class Subject(Protocol):
    """Represents what the steps of a process work on; it is made there, and stays there."""

    def probe(self) -> None:
        """Raise anything if no further step can work."""
        ...


class Failed(Exception):
    """A step raised something. `kind` is the name of its class."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Lost(Exception):
    """The process died in a step, or took too long for one and was ended."""


class Isolated:
    """
    A process that takes one step after the other on its `Subject`, which `make` makes.

    Steps are functions of modules: `step(subject, *arguments)`. Arguments and results are pickled.
    """

    def __init__(self, make: Callable[..., Subject], *arguments: Any, start_seconds: float = 120.0):
        self._make = (make, arguments)
        self._start_seconds = start_seconds
        self._process: Any = None
        self._connection: Any = None
        self.losses = 0

    def call(self, step: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        """Returns what a step gives. Raises `Failed`, or `Lost` after `timeout` seconds."""
        if self._process is None:
            self._start()
        self._connection.send((step, arguments))
        return self._answer(timeout)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, *self._make))
        self._process.start()
        theirs.close()
        self._answer(self._start_seconds)

    def _answer(self, timeout: float) -> Any:
        try:
            if not self._connection.poll(max(timeout, 0.0)):
                self._lose()
                raise Lost(f"it took more than {max(timeout, 0):.3g} s")
            is_alive, kind, content = self._connection.recv()
        except (EOFError, ConnectionError):
            code = self._lose()
            raise Lost(f"the process ended with exit code {code}") from None
        if not is_alive:
            self._lose()
        if kind:
            raise Failed(kind, content)
        return content

    def _lose(self) -> int | None:
        self.losses += 1
        return self.close(patience=1.0)

    @property
    def is_running(self) -> bool:
        """Returns True if there is a process that would take the next step."""
        return self._process is not None

    def close(self, patience: float = 2.0) -> int | None:
        """
        End the process. Its exit code; None where there is none.

        One that takes longer than `patience` is ended by force, and not waited for for ever: what
        hangs in a driver ends when that lets it go.
        """
        process, self._process = self._process, None
        if process is None:
            return None
        self._connection.close()
        process.join(patience)
        if not process.is_alive():
            return process.exitcode
        process.kill()
        process.join(patience)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _serve(connection: Any, make: Callable[..., Subject], arguments: tuple[Any, ...]) -> None:
    """The other process: answers are (whether it goes on, kind of error or "", result or text)."""
    # Who asked may have given up on an answer, and is gone then.
    with contextlib.suppress(EOFError, ConnectionError):
        try:
            subject = make(*arguments)
        except Exception as error:
            connection.send((False, type(error).__name__, one_line(error)))
            return
        connection.send((True, "", None))
        while True:
            step, given = connection.recv()
            answer = _answer(subject, step, given)
            connection.send(answer)
            if not answer[0]:
                return


def _answer(subject: Subject, step: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    try:
        return (True, "", step(subject, *given))
    except Exception as error:
        return (_is_well(subject), type(error).__name__, one_line(error))


def _is_well(subject: Subject) -> bool:
    try:
        subject.probe()
    except Exception:
        return False
    return True


LONGEST = 300
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/:'\"]+/)+")


def one_line(error: BaseException | str) -> str:
    """Returns an error in one line of bounded length, without the folders of this machine."""
    text = " ".join(_FOLDERS.sub("", str(error)).split()) or type(error).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
