# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Walks a route whose decisions are made when the walk comes to them, and survives faults.

Each stretch between two decisions is generated code, until something fails; from then on, and where
somebody listens, the walk goes call by call. What a program computes depends on nothing but its
arguments. So a value that is lost, with its device or because a run wrote over it, is computed
again from what still lives.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fuel_dialect.errors import (
    DeviceFailure,
    DeviceTimeout,
    DeviceUnavailable,
    FuelError,
    OutOfMemory,
)
from fuel_runtime.call.call_times import CallTimes
from fuel_runtime.call.route import Call, Transfer
from fuel_runtime.call.stretch import LEFT, WALKED, Chooser, Stretch, Walked, WrittenRoute
from fuel_runtime.call.walk_source import aliasing, owned

if TYPE_CHECKING:
    from fuel_dialect.ops.control import BranchOp
    from fuel_runtime.call.arm_checks import Yields
    from fuel_runtime.call.observing import Observer
    from fuel_runtime.call.state import Use


class _Lost(Exception):
    """A value cannot be computed again: the state that it depends on was written over."""


class Stream:
    """Represents one call that makes its decisions as it goes."""

    def __init__(
        self,
        live: Chooser,
        use: Use | None,
        arguments: tuple[Any, ...],
        *,
        is_timed: bool = False,
        exploring: bool = False,
        forced: Mapping[BranchOp, int] | None = None,
        yields: Yields | None = None,
        observer: Observer | None = None,
    ):
        self.live = live
        self.use = use
        self.values: dict[str, Any] = {f"a{i}": value for i, value in enumerate(arguments)}
        self.choices: dict[BranchOp, int] = {}
        self.failed: dict[BranchOp, dict[int, str]] = {}
        self.faults = 0
        self.stretch: Stretch = live.stretch_of({})
        self.times = CallTimes(live.namespace["devices"]) if is_timed else None
        self.has_explored = False
        self._exploring = exploring
        self._forced = forced or {}
        self._yields = yields
        self._observer = observer
        self._is_plain = not is_timed and yields is None and observer is None
        """True while stretches are walked by their generated code: until a fault."""
        self._done: set[tuple[str, ...]] = set()
        self._at: Call | None = None
        self._fault = ""

    # Walking.

    def run(self) -> tuple[Any, ...]:
        """Return the results. Raises what a call raises when no arm is left."""
        while True:
            try:
                return self._advance()
            except LEFT as error:
                self._regain(error)
                self._leave(error)
            except _Lost as lost:
                raise self._lost_state(lost) from None

    def _advance(self) -> tuple[Any, ...]:
        while True:
            stretch = self.stretch = self.live.stretch_of(self.choices)
            if self._is_plain:
                for name in stretch.read:
                    self._ensure(name)
                stretch.walk(self.use, self.values)
                self._done.update(stretch.made)
            else:
                self._make(stretch)
            self._at = None
            if stretch.next is None:
                return self._finish()
            self._decide(stretch.next)

    def _make(self, stretch: Stretch) -> None:
        """Makes the calls of a stretch one by one, but for those that were made."""
        for call, dead in zip(stretch.calls, stretch.dead, strict=True):
            if call.outputs not in self._done:
                self._do(call)
            for name in dead:
                self.values.pop(name, None)
        self._look()

    def _decide(self, branch: BranchOp) -> None:
        if branch in self._forced:
            self.choices[branch] = self._forced[branch]
            return
        pick = self.live.resolve(branch, self.failed.get(branch, {}), self._exploring)
        if self._exploring and pick.reason.startswith("explored"):
            self._exploring, self.has_explored = False, True
        else:
            self.live.note(self.live.decisions[branch].path, pick)
        if self._observer is not None:
            self._observer.picked(self.live.decisions[branch], pick, is_settled=False)
        self.choices[branch] = pick.arm

    def _do(self, call: Call) -> None:
        """Make one call; what it reads and is not there is computed first."""
        for name in call.inputs:
            self._ensure(name)
        self._at = call
        if call.reuses and self.use is not None and self.live.signature.members:
            self.use.progress.writing += 1
        function = self.stretch.written.functions[call.function]
        if self._observer is not None:
            function = self._observer.function(call, function)
        inputs = [self.values[name] for name in call.inputs]
        for operand in call.reuses.values():
            self.values.pop(call.inputs[operand], None)
        times = self.times
        started = None if times is None else times.start(call, self.stretch.written.devices(call))
        results = function(*inputs)
        if times is not None and started is not None:
            times.stop(call, started, self._timed_for(call))
        if isinstance(call, Transfer):
            self.values[call.result] = results
        else:
            self.values.update(zip(call.outputs, results, strict=True))
        self._done.add(call.outputs)
        self._look()

    def _look(self) -> None:
        if self._yields is not None:
            self._yields.look(self.stretch.written.route, self.choices, self.values)

    def _timed_for(self, call: Call) -> tuple[int, ...]:
        """Returns the decisions whose arms a call stands in, or whose results it brings."""
        numbers = set(call.inside)
        if isinstance(call, Transfer):
            yields = self.stretch.written.route.yields
            numbers |= {n for n, names in enumerate(yields) if call.source in names}
        return tuple(numbers)

    def _read_times(self) -> None:
        """Wait for the calls that are timed; one that fails only now is left as ever."""
        if self.times is None or self.faults:
            return
        for call in self.times.read():
            self._at = call
        self._at = None

    def _ensure(self, name: str) -> None:
        """Compute a value again that is not there."""
        if name in self.values:
            return
        if name.startswith("leaf"):
            self.values[name] = self.live.namespace[name]
            return
        maker = self.stretch.written.route.makers.get(name)
        if maker is None:
            raise _Lost(name)
        self._do(maker)

    def _finish(self) -> tuple[Any, ...]:
        """Return the results, each with memory of its own, and keep the state."""
        self._read_times()
        written, signature = self.stretch.written, self.live.signature
        results: list[Any] = []
        for name, is_copied in owned(written.route, signature):
            self._ensure(name)
            value = self.values[name]
            results.append(value.copy() if is_copied else value)
        self._succeed(written)
        state = aliasing(signature)
        if self.use is not None and signature.members:
            self.use.keep(tuple(results[member.result] for member in signature.members))
        return tuple(result for index, result in enumerate(results) if index not in state)

    def _succeed(self, written: WrittenRoute) -> None:
        live = self.live
        spent = {} if self.times is None or self.faults else self.times.spent
        for number, (branch, arm) in enumerate(written.route.decisions):
            path = live.decisions[branch].path
            if number in spent:
                live.record(path, arm, spent[number])
            live.warm.add((path, arm))
        trial = live.telemetry.on_trial
        if trial:
            for label in trial.intersection(written.route.homes.values()):
                live.telemetry.succeed(label)

    # Faults.

    def resume(self, error: BaseException) -> None:
        """Takes over from a settled walk that failed: its values, and the decisions it had made."""
        walked = self._regain(error)
        if walked is None:
            raise error
        self.choices = dict(walked.written.route.decisions)
        self.stretch = self.live.stretch_of(self.choices)
        self._leave(error)

    def _regain(self, error: BaseException) -> Walked | None:
        """
        Takes the values of the generated walk that failed, if one did, to go on call by call.

        The frames of the walk are cleared, so that what is given up is free.
        """
        self._is_plain = False
        found = _walk_frame(error)
        if found is None:
            return None
        walked, variables, line = found
        self.values.update({n: v for n, v in variables.items() if _is_value(n)})
        variables.clear()
        self._rewind(walked, line)
        traceback.clear_frames(error.__traceback__)
        return walked

    def _rewind(self, walked: Walked, line: int) -> None:
        """Find the call that failed by its line, and forget what was written over by then."""
        calls = walked.calls
        number = walked.lines[line] if line < len(walked.lines) else None
        if number is None:
            self._done.update(call.outputs for call in calls)
            return
        for call in calls[: number + 1]:
            for operand in call.reuses.values():
                self.values.pop(call.inputs[operand], None)
        self._done.update(call.outputs for call in calls[:number])
        self._at = calls[number]

    def _leave(self, error: BaseException) -> None:
        """Leave the arm that failed, so that `run` goes on at its decision. Raises at the end."""
        written = self.stretch.written
        call = self._at
        devices = written.devices(call) if call is not None else ()
        named = error.device if isinstance(error, DeviceTimeout) else ""
        device = named or (devices[0] if devices else "cpu")
        numbers = self._blamed(written, call, device, is_sure=bool(named))
        error.__traceback__ = None
        for place, number in enumerate(numbers):
            branch, arm = written.route.decisions[number]
            path = self.live.decisions[branch].path
            reason = f"{type(error).__name__}: {error}"
            self.failed.setdefault(branch, {})[arm] = reason
            self.live.note_fault(path, arm, device, reason)
            if self._observer is not None:
                self._observer.left(path, arm, device, reason)
            self.faults += 1
            self._fault = f"{reason} (on {device})"
            if self._has_another(branch):
                self._forgive(written, numbers[:place])
                self._go_back(written, number, device, isinstance(error, DeviceFailure))
                return
        raise self._refusal(error, call, device, numbers) from error

    def _forgive(self, written: WrittenRoute, numbers: Iterable[int]) -> None:
        """Lets arms without another be taken again, as an earlier decision takes another arm."""
        for number in numbers:
            branch, arm = written.route.decisions[number]
            self.failed[branch].pop(arm, None)

    def _blamed(
        self, written: WrittenRoute, call: Call | None, device: str, *, is_sure: bool
    ) -> list[int]:
        """
        Returns the decisions whose arm may be to blame, the most likely first.

        Where the device is sure to be to blame, these are decisions whose arm uses it.
        """
        if call is None:
            return []
        inner = [
            number
            for number in reversed(call.inside)
            if not is_sure or device in self._places(written, number)
        ]
        decided = range(min(call.after, len(written.route.decisions)))
        using = [
            number
            for number in reversed(decided)
            if number not in inner and device in self._places(written, number)
        ]
        return [*inner, *using]

    def _places(self, written: WrittenRoute, number: int) -> Iterable[str]:
        branch, arm = written.route.decisions[number]
        return self.live.decisions[branch].arms[arm].places

    def _has_another(self, branch: BranchOp) -> bool:
        """Returns True if an arm is left that may be taken."""
        if branch in self._forced:
            return False
        try:
            self.live.resolve(branch, self.failed[branch])
        except DeviceUnavailable:
            return False
        return True

    def _go_back(self, written: WrittenRoute, number: int, device: str, is_lost: bool) -> None:
        """Forget a decision and what came after it, and what lay on a lost device."""
        decided = written.route.decisions[:number]
        kept = {name for c in written.route.calls if c.after <= number for name in c.outputs}
        homes = written.route.homes
        self.choices = {b: self.choices[b] for b, _ in decided if b in self.choices}
        self.values = {
            name: value
            for name, value in self.values.items()
            if name[0] == "a"
            or name.startswith("leaf")
            or (name in kept and not (is_lost and homes.get(name) == device))
        }
        self._done = {
            c.outputs for c in written.route.calls if c.after <= number and c.outputs in self._done
        }
        self._at = None

    def _lost_state(self, lost: _Lost) -> BaseException:
        """Returns the error of a call that cannot go on, since it wrote over its state before."""
        entry, fault = self.live.signature.entry, self._fault
        return DeviceFailure(
            f"{entry}: the call cannot go on after {fault}: it has written over {lost} before"
        )

    def _refusal(
        self, error: BaseException, call: Call | None, device: str, numbers: list[int]
    ) -> BaseException:
        """Returns the one error of a call for which no arm is left."""
        entry = self.live.signature.entry
        what = "a transfer" if isinstance(call, Transfer) else (call.function if call else "a call")
        tried = [
            self.live.decisions[self.stretch.written.route.decisions[n][0]].path for n in numbers
        ]
        left = f"; no other arm of {', '.join(tried)} can run" if tried else ""
        kind = type(error) if isinstance(error, FuelError) else OutOfMemory
        return kind(f"{entry}: {what} on {device}: {error}{left}")


def _is_value(name: str) -> bool:
    return name[0] in "avw" and name[1:].isdigit()


def _walk_frame(error: BaseException) -> tuple[Walked, dict[str, Any], int] | None:
    """Returns what the generated walk that failed calls, its variables, and the line it was at."""
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        walked = frame.f_globals.get(WALKED) if frame.f_code.co_name == "walk" else None
        if isinstance(walked, Walked):
            return walked, dict(frame.f_locals), step.tb_lineno
        step = step.tb_next
    return None
