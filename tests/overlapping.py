# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of runs and copies for a host and two cards, by hand and by chance."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import fuel_dialect as fuel
from fake_devices import REGISTRY
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.targets.description import Concurrency
from fuel_dialect.targets.machine import Topology, assumed
from fuel_passes.finishing.cut_runs import CutRunsPass
from fuel_passes.finishing.overlap import Prices, Scene
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import functions
from fuel_runtime.devices.emulated.clock import Clocks
from fuel_runtime.devices.opening import open_devices
from fuel_runtime.devices.present import Devices
from machines import TARGETS, stamp

T = "tensor<4xf32>"
BYTES = 16
BY_LETTER = dict(zip("hcd", TARGETS, strict=False))
"""The host and two cards."""

NAMES = "cpu,cuda:0,cuda:1"
CARDS = assumed("cards", tuple(BY_LETTER.values()))


def run(name: str, device: str, *reads: str, kernels: int = 1) -> str:
    """A run that adds what it reads, and then doubles it with each kernel."""
    a, b = reads if len(reads) == 2 else (reads[0], reads[0])
    text = f"  %{name} = fuel.run on #fuel.target<{_target(device)}> "
    text += f"(%in0 = %{a} : {T}, %in1 = %{b} : {T}) -> {T} {{\n"
    last, other = "in0", "in1"
    for number in range(kernels):
        text += (
            f'    %kernel{number} = fuel.kernel pointwise "{name}"(%left = %{last} : {T}, '
            f"%right = %{other} : {T}) -> {T} {{\n      %sum = fuel.add %left, %right : {T}\n"
            f"      fuel.yield %sum : {T}\n    }}\n"
        )
        last = other = f"kernel{number}"
    return f"{text}    fuel.yield %{last} : {T}\n  }}\n"


def _target(device: str) -> str:
    target = BY_LETTER[device]
    return f'{target.device.label}, "{target.backend.data}"'


def copy(name: str, source: str, device: str) -> str:
    """A copy to the device of a letter."""
    label = BY_LETTER[device].device.label
    return f"  %{name} = fuel.copy %{source} to #fuel.device<{label}> : {T}\n"


def program(*ops: str, results: Sequence[str]) -> str:
    """A program of one argument, `x`."""
    types = ", ".join(T for _ in results)
    names = ", ".join(f"%{name}" for name in results)
    return (
        f"func.func @main(%x: {T}) -> ({types}) {{\n{''.join(ops)}"
        f"  func.return {names} : {types}\n}}\n"
    )


def planned(text: str, topology: Topology = CARDS) -> ModuleOp:
    """Returns the module of a program for a machine."""
    module = parse_module(text)
    stamp(module, topology)
    return module


def emulated(clocks: Clocks) -> Devices:
    """The host and two cards, which go by clocks."""
    return open_devices(NAMES, 2, "cuda:0,cuda:1", REGISTRY, clocks)


def simulated_ns(
    module: ModuleOp, topology: Topology = CARDS, concurrency: Concurrency | None = None
) -> int:
    """Returns the makespan of the function of a module as its items stand."""
    (function,) = functions(module)
    block = function.body.block
    prices = Prices(topology) if concurrency is None else Prices(topology, lambda _: concurrency)
    scene = Scene(block, function, prices)
    return scene.makespan_ns(block.ops)


@st.composite
def overlapping(draw: st.DrawFn) -> str:
    """A program whose runs read one another on three devices, each value copied once to each."""
    devices: dict[str, str] = {"x": "h"}
    after: dict[str, list[str]] = {"x": []}
    copies: dict[tuple[str, str], str] = {}
    read: set[str] = set()

    def on(value: str, device: str) -> str:
        """Returns the name of a value on a device, often through the host."""
        read.add(value)
        if devices[value] == device:
            return value
        if (value, device) not in copies:
            is_direct = "h" in (devices[value], device) or draw(st.booleans())
            source = value if is_direct else on(value, "h")
            name = copies[value, device] = f"{value}{device}"
            after[value].append(copy(name, source, device))
        return copies[value, device]

    runs: dict[str, str] = {}
    for number in range(draw(st.integers(2, 14))):
        device = draw(st.sampled_from("hcd"))
        count = draw(st.integers(1, 2))
        reads = [on(draw(st.sampled_from(list(devices)[-5:])), device) for _ in range(count)]
        name = f"v{number}"
        runs[name] = run(name, device, *reads, kernels=draw(st.integers(1, 6)))
        devices[name], after[name] = device, []
    results = [on(name, "h") for name in runs if name not in read]
    ops = [*after["x"], *(text for name in runs for text in (runs[name], *after[name]))]
    return program(*ops, results=results)


@st.composite
def pinned(draw: st.DrawFn) -> ModuleOp:
    """A program whose ops are pinned to three devices, in runs as long as they can be."""
    graph = fuel.Graph()
    values = [graph.input((4,), name="x")]
    unread: dict[int, fuel.Tensor] = {}
    for _ in range(draw(st.integers(2, 12))):
        device = draw(st.sampled_from(list(BY_LETTER.values()))).device.label
        left, right = (draw(st.sampled_from(values[-6:])) for _ in range(2))
        with fuel.device(device):
            value = left + right
            for _ in range(draw(st.integers(0, 3))):
                value = value.softmax()
        unread.pop(id(left), None)
        unread.pop(id(right), None)
        values.append(value)
        unread[id(value)] = value
    module = graph.build(*unread.values())
    stamp(module, CARDS)
    for inner in OptimizePass().passes():
        if isinstance(inner, CutRunsPass):
            return module
        inner.apply(make_context(), module)
    raise AssertionError("fuel-optimize cuts no runs")
