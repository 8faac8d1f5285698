# SPDX-License-Identifier: MIT OR Apache-2.0
"""Timing side by side: rounds in which every contestant runs, by turns."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """Seconds of one call, over `repeat` calls in a row."""
    loop = range(repeat)
    before = time.perf_counter()
    for _ in loop:
        call()
    return (time.perf_counter() - before) / repeat


Clock = Callable[[Callable[[], Any], int], float]
"""Gives the seconds of one call, over so many in a row, as `seconds` does."""


@dataclass(frozen=True)
class Contestant:
    """
    One way to compute a workload. `values` turns what `call` returns into arrays.

    A yardstick, such as a copy of as many bytes, computes something else.
    """

    name: str
    call: Callable[[], Any]
    values: Callable[[Any], Sequence[Array]] = lambda result: [np.asarray(r) for r in result]
    clock: Clock = seconds
    is_yardstick: bool = False


@dataclass(frozen=True)
class Workload:
    """Contestants that all compute `expected`, and who is missing, with the reason."""

    name: str
    title: str
    contestants: Sequence[Contestant]
    expected: Sequence[Array]
    skipped: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 1e-4


@dataclass(frozen=True)
class Settings:
    """Says how long to measure: rounds, and the least time of a contestant in a round."""

    rounds: int = 21
    batch_seconds: float = 0.05
    pause_seconds: float = 0.03
    """Before each batch: the thread pools of the contestant before spin for about that long."""
    longest_seconds: float = 20.0
    """A workload gets fewer rounds (three at least) where all of them would take longer."""

    @staticmethod
    def quick() -> Settings:
        return Settings(rounds=5, batch_seconds=0.01, longest_seconds=3.0)


@dataclass(frozen=True)
class Spread:
    """The median, least and greatest of what the rounds gave."""

    median: float
    min: float
    max: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(median(values), min(values), max(values))


@dataclass(frozen=True)
class Measurement:
    """Seconds a call took, by contestant, one figure a round; round i is the same for all."""

    name: str
    title: str
    rounds: Mapping[str, Sequence[float]]
    skipped: Mapping[str, str] = field(default_factory=dict)
    largest_error: float | None = None

    def time(self, name: str) -> Spread:
        """Seconds a call."""
        return Spread.of(self.rounds[name])

    def ratio(self, name: str, to: str) -> Spread:
        """Returns the ratios of the times of a contestant and of `to`, each from one round."""
        pairs = zip(self.rounds[name], self.rounds[to], strict=True)
        return Spread.of([a / b for a, b in pairs])


class WrongResult(Exception):
    """A contestant computes something else; nothing of its workload was timed."""


def progress(text: str) -> None:
    """A line for whoever waits, apart from the results."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect garbage now, and not before the block ends."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def check(workload: Workload) -> float:
    """The largest error of all contestants, relative to the magnitude of each expected result."""
    worst = 0.0
    for contestant in workload.contestants:
        if contestant.is_yardstick:
            continue
        results = contestant.values(contestant.call())
        if len(results) != len(workload.expected):
            raise WrongResult(f"{workload.name}: {contestant.name} gives {len(results)} results")
        for got, want in zip(results, workload.expected, strict=True):
            error = relative_error(got, want)
            if not error <= workload.tolerance:
                raise WrongResult(f"{workload.name}: {contestant.name} is off by {error:.1e}")
            worst = max(worst, error)
    return worst


def relative_error(got: Array, want: Array) -> float:
    if got.shape != want.shape:
        return float("inf")
    scale = float(np.abs(want).max()) or 1.0
    return float(np.abs(got.astype(np.float64) - want).max()) / scale


def repeats(contestant: Contestant, settings: Settings) -> int:
    """Chooses how many calls in a row make one batch; also warms up."""
    call, clock = contestant.call, contestant.clock
    clock(call, 2)
    once = min(clock(call, 3), clock(call, 3))
    return max(1, round(settings.batch_seconds / max(once, 1e-9)))


def batch(contestant: Contestant, repeat: int, pause: float) -> float:
    """Seconds of one call, after a pause and one call that is not timed."""
    time.sleep(pause)
    contestant.call()
    return contestant.clock(contestant.call, repeat)


def measure(workload: Workload, settings: Settings) -> Measurement:
    """
    Check every contestant, warm up, then time all of them in each round.

    The order turns by one each round. Raises `WrongResult`.
    """
    error = check(workload)
    contestants, pause = workload.contestants, settings.pause_seconds
    counts = {c.name: repeats(c, settings) for c in contestants}
    before = time.perf_counter()
    for contestant in contestants:
        batch(contestant, counts[contestant.name], pause)
    one_round = time.perf_counter() - before
    count = min(settings.rounds, max(3, int(settings.longest_seconds / one_round)))
    progress(f"{workload.name}: {count} rounds of {one_round:.2f} s, largest error {error:.1e}")
    rounds: dict[str, list[float]] = {c.name: [] for c in contestants}
    with no_collection():
        for index in range(count):
            start = index % len(contestants)
            for contestant in (*contestants[start:], *contestants[:start]):
                taken = batch(contestant, counts[contestant.name], pause)
                rounds[contestant.name].append(taken)
    return Measurement(workload.name, workload.title, rounds, workload.skipped, error)
