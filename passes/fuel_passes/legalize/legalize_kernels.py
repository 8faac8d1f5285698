# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-legalize-kernels`: kernels are written as the target that launches them reads them."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypeIs
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from fuel_dialect import dtypes
from fuel_dialect.kinds import POINTWISE, REDUCTION
from fuel_dialect.ops import reduction
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.ops.elementwise import CastOp, MulOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.ops.shape import BroadcastToOp, TransposeOp
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.tensors import tensor, tensor_type
from fuel_dialect.traits import AlongAxesOp, DecomposableOp, Leaf, RowWise
from fuel_passes.forming.form_kernels import form_kernels
from fuel_passes.forming.groups import Caps
from fuel_passes.planning.topology import as_planned


@dataclass(frozen=True)
class LegalizeKernelsPass(ModulePass):
    """
    Rewrites the kernels of runs into what their target launches, as its description says.

    `rows`: softmax and norms become the reductions and elementwise ops that they are made of.
    `scans`: the body of a scan that is no kernel by itself is formed into kernels, with its leaves
    in front. `factors`: constants that a product multiplies move out of its kernel, into memory.
    `vectors`: products of one row with a matrix become sums.

    Code generators run it on a copy of each run; it is no part of `fuel-optimize`, whose result can
    be planned again for another target. Runs of targets that ask for nothing stay. No options.
    """

    name = "fuel-legalize-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for run in list(op.walk()):
            if isinstance(run, RunOp):
                legalize(run.body.block, as_planned(run, run.target.backend.data))


def legal_run(run: RunOp, target: TargetDescription | None) -> RunOp:
    """Returns a copy of a run whose kernels are legalized."""
    copy = run.clone()
    legalize(copy.body.block, target)
    return copy


def legal_kernel(kernel: KernelOp, target: TargetDescription) -> KernelOp:
    """Returns a kernel as it is launched: a scan that it holds may be several kernels."""
    if "scans" not in target.rewrites or not any(_is_formed(op) for op in kernel.body.block.ops):
        return kernel
    copy = kernel.clone()
    for op in copy.body.block.ops:
        if _is_formed(op):
            _legalize_scan(op, target)
    return copy


def legalize(block: Block, target: TargetDescription | None) -> None:
    """Rewrites the kernels of a block, and those in the scans that they hold, as a target asks."""
    if target is None:
        return
    if "factors" in target.rewrites:
        take_out_factors(block)
    for kernel in block.ops:
        if isinstance(kernel, KernelOp):
            _legalize_kernel(kernel, target)


def _legalize_kernel(kernel: KernelOp, target: TargetDescription) -> None:
    block = kernel.body.block
    if "scans" in target.rewrites:
        for op in block.ops:
            if _is_formed(op):
                _legalize_scan(op, target)
    if "rows" in target.rewrites:
        expand_rows(block)
        if kernel.kind.data == REDUCTION.name and not _has_rows(block):
            # Rows of one element are elementwise ops.
            kernel.properties["kind"] = StringAttr(POINTWISE.name)
    if "vectors" in target.rewrites and expand_vectors(block):
        kernel.properties["kind"] = StringAttr(REDUCTION.name)


def _is_formed(op: Operation) -> TypeIs[ScanOp]:
    """Returns True for a scan whose steps are launches of their own."""
    return isinstance(op, ScanOp) and not op.is_pointwise and op.end.until is None


def _legalize_scan(scan: ScanOp, target: TargetDescription) -> None:
    block = scan.body.block
    hoist_leaves(scan)
    form_kernels(block, Caps(buffers=target.step_buffers))
    legalize(block, target)


def _has_rows(block: Block) -> bool:
    return any(isinstance(op, AlongAxesOp) for op in block.ops)


def expand_rows(block: Block) -> None:
    """Replaces ops of rows (softmax, norms) by the reductions and elementwise ops in them."""
    for op in list(block.ops):
        if op.has_trait(RowWise) and isinstance(op, DecomposableOp):
            values = op.decompose(Builder(InsertPoint.before(op)))
            for result, value in zip(op.results, values, strict=True):
                result.replace_all_uses_with(value)
            op.detach()
            op.erase()


def expand_vectors(block: Block) -> bool:
    """
    Replaces products of one row with a matrix, of f32 or f64, by sums; returns True if it did.

    These are of the columns of the matrix, each of whose rows is multiplied by one element. Nothing
    is read twice then, and a tile of a product would be idle but for one row.
    """
    vectors = [op for op in block.ops if isinstance(op, MatmulOp) and _is_vector(op)]
    for op in vectors:
        total = _sum_of(op, Builder(InsertPoint.before(op)))
        total.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(total)
        op.detach()
        op.erase()
    return bool(vectors)


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
    """Moves constants that a product multiplies before its kernel, into memory."""
    for kernel in list(block.ops):
        if not isinstance(kernel, KernelOp):
            continue
        products = [op for op in kernel.body.block.ops if isinstance(op, MatmulOp)]
        factors = [_root(operand) for product in products for operand in product.operands]
        for leaf in dict.fromkeys(v.owner for v in factors if isinstance(v.owner, Operation)):
            _take_out(leaf, kernel, block)


def _root(value: SSAValue) -> SSAValue:
    """Returns the value that a chain of views begins with."""
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
    """Moves the leaves of a scan's body to its front, before the kernels."""
    block = scan.body.block
    first = block.first_op
    for op in list(block.ops):
        if op.has_trait(Leaf) and op is not first:
            op.detach()
            assert first is not None
            block.insert_op_before(op, first)
