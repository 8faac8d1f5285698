# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures fuel beside NumPy, JAX and torch, all in this one process.

Prints a table of medians and ratios and the targets that were set; writes the same as JSON, and
as a picture where matplotlib is installed. The exit code is 1 if a result is wrong, 2 with
`--strict` if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import facts
import harness
import output
import planning
import recurrent
import throughput
import workloads
from harness import Measurement, Settings, WrongResult, progress

RESULTS = Path(__file__).resolve().parent / "results"

Measure = Callable[[Settings], Measurement]


def timed(make: Callable[[], harness.Workload]) -> Measure:
    """Make a workload only when its turn comes, and let it go afterwards."""
    return lambda settings: harness.measure(make(), settings)


ALL: Mapping[str, Measure] = {
    "call": timed(workloads.call),
    "pointwise": timed(workloads.pointwise),
    "softmax": timed(workloads.softmax),
    "mlp": timed(workloads.mlp),
    "scan": timed(recurrent.scan),
    "scan_carry": timed(recurrent.scan_carry),
    "gated_recurrent_cell": timed(recurrent.gru),
    "optimiser": throughput.measure,
    "planning": planning.passes,
    "planning_size": planning.sizes,
}
"""The workloads, by name, in the order of the report."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: a look, not a figure")
    parser.add_argument("--only", action="append", choices=list(ALL), help="may be repeated")
    parser.add_argument("--rounds", type=int, help="rounds of each workload")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON and the PNG")
    parser.add_argument("--strict", action="store_true", help="exit code 2 if a target is missed")
    return parser.parse_args()


def warn_about(machine: Mapping[str, object]) -> None:
    """Say what makes the figures worth less."""
    if machine["environment"]:
        progress(f"note: {machine['environment']} is set and may slow NumPy's matmul down")
    loads = machine["load_average_at_start"]
    if isinstance(loads, list) and loads and loads[0] > 0.5:
        progress(f"note: the machine is busy, its load average is {loads[0]}")


def main() -> int:
    options = arguments()
    settings = Settings.quick() if options.quick else Settings()
    if options.rounds:
        settings = replace(settings, rounds=options.rounds)
    machine = facts.machine()
    warn_about(machine)
    try:
        measurements = [ALL[name](settings) for name in ALL if name in (options.only or ALL)]
    except WrongResult as error:
        print(f"wrong result: {error}", file=sys.stderr)
        return 1
    found = output.verdicts(measurements)
    print("\n".join([*output.table(measurements), *output.verdict_lines(found)]))

    today = date.today().isoformat()
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / f"{today}-{facts.label()}"
    report = output.record(today, machine, asdict(settings), measurements)
    output.write_json(stem.with_suffix(".json"), report)
    caption = f"time relative to fuel, {machine['processor']}, {machine['cores']} cores, {today}"
    drawn = output.write_plot(stem.with_suffix(".png"), measurements, caption)
    progress(f"written: {stem.name}.json" + (f", {stem.name}.png" if drawn else ""))
    if not drawn:
        progress("no picture: matplotlib is not installed (pip install 'fuel-compiler[bench]')")
    return 2 if options.strict and not all(v.passed for v in found) else 0


if __name__ == "__main__":
    sys.exit(main())
