# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Finds the buffers of an optimised function, the device of each, and when it is alive.

The clock ticks at each run, transfer and return. The arms of a branch have ticks of their own, one
arm after the other: what lives in one arm alone is alive at none of another's, so one timeline
holds every route through the function, and buffers of different arms can share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block as Body
from xdsl.ir import Operation, SSAValue

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.ops.control import BranchOp, RunOp
from fuel_dialect.ops.memory import MoveOp, TransferOp, WeightOp
from fuel_dialect.state import donations
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.memory.spans import Choice, Span, merged, without
from fuel_passes.planning.prices import size_of
from fuel_passes.planning.residency import HOST_DEVICE, argument_devices, result_devices

Owner = Literal["call", "caller", "state", "leaf"]
"""Who has a buffer: the call that makes it, the caller, the state, or all calls."""


@dataclass(eq=False)
class Region:
    """Represents the ticks of one arm, and those of its whole branch."""

    branch: list[int]
    """The first tick of the branch and, once it is known, the last."""
    first: int
    last: int = -1


@dataclass(eq=False)
class Held:
    """Represents a buffer on a device: what it holds, when, and whether the caller gets it."""

    name: str
    device: DeviceAttr
    bytes: int
    owner: Owner
    born: int
    regions: tuple[Region, ...]
    reads: list[tuple[int, tuple[Region, ...]]] = field(
        default_factory=list[tuple[int, tuple[Region, ...]]]
    )
    made_in: tuple[Region, ...] = ()
    """The arms of a branch, one of which makes what it is a copy of, where it is not in one."""
    is_argument: bool = False
    """True for a copy of an argument on another device."""
    is_given: bool = False
    """True if the caller or the state has it when the function has returned."""

    def spans(self) -> tuple[Span, ...]:
        """Returns the moments in which it is alive, those of routes that do not use it left out."""
        found: list[Span] = [(self.born, self.born)]
        for tick, regions in self.reads:
            shared = {id(region) for region in self.regions} & {id(region) for region in regions}
            holes = [
                hole
                for region in (*self.regions, *regions)
                if id(region) not in shared
                for hole in _others(region)
            ]
            found += without((self.born, tick), holes)
        return merged(found)

    def is_on(self, device: DeviceAttr) -> bool:
        """Returns True if nothing is brought to a device to be read there."""
        return self.device == device and (self.owner != "caller" or device == HOST_DEVICE)

    def choices(self) -> tuple[Choice, ...]:
        """Returns the arms in which it is made, the outermost first."""
        own = tuple(_choice((region,)) for region in self.regions)
        return (*own, _choice(self.made_in)) if self.made_in else own

    def may_reach(self, regions: Sequence[Region]) -> bool:
        """Returns True if a route comes from where it is made to some arms."""
        own = {id(region.branch): region for region in self.regions}
        return all(own.get(id(region.branch), region) is region for region in regions)

    def is_within(self, regions: Sequence[Region]) -> bool:
        """Returns True if it is made inside of some arms."""
        return self.regions[: len(regions)] == tuple(regions)

    def is_sure(self, regions: Sequence[Region]) -> bool:
        """Returns True if every route that comes to some arms has made it."""
        return self.regions == tuple(regions[: len(self.regions)])


def _choice(regions: Sequence[Region]) -> Choice:
    return regions[0].branch[0], frozenset(region.first for region in regions)


def _others(region: Region) -> tuple[Span, Span]:
    """Returns the ticks of a branch before and after one arm of it."""
    first, last = region.branch
    return (first, region.first - 1), (region.last + 1, last)


Key = tuple[SSAValue, DeviceAttr]
RunsArm = Callable[[BranchOp, int], bool]


@dataclass
class Timeline:
    """Holds the buffers of a function by device, and its runs with the tick of each."""

    held: list[Held] = field(default_factory=list[Held])
    made: dict[Key, Held] = field(default_factory=dict[Key, Held])
    """The buffer of each result of a run, and of each transfer, on its device."""
    runs: list[RunOp] = field(default_factory=list[RunOp])
    spilled: list[tuple[DeviceAttr, int]] = field(default_factory=list[tuple[DeviceAttr, int]])
    """The transfers for want of room on a device, there and back, and the bytes of each."""


