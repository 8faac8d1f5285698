# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Chooses the route of a program while it runs.

`Live` belongs to one executable. A settled route is one generated walk, taken while the epoch of
the telemetry is that of the choice. In a call that begins with another epoch each decision is made
when the call comes to it (`call.stream`), with generated code for what is between, and the route
that comes of it is settled next.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from fuel_runtime.call.arm_checks import ArmChecks, Yields
from fuel_runtime.call.observing import Observer, observed
from fuel_runtime.call.report import Change, Fault
from fuel_runtime.call.route import Call, Route
from fuel_runtime.call.stream import Stream
from fuel_runtime.call.stretch import (
    LEFT,
    Choices,
    Stretch,
    Walked,
    Writing,
    WrittenRoute,
    executed,
)
from fuel_runtime.call.timed_calls import TimedCalls
from fuel_runtime.call.walk_source import last_uses
from fuel_runtime.picker.decision import Decision, Pick
from fuel_runtime.picker.policy import Policy
from fuel_runtime.picker.resolve import resolve
from fuel_runtime.picker.route_cache import Fingerprint, RouteCache, devices_of, tiers_of
from fuel_runtime.telemetry.sampler import Telemetry

if TYPE_CHECKING:
    from fuel_dialect.ops.control import BranchOp
    from fuel_runtime.call.signature import Signature
    from fuel_runtime.call.state import Use
    from fuel_runtime.measurement_store import MeasuredTimes
    from fuel_runtime.picker.replay import RecordedRoute

MOST_WALKS = 32
"""The walks and stretches that an executable keeps, each."""

MOST_EVENTS = 64

Walk = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Steering:
    """Holds what a session says of decisions: wishes, signals and times."""

    policy: Policy = field(default_factory=Policy)
    telemetry: Telemetry = field(default_factory=Telemetry)
    times: MeasuredTimes | None = None
    plugins: bool = True
    replayed: RecordedRoute | None = None

    def check_replay(self, entry: str, decisions: Iterable[Decision]) -> None:
        """Raise `DecisionError` where the route to replay is one of another program."""
        if self.replayed is not None:
            self.replayed.check(entry, decisions)


