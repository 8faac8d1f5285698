# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Rewrites of kernels and of scan bodies that the lowering does before it reads them.

They are to become passes, so that what is priced is what is launched; nothing else in this layer
changes IR.
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from fuel_dialect import dtypes
from fuel_dialect.ops import reduction
from fuel_dialect.ops.base import tensor, tensor_type
from fuel_dialect.ops.control import KernelOp, ScanOp
from fuel_dialect.ops.elementwise import CastOp, MulOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.ops.shape import BroadcastToOp, TransposeOp
from fuel_dialect.traits import DecomposableOp, Leaf, RowWise
from fuel_passes.forming.form_kernels import form_kernels


def form_body(scan: ScanOp) -> None:
    """Forms the kernels of a scan's body, whose leaves stand before them."""
    hoist_leaves(scan)
    form_kernels(scan.body.block)
    take_out_factors(scan.body.block)


def expand_rows(block: Block) -> None:
    """Ops of rows (softmax, norms) as reductions and elementwise ops: what defines them."""
    for op in list(block.ops):
        if op.has_trait(RowWise) and isinstance(op, DecomposableOp):
            values = op.decompose(Builder(InsertPoint.before(op)))
            for result, value in zip(op.results, values, strict=True):
                result.replace_all_uses_with(value)
            op.detach()
            op.erase()


def expand_vectors(block: Block) -> None:
    """
    Products of one row with a matrix, of f32 or f64, as the sums that they are: of the columns of
    the matrix, each of whose rows is multiplied by one element. Nothing is read twice then, and a
    tile of a product would be idle but for one row.
    """
    for op in list(block.ops):
        if isinstance(op, MatmulOp) and _is_vector(op):
            total = _sum_of(op, Builder(InsertPoint.before(op)))
            total.name_hint = op.result.name_hint
            op.result.replace_all_uses_with(total)
            op.detach()
            op.erase()


def _is_vector(op: MatmulOp) -> bool:
    dtype = dtypes.of_type(tensor_type(op.result))
    lhs, rhs = (tensor_type(v).get_shape() for v in op.operands)
    has_row = lhs[-2] == 1 and rhs[-1] > 1 and rhs[-2] > 1 and lhs[:-2] == rhs[:-2]
    return has_row and dtype.is_float and dtype.bits >= 32


def _sum_of(op: MatmulOp, builder: Builder) -> SSAValue:
    type = tensor_type(op.result)
    full = tensor(tensor_type(op.rhs).get_shape(), type.element_type)
    column = builder.insert(TransposeOp.make(op.lhs)).result
    wide = builder.insert(BroadcastToOp.make(column, declared=[full])).result
    matrix = op.rhs
    if matrix.type != full:
        matrix = builder.insert(CastOp.make(matrix, declared=[full])).result
    product = builder.insert(MulOp.make(wide, matrix)).results[0]
    return builder.insert(reduction.ReduceSumToOp.make(product, declared=[type])).results[0]


def take_out_factors(block: Block) -> None:
    """Constants that a product multiplies stand before its kernel: its factors lie in memory."""
    for kernel in list(block.ops):
        if not isinstance(kernel, KernelOp):
            continue
        products = [op for op in kernel.body.block.ops if isinstance(op, MatmulOp)]
        factors = [_root(operand) for product in products for operand in product.operands]
        for leaf in dict.fromkeys(v.owner for v in factors if isinstance(v.owner, Operation)):
            _take_out(leaf, kernel, block)


def _root(value: SSAValue) -> SSAValue:
    """What a chain of views begins with."""
    while isinstance(value.owner, Operation) and value.owner.operands:
        value = value.owner.operands[0]
    return value


def _take_out(leaf: Operation, kernel: KernelOp, block: Block) -> None:
    outside = leaf.clone()
    block.insert_op_before(outside, kernel)
    kernel.operands = [*kernel.operands, outside.results[0]]
    inner = kernel.body.block
    argument = inner.insert_arg(leaf.results[0].type, len(inner.args))
    leaf.results[0].replace_all_uses_with(argument)
    leaf.detach()
    leaf.erase()


def hoist_leaves(scan: ScanOp) -> None:
    """Constants of many values, and weights, of the body stand in front of the scan's kernels."""
    block = scan.body.block
    first = block.first_op
    for op in list(block.ops):
        if op.has_trait(Leaf) and op is not first:
            op.detach()
            assert first is not None
            block.insert_op_before(op, first)
