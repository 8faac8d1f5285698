# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Checks fuel on the first GPU of this machine, and then measures it, in six minutes at most.

Every op in every element type, the examples, and programs of real sizes are compared with the
reference; programs are called again and again; then come bandwidth and rates beside torch, a
copy, and a bare graph. What is wrong is counted and does not stop the rest. A JSON file grows as
it goes; a table of everything is printed at the end.

The exit code is 1 if a result is wrong, 2 without a GPU. Without one, `--emulate` goes through
the same with Triton's interpreter, on tiny arrays.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cuda_machine
import cuda_ops
import cuda_report
import facts
import output
from ahead import Ahead
from cuda_machine import Machine
from cuda_ops import Case
from cuda_report import Findings
from cuda_sections import SECTIONS
from cuda_speed import Figures
from harness import progress
from isolated import Failed, Isolated, Lost
from outcomes import Outcome

from fuel_lowering.cores import usable_cores

RESULTS = Path(__file__).resolve().parent / "results"

BUDGET = 360.0
CLOSING_SECONDS = 5.0
"""The seconds that the end takes: processes go, the file is written."""

STEP_SECONDS = 60.0
"""After so long a step hangs."""

EXIT_SECONDS = 20.0
SAVE_SECONDS = 5.0
MOST_LOSSES = 8
"""Processes that a section may lose before it is given up."""

DRY_TASKS = 3
"""The kernels to compile ahead in a dry run, which needs none of them."""

OUT_OF_TIME = "out of time"


