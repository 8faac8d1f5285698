# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Runs a layer of experts on a host and two cards at once, all of them emulated.

Each card has two experts, and the host weighs what they give. The devices go by virtual clocks, so
that the time of a call is known without a card: by the clocks, and by the simulation from which the
order of its runs comes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import fuel_dialect as fuel
from fuel_dialect.targets.presets import PRESETS
from fuel_runtime import Session
from fuel_runtime.devices.emulated.clock import Clocks
from fuel_runtime.devices.opening import open_devices
from fuel_runtime.devices.present import Devices

Array = np.ndarray[Any, np.dtype[Any]]

MACHINE = PRESETS["2xh100"]
CARDS = ("cuda:0", "cuda:1")
ROWS, WIDTH, EXPERTS = 32, 64, 4


def program() -> Any:
    """Returns the module: experts take turns on the cards, the gate and the sum are the host's."""
    graph = fuel.Graph()
    x = graph.input((ROWS, WIDTH), name="x")
    with fuel.device("cpu"):
        gate = (x @ graph.weight("gate", (WIDTH, EXPERTS), "f32")).softmax()
    found: list[Any] = []
    for number in range(EXPERTS):
        with fuel.device(CARDS[number % 2]):
            hidden = (x @ graph.weight(f"in{number}", (WIDTH, WIDTH), "f32")).relu()
            found.append(hidden @ graph.weight(f"out{number}", (WIDTH, WIDTH), "f32"))
    with fuel.device("cpu"):
        total = gate[:, 0:1] * found[0]
        for number in range(1, EXPERTS):
            total = total + gate[:, number : number + 1] * found[number]
    return graph.build(total, names=["y"])


def weights() -> dict[str, Array]:
    """Draws the weights."""
    random = np.random.default_rng(0)
    names = [f"{end}{number}" for number in range(EXPERTS) for end in ("in", "out")]
    shapes = {"gate": (WIDTH, EXPERTS), **dict.fromkeys(names, (WIDTH, WIDTH))}
    return {
        name: (random.standard_normal(shape) / WIDTH**0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


def expected(x: Array, w: dict[str, Array]) -> Array:
    """Computes the same with NumPy."""
    score = np.exp(x @ w["gate"])
    gate = score / score.sum(axis=1, keepdims=True)
    experts = [np.maximum(x @ w[f"in{n}"], 0) @ w[f"out{n}"] for n in range(EXPERTS)]
    return np.sum([gate[:, n : n + 1] * each for n, each in enumerate(experts)], axis=0)


def emulated(clocks: Clocks) -> Devices:
    """Opens the host and two emulated cards that go by clocks."""
    return open_devices(f"cpu,{','.join(CARDS)}", 2, emulate=",".join(CARDS), clocks=clocks)


def run(clocks: Clocks, devices: Devices) -> tuple[int, int]:
    """Returns the nanoseconds of a call by the clocks and by the simulation, and prints them."""
    w, x = weights(), np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    session = Session(devices, topology=MACHINE, telemetry=False)
    executable = session.compile(program(), weights=w)
    executable(x)  # brings the weights to the cards
    clocks.reset()
    (y,) = executable(x)
    np.testing.assert_allclose(y, expected(x, w), rtol=1e-3, atol=1e-4)
    overlap = executable.report().overlap
    assert overlap is not None
    print(f"by the clocks of the devices: {clocks.makespan_ns:,} ns")
    print(f"by simulation: {overlap}")
    return clocks.makespan_ns, overlap.makespan_ns


def main() -> int:
    """Runs the example."""
    clocks = Clocks.of(MACHINE)
    measured, simulated = run(clocks, emulated(clocks))
    return 0 if measured == simulated else 1


if __name__ == "__main__":
    sys.exit(main())
