# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table, the JSON file and the picture of one run of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import planning
import throughput
from harness import Measurement, Spread
from workloads import FUEL, OUT, PLAIN


@dataclass(frozen=True)
class Target:
    """
    A ratio of two contestants of one measurement that is to stay at or below a limit.

    Without a `to`, the seconds of the one.
    """

    measurement: str
    name: str
    to: str | None
    limit: float
    text: str
    at_least: bool = False

    def measured(self, measurement: Measurement) -> Spread:
        if self.to is None:
            return measurement.time(self.name)
        return measurement.ratio(self.name, self.to)

    def is_measured(self, measurement: Measurement) -> bool:
        """Returns True if those it compares took part."""
        return {self.name, self.to or self.name} <= measurement.rounds.keys()

    def holds(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit


_SMALL, _LARGE = throughput.SIZES

TARGETS: Sequence[Target] = (
    Target("call", FUEL, PLAIN, 1.5, "a call takes at most 1.5 times the NumPy expression"),
    Target("pointwise", PLAIN, FUEL, 4.0, "at least 4 times as fast as NumPy", at_least=True),
    Target("softmax", PLAIN, FUEL, 3.0, "at least 3 times as fast as NumPy", at_least=True),
    Target("scan", FUEL, OUT, 1.1, "at most 1.1 times the hand-written loop"),
    Target("scan_carry", FUEL, OUT, 1.1, "at most 1.1 times the hand-written loop"),
    Target(
        "optimiser",
        throughput.contestant(throughput.FUEL, _SMALL),
        throughput.contestant(throughput.STOCK, _SMALL),
        3.0,
        f"{_SMALL:,} ops: at most 3 times canonicalize,cse,dce",
    ),
    Target(
        "optimiser",
        throughput.contestant(throughput.FUEL, _LARGE),
        throughput.contestant(throughput.FUEL, _SMALL),
        1.2,
        f"time per op at {_LARGE:,} ops: at most 1.2 times that at {_SMALL:,}",
    ),
    Target(
        "planning",
        planning.THREE.name,
        None,
        0.6,
        f"{planning.LAYERS} layers for three devices: at most 0.6 s",
    ),
    Target(
        "planning_size",
        planning.contestant(planning.MORE_LAYERS),
        planning.contestant(planning.LAYERS),
        1.3,
        f"time per op of {planning.MORE_LAYERS} layers: at most 1.3 times that of "
        f"{planning.LAYERS}",
    ),
)


@dataclass(frozen=True)
class Verdict:
    """A target with what was measured; it is judged by the median."""

    target: Target
    ratio: Spread

    @property
    def passed(self) -> bool:
        return self.target.holds(self.ratio.median)


def verdicts(
    measurements: Sequence[Measurement], targets: Sequence[Target] = TARGETS
) -> list[Verdict]:
    """Of the targets whose contestants were measured."""
    by_name = {m.name: m for m in measurements}
    return [
        Verdict(target, target.measured(measurement))
        for target in targets
        if (measurement := by_name.get(target.measurement)) and target.is_measured(measurement)
    ]


def show_time(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def show_ratio(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ({ratio.min:.2f} to {ratio.max:.2f})"


def show_spread(time: Spread) -> str:
    return f"{show_time(time.median)} ({show_time(time.min)} to {show_time(time.max)})"


def first(measurement: Measurement) -> str:
    """The contestant that the others are compared with: fuel, where it takes part by that name."""
    return next(iter(measurement.rounds))


def table(measurements: Sequence[Measurement]) -> Iterator[str]:
    """One block a workload; a ratio above 1 is slower than the first line of the block."""
    width = max((len(name) for m in measurements for name in m.rounds), default=0)
    for measurement in measurements:
        yield measurement.title
        base = first(measurement)
        for name in measurement.rounds:
            time, ratio = measurement.time(name), measurement.ratio(name, base)
            spread = f"{show_time(time.min)} to {show_time(time.max)}"
            median = show_time(time.median)
            yield f"  {name:{width}}  {median:>8}  {spread:22} x {show_ratio(ratio)}"
        for name, reason in measurement.skipped.items():
            yield f"  {name:{width}}  skipped: {reason}"
        yield ""


def verdict_lines(found: Sequence[Verdict]) -> Iterator[str]:
    for verdict in found:
        word = "pass" if verdict.passed else "FAIL"
        target = verdict.target
        show = show_spread if target.to is None else show_ratio
        yield f"{word}  {target.measurement}: {target.text}; measured {show(verdict.ratio)}"


def record(
    date: str,
    machine: Mapping[str, Any],
    settings: Mapping[str, Any],
    measurements: Sequence[Measurement],
    targets: Sequence[Target] = TARGETS,
) -> dict[str, Any]:
    """Everything, for the JSON file. Times are in seconds, ratios to the first contestant."""
    return {
        "date": date,
        "machine": dict(machine),
        "settings": dict(settings),
        "workloads": [
            {
                "name": m.name,
                "title": m.title,
                "largest_error": m.largest_error,
                "seconds": {name: asdict(m.time(name)) for name in m.rounds},
                "ratios": {name: asdict(m.ratio(name, first(m))) for name in m.rounds},
                "rounds": {name: list(times) for name, times in m.rounds.items()},
                "skipped": dict(m.skipped),
            }
            for m in measurements
        ],
        "targets": [
            {**asdict(v.target), "ratio": asdict(v.ratio), "passed": v.passed}
            for v in verdicts(measurements, targets)
        ],
    }


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write the file as a whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=2) + "\n")
    partial.replace(path)


def write_plot(path: Path, measurements: Sequence[Measurement], caption: str) -> bool:
    """
    A dot for each contestant: its time relative to the first, on a logarithmic axis.

    The line through a dot spans the rounds.

    Returns False, and writes nothing, where matplotlib is not installed.
    """
    try:
        Figure = import_module("matplotlib.figure").Figure
    except ImportError:
        return False
    rows = [len(m.rounds) for m in measurements]
    figure = Figure(figsize=(9, 1 + 0.32 * sum(rows) + 0.5 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 1, squeeze=False, gridspec_kw={"height_ratios": rows})
    for (panel,), measurement in zip(axes, measurements, strict=True):
        _draw(panel, measurement)
    figure.suptitle(caption, fontsize=9)
    figure.savefig(path, dpi=120)
    return True


def _draw(panel: Any, measurement: Measurement) -> None:
    base, names = first(measurement), list(measurement.rounds)
    ratios = [measurement.ratio(name, base) for name in names]
    rows = range(len(names))
    colours = ["#c8553d" if name == base else "#44606e" for name in names]
    panel.hlines(rows, [r.min for r in ratios], [r.max for r in ratios], color=colours, lw=1.5)
    panel.scatter([r.median for r in ratios], rows, color=colours, s=36, zorder=3)
    panel.axvline(1, color="#999999", lw=0.8, zorder=0)
    panel.set_xscale("log")
    panel.set_yticks(rows, [f"{n}   {r.median:.2f} x" for n, r in zip(names, ratios, strict=True)])
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.grid(axis="x", which="both", color="#eeeeee", zorder=0)
    time = show_time(measurement.time(base).median)
    panel.set_title(f"{measurement.title} ({base}: {time})", fontsize=9, loc="left")
    panel.tick_params(labelsize=8)
