# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Filters the kernel sources that may make a kernel, and ranks them.

A hard filter says why it refuses a source; a preference narrows to those it likes, if there are
any. What is refused is never lost: the reasons are part of the result, for errors and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fuel_dialect import dtypes
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.description import KernelSource
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Elementwise

_T = TypeVar("_T")

Filter = Callable[[KernelSource], str | None]
"""Returns the reason why a source is refused; None if it is not."""

Preference = Callable[[KernelSource], bool]


@dataclass(frozen=True)
class Requirement:
    """Represents the demands of a session on every kernel."""

    deterministic: bool = False
    """The same bits each time on the same hardware."""
    max_ulps: int | None = None
    """The units in the last place that an elementwise kernel may be off; None for any."""


class FilterRejected(FuelPassError):
    """A filter refuses every source that has a kernel."""

    def __init__(self, filter: str, message: str):
        self.filter = filter
        super().__init__(message)


@dataclass(frozen=True)
class Sifted(Generic[_T]):
    """The candidates that may run, in their order, and why each other may not."""

    kept: tuple[_T, ...]
    refused: tuple[tuple[_T, str], ...]


def determinism(requirement: Requirement) -> Filter:
    """Bit-stable sources only, where that is required."""

    def refuse(source: KernelSource) -> str | None:
        if not requirement.deterministic or source.bit_stable:
            return None
        return f"determinism: {source.name} kernels may give other bits each time"

    return refuse


def unstable_op(kernel: KernelOp, source: KernelSource) -> str | None:
    """Returns why a bit-stable source may yet give a kernel other bits; None if it may not."""
    if not source.unstable:
        return None
    for op in kernel.body.walk():
        if isinstance(op, FuelOp) and op.mnemonic() in source.unstable and _is_float(op):
            return (
                f"determinism: {source.name} gives a {op.mnemonic()} of floats other bits where "
                "a library may use another number of threads"
            )
    return None


def imprecise_op(kernel: KernelOp, source: KernelSource, most: int | None) -> str | None:
    """Returns why an op of a kernel may be off by more than is allowed, or None if it may not."""
    if most is None:
        return None
    for op in kernel.body.walk():
        if not (isinstance(op, FuelOp) and op.has_trait(Elementwise) and _is_float(op)):
            continue
        dtype = dtypes.of_type(tensor_type(op.results[0])).name
        ulps = source.ulps_of(type(op), dtype) * op.error_factor()
        if ulps > most:
            return (
                f"precision-floor: {source.name} may give a {op.mnemonic()} of {dtype} {ulps} "
                f"units in the last place off; {most} are allowed"
            )
    return None


def _is_float(op: FuelOp) -> bool:
    return any(dtypes.of_type(tensor_type(value)).is_float for value in op.operands)


def precision_floor(requirement: Requirement) -> Filter:
    """Only sources that promise as much precision as is required."""

    def refuse(source: KernelSource) -> str | None:
        most = requirement.max_ulps
        if most is None or source.ulps <= most:
            return None
        return (
            f"precision-floor: {source.name} kernels may be off by {source.ulps} units in the "
            f"last place; {most} are allowed"
        )

    return refuse


def filters_for(requirement: Requirement) -> tuple[Filter, ...]:
    """The hard filters, in the order they are asked; the first that refuses gives the reason."""
    return precision_floor(requirement), determinism(requirement)


def strided(has_strided_operand: bool) -> Preference:
    """With a strided operand, sources that read it as it is."""
    return lambda source: source.strided or not has_strided_operand


def bit_stable(source: KernelSource) -> bool:
    """Sources that give the same bits each time."""
    return source.bit_stable


def sift(
    candidates: Sequence[_T],
    described: Callable[[_T], KernelSource],
    requirement: Requirement,
    preferences: Sequence[Preference] = (),
) -> Sifted[_T]:
    """
    Hard filters, then preferences.

    Raises `FilterRejected`, with every reason, if there are candidates and none may run.
    """
    kept: list[_T] = []
    refused: list[tuple[_T, str]] = []
    filters = filters_for(requirement)
    for candidate in candidates:
        source = described(candidate)
        reason = next((why for refuse in filters if (why := refuse(source))), None)
        if reason is None:
            kept.append(candidate)
        else:
            refused.append((candidate, reason))
    if refused and not kept:
        reasons = [reason for _, reason in refused]
        raise FilterRejected(reasons[0].partition(":")[0], "; ".join(reasons))
    for preference in preferences:
        liked = [candidate for candidate in kept if preference(described(candidate))]
        refused += [(c, "another is liked better") for c in kept if liked and c not in liked]
        kept = liked or kept
    return Sifted(tuple(kept), tuple(refused))
