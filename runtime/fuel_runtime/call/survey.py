# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds every decision of an optimised function, and every run that this machine can execute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.control import BranchOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.traits import Leaf
from fuel_passes.planning.residency import argument_devices, result_devices
from fuel_runtime.devices.present import Devices
from fuel_runtime.picker.decision import Arm, Decision, Pick
from fuel_runtime.picker.policy import Policy
from fuel_runtime.picker.resolve import resolve


@dataclass(frozen=True)
class Survey:
    """Holds the decisions of a function by branch, and, by op, the names of its runs and leaves."""

    unavailable: str | None
    """The reason why the ops outside of branches cannot run here; None if they can."""
    decisions: Mapping[BranchOp, Decision]
    runs: Mapping[RunOp, str]
    leaves: Mapping[Operation, str]


def single_block(function: FuncOp) -> Block:
    """The body of a function. Raises `LoweringError` if control flows between blocks."""
    if len(function.body.blocks) != 1:
        raise LoweringError(
            f"{function.sym_name.data}: a function that runs has one block, not "
            f"{len(function.body.blocks)}"
        )
    return function.body.block


def survey(function: FuncOp, devices: Devices) -> Survey:
    """
    Every decision of an optimised function, with why an arm cannot run here, and what to lower.

    Raises `LoweringError` if the function holds anything but runs, branches, transfers and leaves.
    """
    body = single_block(function)
    decisions: dict[BranchOp, Decision] = {}
    unavailable = _why_not(body, devices, "", decisions) or _why_not_ends(function, devices)
    found = _Found(decisions)
    found.visit(body)
    return Survey(unavailable, decisions, found.runs, found.leaves)


def choose(survey: Survey, policy: Policy) -> dict[BranchOp, Pick]:
    """
    Returns an arm for each decision, before anything is known of the machine.

    Raises `DecisionError` for a decision or arm that is not there, and `DeviceUnavailable` for a
    forced arm that cannot run here.
    """
    policy.check(survey.decisions.values())
    return {
        branch: resolve(decision, policy=policy, plugins=False)
        for branch, decision in survey.decisions.items()
        if decision.path in policy.force or any(arm.unavailable is None for arm in decision.arms)
    }


def _why_not(
    block: Block, devices: Devices, prefix: str, decisions: dict[BranchOp, Decision]
) -> str | None:
    """
    Returns why a block cannot run here. Adds its decisions, outer before inner, at any depth.

    A transfer that only arms read which cannot run is no reason: it is not made.
    """
    reasons: list[str | None] = []
    transfers: list[TransferOp] = []
    for op in block.ops:
        if isinstance(op, BranchOp):
            reasons.append(_decide(op, devices, prefix, decisions))
        elif isinstance(op, RunOp):
            reasons.append(devices.why_not_target(op.target))
        elif isinstance(op, TransferOp):
            transfers.append(op)
        elif not op.has_trait(Leaf) and not op.has_trait(IsTerminator):
            raise LoweringError(
                f"{op.name} stands outside of a run; an optimised function holds runs, branches, "
                "transfers and leaves: compile with optimize=True, or apply fuel-form-runs"
            )
    reasons += [devices.why_not(op.to) for op in transfers if _is_read(op.result, decisions)]
    return next((reason for reason in reasons if reason is not None), None)


def _why_not_ends(function: FuncOp, devices: Devices) -> str | None:
    """Returns why arguments or results cannot live on their declared devices; None if they can."""
    body = single_block(function)
    ends = (*argument_devices(function, body), *result_devices(function))
    return next((reason for end in ends if (reason := devices.why_not(end))), None)


def _is_read(value: SSAValue, decisions: Mapping[BranchOp, Decision]) -> bool:
    """Returns True if anything that can run reads a value, in an arm or through transfers."""
    for use in value.uses:
        reader = use.operation
        if isinstance(reader, TransferOp):
            if _is_read(reader.result, decisions):
                return True
        elif not isinstance(reader, BranchOp):
            return True
        elif any(_is_read(given, decisions) for given in _inside(reader, use.index, decisions)):
            return True
    return False


def _inside(
    branch: BranchOp, operand: int, decisions: Mapping[BranchOp, Decision]
) -> Iterator[SSAValue]:
    """An operand of a branch as the arms know it that can run."""
    for arm, region in zip(decisions[branch].arms, branch.arm_regions, strict=True):
        if arm.unavailable is None:
            yield region.block.args[operand]


def _decide(
    branch: BranchOp, devices: Devices, prefix: str, decisions: dict[BranchOp, Decision]
) -> str | None:
    path = prefix + branch.id.data
    decisions[branch] = Decision(path, ())
    arms: list[Arm] = []
    for index, (arm, region) in enumerate(zip(branch.arms, branch.arm_regions, strict=True)):
        inside = _why_not(region.block, devices, f"{path}/{index}/", decisions)
        unavailable = devices.why_not_target(arm.target) or inside
        arms.append(Arm(str(arm.target), arm.price_ns, arm.origin.data, unavailable))
    decisions[branch] = Decision(path, tuple(arms))
    if any(arm.unavailable is None for arm in arms):
        return None
    return f"no arm of {path} can run: {arms[0].unavailable}"


@dataclass
class _Found:
    """Names the runs and leaves of every arm that can run here."""

    decisions: Mapping[BranchOp, Decision]
    runs: dict[RunOp, str] = field(default_factory=dict)
    leaves: dict[Operation, str] = field(default_factory=dict)

    def visit(self, block: Block) -> None:
        """Take in what a block holds, at any depth."""
        for op in block.ops:
            if isinstance(op, BranchOp):
                self._visit_arms(op)
            elif isinstance(op, RunOp):
                self.runs[op] = f"run{len(self.runs)}"
            elif op.has_trait(Leaf):
                self.leaves[op] = f"leaf{len(self.leaves)}"

    def _visit_arms(self, branch: BranchOp) -> None:
        for arm, region in zip(self.decisions[branch].arms, branch.arm_regions, strict=True):
            if arm.unavailable is None:
                self.visit(region.block)
