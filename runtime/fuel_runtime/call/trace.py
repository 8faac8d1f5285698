# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows one arm of each branch of a function, which leaves a straight list of calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.ops.base import tensor_type
from fuel_dialect.ops.control import BranchOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_passes.planning.residency import HOST_DEVICE, argument_devices, result_devices
from fuel_runtime.call.route import Call, Route, Transfer
from fuel_runtime.call.survey import Survey, single_block
from fuel_runtime.picker.static import Choice


def trace(function: FuncOp, survey: Survey, choices: Mapping[BranchOp, Choice]) -> Route:
    """
    The route of some choices: what a branch gives is what its chosen arm yields.

    Runs whose results only arms that are not chosen read are left out. A value goes to a device
    once; arguments that only the host reads need no transfer, wherever they come from.
    """
    tracer = _Tracer(survey, choices)
    body = single_block(function)
    for index, argument in enumerate(body.args):
        tracer.names[argument] = f"a{index}"
    tracer.walk(body)
    end = body.last_op
    values = () if end is None else end.operands
    devices = result_devices(function)
    results = tuple(tracer.at(v, d) for v, d in zip(values, devices, strict=True))
    calls = _read_calls(tracer.calls, results)
    declared = argument_devices(function, body)
    away = {i for i, device in enumerate(declared) if device != HOST_DEVICE}
    return _without_idle_transfers(Route(calls, results, frozenset(tracer.branches)), away)


def _read_calls(calls: Sequence[Call], results: Iterable[str]) -> tuple[Call, ...]:
    """The calls that a result depends on."""
    wanted = set(results)
    kept: list[Call] = []
    for call in reversed(calls):
        if not wanted.isdisjoint(call.outputs):
            wanted.update(call.inputs)
            kept.append(call)
    return tuple(reversed(kept))


def _without_idle_transfers(route: Route, away: set[int]) -> Route:
    """The route without transfers to the host of arguments that nothing else reads."""
    given = [t for t in route.transfers if t.origin is None]
    away = away | {int(t.source[1:]) for t in given if t.to != HOST_DEVICE}
    idle = [t for t in given if int(t.source[1:]) not in away]
    if not idle:
        return replace(route, mobile=frozenset(away))
    same = {transfer.result: transfer.source for transfer in idle}

    def renamed(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(same.get(name, name) for name in names)

    calls = tuple(replace(c, inputs=renamed(c.inputs)) for c in route.calls if c not in idle)
    return replace(route, calls=calls, results=renamed(route.results), mobile=frozenset(away))


class _Tracer:
    """Walks blocks in order, and brings values to where they are read."""

    def __init__(self, survey: Survey, choices: Mapping[BranchOp, Choice]):
        self.survey = survey
        self.choices = choices
        self.names: dict[SSAValue, str] = {}
        self.calls: list[Call] = []
        self.branches: set[BranchOp] = set()
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
            self.names[op.result] = self.at(op.input, op.to)
        elif op in self.survey.leaves:
            name = self.names[op.results[0]] = self.survey.leaves[op]
            self._lives(name, HOST_DEVICE)

    def _lives(self, name: str, device: DeviceAttr) -> None:
        self.homes[name] = device
        self.copies[name, device] = name

    def at(self, value: SSAValue, device: DeviceAttr) -> str:
        """The name of a value on a device, where it is brought unless it is there."""
        name = self.names[value]
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
        self.calls.append(Transfer(move, (name,), (made,), type, origin, device))
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
        self.calls.append(Call(name, inputs, outputs, reuses=run.reused()))

    def _follow(self, branch: BranchOp) -> None:
        self.branches.add(branch)
        block = branch.arm_regions[self.choices[branch].arm].block
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
