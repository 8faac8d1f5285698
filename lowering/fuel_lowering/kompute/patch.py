# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes into memory that the result takes over: an invocation for each word that is written.

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
from fuel_dialect.numbers import int_value
from fuel_dialect.ops.memory import WriteAtOp, WriteOp, WriteSliceRotatingOp
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.form import Load
from fuel_lowering.kernels.indexing import address, coordinates, needs_64_bits
from fuel_lowering.kernels.map import PatchForm
from fuel_lowering.kompute.map import LOCAL
from fuel_lowering.kompute.outputs import WORD
from fuel_lowering.kompute.writer import Shader, argument_name, hint_of, shape_text
from fuel_lowering.runs.emitter import CHECK, Emitted

WORDS = dtypes.BY_NAME["ui32"]


@dataclass(frozen=True)
class _Words:
    """Layouts over the words of a source: of its elements, and of where they go."""

    source: Layout
    target: Layout


def can_patch(form: PatchForm) -> bool:
    """Whether all that is written are whole words."""
    return not (form.moves or form.unaligned) and _words(form) is not None


def emit_patch(form: PatchForm) -> Emitted:
    """One kernel, one launch."""
    shader = Shader(form, _title(form), (LOCAL, 1))
    points = _Patch(shader, form).write()
    return Emitted((shader.kernel(),), (shader.launch(0, -(-points // LOCAL)),))


def _title(form: PatchForm) -> list[str]:
    write = _write_of(form)
    return [f"{shape_text(write.source)} into {shape_text(write.result)}"]


def _write_of(form: PatchForm) -> WriteOp:
    assert form.write is not None
    return form.write


def _words(form: PatchForm) -> _Words | None:
    """Both layouts in words; None where an end of a run of elements is inside a word."""
    write = _write_of(form)
    each = WORD // form.dtype(write.source).itemsize
    load = _source(form)
    if each == 1:
        return _Words(load.layout, form.target)
    axis = int_value(write.axis) if isinstance(write, WriteAtOp) else -1
    if axis == len(form.shape) - 1 or write.source in form.splats:
        return None
    source, target = (_in_words(layout, each) for layout in (load.layout, form.target))
    return _Words(source, target) if source and target else None


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


def _source(form: PatchForm) -> Load:
    """Where the source lies; a constant lies nowhere."""
    source = _write_of(form).source
    return form.loads.get(source) or Load(-1, Layout.contiguous(form.shape))


class _Patch:
    def __init__(self, shader: Shader, form: PatchForm):
        self.shader = shader
        self.form = form
        self.op = _write_of(form)
        words = _words(form)
        assert words is not None
        self.words = words
        self.points = prod(words.source.shape)
        whole = Layout.contiguous(tensor_type(self.op.result).get_shape())
        if needs_64_bits(self.points, [words.source, words.target, whole]):
            raise LoweringError(f"{form.name}: needs 64-bit indices, which kompute does not use")

    def write(self) -> int:
        """The lines of the kernel; how many words there are."""
        shader = self.shader
        p = shader.index(shader.invocation(), "p")
        shader.line(f"if ({p} >= {self.points}) return;")
        texts = coordinates(p, self.words.source.shape or (1,), "/")
        point = [shader.index(text, f"c{axis}") for axis, text in enumerate(texts)]
        target = list(point)
        if isinstance(self.op, WriteAtOp):
            axis = int_value(self.op.axis)
            target[axis] = self._moved(self.op, point[axis])
        slot = len(self.form.arguments)
        elements = prod(tensor_type(self.op.result).get_shape())
        count = elements * self.form.dtype(self.op.result).itemsize // WORD
        out = shader.writes(slot, WORDS, count, False, hint_of(self.op.result, "result"))
        shader.store(out, address(self.words.target, target), self._word(point))
        return self.points

    def _word(self, point: list[str]) -> str:
        """The bits that an invocation writes."""
        shader, source = self.shader, self.op.source
        if source in self.form.splats:
            bits = np.asarray(self.form.splats[source]).reshape(1).view(np.uint32)
            return f"{int(bits[0])}u"
        slot = self.form.loads[source].argument
        words = prod(self.form.arguments[slot].get_shape()) * self.form.dtype(source).itemsize
        memory = shader.reads(slot, WORDS, words // WORD, False, argument_name(self.form, slot))
        return shader.load(memory, address(self.words.source, point), hint_of(source, "x")).text

    def _moved(self, op: WriteAtOp, at: str) -> str:
        """The coordinate along the axis, from the position on; an invocation that has none ends."""
        shader, axis = self.shader, int_value(op.axis)
        begin = self._position(op)
        if isinstance(op, WriteSliceRotatingOp):
            modulus = int_value(op.modulus)
            place = shader.index(f"{begin} % {modulus}u + {at}", "place")
            return shader.index(f"{place} < {modulus}u ? {place} : {place} - {modulus}u", "place")
        extent, width = (tensor_type(v).get_shape()[axis] for v in (op.input, op.source))
        shader.open(f"if ({begin} > {extent - width}u)")
        shader.line(f"{shader.status()}[0] = {CHECK};")
        shader.line("return;")
        shader.close()
        return shader.index(f"{begin} + {at}", "place")

    def _position(self, op: WriteAtOp) -> str:
        form, shader = self.form, self.shader
        if op.position in form.splats:
            return f"{int(form.splats[op.position])}u"
        load = form.loads[op.position]
        memory = shader.reads(load.argument, WORDS, 1, False, argument_name(form, load.argument))
        return shader.load(memory, str(load.layout.offset), "position").text
