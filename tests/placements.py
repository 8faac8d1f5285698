# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random machines and random kernels to place, and every way to place them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.targets.machine import Device, Link, Topology, both_ways
from fuel_passes.planning.nodes import Node, Output, Source
from fuel_passes.planning.placement import total_ns
from fuel_passes.planning.topology import validated

NUMPY = TargetAttr.of("cpu", "numpy")
NAMES = ("cpu", "cuda:0", "vulkan:0", "cuda:1")


@dataclass(frozen=True)
class Problem:
    """A machine, kernels in order, and where results must end."""

    topology: Topology
    nodes: Sequence[Node]
    exits: Mapping[int | Output, str]


def flat(latency_ns: int, *devices: str) -> Topology:
    """A machine on which each transfer between two devices takes the same time for any size."""
    return linked(latency_ns, 1e18, *devices)


def linked(latency_ns: int, bytes_per_ns: float, *devices: str) -> Topology:
    """A machine with the same direct link between any two devices."""
    links = [Link(a, b, latency_ns, bytes_per_ns) for a, b in product(devices, devices) if a != b]
    return Topology("test", tuple(map(Device, devices)), (NUMPY,), tuple(links))


def machine(random: Random, count: int) -> Topology:
    """A machine of so many devices; some share the host's memory, some have no direct link."""
    names = NAMES[:count]
    storage = ["cpu", *(r if random.random() < 0.8 else "cpu" for r in names[1:])]
    links = [
        Link(a, b, random.choice((0, 10, 100, 1000)), random.choice((0.5, 1, 10, 100)))
        for name in names[1:]
        for a, b in ((names[0], name), (name, names[0]))
    ]
    if count > 2 and random.random() < 0.5:
        links += both_ways(names[1], names[2], random.choice((0, 10, 100)), 10)
    devices = tuple(Device(n, None, s) for n, s in zip(names, storage, strict=True))
    return validated(Topology("random", devices, (NUMPY,), tuple(links)))


def problem(random: Random, devices: int, kernels: int) -> Problem:
    """Kernels that read one another and values that live here and there."""
    topology = machine(random, devices)
    names = [device.name for device in topology.devices]
    sources = [
        Source(key, random.choice((None, *names)), random.choice((0, 100, 1000)))
        for key in range(3)
    ]
    nodes: list[Node] = []
    for key in range(kernels):
        inputs = [
            _input(random, nodes) if nodes and random.random() < 0.85 else random.choice(sources)
            for _ in range(random.randint(1, 3))
        ]
        served = [name for name in names if random.random() < 0.9] or ["cpu"]
        prices = {name: random.choice((10, 50, 100, 500, 1000, 3000)) for name in served}
        sizes = random.choice((0, 10, 100, 1000, 5000, (10, 1000)))
        reuses = inputs[0] if random.random() < 0.2 else None
        nodes.append(Node(key, tuple(inputs), prices, sizes, reuses=reuses))
    exits: dict[int | Output, str] = {
        node.key: random.choice(names)
        for node in nodes
        if node is nodes[-1] or random.random() < 0.3
    }
    return Problem(topology, nodes, exits)


def _input(random: Random, nodes: Sequence[Node]) -> int | Output:
    near = nodes[-4:] if random.random() < 0.7 else nodes
    node = random.choice(near)
    return Output(node.key, 1) if isinstance(node.bytes, tuple) else node.key


def ways(problem: Problem) -> Iterator[int]:
    """Yields the price of each placement that keeps reused memory where it is."""
    keys = [node.key for node in problem.nodes]
    for devices in product(*(node.prices for node in problem.nodes)):
        assignment = dict(zip(keys, devices, strict=True))
        if all(stays(problem, node, assignment) for node in problem.nodes):
            yield cost(problem, assignment)


def stays(problem: Problem, node: Node, assignment: Mapping[int, str]) -> bool:
    """Returns True if a node is where the memory lies that it may reuse, or is not served there."""
    reused = node.reuses
    if isinstance(reused, Source):
        home = reused.device
    elif reused is not None:
        home = assignment[reused if isinstance(reused, int) else reused.node]
    else:
        home = None
    if home is None:
        return True
    storage = {device.name: device.storage for device in problem.topology.devices}
    near = [name for name in node.prices if storage[name] == storage[home]]
    return not near or assignment[node.key] in near


def cost(problem: Problem, assignment: Mapping[int, str]) -> int:
    """Computes the price of a placement by its definition, without the planner's arithmetic."""
    topology, nodes = problem.topology, problem.nodes
    homes: dict[object, tuple[str, int]] = {}
    wanted: dict[object, set[str]] = {}
    total = 0
    for node in nodes:
        device = assignment[node.key]
        total += node.prices[device] or 0
        sizes = node.bytes if isinstance(node.bytes, tuple) else (node.bytes,)
        homes.update({(node.key, i): (device, size) for i, size in enumerate(sizes)})
        for read in node.inputs:
            if isinstance(read, Source) and read.device is not None:
                homes[read] = read.device, read.bytes
            if not isinstance(read, Source) or read.device is not None:
                wanted.setdefault(_name(read), set()).add(device)
    for output, device in problem.exits.items():
        wanted.setdefault(_name(output), set()).add(device)
    return total + sum(
        _brought(topology, *homes[value], devices) for value, devices in wanted.items()
    )


def _name(value: int | Output | Source) -> object:
    if isinstance(value, int):
        return value, 0
    return (value.node, value.result) if isinstance(value, Output) else value


def _brought(topology: Topology, home: str, size: int, devices: set[str]) -> int:
    """Every hop once, through the host where no link joins two memories."""
    storage = {device.name: device.storage for device in topology.devices}
    direct: dict[tuple[str, str], Link] = {}
    for link in topology.links:
        direct.setdefault((storage[link.source], storage[link.target]), link)
    hops: set[tuple[str, str]] = set()
    host = storage["cpu"]
    for device in devices:
        a, b = storage[home], storage[device]
        if a != b:
            hops |= {(a, b)} if (a, b) in direct else {(a, host), (host, b)}
    return sum(direct[hop].latency_ns + -int(-size // direct[hop].bytes_per_ns) for hop in hops)


def agrees(problem: Problem, assignment: Mapping[int, str]) -> bool:
    """Returns True if the planner and the definition give the same price of a placement."""
    said = total_ns(problem.nodes, problem.topology, assignment, problem.exits)
    return said == cost(problem, assignment)
