# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The search for a placement: dynamic programming over the values still to be read, and moves.

Going through the nodes in order, all that matters of what is placed already is where the values are
that later nodes read. Partial plans that agree in that are one, the cheapest. With all of them kept
the result is exact; with the best few it is near, and moves of single nodes mend it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from fuel_passes.planning.problem import Problem, Step

State = tuple[int, ...]
"""The memories of the values that are still to be read."""

Partial = tuple[int, State, int]
"""The cost so far, the state before the node, the device of the node."""

Way = tuple[int, int, State]
"""The cost that a device for the node adds, the device, and the states of operands and results."""


@dataclass(frozen=True, slots=True)
class Found:
    """A placement: its cost, the device of each node, and whether none is cheaper."""

    total: int
    choice: Sequence[int]
    exact: bool = False


MOST_LIVE = 16
"""Of more live values, those read last are taken to be where the best partial plan has them."""


def search(problem: Problem, width: int, known: Found, exact: bool = False) -> Found:
    """
    The cheapest placement that is cheaper than a known one, or the known one.

    At most `width` partial plans are kept at each node, and where more than `MOST_LIVE` values
    are live some are forgotten, unless the result must be exact; it is exact if neither happened.
    Partial plans that cannot become cheaper than the known one are given up at once.
    """
    transitions = _transitions(problem, max(len(problem.steps) if exact else 0, MOST_LIVE))
    layers: list[dict[State, Partial]] = []
    layer: dict[State, Partial] = {(): (0, (), 0)}
    rest = problem.bound
    cut = False
    for transition in transitions:
        rest -= min(transition.step.options.values())
        layer = transition.advance(layer, known.total - rest)
        if layer and transition.forget is not None:
            cut = True
            layer = transition.forgotten(layer)
        if len(layer) > width:
            cut = True
            layer = dict(sorted(layer.items(), key=_cost)[:width])
        layers.append(layer)
        if not layer:
            return Found(known.total, known.choice, not cut)
    choice = _traced(layers)
    found = Found(problem.total(choice), choice, not cut)
    return found if found.total < known.total or not cut else known


def _cost(item: tuple[State, Partial]) -> int:
    return item[1][0]


def _traced(layers: Sequence[dict[State, Partial]]) -> Sequence[int]:
    if not layers:
        return ()
    state, _ = min(layers[-1].items(), key=_cost)
    choice: list[int] = []
    for layer in reversed(layers):
        _, state, device = layer[state]
        choice.append(device)
    return choice[::-1]


@dataclass(slots=True)
class _Transition:
    """Represents the effect of placing one node on the states of values yet to be read."""

    problem: Problem
    step: Step
    taken: Callable[[State], State]
    """The states of the values it reads that are in the state in front of it."""
    others: Callable[[State], State]
    """Those of all other values."""
    fresh: list[int]
    """The other values that it reads: sources that nobody read before, and forgotten ones."""
    outside: dict[int, int]
    """The states of sources and of what was forgotten."""
    reads: list[int]
    """The values that it reads, in the order of `taken`, then of `fresh`."""
    stays: list[int]
    """The numbers in `reads` of values that later nodes read too."""
    forget: dict[int, int] | None = None
    """Values of the new state that are left out of it, and their places."""
    remember: Callable[[State], State] = tuple
    """The states of all others."""

    def advance(self, layer: dict[State, Partial], limit: int) -> dict[State, Partial]:
        """The partial plans after the node that cost less than a limit."""
        ways: dict[State, list[Way]] = {}
        after: dict[State, Partial] = {}
        taken, others = self.taken, self.others
        for state, (cost, _, _) in layer.items():
            read = taken(state)
            if read not in ways:
                ways[read] = self._ways(read)
            kept = others(state)
            for added, device, tail in ways[read]:
                total = cost + added
                if total >= limit:
                    continue
                key = kept + tail
                known = after.get(key)
                if known is None or total < known[0]:
                    after[key] = (total, state, device)
        return after

    def forgotten(self, layer: dict[State, Partial]) -> dict[State, Partial]:
        """The partial plans without what is to be forgotten; it stays where the best has it."""
        best, _ = min(layer.items(), key=_cost)
        for value, place in (self.forget or {}).items():
            self.outside[value] = best[place]
        after: dict[State, Partial] = {}
        for state, partial in layer.items():
            key = self.remember(state)
            if key not in after or partial[0] < after[key][0]:
                after[key] = partial
        return after

    def _ways(self, read: State) -> list[Way]:
        states = (*read, *(self.outside[value] for value in self.fresh))
        best: dict[State, Way] = {}
        for device in self._devices(states):
            way = self._way(device, states)
            known = best.get(way[2])
            if known is None or way[0] < known[0]:
                best[way[2]] = way
        return list(best.values())

    def _devices(self, states: State) -> Sequence[int]:
        """Returns the devices for the node: that of the memory it reuses, if it is served there."""
        options = list(self.step.options)
        if self.step.reuses is None:
            return options
        home = states[self.reads.index(self.step.reuses)] >> (max(self.problem.memory) + 1)
        return [d for d in options if self.problem.memory[d] == home] or options

    def _way(self, device: int, states: State) -> Way:
        values, memory = self.problem.values, self.problem.memory[device]
        added = self.step.options[device]
        after: list[int] = []
        for value, state in zip(self.reads, states, strict=True):
            cost, moved = values[value].travel.to(state, memory)
            added += cost
            after.append(moved)
        tail = [after[index] for index in self.stays]
        for value in self.step.makes:
            state = values[value].travel.made(memory)
            for target in values[value].exits:
                cost, state = values[value].travel.to(state, target)
                added += cost
            if values[value].readers:
                tail.append(state)
        return added, device, tuple(tail)


