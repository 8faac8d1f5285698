# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes what `cuda_check.py` found: the JSON file and the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

import cuda_speed
import output
from cuda_speed import Figures
from harness import Measurement
from outcomes import Outcome

LISTED = ("examples", "sizes", "replay")
"""Sections whose outcomes are all in the file; of the ops, only what failed."""

PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


@dataclass
class Findings:
    """All that was found so far."""

    emulated: bool
    budget: float
    machine: dict[str, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    figures: list[Figures] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """By section, those that are done."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Lists what was not done, and why."""
    compiled_ahead: int = 0
    date: str = field(default_factory=lambda: date.today().isoformat())

    def add(self, section: str, outcomes: Sequence[Outcome]) -> None:
        self.outcomes.setdefault(section, []).extend(outcomes)

    def skip(self, what: str, why: str) -> None:
        self.skipped[what] = why

    @property
    def failures(self) -> list[tuple[str, Outcome]]:
        """With their sections."""
        return [(s, o) for s, found in self.outcomes.items() for o in found if not o.passed]

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def measurements(self) -> list[Measurement]:
        return [figures.measurement for figures in self.figures]

    @property
    def verdicts(self) -> list[output.Verdict]:
        """An emulation says nothing of a GPU."""
        return [] if self.emulated else output.verdicts(self.measurements, cuda_speed.TARGETS)

    @property
    def left_out(self) -> dict[str, str]:
        """All that was skipped, contestants and targets among it."""
        found = dict(self.skipped)
        for measurement in self.measurements:
            for name, reason in measurement.skipped.items():
                found[f"{measurement.name}: {name}"] = reason
        judged = {(v.target.measurement, v.target.name) for v in self.verdicts}
        for target in cuda_speed.TARGETS:
            if (target.measurement, target.name) not in judged:
                reason = "an emulation" if self.emulated else "it was not measured"
                found[f"target {target.measurement}: {target.text}"] = reason
        return found

    # The file.

    def content(self, elapsed: float) -> dict[str, Any]:
        figures = output.record(self.date, self.machine, {}, self.measurements, [])
        return {
            "date": self.date,
            "emulated": self.emulated,
            "machine": self.machine,
            "device": self.device,
            "budget_seconds": self.budget,
            "elapsed_seconds": round(elapsed, 1),
            "compiled_ahead": self.compiled_ahead,
            "passed": self.passed,
            "sections": {s: self._section(s) for s in {**self.outcomes, **self.seconds}},
            "failures": [{"section": s, **asdict(o)} for s, o in self.failures],
            "workloads": figures["workloads"],
            "rates": {
                f.measurement.name: {"unit": f.unit, **dict(f.rates())}
                for f in self.figures
                if f.work
            },
            "targets": [
                {**asdict(v.target), "ratio": asdict(v.ratio), "passed": v.passed}
                for v in self.verdicts
            ],
            "skipped": self.left_out,
        }

    def _section(self, name: str) -> dict[str, Any]:
        outcomes = self.outcomes.get(name, [])
        facts: dict[str, Any] = {
            "seconds": round(self.seconds[name], 1) if name in self.seconds else None,
            "checked": len(outcomes),
            "failed": sum(not outcome.passed for outcome in outcomes),
            "greatest_errors": greatest_errors(outcomes),
        }
        if name in LISTED:
            facts["outcomes"] = [asdict(outcome) for outcome in outcomes]
        return facts


def greatest_errors(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Of what passed, by the element type of the first operand."""
    found: dict[str, float] = {}
    for outcome in outcomes:
        if outcome.passed and outcome.types and outcome.error is not None:
            dtype = outcome.types[0].partition("[")[0]
            found[dtype] = max(found.get(dtype, 0.0), outcome.error)
    return found


# The table.


def lines(found: Findings) -> Iterator[str]:
    yield from _head(found)
    yield from _correctness(found)
    yield from output.table(found.measurements)
    yield from _rates(found)
    yield from output.verdict_lines(found.verdicts)
    yield ""
    yield from _skipped(found)


def _head(found: Findings) -> Iterator[str]:
    device, machine = found.device, found.machine
    facts = [f"{name} {value}" for name, value in device.items() if name != "name"]
    yield f"{device['name']}: {', '.join(facts)}"
    versions = {name: v for name, v in machine["packages"].items() if v}
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield f"Python {machine['python']}, {packages}"
    yield ""


def _correctness(found: Findings) -> Iterator[str]:
    yield "section      checked   failed  seconds  greatest errors, by element type"
    for name in {**found.outcomes, **found.seconds}:
        outcomes = found.outcomes.get(name, [])
        failed = sum(not outcome.passed for outcome in outcomes)
        taken = f"{found.seconds[name]:.1f}" if name in found.seconds else "?"
        errors = ", ".join(f"{d} {e:.1e}" for d, e in greatest_errors(outcomes).items())
        yield f"{name:12} {len(outcomes):7} {failed:8} {taken:>8}  {errors}".rstrip()
    for section, outcome in found.failures:
        operands = f" of {', '.join(outcome.types)}" if outcome.types else ""
        yield f"FAIL  {section}: {outcome.name}{operands}: {outcome.failure}"
    yield ""


def _rates(found: Findings) -> Iterator[str]:
    for figures in found.figures:
        rates = [f"{name} {show_rate(rate, figures.unit)}" for name, rate in figures.rates()]
        if rates:
            yield f"{figures.measurement.name}: {', '.join(rates)}"
    yield ""


def show_rate(rate: float, unit: str) -> str:
    """Three digits and a unit: `4.31 TB/s`."""
    prefix, scale = next((p, s) for p, s in PREFIXES if rate >= s or s == 1.0)
    return f"{rate / scale:.3g} {prefix}{unit}"


def _skipped(found: Findings) -> Iterator[str]:
    """Grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for what, why in found.left_out.items():
        reasons.setdefault(why, []).append(what)
    if not reasons:
        yield "nothing was skipped"
    for why, what in reasons.items():
        yield f"skipped, {why}: {'; '.join(what)}"
