# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Forms: kernels as the targets see them that write a loop nest or a shader.

A form holds the iteration space of a kernel, the layout of each operand over it, and the ops to be
evaluated at a point. It knows no target; every target that generates scalar code starts from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.movement import checks_indices
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.reference.precision import scalar
from fuel_dialect.tensors import AnyTensor, tensor_type
from fuel_dialect.traits import FreeWhenContiguous, Leaf, ViewOp


@dataclass(frozen=True)
class Load:
    """An operand read where it lies: an argument of the kernel, and a layout over its buffer."""

    argument: int
    layout: Layout


@dataclass(eq=False)
class Form:
    """
    Represents what all kernels have.

    `loads` are the values that are (views of) arguments, over their own shape; `splats` are
    constants. `ops` are what remains, in order. `results` are what the kernel yields, and may be
    any of these. `moves` are arguments and results (numbered after the arguments) that lie at
    another place in each launch. `unaligned` among them do not stay on a multiple of 16 bytes.
    """

    name: str
    arguments: tuple[AnyTensor, ...]
    results: tuple[SSAValue, ...]
    loads: dict[SSAValue, Load] = field(default_factory=dict[SSAValue, Load])
    splats: dict[SSAValue, np.ndarray[Any, Any]] = field(
        default_factory=dict[SSAValue, np.ndarray[Any, Any]]
    )
    ops: list[Operation] = field(default_factory=list[Operation])
    moves: frozenset[int] = frozenset()
    unaligned: frozenset[int] = frozenset()
    kind: str = ""
    """The kind of the kernel (`fuel_dialect.kinds`), by which its writer is found."""

    @property
    def checks(self) -> list[Operation]:
        """The ops whose indices have to be checked, in order."""
        return [op for op in self.ops if checks_indices(op)]

    def dtype(self, value: SSAValue) -> DType:
        return dtypes.of_type(tensor_type(value))


def arguments(kernel: KernelOp) -> tuple[AnyTensor, ...]:
    """Returns the types of a kernel's arguments."""
    return tuple(tensor_type(a) for a in kernel.body.block.args)


def yielded(block: Block) -> tuple[SSAValue, ...]:
    """Returns the operands of a block's terminator."""
    assert block.last_op is not None
    return tuple(block.last_op.operands)


def fill(form: Form, block: Block) -> None:
    """Sorts the ops of a block into the form's loads, splats and ops."""
    for number, argument in enumerate(block.args):
        shape = tuple(tensor_type(argument).get_shape())
        form.loads[argument] = Load(number, Layout.contiguous(shape))
    for op in block.ops:
        if op is not block.last_op:
            take(form, op)


def take(form: Form, op: Operation) -> None:
    if op.has_trait(Leaf):
        form.splats[op.results[0]] = _splat(op)
    elif isinstance(op, ViewOp) or op.has_trait(FreeWhenContiguous):
        _view(form, op)
    else:
        form.ops.append(op)


def _splat(op: Operation) -> np.ndarray[Any, Any]:
    if not isinstance(op, ConstOp) or op.splat is None:
        raise LoweringError(f"{op.name}: a kernel of this target holds constants of one value only")
    return np.asarray(scalar(op.splat, dtypes.of_type(op.type).numpy))


def _view(form: Form, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    if source in form.splats:
        form.splats[result] = form.splats[source]
        return
    load = form.loads.get(source)
    if load is None:
        form.ops.append(op)
        return
    if isinstance(op, ViewOp):
        layout = op.derive_layout(load.layout)
    elif load.layout.is_contiguous:
        shape = tuple(tensor_type(result).get_shape())
        layout = Layout.contiguous(shape, load.layout.offset)
    else:
        form.ops.append(op)
        return
    form.loads[result] = Load(load.argument, layout)
