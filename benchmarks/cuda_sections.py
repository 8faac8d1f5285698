# SPDX-License-Identifier: MIT OR Apache-2.0
"""The parts of `cuda_check.py`: the steps of each, and the kernels that they will need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import cuda_ops
import cuda_programs
import cuda_replay
import cuda_sizes
import cuda_speed
from cuda_ops import Case

GROUP = 12
"""Cases of ops in a step."""

Step = tuple[str, Callable[[], None]]
"""Its name, under which its kernels are compiled ahead, and what it does."""

Task = tuple[Any, ...]
"""The name of a step, a function that gives its kernels, and arguments of that."""


class Check(Protocol):
    """Takes the steps of a section on the device, and keeps what comes of them."""

    @property
    def emulated(self) -> bool:
        """True in a dry run, on tiny arrays."""
        ...

    def check(self, section: str, name: str, step: Callable[..., Any], *arguments: Any) -> None:
        """Takes a step that gives an outcome, or several."""
        ...

    def measure(self, section: str, name: str, step: Callable[..., Any], *arguments: Any) -> None:
        """Takes a step that gives figures."""
        ...

    def check_ops(self, section: str, group: Sequence[Case]) -> None:
        """Checks cases together."""
        ...


class Section(Protocol):
    """A part of the check."""

    @property
    def reserve(self) -> float:
        """The part of all time that is kept for later sections."""
        ...

    @property
    def is_timing(self) -> bool:
        """True if the section measures: compiling ahead then ends first, done or not."""
        ...

    @property
    def is_extra(self) -> bool:
        """True if kernels of all other sections are compiled before its own."""
        ...

    def tasks(self, emulated: bool) -> Iterator[Task]:
        """Returns what to compile ahead."""
        ...

    def steps(self, check: Check) -> Iterator[Step]:
        """Does the work on the device."""
        ...


class Ops:
    """Every op: a few samples, or all the others."""

    is_timing = False

    def __init__(self, name: str, others: bool, reserve: float):
        self.name, self.reserve, self.is_extra = name, reserve, others

    def _groups(self, emulated: bool) -> Iterator[tuple[str, tuple[Case, ...]]]:
        if emulated and self.is_extra:
            return
        cases = cuda_ops.one_of_each_op() if emulated else cuda_ops.cases(self.is_extra)
        for start in range(0, len(cases), GROUP):
            group = tuple(cases[start : start + GROUP])
            yield f"{self.name} {group[0]} to {group[-1]}", group

    def tasks(self, emulated: bool) -> Iterator[Task]:
        for name, group in self._groups(emulated):
            yield name, cuda_ops.kernels_of_all, group

    def steps(self, check: Check) -> Iterator[Step]:
        for name, group in self._groups(check.emulated):
            yield name, partial(check.check_ops, self.name, group)


class Examples:
    reserve = 0.5
    is_timing = is_extra = False

    def _names(self, emulated: bool) -> Sequence[str]:
        return cuda_sizes.QUICK_EXAMPLES if emulated else cuda_sizes.EXAMPLES

    def tasks(self, emulated: bool) -> Iterator[Task]:
        for name in self._names(emulated):
            yield name, cuda_sizes.example_kernels, name

    def steps(self, check: Check) -> Iterator[Step]:
        for name in self._names(check.emulated):
            yield name, partial(check.check, "examples", name, cuda_sizes.check_example, name)


class Sizes:
    reserve = 0.4
    is_timing = is_extra = False

    def _programs(self, emulated: bool) -> Sequence[cuda_programs.Program]:
        return cuda_programs.tiny_sizes() if emulated else cuda_programs.real_sizes()

    def tasks(self, emulated: bool) -> Iterator[Task]:
        for program in self._programs(emulated):
            yield program.name, cuda_sizes.program_kernels, program

    def steps(self, check: Check) -> Iterator[Step]:
        for each in self._programs(check.emulated):
            yield (
                each.name,
                partial(check.check, "sizes", each.name, cuda_sizes.check_program, each),
            )


class Replay:
    reserve = 0.35
    is_timing = is_extra = False

    def tasks(self, emulated: bool) -> Iterator[Task]:
        yield from ()

    def steps(self, check: Check) -> Iterator[Step]:
        for name in cuda_replay.CHECKS:
            yield f"replay {name}", partial(check.check, "replay", name, cuda_replay.check, name)


class Speed:
    reserve = 0.0
    is_timing, is_extra = True, False

    def tasks(self, emulated: bool) -> Iterator[Task]:
        for name, race in cuda_speed.RACES.items():
            program = race.tiny if emulated else race.program
            yield f"race {name}", cuda_sizes.program_kernels, program

    def steps(self, check: Check) -> Iterator[Step]:
        yield "race copy", partial(check.measure, "speed", "copy", cuda_speed.copies)
        yield "race host", partial(check.measure, "speed", "host", cuda_speed.host)
        for name in cuda_speed.RACES:
            yield f"race {name}", partial(check.measure, "speed", name, cuda_speed.race, name)


class Compiled:
    """Beside torch.compile, whose kernels cannot be compiled ahead."""

    reserve = 0.0
    is_timing, is_extra = True, False

    def tasks(self, emulated: bool) -> Iterator[Task]:
        yield from ()

    def steps(self, check: Check) -> Iterator[Step]:
        for race in cuda_speed.COMPILED_RACES:
            name = f"torch.compile {race}"
            yield name, partial(check.measure, "compiled", name, cuda_speed.race, race, True)


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
