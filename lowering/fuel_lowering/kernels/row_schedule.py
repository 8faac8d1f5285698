# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The schedule of a row kernel: launches, each a list of steps that a target renders one by one.

Rows that one program reads to the end need one launch. Rows that are shared, because they are few
and long, need one for each pass: what the sharers find lies in temporaries, and the next launch
combines it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.ir import Operation

from fuel_lowering.kernels.rows import Phase, Reduction, RowForm
from fuel_lowering.scalars.values import MASK, REGISTERS


@dataclass(frozen=True)
class Part:
    """The temporaries, by number, that hold what the sharers of a row found; where, if asked."""

    values: int
    places: int | None


@dataclass(frozen=True)
class RowOps:
    """Compute ops on statistics."""

    ops: tuple[Operation, ...]


@dataclass(frozen=True)
class Pass:
    """Go over the elements of the row, or of the program's share, and finish the reductions."""

    phase: Phase


@dataclass(frozen=True)
class SharedPass(Pass):
    """Go over the program's share of the row, and keep what the reductions found in `parts`."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class CombineParts:
    """Finish a reduction of an earlier launch from what the sharers found."""

    reduction: Reduction
    part: Part


@dataclass(frozen=True)
class StoreRows:
    """Write results, by number, that have one element for each row."""

    results: tuple[int, ...]


RowStep = RowOps | Pass | CombineParts | StoreRows


@dataclass(frozen=True)
class RowLaunch:
    """One launch: its steps, and how many programs share each row."""

    steps: tuple[RowStep, ...]
    sharers: int = 1


@dataclass(frozen=True)
class RowSchedule:
    """
    Represents the cuts of the rows of a form.

    A program reads `share` elements of each of its rows. `parts` are the element types of the
    temporaries between launches; each has `sharers` elements for every row.
    """

    share: int
    sharers: int
    launches: tuple[RowLaunch, ...]
    parts: tuple[str, ...] = ()

    def temporaries(self, form: RowForm) -> list[tuple[str, int]]:
        """Returns the element type and the number of elements of each temporary."""
        return [(dtype, form.rows * self.sharers) for dtype in self.parts]


def schedule_rows(form: RowForm, share: int, place: str) -> RowSchedule:
    """
    Schedules a form whose programs read `share` elements of a row, the whole row or less.

    `place` is the element type that the place of an argument has between launches.
    """
    if share >= form.columns:
        steps = [step for phase in form.phases for step in _whole(phase)]
        return RowSchedule(form.columns, 1, (RowLaunch((RowOps(tuple(form.prologue)), *steps)),))
    parts, dtypes = _parts(form, place)
    sharers = -(-form.columns // share)
    count = len(form.phases) + bool(form.phases[-1].reductions)
    launches = tuple(_launch(form, parts, sharers, number) for number in range(count))
    return RowSchedule(share, sharers, launches, tuple(dtypes))


def _whole(phase: Phase) -> Sequence[RowStep]:
    return Pass(phase), RowOps(phase.row), StoreRows(phase.row_stores)


def _parts(form: RowForm, place: str) -> tuple[dict[Reduction, Part], list[str]]:
    """Numbers the temporaries of all reductions, in order."""
    parts: dict[Reduction, Part] = {}
    dtypes: list[str] = []
    for reduction in (r for phase in form.phases for r in phase.reductions):
        values = len(dtypes)
        dtypes.append(held_in(form, reduction))
        if reduction.is_argument:
            dtypes.append(place)
        parts[reduction] = Part(values, values + 1 if reduction.is_argument else None)
    return parts, dtypes


def held_in(form: RowForm, reduction: Reduction) -> str:
    """Returns the element type in which a reduction accumulates; masks are compared as integers."""
    dtype = form.dtype(reduction.source)
    return "i32" if dtype == MASK else REGISTERS[dtype.name]


def _launch(form: RowForm, parts: dict[Reduction, Part], sharers: int, number: int) -> RowLaunch:
    """The launch of a pass: it combines what earlier ones found; the last has no pass."""
    steps: list[RowStep] = [RowOps(tuple(form.prologue))]
    for phase in form.phases[:number]:
        steps += [CombineParts(r, parts[r]) for r in phase.reductions]
        steps.append(RowOps(phase.row))
    if number:
        steps.append(StoreRows(form.phases[number - 1].row_stores))
    if number == len(form.phases):
        return RowLaunch(tuple(steps))
    phase = form.phases[number]
    steps.append(SharedPass(phase, tuple(parts[r] for r in phase.reductions)))
    if not phase.reductions:
        steps += [RowOps(phase.row), StoreRows(phase.row_stores)]
    return RowLaunch(tuple(steps), sharers)


class RowRenderer(Protocol):
    """The writer of one launch of a target, a method for each kind of step."""

    def compute(self, ops: Sequence[Operation]) -> None: ...

    def go_over(self, phase: Phase) -> None: ...

    def go_over_share(self, phase: Phase, parts: Sequence[Part]) -> None: ...

    def combine(self, reduction: Reduction, part: Part) -> None: ...

    def store_rows(self, results: Sequence[int]) -> None: ...


def render(launch: RowLaunch, writer: RowRenderer) -> None:
    """Has a target write the steps of a launch in order."""
    for step in launch.steps:
        match step:
            case RowOps():
                writer.compute(step.ops)
            case SharedPass():
                writer.go_over_share(step.phase, step.parts)
            case Pass():
                writer.go_over(step.phase)
            case CombineParts():
                writer.combine(step.reduction, step.part)
            case StoreRows():
                writer.store_rows(step.results)
