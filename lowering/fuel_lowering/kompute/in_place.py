# SPDX-License-Identifier: MIT OR Apache-2.0
"""
In-place writes, into memory that the result takes over: an invocation for each word it writes.

A word has one element of 32 bits or several neighbours of fewer; an element alone would take the
rest of its word along, so what does not begin and end between words is left to `map`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.movement import MovementOp, Position
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.indexing import address, coordinates, needs_64_bits
from fuel_lowering.kernels.map import InPlaceForm
from fuel_lowering.kernels.movement import Index
from fuel_lowering.kompute.map import LOCAL
from fuel_lowering.kompute.movement import begin_of, report_out_of_bounds, unsigned
from fuel_lowering.kompute.outputs import WORD
from fuel_lowering.kompute.writer import Shader, argument_name, hint_of, read_memory, shape_text
from fuel_lowering.runs.emitter import Emitted

WORDS = dtypes.BY_NAME["ui32"]


@dataclass(frozen=True)
class _Words:
    """Represents the layouts over the words of a source: of its elements, and of the target."""

    source: Layout
    target: Layout


def can_write_in_place(form: InPlaceForm) -> bool:
    """Returns True if all that is written are whole words."""
    return not (form.moves or form.unaligned) and _words(form) is not None


def emit_in_place(form: InPlaceForm) -> Emitted:
    """Returns one kernel with one launch."""
    title = f"{shape_text(form.source.value)} into {shape_text(form.results[0])}"
    shader = Shader(form, [title], (LOCAL, 1))
    points = _InPlace(shader, form).write()
    return Emitted((shader.kernel(),), (shader.launch(0, -(-points // LOCAL)),))


def _words(form: InPlaceForm) -> _Words | None:
    """Returns both layouts in words; None where a run of elements ends inside a word."""
    load, index = form.source.load, form.source.index
    each = WORD // form.dtype(form.source.value).itemsize
    source = Layout.contiguous(form.shape) if load is None else load.layout
    if each == 1:
        return _Words(source, form.target)
    if load is None or (index is not None and index.at.axis == len(form.shape) - 1):
        return None
    read, written = (_in_words(layout, each) for layout in (source, form.target))
    return _Words(read, written) if read and written else None


def _in_words(layout: Layout, each: int) -> Layout | None:
    if not layout.shape or layout.strides[-1] != 1:
        return None
    *outer, _ = layout.strides
    if any(n % each for n in (*outer, layout.offset, layout.shape[-1])):
        return None
    return Layout(
        (*layout.shape[:-1], layout.shape[-1] // each),
        (*(step // each for step in outer), 1),
        layout.offset // each,
    )


class _InPlace:
    """Writes the shader of an in-place write."""

    def __init__(self, shader: Shader, form: InPlaceForm):
        self.shader = shader
        self.form = form
        words = _words(form)
        assert words is not None
        self.words = words
        self.points = prod(words.source.shape)
        whole = Layout.contiguous(tensor_type(form.results[0]).get_shape())
        if needs_64_bits(self.points, [words.source, words.target, whole]):
            raise LoweringError(f"{form.name}: needs 64-bit indices, which kompute does not use")

    def write(self) -> int:
        """Writes the lines of the kernel; returns how many words there are."""
        shader, result = self.shader, self.form.results[0]
        p = shader.index(shader.invocation(), "p")
        shader.line(f"if ({p} >= {self.points}) return;")
        texts = coordinates(p, self.words.source.shape or (1,), "/")
        point = [shader.index(text, f"c{axis}") for axis, text in enumerate(texts)]
        target, index = list(point), self.form.source.index
        if index is not None:
            axis = index.at.axis
            target[axis] = self._from_position(index, point[axis])
        slot = len(self.form.arguments)
        count = prod(tensor_type(result).get_shape()) * self.form.dtype(result).itemsize // WORD
        out = shader.writes(slot, WORDS, count, False, hint_of(result, "result"))
        shader.store(out, address(self.words.target, target), self._word(point))
        return self.points

    def _word(self, point: list[str]) -> str:
        """Returns the bits that an invocation writes."""
        shader, source = self.shader, self.form.source
        if source.load is None:
            bits = np.asarray(self.form.splats[source.value]).reshape(1).view(np.uint32)
            return f"{int(bits[0])}u"
        slot = source.load.argument
        elements = prod(self.form.arguments[slot].get_shape())
        words = elements * self.form.dtype(source.value).itemsize // WORD
        memory = shader.reads(slot, WORDS, words, False, argument_name(self.form, slot))
        place = address(self.words.source, point)
        return shader.load(memory, place, hint_of(source.value, "x")).text

    def _from_position(self, index: Index, at: str) -> str:
        """Returns the coordinate along the axis; an invocation that has none returns."""
        shader, rule = self.shader, index.at
        assert isinstance(rule, Position)
        begin = begin_of(shader, index, rule, self._position(index, rule.out_of_range == "clamp"))
        if rule.modulus is not None:
            place = shader.index(f"{begin} + {at}", "place")
            behind = f"{place} - {rule.modulus}u"
            return shader.index(f"{place} < {rule.modulus}u ? {place} : {behind}", "place")
        if rule.out_of_range == "error":
            op = self.form.ops[0]
            assert isinstance(op, MovementOp)
            shader.open(f"if ({begin} > {index.extent - index.width}u)")
            shader.line(report_out_of_bounds(shader, self.form, op))
            shader.line("return;")
            shader.close()
        return shader.index(f"{begin} + {at}", "place")

    def _position(self, index: Index, clamps: bool) -> str:
        form, shader = self.form, self.shader
        if index.load is None:
            return unsigned(shader.code.constant(form.splats[index.value]), clamps)
        memory = read_memory(shader, index.load.argument, form.dtype(index.value), False)
        place = str(index.load.layout.offset)
        return unsigned(shader.load(memory, place, "position"), clamps)
