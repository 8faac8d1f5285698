# SPDX-License-Identifier: MIT OR Apache-2.0
"""Planning a module and noting why it came out so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from fuel_dialect.context import make_context
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_passes.collector import paused_collector
from fuel_passes.explain.body import Bodies
from fuel_passes.explain.reports import (
    CandidateReport,
    Explanation,
    FunctionReport,
    ItemReport,
)
from fuel_passes.pipeline import OptimizePass
from fuel_passes.plan.candidates import Candidate, Candidates
from fuel_passes.plan.filters import Requirement
from fuel_passes.plan.topology import generation, resolve
from fuel_passes.plan_pass import BlockPlan, PlanPass, plan_block, session_pin
from fuel_passes.walk import functions


def explain(module: ModuleOp, pipeline: OptimizePass, ctx: Context | None = None) -> Explanation:
    """
    Optimise a module and say why it came out so; afterwards the module is optimised.

    Raises the `FuelPassError`s of the passes.
    """
    ctx = ctx or make_context()
    plans: dict[str, BlockPlan] = {}
    items: dict[str, tuple[ItemReport, ...]] = {}
    topology = resolve(module, pipeline.topology)
    with paused_collector():
        for inner in pipeline.passes():
            if isinstance(inner, PlanPass):
                plans = _plans(module, pipeline)
                items = {name: tuple(_items(plan)) for name, plan in plans.items()}
            inner.apply(ctx, module)
    candidates = _candidates(module, pipeline)
    reports = tuple(
        _function(function, plans[name], items[name], candidates)
        for function in functions(module)
        for name in [function.sym_name.data]
    )
    targets = tuple(map(str, topology.targets))
    return Explanation(topology.name, generation(topology), targets, reports)


def _candidates(module: ModuleOp, pipeline: OptimizePass) -> Candidates:
    requirement = Requirement(pipeline.deterministic, pipeline.max_ulps)
    return Candidates(resolve(module, pipeline.topology), requirement)


def _plans(module: ModuleOp, pipeline: OptimizePass) -> dict[str, BlockPlan]:
    candidates = _candidates(module, pipeline)
    topology = candidates.topology
    pin = None if pipeline.device is None else session_pin(pipeline.device, topology)
    return {
        function.sym_name.data: plan_block(function, function.body.block, candidates, pin)
        for function in functions(module)
    }


def _items(plan: BlockPlan) -> Iterator[ItemReport]:
    for op, found in plan.candidates.items():
        yield item_report(op, found, plan.chosen.get(op))


def item_report(op: Operation, found: Sequence[Candidate], chosen: Candidate | None) -> ItemReport:
    """What could run an item, and what does."""
    reports = tuple(
        CandidateReport(str(c.target), c.price_ns, c.refusal or "", c is chosen) for c in found
    )
    pin = op.properties.get("placement")
    only_one = len(found) > 1 and sum(c.price_ns is not None for c in found) == 1
    return ItemReport(_name(op), _kind(op), "" if pin is None else str(pin), only_one, reports)


def _name(op: Operation) -> str:
    if isinstance(op, KernelOp):
        return op.label.data
    if isinstance(op, BranchOp):
        return op.id.data
    return op.mnemonic() if isinstance(op, FuelOp) else op.name


def _kind(op: Operation) -> str:
    if isinstance(op, KernelOp):
        return op.kind.data
    return "decision" if isinstance(op, BranchOp) else "transfer"


def _function(
    function: FuncOp, plan: BlockPlan, items: tuple[ItemReport, ...], candidates: Candidates
) -> FunctionReport:
    placed = plan.placement
    bodies = Bodies(function, candidates, placed.total_ns, item_report)
    body = bodies.of_function()
    return FunctionReport(
        function.sym_name.data,
        items,
        placed.total_ns,
        placed.kernels_ns,
        placed.transfers_ns,
        placed.exact,
        placed.gap,
        dict(placed.singles),
        tuple(bodies.decisions),
        bodies.arguments(),
        bodies.results(),
        body,
    )
