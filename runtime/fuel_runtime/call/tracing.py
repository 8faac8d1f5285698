# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records what calls do, as the events of a trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from fuel_dialect.attributes import HOST
from fuel_runtime.call.observing import Function
from fuel_runtime.call.route import Call, Transfer
from fuel_runtime.call.trace_events import CALLS, Count, Event, Kind, Lane, Mark, Span
from fuel_runtime.call.transfers import Once, TransferFunction

if TYPE_CHECKING:
    from fuel_runtime.call.run_facts import RunFacts
    from fuel_runtime.devices.interface import Device
    from fuel_runtime.picker.decision import Decision, Pick


class _Own(threading.local):
    """Holds what belongs to one thread: its lane, and the moments at which kernels began."""

    lane: Lane | None = None

    def __init__(self) -> None:
        self.began: list[tuple[int, int]] = []


class Recorder:
    """
    Observes calls, and keeps what they do.

    A device is waited for after each of its runs and transfers, so that the times are theirs.
    """

    def __init__(
        self,
        runs: Mapping[str, RunFacts],
        devices: Mapping[str, Device],
        counts_memory: bool = True,
    ):
        self.events: list[Event] = []
        self._runs = runs
        self._devices = devices
        self._counts_memory = counts_memory
        self._known: dict[int, tuple[Function, Function]] = {}
        self._lock = threading.Lock()
        self._lanes = count(1)
        self._own = _Own()
        self._start = time.perf_counter_ns()

    def begin(self) -> None:
        """Begins the time of the trace, with the memory of every device."""
        held = {label: device.held_bytes() for label, device in self._devices.items()}
        self._start = time.perf_counter_ns()
        self.events += [Count(label, 0, bytes) for label, bytes in held.items()]

    def forget(self) -> None:
        """Gives up the functions that are observed; what they hold may be large."""
        self._known = {}

    # For calls.

    @contextmanager
    def call(self, entry: str) -> Iterator[None]:
        """Records a call around what it does."""
        start = self._now()
        try:
            yield
        except BaseException as error:
            self._ended("call", entry, CALLS, start, {}, error)
            raise
        self._ended("call", entry, CALLS, start, {})

    def function(self, call: Call, function: Function) -> Function:
        """Returns a function with what records it, the same for the same function."""
        with self._lock:
            known = self._known.get(id(function))
            if known is None:
                made = (
                    self._transfer(function)
                    if isinstance(call, Transfer)
                    else self._run(self._runs[call.function], function)
                )
                known = self._known[id(function)] = function, made
            return known[1]

    def picked(self, decision: Decision, pick: Pick, is_settled: bool) -> None:
        """Records which arm a call takes, and why."""
        arm = decision.arms[pick.arm]
        details = {
            "decision": decision.path,
            "arm": pick.arm,
            "target": arm.target,
            "reason": pick.reason,
            "settled": is_settled,
            "not": {f"arm {other}": why for other, why in pick.why_not.items()},
        }
        name = f"{decision.path}: arm {pick.arm}"
        self.events.append(Mark("pick", name, self.lane, self._now(), details))

    def left(self, path: str, arm: int, device: str, error: str) -> None:
        """Records that an arm was left."""
        details = {"decision": path, "arm": arm, "device": device, "error": error}
        name = f"{path}: arm {arm} left"
        self.events.append(Mark("fault", name, self.lane, self._now(), details))

    # Functions.

    def _transfer(self, function: Any) -> Function:
        if isinstance(function, Once):
            return function.through(self._transfer)
        assert isinstance(function, TransferFunction)
        report, to = function.report, self._devices[function.report.to]
        is_read = report.to == HOST and report.origin in self._devices
        place = report.origin if is_read else report.to
        details = {
            "value": report.value,
            "type": report.type,
            "from": report.origin,
            "to": report.to,
            "bytes": report.bytes,
        }

        def bring(value: Any) -> Any:
            start = self._now()
            try:
                moved = function(value)
                to.synchronise()
            except BaseException as error:
                self._ended("transfer", report.value, place, start, details, error)
                raise
            if moved is not value:
                self._ended("transfer", report.value, place, start, details)
                self._count(to)
            return moved

        return bring

    def _run(self, facts: RunFacts, function: Function) -> Function:
        own, device = self._own, facts.device

        def began(number: int) -> None:
            own.began.append((number, self._now()))

        watched = None if facts.watched is None else facts.watched(function, began)
        inner = watched or function
        details = {
            "target": facts.target,
            "kernels": [kernel.label for kernel in facts.kernels],
            "bytes": facts.bytes,
            "floor_ns": facts.floor_ns,
        }

        def run(*values: Any) -> Any:
            own.began.clear()
            before, start = device.uploaded_bytes, self._now()
            try:
                results = inner(*values)
                device.synchronise()
            except BaseException as error:
                self._ran(facts, start, {**details, **_uploads(device, before)}, error)
                raise
            self._ran(facts, start, {**details, **_uploads(device, before)})
            self._count(device)
            return results

        return run

    def _ran(
        self,
        facts: RunFacts,
        start: int,
        details: Mapping[str, Any],
        error: BaseException | None = None,
    ) -> None:
        """Records a run that has ended, and its kernels: each ends when the next begins."""
        label, end = facts.device.name.label, self._now()
        moments = [*self._own.began, (-1, end)]
        for (number, begin), (_, until) in pairwise(moments):
            if number >= 0:
                kernel = facts.kernels[number]
                about = {
                    "run": facts.name,
                    "number": number,
                    "target": facts.target,
                    "kind": kernel.kind,
                    "types": kernel.types,
                    "bytes": kernel.bytes,
                    "floor_ns": kernel.floor_ns,
                }
                failed = error if until == end else None
                self._ended("kernel", kernel.label, label, begin, about, failed, until)
        self._ended("run", facts.name, label, start, details, error, end)

    # Times.

    def _ended(
        self,
        kind: Kind,
        name: str,
        device: str,
        start: int,
        details: Mapping[str, Any],
        error: BaseException | None = None,
        end: int | None = None,
    ) -> None:
        """Records what has ended, now if nothing else is said."""
        until = self._now() if end is None else end
        said = "" if error is None else f"{type(error).__name__}: {error}"
        self.events.append(Span(kind, name, device, self.lane, start, until, details, said))

    def _count(self, device: Device) -> None:
        if not self._counts_memory:
            return
        self.events.append(Count(device.name.label, self._now(), device.held_bytes()))

    def _now(self) -> int:
        return time.perf_counter_ns() - self._start

    @property
    def lane(self) -> Lane:
        """The lane of the thread that asks."""
        own = self._own
        if own.lane is None:
            own.lane = Lane(next(self._lanes), threading.current_thread().name)
        return own.lane


def _uploads(device: Device, before: int) -> dict[str, int]:
    """Returns the bytes of weights that a run brought to its device, if it brought any."""
    brought = device.uploaded_bytes - before
    return {"uploaded": brought} if brought else {}
