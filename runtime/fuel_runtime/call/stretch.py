# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Holds what a call knows of its route while decisions are open, and what it asks of who makes them.

`Live` (live.py) is the `Chooser` of an executable; `Stream` (stream.py) represents a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from fuel_dialect.errors import DeviceFailure, DeviceUnavailable
from fuel_runtime.call.route import Call, Route, Transfer
from fuel_runtime.call.walk_source import read_of, write_stretch

if TYPE_CHECKING:
    from fuel_dialect.ops.control import BranchOp
    from fuel_runtime.call.signature import Signature
    from fuel_runtime.call.state import Use
    from fuel_runtime.picker.decision import Decision, Pick
    from fuel_runtime.telemetry.sampler import Telemetry

LEFT = (MemoryError, DeviceFailure, DeviceUnavailable)
"""The errors after which another arm is tried; `OutOfMemory` is a `MemoryError`."""

Choices = Mapping["BranchOp", int]


@dataclass(frozen=True)
class WrittenRoute:
    """Holds a route, the functions that it calls, and who makes each value."""

    route: Route
    functions: Mapping[str, Callable[..., Any]]
    key: tuple[tuple[str, int], ...]
    """The path of each decision that the route comes to, and the arm."""
    source: str
    lines: tuple[int | None, ...]
    """See `walk_source.write_walk`."""

    @property
    def file(self) -> str:
        """Names the generated code in tracebacks."""
        return ", ".join(f"{path}={arm}" for path, arm in self.key)

    def devices(self, call: Call) -> tuple[str, ...]:
        """Returns the devices that a call may fail for."""
        if isinstance(call, Transfer):
            origin = "cpu" if call.origin is None else call.origin.label
            ends = [label for label in (call.to.label, origin) if label != "cpu"]
            return tuple(ends) or ("cpu",)
        return (self.route.homes.get(call.outputs[0], "cpu"),) if call.outputs else ("cpu",)


WALKED = "<walked>"
"""The key of a `Walked` among the globals of its walk."""


@dataclass(frozen=True)
class Walked:
    """Says which call stands in a line of a generated walk."""

    written: WrittenRoute
    """The route that it belongs to."""
    calls: tuple[Call, ...]
    lines: tuple[int | None, ...]
    """The number of the call in each line, if there is one."""


def executed(
    source: str, file: str, namespace: Mapping[str, Any], walked: Walked
) -> Callable[..., Any]:
    """Returns the function `walk` of generated code; `file` stands in tracebacks."""
    names = {**namespace, **walked.written.functions, WALKED: walked}
    exec(compile(source, f"<fuel walk, {file}>", "exec"), names)
    return names.pop("walk")


@dataclass(frozen=True)
class Writing:
    """Holds what it takes to generate the walk of a stretch."""

    file: str
    signature: Signature
    namespace: Mapping[str, Any]


@dataclass(frozen=True)
class Stretch:
    """Holds the calls up to the next decision that is still open."""

    written: WrittenRoute
    calls: tuple[Call, ...]
    dead: tuple[tuple[str, ...], ...]
    """After each call, the values that nothing will read."""
    next: BranchOp | None
    before: frozenset[tuple[str, ...]]
    """The outputs of each call that the stretches before make."""
    writing: Writing

    @cached_property
    def made(self) -> frozenset[tuple[str, ...]]:
        """The outputs of each of the calls, and of those before."""
        return self.before.union(call.outputs for call in self.calls)

    @cached_property
    def fresh(self) -> tuple[Call, ...]:
        """The calls that no stretch before has made."""
        return tuple(call for call in self.calls if call.outputs not in self.before)

    @cached_property
    def read(self) -> tuple[str, ...]:
        """The values that the walk reads."""
        return read_of(self.fresh)

    @cached_property
    def walk(self) -> Callable[[Use | None, dict[str, Any]], None]:
        """The generated walk of the calls that no stretch before has made."""
        numbers = {call.outputs: number for number, call in enumerate(self.fresh)}
        dying = {
            name: numbers.get(call.outputs, -1)
            for call, names in zip(self.calls, self.dead, strict=True)
            for name in names
        }
        source, lines = write_stretch(self.fresh, dying, self.writing.signature)
        walked = Walked(self.written, self.fresh, lines)
        return executed(source, self.writing.file, self.writing.namespace, walked)


class Chooser(Protocol):
    """Makes the decisions of one executable, and hears how they went."""

    signature: Signature
    decisions: Mapping[BranchOp, Decision]
    namespace: Mapping[str, Any]
    telemetry: Telemetry
    warm: set[tuple[str, int]]

    def resolve(
        self, branch: BranchOp, failed: Mapping[int, str], exploring: bool = False
    ) -> Pick: ...

    def stretch_of(self, choices: Choices) -> Stretch: ...

    def note(self, path: str, pick: Pick) -> None: ...

    def note_fault(self, path: str, arm: int, device: str, error: str) -> None: ...

    def record(self, path: str, arm: int, ns: float) -> None: ...
