# SPDX-License-Identifier: MIT OR Apache-2.0
"""
On which device each kernel runs: pure functions on frozen data.

What is minimised is the sum of the kernels' prices and of the transfers. A value travels to each
memory once, however many readers it has there; a transfer of two hops leaves a copy on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from fuel_dialect.errors import FuelPassError
from fuel_dialect.targets.machine import Topology
from fuel_passes.planning.nodes import Input, Node, Output, Source
from fuel_passes.planning.problem import Problem, formulate
from fuel_passes.planning.search import Found, Moves, improve, search
from fuel_passes.planning.topology import generation

__all__ = [
    "Assigned",
    "Input",
    "Node",
    "Output",
    "Placement",
    "Source",
    "place",
    "total_ns",
]

EXACT_LIMIT = 10_000
"""Up to so many ways to place all kernels, the plan is the best there is."""

WIDTH = 24
"""Of more ways than that, how many partial plans are kept at each of very many kernels."""

WIDEST = 256
PARTIAL_PLANS = 10_000
"""The partial plans that are kept at each of few kernels, and at all of them together."""

FEW = 64
"""Up to so many kernels, moves are tried from each single device too."""


@dataclass(frozen=True)
class Placement:
    """A plan: where each node runs, and what that costs."""

    assignment: Mapping[int, str]
    total_ns: int
    kernels_ns: int
    transfers_ns: int
    exact: bool
    """True if no placement is cheaper."""
    bound_ns: int
    """A cost that no placement is below: every kernel at its cheapest, without transfers."""
    singles: Mapping[str, int]
    """The cost of running everything on one device, for each device that serves all."""
    generation: str
    """Of the topology that it is made for."""
    nodes: Mapping[int, Node] = field(repr=False)

    @property
    def gap(self) -> float:
        """The most that it may lie above the best placement, as a fraction; 0 if exact."""
        if self.exact:
            return 0.0
        return (self.total_ns - self.bound_ns) / max(self.bound_ns, 1)


def place(
    nodes: Sequence[Node],
    topology: Topology,
    exits: Mapping[int | Output, str] | None = None,
    previous: Placement | None = None,
    *,
    exact_limit: int = EXACT_LIMIT,
    width: int | None = None,
) -> Placement:
    """
    The cheapest placement of nodes in topological order, or a near one of very many.

    `exits` names where results must end. The plan is exact where there are at most `exact_limit`
    placements, and for more where the partial plans that matter are at most `width`; it is never
    dearer than the best single device. Ties go to the device that the topology lists first.

    With a `previous` plan for the same topology, the nodes that are as they were start where it put
    them and only what changed is searched; then moves mend what lies around it. That is quicker,
    and may end elsewhere than a plan from scratch, so it is not said to be exact.

    Raises `FuelPassError` for a node that no device serves, a pin on a device that does not serve
    it, an unknown device, and inputs that are not in front of their reader.
    """
    made_for = generation(topology)
    problem = formulate(nodes, topology, exits or {})
    singles = {device: problem.alone(device) for device in problem.devices}
    starts = [Found(problem.total(choice), choice) for choice in singles.values()]
    same = {}
    if previous is not None and previous.generation == made_for:
        same = unchanged(list(previous.nodes.values()), nodes)
    if previous is not None and same:
        found = _mended(problem, starts, _starts(previous, same), width)
    else:
        found = _best(problem, starts, exact_limit, width)
    kernels = problem.kernels(found.choice)
    return Placement(
        {node.key: problem.devices[d] for node, d in zip(nodes, found.choice, strict=True)},
        found.total,
        kernels,
        found.total - kernels,
        found.exact,
        problem.bound,
        {
            device: start.total
            for (device, choice), start in zip(singles.items(), starts, strict=True)
            if all(problem.devices[d] == device for d in choice)
        },
        made_for,
        {node.key: node for node in nodes},
    )


def _best(problem: Problem, starts: Sequence[Found], exact_limit: int, width: int | None) -> Found:
    count = len(problem.steps)
    best = min(starts, key=lambda start: start.total)
    if count <= FEW and prod(len(step.options) for step in problem.steps) <= exact_limit:
        return search(problem, exact_limit, best, exact=True)
    found = search(problem, width or _width(count), best)
    if found.exact:
        return found
    seeds = [found, *starts] if count <= FEW else [found]
    return min((improve(problem, seed) for seed in seeds), key=lambda found: found.total)


def _width(count: int) -> int:
    return max(WIDTH, min(WIDEST, PARTIAL_PLANS // max(count, 1)))


def _starts(previous: Placement, same: Mapping[int, int]) -> Mapping[int, str]:
    """Returns the devices of an earlier plan, by the places that the nodes have now."""
    devices = list(previous.assignment.values())
    return {place: devices[before] for place, before in same.items()}


def _mended(
    problem: Problem, starts: Sequence[Found], kept: Mapping[int, str], width: int | None
) -> Found:
    """The best with some nodes where they were; then moves, first of what lies around the rest."""
    steps = list(problem.steps)
    kept = _without_reusers(problem, kept)
    for place, device in kept.items():
        number = problem.devices.index(device)
        steps[place] = replace(steps[place], options={number: steps[place].options[number]})
    held = replace(problem, steps=steps)
    best = min(starts, key=lambda start: start.total)
    found = search(held, width or _width(len(steps)), best)
    changed = [place for place in range(len(steps)) if place not in kept]
    return improve(problem, found, changed)


def _without_reusers(problem: Problem, kept: Mapping[int, str]) -> dict[int, str]:
    """Without the nodes that must follow memory which a changed node makes."""
    left = dict(kept)
    makers = {value: index for index, step in enumerate(problem.steps) for value in step.makes}
    for index, step in enumerate(problem.steps):
        if step.reuses in makers and makers[step.reuses] not in left:
            left.pop(index, None)
    return left


def unchanged(before: Sequence[Node], after: Sequence[Node]) -> dict[int, int]:
    """
    The nodes that are as they were, by place after and before: those in front of all that changed,
    and those behind it.
    """
    most = min(len(before), len(after))
    shift = len(after) - len(before)
    places = [{node.key: place for place, node in enumerate(nodes)} for nodes in (before, after)]

    def same(old: Node, new: Node, head: int) -> bool:
        rest = (old.prices, old.bytes, old.pin) == (new.prices, new.bytes, new.pin)
        if not rest or len(old.inputs) != len(new.inputs):
            return False
        reads = zip((*old.inputs, old.reuses), (*new.inputs, new.reuses), strict=True)
        return all(_same_read(a, b, places, shift, head) for a, b in reads)

    head = next((i for i in range(most) if not same(before[i], after[i], most)), most)
    backwards = range(1, most - head + 1)
    tail = next((i - 1 for i in backwards if not same(before[-i], after[-i], head)), most - head)
    ahead = {place: place for place in range(head)}
    return ahead | {place: place - shift for place in range(len(after) - tail, len(after))}


def _same_read(
    old: Input | None,
    new: Input | None,
    places: Sequence[Mapping[int, int]],
    shift: int,
    head: int,
) -> bool:
    """Returns True if two nodes read the same; places behind the first change moved by `shift`."""
    if isinstance(old, Source | None) or isinstance(new, Source | None):
        return old == new
    (a, i), (b, j) = ((r, 0) if isinstance(r, int) else (r.node, r.result) for r in (old, new))
    place = places[0].get(a, -1)
    return i == j and places[1].get(b, -1) == place + (shift if place >= head else 0)


def total_ns(
    nodes: Sequence[Node],
    topology: Topology,
    assignment: Mapping[int, str],
    exits: Mapping[int | Output, str] | None = None,
) -> int:
    """
    Returns the cost of a placement, kernels and transfers.

    Raises `FuelPassError` for a node that is not assigned to a device that serves it.
    """
    problem = formulate(nodes, topology, exits or {})
    return problem.total(choice_of(problem, nodes, assignment))


def choice_of(problem: Problem, nodes: Sequence[Node], assignment: Mapping[int, str]) -> list[int]:
    """The devices of an assignment, in the order of the nodes, by number."""
    choice: list[int] = []
    for node, step in zip(nodes, problem.steps, strict=True):
        device = assignment.get(node.key)
        number = problem.devices.index(device) if device in problem.devices else -1
        if number not in step.options:
            served = ", ".join(problem.devices[d] for d in step.options)
            raise FuelPassError(
                f"node {node.key} is assigned to {device}, which does not serve it; {served} does"
            )
        choice.append(number)
    return choice


class Assigned:
    """
    A placement that can be changed node by node, to price what else could have been.

    `change_ns` is what moving some nodes to a device adds to the total, in time proportional to
    what they read and write.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        topology: Topology,
        assignment: Mapping[int, str],
        exits: Mapping[int | Output, str] | None = None,
    ):
        self._problem = formulate(nodes, topology, exits or {})
        self._position = {node.key: index for index, node in enumerate(nodes)}
        choice = choice_of(self._problem, nodes, assignment)
        self._moves = Moves(self._problem, choice)
        self.total_ns = self._problem.total(choice)

    def change_ns(self, keys: Sequence[int], device: str) -> int | None:
        """Returns the cost of moving nodes to a device; None if it does not serve one."""
        number = self._problem.devices.index(device)
        steps = [self._position[key] for key in keys]
        if any(number not in self._problem.steps[step].options for step in steps):
            return None
        before = [self._moves.choice[step] for step in steps]
        added = sum(self._moves.move(step, number) for step in steps)
        for step, old in zip(steps, before, strict=True):
            self._moves.move(step, old)
        return added