def timeline_of(function: FuncOp, runs_arm: RunsArm = lambda branch, arm: True) -> Timeline:
    """
    Returns the buffers that calls of an optimised function take.

    Arguments are taken to come from the host: one that is read on another device takes a copy
    there, and one that is declared to be on another device a copy on the host, if it is read there.
    Arms for which `runs_arm` is false are left out.
    """
    walker = _Walker(function, runs_arm)
    walker.walk(function.body.block)
    walker.finish()
    return walker.timeline


class _Walker:
    """Visits the ops of a function in order, and brings values to where they are read."""

    def __init__(self, function: FuncOp, runs_arm: RunsArm):
        self.function = function
        self.runs_arm = runs_arm
        self.timeline = Timeline()
        self.clock = 0
        self.regions: tuple[Region, ...] = ()
        self.values: dict[SSAValue, tuple[Held, ...]] = {}
        """The buffers in one of which a value is, by what the route was."""
        self.roots: dict[SSAValue, SSAValue] = {}
        self.copies: dict[Key, list[Held]] = {}
        self.given_up: set[SSAValue] = set()
        """The values that were moved away from where they were made."""
        donated = donations(function)
        block = function.body.block
        devices = argument_devices(function, block)
        for index, (argument, device) in enumerate(zip(block.args, devices, strict=True)):
            owner: Owner = "state" if index in donated else "caller"
            self._hold(argument, _name(argument, f"argument {index}"), device, owner)

    def _hold(self, value: SSAValue, name: str, device: DeviceAttr, owner: Owner) -> Held:
        bytes = size_of(tensor_type(value))
        held = Held(name, device, bytes, owner, self.clock, self.regions)
        self.timeline.held.append(held)
        self.timeline.made[value, device] = held
        self.values[value] = (held,)
        return held

    def walk(self, block: Body) -> None:
        """Visits all ops of a block but its terminator."""
        for op in block.ops:
            if isinstance(op, RunOp):
                self._run(op)
            elif isinstance(op, TransferOp):
                self._transfer(op)
            elif isinstance(op, BranchOp):
                self._branch(op)
            elif op.has_trait(Leaf):
                self._leaf(op)

    def _leaf(self, op: Operation) -> None:
        name = op.key.data if isinstance(op, WeightOp) else _name(op.results[0], "constant")
        self._hold(op.results[0], name, HOST_DEVICE, "leaf")

    def _run(self, run: RunOp) -> None:
        self.clock += 1
        device = run.target.device
        given = [self._at(value, device) for value in run.inputs]
        self._read(chain.from_iterable(given))
        self.timeline.runs.append(run)
        reused = run.reused()
        for index, output in enumerate(run.outputs):
            if index in reused:
                self.values[output] = given[reused[index]]
            else:
                self._hold(output, _name(output, f"result {index} of a run"), device, "call")

    def _transfer(self, op: TransferOp) -> None:
        root, before, clock = self._root(op.input), self.values.get(op.input, ()), self.clock
        leaves, returns = _is_spill(op), _is_spill(op.input.owner)
        self.values[op.result] = self._at(op.input, op.to, op.result)
        self.roots[op.result] = root
        if (leaves or returns) and self.clock > clock:
            self.timeline.spilled += [(op.to if returns else h.device, h.bytes) for h in before[:1]]
        if isinstance(op, MoveOp):
            self.given_up.add(root)
            for key in [k for k in self.copies if k[0] == root and k[1] != op.to]:
                del self.copies[key]

    def _root(self, value: SSAValue) -> SSAValue:
        return self.roots.get(value, value)

    def _at(
        self, value: SSAValue, device: DeviceAttr, result: SSAValue | None = None
    ) -> tuple[Held, ...]:
        """Returns the buffers of a value on a device, where it is brought unless it is there."""
        sources = self.values.get(value, ())
        there = [held for held in sources if held.is_on(device)]
        if len(there) == len(sources):
            return tuple(there)
        root = self._root(value)
        home = () if root in self.given_up else self.values.get(root, ())
        if home and all(held.is_on(device) for held in home):
            return home
        key = root, device
        known = [held for held in self.copies.get(key, ()) if held.may_reach(self.regions)]
        if not any(held.is_sure(self.regions) for held in known):
            self.clock += 1
            self._read(sources)
            first = sources[0]
            owner: Owner = "leaf" if first.owner == "leaf" else "call"
            held = Held(first.name, device, first.bytes, owner, self.clock, self.regions)
            held.is_argument = any(h.is_argument or h.owner in ("caller", "state") for h in sources)
            held.made_in = self._further_in([h for h in sources if not h.is_on(device)])
            self.timeline.held.append(held)
            self.timeline.made[value if result is None else result, device] = held
            self.copies.setdefault(key, []).append(held)
            known.append(held)
        return (*there, *known)

    def _further_in(self, sources: Sequence[Held]) -> tuple[Region, ...]:
        """Returns the arms that make the sources of a copy, if a branch before it does."""
        depth = len(self.regions)
        if not all(len(h.regions) > depth and h.is_within(self.regions) for h in sources):
            return ()
        arms = dict.fromkeys(held.regions[depth] for held in sources)
        return tuple(arms) if len({id(arm.branch) for arm in arms}) == 1 else ()

    def _read(self, buffers: Iterable[Held]) -> None:
        for held in buffers:
            held.reads.append((self.clock, self.regions))

    def _branch(self, branch: BranchOp) -> None:
        outside, ends = self.regions, [self.clock + 1, -1]
        given: list[tuple[Held, ...]] = [() for _ in branch.outputs]
        for number, region in enumerate(branch.arm_regions):
            if not self.runs_arm(branch, number):
                continue
            self.clock += 1
            arm = Region(ends, self.clock)
            self.regions = (*outside, arm)
            block = region.block
            for argument, value in zip(block.args, branch.inputs, strict=True):
                self.values[argument] = self.values.get(value, ())
                self.roots[argument] = self._root(value)
            self.walk(block)
            arm.last = self.clock
            end = block.last_op
            for index, value in enumerate(() if end is None else end.operands):
                given[index] = tuple(dict.fromkeys((*given[index], *self.values.get(value, ()))))
        ends[1], self.regions = self.clock, outside
        self.values.update(zip(branch.outputs, given, strict=True))

    def finish(self) -> None:
        """Brings the results to where they are wanted; each has memory of its own."""
        end = self.function.body.block.last_op
        results = () if end is None else end.operands
        wanted = list(zip(results, result_devices(self.function), strict=True))
        brought = [self._at(value, device) for value, device in wanted]
        self.clock += 1
        states = {result: index for index, result in donations(self.function).items()}
        kept = {h for i, found in enumerate(brought) if i in states for h in found}
        given: set[Held] = set()
        for index, found in enumerate(brought):
            self._read(found)
            for held in found:
                is_value = held.owner == "call" and not held.is_argument
                is_member = index in states and (held.owner == "state" or held.is_argument)
                is_own = is_value or is_member
                if is_own and held not in given and (index in states or held not in kept):
                    held.is_given = True
                else:
                    self._copy(held)
                given.add(held)

    def _copy(self, held: Held) -> None:
        """Adds the copy that a result is of an argument, a leaf or another result."""
        name, device = f"copy of {held.name}", held.device
        copied = Held(name, device, held.bytes, "call", self.clock, (), is_given=True)
        self.timeline.held.append(copied)


def _is_spill(owner: Operation | Body) -> bool:
    """Returns True for what lets a value wait on the host; see `fuel-spill-values`."""
    return isinstance(owner, MoveOp) and owner.planned is not None


def _name(value: SSAValue, otherwise: str) -> str:
    return value.name_hint or otherwise
