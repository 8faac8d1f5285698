# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which operands a kernel views in a way that its target does not read."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from fuel_dialect.layout import Layout
from fuel_dialect.ops.base import tensor_type
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.targets.description import Strides, TargetDescription
from fuel_dialect.traits import FreeWhenContiguous, ViewOp


def unreadable(kernel: KernelOp, target: TargetDescription) -> list[SSAValue]:
    """
    The views of a kernel's operands that its ops read and that its target cannot, in order.

    They have to be written out first. A movement kernel does just that, so it reads anything.
    """
    strides = target.reads(kernel.kind.data)
    if strides == "any" or kernel.kind.data == "movement":
        return []
    layouts = dict(_layouts(kernel))
    found: dict[SSAValue, None] = {}
    for op in kernel.body.block.ops:
        if not op.results or op.results[0] in layouts:
            continue
        if strides == "matrices" and not isinstance(op, MatmulOp):
            continue
        for operand in op.operands:
            layout = layouts.get(operand)
            if layout is not None and not _is_readable(layout, strides):
                found[operand] = None
    return list(found)


def _layouts(kernel: KernelOp) -> Iterator[tuple[SSAValue, Layout]]:
    """How the operands of a kernel and the views of them lie."""
    known = {a: Layout.contiguous(tensor_type(a).get_shape()) for a in kernel.body.block.args}
    layouts: dict[SSAValue, Layout] = {**known}
    for op in kernel.body.block.ops:
        layout = _layout_of(op, layouts)
        if layout is not None:
            layouts[op.results[0]] = layout
    yield from layouts.items()


def _layout_of(op: Operation, layouts: dict[SSAValue, Layout]) -> Layout | None:
    source = layouts.get(op.operands[0]) if op.operands else None
    if source is None:
        return None
    if isinstance(op, ViewOp):
        return op.derive_layout(source)
    if op.has_trait(FreeWhenContiguous) and source.is_contiguous:
        return Layout.contiguous(tensor_type(op.results[0]).get_shape())
    return None


def _is_readable(layout: Layout, strides: Strides) -> bool:
    if layout.is_contiguous:
        return True
    return strides == "matrices" and _is_matrix(layout)


def _is_matrix(layout: Layout) -> bool:
    """Whether the rows, or the columns, of the last two dims lie without gaps or overlap."""
    (rows, columns), (down, along) = layout.shape[-2:], layout.strides[-2:]
    return _steps(along, columns, down, rows) or _steps(down, rows, along, columns)


def _steps(inner: int, inside: int, outer: int, outside: int) -> bool:
    return (inner == 1 or inside == 1) and (outer >= inside or outside == 1)
