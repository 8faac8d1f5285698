# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Bounds the time for which anybody waits for a device.

While a device is late, nobody uses it: it may still write to its memory, so that none of that is
given to others, or back. It can be used again when it has done what it was late with.
"""

from __future__ import annotations

import ctypes
import math
from time import monotonic
from typing import TYPE_CHECKING

from fuel_dialect.errors import ArgumentError, DeviceTimeout

if TYPE_CHECKING:
    from fuel_runtime.devices.marks import Mark


class Watchdog:
    """Waits for the marks of one device for a bounded time, and keeps the one that is late."""

    def __init__(self, device: str):
        self._device = device
        self.within: float | None = None
        """The seconds after which a wait is given up; None if it goes on for ever."""
        self.late: Mark | None = None
        """The mark that did not come in time, until somebody finds that it has come."""

    def bound(self, seconds: float) -> None:
        """Waits for so many seconds at most from now on, where no lower bound was set."""
        self.within = seconds if self.within is None else min(self.within, seconds)

    def wait(self, mark: Mark) -> None:
        """
        Waits for a mark. Raises `DeviceTimeout` if it does not come in time.

        Whoever else waits for the device gets the error at once.
        """
        if self.within is None:
            mark.wait()
            return
        end = monotonic() + self.within
        if mark.wait_while(lambda: self.late is None and monotonic() < end):
            return
        self.late = self.late or mark
        raise self._timeout()

    def check(self) -> None:
        """Raises `DeviceTimeout` while the device has not done what it is late with."""
        late = self.late
        if late is None:
            return
        if not late.is_done():
            raise self._timeout()
        self.late = None

    def _timeout(self) -> DeviceTimeout:
        error = DeviceTimeout(
            f"{self._device} does not answer: what it was asked for was not done within "
            f"{self.within:g} s (answer_within= of a session; the least one holds for the process)"
        )
        error.device = self._device
        return error


def as_seconds(given: object, what: str) -> float:
    """Returns a number of seconds above 0. Raises `ArgumentError` that says what is to be given."""
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < math.inf:
        return float(given)
    raise ArgumentError(f"{what} is a number of seconds above 0, such as 0.5, not {given!r}")


def keep_forever(*things: object) -> None:
    """
    Keeps objects from ever being destroyed, and what they refer to.

    To destroy what belongs to a device that does not answer is to wait for it.
    """
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
