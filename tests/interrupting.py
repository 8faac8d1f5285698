# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Interrupts the runtime between two lines, or between two bytecodes, of its Python code.

CPython looks for signals after calls, at the start of a function and at the end of a loop's turn.
An interrupt before any other bytecode is stricter, so it is raised there too, but for the few that
enter and leave a `with` block: there it would be raised with the lock held and the block not begun,
which no signal can do.
"""

from __future__ import annotations

import dis
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any, Literal

import fuel_dialect as fuel
from fake_devices import fake
from fuel_runtime import Executable, Session, State

PLACES = ("fuel_runtime", "fuel walk", "fuel call", "<fuel run", "fuel_lowering/numpy/results")
WIDTH, ROOM = 64, 4

Event = Literal["line", "opcode"]


class Interrupt(BaseException):
    """Stands for an interrupt between two steps."""


@contextmanager
def interrupted(at: int, event: Event) -> Iterator[list[int]]:
    """
    Raises at the `at`-th event of the runtime's code in this thread; counts all of them.

    One that is raised in a finalizer is lost there, as any interrupt is.
    """
    seen = [0]

    def local(frame: FrameType, kind: str, argument: object) -> Any:
        if kind == event and not _is_in_a_gap(frame, event):
            seen[0] += 1
            if seen[0] == at:
                raise Interrupt
        return local

    def enter(frame: FrameType, kind: str, argument: object) -> Any:
        if not any(place in frame.f_code.co_filename for place in PLACES):
            return None
        frame.f_trace_opcodes = event == "opcode"
        return local

    before, hook = sys.gettrace(), sys.unraisablehook
    sys.unraisablehook = lambda what: None if what.exc_type is Interrupt else hook(what)
    sys.settrace(enter)
    try:
        yield seen
    finally:
        sys.settrace(before)
        sys.unraisablehook = hook


def moments(action: Callable[[], object], event: Event) -> int:
    """Returns how many events an action has."""
    with interrupted(0, event) as seen:
        action()
    return seen[0]


def _is_in_a_gap(frame: FrameType, event: Event) -> bool:
    """Returns True where the interpreter enters or leaves a `with` block."""
    if event == "opcode":
        return frame.f_lasti in _gaps(frame.f_code)
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith("with ")


@cache
def _gaps(code: CodeType) -> frozenset[int]:
    """Returns the offsets of the bytecodes that enter and leave the `with` blocks of some code."""
    found: set[int] = set()
    steps = list(dis.get_instructions(code))
    for number, step in enumerate(steps):
        if step.opname == "BEFORE_WITH":
            found.add(steps[number + 1].offset)
        if step.opname == "WITH_EXCEPT_START":
            found.update((steps[number - 1].offset, step.offset))
        names = [s.opname for s in steps[number : number + 5]]
        if names[:3] == ["LOAD_CONST"] * 3 and "CALL" in names:
            if all(s.argval is None for s in steps[number : number + 3]):
                found.update(s.offset for s in steps[number : number + names.index("CALL") + 1])
                if steps[number - 1].opname == "SWAP":
                    found.add(steps[number - 1].offset)
    return frozenset(found)


def cumulative(devices: str) -> Executable:
    """A program with a member that is written in place and one that changes places."""
    g = fuel.Graph()
    cache = g.state((ROOM, WIDTH), "f32", name="cache")
    total = g.state((WIDTH,), "f32", name="total")
    x = g.input((1, WIDTH), "f32", name="x")
    g.update(cache, cache.write(x, at=1))
    g.update(total, (total + x.reshape((WIDTH,))).tanh() + total)
    module = g.build((x @ x.reshape((WIDTH, 1))).softmax())
    return Session("cpu" if devices == "cpu" else fake(devices)).compile(module)


def contents(state: State) -> dict[str, Any]:
    return {name: array.tolist() for name, array in state.numpy().items()}
