# SPDX-License-Identifier: MIT OR Apache-2.0
"""Offering another way to compute a kernel, as an arm: what a pathfinder does."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from fuel_dialect.attributes import ArmAttr
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.traits import Leaf
from fuel_passes.forking.fork_variants import fresh_ids, replace_by_branch, written
from fuel_passes.forming.form_kernels import caps_of, form_kernels
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.planning.candidates import Candidates
from fuel_passes.planning.residency import default_target, target_of


def offer(
    kernel: KernelOp, other: Block, origin: str, candidates: Candidates, rewriter: PatternRewriter
) -> bool:
    """
    Add another way to compute a kernel, as an arm behind the kernel's own: for pathfinders.

    `other` has the kernel's inputs as arguments and yields its results; what is in no kernel there
    is formed into some. `origin` is the name of the pathfinder, a colon and why. The arm is for the
    kernel's target, at the price there. A kernel that is the whole of arm 0 of a branch that a pass
    made gets its arm there. False, with nothing done, for any other kernel in an arm that a pass
    made, and where the target cannot run what `other` holds.
    """
    branch, block = _forked(kernel), kernel.parent
    function = _function_around(branch or kernel)
    if function is None or block is None:
        return False
    topology = candidates.topology
    form_kernels(other, caps_of(topology))
    targets = topology.targets
    target = target_of(kernel, default_target(block, targets), targets)
    price = candidates.as_written(other.ops, target)
    if price is None:
        return False
    added = ArmAttr.of(target, price, origin)
    if branch is not None:
        _append(branch, kernel, added, other)
        rewriter.notify_op_modified(branch)
        return True
    name, price = origin.partition(":")[0], candidates.price_as_written(kernel, target)
    first = ArmAttr.of(target, price, f"{name}: as written"), Region(written(kernel))
    arms = [first, (added, Region(other))]
    replace_by_branch(kernel, next(fresh_ids(function)), arms, rewriter)
    return True


def _forked(kernel: KernelOp) -> BranchOp | None:
    """The branch that a pass made of a kernel, if that is what arm 0 holds besides leaves."""
    around = kernel.parent_op()
    if not isinstance(around, BranchOp) or not is_planned_branch(around):
        return None
    block = around.arm_regions[0].block
    rest = [op for op in block.ops if op is not kernel and not op.has_trait(Leaf)]
    return around if kernel.parent is block and rest == [block.last_op] else None


def _append(branch: BranchOp, kernel: KernelOp, arm: ArmAttr, other: Block) -> None:
    """Give a branch one more arm; `other` computes what the kernel in arm 0 does."""
    first = branch.arm_regions[0].block
    block = Block(arg_types=[value.type for value in first.args])
    inner: dict[SSAValue, SSAValue] = dict(zip(first.args, block.args, strict=True))
    for op in first.ops:
        if op.has_trait(Leaf):
            block.add_op(op.clone(inner))
    for argument, value in zip(other.args, kernel.inputs, strict=True):
        argument.replace_all_uses_with(inner[value])
    for op in list(other.ops):
        op.detach()
        block.add_op(op)
    end, written = block.last_op, first.last_op
    assert end is not None
    assert written is not None
    given: dict[SSAValue, SSAValue] = dict(zip(kernel.results, end.operands, strict=True))
    end.operands = [given.get(value) or inner[value] for value in written.operands]
    branch.add_region(Region(block))
    branch.properties["arms"] = ArrayAttr([*branch.arms, arm])


def _function_around(op: Operation) -> FuncOp | None:
    """The function that an op is in; None if an arm that a pass made lies between."""
    while (parent := op.parent_op()) is not None and not isinstance(parent, FuncOp):
        if isinstance(parent, BranchOp) and is_planned_branch(parent):
            return None
        op = parent
    return parent
