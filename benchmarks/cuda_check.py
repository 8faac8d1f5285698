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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cuda_machine
import cuda_ops
import cuda_programs
import cuda_replay
import cuda_report
import cuda_sizes
import cuda_speed
import facts
import output
from ahead import Ahead
from cuda_machine import Machine
from cuda_ops import Case
from cuda_report import Findings
from cuda_speed import Figures
from harness import progress
from isolated import Failed, Isolated, Lost
from outcomes import Outcome

RESULTS = Path(__file__).resolve().parent / "results"

BUDGET = 360.0
CLOSING_SECONDS = 5.0
"""What the end takes: processes go, the file is written."""

STEP_SECONDS = 60.0
"""After so long a step hangs."""

SAVE_SECONDS = 5.0
GROUP = 12
"""Cases of ops in a step."""

MOST_LOSSES = 8
"""Processes that a section may lose before it is given up."""

DRY_TASKS = 3
"""What is compiled ahead in a dry run, which needs none of it."""

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
        code = self.device.close(patience=CLOSING_SECONDS / 2)
        if code is not None and code:
            failure = f"the process of the device ends with exit code {code}"
            self.found.add("end", [Outcome("exit", failure=failure)])

    def _workers(self) -> int:
        return min(2, facts.cores()) if self.emulated else facts.cores()

    def _compile_ahead(self, names: Sequence[str]) -> None:
        assert self.ahead is not None
        order = sorted(names, key=lambda name: SECTIONS[name].compiles_last)
        tasks = [task for name in order for task in SECTIONS[name].tasks(self.emulated)]
        for key, kernels, *arguments in tasks[: DRY_TASKS if self.emulated else None]:
            self.ahead.add(key, kernels, *arguments)

    def _section(self, name: str) -> None:
        section, begin = SECTIONS[name], self.elapsed
        end = self._budget * (1 - section.reserve) - CLOSING_SECONDS
        progress(f"{begin:5.0f} s  {name}")
        if section.needs_idle_cores and self.ahead is not None:
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
        """Why no further step is taken; "" if one is."""
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


# What the sections do.

Step = tuple[Any, Callable[[], None]]
"""Its key, under which its kernels are compiled ahead, and what it does."""


class Section:
    """A part of the check. `reserve` is the part of all time that is kept for later ones."""

    reserve = 0.0
    needs_idle_cores = False
    """Whether what is compiled ahead ends first, done or not."""
    compiles_last = False
    """Whether others compile ahead first, those that come later too."""

    def tasks(self, emulated: bool) -> Iterator[tuple[Any, ...]]:
        """What to compile ahead: key, a function that gives kernels, and its arguments."""
        yield from ()

    def steps(self, check: Check) -> Iterator[Step]:
        raise NotImplementedError


class Ops(Section):
    """Every op: a few samples, or all the others."""

    def __init__(self, name: str, others: bool, reserve: float):
        self.name, self.reserve = name, reserve
        self.others = self.compiles_last = others

    def groups(self, emulated: bool) -> Iterator[tuple[str, tuple[Case, ...]]]:
        if emulated and self.others:
            return
        cases = cuda_ops.one_of_each_op() if emulated else cuda_ops.cases(self.others)
        for start in range(0, len(cases), GROUP):
            group = tuple(cases[start : start + GROUP])
            yield f"{self.name} {group[0]} to {group[-1]}", group

    def tasks(self, emulated: bool) -> Iterator[tuple[Any, ...]]:
        for key, group in self.groups(emulated):
            yield key, cuda_ops.kernels_of_all, group

    def steps(self, check: Check) -> Iterator[Step]:
        for key, group in self.groups(check.emulated):
            yield key, lambda group=group: check.check_ops(self.name, group)


class Examples(Section):
    reserve = 0.5

    def names(self, emulated: bool) -> Sequence[str]:
        return cuda_sizes.QUICK_EXAMPLES if emulated else cuda_sizes.EXAMPLES

    def tasks(self, emulated: bool) -> Iterator[tuple[Any, ...]]:
        for name in self.names(emulated):
            yield name, cuda_sizes.example_kernels, name

    def steps(self, check: Check) -> Iterator[Step]:
        for name in self.names(check.emulated):
            yield (
                name,
                lambda name=name: check.check("examples", name, cuda_sizes.check_example, name),
            )


class Sizes(Section):
    reserve = 0.4

    def programs(self, emulated: bool) -> Sequence[cuda_programs.Program]:
        return cuda_programs.tiny_sizes() if emulated else cuda_programs.real_sizes()

    def tasks(self, emulated: bool) -> Iterator[tuple[Any, ...]]:
        for program in self.programs(emulated):
            yield program.name, cuda_sizes.program_kernels, program

    def steps(self, check: Check) -> Iterator[Step]:
        for program in self.programs(check.emulated):
            yield (
                program.name,
                lambda program=program: check.check(
                    "sizes", program.name, cuda_sizes.check_program, program
                ),
            )


class Replay(Section):
    reserve = 0.35

    def steps(self, check: Check) -> Iterator[Step]:
        for name in cuda_replay.CHECKS:
            step = lambda name=name: check.check("replay", name, cuda_replay.check, name)  # noqa: E731
            yield f"replay {name}", step


class Speed(Section):
    needs_idle_cores = True

    def tasks(self, emulated: bool) -> Iterator[tuple[Any, ...]]:
        for name, race in cuda_speed.RACES.items():
            program = race.tiny if emulated else race.program
            yield f"race {name}", cuda_sizes.program_kernels, program

    def steps(self, check: Check) -> Iterator[Step]:
        yield "race copy", lambda: check.measure("speed", "copy", cuda_speed.copies)
        yield "race host", lambda: check.measure("speed", "host", cuda_speed.host)
        for name in cuda_speed.RACES:
            yield (
                f"race {name}",
                lambda name=name: check.measure("speed", name, cuda_speed.race, name),
            )


class Compiled(Section):
    needs_idle_cores = True

    def steps(self, check: Check) -> Iterator[Step]:
        for name in cuda_speed.COMPILED_RACES:
            yield (
                name,
                lambda name=name: check.measure(
                    "compiled", f"{name} beside torch.compile", cuda_speed.race, name, True
                ),
            )


SECTIONS: Mapping[str, Section] = {
    "ops": Ops("ops", False, 0.55),
    "examples": Examples(),
    "sizes": Sizes(),
    "replay": Replay(),
    "other_ops": Ops("other_ops", True, 0.3),
    "speed": Speed(),
    "compiled": Compiled(),
}
"""In the order in which they are gone through."""


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
