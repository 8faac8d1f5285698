# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Simulates the picker under moving load, with clocks that cost nothing.

Regret is what calls took over what an oracle would have taken that knows every arm's time before it
picks. Flapping counts changes of arm under noise alone. `--out FILE.json` keeps the figures and
`--plot FILE.png` draws the picks, where matplotlib is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import pi, sin
from random import Random

from fuel_passes.planning.measurements import MeasurementKey
from fuel_runtime.measurement_store import MeasuredTimes
from fuel_runtime.picker.decision import Arm, Decision
from fuel_runtime.picker.resolve import resolve
from fuel_runtime.telemetry.sampler import Telemetry
from fuel_runtime.telemetry.signals import Signals

CALLS = 5_000
WARM_UP = 50
NOISE = 0.10

Load = Callable[[int, Random], float]
"""The share of the first device that others take at a call."""


def _random_walk() -> Load:
    level = 0.2

    def load(call: int, random: Random) -> float:
        nonlocal level
        if call % 200 == 0:
            level = random.uniform(0, 0.9)
        return level

    return load


def patterns() -> Mapping[str, Load]:
    """Returns the loads of the first device; the second is idle."""
    return {
        "step": lambda call, _: 0.75 if (call // 1000) % 2 else 0.0,
        "ramp": lambda call, _: 0.9 * (call % 2500) / 2500,
        "spike": lambda call, _: 0.85 if call % 500 < 40 else 0.05,
        "sine": lambda call, _: 0.45 * (1 + sin(2 * pi * call / 1500)),
        "random": _random_walk(),
    }


@dataclass(frozen=True)
class Outcome:
    """Holds what one pattern gave."""

    pattern: str
    regret: float
    changes: int
    decisions: int
    picks: Sequence[int]


def key_of(name: str) -> MeasurementKey:
    """Returns a key of its own for an arm."""
    return MeasurementKey((name,), (), (), f"{name}/sim")


class Machine:
    """Simulates two devices whose arms take `times` nanoseconds when idle."""

    def __init__(self, times: Sequence[float], seed: int = 0, noise: float = NOISE):
        self.random = Random(seed)
        self.noise = noise
        self.times = times
        self.share = 0.0
        self.telemetry = Telemetry(
            {"a:0": lambda: self._signals(self.share), "b:0": lambda: self._signals(0.0)},
        )
        arms = [
            Arm(f"{name}/sim", round(price), "sim", None, (f"{name}:0",), key=key_of(name))
            for name, price in zip("ab", times, strict=True)
        ]
        self.decision = Decision("d0", tuple(arms))
        self.measured = MeasuredTimes()
        self.pick: int | None = None
        self.changes = 0

    def _noisy(self, value: float) -> float:
        return value * max(0.0, self.random.gauss(1, self.noise))

    def _signals(self, share: float) -> Signals:
        free = min(8 << 30, int(self._noisy(6 << 30)))
        return Signals(free, 8 << 30, min(1.0, self._noisy(share)))

    def true_times(self) -> list[float]:
        """Returns what each arm takes at this moment."""
        return [self.times[0] / (1 - self.share), self.times[1]]

    def call(self) -> float:
        """Pick and run; returns what it took."""
        snapshot = self.telemetry.poll()
        pick = resolve(self.decision, snapshot, self.measured, incumbent=self.pick).arm
        self.changes += self.pick is not None and pick != self.pick
        self.pick = pick
        taken = self.true_times()[pick]
        slowdown = snapshot.tiers_of(f"{'ab'[pick]}:0").slowdown
        self.measured.record(key_of("ab"[pick]), self._noisy(taken) / slowdown)
        return taken


def simulate(name: str, load: Load, calls: int = CALLS, seed: int = 0) -> Outcome:
    """Returns the regret of a pattern after the first calls."""
    machine = Machine((1e6, 1.6e6), seed)
    taken = best = 0.0
    picks: list[int] = []
    for call in range(calls):
        machine.share = load(call, machine.random)
        took = machine.call()
        picks.append(machine.pick or 0)
        if call >= WARM_UP:
            taken += took
            best += min(machine.true_times())
    return Outcome(name, taken / best, machine.changes, calls, picks)


def flapping(calls: int = CALLS) -> int:
    """Returns the most changes in 1,000 decisions under noise, whatever the level of load is."""
    worst = 0
    for step in range(10):
        machine = Machine((1e6, 1.6e6), seed=step)
        machine.share = step / 10
        for _ in range(WARM_UP):
            machine.call()
        machine.changes, before = 0, 0
        for call in range(calls):
            machine.call()
            if call % 1000 == 999:
                worst = max(worst, machine.changes - before)
                before = machine.changes
    return worst


def cost_us(calls: int = 200, rounds: int = 20) -> float:
    """Returns the microseconds of one decision with all its selectors: the least of some rounds."""
    machine = Machine((1e6, 1.6e6))
    for _ in range(10):
        machine.call()
    snapshot = machine.telemetry.poll()
    least = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            resolve(machine.decision, snapshot, machine.measured, incumbent=0)
        least = min(least, time.perf_counter() - start)
    return least / calls * 1e6


def plot(outcomes: Sequence[Outcome], file: str) -> None:
    """Draw the picks over the calls; raises `ImportError` without matplotlib."""
    from matplotlib import pyplot  # pyright: ignore[reportMissingImports]

    figure, axes = pyplot.subplots(len(outcomes), 1, sharex=True, figsize=(9, 8))
    for axis, outcome in zip(axes, outcomes, strict=True):
        axis.step(range(len(outcome.picks)), outcome.picks)
        axis.set_title(f"{outcome.pattern}: regret {outcome.regret:.3f}")
        axis.set_yticks([0, 1])
    figure.tight_layout()
    figure.savefig(file)


def main(argv: Sequence[str] | None = None) -> int:
    """Print regret, flapping and cost; the exit code is 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--out", metavar="FILE.json")
    parser.add_argument("--plot", metavar="FILE.png")
    options = parser.parse_args(argv)
    outcomes = [simulate(name, load, options.calls) for name, load in patterns().items()]
    changes, cost = flapping(options.calls), cost_us()
    for outcome in outcomes:
        print(f"{outcome.pattern:8} regret {outcome.regret:.4f}, {outcome.changes} changes")
    print(f"flapping {changes} changes in 1,000 decisions at the worst")
    print(f"decision {cost:.1f} us")
    if options.out:
        figures = [{k: v for k, v in asdict(o).items() if k != "picks"} for o in outcomes]
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"patterns": figures, "flapping": changes, "cost_us": cost}, file, indent=2)
    if options.plot:
        try:
            plot(outcomes, options.plot)
        except ImportError:
            print("no plot: matplotlib is not installed (extra 'bench')", file=sys.stderr)
    return int(changes > 1 or any(outcome.regret > 1.05 for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
