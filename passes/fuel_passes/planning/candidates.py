# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Lists the candidates of each item of a block with their prices: kernels, decisions, transfers, runs.

A kernel has a candidate for each source of each target: the library calls and the generated loops
of one device compete as devices do.
A branch whose arms are other kernels for one device is priced on every device by its cheapest
arm; one between devices, and a person's, by the cheapest of the arms for that device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from xdsl.ir import BlockArgument, Operation
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.attributes import MAX_PRICE, DeviceAttr, TargetAttr
from fuel_dialect.errors import FuelPassError
from fuel_dialect.kinds import LIBRARY
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.targets.description import KernelSource, TargetDescription
from fuel_dialect.targets.machine import Topology
from fuel_dialect.traits import Elementwise, Leaf, ViewOp
from fuel_passes.forking.calls import calls_of
from fuel_passes.legalize.legalize_kernels import legal_kernel
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.planning.filters import Requirement
from fuel_passes.planning.measurements import (
    UNTRACKED,
    MeasurementKey,
    MeasurementSource,
    key_of,
)
from fuel_passes.planning.prices import source_ns
from fuel_passes.planning.residency import present_arms, target_of
from fuel_passes.planning.serving import element_types, source_serves
from fuel_passes.planning.topology import target_description


@dataclass(frozen=True)
class Candidate:
    """A target for an item, and of a kernel its source: the price, or why it cannot run it."""

    target: TargetAttr
    price_ns: int | None
    """None where it is refused, and where nobody knows."""
    refusal: str | None = None
    source: str = ""
    generic: bool = False
    """True if the source serves every kernel, and is not made for such ones."""
    splits: bool = False
    """True if the source makes one call for each op in place of the kernel as it is."""
    measured: bool = False
    """True if the price was measured."""
    model_ns: int | None = None
    """The price of the model, before anything was measured."""
    reuses: bool = True
    """True if it may write into the memory of an operand."""

    @property
    def where(self) -> str:
        """The target and the source, as people read them."""
        return f"{self.target} {self.source}".rstrip()


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
            return (Candidate(op.target, self.as_written(op.body.block.ops, op.target)),)
        return (Candidate(self.topology.targets[0], 0),)

    def _of_kernel(self, kernel: KernelOp) -> tuple[Candidate, ...]:
        key = signature(kernel)
        found = self.known.get(key)
        if found is None:
            found = tuple(
                self._priced(kernel, target, description, source)
                for target, description in self.described
                for source in description.sources
                if self.requirement.deterministic or not source.fallback
            )
            found = found if self.measured is None else calibrated(found)
            self.known[key] = found
        return found

    def _priced(
        self,
        kernel: KernelOp,
        target: TargetAttr,
        description: TargetDescription,
        source: KernelSource,
    ) -> Candidate:
        splits = _splits(kernel, source)
        found = Candidate(
            target, None, None, source.name, source.generic, splits, reuses=source.reuses
        )
        launched = self._launched(kernel, description)
        refusal = refusal_of(launched, description, source)
        refusal = refusal or self.requirement.refusal(launched, source)
        if refusal is not None:
            return replace(found, refusal=refusal)
        measured = self._measured(kernel, target, source, splits)
        modelled = source_ns(launched, description, source)
        if measured is not None:
            return replace(found, price_ns=measured, measured=True, model_ns=modelled)
        return replace(found, price_ns=modelled, model_ns=modelled)

    def _launched(self, kernel: KernelOp, description: TargetDescription) -> KernelOp:
        """Returns a kernel as a target launches it: the body of a scan is formed into kernels."""
        return legal_kernel(kernel, description)

    def _measured(
        self, kernel: KernelOp, target: TargetAttr, source: KernelSource, splits: bool
    ) -> int | None:
        """Returns the measured time of a kernel, or of its calls; None if one has none."""
        if self.measured is None:
            return None
        parts = [kernel]
        if splits:
            parts = [op for op in calls_of(kernel).ops if isinstance(op, KernelOp)]
        hardware = hardware_of(self.topology, target)
        known = [
            self.measured.measured_ns(key_of(part, target, source.identity, hardware))
            for part in parts
        ]
        found = [time for time in known if time is not None]
        return sum(found) if found and len(found) == len(known) else None

    def _of_variants(self, branch: BranchOp) -> tuple[Candidate, ...]:
        arms = [list(region.block.ops) for region in branch.arm_regions]
        return tuple(self._of_variant(arms, target) for target, _ in self.described)

    def _of_variant(self, arms: Sequence[Sequence[Operation]], target: TargetAttr) -> Candidate:
        """The cheapest arm that a target can run; it must be able to run the first."""
        prices = [self.as_written(ops, target) for ops in arms]
        if prices[0] is None:
            return Candidate(target, None, "it has no kernel for the variant as written")
        return Candidate(target, min(price for price in prices if price is not None))

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
        """The items of an arm, one after the other, where they run; None if one cannot there."""
        known = self.topology.targets
        return _sum(self.price(op, target_of(op, default, known)) for op in ops if _costs(op))

    def as_written(self, ops: Iterable[Operation], default: TargetAttr) -> int | None:
        """The same without the choice of a source that would split a kernel."""
        return _sum(self.price_as_written(op, default) for op in ops if _costs(op))

    def price(self, op: Operation, target: TargetAttr) -> int | None:
        """An item on a target; None where that cannot run it, or nobody knows for how long."""
        return _least(c for c in self.of(op) if c.target == target)

    def price_as_written(self, op: Operation, target: TargetAttr) -> int | None:
        """The same of the sources that make a kernel as it is."""
        return _least(c for c in self.of(op) if c.target == target and not c.splits)


