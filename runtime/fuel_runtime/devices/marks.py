# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents moments in the work of a device, for those who wait for it or time it."""

from __future__ import annotations

import abc
import time
from collections import deque
from collections.abc import Callable

FIRST_PAUSE_S = 20e-6
LONGEST_PAUSE_S = 1e-3
"""The pauses between two looks at a mark, doubled from the first on: a wait is late by as much."""


class Mark(abc.ABC):
    """Represents the moment in which all that a device was asked for so far is done."""

    @abc.abstractmethod
    def is_done(self) -> bool:
        """Returns True if the device has come there. Raises what its work has failed with."""

    def wait(self) -> None:
        """Waits until the device has come there, without the lock of the device."""
        self.wait_while(lambda: True)

    def wait_while(self, is_wanted: Callable[[], bool]) -> bool:
        """Looks again and again while that is wanted; returns True if the device came there."""
        pause = FIRST_PAUSE_S
        while not self.is_done():
            if not is_wanted():
                return False
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        return True


class TimedMark(Mark):
    """Represents a moment that the device itself reads its clock in."""

    @abc.abstractmethod
    def ns_since(self, first: TimedMark) -> float:
        """Returns the nanoseconds since an earlier mark of the device; both have to be done."""


class Passed(Mark):
    """Represents a moment of a device that has done everything when it returns."""

    def is_done(self) -> bool:
        """Returns True."""
        return True


PASSED = Passed()


MOST_MARKS = 16
"""The moments between runs that are kept: a value older than all is waited for with the oldest."""


class Progress:
    """
    Numbers what a device is asked for, so that who reads a value waits for what made it alone.

    A mark is made between one run and the next, unless somebody has waited there already.
    """

    def __init__(self, mark: Callable[[], Mark]):
        self._mark = mark
        self._asked = 0
        self._last_run = 0
        self._marks: deque[tuple[int, Mark]] = deque(maxlen=MOST_MARKS)

    def asked(self) -> int:
        """Returns the number of what the device is asked for next."""
        self._asked += 1
        return self._asked

    def begin_run(self) -> int:
        """Returns the number of a run, which the device is about to be asked for."""
        if self._last_run > self._marked:
            self._add()
        self._last_run = self.asked()
        return self._last_run

    def after(self, number: int) -> Mark:
        """Returns the first moment that is known in which what has a number is done."""
        if number > self._marked:
            return self._add()
        return next(mark for known, mark in self._marks if known >= number)

    @property
    def _marked(self) -> int:
        return self._marks[-1][0] if self._marks else 0

    def _add(self) -> Mark:
        mark = self._mark()
        self._marks.append((self._asked, mark))
        return mark
