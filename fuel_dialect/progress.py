# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tells whoever listens how far compiling has come."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """Represents how far a stage of compiling has come."""

    stage: str
    """`optimise`, `lower`, `prepare weights`, `load weights` or `compile kernels`."""
    done: int
    total: int
    """The passes, runs, functions, weights or kernels of the stage."""
    what: str = ""
    """The name of what is being done; empty once all is."""

    def __str__(self) -> str:
        what = f": {self.what}" if self.what else ""
        return f"{self.stage}, {self.done} of {self.total}{what}"


Listener = Callable[[Progress], None]

_LISTENER: ContextVar[Listener | None] = ContextVar("listener of progress", default=None)


@contextmanager
def listening(listener: Listener | None) -> Generator[None]:
    """Lets a function hear of the progress of this thread in the block; None listens to nothing."""
    if listener is None:
        yield
        return
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def steps(
    stage: str, items: Iterable[T], total: int, name: Callable[[T], str] | None = None
) -> Iterable[T]:
    """
    Returns the items of a stage, and tells how many of so many are done as they are taken.

    `name` gives the name of an item that is worked on when it is taken; without it, an item is done
    when it is taken.
    """
    listener = _LISTENER.get()
    return items if listener is None else _told(listener, stage, items, total, name)


def _told(
    listener: Listener,
    stage: str,
    items: Iterable[T],
    total: int,
    name: Callable[[T], str] | None,
) -> Iterator[T]:
    done = 0
    if name is None:
        listener(Progress(stage, done, total))
    for item in items:
        if name is not None:
            listener(Progress(stage, done, total, name(item)))
        yield item
        done += 1
        if name is None or done == total:
            listener(Progress(stage, done, total))
