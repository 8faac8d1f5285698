# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows one arm of each branch of a function, which leaves a straight list of calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.ops.control import BranchOp, RunOp
from fuel_dialect.ops.memory import MoveOp, TransferOp
from fuel_dialect.tensors import tensor_type
from fuel_passes.planning.residency import HOST_DEVICE, argument_devices, result_devices
from fuel_runtime.call.route import Call, Route, Transfer
from fuel_runtime.call.survey import Survey, single_block

Sizes = Mapping[tuple[SSAValue, DeviceAttr], int]
NO_SIZES: Sizes = MappingProxyType({})


def route_of(
    function: FuncOp,
    survey: Survey,
    choices: Mapping[BranchOp, int],
    mobile: frozenset[int] | None = None,
    sizes: Sizes = NO_SIZES,
) -> Route:
    """
    Returns the route of some choices: what a branch gives is what its chosen arm yields.

    `mobile` holds the arguments that some route reads away from the host; by default those that
    this one does. `sizes` has the bytes of the memory of values that are brought to devices.

    Runs whose results only arms that are not chosen read are left out. A value goes to a device
    once; arguments that only the host reads need no transfer, wherever they come from.
    """
    tracer = _Tracer(survey, choices, sizes)
    body = single_block(function)
    for index, argument in enumerate(body.args):
        tracer.names[argument] = f"a{index}"
    tracer.walk(body)
    end = body.last_op
    values = () if end is None else end.operands
    devices = result_devices(function)
    results = tuple(tracer.at(v, d) for v, d in zip(values, devices, strict=True))
    calls = _read_calls(tracer.calls, results)
    homes = {name: device.label for name, device in tracer.homes.items()}
    decisions = tuple((branch, choices[branch]) for branch in tracer.decisions)
    yields = tuple(tracer.yields[branch] for branch in tracer.decisions)
    offered = tuple(tracer.offered)
    route = Route(calls, results, decisions, frozenset(), yields, offered, homes)
    if mobile is None:
        given = [t for t in route.transfers if t.origin is None and t.to != HOST_DEVICE]
        mobile = frozenset(int(t.source[1:]) for t in given) | declared_away(function)
    return _without_idle_transfers(replace(route, mobile=mobile))


def declared_away(function: FuncOp) -> frozenset[int]:
    """Returns the arguments that are declared to be on another device than the host."""
    declared = argument_devices(function, single_block(function))
    return frozenset(i for i, device in enumerate(declared) if device != HOST_DEVICE)


def all_mobile(function: FuncOp, survey: Survey) -> frozenset[int]:
    """Returns the arguments that any arm that can run may read away from the host."""
    body = single_block(function)
    sources: dict[SSAValue, frozenset[int]] = {
        argument: frozenset((index,)) for index, argument in enumerate(body.args)
    }
    away: set[int] = set(declared_away(function))
    _flow(body, survey, sources, away)
    end = body.last_op
    for value, device in zip(end.operands if end else (), result_devices(function), strict=True):
        if device != HOST_DEVICE:
            away |= sources.get(value, NOWHERE)
    return frozenset(away)


NOWHERE = frozenset[int]()


def _flow(
    block: Block, survey: Survey, sources: dict[SSAValue, frozenset[int]], away: set[int]
) -> None:
    """Follow arguments through transfers and arms to where they are read."""
    for op in block.ops:
        if isinstance(op, RunOp):
            if op.target.device != HOST_DEVICE:
                away.update(*(sources.get(value, NOWHERE) for value in op.inputs))
        elif isinstance(op, TransferOp):
            sources[op.result] = sources.get(op.input, NOWHERE)
            if op.to != HOST_DEVICE:
                away |= sources[op.result]
        elif isinstance(op, BranchOp):
            for arm, region in zip(survey.decisions[op].arms, op.arm_regions, strict=True):
                if arm.unavailable is None:
                    _flow_arm(op, region.block, survey, sources, away)


def _flow_arm(
    branch: BranchOp,
    block: Block,
    survey: Survey,
    sources: dict[SSAValue, frozenset[int]],
    away: set[int],
) -> None:
    for argument, value in zip(block.args, branch.inputs, strict=True):
        sources[argument] = sources.get(value, NOWHERE)
    _flow(block, survey, sources, away)
    end = block.last_op
    for output, value in zip(branch.outputs, end.operands if end else (), strict=True):
        sources[output] = sources.get(output, NOWHERE) | sources.get(value, NOWHERE)


def _read_calls(calls: Sequence[Call], results: Iterable[str]) -> tuple[Call, ...]:
    """The calls that a result depends on."""
    wanted = set(results)
    kept: list[Call] = []
    for call in reversed(calls):
        if not wanted.isdisjoint(call.outputs):
            wanted.update(call.inputs)
            kept.append(call)
    return tuple(reversed(kept))


