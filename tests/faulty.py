# SPDX-License-Identifier: MIT OR Apache-2.0
"""Steps for `isolated.Isolated` that go wrong in every way; other processes import them."""

from __future__ import annotations

import os
import time
from typing import NoReturn


class Subject:
    """Counts the steps that were taken; `spoil` makes every later one fail."""

    def __init__(self, name: str):
        if not name:
            raise ValueError("a subject has a name")
        self.name = name
        self.steps = 0
        self.is_spoilt = False

    def probe(self) -> None:
        if self.is_spoilt:
            raise RuntimeError("an illegal address was accessed")


def count(subject: Subject) -> tuple[str, int]:
    subject.steps += 1
    return subject.name, subject.steps


def fail(subject: Subject) -> NoReturn:
    raise LookupError("nothing in /some/where/else.txt")


def spoil(subject: Subject) -> NoReturn:
    subject.is_spoilt = True
    raise MemoryError("an illegal address was accessed")


def crash(subject: Subject) -> NoReturn:
    os._exit(7)


def hang(subject: Subject) -> None:
    time.sleep(60)
