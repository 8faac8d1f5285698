# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans the memory that calls of an optimised function take on each device, and its peak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.func import FuncOp

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.ops.control import RunOp
from fuel_passes.memory import slots
from fuel_passes.memory.inside import Inside, inside_of
from fuel_passes.memory.lifetimes import Held, Key, RunsArm, timeline_of
from fuel_passes.memory.record import DeviceMemory, MemoryPlan
from fuel_passes.memory.sizes import size_class
from fuel_passes.memory.spans import Block, most_alive
from fuel_passes.memory.streaming import streaming
from fuel_passes.memory.workspace import shared_workspace
from fuel_passes.planning.residency import HOST_DEVICE

LoadNs = Callable[[str, int], int]
"""The nanoseconds that bytes take from the host to a device."""


@dataclass(frozen=True)
class PlannedMemory:
    """Holds the figures of a memory plan, and the places that follow from it."""

    plan: MemoryPlan
    sizes: Mapping[Key, int]
    """The bytes of the memory of each value on a device that is not the host."""


def plan_memory(
    function: FuncOp,
    inside: Callable[[RunOp], Inside] = inside_of,
    capacities: Mapping[str, int | None] | None = None,
    runs_arm: RunsArm = lambda branch, arm: True,
    load_ns: LoadNs = lambda device, bytes: 0,
) -> PlannedMemory:
    """
    Returns the memory plan of an optimised function, over all arms for which `runs_arm` is true.

    `inside` says what a run takes besides operands and results; by default as far as IR shows it.
    Where a device has no room for all weights, those that are loaded again in each call have a
    price by `load_ns`, and so have values that wait on the host. On the host, values have memory of
    their own, and each run a workspace. On other devices, values share memory by liveness, runs
    share workspaces, and sizes are those of `size_class`. Arguments are the caller's: only their
    copies on other devices count.
    """
    timeline = timeline_of(function, runs_arm)
    homes = [*(held.device for held in timeline.held), *(r.target.device for r in timeline.runs)]
    found: list[DeviceMemory] = []
    sizes: dict[Key, int] = {}
    for device in sorted(
        dict.fromkeys(homes), key=lambda device: (device != HOST_DEVICE, str(device))
    ):
        here = [held for held in timeline.held if held.device == device]
        runs = [inside(run) for run in timeline.runs if run.target.device == device]
        plan = _on_host if device == HOST_DEVICE else _on_device
        memory, places = plan(device, here, runs)
        sizes |= {key: places[id(h)] for key, h in timeline.made.items() if id(h) in places}
        spilled = [bytes for where, bytes in timeline.spilled if where == device]
        memory = replace(
            memory,
            capacity=(capacities or {}).get(memory.device),
            spilled=sum(spilled),
            spilled_ns=sum(load_ns(device.label, bytes) for bytes in spilled),
        )
        if memory.peak:
            is_host = device == HOST_DEVICE
            found.append(memory if is_host else _streamed(memory, runs, load_ns))
    return PlannedMemory(MemoryPlan(tuple(found)), sizes)


def _streamed(memory: DeviceMemory, runs: Sequence[Inside], load_ns: LoadNs) -> DeviceMemory:
    """Returns the memory of a device; where not all weights fit, with those it loads again."""
    if memory.fits or memory.capacity is None:
        return memory
    loads = [_loads(run, number) for number, run in enumerate(runs)]
    lasting = memory.shared - sum({k: b for wanted in loads for k, b in wanted.items()}.values())
    room = memory.capacity - memory.state - memory.transient - lasting
    found = streaming(loads, room)
    if found.resident > room:
        return memory
    time = load_ns(memory.device, found.loaded)
    shared = lasting + found.resident
    return replace(memory, shared=shared, streamed=found.loaded, streamed_ns=time)


def _loads(run: Inside, number: int) -> dict[tuple[int, str | int], int]:
    """Returns the bytes of weights, which other runs may read, and of the constants of a run."""
    loads: dict[tuple[int, str | int], int] = {
        (-1, key): size_class(bytes) for key, bytes in run.weights.items()
    }
    loads.update(((number, i), size_class(bytes)) for i, bytes in enumerate(run.constants))
    return loads


Rounding = Callable[[int], int]

Places = Mapping[int, int]
"""The bytes of the places of values, by the identity of the buffer that each is in."""


def _on_host(
    device: DeviceAttr, here: Sequence[Held], runs: Sequence[Inside]
) -> tuple[DeviceMemory, Places]:
    values = most_alive(_blocks(h for h in here if h.owner == "call" and not h.is_given))
    results = most_alive(_blocks(h for h in here if h.owner == "call" and h.is_given))
    workspace = sum(sum(each.workspace) for each in runs)
    shared, state = _shared(here, runs, int), _state(here, int)
    return DeviceMemory(device.label, shared, state, values, workspace, results), {}


def _on_device(
    device: DeviceAttr, here: Sequence[Held], runs: Sequence[Inside]
) -> tuple[DeviceMemory, Places]:
    reused = [h for h in here if h.owner == "call" and not h.is_given]
    given = [h for h in here if h.owner == "call" and h.is_given]
    results = slots.assign(_blocks(given, size_class)).bytes
    shares = slots.assign(_blocks(reused, size_class))
    places = {id(held): shares.size_of(index) for index, held in enumerate(reused)}
    workspace = sum(shared_workspace([each.workspace for each in runs]))
    shared, state = _shared(here, runs, size_class), _state(here, size_class)
    return DeviceMemory(device.label, shared, state, shares.bytes, workspace, results), places


def _blocks(held: Iterable[Held], rounded: Rounding = int) -> list[Block]:
    return [Block(rounded(each.bytes), each.spans(), each.choices()) for each in held]


def _shared(here: Sequence[Held], runs: Sequence[Inside], rounded: Rounding) -> int:
    weights = {key: bytes for run in runs for key, bytes in run.weights.items()}
    leaves = [held.bytes for held in here if held.owner == "leaf"]
    constants = [bytes for run in runs for bytes in run.constants]
    reports = [run.report for run in runs if run.report]
    return sum(map(rounded, (*weights.values(), *leaves, *constants, *reports)))


def _state(here: Sequence[Held], rounded: Rounding) -> int:
    return sum(rounded(held.bytes) for held in here if held.owner == "state")
