# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Says which kernel sources may not make a kernel, by what a session demands of its results.

Bits that stay the same and errors belong to ops: a source that is refused for one kernel makes
another. The reasons are part of the candidates, for errors and reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.movement import MovementOp
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.targets.description import KernelSource
from fuel_dialect.targets.op_sets import element_types_of
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import FreeWhenContiguous, Leaf, ViewOp


@dataclass(frozen=True)
class Requirement:
    """Represents the demands of a session on every kernel."""

    deterministic: bool = False
    """The same bits each time on the same hardware."""
    max_ulps: int | None = None
    """The units in the last place that an op may be off; None for any."""

    def refusal(self, kernel: KernelOp, source: KernelSource) -> str | None:
        """Returns the reason why a source may not make a kernel; None if it may."""
        return _imprecise_op(kernel, source, self.max_ulps) or (
            _unstable_op(kernel, source) if self.deterministic else None
        )


def _unstable_op(kernel: KernelOp, source: KernelSource) -> str | None:
    """Returns why an op of a kernel may have other bits each time; None if none may."""
    if not source.unstable:
        return None
    for op in _computing(kernel):
        types = element_types_of(op)
        for unstable in source.unstable:
            if unstable.ops.holds(type(op), types):
                return (
                    f"determinism: {source.name} gives a {op.mnemonic()} of "
                    f"{dtypes.of_type(tensor_type(op.operands[0]))} other bits {unstable.reason}"
                )
    return None


def _imprecise_op(kernel: KernelOp, source: KernelSource, most: int | None) -> str | None:
    """Returns why an op of a kernel may be off by more than is allowed, or None if it may not."""
    if most is None:
        return None
    for op in _computing(kernel):
        dtype = dtypes.of_type(tensor_type(op.results[0]))
        ulps = source.ulps_of(type(op), dtype.name) * op.error_factor() if dtype.is_float else 0
        if ulps > most:
            return (
                f"precision-floor: {source.name} may give a {op.mnemonic()} of {dtype} {ulps} "
                f"units in the last place off; {most} are allowed"
            )
    return None


def _computing(kernel: KernelOp) -> Iterator[FuelOp]:
    """Yields the ops of a kernel, at any depth, that do more than say where elements are."""
    for op in kernel.body.walk():
        if not isinstance(op, FuelOp) or isinstance(op, RegionOp | ViewOp | MovementOp):
            continue
        if not any(op.has_trait(t) for t in (IsTerminator, Leaf, FreeWhenContiguous)):
            yield op
