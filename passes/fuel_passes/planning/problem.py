# SPDX-License-Identifier: MIT OR Apache-2.0
"""
A placement problem with numbers in place of names, which is what the search works on.

The state of a value says in which memory it was made and in which others it is by now; as a number,
`home * 2^memories + mask`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from fuel_dialect.errors import FuelPassError
from fuel_dialect.targets.machine import Link, Topology
from fuel_passes.planning.nodes import Node, Output, Source
from fuel_passes.planning.topology import link_between, link_ns, path


@dataclass(frozen=True, slots=True)
class Hop:
    """A step of a path between memories."""

    target: int
    link: Link


@dataclass(slots=True)
class Travel:
    """Represents the places of values of one size, and the cost of bringing them elsewhere."""

    hops: Sequence[Sequence[Sequence[Hop]]]
    """From each memory to each."""
    bytes: int
    _known: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def made(self, memory: int) -> int:
        """The state of a value that was just made in a memory."""
        return (memory << len(self.hops)) + (1 << memory)

    def to(self, state: int, memory: int) -> tuple[int, int]:
        """Returns the cost of bringing a value to a memory, and its state then."""
        known = self._known.get((state, memory))
        if known is None:
            known = self._known[state, memory] = self._price(state, memory)
        return known

    def _price(self, state: int, memory: int) -> tuple[int, int]:
        added = 0
        if state >> memory & 1:
            return 0, state
        for hop in self.hops[state >> len(self.hops)][memory]:
            if not state >> hop.target & 1:
                added += link_ns(hop.link, self.bytes)
                state |= 1 << hop.target
        return added, state

    def everywhere(self, home: int, mask: int) -> int:
        """Returns the cost of making a value in one memory and bringing it to those of a mask."""
        state, total = self.made(home), 0
        for memory in range(len(self.hops)):
            if mask >> memory & 1:
                added, state = self.to(state, memory)
                total += added
        return total


@dataclass(slots=True)
class Value:
    """A value that kernels read, or that must end somewhere."""

    travel: Travel
    home: int | None
    """The memory that a source lives in; None for what a node makes."""
    exits: list[int] = field(default_factory=list)
    """The memories it must end in."""
    readers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """A node: what it reads and makes, by the numbers of values, and its price on each device."""

    options: dict[int, int]
    reads: list[int]
    makes: list[int]
    reuses: int | None = None


@dataclass
class Problem:
    """Nodes in order, the values between them, the devices and the memory of each."""

    devices: list[str]
    memory: list[int]
    steps: list[Step]
    values: list[Value]

    @cached_property
    def bound(self) -> int:
        """Every node at its cheapest."""
        return sum(min(step.options.values()) for step in self.steps)

    def kernels(self, choice: Sequence[int]) -> int:
        """Returns the cost of the kernels of a placement, without transfers."""
        return sum(step.options[d] for step, d in zip(self.steps, choice, strict=True))

    def total(self, choice: Sequence[int]) -> int:
        """Returns the cost of a placement."""
        homes = self.homes(choice)
        masks = [sum(1 << memory for memory in set(value.exits)) for value in self.values]
        for step, device in zip(self.steps, choice, strict=True):
            for value in step.reads:
                masks[value] |= 1 << self.memory[device]
        return self.kernels(choice) + sum(
            value.travel.everywhere(home, mask)
            for value, home, mask in zip(self.values, homes, masks, strict=True)
        )

    def homes(self, choice: Sequence[int]) -> list[int]:
        """The memory that each value is made in or lives in."""
        homes = [value.home or 0 for value in self.values]
        for step, device in zip(self.steps, choice, strict=True):
            for value in step.makes:
                homes[value] = self.memory[device]
        return homes

    def alone(self, device: str) -> list[int]:
        """Everything on one device; what it does not serve where it is cheapest."""
        wanted = self.devices.index(device)
        makers = {value: index for index, step in enumerate(self.steps) for value in step.makes}
        choice: list[int] = []
        for step in self.steps:
            chosen = wanted if wanted in step.options else cheapest(step.options)
            memory = self._reused_memory(step, makers, choice)
            if memory is not None and self.memory[chosen] != memory:
                stays = {d: p for d, p in step.options.items() if self.memory[d] == memory}
                chosen = cheapest(stays) if stays else chosen
            choice.append(chosen)
        return choice

    def _reused_memory(
        self, step: Step, makers: Mapping[int, int], choice: Sequence[int]
    ) -> int | None:
        if step.reuses is None:
            return None
        home = self.values[step.reuses].home
        return home if home is not None else self.memory[choice[makers[step.reuses]]]


def cheapest(options: Mapping[int, int]) -> int:
    """The device with the least price; the first of equals."""
    return min(options, key=lambda device: options[device])


def formulate(
    nodes: Sequence[Node], topology: Topology, exits: Mapping[int | Output, str]
) -> Problem:
    """
    The problem in numbers.

    Raises `FuelPassError` for what is not in the topology or not in front of its reader.
    """
    return _Formulation(topology).of(nodes, exits)


class _Formulation:
    """Names to numbers."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self.devices = [device.name for device in topology.devices]
        storages = list(dict.fromkeys(device.storage for device in topology.devices))
        self.memory = [storages.index(device.storage) for device in topology.devices]
        self.number = {name: index for index, name in enumerate(self.devices)}
        first = [self.devices[self.memory.index(m)] for m in range(len(storages))]
        self.hops = [[self._hops(a, b) for b in first] for a in first]
        self.travels: dict[int, Travel] = {}
        self.values: list[Value] = []
        self.numbers: dict[object, int] = {}

    def _hops(self, source: str, target: str) -> list[Hop]:
        hops: list[Hop] = []
        for a, b in pairwise(path(self.topology, source, target)):
            link = link_between(self.topology, a, b)
            assert link is not None
            hops.append(Hop(self.memory[self.number[b]], link))
        return hops

    def of(self, nodes: Sequence[Node], exits: Mapping[int | Output, str]) -> Problem:
        steps = [self._step(node, index) for index, node in enumerate(nodes)]
        for output, device in exits.items():
            value = self._result(output, "an exit")
            self.values[value].exits.append(self.memory[self._device(device, "an exit")])
        return Problem(self.devices, self.memory, steps, self.values)

    def _device(self, name: str, what: str) -> int:
        if name not in self.number:
            raise FuelPassError(
                f"{what} names the device {name}, which topology {self.topology.name!r} lacks; "
                f"it has {', '.join(self.devices)}"
            )
        return self.number[name]

    def _step(self, node: Node, index: int) -> Step:
        what = f"node {node.key}"
        read: list[int | None] = [
            self._source(i, what) if isinstance(i, Source) else self._result(i, what)
            for i in node.inputs
        ]
        reads = list(dict.fromkeys(value for value in read if value is not None))
        for value in reads:
            self.values[value].readers.append(index)
        reuses = read[node.inputs.index(node.reuses)] if node.reuses in node.inputs else None
        sizes = (node.bytes,) if isinstance(node.bytes, int) else node.bytes
        makes = [self._value((node.key, i), size, None) for i, size in enumerate(sizes)]
        return Step(self._options(node), reads, makes, reuses)

    def _options(self, node: Node) -> dict[int, int]:
        what = f"node {node.key}"
        prices = {self._device(device, what): price for device, price in node.prices.items()}
        if node.pin is not None:
            pin = self._device(node.pin, f"the pin of {what}")
            if pin not in prices:
                raise FuelPassError(
                    f"{what} is pinned to {node.pin}, which does not serve it; "
                    f"it is served on {', '.join(node.prices) or 'no device'}"
                )
            prices = {pin: prices[pin]}
        if not prices:
            raise FuelPassError(f"{what} is served on no device of {', '.join(self.devices)}")
        priced = {d: price for d, price in prices.items() if price is not None}
        options = priced or dict.fromkeys(prices, 0)
        return {device: options[device] for device in sorted(options)}

    def _value(self, name: object, size: int, home: int | None) -> int:
        if name in self.numbers:
            raise FuelPassError(f"node {name} is listed twice")
        travel = self.travels.get(size)
        if travel is None:
            travel = self.travels[size] = Travel(self.hops, size)
        self.values.append(Value(travel, home))
        self.numbers[name] = len(self.values) - 1
        return len(self.values) - 1

    def _source(self, source: Source, what: str) -> int | None:
        if source.device is None:
            return None
        name = ("source", source.key)
        if name in self.numbers:
            return self.numbers[name]
        home = self.memory[self._device(source.device, f"an input of {what}")]
        return self._value(name, source.bytes, home)

    def _result(self, output: int | Output, what: str) -> int:
        name = (output, 0) if isinstance(output, int) else (output.node, output.result)
        if name not in self.numbers:
            raise FuelPassError(
                f"{what} reads result {name[1]} of node {name[0]}, which is not in front of it"
            )
        return self.numbers[name]
