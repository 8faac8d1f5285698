# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-converge`: few decisions, and only those worth taking."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from fuel_dialect.attributes import MAX_PRICE, TargetAttr
from fuel_dialect.ops.control import BranchOp
from fuel_passes.forking.dropped import note_dropped
from fuel_passes.forking.fork_placements import REFUGE, footprint
from fuel_passes.forking.fork_variants import arms_left
from fuel_passes.legalize.strip_plan import added_arms, is_planned_branch
from fuel_passes.planning.frontier import Entry, frontier
from fuel_passes.planning.residency import keep_arms
from fuel_passes.planning.topology import check_plan, resolve
from fuel_passes.walk import branches, functions

LOG = logging.getLogger("fuel")


@dataclass(frozen=True)
class ConvergePass(ModulePass):
    """
    Drops arms that passes made, until those that stay are few and differ.

    - An arm that is the same as an earlier one of its branch goes.
    - Of the arms of a branch between devices, those go that another on the same device beats in
      price or in the memory they need, and equals in the other (`plan/frontier.py`, at most 32 for
      a device); the dearer of two kernels on one device are for `fuel-bake-variants`.
    - While arms that passes added are 5 % of a function's kernels or more (one is always
      allowed), the least valuable goes: its value is what the branch costs at its best, discounted
      by how much dearer the arm is. Refuges from a full device go last.

    What goes is logged under the name `fuel`, and what had to make room for others is noted on the
    function, in `fuel.dropped`. Arm 0 stays, for `fuel-strip-plan` gives it back; a
    branch that has no other left is replaced by it. A person's own arms stay as they are.

    Option: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`).
    """

    name = "fuel-converge"

    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        topology = resolve(op, self.topology)
        check_plan(op, topology)
        targets = topology.targets
        for function in functions(op):
            found = [branch for branch in branches(function) if added_arms(branch)]
            if not found:
                continue
            for branch in reversed(found):
                _drop(branch, superfluous(branch), targets)
            _thin_out(function, targets)


def superfluous(branch: BranchOp) -> dict[int, str]:
    """Arms that others make superfluous, and why."""
    gone: dict[int, str] = {}
    arms, regions = branch.arms.data, branch.arm_regions
    for index in added_arms(branch):
        for other in range(index):
            is_same = other not in gone and arms[other].target == arms[index].target
            if is_same and regions[index].is_structurally_equivalent(regions[other]):
                gone[index] = f"is the same as arm {other}"
                break
    if is_planned_branch(branch) and len({arm.target.device for arm in arms}) > 1:
        kept = frontier([_entry(branch, i) for i in range(len(arms)) if i not in gone])
        left = {entry.candidate for entry in kept} | set(gone)
        why = "is dearer than others on its device and needs no less memory"
        gone |= {i: why for i in range(len(arms)) if i not in left}
    return gone


def _entry(branch: BranchOp, index: int) -> Entry[int]:
    arm, ops = branch.arms.data[index], list(branch.arm_regions[index].block.ops)
    price = arm.price_ns
    costs = (MAX_PRICE if price is None else price, footprint(ops))
    return Entry(index, arm.target.device.label, arm.target.backend.data, costs, price)


def _thin_out(function: FuncOp, targets: Sequence[TargetAttr]) -> None:
    """Drop the least valuable arms until there are few enough."""
    over = -arms_left(function)
    if over <= 0:
        return
    arms = [
        (value_of(branch, index), branch, index)
        for branch in branches(function)
        for index in added_arms(branch)
    ]
    gone: dict[BranchOp, dict[int, str]] = {}
    for _, branch, index in sorted(arms, key=lambda arm: arm[0])[:over]:
        gone.setdefault(branch, {})[index] = "is the least valuable of more than 5 % of the kernels"
    note_dropped(
        function,
        [_said(branch, i, why) for branch, whys in gone.items() for i, why in whys.items()],
    )
    for branch, reasons in gone.items():
        if function.is_ancestor(branch):
            _drop(branch, reasons, targets)


def value_of(branch: BranchOp, index: int) -> tuple[bool, float]:
    """Returns the rank of an arm: refuges before all others, then by nanoseconds at stake."""
    arms = branch.arms.data
    price = arms[index].price_ns
    known = [arm.price_ns for arm in arms if arm.price_ns is not None]
    stake = 0.0 if price is None else min(known) ** 2 / max(price, 1)
    return arms[index].origin.data.endswith(REFUGE), stake


def _said(branch: BranchOp, index: int, why: str) -> str:
    arm = branch.arms.data[index]
    price = "no price" if arm.price_ns is None else f"{arm.price_ns:,} ns"
    return f"{branch.id.data}: the arm for {arm.target}, {price}, from {arm.origin.data}, {why}"


def _drop(branch: BranchOp, reasons: dict[int, str], targets: Sequence[TargetAttr]) -> None:
    """Drop arms of a branch other than the first; one arm alone takes its place."""
    if not reasons:
        return
    for index, why in reasons.items():
        LOG.info("fuel-converge: %s", _said(branch, index, why))
    kept = [index for index in range(len(branch.arms)) if index not in reasons]
    keep_arms(branch, kept, targets)
