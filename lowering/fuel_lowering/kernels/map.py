# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forms of pointwise kernels, of movement and of writes in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.ir import BlockArgument, SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.numbers import int_tuple
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.memory import WriteOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Elementwise, FreeWhenContiguous, Movement
from fuel_lowering.kernels.form import Form, arguments, fill, yielded


@dataclass(eq=False)
class MapForm(Form):
    """
    One point for each element of `shape`: pointwise kernels, and movement.

    Ops are elementwise, or one of movement: a concat, an indexing op or a write into a part, all of
    whose operands are loads.
    """

    shape: tuple[int, ...] = ()


@dataclass(eq=False)
class PatchForm(MapForm):
    """
    A write into memory that the result takes over: one point for each element of the source.

    `target` says where these lie in the result. Along the axis of a `WriteAtOp` they lie so many
    places further as its position says.
    """

    write: WriteOp | None = None
    target: Layout = field(default_factory=lambda: Layout.contiguous(()))


def map_form(kernel: KernelOp, name: str) -> MapForm:
    block = kernel.body.block
    form = MapForm(name, arguments(kernel), yielded(block))
    fill(form, block)
    _unfold_reshapes(form)
    shapes = {tuple(tensor_type(v).get_shape()) for v in _map_values(form)}
    if len(shapes) > 1:
        raise LoweringError(f"{name}: a kernel that iterates over {sorted(shapes)} has no form")
    form.shape = shapes.pop()
    for op in form.ops:
        if not op.has_trait(Elementwise) and not op.has_trait(Movement):
            raise LoweringError(f"{op.name}: no target writes a loop over elements for it")
    return form


def patch_form(kernel: KernelOp, name: str) -> PatchForm | None:
    """
    The form of a kernel that is nothing but a write, for a result that lies where the destination
    lay. None where another form has to do: a source without elements leaves only an index to check.
    """
    block = kernel.body.block
    form = PatchForm(name, arguments(kernel), yielded(block))
    fill(form, block)
    write = form.ops[0] if len(form.ops) == 1 else None
    if not isinstance(write, WriteOp) or form.results != (write.result,):
        return None
    if not isinstance(write.input, BlockArgument):
        return None
    form.write, form.shape = write, tuple(tensor_type(write.source).get_shape())
    steps = Layout.contiguous(tensor_type(write.input).get_shape()).strides
    starts = zip(int_tuple(write.starts), steps, strict=True)
    form.target = Layout(form.shape, steps, sum(start * step for start, step in starts))
    return form if prod(form.shape) else None


def _map_values(form: MapForm) -> list[SSAValue]:
    return [*(op.results[0] for op in form.ops), *form.results]


def _unfold_reshapes(form: MapForm) -> None:
    """
    A reshape of a strided operand, written out by a kernel of its own: iterate over the operand.

    The elements have the same order in both, so the result is the operand's elements as they come.
    """
    (op, *rest) = form.ops or [None]
    if op is None or not op.has_trait(FreeWhenContiguous) or rest:
        return
    form.ops.clear()
    form.results = tuple(op.operands[0] if v is op.results[0] else v for v in form.results)
