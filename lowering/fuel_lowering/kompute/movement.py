# SPDX-License-Identifier: MIT OR Apache-2.0
"""Renders the pieces of movement ops as guarded loads of one point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from xdsl.ir import SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.layout import Layout
from fuel_dialect.movement import MovementOp, Pick, Position
from fuel_dialect.reference.precision import scalar
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.form import Form, Load
from fuel_lowering.kernels.indexing import address
from fuel_lowering.kernels.movement import Bound, Index, Source
from fuel_lowering.kompute.writer import Shader, hint_of
from fuel_lowering.runs.emitter import CHECK
from fuel_lowering.scalars.values import Value


class Reader(Protocol):
    """The writer of a shader, which knows what its points read."""

    shader: Shader
    form: Any

    def dtype(self, value: SSAValue) -> DType:
        """Returns the element type that the shader gives to a value."""
        ...

    def value(self, value: SSAValue) -> Value:
        """Returns a value at the point."""
        ...

    def element(self, value: SSAValue, load: Load | None, place: str) -> Value:
        """Returns the element of an operand at a place."""
        ...

    def constant(self, number: np.ndarray[Any, Any]) -> Value:
        """Returns a constant."""
        ...


@dataclass(frozen=True)
class _Part:
    """A piece as text: the conditions under which it has the point, and where it reads."""

    source: Source
    conditions: Sequence[str]
    place: str


class PieceReader:
    """
    Writes the value of one movement op at a point.

    `point` has the coordinates over the axes of the layouts, `coordinates` those along axes of the
    result.
    """

    def __init__(
        self,
        reader: Reader,
        op: MovementOp,
        sources: Sequence[Source],
        point: Sequence[str],
        coordinates: Mapping[int, str],
    ):
        self.reader = reader
        self.shader = reader.shader
        self.op = op
        self.sources = sources
        self.point = point
        self.coordinates = coordinates

    def write(self) -> Value:
        """Writes a variable: the lowest piece, then the topmost that has the point."""
        result, sources = self.op.results[0], list(self.sources)
        dtype, first = self.reader.dtype(result), self._lowest(sources)
        self.name = self.shader.code.fresh(hint_of(result, "moved"))
        self.shader.line(self.shader.code.language.let(self.name, first.register, first.text))
        opened = False
        for part in reversed([self._part(source) for source in sources]):
            self._choose(part, opened)
            opened = True
            if not part.conditions:
                break
        return Value(self.name, dtype)

    def _lowest(self, sources: list[Source]) -> Value:
        """Returns the value where no further piece is; takes a whole operand off the sources."""
        if sources and sources[0].is_whole:
            return self.reader.value(sources.pop(0).value)
        return self._fill() or self.shader.code.number(0, self.reader.dtype(self.op.results[0]))

    def _fill(self) -> Value | None:
        fill = self.op.fill()
        if fill is None:
            return None
        dtype = dtypes.of_type(tensor_type(self.op.results[0]))
        return self.reader.constant(scalar(fill, dtype.numpy))

    def _choose(self, part: _Part, opened: bool) -> None:
        """Writes the branch of a piece."""
        shader = self.shader
        word = "else " if opened else ""
        if part.conditions:
            shader.open(f"{word}if ({' && '.join(part.conditions)})")
        elif opened:
            shader.open("else")
        self._assign(part)
        if part.conditions or opened:
            shader.close()

    def _part(self, source: Source) -> _Part:
        """Returns the text of a piece; what its position needs is written before."""
        conditions = [self._condition(bound) for bound in source.bounds]
        place = "" if source.load is None else address(source.load.layout, self.point)
        index = source.index
        if index is not None and isinstance(index.at, Position):
            at, more = self._along_axis(index, index.at)
            return _Part(source, [*conditions, *more], _moved(place, index, at))
        return _Part(source, conditions, place)

    def _condition(self, bound: Bound) -> str:
        at = self.coordinates[bound.axis]
        if not bound.start:
            return f"{at} < {bound.end}u"
        if bound.end == bound.extent:
            return f"{at} >= {bound.start}u"
        return f"{at} - {bound.start}u < {bound.end - bound.start}u"

    def _assign(self, part: _Part) -> None:
        """Writes the line that reads an element of a piece."""
        source, index = part.source, part.source.index
        if index is not None and isinstance(index.at, Pick):
            self._picked(part, index, index.at)
            return
        term = self.reader.element(source.value, source.load, part.place)
        self.shader.line(f"{self.name} = {term.text};")

    def _picked(self, part: _Part, index: Index, at: Pick) -> None:
        """Reads the element at an index; one out of range is reported, clamped or filled."""
        shader, source = self.shader, part.source
        number, extent = self._number(index, at.out_of_range == "clamp"), index.extent
        if at.out_of_range == "clamp":
            number = shader.index(f"min({number}, {extent - 1}u)", "row")
        else:
            shader.open(f"if ({number} < {extent}u)")
        term = self.reader.element(source.value, source.load, _moved(part.place, index, number))
        shader.line(f"{self.name} = {term.text};")
        if at.out_of_range == "clamp":
            return
        shader.close()
        fill = self._fill() if at.out_of_range == "fill" else None
        told = f"{self.name} = {fill.text};" if fill else self.report_out_of_bounds()
        shader.line(f"else {told}")

    def _number(self, index: Index, clamps: bool) -> str:
        """Returns an index or a position, unsigned; a negative one becomes 0 or a large one."""
        if index.is_repeated:
            number = self.reader.value(index.value)
        else:
            assert index.load is not None
            place = address(index.load.layout, self.point)
            number = self.reader.element(index.value, index.load, place)
        return unsigned(number, clamps)

    def report_out_of_bounds(self) -> str:
        """Returns the statement that reports the op in the status word."""
        return report_out_of_bounds(self.shader, self.reader.form, self.op)

    def _along_axis(self, index: Index, at: Position) -> tuple[str, list[str]]:
        """Returns the element that a point has along the axis, and the conditions of having one."""
        shader, point = self.shader, self.coordinates[at.axis]
        begin = begin_of(shader, index, at, self._number(index, at.out_of_range == "clamp"))
        if at.modulus is not None:
            around = f"{point} - {begin} + ({point} < {begin} ? {at.modulus}u : 0u)"
            place = shader.index(around, "place")
            return place, [f"{point} < {at.modulus}u", f"{place} < {index.width}u"]
        place = shader.index(f"{point} - {begin}", "place")
        inside = f"{place} < {index.width}u"
        if at.out_of_range == "clamp":
            return place, [inside]
        last = index.extent - index.width
        shader.line(f"if ({begin} > {last}u) {self.report_out_of_bounds()}")
        return place, [f"{begin} <= {last}u", inside]


def unsigned(number: Value, clamps: bool) -> str:
    """Returns an index as `uint`; a negative one becomes 0 if it is clamped, else a large one."""
    if number.register == "ui32":
        return number.text
    return f"uint(max({number.text}, 0))" if clamps else f"uint({number.text})"


def begin_of(shader: Shader, index: Index, at: Position, position: str) -> str:
    """Returns the start of a piece along its axis: the position, in the ring or clamped."""
    if at.modulus is not None:
        return shader.index(f"{position} % {at.modulus}u", "begin")
    if at.out_of_range == "clamp":
        return shader.index(f"min({position}, {index.extent - index.width}u)", "begin")
    return shader.index(position, "begin")


def report_out_of_bounds(shader: Shader, form: Form, op: MovementOp) -> str:
    """Returns the statement that writes the number of an op to the status word."""
    number = form.checks.index(op)
    wrong = f"{CHECK} + {number}" if number else CHECK
    return f"{shader.status()}[0] = {wrong};"


def _moved(place: str, index: Index, at: str) -> str:
    """Returns a place moved along the axis of an index by a coordinate."""
    step = Layout((index.width,), (index.stride,), 0)
    return f"{place} + {address(step, [at])}".removeprefix("0 + ")
