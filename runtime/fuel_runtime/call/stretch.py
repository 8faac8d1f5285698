# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Holds what a call knows of its route while decisions are open, and what it asks of who makes them.

`Live` (live.py) is the `Chooser` of an executable; `Stream` (stream.py) represents a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fuel_dialect.errors import DeviceFailure, DeviceUnavailable
from fuel_runtime.call.route import Call, Route, Transfer

if TYPE_CHECKING:
    from fuel_dialect.ops.control import BranchOp
    from fuel_runtime.call.signature import Signature
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
        arms = ", ".join(f"{path}={arm}" for path, arm in self.key)
        return f"<fuel walk, {arms}>"

    def devices(self, call: Call) -> tuple[str, ...]:
        """Returns the devices that a call may fail for."""
        if isinstance(call, Transfer):
            origin = "cpu" if call.origin is None else call.origin.label
            ends = [label for label in (call.to.label, origin) if label != "cpu"]
            return tuple(ends) or ("cpu",)
        return (self.route.homes.get(call.outputs[0], "cpu"),) if call.outputs else ("cpu",)


@dataclass(frozen=True)
class Stretch:
    """Holds the calls up to the next decision that is still open."""

    written: WrittenRoute
    calls: tuple[Call, ...]
    dead: tuple[tuple[str, ...], ...]
    """After each call, the values that nothing will read."""
    next: BranchOp | None


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

    def route_in(self, file: str) -> WrittenRoute | None: ...

    def note(self, path: str, pick: Pick) -> None: ...

    def note_fault(self, path: str, arm: int, device: str, error: str) -> None: ...

    def record(self, path: str, arm: int, ns: float) -> None: ...
