# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Straight code: steps, each a few NumPy calls that fill one array, and where the arrays lie.

A step may write over an operand that nobody reads afterwards, so that a chain of ufuncs runs in
one array: the result's own where it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from fuel_lowering.numpy.buffers import Buffer
from fuel_lowering.numpy.values import SCRATCH, Ref, computed
from fuel_lowering.numpy.writer import FunctionWriter

Scope = Literal["element", "row", "whole"]


@dataclass(frozen=True)
class Temp:
    """An array of the result's shape that a step needs while it runs."""

    dtype: str | None = None
    """A NumPy name; None: the result's."""

    def dtype_for(self, result: Ref) -> np.dtype[Any]:
        return np.dtype(self.dtype) if self.dtype else result.dtype


@dataclass(frozen=True)
class Recipe:
    """
    Lines of source that compute one array.

    In a line, `{0}` is an operand, `{y}` the result, `{t0}` a temporary and `{axis}` the axes that
    the step is along. `scope` says how much
    of the operands a part of the result depends on. The result may lie where one of the operands
    `reuse` lay. `allocates`: the one line is a call that makes an array of the result's dtype when
    it is given none. `checks` are lines that stand even if the result is empty.
    """

    lines: tuple[str, ...]
    scope: Scope = "whole"
    reuse: tuple[int, ...] = ()
    temps: tuple[Temp, ...] = ()
    allocates: bool = False
    checks: tuple[str, ...] = ()


COPY = Recipe(("copyto({y}, {0})",), "element")


@dataclass(eq=False)
class Step:
    """A recipe at work. `fills` gives the view of the result that the lines fill, where not all."""

    recipe: Recipe
    operands: tuple[Ref, ...]
    result: Ref
    fills: Callable[[Ref], Ref] | None = None
    axes: tuple[int, ...] = ()

    @property
    def results(self) -> Sequence[Ref]:
        return (self.result,)

    def emit(self, straight: Straight) -> None:
        straight.emit_recipe(self)


def copied(value: Ref) -> Step:
    """A step that copies a value into an array of its own."""
    return Step(COPY, (value,), computed(value.shape, value.dtype, value.hint))


