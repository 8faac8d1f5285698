# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-bake-variants`: decisions between kernels of one device, taken where they are clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.canonicalization.regions import inline_arm
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.control import BranchOp
from fuel_passes.forking.arms import drop_arms
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.planning.residency import keep_targets
from fuel_passes.planning.topology import check_plan, resolve
from fuel_passes.walk import branches, functions


@dataclass(frozen=True)
class BakeVariantsPass(ModulePass):
    """
    Drops arms that are too dear, from branches that a pass made and whose arms share one device.

    An arm stays if its price is at most `within` times the cheapest; a single arm that stays is put
    in place of the branch, otherwise the order is kept. A branch with an unpriced arm becomes its
    arm 0: an unknown price is no reason to leave it. A person's branches stay, and so do branches
    between devices: these are for the picker.

    What is baked is the program from then on; `fuel-strip-plan` cannot bring dropped arms back.

    Options: `within=W`, W >= 1 (default 1.5); `topology=NAME` (default: the module's
    `fuel.topology`, else `cpu`).
    """

    name = "fuel-bake-variants"

    within: int | float = 1.5
    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.within >= 1:
            raise FuelPassError(f"fuel-bake-variants: within must be >= 1, got {self.within}")
        topology = resolve(op, self.topology)
        check_plan(op, topology)
        if any(_is_variant_branch(found) for f in functions(op) for found in branches(f)):
            targets = topology.targets
            walker = PatternRewriteWalker(
                Bake(self.within, targets), walk_regions_first=True, apply_recursively=False
            )
            walker.rewrite_module(op)


def _is_variant_branch(op: BranchOp) -> bool:
    if not is_planned_branch(op):
        return False
    return len({arm.target.device for arm in op.arms}) == 1


def kept_arms(op: BranchOp, within: float) -> list[int]:
    """Positions of the arms that may still turn out the best."""
    prices = [arm.price_ns for arm in op.arms]
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return [0]
    limit = within * min(known)
    return [index for index, price in enumerate(known) if price <= limit]


class Bake(RewritePattern):
    """A branch between variants loses the arms that are too dear."""

    def __init__(self, within: float, targets: Sequence[TargetAttr]):
        self.within = within
        self.targets = targets

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BranchOp, rewriter: PatternRewriter) -> None:
        if not _is_variant_branch(op):
            return
        kept = kept_arms(op, self.within)
        if len(kept) == 1:
            keep_targets(op, kept[0], self.targets)
            inline_arm(op, kept[0], rewriter)
        elif len(kept) < len(op.arms):
            drop_arms(op, kept, rewriter)
