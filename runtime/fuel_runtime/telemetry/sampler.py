# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Samples the devices of a session beside its calls, and says when a picker has to decide anew.

A call compares one number, `Telemetry.epoch`. A thread asks the devices; it holds no reference to
the session, ends with it, and does not survive a fork: the child starts another.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread

from fuel_dialect.errors import ArgumentError, FuelError
from fuel_runtime.telemetry.signals import (
    NOTHING,
    UNKNOWN,
    Signals,
    Snapshot,
    Tiers,
    next_tiers,
)

Provider = Callable[[], Signals]
"""Asks one device. What it raises, or gives in place of signals, counts as unknown."""

INTERVAL_S = 0.2
SHORTEST_INTERVAL_S = 0.001
SMOOTHING = 0.15
"""The share of a new sample of load in what the tiers are made of."""

JUMP = 0.3
"""The distance of two samples in a row from the mean at which they replace it."""

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0

MOST_WATCHED = 256
"""Sizes that are watched on a device; of more, the largest stand for those near them."""


@dataclass(frozen=True)
class Suspension:
    """Holds how often a device has failed in a row, why, and when it is tried again."""

    failures: int
    reason: str
    until: float

    @property
    def is_over(self) -> bool:
        """Returns True if the device is on trial: it may be used, and has not succeeded yet."""
        return self.until == 0


@dataclass(frozen=True)
class Smoothed:
    """Holds a share without its noise: the mean of what came last, or a new level after a jump."""

    value: float
    jumped: int = 0
    """1 after a sample far above, -1 after one far below."""

    def after(self, sample: float) -> Smoothed:
        """Returns the value after another sample."""
        off = sample - self.value
        side = 0 if abs(off) < JUMP else (1 if off > 0 else -1)
        if side and side == self.jumped:
            return Smoothed(sample)
        if side:
            return Smoothed(self.value, side)
        return Smoothed(self.value + SMOOTHING * off)


