# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Canonicalisation of ops with regions, which stock passes leave with dead operands.

A decision stays a decision: only a branch of one arm, or one whose results nobody reads, goes
away.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import HOST, DeviceAttr
from fuel_dialect.numbers import int_array, int_tuple
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, RunOp, SequenceOp, YieldOp
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.traits import Leaf, Transfer


class InlineOnlyArm(RewritePattern):
    """A branch of one arm is that arm."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BranchOp, rewriter: PatternRewriter) -> None:
        if len(op.arm_regions) != 1:
            return
        device = op.arms.data[0].target.device
        if device != device_around(op):
            pin(op.arm_regions[0].block, device)
        inline_arm(op, 0, rewriter)


def device_around(op: Operation) -> DeviceAttr:
    """Returns the device of the arm around an op, or the host."""
    parent, region = op.parent_op(), op.parent_region()
    if not isinstance(parent, BranchOp) or region is None:
        return DeviceAttr.of(HOST)
    return parent.arms.data[parent.get_region_index(region)].target.device


def pin(block: Block, device: DeviceAttr) -> None:
    """Keep the ops of an arm on its device when they leave it."""
    for op in block.ops:
        is_free = op.has_trait(Leaf) or op.has_trait(Transfer) or op.has_trait(IsTerminator)
        if isinstance(op, FuelOp) and not is_free and not isinstance(op, BranchOp):
            op.properties.setdefault("placement", device)


def inline_arm(op: BranchOp, index: int, rewriter: PatternRewriter) -> None:
    """
    Replace a branch by the ops of one of its arms.

    A decision of the arm that would share its id with one outside takes the branch's id too.
    """
    block = op.arm_regions[index].block
    _keep_ids_apart(op, block)
    end = cast(YieldOp, block.last_op)
    outer = {id(a): i for a, i in zip(block.args, op.inputs, strict=True)}
    results = [outer.get(id(value), value) for value in end.operands]
    rewriter.erase(end)
    rewriter.inline_block(block, InsertPoint.before(op), op.inputs)
    rewriter.replace(op, [], results)


def _keep_ids_apart(op: BranchOp, arm: Block) -> None:
    inner = [nested for nested in arm.ops if isinstance(nested, BranchOp)]
    if not inner or op.parent is None:
        return
    taken = {o.id.data for o in op.parent.ops if isinstance(o, BranchOp) and o is not op}
    for nested in inner:
        name = nested.id.data
        while name in taken:
            name = f"{op.id.data}_{name}"
        nested.properties["id"] = StringAttr(name)
        taken.add(name)


class SinkLeaves(RewritePattern):
    """
    A constant or weight that is passed in is cloned into every region instead.

    Then it can fold there, and each device loads it once by itself.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: RegionOp, rewriter: PatternRewriter) -> None:
        for index in _constants(op):
            leaf = op.operands[index].owner
            if isinstance(leaf, Block) or not leaf.has_trait(Leaf):
                continue
            for region in op.regions:
                argument = region.block.args[index]
                if argument.first_use is None:
                    continue
                clone = leaf.clone()
                rewriter.insert(clone, InsertPoint.at_start(region.block))
                rewriter.replace_all_uses_with(argument, clone.results[0])


class DropOperands(RewritePattern):
    """
    An operand that no region reads is dropped, and one that repeats another is merged with it.

    The carries of a scan stay: they are its results too.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: RegionOp, rewriter: PatternRewriter) -> None:
        for group in (_stepped(op), _constants(op)):
            first: dict[SSAValue, int] = {}
            for index in group:
                kept = first.setdefault(op.operands[index], index)
                if kept != index:
                    _merge_arguments(op, index, kept, rewriter)
        dead = [
            index
            for index in (*_stepped(op), *_constants(op))
            if all(region.block.args[index].first_use is None for region in op.regions)
        ]
        if dead:
            _remove_operands(op, dead, rewriter)


def _stepped(op: RegionOp) -> range:
    """Positions of the xs of a scan."""
    if not isinstance(op, ScanOp):
        return range(0)
    return range(len(op.inits), len(op.inits) + len(op.xs))


def _constants(op: RegionOp) -> range:
    """Positions of operands that are the same for the whole op: all, but for a scan its consts."""
    start = len(op.inits) + len(op.xs) if isinstance(op, ScanOp) else 0
    return range(start, len(op.operands))


def _merge_arguments(op: RegionOp, index: int, kept: int, rewriter: PatternRewriter) -> None:
    for region in op.regions:
        arguments = region.block.args
        # xDSL gives a value without a name that of what it replaces.
        arguments[index].name_hint = arguments[kept].name_hint
        if arguments[index].first_use is not None:
            rewriter.replace_all_uses_with(arguments[index], arguments[kept])


def _remove_operands(op: RegionOp, dead: list[int], rewriter: PatternRewriter) -> None:
    gone, stepped = set(dead), _stepped(op)
    op.operands = [o for i, o in enumerate(op.operands) if i not in gone]
    for region in op.regions:
        for argument in [region.block.args[i] for i in dead]:
            region.block.erase_arg(argument)
    if isinstance(op, ScanOp):
        inits, xs = stepped.start, len(set(stepped) - gone)
        sizes = [inits, xs, len(op.operands) - inits - xs]
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
    if isinstance(op, RunOp) and op.reuses is not None:
        numbers = [-1 if o in gone else o - sum(d < o for d in gone) for o in int_tuple(op.reuses)]
        op.properties["reuses"] = int_array(numbers)
    rewriter.notify_op_modified(op)


class DropResults(RewritePattern):
    """A result that nobody reads is dropped."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: RegionOp, rewriter: PatternRewriter) -> None:
        used = [index for index, r in enumerate(op.results) if r.first_use is not None]
        if len(used) == len(op.results) or not used:
            return
        assert isinstance(op, BranchOp | SequenceOp)
        for region in op.regions:
            end = cast(YieldOp, region.block.last_op)
            end.operands = [end.operands[i] for i in used]
        regions = [op.detach_region(region) for region in list(op.regions)]
        properties = dict(op.properties)
        if isinstance(op, RunOp) and op.reuses is not None:
            numbers = int_tuple(op.reuses)
            properties["reuses"] = int_array([numbers[i] for i in used])
        new = type(op).create(
            operands=op.operands,
            result_types=[op.results[i].type for i in used],
            properties=properties,
            attributes=op.attributes,
            regions=regions,
        )
        fresh = dict(zip(used, new.results, strict=True))
        rewriter.replace(op, new, [fresh.get(i) for i in range(len(op.results))])