def calibrated(found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """
    The candidates of one kernel, so that those of one target compare like with like.

    Where some sources of a target are measured and others are not, the model of these is off by as
    much as it is for those. Targets without a measurement keep their prices.
    """
    factors = {target: _off_by(found, target) for target in {c.target for c in found if c.measured}}
    return tuple(
        candidate
        if candidate.measured or candidate.price_ns is None
        else replace(
            candidate,
            price_ns=min(round(candidate.price_ns * factors.get(candidate.target, 1)), MAX_PRICE),
        )
        for candidate in found
    )


def _off_by(found: Sequence[Candidate], target: TargetAttr) -> float:
    """Returns the ratio of measured to modelled times of the candidates of a target."""
    pairs = [(c.price_ns or 0, c.model_ns or 0) for c in found if c.measured and c.target == target]
    measured, modelled = (sum(times) for times in zip(*pairs, strict=True))
    return measured / modelled if modelled else 1


def candidates_for(
    topology: Topology,
    deterministic: bool = False,
    max_ulps: int | None = None,
    measurements: str | MeasurementSource | None = None,
) -> Candidates:
    """
    Candidates under the options that passes have in common.

    Raises `FuelPassError` for a bound that is none and a file that holds no measurements.
    """
    if max_ulps is not None and max_ulps < 0:
        raise FuelPassError(f"max-ulps must be >= 0, got {max_ulps}")
    requirement = Requirement(deterministic, max_ulps)
    if not isinstance(measurements, str):
        return Candidates(topology, requirement, measurements)
    from fuel_passes.planning.measurements_schema import read

    return Candidates(topology, requirement, read(measurements))


def measurement_key(kernel: KernelOp, target: TargetAttr, topology: Topology) -> MeasurementKey:
    """
    The key under which the time of a kernel is looked up here, and is to be recorded.

    A kernel that no source of the target makes as it is has no revision.
    """
    description = target_description(topology, target)
    identity = next(
        (
            s.identity
            for s in description.sources
            if description.makes(kernel.kind.data, s) and not _splits(kernel, s)
        ),
        UNTRACKED,
    )
    return key_of(kernel, target, identity, hardware_of(topology, target))


def _splits(kernel: KernelOp, source: KernelSource) -> bool:
    """Returns True if a source makes one call for each op in place of a kernel."""
    return source.launches == "op" and kernel.kind.data != LIBRARY.name


def hardware_of(topology: Topology, target: TargetAttr) -> str:
    """The identity of the hardware behind a target, for the keys of measurements."""
    device = topology.device(target.device.label)
    return UNTRACKED if device is None else device.hardware


def _costs(op: Operation) -> bool:
    return not (op.has_trait(Leaf) or op.has_trait(IsTerminator) or isinstance(op, TransferOp))


def _least(candidates: Iterable[Candidate]) -> int | None:
    return min((c.price_ns for c in candidates if c.price_ns is not None), default=None)


def _sum(prices: Iterable[int | None]) -> int | None:
    total = 0
    for price in prices:
        if price is None:
            return None
        total += price
    return total


def is_movable(branch: BranchOp) -> bool:
    """Returns True if a branch is between kernels of one device, which may go elsewhere."""
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
    said = _said(op)
    inner = tuple(_of_op(o) for region in op.regions for block in region.blocks for o in block.ops)
    return type(op), reads, types, said, inner


def _said(op: Operation) -> object:
    """Returns what properties say; numbers of an elementwise op of fuel say nothing of its cost."""
    if isinstance(op, FuelOp) and op.has_trait(Elementwise):
        return op.variant(), op.error_factor(), op.properties.get("placement")
    return tuple(sorted(op.properties.items()))


def refusal_of(
    kernel: KernelOp, description: TargetDescription, source: KernelSource
) -> str | None:
    """Returns the reason why a source of a target cannot make a kernel; None if it can."""
    if not description.makes(kernel.kind.data, source):
        return f"it runs {', '.join(source.kinds)} kernels, not {kernel.kind.data}"
    for op in kernel.body.walk():
        if not isinstance(op, FuelOp) or op.has_trait(IsTerminator):
            continue
        if not source.strided and isinstance(op, ViewOp):
            return f"it reads contiguous operands only, not a {op.mnemonic()} of one"
        types = element_types(op)
        if not source_serves(op, types, description, source):
            operands, results = ([str(dtypes.of_type(t)) for t in s] for s in types)
            return f"no kernel for {op.mnemonic()} ({', '.join(operands)}) -> {', '.join(results)}"
    return next((why for limit in source.bounds if (why := limit.refusal(kernel))), None)


def cheapest(candidates: Iterable[Candidate], device: DeviceAttr) -> Candidate | None:
    """
    The least priced candidate of a device; the first of equals.

    One that nobody can price is not free: it is taken only where there is no other.
    """
    fitting = [c for c in candidates if c.target.device == device and c.refusal is None]
    return min(fitting, key=lambda c: inf if c.price_ns is None else c.price_ns, default=None)