class Telemetry:
    """
    Holds what the devices of a session say, and raises `epoch` when a tier changes.

    `providers` maps names of devices to functions that ask them. `interval_s` is the shortest time
    between two samples. `poll` takes a sample now, for programs and tests that bring a clock of
    their own. Raises `ArgumentError` for an interval that is none.
    """

    def __init__(
        self,
        providers: Mapping[str, Provider] | None = None,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
        backoff_s: float = FIRST_BACKOFF_S,
    ):
        if not SHORTEST_INTERVAL_S <= interval_s <= 3600:
            raise ArgumentError(
                f"telemetry: the interval is {SHORTEST_INTERVAL_S} s to 3600 s, got {interval_s!r}"
            )
        self.providers = dict(providers or {})
        self.interval_s = interval_s
        self.epoch = 1
        """A new number whenever a picker has to decide anew; nothing else on a call's path."""
        self.snapshot = replace(NOTHING, epoch=1)
        self._clock = clock
        self._backoff_s = backoff_s
        self._lock = Lock()
        self._watched: dict[str, tuple[int, ...]] = {}
        self._smooth: dict[str, Smoothed] = {}
        self._suspensions: dict[str, Suspension] = {}
        self._stop: Event | None = None
        _ALIVE.add(self)

    # For pickers.

    def watch(self, device: str, sizes: tuple[int, ...]) -> None:
        """Let a tier change when one of some sizes begins or ceases to fit on a device."""
        with self._lock:
            before = self._watched.get(device, ())
            known = tuple(sorted({*before, *sizes})[-MOST_WATCHED:])
            if known == before:
                return
            self._watched[device] = known
            tiers = dict(self.snapshot.tiers)
            tiers[device] = replace(self.snapshot.tiers_of(device), fit=None)
            self.snapshot = replace(self.snapshot, tiers=tiers)

    def poll(self) -> Snapshot:
        """Ask every device now, and raise the epoch if a tier has changed."""
        asked = {name: _ask(provider) for name, provider in self.providers.items()}
        with self._lock:
            self._lift(self._clock())
            tiers = {name: self._tiers(name, signals) for name, signals in asked.items()}
            self._publish(asked, tiers)
            return self.snapshot

    def _tiers(self, name: str, signals: Signals) -> Tiers:
        before = self.snapshot.tiers_of(name)
        return next_tiers(before, self._smoothed(name, signals), self._watched.get(name, ()))

    def _smoothed(self, name: str, signals: Signals) -> Signals:
        occupied = signals.occupied
        if occupied is None:
            self._smooth.pop(name, None)
            return signals
        before = self._smooth.get(name)
        smooth = Smoothed(occupied) if before is None else before.after(occupied)
        self._smooth[name] = smooth
        return replace(signals, load=smooth.value, pending=None)

    def _publish(self, signals: Mapping[str, Signals], tiers: Mapping[str, Tiers]) -> None:
        """Make a new snapshot; its epoch is new where tiers or suspensions are."""
        suspended = {n: s.reason for n, s in self._suspensions.items() if not s.is_over}
        before = self.snapshot
        changed = dict(tiers) != before.tiers or suspended != before.suspended
        epoch = before.epoch + changed
        self.snapshot = Snapshot(dict(signals), dict(tiers), suspended, epoch)
        self.epoch = epoch

    def raise_epoch(self) -> None:
        """Let every picker decide anew, for a reason that is no signal."""
        with self._lock:
            self.epoch += 1
            self.snapshot = replace(self.snapshot, epoch=self.epoch)

    # Devices that fail.

    def suspend(self, device: str, reason: str) -> None:
        """Leave a device alone for a while, longer each time that it fails in a row."""
        with self._lock:
            known = self._suspensions.get(device)
            failures = 1 if known is None else known.failures + 1
            pause = min(self._backoff_s * 2 ** min(failures - 1, 16), LONGEST_BACKOFF_S)
            self._suspensions[device] = Suspension(failures, reason, self._clock() + pause)
            self._publish(self.snapshot.signals, self.snapshot.tiers)
        self.start()

    def succeed(self, device: str) -> None:
        """Note that a device on trial has done its work; it starts afresh with its failures."""
        with self._lock:
            known = self._suspensions.get(device)
            if known is not None and known.is_over:
                del self._suspensions[device]

    @property
    def on_trial(self) -> frozenset[str]:
        """Returns the devices that failed, may be used again, and have not succeeded yet."""
        if not self._suspensions:
            return frozenset()
        with self._lock:
            return frozenset(n for n, s in self._suspensions.items() if s.is_over)

    def _lift(self, now: float) -> None:
        for name, suspension in list(self._suspensions.items()):
            if not suspension.is_over and now >= suspension.until:
                self._suspensions[name] = replace(suspension, until=0)

    # The thread.

    @property
    def is_running(self) -> bool:
        """Returns True if a thread is sampling."""
        return self._stop is not None

    def start(self) -> None:
        """Start the thread, unless it runs or there is nothing to ask and nothing suspended."""
        if self._stop is not None or not (self.providers or self._suspensions):
            return
        with self._lock:
            if self._stop is not None:
                return
            stop = self._stop = Event()
        weakref.finalize(self, stop.set).atexit = False
        name = "fuel telemetry"
        Thread(
            target=_sample, args=(weakref.ref(self), stop, self.interval_s), name=name, daemon=True
        ).start()

    def stop(self) -> None:
        """Let the thread end; `start` may follow."""
        with self._lock:
            if self._stop is not None:
                self._stop.set()
                self._stop = None

    def after_fork(self) -> None:
        """Forget the thread, which stayed with the parent, and let the next call start another."""
        self._lock = Lock()
        self._stop = None
        self.epoch += 1
        self.snapshot = replace(self.snapshot, epoch=self.epoch)


def _ask(provider: Provider) -> Signals:
    """Returns what a provider says; nothing where it fails."""
    try:
        signals = provider()
    except (FuelError, OSError, RuntimeError, ValueError):
        return UNKNOWN
    return signals if isinstance(signals, Signals) else UNKNOWN


def _sample(telemetry: weakref.ref[Telemetry], stop: Event, interval_s: float) -> None:
    while True:
        alive = telemetry()
        if alive is None:
            return
        alive.poll()
        del alive
        if stop.wait(interval_s):
            return


_ALIVE: weakref.WeakSet[Telemetry] = weakref.WeakSet()


def _after_fork() -> None:
    for telemetry in list(_ALIVE):
        telemetry.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