def _transitions(problem: Problem, most_live: int) -> list[_Transition]:
    values = problem.values
    outside = {
        number: value.travel.made(value.home)
        for number, value in enumerate(values)
        if value.home is not None
    }
    live: list[int] = []
    transitions: list[_Transition] = []
    for index, step in enumerate(problem.steps):
        position = {value: place for place, value in enumerate(live)}
        old = [value for value in step.reads if value in position]
        fresh = [value for value in step.reads if value not in position]
        reads = [*old, *fresh]
        stays = [i for i, value in enumerate(reads) if values[value].readers[-1] > index]
        others = [value for value in live if value not in old]
        transition = _Transition(
            problem,
            step,
            _picker([position[value] for value in old]),
            _picker([position[value] for value in others]),
            fresh,
            outside,
            reads,
            stays,
        )
        transitions.append(transition)
        makes = [value for value in step.makes if values[value].readers]
        live = [*others, *(reads[i] for i in stays), *makes]
        if len(live) > most_live:
            live = _forget(transition, live, index, most_live)
    return transitions


def _forget(transition: _Transition, live: Sequence[int], index: int, most: int) -> list[int]:
    """Let a transition forget the values that are read last; what is left."""

    def next_reader(place: int) -> int:
        readers = transition.problem.values[live[place]].readers
        return readers[bisect_right(readers, index)]

    kept = sorted(sorted(range(len(live)), key=next_reader)[: max(most // 2, 1)])
    gone = set(range(len(live))).difference(kept)
    transition.forget = {live[place]: place for place in gone}
    transition.remember = _picker(kept)
    return [live[place] for place in kept]


def _picker(places: Sequence[int]) -> Callable[[State], State]:
    """The items of a tuple at some places, as a tuple."""
    if not places:
        return lambda state: ()
    if len(places) == 1:
        (place,) = places
        return lambda state: (state[place],)
    return itemgetter(*places)


class Moves:
    """A placement and what it takes to price moves of single nodes."""

    def __init__(self, problem: Problem, choice: Sequence[int]):
        self.problem = problem
        self.choice = list(choice)
        self._homes = problem.homes(choice)
        memories = max(problem.memory, default=0) + 1
        self._readers = [[0] * memories for _ in problem.values]
        self._masks = [0] * len(problem.values)
        for number, value in enumerate(problem.values):
            for memory in value.exits:
                self._count(number, memory, 1)
        for step, device in zip(problem.steps, choice, strict=True):
            for number in step.reads:
                self._count(number, problem.memory[device], 1)

    def _count(self, value: int, memory: int, change: int) -> None:
        counts = self._readers[value]
        counts[memory] += change
        if counts[memory]:
            self._masks[value] |= 1 << memory
        else:
            self._masks[value] &= ~(1 << memory)

    def _cost(self, value: int) -> int:
        travel = self.problem.values[value].travel
        return travel.everywhere(self._homes[value], self._masks[value])

    def move(self, index: int, device: int) -> int:
        """Move a node to a device that serves it; what that adds to the total."""
        step, old = self.problem.steps[index], self.choice[index]
        before, after = self.problem.memory[old], self.problem.memory[device]
        added = step.options[device] - step.options[old]
        self.choice[index] = device
        if before == after:
            return added
        touched = (*step.reads, *step.makes)
        added -= sum(map(self._cost, touched))
        for value in step.reads:
            self._count(value, before, -1)
            self._count(value, after, 1)
        for value in step.makes:
            self._homes[value] = after
        return added + sum(map(self._cost, touched))


def improve(problem: Problem, found: Found, first: Sequence[int] | None = None) -> Found:
    """
    A placement that no move of a single node makes cheaper, from one that may be improved.

    Nodes that reuse memory, or whose result is reused, stay. With `first`, only those nodes and
    what lies around them are tried, and what lies around each node that moved.
    """
    moves = Moves(problem, found.choice)
    total = found.total
    free = _free(problem)
    neighbours = _neighbours(problem, free)
    pending = dict.fromkeys(free)
    if first is not None:
        allowed = set(free)
        near = [index for start in first for index in (start, *neighbours(start))]
        pending = dict.fromkeys(index for index in near if index in allowed)
    while pending:
        index = next(iter(pending))
        del pending[index]
        gained = _best_move(moves, index)
        if gained:
            total -= gained
            pending.update(dict.fromkeys(neighbours(index)))
    return Found(total, moves.choice)


def _best_move(moves: Moves, index: int) -> int:
    """Move a node where it is cheapest; how much that gains."""
    best = old = moves.choice[index]
    least = 0
    reached = 0
    for device in moves.problem.steps[index].options:
        if device == old:
            continue
        reached += moves.move(index, device)
        if reached < least:
            best, least = device, reached
    moves.move(index, best)
    return -least


def _free(problem: Problem) -> list[int]:
    """The nodes that may move by themselves."""
    reused = {step.reuses for step in problem.steps if step.reuses is not None}
    return [
        index
        for index, step in enumerate(problem.steps)
        if len(step.options) > 1 and step.reuses is None and reused.isdisjoint(step.makes)
    ]


MOST_NEIGHBOURS = 16
"""A value with more readers than that does not call them up when one of them moves."""


def _neighbours(problem: Problem, free: Sequence[int]) -> Callable[[int], list[int]]:
    may_move = set(free)
    makers = {value: i for i, step in enumerate(problem.steps) for value in step.makes}

    def around(index: int) -> list[int]:
        step = problem.steps[index]
        found = [makers[value] for value in step.reads if value in makers]
        for value in (*step.reads, *step.makes):
            readers = problem.values[value].readers
            if len(readers) <= MOST_NEIGHBOURS:
                found += readers
        return [i for i in found if i in may_move and i != index]

    return around
