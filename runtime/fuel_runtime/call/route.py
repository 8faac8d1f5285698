# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents a route: the calls that one choice of arms makes, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.tensors import AnyTensor


@dataclass(frozen=True)
class Call:
    """One function, called: its name, its arguments and the names of its results."""

    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reuses: Mapping[int, int] = field(default_factory=dict, kw_only=True)
    """The outputs that take over the buffer of an input, and that input."""
    after: int = field(default=0, kw_only=True)
    """The number of decisions that the route has come to before it."""
    inside: tuple[int, ...] = field(default=(), kw_only=True)
    """The numbers of the decisions in whose chosen arm it stands, the outermost first."""

    @property
    def unpacked(self) -> str:
        """The target of an assignment of the results: a function gives a tuple of them."""
        return tuple_of(self.outputs)[1:-1]


@dataclass(frozen=True)
class Transfer(Call):
    """
    A value, brought to another device.

    What is read on the device `to` by then is the result; the value itself stays where it is.
    """

    type: AnyTensor
    origin: DeviceAttr | None
    """The device of the value; None for an argument, which comes as the caller has it."""
    to: DeviceAttr
    memory: int = field(default=0, kw_only=True)
    """The least bytes of the memory of the result, where a plan has others use it afterwards."""

    @property
    def source(self) -> str:
        """The name of the value."""
        return self.inputs[0]

    @property
    def result(self) -> str:
        """The name of it on the other device."""
        return self.outputs[0]

    @property
    def unpacked(self) -> str:
        """The target of an assignment of the result: a transfer gives the value itself."""
        return self.result


Update = Literal["in place", "new", "none"]
"""A member of the state is written where it lies, changes places with a new buffer, or stays."""


@dataclass(frozen=True)
class Route:
    """
    The calls of one choice of arms, in order, and the names of what the function returns.

    Names: `a0`.. are arguments, `leaf0`.. leaves, `v0`.. values with memory of their own, and `w0`
    .. arguments and leaves on a device, which may be as they came.
    """

    calls: tuple[Call, ...]
    results: tuple[str, ...]
    decisions: tuple[tuple[BranchOp, int], ...]
    """The branches that the route comes to and the arm taken at each, in order."""
    mobile: frozenset[int] = frozenset()
    """Positions of the arguments that are read on, or declared to be on, another device."""
    yields: tuple[tuple[str, ...], ...] = ()
    """The names of what each decision gives, in the order of the decisions."""
    offered: tuple[tuple[str, ...], ...] = ()
    """The names of what the arms of each decision may read."""
    homes: Mapping[str, str] = field(default_factory=dict[str, str])
    """The label of the device that each value is on."""

    @property
    def branches(self) -> frozenset[BranchOp]:
        """The branches that the route comes to."""
        return frozenset(branch for branch, _ in self.decisions)

    @cached_property
    def makers(self) -> Mapping[str, Call]:
        """The call that gives each value."""
        return {output: call for call in self.calls for output in call.outputs}

    def root(self, name: str) -> tuple[str, int]:
        """Returns where a value comes from: a run and which of its results, or what was given."""
        call = self.makers.get(name)
        if call is None:
            return name, 0
        if isinstance(call, Transfer):
            return self.root(call.source)
        return call.function, call.outputs.index(name)

    @property
    def runs(self) -> list[str]:
        """The runs, in order."""
        return [call.function for call in self.calls if not isinstance(call, Transfer)]

    def update(self, argument: int, result: int) -> Update:
        """Returns how a donated argument becomes the result that is its next value."""
        makers = self.makers
        name, steps = self.results[result], 0
        while name in makers and name != f"a{argument}":
            call = makers[name]
            if isinstance(call, Transfer):
                name = call.source
                continue
            operand = call.reuses.get(call.outputs.index(name))
            if operand is None:
                return "new"
            name, steps = call.inputs[operand], steps + 1
        if name != f"a{argument}":
            return "new"
        return "in place" if steps else "none"

    @property
    def transfers(self) -> list[Transfer]:
        """The transfers, in order."""
        return [call for call in self.calls if isinstance(call, Transfer)]


def tuple_of(items: Sequence[str]) -> str:
    """Returns the text of a tuple."""
    return f"({', '.join(items)}{',' * (len(items) == 1)})"
