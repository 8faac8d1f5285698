# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Defines the records of telemetry and the tiers that a picker decides by.

A signal that nobody told is None, never 0. A tier moves up at another value than it moves down, so
that noise around one value does not move it to and fro.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite

from fuel_dialect.errors import ArgumentError


@dataclass(frozen=True)
class Signals:
    """Holds what one device said of itself at one moment."""

    free_bytes: int | None = None
    total_bytes: int | None = None
    load: float | None = None
    """The share of the device that other work keeps busy, from 0 to 1."""
    pending: int | None = None
    """Pieces of other work that wait in front of new work."""
    slots: int = 1
    """Pieces of work that the device does side by side."""
    temperature_c: float | None = None
    clock_mhz: float | None = None

    def __post_init__(self) -> None:
        """Raise `ArgumentError` for a value that no device can say."""
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is None or entry.name == "temperature_c":
                continue
            if not isinstance(value, int | float) or not isfinite(value) or value < 0:
                raise ArgumentError(f"telemetry: {entry.name} must be >= 0, got {value!r}")
        if self.load is not None and self.load > 1:
            raise ArgumentError(f"telemetry: load is a share from 0 to 1, got {self.load!r}")
        if self.slots < 1:
            raise ArgumentError(f"telemetry: slots must be >= 1, got {self.slots!r}")

    @property
    def occupied(self) -> float | None:
        """Returns the share of the device that is busy, by load or by what is pending."""
        queued = None if self.pending is None else self.pending / (self.pending + self.slots)
        known = [share for share in (self.load, queued) if share is not None]
        return max(known) if known else None


UNKNOWN = Signals()
"""The signals of a device that gives none."""


@dataclass(frozen=True)
class Tiers:
    """Holds the tiers of one device; a picker decides anew when one of them changes."""

    fit: int | None = None
    """The number of watched sizes that fit into the free memory."""
    memory: int | None = None
    """0 for comfortable, 1 for tight, 2 for full."""
    load: int | None = None
    """The step of `LOAD_STEPS` that the load is in."""

    @property
    def slowdown(self) -> float:
        """Returns how many times as long work takes as on an idle device."""
        return 1.0 if not self.load else SLOWDOWN[self.load]


LOAD_STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The loads at which tiers begin; load below the first is none."""

LOAD_BAND = 0.1
"""The fall of load below the start of a tier that leaves it; half-way at the least."""

LOAD_LEFT = tuple(step - min(LOAD_BAND, step / 2) for step in LOAD_STEPS)
"""The loads below which tiers are left."""

MOST_LOADED = 0.95
"""The share that is taken for a device that others fill altogether."""

SLOWDOWN = tuple(
    1.0 if tier == 0 else 1 / (1 - min(MOST_LOADED, LOAD_STEPS[tier - 1] + 0.05))
    for tier in range(len(LOAD_STEPS) + 1)
)
"""The slowdown of work in each tier of load: it gets the share that others leave."""

MEMORY_STEPS = ((0.15, 0.20), (0.05, 0.08))
"""The free shares below which memory is tight, then full, and above which it is so no more."""

FIT_MARGIN = 1.25
"""The factor by which free memory has to exceed a size before that counts as fitting again."""


@dataclass(frozen=True)
class Snapshot:
    """Holds all that is known of the devices at one moment."""

    signals: Mapping[str, Signals] = field(default_factory=dict[str, Signals])
    tiers: Mapping[str, Tiers] = field(default_factory=dict[str, Tiers])
    suspended: Mapping[str, str] = field(default_factory=dict[str, str])
    """Devices that failed and are left alone for a while, and what happened."""
    epoch: int = 0

    def of(self, device: str) -> Signals:
        """Returns the signals of a device; those of one that nobody asked are unknown."""
        return self.signals.get(device, UNKNOWN)

    def tiers_of(self, device: str) -> Tiers:
        """Returns the tiers of a device."""
        return self.tiers.get(device, NO_TIERS)


NO_TIERS = Tiers()

NOTHING = Snapshot()
"""The snapshot of a machine that says nothing."""


def next_tiers(before: Tiers, signals: Signals, watched: Sequence[int] = ()) -> Tiers:
    """Returns the tiers of a device after new signals. `watched` is in ascending order."""
    return Tiers(
        fit=_fit(before.fit, signals.free_bytes, watched),
        memory=_memory(before.memory, signals.free_bytes, signals.total_bytes),
        load=_load(before.load, signals.occupied),
    )


def _fit(before: int | None, free: int | None, watched: Sequence[int]) -> int | None:
    if free is None:
        return None
    fitting = bisect_right(watched, free)
    if before is None or fitting <= before:
        return fitting
    return max(before, bisect_right(watched, int(free / FIT_MARGIN)))


def _memory(before: int | None, free: int | None, total: int | None) -> int | None:
    if free is None or not total:
        return None
    share = free / total
    entered = sum(share < enter for enter, _ in MEMORY_STEPS)
    held = sum(share < leave for _, leave in MEMORY_STEPS)
    return entered if before is None else max(entered, min(before, held))


def _load(before: int | None, occupied: float | None) -> int | None:
    if occupied is None:
        return None
    entered = bisect_right(LOAD_STEPS, occupied)
    if before is None or entered >= before:
        return entered
    return max(entered, min(before, bisect_right(LOAD_LEFT, occupied)))
