# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Optimising a program that has changed a little since it was optimised before.

`fuel-optimize` plans from the program alone: what it gives never depends on an earlier plan. Here
the caller hands an earlier placement on. Kernels in front of the first change and behind the last
stay where they were, unless moves of single kernels, from the changed ones on, gain something. So
the result computes the same and is never dearer than the best single device, but it may differ from
a plan from scratch, and be dearer than that. `fuel-optimize` on the result plans from scratch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.context import make_context
from fuel_passes.forking.collector import paused_collector
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.candidates import Candidates
from fuel_passes.planning.placement import Placement
from fuel_passes.planning.plan import PlanPass, plan_module
from fuel_passes.planning.topology import check_generation, generation, resolve


@dataclass(frozen=True)
class Planned:
    """Represents what planning one module found out, to start the next from."""

    placements: Mapping[str, Placement]
    """By the names of functions; none on a machine of one target."""
    candidates: Candidates = field(repr=False)
    """The prices of kernels on the machine."""


def optimize(
    module: ModuleOp,
    pipeline: OptimizePass = OptimizePass(),
    previous: Planned | None = None,
    ctx: Context | None = None,
) -> Planned:
    """
    Optimise a module in place, as `pipeline` does, but start from an earlier placement.

    The placement of a function that is not there is left aside. Raises `TopologyChanged`, with
    nothing done, for an earlier plan that was made for another topology, and the `FuelPassError`s
    of the passes.
    """
    ctx = ctx or make_context()
    if previous is not None:
        now, before = resolve(module, pipeline.topology), previous.candidates.topology
        check_generation(generation(before), now)
    planned = None
    with paused_collector():
        for inner in pipeline.passes():
            if isinstance(inner, PlanPass):
                planned = _plan(module, inner, previous)
            else:
                inner.apply(ctx, module)
    assert planned is not None
    return planned


def _plan(module: ModuleOp, inner: PlanPass, previous: Planned | None) -> Planned:
    candidates = inner.candidates(module)
    placements: Mapping[str, Placement] = {}
    if previous is not None:
        placements = previous.placements
        if _costs_the_same(candidates, previous.candidates):
            candidates.known.update(previous.candidates.known)
    plans = plan_module(module, candidates, inner.device, placements)
    found = {name: plan.placement for name, plan in plans.items()}
    return Planned(found, replace(candidates, found={}))


def _costs_the_same(now: Candidates, before: Candidates) -> bool:
    """Returns True if what is known of kernels holds still; what is measured may have changed."""
    if now.measured is not None or before.measured is not None:
        return False
    return (now.topology, now.requirement) == (before.topology, before.requirement)
