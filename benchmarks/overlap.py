# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures how much of a call several devices do at once.

Programs for a host and two cards are run on emulated devices whose virtual clocks go by the prices
of the planner. Their makespan is compared with a lower bound that no order can beat: of long runs
in the order by numbers of kernels, and as `fuel-cut-runs` and `fuel-order-runs` leave them. Then
the CPU computes beside a Vulkan device, where one is there, and each by itself, by the clock of the
wall.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any

import facts
import numpy as np
from harness import Array

import fuel_dialect as fuel
from fuel_dialect.attributes import HOST
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelError
from fuel_dialect.ops.control import RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.targets.description import Concurrency
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.finishing.cut_runs import CutRunsPass, cut, cut_block, runs_of
from fuel_passes.finishing.order import arrange
from fuel_passes.finishing.order_runs import (
    OrderRunsPass,
    candidate_orders,
    items_of,
    order_runs,
)
from fuel_passes.finishing.overlap import Prices, Scene
from fuel_passes.finishing.reuse_buffers import ReuseBuffersPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.residency import residency_of
from fuel_passes.walk import functions
from fuel_runtime import Session
from fuel_runtime.devices.emulated.clock import Clocks
from fuel_runtime.devices.opening import open_devices

SIZE = 64
MACHINE = PRESETS["2xh100"]
CARDS = ("cuda:0", "cuda:1")
DEVICES = (HOST, *CARDS)

PROGRAMS = 40
NEAR = 1.1
WANTED: Mapping[Concurrency, float] = {"stream": 1.4, "events": 1.25}
"""The most that the makespan of random programs may be over the bound, on average."""

Value = Any
Build = Callable[[Value, Callable[[], Value]], Sequence[Value]]
"""Returns the results of a program of its argument; the function gives a new weight."""


def beside(x: Value, weight: Callable[[], Value]) -> Sequence[Value]:
    """Half of the work is on a card, half on the host, and they meet."""
    with fuel.device(HOST):
        host = (x @ weight()).softmax() @ weight()
    with fuel.device("cuda:0"):
        card = x
        for _ in range(6):
            card = (card @ weight()).softmax()
    with fuel.device(HOST):
        return [host + card]


def stages(x: Value, weight: Callable[[], Value]) -> Sequence[Value]:
    """Four batches go through a stage on either card, and end on the host."""
    first, second = weight(), weight()
    results: list[Value] = []
    for number in range(4):
        with fuel.device("cuda:0"):
            half = ((x * float(number + 1)) @ first).softmax()
        with fuel.device("cuda:1"):
            results.append((half @ second).softmax())
    return results


def experts(x: Value, weight: Callable[[], Value]) -> Sequence[Value]:
    """The host weighs what two experts on either card give."""
    with fuel.device(HOST):
        gate = (x @ weight()).softmax()
    found: list[Value] = []
    for number in range(4):
        with fuel.device(CARDS[number % 2]):
            found.append(((x @ weight()).softmax() @ weight()).softmax())
    with fuel.device(HOST):
        total = gate * found[0]
        for each in found[1:]:
            total = total + gate * each
        return [total]


def postprocessed(x: Value, weight: Callable[[], Value]) -> Sequence[Value]:
    """A card computes batches, and the host works on each when it comes."""
    shared, results = weight(), list[Value]()
    for number in range(4):
        with fuel.device("cuda:0"):
            batch = ((x * float(number + 1)) @ shared).softmax() @ shared
        with fuel.device(HOST):
            results.append(batch.softmax() @ shared)
    return results


def by_chance(random: Random) -> Build:
    """A program of a dozen runs that read one another on any device."""

    def build(x: Value, weight: Callable[[], Value]) -> Sequence[Value]:
        values, unread = [x], dict[int, Value]()
        for _ in range(random.randint(6, 14)):
            with fuel.device(random.choice(DEVICES)):
                value = random.choice(values[-5:])
                unread.pop(id(value), None)
                for _ in range(random.randint(1, 3)):
                    value = (value @ weight()).softmax() if random.random() < 0.7 else value.exp()
                if random.random() < 0.5:
                    other = random.choice(values[-5:])
                    unread.pop(id(other), None)
                    value = value + other
            values.append(value)
            unread[id(value)] = value
        return list(unread.values())

    return build


