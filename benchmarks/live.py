# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures what decisions cost a call: one program with a branch, one that is the branch's first arm.

The two are called by turns in one process, and the least time of many rounds counts. Printed are a
call without a branch, what a settled branch adds, what a call adds that decides anew (a route that
is known, and one that is not), the share of a core that the sampler takes, and the share of call
time that measuring takes. `--out FILE.json` keeps the figures. The exit code is 1 where one is
beyond its bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fuel_runtime import Executable, Session
from fuel_runtime.picker.route_cache import RouteCache

ELEMENTS = 1024
LARGER = 1 << 16
ROUNDS, CALLS = 60, 400
MEASURED_ROUNDS, MEASURED_CALLS = 25, 1_000
BOUNDS = {
    "settled_us": 1.0,
    "known_route_us": 50.0,
    "resolved_us": 50.0,
    "sampler_percent": 0.5,
    "measuring_percent": 1.0,
}
"""The most that each figure may be."""
SAMPLED_S = 4.0

T = f"tensor<{ELEMENTS}xf32>"
ARM = f"""
  arm on #fuel.target<cpu, "numpy"> price PRICE {{
    %p = fuel.exp %a : {T}
    fuel.yield %p : {T}
  }}"""
ARMS = ARM.replace("PRICE", "100") + ARM.replace("PRICE", "90")
BRANCHED = f"""
func.func @main(%x: {T}) -> {T} {{
  %y = fuel.branch "d0"(%a = %x : {T}) -> {T}{ARMS}
  func.return %y : {T}
}}"""
STRAIGHT = f"""
func.func @main(%x: {T}) -> {T} {{
  %y = fuel.exp %x : {T}
  func.return %y : {T}
}}"""
X = np.linspace(-1, 1, ELEMENTS, dtype=np.float32)


def compiled(text: str, **options: Any) -> Executable:
    return Session("cpu", threads=1, **options).compile(text, optimize=False)


def least_us(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Returns the microseconds of one call of each, by turns; the least of all rounds."""
    least = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for index, call in enumerate(calls):
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            least[index] = min(least[index], (time.perf_counter_ns() - start) / CALLS / 1e3)
    return least


def again(exe: Executable, *, forget: bool) -> Callable[[], object]:
    """Returns a call before which the signals have changed; `forget` the routes as well."""
    live = exe._live  # pyright: ignore[reportPrivateUsage]
    assert live is not None

    def call() -> object:
        live.telemetry.epoch += 1
        if forget:
            live.cache = RouteCache()
        return exe(X)

    return call


def sampler_percent() -> float:
    """Returns the share of a core that the sampler of a session takes while nothing else runs."""
    session = Session("cpu")
    session.telemetry.start()
    time.sleep(0.5)  # the first sample imports psutil
    before, start = time.process_time(), time.perf_counter()
    time.sleep(SAMPLED_S)
    spent = time.process_time() - before
    return 100 * spent / (time.perf_counter() - start)


def measuring_percent() -> float:
    """Returns by how much calls take longer of which some are timed, of some 50 us each."""
    text, x = BRANCHED.replace(f"{ELEMENTS}x", f"{LARGER}x"), np.resize(X, LARGER)
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "times.db")
        ways = compiled(text, telemetry=False), compiled(text, telemetry=False, measurements=store)
        ratios: list[float] = []
        for _ in range(MEASURED_ROUNDS):
            spent: list[float] = []
            for exe in ways:
                start = time.perf_counter()
                for _ in range(MEASURED_CALLS):
                    exe(x)
                spent.append(time.perf_counter() - start)
            ratios.append(spent[1] / spent[0])
    return 100 * (median(ratios) - 1)


def measured() -> dict[str, float]:
    """Returns all figures."""
    straight, branched = compiled(STRAIGHT), compiled(BRANCHED, telemetry=False)
    known, anew = compiled(BRANCHED, telemetry=False), compiled(BRANCHED, telemetry=False)
    plain, settled, route, resolved = least_us(
        [
            lambda: straight(X),
            lambda: branched(X),
            again(known, forget=False),
            again(anew, forget=True),
        ]
    )
    return {
        "straight_us": plain,
        "settled_us": settled - plain,
        "known_route_us": route - plain,
        "resolved_us": resolved - plain,
        "sampler_percent": sampler_percent(),
        "measuring_percent": measuring_percent(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures beside their bounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", metavar="FILE.json")
    options = parser.parse_args(argv)
    figures = measured()
    for name, value in figures.items():
        bound = f"at most {BOUNDS[name]:g}" if name in BOUNDS else ""
        print(f"{name:18} {value:9.3f}  {bound}".rstrip())
    if options.out:
        Path(options.out).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return int(any(figures[name] > bound for name, bound in BOUNDS.items()))


if __name__ == "__main__":
    sys.exit(main())