@dataclass(eq=False)
class Place:
    """Represents the place of a result: the name of an array, and its buffer, if any."""

    text: str
    home: int
    buffer: Buffer | None = None
    fresh: bool = False
    """Nothing has made the array yet."""

    @staticmethod
    def of(buffer: Buffer) -> Place:
        return Place(buffer.name, SCRATCH, buffer)

    def hold(self, ref: Ref) -> None:
        """Let a value lie here."""
        ref.text, ref.home, ref.buffer = self.text, self.home, self.buffer

    def make(self, writer: FunctionWriter, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Allocate the array if that is still to be done."""
        if self.fresh:
            writer.empty(self.text, shape, dtype)
            self.fresh = False


# Which steps are needed, and which results share an array.


def needed(steps: Sequence[Step], wanted: Collection[Ref]) -> list[Step]:
    """The steps that some of the wanted values depend on."""
    read = {ref.root for ref in wanted}
    found: list[Step] = []
    for step in reversed(steps):
        if not read.isdisjoint(step.results):
            found.append(step)
            read.update(operand.root for operand in step.operands)
    return found[::-1]


def last_uses(steps: Sequence[Step]) -> dict[Ref, int]:
    """For each value that owns memory, the last step that reads it."""
    return {operand.root: i for i, step in enumerate(steps) for operand in step.operands}


def chains(
    steps: Sequence[Step], kept: Collection[Ref], given: Collection[Ref] = ()
) -> dict[Ref, list[Ref]]:
    """
    Results that lie in one array, one after the other: a list for each, shared by its members.

    A result takes the place of an operand that dies at its step; values in `kept` live on. The
    place of a `given` operand may be taken too, and is where there is a choice.
    """
    last = last_uses(steps)
    found: dict[Ref, list[Ref]] = {value: [value] for value in given}
    for index, step in enumerate(steps):
        dying = [
            operand
            for operand in (step.operands[position] for position in step.recipe.reuse)
            if operand in found
            and operand not in kept
            and last[operand] == index
            and may_take_over(step, operand)
        ]
        over = next((operand for operand in dying if found[operand][0] in given), None)
        members = found[over or dying[0]] if dying else []
        members.append(step.result)
        found[step.result] = members
        found.update((other, [other]) for other in step.results if other is not step.result)
    return found


def may_take_over(step: Step, value: Ref) -> bool:
    """Returns True if the result may lie where `value` lies, as far as this step is concerned."""
    result = step.result
    if step.fills is not None or (value.shape, value.dtype) != (result.shape, result.dtype):
        return False
    readers = [i for i, operand in enumerate(step.operands) if operand.root is value.root]
    return all(i in step.recipe.reuse and step.operands[i] is value for i in readers)


@dataclass(eq=False)
class Chain:
    """The results that lie in one array; the place is chosen when the first is computed."""

    members: list[Ref]
    place: Place | None = None


MakeBuffer = Callable[[str | None, tuple[int, ...], np.dtype[Any]], Buffer]


class Straight:
    """
    Writes steps one after the other.

    `places` says where some of the results go; values in `kept` outlive the steps too. `given` are
    operands that lie in such a place.
    """

    def __init__(
        self,
        writer: FunctionWriter,
        steps: Sequence[Step],
        places: Mapping[Ref, Place],
        kept: Collection[Ref] = (),
        make_buffer: MakeBuffer | None = None,
        given: Collection[Ref] = (),
    ):
        self.writer = writer
        self.steps = steps
        self.make_buffer = make_buffer or writer.buffer
        outlive = {*places, *kept}
        self.kept = outlive
        self.read = {*last_uses(steps), *outlive}
        made: dict[int, Chain] = {}
        self.chain_of: dict[Ref, Chain] = {}
        for ref, members in chains(steps, outlive, given).items():
            chain = made.setdefault(id(members), Chain(members))
            chain.place = places.get(ref, chain.place)
            self.chain_of[ref] = chain

    def write(self) -> None:
        for step in self.steps:
            self.writer.clock += 1
            step.emit(self)
        self.writer.clock += 1
        self.writer.touch(self.kept)

    def place_of(self, ref: Ref) -> Place:
        """Sets the place of a result, from now on."""
        chain = self.chain_of[ref]
        if chain.place is None:
            hint = chain.members[-1].hint
            chain.place = Place.of(self.make_buffer(hint, ref.shape, ref.dtype))
        chain.place.hold(ref)
        self.writer.touch([ref])
        return chain.place

    def emit_recipe(self, step: Step) -> None:
        writer, result, recipe = self.writer, step.result, step.recipe
        operands = [writer.text(operand) for operand in step.operands]
        writer.touch(step.operands)
        for line in recipe.checks:
            writer.check(line.format(*operands))
        place = self.place_of(result)
        if prod(result.shape) and place.fresh and self._allocates(step):
            place.fresh = False
            writer.line(_allocating(step, operands, place.text))
            return
        place.make(writer, result.shape, result.dtype)
        if not prod(result.shape):
            return
        fields = {"y": writer.text(step.fills(result) if step.fills else result)}
        if step.axes:
            fields["axis"] = str(step.axes[0] if len(step.axes) == 1 else step.axes)
        for number, temp in enumerate(recipe.temps):
            buffer = self.make_buffer("t", result.shape, temp.dtype_for(result))
            fields[f"t{number}"] = buffer.name
        for line in recipe.lines:
            writer.line(line.format(*operands, **fields))

    def _allocates(self, step: Step) -> bool:
        """Returns True if the first call of a chain may make the array: it has the shape."""
        full = any(o.array_shape == step.result.shape for o in step.operands)
        return step.recipe.allocates and full and bool(step.result.shape)


def _allocating(step: Step, operands: Sequence[str], name: str) -> str:
    """The one line of a recipe, without `out`; row-major whatever the operands are."""
    (line,) = step.recipe.lines
    order = ', order="C"' if len(step.result.shape) > 1 else ""
    call = line.replace(", out={y})", ", {y})").replace(", {y})", order + ")")
    return f"{name} = {call.format(*operands)}"


def assign(
    yielded: Sequence[tuple[Ref, Place]], steps: list[Step], own: Collection[Ref]
) -> dict[Ref, Place]:
    """
    The result that fills each place.

    A value that no step of `own` computes for this place alone is copied, by a step that is added.
    """
    places: dict[Ref, Place] = {}
    for value, place in yielded:
        if value not in own or value in places:
            steps.append(copied(value))
            value = steps[-1].result
        places[value] = place
    return places