NAMED: Mapping[str, Build] = {
    "host beside card": beside,
    "stages on two cards": stages,
    "experts on two cards": experts,
    "host after card": postprocessed,
}


def planned(build: Build) -> tuple[Any, dict[str, Array]]:
    """Returns a module that is optimised up to the cut and the order of runs, and its weights."""
    graph, arrays = fuel.Graph(), dict[str, Array]()
    random = np.random.default_rng(0)

    def weight() -> Value:
        name = f"w{len(arrays)}"
        arrays[name] = (random.standard_normal((SIZE, SIZE)) / SIZE).astype(np.float32)
        return graph.weight(name, (SIZE, SIZE), "f32")

    results = build(graph.input((SIZE, SIZE), name="x"), weight)
    module = graph.build(*results)
    context = make_context()
    for inner in OptimizePass(topology=MACHINE.name).passes():
        if not isinstance(inner, CutRunsPass | OrderRunsPass | ReuseBuffersPass):
            inner.apply(context, module)
    return module, arrays


def scene_of(module: Any, concurrency: Concurrency) -> tuple[Any, Scene]:
    (function,) = functions(module)
    prices = Prices(MACHINE, lambda device: concurrency)
    return function, Scene(function.body.block, function, prices)


def order_by_counts(module: Any, concurrency: Concurrency) -> None:
    function, scene = scene_of(module, concurrency)
    counted, *_ = candidate_orders(scene, *items_of(function.body.block))
    arrange(function.body.block, counted)


def cut_and_order(module: Any, concurrency: Concurrency) -> None:
    function, scene = scene_of(module, concurrency)
    cut_block(function, 0, scene.prices)
    order_runs(function.body.block, function, scene.prices)


def least_ns(module: Any, concurrency: Concurrency) -> int:
    """
    Returns a time that no order can beat: of the longest path, and of the busiest device.

    Paths are those of the shortest runs. The host is busy with its runs and with what it reads.
    """
    module = module.clone()
    function, scene = scene_of(module, concurrency)
    for run in list(runs_of(function.body.block)):
        cut(run)
    items, before = items_of(function.body.block)
    residency, ns = residency_of(function, MACHINE.targets), scene.alone_ns(items)
    busy: dict[str, int] = dict.fromkeys(DEVICES, 0)
    path: dict[Any, int] = {}
    for op in items:
        path[op] = ns[op] + max((path[earlier] for earlier in before[op]), default=0)
        if isinstance(op, RunOp):
            busy[op.target.device.label] += ns[op]
        elif isinstance(op, TransferOp):
            ends = {op.to.label, *(home.label for home in residency.of(op.input))}
            for label in {HOST} if op.to.label == HOST else ends - {HOST}:
                busy[label] += ns[op]
    return max(*busy.values(), *path.values())


def makespan_ns(module: Any, weights: Mapping[str, Array], concurrency: Concurrency) -> int:
    """Returns the virtual time of the second call of a program on emulated devices."""
    ReuseBuffersPass().apply(make_context(), module)
    clocks = Clocks.of(MACHINE, concurrency)
    devices = open_devices(",".join(DEVICES), 2, ",".join(CARDS), clocks=clocks)
    session = Session(devices, topology=MACHINE, telemetry=False)
    executable = session.compile(module, optimize=False, weights=weights)
    x = np.linspace(-1, 1, SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE)
    executable(x)
    clocks.reset()
    executable(x)
    return clocks.makespan_ns


def ratios(build: Build, concurrency: Concurrency) -> dict[str, float]:
    """Returns the makespan of a program over the bound, in either order."""
    module, weights = planned(build)
    least = least_ns(module, concurrency)
    found: dict[str, float] = {"bound ns": least}
    for name, order in (("before", order_by_counts), ("after", cut_and_order)):
        copy = module.clone()
        order(copy, concurrency)
        found[name] = makespan_ns(copy, weights, concurrency) / least
    return found


