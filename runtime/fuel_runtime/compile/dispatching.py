# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds which code serves the kernels of a route, and what else could."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_dialect.ops.control import KernelOp
from fuel_passes.planning.candidates import Candidate, Candidates, cheapest, hardware_of
from fuel_passes.planning.filters import Requirement
from fuel_passes.planning.measurements import UNTRACKED, MeasurementKey, key_of
from fuel_passes.planning.topology import resolve, target_description
from fuel_runtime.call.dispatch import Dispatch, DispatchCandidate, Dispatches
from fuel_runtime.compile.observed_runs import runs_by_name

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from fuel_dialect.attributes import TargetAttr
    from fuel_runtime.call.route import Route
    from fuel_runtime.compile.code import Code
    from fuel_runtime.measurement_store import MeasuredTimes


Placed = tuple[KernelOp, "TargetAttr", str]
"""A kernel, its target, and the identity of the device that runs it."""


def dispatches(
    code: Code, module: ModuleOp, route: Route, times: MeasuredTimes | None, is_detailed: bool
) -> Dispatches:
    """Returns the kernels of a route by key; with their candidates if it is to be detailed."""
    requirement = Requirement(code.bounds.get("deterministic", False), code.bounds.get("max_ulps"))
    found = _Found(Candidates(resolve(module), requirement), times, is_detailed)
    runs, groups = runs_by_name(code.parts, module), dict[MeasurementKey, list[Placed]]()
    for name in route.runs:
        target, hardware = runs[name].target, code.parts.owners[name].identity
        for kernel in runs[name].body.block.ops:
            if isinstance(kernel, KernelOp):
                placed = kernel, target, hardware
                groups.setdefault(found.key(kernel, target), []).append(placed)
    records = (found.record(key, len(group), *group[0]) for key, group in groups.items())
    return Dispatches(tuple(records))


@dataclass(frozen=True)
class _Found:
    """Finds the records of kernels on one machine."""

    candidates: Candidates
    times: MeasuredTimes | None
    is_detailed: bool

    def key(self, kernel: KernelOp, target: TargetAttr) -> MeasurementKey:
        """Returns the key of a kernel as the source makes it that is the cheapest of its target."""
        return self._key(kernel, target, self._winner(kernel, target))

    def record(
        self, key: MeasurementKey, count: int, kernel: KernelOp, target: TargetAttr, hardware: str
    ) -> Dispatch:
        """Returns the record of so many kernels of a key."""
        winner = self._winner(kernel, target)
        able = [c for c in self._own(kernel, target) if c.refusal is None]
        return Dispatch(
            key=key,
            source="" if winner is None else winner.source,
            hardware=hardware,
            count=count,
            is_miss=bool(able) and all(each.generic for each in able),
            candidates=tuple(self._listed(kernel)) if self.is_detailed else (),
        )

    def _winner(self, kernel: KernelOp, target: TargetAttr) -> Candidate | None:
        return cheapest(self._own(kernel, target), target.device)

    def _own(self, kernel: KernelOp, target: TargetAttr) -> list[Candidate]:
        """Returns the candidates of one target."""
        return [each for each in self.candidates.of(kernel) if each.target == target]

    def _listed(self, kernel: KernelOp) -> Iterator[DispatchCandidate]:
        for each in self.candidates.of(kernel):
            measured = None
            if self.times is not None and each.refusal is None and not each.splits:
                measured = self.times.measured_ns(self._key(kernel, each.target, each))
            yield DispatchCandidate(
                str(each.target), each.source, each.price_ns, measured, each.refusal
            )

    def _key(self, kernel: KernelOp, target: TargetAttr, made: Candidate | None) -> MeasurementKey:
        topology = self.candidates.topology
        if target not in topology.targets:
            return key_of(kernel, target)
        sources = target_description(topology, target).sources
        identity = next((s.identity for s in sources if made and s.name == made.source), UNTRACKED)
        return key_of(kernel, target, identity, hardware_of(topology, target))
