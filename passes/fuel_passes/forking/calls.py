# SPDX-License-Identifier: MIT OR Apache-2.0
"""A kernel in other words: one library call for each of its ops, or for some of them."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from fuel_dialect.kinds import LIBRARY
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.traits import FreeWhenContiguous, ViewOp
from fuel_passes.forming.form_kernels import form_kernels, label_of
from fuel_passes.forming.outline import Outliner, erase_dead, is_leaf, is_splat


def is_carried(op: Operation) -> bool:
    """Returns True if an op only brings operands and results: views, splats, the yield."""
    if not op.results or isinstance(op, ViewOp) or is_leaf(op.results[0]):
        return True
    return op.has_trait(FreeWhenContiguous)


def copy_of_body(kernel: KernelOp) -> Block:
    """A block of its own that holds what the kernel holds."""
    region = kernel.body.clone()
    return region.detach_block(region.block)


def wrap_calls(block: Block, kernel: KernelOp, is_call: Callable[[Operation], bool]) -> None:
    """Make a `library` kernel of each of some ops."""
    clones: set[SSAValue] = {op.results[0] for op in block.ops if op.results and is_carried(op)}
    for op in list(block.ops):
        if isinstance(op, FuelOp) and is_call(op):
            _wrap(op, kernel, clones)


def _wrap(op: FuelOp, kernel: KernelOp, clones: set[SSAValue]) -> None:
    following = op.next_op
    assert following is not None
    outliner = Outliner(lambda value: value in clones or is_splat(value))
    outliner.add(op)
    properties: dict[str, Attribute] = {
        "kind": StringAttr(LIBRARY.name),
        "label": StringAttr(label_of([op])),
    }
    if kernel.placement is not None:
        properties["placement"] = kernel.placement
    outliner.finish(KernelOp, properties, following)


def calls_of(kernel: KernelOp) -> Block:
    """A kernel as one call for each op, in a block with its arguments and results."""
    block = copy_of_body(kernel)
    wrap_calls(block, kernel, lambda op: not is_carried(op))
    form_kernels(block)
    erase_dead([op for op in block.ops if is_carried(op) and op.results])
    return block


def split_into_calls(kernel: KernelOp) -> None:
    """Put one call for each op in place of a kernel; the calls stay where the kernel was to run."""
    block = calls_of(kernel)
    end = block.last_op
    assert end is not None
    for op in block.ops:
        if isinstance(op, KernelOp) and kernel.target is not None:
            op.properties["target"] = kernel.target
    outer: dict[SSAValue, SSAValue] = dict(zip(block.args, kernel.inputs, strict=True))
    results = [outer.get(value, value) for value in end.operands]
    for old, new in zip(kernel.results, results, strict=True):
        new.name_hint = new.name_hint or old.name_hint
    block.erase_op(end)
    rewriter = PatternRewriter(kernel)
    rewriter.inline_block(block, InsertPoint.before(kernel), kernel.inputs)
    rewriter.replace(kernel, [], results)