def summary(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns what random programs take over the bound, and how many are slower than before."""
    after = [each["after"] for each in found]
    return {
        "programs": len(found),
        "before, mean": mean(each["before"] for each in found),
        "after, mean": mean(after),
        "after, worst": max(after),
        f"after, at most {NEAR}": sum(ratio <= NEAR for ratio in after) / len(after),
        "slower than before": sum(each["after"] > each["before"] for each in found),
    }


# On this machine.


def beside_vulkan(rounds: int, steps: int) -> dict[str, float]:
    """
    Returns the milliseconds of a call on a Vulkan device, on the host, and on both at once.

    They are medians of rounds in which each is called once. Raises `FuelError` without a device.
    """
    session = Session("cpu,vulkan:0", telemetry=False)
    programs = {name: _chains(name.split(" + "), steps) for name in ("vulkan:0", "cpu", BOTH)}
    calls = {name: session.compile(module) for name, module in programs.items()}
    x = np.linspace(-1, 1, 1 << 18, dtype=np.float32)
    for call in calls.values():
        call(x)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call(x)
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: median(found) for name, found in times.items()}


BOTH = "vulkan:0 + cpu"


def _chains(devices: Sequence[str], steps: int) -> Any:
    """A chain of as many steps on each of some devices, none of which reads another."""
    graph = fuel.Graph()
    x = graph.input((1 << 18,), name="x")
    results: list[Value] = []
    for device in devices:
        value = x
        with fuel.device(device):
            for _ in range(steps):
                value = value.sin().exp().tanh()
            results.append(value)
    return graph.build(*results)


# The report.


def targets(figures: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yields what is asked of the figures, and whether they meet it."""
    for concurrency, most in WANTED.items():
        found = figures["emulated"][concurrency]
        got = found["random"]
        text = f"{concurrency}: random programs {most} times the bound on average"
        yield f"{text}; they are {got['after, mean']:.3f}", got["after, mean"] <= most
        slower = got["slower than before"]
        slower += sum(each["after"] > each["before"] for each in found["named"].values())
        yield f"{concurrency}: no program slower than by counts; {slower} are", slower == 0


def lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yields the table."""
    for concurrency, found in figures["emulated"].items():
        yield f"emulated devices, {concurrency}: makespan over the bound, before and after"
        for name, each in found["named"].items():
            yield f"  {name:22} {each['before']:.3f}  {each['after']:.3f}"
        yield "  random: " + ", ".join(f"{k} {v:.3g}" for k, v in found["random"].items())
    wall = figures["vulkan"]
    if "skipped" in wall:
        yield f"CPU beside Vulkan: skipped: {wall['skipped']}"
        return
    times = ", ".join(f"{name} {wall[name]:.2f} ms" for name in ("vulkan:0", "cpu", BOTH))
    alone = wall["vulkan:0"] + wall["cpu"]
    yield f"CPU beside Vulkan: {times}: {wall[BOTH] / alone:.2f} of one after the other"


def main() -> int:
    """Prints the figures and whether the targets are met; with `--strict`, returns 2 if not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="random ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=15, help="of the calls beside Vulkan")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": facts.machine(), "emulated": {}}
    for concurrency in WANTED:
        chance = [by_chance(Random(options.seed + n)) for n in range(options.programs)]
        figures["emulated"][concurrency] = {
            "named": {name: ratios(build, concurrency) for name, build in NAMED.items()},
            "random": summary([ratios(build, concurrency) for build in chance]),
        }
    try:
        figures["vulkan"] = beside_vulkan(options.rounds, 4)
    except FuelError as error:
        figures["vulkan"] = {"skipped": str(error)}
    print("\n".join(lines(figures)))
    verdicts = list(targets(figures))
    for text, is_met in verdicts:
        print(f"{'pass' if is_met else 'FAIL'}  {text}")
    if options.out is not None:
        options.out.write_text(json.dumps(figures, indent=1))
    return 2 if options.strict and not all(is_met for _, is_met in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