class Live:
    """Chooses, and keeps what was chosen, for one executable; calls of several threads share it."""

    def __init__(
        self,
        signature: Signature,
        decisions: Mapping[BranchOp, Decision],
        first: Choices,
        write: Callable[[Choices], WrittenRoute],
        namespace: Mapping[str, Any],
        steering: Steering,
        fingerprint: Fingerprint,
        mobile: frozenset[int] = frozenset(),
    ):
        self.signature = signature
        self.decisions = decisions
        self.namespace = namespace
        self.mobile = mobile
        self.steering = steering
        self.telemetry = steering.telemetry
        self.epoch = 0
        """The epoch of the settled route; 0 where none is."""
        self.walk: Walk = self._unsettled
        self.picks: dict[str, Pick] = {}
        """The newest pick of each decision, by path."""
        self.history: deque[Change] = deque(maxlen=MOST_EVENTS)
        self.faults: deque[Fault] = deque(maxlen=MOST_EVENTS)
        self.warm: set[tuple[str, int]] = set()
        """The arms that have run, and keep what they took for good."""
        self.calls = 0
        """Counted only where calls may explore."""
        self.counter = None if steering.times is None else TimedCalls()
        """Counts down to the calls that are timed, where times are kept."""
        self.explored = 0
        self.settled: WrittenRoute | None = None
        tolerance = steering.policy.check_arms
        self.checks: ArmChecks | None = None
        if tolerance is not False:
            given = None if tolerance is True else tolerance
            self.checks = ArmChecks(signature.entry, decisions, given)
        self._first = dict(first)
        self._write = write
        self._written: OrderedDict[object, WrittenRoute] = OrderedDict()
        self._stretches: OrderedDict[object, Stretch] = OrderedDict()
        self._walks: OrderedDict[object, Walk] = OrderedDict()
        self._lock = Lock()
        self._start = time.monotonic()
        self._fingerprint = fingerprint
        self._devices = devices_of(decisions.values())
        self.cache: RouteCache[Mapping[str, Pick]] = RouteCache()
        self._watch()

    def _watch(self) -> None:
        for decision in self.decisions.values():
            for arm in decision.arms:
                for need in arm.needs:
                    sizes = (need.transient, need.transient + need.lasting)
                    self.telemetry.watch(need.device, tuple(s for s in sizes if s))

    # For the generated method.

    def _unsettled(self, use: Use | None, *arguments: Any) -> tuple[Any, ...]:
        return self.stream(use, arguments)

    def stream(
        self, use: Use | None, arguments: tuple[Any, ...], observer: Observer | None = None
    ) -> tuple[Any, ...]:
        """
        Make the decisions of a call as it comes to them, and settle the route of them.

        Where nothing has changed since it was settled, it is time for a call that is timed.
        """
        epoch, counter = self.telemetry.epoch, self.counter
        if epoch == self.epoch and counter is not None:
            return self._sampled(counter, use, arguments, observer)
        self.telemetry.start()
        if self.checks is not None:
            return self._again(self._resolved(), epoch, use, arguments, observer)
        key = self.fingerprint()
        known = self.cache.find(key)
        if known is not None:
            return self._again(known, epoch, use, arguments, observer)
        stream = Stream(self, use, arguments, observer=observer)
        results = stream.run()
        if not stream.faults:
            written = stream.stretch.written
            paths = (self.decisions[branch].path for branch, _ in written.route.decisions)
            self.cache.keep(key, {path: self.picks[path] for path in paths})
            self._settle(written, epoch)
        return results

    def _again(
        self,
        picks: Mapping[str, Pick],
        epoch: int,
        use: Use | None,
        arguments: tuple[Any, ...],
        observer: Observer | None,
    ) -> tuple[Any, ...]:
        """Settle a route that was picked before in the same circumstances, and take it."""
        for path, pick in picks.items():
            self.note(path, pick)
        decided = {b: picks[d.path].arm for b, d in self.decisions.items() if d.path in picks}
        self._settle(self.written(decided), epoch)
        return self._walked(use, arguments, observer)

    def leave(
        self,
        error: BaseException,
        use: Use | None,
        arguments: tuple[Any, ...],
        observer: Observer | None = None,
    ) -> tuple[Any, ...]:
        """Go on with a call whose settled walk has failed, from the values that still live."""
        stream = Stream(self, use, arguments, observer=observer)
        stream.resume(error)
        return stream.run()

    def timed(
        self,
        use: Use | None,
        arguments: tuple[Any, ...],
        exploring: bool = False,
        observer: Observer | None = None,
    ) -> tuple[Any, ...]:
        """Make a call whose arms are timed; one that explores may take an arm nobody measured."""
        stream = Stream(self, use, arguments, is_timed=True, exploring=exploring, observer=observer)
        results = stream.run()
        if exploring and stream.has_explored:
            self.explored += 1
        return results

    def time_arms(
        self, begin: Callable[[], tuple[Use | None, tuple[Any, ...]]], repeats: int
    ) -> int:
        """Time each arm that can run `repeats` times; returns how many could be timed."""
        timed = 0
        for branch, decision in self.decisions.items():
            around = self._around(decision.path)
            for number, arm in enumerate(decision.arms):
                if around is not None and arm.unavailable is None:
                    timed += self._time_arm({**around, branch: number}, begin, repeats)
        return timed

    def _around(self, path: str) -> dict[BranchOp, int] | None:
        """Returns the arms that lead to a nested decision; None if one of them cannot run."""
        around: dict[BranchOp, int] = {}
        for branch, decision in self.decisions.items():
            if path.startswith(f"{decision.path}/"):
                number = int(path[len(decision.path) + 1 :].partition("/")[0])
                if decision.arms[number].unavailable is not None:
                    return None
                around[branch] = number
        return around

    def _time_arm(
        self,
        forced: Choices,
        begin: Callable[[], tuple[Use | None, tuple[Any, ...]]],
        repeats: int,
    ) -> bool:
        """Time one arm, after a call that warms it; returns False if it fails."""
        try:
            for _ in range(repeats + 1):
                use, arguments = begin()
                Stream(self, use, arguments, is_timed=True, forced=forced).run()
        except LEFT:
            return False
        return True

    # Decisions.

    def resolve(self, branch: BranchOp, failed: Mapping[int, str], exploring: bool = False) -> Pick:
        """Make one decision with what is known now. Raises `DeviceUnavailable`."""
        decision, steering = self.decisions[branch], self.steering
        before = self.picks.get(decision.path)
        return resolve(
            decision,
            self.telemetry.snapshot,
            steering.times,
            steering.policy,
            incumbent=None if before is None else before.arm,
            failed=failed,
            warm=frozenset(a for a in range(len(decision.arms)) if (decision.path, a) in self.warm),
            exploring=exploring,
            plugins=steering.plugins,
        )

    def note(self, path: str, pick: Pick) -> None:
        """Keep a pick; a change goes into the history."""
        with self._lock:
            before = self.picks.get(path)
            self.picks[path] = pick
            if before is None or before.arm != pick.arm:
                at = time.monotonic() - self._start
                was = None if before is None else before.arm
                change = Change(path, was, pick.arm, pick.reason, at, dict(pick.why_not))
                self.history.append(change)

    def note_fault(self, path: str, arm: int, device: str, error: str) -> None:
        """Keep that an arm was left, and leave the device alone for a while."""
        self.telemetry.suspend(device, error)
        with self._lock:
            at = time.monotonic() - self._start
            self.faults.append(Fault(path, arm, device, error, at))

    # Routes.

    def written(self, choices: Choices) -> WrittenRoute:
        """Returns the route of some choices; the first arm that can run where there is none."""
        full = {**self._first, **choices}
        key = tuple(full.get(branch) for branch in self.decisions)
        return _kept(self._written, key, lambda: self._write(full))

    def stretch_of(self, choices: Choices) -> Stretch:
        """Returns what a call does up to the next decision after some that were made."""
        key = tuple(choices.get(branch) for branch in self.decisions)
        return _kept(self._stretches, key, lambda: self._found_stretch(choices))

    def _found_stretch(self, choices: Choices) -> Stretch:
        written = self.written(choices)
        decisions = written.route.decisions
        number = next((n for n, (b, _) in enumerate(decisions) if b not in choices), len(decisions))
        until = decisions[number][0] if number < len(decisions) else None
        calls, dead = self._sure(written.route, choices, until, number)
        before = frozenset[tuple[str, ...]]()
        if number:
            before = self.stretch_of(dict(decisions[: number - 1])).made
        end = "the end" if until is None else self.decisions[until].path
        writing = Writing(f"{written.file}, to {end}", self.signature, self.namespace)
        return Stretch(written, calls, dead, until, before, writing)

    def _sure(
        self, route: Route, choices: Choices, until: BranchOp | None, number: int
    ) -> tuple[tuple[Call, ...], tuple[tuple[str, ...], ...]]:
        """
        Returns the calls before decision `number` of a route that come whatever it will be.

        With each come the values that nothing reads after it.
        """
        if until is None:
            return route.calls, tuple(map(tuple, last_uses(route)))
        others = [
            self.written({**choices, until: index}).route
            for index, arm in enumerate(self.decisions[until].arms)
            if arm.unavailable is None
        ]
        sure = set[tuple[str, ...]].intersection(*({c.outputs for c in o.calls} for o in others))
        calls = tuple(c for c in route.calls if c.after <= number and c.outputs in sure)
        return calls, _dead(calls, others, number)

    def _settle(self, written: WrittenRoute, epoch: int) -> None:
        """Take the straight walk of a route until the epoch is another."""
        walk = self._steered(self._plain_walk(written), written)
        with self._lock:
            self.settled = written
            self.walk = walk
            self.epoch = epoch

    def _plain_walk(self, written: WrittenRoute) -> Walk:
        return _kept(self._walks, written.key, lambda: self._compiled(written))

    def _steered(self, walk: Walk, written: WrittenRoute, observer: Observer | None = None) -> Walk:
        """Returns the walk of a route with what a session wants besides: times and checks."""
        times, explore = self.steering.times, self.steering.policy.explore
        walk = self._exploring(walk, observer) if explore and times is not None else walk
        return walk if self.checks is None else self._checked(self.checks, walk, written)

    def observed_walk(self, observer: Observer | None) -> Walk:
        """Returns the walk of the settled route; an observer hears of its picks first."""
        written = self.settled
        if observer is None or written is None:
            return self.walk
        plain = observed(self._plain_walk(written), written.route, observer)

        def told(use: Use | None, *arguments: Any) -> tuple[Any, ...]:
            for branch, arm in written.route.decisions:
                decision = self.decisions[branch]
                pick = self.picks.get(decision.path)
                if pick is not None and pick.arm == arm:
                    observer.picked(decision, pick, is_settled=True)
            return plain(use, *arguments)

        return self._steered(told, written, observer)

    def _compiled(self, written: WrittenRoute) -> Walk:
        """Returns the generated walk of a route; its file is named after the route."""
        walked = Walked(written, written.route.calls, written.lines)
        return executed(written.source, written.file, self.namespace, walked)

    def _checked(self, checks: ArmChecks, walk: Walk, written: WrittenRoute) -> Walk:
        """Returns a walk before which all arms run on copies of the arguments and the state."""
        members = {member.argument for member in self.signature.members}
        taken = dict(written.route.decisions)

        def checked(use: Use | None, *arguments: Any) -> tuple[Any, ...]:
            def run(forced: Choices, yields: Yields) -> None:
                arms = {**self._first, **taken, **forced}
                given = tuple(a.copy() if i in members else a for i, a in enumerate(arguments))
                Stream(self, None, given, forced=arms, yields=yields).run()

            with suppress(*LEFT):  # the walk that follows finds out, and leaves the arm
                checks.check(taken, self.steering.policy.forbid, run)
            return walk(use, *arguments)

        return checked

    def _exploring(self, walk: Walk, observer: Observer | None) -> Walk:
        """Returns a walk of which a share of the calls tries an arm that nobody has measured."""
        explore = self.steering.policy.explore

        def exploring(use: Use | None, *arguments: Any) -> tuple[Any, ...]:
            self.calls += 1
            if self.explored + 1 <= explore * self.calls and self._has_unmeasured:
                return self.timed(use, arguments, exploring=True, observer=observer)
            return walk(use, *arguments)

        return exploring

    def _sampled(
        self,
        counter: TimedCalls,
        use: Use | None,
        arguments: tuple[Any, ...],
        observer: Observer | None,
    ) -> tuple[Any, ...]:
        """Makes a call by the settled route with a clock beside it: as ever, or arm by arm."""
        start = time.perf_counter_ns()
        if counter.is_plain_known:
            results = self.timed(use, arguments, observer=observer)
            counter.timed(time.perf_counter_ns() - start)
        else:
            results = self._walked(use, arguments, observer)
            counter.plain(time.perf_counter_ns() - start)
        return results

    def _walked(
        self, use: Use | None, arguments: tuple[Any, ...], observer: Observer | None
    ) -> tuple[Any, ...]:
        try:
            return self.observed_walk(observer)(use, *arguments)
        except LEFT as error:
            return self.leave(error, use, arguments, observer)

    @property
    def _has_unmeasured(self) -> bool:
        times = self.steering.times
        return times is not None and any(
            arm.unavailable is None and arm.key is not None and times.measured_ns(arm.key) is None
            for decision in self.decisions.values()
            for arm in decision.arms
        )

    def record(self, path: str, arm: int, ns: float) -> None:
        """Take in what an arm took; what changes a time enough is decided anew."""
        times = self.steering.times
        known = next(d for d in self.decisions.values() if d.path == path).arms[arm]
        if times is None or known.key is None or (path, arm) not in self.warm:
            return
        slowdown = self.telemetry.snapshot.tiers_of(known.device).slowdown
        changes = times.changes
        times.record(known.key, ns / slowdown)
        if times.changes != changes:
            self.telemetry.raise_epoch()

    def fingerprint(self) -> Fingerprint:
        """Returns all that the route of a call made now depends on."""
        snapshot, times = self.telemetry.snapshot, self.steering.times
        return replace(
            self._fingerprint,
            policy=self.steering.policy.key,
            measured=0 if times is None else times.changes,
            tiers=tiers_of(snapshot, self._devices),
            suspended=tuple(sorted(snapshot.suspended)),
            incumbent=tuple(sorted((path, pick.arm) for path, pick in self.picks.items())),
        )

    def route(self) -> dict[str, int]:
        """Returns the arm of every decision that the program comes to now, by path."""
        return {path: pick.arm for path, pick in self._resolved().items()}

    def _resolved(self) -> dict[str, Pick]:
        """Makes the decisions that a call would come to now."""
        picks: dict[str, Pick] = {}
        choices: dict[BranchOp, int] = {}
        stretch = self.stretch_of(choices)
        while stretch.next is not None:
            pick = picks[self.decisions[stretch.next].path] = self.resolve(stretch.next, {})
            choices[stretch.next] = pick.arm
            stretch = self.stretch_of(choices)
        return picks


def _kept(cache: OrderedDict[object, Any], key: object, make: Callable[[], Any]) -> Any:
    """Returns what a cache has, or makes it; the cache keeps what was made last."""
    found = cache.get(key)
    if found is None:
        found = cache[key] = make()
        while len(cache) > MOST_WALKS:
            cache.popitem(last=False)
    return found


def _dead(calls: tuple[Call, ...], others: list[Route], number: int) -> tuple[tuple[str, ...], ...]:
    """
    Returns, for each call, the values that no later call of any route reads.

    Of the decisions from a number on, the others take some arms; the rest may read what is offered.
    """
    done = {call.outputs for call in calls}
    alive: set[str] = set()
    for route in others:
        alive.update(route.results)
        alive.update(n for call in route.calls if call.outputs not in done for n in call.inputs)
        alive.update(name for offered in route.offered[number:] for name in offered)
    dying: list[tuple[str, ...]] = []
    for call in reversed(calls):
        named = dict.fromkeys((*call.inputs, *call.outputs))
        dying.append(tuple(n for n in named if n[0] in "vw" and n not in alive))
        alive.update(named)
    return tuple(reversed(dying))
