# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds the operands that a kernel views in a way that its target does not read."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from fuel_dialect.kinds import kind_named
from fuel_dialect.layout import Layout
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.description import Strides, TargetDescription
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Contraction, FreeWhenContiguous, ViewOp


def unreadable(
    kernel: KernelOp, target: TargetDescription, kind: str | None = None
) -> list[SSAValue]:
    """
    The views of a kernel's operands that its ops read and that its target cannot, in order.

    They have to be written out first.
    `kind` is that of the kernels which take the place of this one, where some do.
    """
    strides = target.reads(kind or kernel.kind.data)
    if strides == "any" or kind_named(kernel.kind.data).reads_any_layout:
        return []
    found: dict[SSAValue, None] = {}
    for op in kernel.body.block.ops:
        if strides == "matrices" and not op.has_trait(Contraction):
            continue
        if not op.results or (_may_be_view(op) and layout_of(op.results[0]) is not None):
            continue
        for operand in op.operands:
            layout = layout_of(operand)
            if layout is not None and not _is_readable(layout, strides):
                found[operand] = None
    return list(found)


def layout_of(value: SSAValue) -> Layout | None:
    """Returns the layout of a view of an operand inside of a kernel; None for anything else."""
    chain: list[Operation] = []
    source = value
    while isinstance(op := source.owner, Operation):
        if not _may_be_view(op):
            return None
        chain.append(op)
        source = op.operands[0]
    layout = Layout.contiguous(tensor_type(source).get_shape())
    for op in reversed(chain):
        if isinstance(op, ViewOp):
            layout = op.derive_layout(layout)
        elif layout.is_contiguous:
            layout = Layout.contiguous(tensor_type(op.results[0]).get_shape())
        else:
            return None
    return layout if chain else None


def _may_be_view(op: Operation) -> bool:
    return isinstance(op, ViewOp) or op.has_trait(FreeWhenContiguous)


def _is_readable(layout: Layout, strides: Strides) -> bool:
    if layout.is_contiguous:
        return True
    return strides == "matrices" and _is_matrix(layout)


def _is_matrix(layout: Layout) -> bool:
    """Returns True if the rows or columns of the last two dims have no gaps or overlap."""
    (rows, columns), (down, along) = layout.shape[-2:], layout.strides[-2:]
    return _steps(along, columns, down, rows) or _steps(down, rows, along, columns)


def _steps(inner: int, inside: int, outer: int, outside: int) -> bool:
    return (inner == 1 or inside == 1) and (outer >= inside or outside == 1)
