# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forms of pointwise kernels, of movement and of writes in place."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import BlockArgument, SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.movement import MovementOp, Pick, kept_operand, moved_pieces
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Elementwise, FreeWhenContiguous
from fuel_lowering.kernels.form import Form, arguments, fill, yielded
from fuel_lowering.kernels.movement import Source, source_of_piece


@dataclass(eq=False)
class MapForm(Form):
    """
    Represents a kernel with one point for each element of `shape`.

    Ops are elementwise, or move elements; operands that are read at other points are loads.
    """

    shape: tuple[int, ...] = ()


@dataclass(eq=False)
class InPlaceForm(MapForm):
    """
    Represents a write into memory that the result takes over: one point for each element written.

    `source` is read at the points, `target` is their layout in the result, as if the position of
    the piece were 0.
    """

    source: Source = field(kw_only=True)
    target: Layout = field(kw_only=True)


def map_form(kernel: KernelOp, name: str) -> MapForm:
    """Returns the form of a kernel. Raises `LoweringError` for an op that needs another one."""
    block = kernel.body.block
    form = MapForm(name, arguments(kernel), yielded(block))
    fill(form, block)
    _unfold_reshapes(form)
    shapes = {tuple(tensor_type(v).get_shape()) for v in _map_values(form)}
    if len(shapes) > 1:
        raise LoweringError(f"{name}: a kernel that iterates over {sorted(shapes)} has no form")
    form.shape = shapes.pop()
    for op in form.ops:
        if not op.has_trait(Elementwise) and not isinstance(op, MovementOp):
            raise LoweringError(f"{op.name}: no target writes a loop over elements for it")
    return form


def in_place_form(kernel: KernelOp, name: str) -> InPlaceForm | None:
    """
    Returns the form of a kernel that is nothing but a write into the buffer of its operand.

    Returns None where another form has to do: more pieces than one, indices that pick elements, or
    a piece without elements, which leaves only an index to check.
    """
    block = kernel.body.block
    plain = Form(name, arguments(kernel), yielded(block))
    fill(plain, block)
    op = plain.ops[0] if len(plain.ops) == 1 else None
    if not isinstance(op, MovementOp) or plain.results != tuple(op.results):
        return None
    kept, moved = kept_operand(op), moved_pieces(op)
    if kept is None or not isinstance(op.operands[kept], BlockArgument):
        return None
    if len(moved) != 1 or isinstance(moved[0].at, Pick) or not moved[0].elements:
        return None
    (piece,) = moved
    source = source_of_piece(plain, op, piece)
    steps = Layout.contiguous(tensor_type(op.results[0]).get_shape()).strides
    begin = sum(span.start * step for span, step in zip(piece.spans, steps, strict=True))
    return InPlaceForm(
        name,
        plain.arguments,
        plain.results,
        plain.loads,
        plain.splats,
        plain.ops,
        shape=piece.shape,
        source=source,
        target=Layout(piece.shape, steps, begin),
    )


def _map_values(form: MapForm) -> list[SSAValue]:
    return [*(op.results[0] for op in form.ops), *form.results]


def _unfold_reshapes(form: MapForm) -> None:
    """
    Lets a kernel that writes out a reshape of a strided operand iterate over the operand.

    The elements have the same order in both, so the result is the operand's elements as they come.
    """
    (op, *rest) = form.ops or [None]
    if op is None or not op.has_trait(FreeWhenContiguous) or rest:
        return
    form.ops.clear()
    form.results = tuple(op.operands[0] if v is op.results[0] else v for v in form.results)
