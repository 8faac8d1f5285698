# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Values of a run while it is being lowered, and the NumPy expressions of views.

A `broadcast_to` is left implicit: the array keeps its extents, the value knows its shape. Ufuncs
broadcast by themselves; what else reads the value asks for the whole array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation

from fuel_dialect import dtypes
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.numbers import int_tuple, int_value
from fuel_dialect.ops.shape import (
    BroadcastToOp,
    FlipOp,
    PermuteOp,
    ReshapeOp,
    SliceOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)
from fuel_dialect.tensors import AnyTensor, tensor_type
from fuel_dialect.traits import ViewOp
from fuel_lowering.numpy.buffers import Buffer

MODULE, SCRATCH, CALL = 0, 1, 2
"""The level at which a value is known: load, workspace, call; deeper ones are loop bodies."""


@dataclass(eq=False)
class Ref:
    """
    A value: computed by a step, given under a name, or a view (`expression`) of another.

    `layout` is of the array NumPy holds, relative to its buffer; `shape` is the value's.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout
    hint: str | None = None
    text: str | None = None
    home: int = CALL
    buffer: Buffer | None = None
    base: Ref | None = None
    expression: str = "{}"
    splat: np.ndarray[Any, Any] | None = None
    """The rank-0 array behind a value that is the same everywhere."""
    views: dict[str, Ref] = field(default_factory=dict)

    @property
    def array_shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def is_full(self) -> bool:
        return self.array_shape == self.shape

    @property
    def root(self) -> Ref:
        """The value whose memory this shows."""
        ref = self
        while ref.base is not None:
            ref = ref.base
        return ref

    def view(self, expression: str, layout: Layout) -> Ref:
        """The value that an expression of this array gives; the same one when asked again."""
        if expression == "{}":
            return Ref(layout.shape, self.dtype, layout, self.hint, base=self)
        if expression not in self.views:
            self.views[expression] = Ref(
                layout.shape,
                self.dtype,
                layout,
                self.hint,
                base=self,
                expression=expression,
            )
        return self.views[expression]

    def reshape(self, shape: tuple[int, ...]) -> Ref:
        """The array in another shape that its layout can be read in without a copy."""
        if shape == self.array_shape:
            return self
        layout = reshaped(self.layout, shape)
        assert layout is not None, f"{self.layout} cannot be read as {shape}"
        return self.view(reshape_expression(shape), layout)


def reshape_expression(shape: Sequence[int]) -> str:
    return f"{{}}.reshape({', '.join(map(str, shape)) or '()'})"


def reshaped(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """The layout of a reshape where NumPy makes a view; None where it copies."""
    if not layout.elements:
        return Layout.contiguous(shape, layout.offset)
    blocks = _blocks(layout)
    extent, stride = 1, 1
    strides: list[int] = []
    for want in reversed(shape):
        if extent == 1 and want > 1:
            extent, stride = blocks.pop()
        if extent % want:
            return None
        strides.append(stride)
        extent, stride = extent // want, stride * want
    return Layout(tuple(shape), tuple(reversed(strides)), layout.offset)


def _blocks(layout: Layout) -> list[tuple[int, int]]:
    """Extent and inner stride of the runs of axes that step through memory as one axis."""
    blocks: list[tuple[int, int]] = []
    for extent, stride in zip(layout.shape, layout.strides, strict=True):
        if extent == 1:
            continue
        outer = 1
        if blocks and blocks[-1][1] == extent * stride:
            outer, _ = blocks.pop()
        blocks.append((outer * extent, stride))
    return blocks


def computed(shape: tuple[int, ...], dtype: np.dtype[Any], hint: str | None = None) -> Ref:
    """A value that a step will compute."""
    return Ref(shape, dtype, Layout.contiguous(shape), hint)


def computed_like(type: AnyTensor, hint: str | None) -> Ref:
    return computed(type.get_shape(), dtypes.of_type(type).numpy, hint)


def broadcast_if_needed(ref: Ref) -> Ref:
    """Returns a value as an array of its full shape: a view that repeats elements, if it must."""
    if ref.is_full:
        return ref
    padded = ref.layout.broadcast_to(ref.shape)
    return ref.view(f"np.broadcast_to({{}}, {ref.shape})", padded)


def is_view(op: Operation) -> bool:
    """Returns True if the op is a view, or a reshape: one where the layout allows it."""
    return isinstance(op, ViewOp | ReshapeOp)


def view_of(op: Operation, source: Ref) -> Ref:
    """
    The value of a view op; reshapes are the builder's.

    Raises `LoweringError` for a kind that this target does not know.
    """
    shape = tensor_type(op.results[0]).get_shape()
    if isinstance(op, BroadcastToOp):
        return Ref(shape, source.dtype, source.layout, source.hint, base=source)
    source = broadcast_if_needed(source)
    for kind, expression in EXPRESSIONS.items():
        if isinstance(op, kind):
            layout = cast(ViewOp, op).derive_layout(source.layout)
            return source.view("{}" + expression(op, len(source.array_shape)), layout)
    raise LoweringError(
        f"{op.name}: the numpy target has no expression for this view of {op.operands[0].type}"
    )


def _at(dim: int, index: str) -> str:
    return f"[{':, ' * dim}{index}]"


def _permute(op: PermuteOp, rank: int) -> str:
    return f".transpose({', '.join(map(str, int_tuple(op.axes)))})" if rank else ".transpose()"


def _slice(op: SliceOp, rank: int) -> str:
    start, length = int_value(op.start), int_value(op.length)
    return _at(int_value(op.dim), f"{start}:{start + length}")


EXPRESSIONS: dict[type[Operation], Callable[[Any, int], str]] = {
    TransposeOp: lambda op, rank: ".T" if rank == 2 else ".swapaxes(-1, -2)",
    PermuteOp: _permute,
    SliceOp: _slice,
    UnsqueezeOp: lambda op, rank: _at(int_value(op.dim), "None"),
    SqueezeOp: lambda op, rank: _at(int_value(op.dim), "0, ..."),
    FlipOp: lambda op, rank: _at(int_value(op.dim), "::-1"),
}
"""Returns the text that a view op appends to the name of its operand."""
