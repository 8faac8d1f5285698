# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What could run each item of a block, and for how long: kernels, decisions, transfers and runs.

A branch whose arms are other kernels for one device is priced on every device by its cheapest
arm; one between devices, and a person's, by the cheapest of the arms for that device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import BlockArgument, Operation
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.traits import Leaf
from fuel_passes.plan.filters import Requirement, filters_for
from fuel_passes.plan.measurements import MeasurementSource, key_of, refined
from fuel_passes.plan.prices import kernel_ns
from fuel_passes.plan.residency import present_arms
from fuel_passes.plan.serving import element_types, serves
from fuel_passes.plan.topology import Topology, target_description
from fuel_passes.strip_plan import is_planned_branch


@dataclass(frozen=True)
class Candidate:
    """A target for an item: its price, or why it cannot run it."""

    target: TargetAttr
    price_ns: int | None
    refusal: str | None = None


@dataclass
class Candidates:
    """
    Candidates of items on one machine, while the items stay as they are.

    Kernels that compute the same are priced once.
    """

    topology: Topology
    requirement: Requirement = field(default_factory=Requirement)
    measured: MeasurementSource | None = None
    known: dict[object, tuple[Candidate, ...]] = field(
        default_factory=dict[object, tuple[Candidate, ...]]
    )
    found: dict[Operation, tuple[Candidate, ...]] = field(
        default_factory=dict[Operation, tuple[Candidate, ...]]
    )

    def __post_init__(self) -> None:
        targets = self.topology.targets
        self.filters = filters_for(self.requirement)
        self.described = [(t, target_description(self.topology, t)) for t in targets]

    def of(self, op: Operation) -> tuple[Candidate, ...]:
        """One candidate for each target that the item may be for."""
        found = self.found.get(op)
        if found is None:
            found = self.found[op] = self._of(op)
        return found

    def _of(self, op: Operation) -> tuple[Candidate, ...]:
        if isinstance(op, KernelOp):
            return self._of_kernel(op)
        if isinstance(op, BranchOp):
            return self._of_variants(op) if is_movable(op) else self._of_arms(op)
        if isinstance(op, TransferOp):
            return tuple(Candidate(t, 0) for t, _ in self.described if t.device == op.to)
        if isinstance(op, RunOp):
            return (Candidate(op.target, self.total(op.body.block.ops, op.target)),)
        return (Candidate(self.topology.targets[0], 0),)

    def _of_kernel(self, kernel: KernelOp) -> tuple[Candidate, ...]:
        key = signature(kernel)
        found = self.known.get(key)
        if found is None:
            found = tuple(self._priced(kernel, t, d) for t, d in self.described)
            self.known[key] = found
        return found

    def _priced(
        self, kernel: KernelOp, target: TargetAttr, description: TargetDescription
    ) -> Candidate:
        refusal = refusal_of(kernel, description)
        refusal = refusal or next((why for f in self.filters if (why := f(description))), None)
        if refusal is not None:
            return Candidate(target, None, refusal)
        price = kernel_ns(kernel, description)
        if self.measured is None:
            return Candidate(target, price)
        return Candidate(target, refined(price, key_of(kernel, target), self.measured))

    def _of_variants(self, branch: BranchOp) -> tuple[Candidate, ...]:
        arms = [region.block.ops for region in branch.arm_regions]
        found: list[Candidate] = []
        for target, _ in self.described:
            prices = [self.total(ops, target) for ops in arms]
            known = [price for price in prices if price is not None]
            if len(known) < len(prices):
                found.append(Candidate(target, None, "it has no kernel for one of the variants"))
            else:
                found.append(Candidate(target, min(known)))
        return tuple(found)

    def _of_arms(self, branch: BranchOp) -> tuple[Candidate, ...]:
        best: dict[TargetAttr, int] = {}
        for index in present_arms(branch, self.topology.targets):
            arm = branch.arms.data[index]
            price = self.total(branch.arm_regions[index].block.ops, arm.target)
            price = arm.price_ns if price is None else price
            if price is not None:
                best[arm.target] = min(price, best.get(arm.target, price))
        return tuple(Candidate(target, price) for target, price in best.items())

    def total(self, ops: Iterable[Operation], default: TargetAttr) -> int | None:
        """The items of an arm or a run on its target, one after the other; None if it cannot."""
        total = 0
        for op in ops:
            if op.has_trait(Leaf) or op.has_trait(IsTerminator) or isinstance(op, TransferOp):
                continue
            price = self.price(op, default)
            if price is None:
                return None
            total += price
        return total

    def price(self, op: Operation, target: TargetAttr) -> int | None:
        """An item on a target; None where that cannot run it."""
        found = self.of(op)
        return next((c.price_ns for c in found if c.target == target), None)


def is_movable(branch: BranchOp) -> bool:
    """Whether a branch is between kernels that a pass found for one device: it may go elsewhere."""
    return is_planned_branch(branch) and len({arm.target for arm in branch.arms}) == 1


def signature(kernel: KernelOp) -> object:
    """Equal for kernels that have the same candidates."""
    ops = kernel.body.block.ops
    return (
        kernel.kind,
        tuple(argument.type for argument in kernel.body.block.args),
        tuple(_of_op(op) for op in ops),
    )


def _of_op(op: Operation) -> object:
    types = tuple(result.type for result in op.results)
    reads = tuple(
        operand.index if isinstance(operand, BlockArgument) else operand.type
        for operand in op.operands
    )
    if not op.regions:
        return type(op), reads, types
    inner = tuple(_of_op(o) for region in op.regions for block in region.blocks for o in block.ops)
    return type(op), reads, types, inner, op.properties.get("length")


def refusal_of(kernel: KernelOp, description: TargetDescription) -> str | None:
    """Why a target cannot run a kernel; None if it can."""
    if kernel.kind.data not in description.kinds:
        return f"it runs {', '.join(description.kinds)} kernels, not {kernel.kind.data}"
    for op in kernel.body.walk():
        if not isinstance(op, FuelOp) or op.has_trait(IsTerminator):
            continue
        if not serves(op, description):
            operands, results = ([str(dtypes.of_type(t)) for t in s] for s in element_types(op))
            return f"no kernel for {op.mnemonic()} ({', '.join(operands)}) -> {', '.join(results)}"
    return None


def cheapest(candidates: Sequence[Candidate], device: DeviceAttr) -> Candidate | None:
    """The least priced target of a device; the first of equals."""
    fitting = [c for c in candidates if c.target.device == device and c.price_ns is not None]
    return min(fitting, key=lambda c: c.price_ns or 0, default=None)
