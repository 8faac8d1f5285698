# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reduction kernels as steps: every value has the kernel's shape, or is a column of it.

A statistic, whatever its shape in the IR, becomes a column: the kernel's shape with 1 at the
reduced axes. So does its broadcast, which ufuncs do by themselves. What is left of views between
ops is nothing.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Block, Operation, SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.base import tensor_type
from fuel_dialect.traits import AlongAxesOp, Leaf
from fuel_lowering.numpy.emit import Emitter
from fuel_lowering.numpy.steps import COPY
from fuel_lowering.numpy.values import Ref, is_view, whole
from fuel_lowering.numpy.writer import Builder, Rows
from fuel_passes.forming.groups import keeps_order, spreads


def rows_of(block: Block) -> Rows | None:
    """What the ops of a reduction kernel are along; None if not all are along the same rows."""
    found = {
        Rows(tuple(tensor_type(op.operands[0]).get_shape()), op.axes())
        for op in block.ops
        if isinstance(op, AlongAxesOp)
    }
    return found.pop() if len(found) == 1 else None


class RowBuilder(Builder):
    """A builder of the steps of a reduction kernel."""

    def __init__(self, emitter: Emitter, values: dict[SSAValue, Ref], rows: Rows):
        super().__init__(emitter, values)
        self.rows = self._rows = rows
        self._computed: set[SSAValue] = set()

    def add(self, op: Operation) -> None:
        is_between = is_view(op) and op.operands[0] in self._computed
        if is_between:
            self._check_view(op)
            self.values[op.results[0]] = self.values[op.operands[0]]
        else:
            super().add(op)
        if is_between or not (is_view(op) or op.has_trait(Leaf)):
            self._computed.update(op.results)

    def add_block(self, block: Block) -> list[Ref]:
        super().add_block(block)
        assert block.last_op is not None
        return [self._as_yielded(value) for value in block.last_op.operands]

    def shape_of(self, value: SSAValue) -> tuple[int, ...]:
        """The kernel's shape, or its column, for a value that is given or wanted."""
        shape = tuple(tensor_type(value).get_shape())
        return shape if shape == self._rows.shape else self._rows.column

    def operand(self, value: SSAValue) -> Ref:
        ref, rows = self.values[value], self._rows
        if ref.splat is not None:
            return self.emitter.scalar(ref.splat, rows.column)
        if ref.shape in (rows.shape, rows.column):
            return ref
        if prod(ref.shape) != prod(rows.column):
            raise LoweringError(
                f"a reduction kernel over {list(rows.shape)} along axes {list(rows.axes)} cannot "
                f"hold an op on {value.type}"
            )
        return whole(ref).reshape(rows.column)

    def _check_view(self, view: Operation) -> None:
        if keeps_order(view) or spreads(view, self._rows.shape, self._rows.column):
            return
        raise LoweringError(
            f"{view.name}: a view between the ops of a reduction kernel must broadcast along its "
            f"rows or keep one element for each, got {view.results[0].type}"
        )

    def _as_yielded(self, value: SSAValue) -> Ref:
        ref, shape = self.operand(value), self.shape_of(value)
        return ref if ref.shape == shape else self.step(COPY, ref, shape=shape)