class Check:
    """One run of all sections, each of which takes steps on the device."""

    def __init__(self, options: argparse.Namespace, device: Isolated):
        self.emulated: bool = options.emulate
        self.device = device
        self.found = Findings(options.emulate, options.budget)
        self.ahead: Ahead | None = None
        self._out: Path | None = options.out
        self._begin = time.monotonic()
        self._budget: float = options.budget
        self._saved = 0.0

    # Time.

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds until everything has to end."""
        return self._budget - CLOSING_SECONDS - self.elapsed

    # Sections.

    def run(self, names: Sequence[str]) -> None:
        """Take the device's facts, compile ahead, and go through sections."""
        self.found.machine = facts.machine()
        self.found.device = self.device.call(cuda_machine.facts, timeout=STEP_SECONDS)
        if self._out is None and not self.emulated:
            self._out = RESULTS / f"{self.found.date}-{card_label(self.found.device)}-cuda.json"
        self.ahead = Ahead(self.found.device["compiled_for"], self._workers())
        try:
            self._compile_ahead(names)
            for name in names:
                self._section(name)
        finally:
            self.ahead.stop()
            self._end()
            self.save(always=True)

    def _end(self) -> None:
        """Let the device's process end, which may not crash either."""
        if self.ahead is not None and self.ahead.trouble:
            self.found.skip("some of compiling ahead", self.ahead.trouble)
        if not self.device.is_running:
            return
        code = self.device.close(patience=max(CLOSING_SECONDS / 2, min(self.left, EXIT_SECONDS)))
        if code is None:
            self.found.skip("the end of the device's process", "it took too long")
        elif code:
            failure = f"the process of the device ends with exit code {code}"
            self.found.add("end", [Outcome("exit", failure=failure)])

    def _workers(self) -> int:
        return min(2, usable_cores()) if self.emulated else usable_cores()

    def _compile_ahead(self, names: Sequence[str]) -> None:
        assert self.ahead is not None
        order = sorted(names, key=lambda name: SECTIONS[name].is_extra)
        tasks = [task for name in order for task in SECTIONS[name].tasks(self.emulated)]
        for key, kernels, *arguments in tasks[: DRY_TASKS if self.emulated else None]:
            self.ahead.add(key, kernels, *arguments)

    def _section(self, name: str) -> None:
        section, begin = SECTIONS[name], self.elapsed
        end = self._budget * (1 - section.reserve) - CLOSING_SECONDS
        progress(f"{begin:5.0f} s  {name}")
        if section.is_timing and self.ahead is not None:
            self.ahead.stop()
        self.device.losses = 0
        for key, step in section.steps(self):
            why = self._why_not(end)
            if why:
                self.found.skip(key, why)
                continue
            if self.ahead is not None:
                self.ahead.wait(key, min(STEP_SECONDS, end - self.elapsed))
            step()
            self.save()
        self.found.seconds[name] = self.elapsed - begin
        self.save(always=True)

    def _why_not(self, end: float) -> str:
        """Says why no further step is taken; "" if one is."""
        if self.elapsed > end:
            return OUT_OF_TIME
        if self.device.losses > MOST_LOSSES:
            return f"the device was lost {self.device.losses} times in this section"
        return ""

    # Steps.

    def check(self, section: str, name: str, step: Callable[..., Any], *arguments: Any) -> None:
        """A step that gives an outcome, or several."""
        try:
            given = self.device.call(step, *arguments, timeout=min(STEP_SECONDS, self.left))
        except (Failed, Lost) as error:
            self._without(section, name, error)
            return
        self.found.add(section, [given] if isinstance(given, Outcome) else given)

    def measure(self, section: str, name: str, step: Callable[..., Any], *arguments: Any) -> None:
        """A step that gives figures."""
        try:
            given = self.device.call(step, *arguments, timeout=min(STEP_SECONDS, self.left))
        except (Failed, Lost) as error:
            self._without(section, name, error)
            return
        assert isinstance(given, Figures)
        self.found.figures.append(given)

    def _without(self, section: str, name: str, error: Failed | Lost) -> None:
        """Count a failure; but what the end came in the way of, or lacks a package, is skipped."""
        if isinstance(error, Failed) and error.kind == "Absent":
            self.found.skip(f"{section}: {name}", str(error))
        elif isinstance(error, Lost) and self.left <= 0:
            self.found.skip(f"{section}: {name}", OUT_OF_TIME)
        else:
            self.found.add(section, [Outcome(name, failure=described(error))])

    def check_ops(self, section: str, group: Sequence[Case]) -> None:
        """Cases together; of those that end the process, smaller and smaller parts."""
        pending = [tuple(group)]
        while pending:
            cases = pending.pop()
            try:
                given = self.device.call(
                    cuda_ops.check, cases, timeout=min(STEP_SECONDS, self.left)
                )
                self.found.add(section, given)
            except (Failed, Lost) as error:
                parts = cuda_ops.halves(cases)
                if self.left > 0 and self.device.losses <= MOST_LOSSES and parts:
                    pending += parts[::-1]
                else:
                    self._without(section, ", ".join(map(str, cases)), error)

    def save(self, always: bool = False) -> None:
        """Write what there is, unless that was done a moment ago."""
        if not always and self.elapsed < self._saved + SAVE_SECONDS:
            return
        self._saved = self.elapsed
        checked = sum(map(len, self.found.outcomes.values()))
        timed, failed = len(self.found.figures), len(self.found.failures)
        progress(f"{self.elapsed:5.0f} s    {checked} checked, {failed} failed, {timed} timed")
        if self._out is None:
            return
        self.found.compiled_ahead = self.ahead.compiled if self.ahead is not None else 0
        self._out.parent.mkdir(parents=True, exist_ok=True)
        output.write_json(self._out, self.found.content(self.elapsed))

    @property
    def written(self) -> str:
        return "" if self._out is None else self._out.name


def described(error: Failed | Lost) -> str:
    return f"{error.kind}: {error}" if isinstance(error, Failed) else str(error)


def card_label(device: Mapping[str, Any]) -> str:
    """A name of the card for a file: `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", device["name"].lower()).strip("-")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulate", action="store_true", help="a dry run, without a GPU")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="may be repeated")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds for everything")
    parser.add_argument(
        "--out", type=Path, help="the JSON file; default results/<date>-<card>-cuda.json"
    )
    return parser.parse_args()


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Isolated(Machine, options.emulate) as device:
        check = Check(options, device)
        try:
            check.run([name for name in SECTIONS if name in (options.only or SECTIONS)])
        except (Failed, Lost) as error:
            print(f"cuda_check: {error}", file=sys.stderr)
            is_absent = isinstance(error, Failed) and error.kind == "DeviceUnavailable"
            return 2 if is_absent else 1
    print("\n".join(cuda_report.lines(check.found)), flush=True)
    if check.written:
        progress(f"written: {check.written}")
    return 0 if check.found.passed else 1


if __name__ == "__main__":
    sys.exit(main())