def _without_idle_transfers(route: Route) -> Route:
    """
    Returns the route without transfers to the host of arguments that come from the host.

    Only `mobile` arguments may come as arrays of another device.
    """
    given = [t for t in route.transfers if t.origin is None]
    idle = [t for t in given if int(t.source[1:]) not in route.mobile]
    if not idle:
        return route
    same = {transfer.result: transfer.source for transfer in idle}

    def renamed(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(same.get(name, name) for name in names)

    calls = tuple(replace(c, inputs=renamed(c.inputs)) for c in route.calls if c not in idle)
    yields, offered = (tuple(map(renamed, each)) for each in (route.yields, route.offered))
    results = renamed(route.results)
    return replace(route, calls=calls, results=results, yields=yields, offered=offered)


class _Tracer:
    """Walks blocks in order, and brings values to where they are read."""

    def __init__(self, survey: Survey, choices: Mapping[BranchOp, int], sizes: Sizes):
        self.sizes = sizes
        self.survey = survey
        self.choices = choices
        self.names: dict[SSAValue, str] = {}
        self.calls: list[Call] = []
        self.decisions: list[BranchOp] = []
        self.yields: dict[BranchOp, tuple[str, ...]] = {}
        self.offered: list[tuple[str, ...]] = []
        self.inside: tuple[int, ...] = ()
        self.counts = {"v": 0, "w": 0}
        self.homes: dict[str, DeviceAttr] = {}
        self.roots: dict[str, str] = {}
        self.copies: dict[tuple[str, DeviceAttr], str] = {}

    def walk(self, block: Block) -> None:
        """Visit all but the terminator of a block."""
        for op in block.ops:
            self._visit(op)

    def _visit(self, op: Operation) -> None:
        if isinstance(op, RunOp):
            self._call(op)
        elif isinstance(op, BranchOp):
            self._follow(op)
        elif isinstance(op, TransferOp):
            self.names[op.result] = self._moved(op)
            if isinstance(op, MoveOp):
                self._give_up(self.names[op.result], op.to)
        elif op in self.survey.leaves:
            name = self.names[op.results[0]] = self.survey.leaves[op]
            self._lives(name, HOST_DEVICE)

    def _moved(self, op: TransferOp) -> str:
        """Returns the name of what a transfer gives; arguments wait as the caller has them."""
        name = self.names[op.input]
        root = self.roots.get(name, name)
        waits = isinstance(op, MoveOp) and op.planned is not None and not root.startswith("v")
        return root if waits else self.at(op.input, op.to, op.result)

    def _give_up(self, name: str, device: DeviceAttr) -> None:
        """Forgets all copies of a value but that on one device: whoever reads it brings it."""
        root = self.roots.get(name, name)
        for key in [k for k in self.copies if k[0] == root and k[1] != device]:
            del self.copies[key]

    def _lives(self, name: str, device: DeviceAttr) -> None:
        self.homes[name] = device
        self.copies[name, device] = name

    def at(self, value: SSAValue, device: DeviceAttr, result: SSAValue | None = None) -> str:
        """Returns the name of a value on a device, where it is brought unless it is there."""
        name = self.names[value]
        if self.homes.get(name) == device:
            return name
        root = self.roots.get(name, name)
        known = self.copies.get((root, device))
        if known is not None:
            return known
        made = self._fresh("v" if root.startswith("v") else "w")
        self.homes[made] = device
        self.roots[made] = root
        self.copies[root, device] = made
        move = f"move_{made}"
        origin = self.homes.get(name)
        type = tensor_type(value)
        memory = self.sizes.get((value if result is None else result, device), 0)
        at = self._position()
        self.calls.append(
            Transfer(move, (name,), (made,), type, origin, device, memory=memory, **at)
        )
        return made

    def _fresh(self, letter: str) -> str:
        self.counts[letter] += 1
        return f"{letter}{self.counts[letter] - 1}"

    def _call(self, run: RunOp) -> None:
        device = run.target.device
        inputs = tuple(self.at(value, device) for value in run.inputs)
        outputs = tuple(self._fresh("v") for _ in run.outputs)
        for name in outputs:
            self._lives(name, device)
        self.names.update(zip(run.outputs, outputs, strict=True))
        name = self.survey.runs[run]
        self.calls.append(Call(name, inputs, outputs, reuses=run.reused(), **self._position()))

    def _position(self) -> dict[str, Any]:
        return {"after": len(self.decisions), "inside": self.inside}

    def _follow(self, branch: BranchOp) -> None:
        outside = self.inside
        self.inside = (*outside, len(self.decisions))
        self.decisions.append(branch)
        self.offered.append(tuple(self.names[value] for value in branch.inputs))
        block = branch.arm_regions[self.choices[branch]].block
        self.names.update(
            (argument, self.names[value])
            for argument, value in zip(block.args, branch.inputs, strict=True)
        )
        self.walk(block)
        end = block.last_op
        assert end is not None
        self.names.update(
            (output, self.names[value])
            for output, value in zip(branch.outputs, end.operands, strict=True)
        )
        self.yields[branch] = tuple(self.names[output] for output in branch.outputs)
        self.inside = outside
