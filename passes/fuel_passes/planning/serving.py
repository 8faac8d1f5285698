# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds the targets that may run an op, and those of them that have a kernel for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block

from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.kinds import MOVEMENT, kind_of
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.plugins import has_kernel, is_outside
from fuel_dialect.targets.description import KernelSource, TargetDescription
from fuel_dialect.targets.limits import buffers_of_op
from fuel_dialect.targets.machine import Topology
from fuel_dialect.targets.op_sets import OpSet
from fuel_dialect.tensors import tensor_type
from fuel_passes.planning.topology import target_description
from fuel_passes.walk import functions


@dataclass(frozen=True)
class Site:
    """
    A block whose ops a pass may change, and the targets that may run them.

    No target where the enclosing arm is for a device outside the topology: such an arm is not
    lowered here, so nothing is decided about it.
    """

    block: Block
    topology: Topology
    targets: tuple[TargetAttr, ...]
    planned: bool = False
    """True if the block is in an arm that a pass made, at any depth."""

    @cached_property
    def descriptions(self) -> tuple[TargetDescription, ...]:
        """The descriptions of `targets`, in their order."""
        return tuple(target_description(self.topology, target) for target in self.targets)

    def targets_of(self, op: FuelOp) -> Sequence[TargetAttr]:
        """The targets that may run an op: those of its pin, which overrides an arm's, or all."""
        pin = op.properties.get("placement")
        if pin is None or not self.targets:
            return self.targets
        return [target for target in self.topology.targets if target.device == pin]

    def candidates(self, op: FuelOp) -> Sequence[TargetDescription]:
        """Descriptions of the targets that may run an op."""
        if op.properties.get("placement") is None:
            return self.descriptions
        return [target_description(self.topology, target) for target in self.targets_of(op)]


def sites(module: ModuleOp, topology: Topology) -> Iterator[Site]:
    """Function bodies, arms and scan bodies, outer before inner; kernels and runs are closed."""
    for function in functions(module):
        yield from sites_of(function, topology)


def sites_of(function: FuncOp, topology: Topology) -> Iterator[Site]:
    """The sites of one function."""
    pending = [Site(block, topology, topology.targets) for block in reversed(function.body.blocks)]
    while pending:
        site = pending.pop()
        yield site
        inner = [
            s for op in site.block.ops if isinstance(op, RegionOp) for s in _inner_sites(op, site)
        ]
        pending += reversed(inner)


def _inner_sites(op: RegionOp, site: Site) -> Iterator[Site]:
    if isinstance(op, ScanOp):
        yield replace(site, block=op.body.block)
    if isinstance(op, BranchOp):
        for arm, region in zip(op.arms, op.arm_regions, strict=True):
            targets = (arm.target,) if arm.target in site.topology.targets else ()
            planned = site.planned or arm.is_planned
            yield Site(region.block, site.topology, targets, planned)


def serves(op: FuelOp, target: TargetDescription) -> bool:
    """Returns True if a target has a kernel for an op as it is."""
    types, buffers = element_types(op), buffers_of_op(op)
    return any(
        source_serves(op, types, target, source)
        for source in target.sources
        if source.buffers is None or buffers <= source.buffers or isinstance(op, RegionOp)
    )


def is_too_wide(op: FuelOp, target: TargetDescription) -> bool:
    """Returns True if a target lacks no more than buffers for the operands of an op."""
    return serves_types(op, element_types(op), target) and not serves(op, target)


ElementTypes = tuple[Sequence[Attribute], Sequence[Attribute]]
"""Element types of an op's operands and of its results."""


def element_types(op: FuelOp) -> ElementTypes:
    """The element types that an op has."""
    return (
        [tensor_type(o).element_type for o in op.operands],
        [tensor_type(r).element_type for r in op.results],
    )


def serves_types(op: FuelOp, types: ElementTypes, target: TargetDescription) -> bool:
    """Returns True if a target has a kernel for an op with these element types instead."""
    return any(source_serves(op, types, target, source) for source in target.sources)


def source_serves(
    op: FuelOp, types: ElementTypes, target: TargetDescription, source: KernelSource
) -> bool:
    """Returns True if a source of a target has code for an op with some element types."""
    operands, results = types
    if any(lacked.holds(type(op), (*operands, *results)) for lacked in _lacked(target, source)):
        return False
    if is_outside(type(op)) and not _is_written(type(op), target):
        return False
    for known in (target.element_types, source.element_types):
        if known is not None and any(t not in known for t in (*operands, *results)):
            return False
    if target.mixed_floats or len(operands) < 2 or isinstance(op, RegionOp):
        return True
    return not _mixes_floats(operands)


def _lacked(target: TargetDescription, source: KernelSource) -> tuple[OpSet, ...]:
    return (*target.lacks, *source.lacks)


def _is_written(op: type[FuelOp], target: TargetDescription) -> bool:
    """
    Returns True if a target has code for an op of another package.

    That is a rule of the package, a writer of the op's kind of kernel, or what renders the pieces
    of any op that says them.
    """
    if has_kernel(op, (target.name, *target.tables)):
        return True
    kind = kind_of(op)
    return target.name in kind.targets or (kind is MOVEMENT and MOVEMENT.name in target.kinds)


def _mixes_floats(types: Sequence[Attribute]) -> bool:
    first = types[0]
    if all(t is first for t in types):
        return False
    floats = {t for t in types if dtypes.of_type(t).is_float}
    return len(floats) > 1


def describe(targets: Sequence[TargetDescription]) -> str:
    """Returns the element types that targets serve, for an error message."""
    return "; ".join(f"{t.name} serves {', '.join(t.dtypes)}" for t in targets)
