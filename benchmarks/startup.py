# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures what having fuel installed costs every start of the stock `xdsl-opt`.

Makes two environments in a temporary folder, one with xdsl alone and one with the fuel wheel,
and runs `xdsl-opt` on an empty module in both by turns. The limit is a ratio of medians of 1.05.

Then it measures fuel's own commands on `examples/mlp.mlir`: `fuel-run` in seconds, at most 0.8, and
`xdsl-opt -p fuel-optimize` by turns with `-p canonicalize`, at most 1.4 times that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.05
OPTIMIZE_LIMIT = 1.4
RUN_LIMIT_SECONDS = 0.8
EXAMPLE = ROOT / "examples" / "mlp.mlir"
EMPTY = b"builtin.module {}"


@dataclass(frozen=True)
class Startup:
    """Medians over all pairs, in milliseconds."""

    pairs: int
    without_ms: float
    with_ms: float
    ratio: float
    """Median of the ratios within each pair, which a change of the machine's speed leaves alone."""


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path, *requirements: str) -> Path:
    """A new virtual environment; the path of its `xdsl-opt`."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *requirements], check=True)
    return folder / "bin" / "xdsl-opt"


def start(tool: Path, *arguments: str) -> float:
    """Returns the seconds that one start takes."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    before = time.perf_counter()
    command = [str(tool), *arguments]
    subprocess.run(command, input=EMPTY, check=True, stdout=subprocess.DEVNULL, env=clean)
    return time.perf_counter() - before


def measure(without: Path, with_fuel: Path, pairs: int) -> Startup:
    """Start both by turns, the order swapped each time, after one start of each unmeasured."""
    for tool in (without, with_fuel):
        start(tool)
    times: list[tuple[float, float]] = []
    for index in range(pairs):
        if index % 2:
            after = start(with_fuel)
            times.append((start(without), after))
        else:
            before = start(without)
            times.append((before, start(with_fuel)))
    return Startup(
        pairs,
        without_ms=1e3 * median(a for a, _ in times),
        with_ms=1e3 * median(b for _, b in times),
        ratio=median(b / a for a, b in times),
    )


def measure_commands(folder: Path, rounds: int) -> tuple[float, float]:
    """Returns the medians of the seconds of `fuel-run`, and of optimize to canonicalize."""
    run, opt, file = folder / "fuel-run", folder / "xdsl-opt", str(EXAMPLE)
    start(run, file, "--random", "0")
    seconds = [start(run, file, "--random", "0") for _ in range(rounds)]
    ratios = [
        start(opt, file, "-p", "fuel-optimize") / start(opt, file, "-p", "canonicalize")
        for _ in range(rounds)
    ]
    return median(seconds), median(ratios)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40, help="starts of each (default 40)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build_wheel(folder)
        with_fuel = make_environment(folder / "with", str(wheel))
        xdsl = version_of_xdsl(with_fuel)
        without = make_environment(folder / "without", f"xdsl=={xdsl}")
        result = measure(without, with_fuel, options.pairs)
        run_seconds, ratio = measure_commands(with_fuel.parent, max(options.pairs // 4, 1))
    print(
        f"xdsl-opt on an empty module, xdsl {xdsl}: {result.without_ms:.1f} ms without fuel, "
        f"{result.with_ms:.1f} ms with it; ratio {result.ratio:.3f} (limit {LIMIT})"
    )
    print(f"fuel-run {EXAMPLE.name}: {run_seconds:.2f} s (limit {RUN_LIMIT_SECONDS} s)")
    print(f"fuel-optimize to canonicalize, {EXAMPLE.name}: {ratio:.2f} (limit {OPTIMIZE_LIMIT})")
    if options.json:
        figures = {**asdict(result), "run_seconds": run_seconds, "optimize_ratio": ratio}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    within = result.ratio <= LIMIT and run_seconds <= RUN_LIMIT_SECONDS and ratio <= OPTIMIZE_LIMIT
    return int(not within)


def version_of_xdsl(tool: Path) -> str:
    """The version that an environment got."""
    command = "import importlib.metadata as m; print(m.version('xdsl'))"
    python = str(tool.parent / "python")
    found = subprocess.run([python, "-c", command], check=True, capture_output=True, text=True)
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
