# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does what an emulated device is asked for, and lets it hang: the fault that only time shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread

from fuel_runtime.devices.marks import PASSED, Mark
from fuel_runtime.devices.watchdog import Watchdog

Action = Callable[[], object]


class QueuedMark(Mark):
    """Represents a moment of a device behind what it has not done yet."""

    def __init__(self) -> None:
        self.done = Event()

    def is_done(self) -> bool:
        """Returns True if the device has come there."""
        return self.done.is_set()

    def wait(self) -> None:
        """Waits until the device has come there."""
        self.done.wait()


class Work:
    """
    Represents the work of an emulated device.

    Work is done at once. From `hang` on it is not: it is done in order, by a thread of its own,
    once the device is released or the time is over.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: deque[Action] = deque()
        self._worker: Thread | None = None
        self._released = Event()
        self._error: Exception | None = None

    def hang(self, seconds: float | None = None) -> None:
        """Lets the device do nothing for so long, or until `release`; nothing if it hangs."""
        with self._lock:
            if self._worker is not None:
                return
            self._released = Event()
            self._worker = Thread(
                target=self._catch_up, args=(self._released, seconds), name="hang", daemon=True
            )
            self._worker.start()

    def release(self) -> None:
        """Lets the device do what it was asked for meanwhile, beside who calls this."""
        self._released.set()

    def do(self, action: Action) -> None:
        """Has the device do something, which may be done later."""
        if not self._has_queued(action):
            action()

    def mark(self) -> Mark:
        """Returns the moment in which all that was asked for is done."""
        with self._lock:
            if self._worker is None:
                return PASSED
            mark = QueuedMark()
            self._waiting.append(mark.done.set)
            return mark

    def finish(self, watchdog: Watchdog) -> None:
        """Waits for all that was asked for. Raises `DeviceTimeout`, and what that has raised."""
        watchdog.wait(self.mark())
        error, self._error = self._error, None
        if error is not None:
            raise error

    # It returns inside `with`: Python lets an interrupt at the end of an `if` there keep the lock.
    def _has_queued(self, action: Action) -> bool:
        with self._lock:
            hangs = self._worker is not None
            if hangs:
                self._waiting.append(action)
            return hangs

    def _catch_up(self, released: Event, seconds: float | None) -> None:
        released.wait(seconds)
        while True:
            with self._lock:
                if not self._waiting:
                    self._worker = None
                    return
                action = self._waiting.popleft()
            try:
                action()
            except Exception as error:
                self._error = self._error or error
