# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Makes the weights, then compiles and runs every example on random arguments.

Each is compiled twice: as a user would, for the figures, and with all variants kept. Every arm of
the latter is forced once and compared with the reference run of the program as it was written.
The exit code is 1 if any result is off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from make_weights import EXAMPLES, make, weights_of
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.context import load_program
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_runtime import Executable, Report, Session

Array = np.ndarray[Any, np.dtype[Any]]

TOLERANCE = 1e-4
"""Of f32 results, relative to the largest magnitude of each."""


@dataclass(frozen=True)
class Outcome:
    """Represents the outcome of one example."""

    name: str
    results: str
    arms: int
    error: float
    runs: int
    kernels: int
    branches: int
    seconds: float

    @property
    def is_right(self) -> bool:
        return self.error <= TOLERANCE

    def __str__(self) -> str:
        verdict = "ok" if self.is_right else "WRONG"
        return (
            f"{self.name:21} {self.results:32} {self.arms:4} {self.error:10.1e} {self.runs:5} "
            f"{self.kernels:8} {self.branches:9} {1e3 * self.seconds:9.3f} ms  {verdict}"
        )


HEADER = (
    f"{'example':21} {'results':32} {'arms':>4} {'max error':>10} {'runs':>5} "
    f"{'kernels':>8} {'branches':>9} {'a call':>12}"
)


def random_arguments(exe: Executable) -> list[Array]:
    """Normally distributed arrays of the shapes and dtypes that the executable takes."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(p.shape).astype(p.numpy) for p in exe.signature.inputs]


def routes(report: Report) -> Iterator[dict[str, int]]:
    """Forced decisions that together reach every arm: one for each, and those around it."""
    yield {}
    for branch in report.branches:
        *outer, _ = parts = branch.decision.split("/")
        around = {
            "/".join(parts[: index + 1]): int(outer[index + 1]) for index in range(0, len(outer), 2)
        }
        for arm in branch.arms:
            yield {**around, branch.decision: arm.arm}


def largest_error(got: Sequence[Array], want: Sequence[Array]) -> float:
    """The largest difference, relative to the largest magnitude of each result."""
    pairs = zip(got, want, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def results_of(exe: Executable, arguments: Sequence[Array]) -> Sequence[Array]:
    """The results of a call, and what it leaves of a new state."""
    if not exe.signature.members:
        return exe(*arguments)
    state = exe.new_state()
    return [*exe(*arguments, state=state), *state.numpy().values()]


def wanted(module: ModuleOp, exe: Executable, arguments: Sequence[Array]) -> Sequence[Array]:
    """Evaluates by the reference, state last."""
    signature = exe.signature
    given = dict(zip(signature.positions, arguments, strict=True))
    given |= {m.argument: np.zeros(m.port.shape, m.port.numpy) for m in signature.members}
    everything = (given[index] for index in range(len(given)))
    results = evaluate(module, *everything, weights=weights_of(module))
    last = [member.result for member in signature.members]
    first = [index for index in range(len(results)) if index not in last]
    return [results[index] for index in (*first, *last)]


def time_of_a_call(exe: Executable, arguments: Sequence[Array]) -> float:
    """Seconds; the median of 20 calls after the first."""
    state = {"state": exe.new_state()} if exe.signature.members else {}
    exe(*arguments, **state)
    times: list[float] = []
    for _ in range(20):
        before = time.perf_counter()
        exe(*arguments, **state)
        times.append(time.perf_counter() - before)
    return median(times)


def run(path: Path) -> Outcome:
    """Run one example in every way it can run."""
    weights = make(path)
    exe = Session(devices="cpu").compile(path, weights=weights)
    arguments = random_arguments(exe)
    module = load_program(path)
    want = wanted(module, exe, arguments)
    errors = [largest_error(results_of(exe, arguments), want)]
    kept = Session(devices="cpu", variants="keep").compile(path, weights=weights)
    for route in routes(kept.report()):
        session = Session(devices="cpu", variants="keep", force=route)
        forced = session.compile(path, weights=weights)
        errors.append(largest_error(results_of(forced, arguments), want))
    report = exe.report()
    return Outcome(
        name=path.stem,
        results=" ".join("x".join(map(str, (*p.shape, p.dtype))) for p in exe.signature.outputs),
        arms=sum(len(branch.arms) for branch in kept.report().branches),
        error=max(errors),
        runs=report.runs_on_route,
        kernels=report.kernels_on_route,
        branches=len(report.branches),
        seconds=time_of_a_call(exe, arguments),
    )


def main() -> int:
    print(HEADER)
    outcomes: list[Outcome] = []
    for path in sorted(EXAMPLES.glob("*.mlir")):
        outcomes.append(run(path))
        print(outcomes[-1], flush=True)
    wrong = [outcome.name for outcome in outcomes if not outcome.is_right]
    if wrong:
        print(f"not equal to the reference: {', '.join(wrong)}", file=sys.stderr)
        return 1
    print(
        "arms: what fuel-optimize{variants=keep} leaves; each was forced, and equals the reference"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
