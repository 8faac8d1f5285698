# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans an executable anew, once, when it is used after its session has taken another topology."""

from __future__ import annotations

import gc
from collections.abc import Callable
from threading import Lock, RLock
from typing import Any, Protocol

from fuel_dialect.errors import DeviceFailure, DeviceUnavailable, OutOfMemory

METHODS = Lock()
"""Guards the methods of the classes of executables while one is put in the place of another."""

MOVING = (OutOfMemory, DeviceFailure, DeviceUnavailable)
"""The errors of a plan for machines that may no longer be there."""


class Renewable(Protocol):
    """Has a plan that another can take the place of: an `Executable`, whose class is its own."""

    @property
    def is_outdated(self) -> bool:
        """True while another plan is due."""
        ...

    def renew(self) -> None:
        """Plans anew where that is due."""
        ...

    def become(self, other: Any) -> None:
        """Takes the plan of another of its kind."""
        ...


class Renewal:
    """
    Says what an executable was planned for, and plans it anew.

    `newest` gives what the session plans for now, and `planned` an executable of the same program
    that is planned for that.
    """

    __slots__ = ("_lock", "_newest", "_planned", "_planned_for")

    def __init__(
        self,
        planned_for: object,
        newest: Callable[[], object],
        planned: Callable[[Any], tuple[object, Renewable]],
    ):
        self._planned_for = planned_for
        self._newest = newest
        self._planned = planned
        self._lock = RLock()

    @property
    def is_due(self) -> bool:
        """True while the plan is for something else than what the session plans for."""
        return self._planned_for is not self._newest()

    def renew(self, executable: Renewable) -> None:
        """
        Plans an executable anew if that is due; threads that come meanwhile wait for it.

        Raises what `Session.compile` raises; the executable stays as it was then, and due.
        """
        with self._lock:
            if not self.is_due:
                return
            while self.is_due:
                self._replace(executable)
        # The old plan holds memory of devices, and its functions hold one another.
        gc.collect()

    def _replace(self, executable: Renewable) -> None:
        planned_for, fresh = self._planned(executable)
        with METHODS:
            executable.become(fresh)
            self._planned_for = planned_for


def outdate(executable: Renewable) -> None:
    """Lets the next call of an executable plan it anew first, where that is due."""
    with METHODS:
        if executable.is_outdated:
            type(executable).__call__ = _renewed_call  # pyright: ignore[reportAttributeAccessIssue]


def _renewed_call(self: Any, *args: Any, **named: Any) -> tuple[Any, ...]:
    self.renew()
    return self(*args, **named)


def is_outdated(executable: Renewable, error: BaseException) -> bool:
    """
    Returns True if a call that failed is to be made again, by the plan for another machine.

    That is so where a device failed it and the session has taken another topology meanwhile.
    """
    return isinstance(error, MOVING) and executable.is_outdated
