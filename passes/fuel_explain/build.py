# SPDX-License-Identifier: MIT OR Apache-2.0
"""Planning a module and noting why it came out so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from fuel_dialect.attributes import HOST
from fuel_dialect.context import make_context
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_explain.body import Bodies
from fuel_explain.reports import (
    CandidateReport,
    Explanation,
    FunctionReport,
    ItemReport,
)
from fuel_passes.finishing.order_runs import overlap_of
from fuel_passes.forking.collector import paused_collector
from fuel_passes.forking.dropped import dropped
from fuel_passes.memory.plan import plan_memory
from fuel_passes.memory.record import DeviceMemory
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.candidates import Candidate, Candidates
from fuel_passes.planning.plan import BlockPlan, PlanPass, plan_block, session_pin
from fuel_passes.planning.topology import generation, resolve, transfer_ns
from fuel_passes.walk import functions


def explain(module: ModuleOp, pipeline: OptimizePass, ctx: Context | None = None) -> Explanation:
    """
    Optimise a module and say why it came out so; afterwards the module is optimised.

    Raises the `FuelPassError`s of the passes.
    """
    ctx = ctx or make_context()
    plans: dict[str, BlockPlan] = {}
    items: dict[str, tuple[ItemReport, ...]] = {}
    candidates: Candidates | None = None
    topology = resolve(module, pipeline.topology)
    with paused_collector():
        for inner in pipeline.passes():
            if isinstance(inner, PlanPass):
                candidates = inner.candidates(module)
                plans = _plans(module, inner, candidates)
                items = {name: tuple(_items(plan)) for name, plan in plans.items()}
            inner.apply(ctx, module)
    assert candidates is not None
    reports = tuple(
        _function(function, plans[name], items[name], candidates)
        for function in functions(module)
        for name in [function.sym_name.data]
    )
    targets = tuple(map(str, topology.targets))
    return Explanation(topology.name, generation(topology), targets, reports)


def _plans(module: ModuleOp, inner: PlanPass, candidates: Candidates) -> dict[str, BlockPlan]:
    pin = None if inner.device is None else session_pin(inner.device, candidates.topology)
    return {
        function.sym_name.data: plan_block(function, function.body.block, candidates, pin)
        for function in functions(module)
    }


def _items(plan: BlockPlan) -> Iterator[ItemReport]:
    for op, found in plan.candidates.items():
        yield item_report(op, found, plan.chosen.get(op))


def item_report(op: Operation, found: Sequence[Candidate], chosen: Candidate | None) -> ItemReport:
    """Returns the candidates of an item, and the one that runs it."""
    reports = tuple(
        CandidateReport(
            str(c.target), c.source, c.price_ns, c.measured, c.refusal or "", c is chosen
        )
        for c in found
    )
    pin = op.properties.get("placement")
    able = [c for c in found if c.refusal is None]
    only_one = len({c.target for c in found}) > 1 and len({c.target for c in able}) == 1
    only_generic = bool(able) and all(c.generic for c in able)
    pinned = "" if pin is None else str(pin)
    return ItemReport(_name(op), _kind(op), pinned, only_one, only_generic, reports)


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
        _memory(function, candidates),
        dropped(function),
        overlap_of(function, candidates.topology),
    )


def _memory(function: FuncOp, candidates: Candidates) -> tuple[DeviceMemory, ...]:
    capacities = {device.name: device.memory_bytes for device in candidates.topology.devices}

    def load_ns(device: str, bytes: int) -> int:
        return transfer_ns(candidates.topology, HOST, device, bytes)

    return plan_memory(function, capacities=capacities, load_ns=load_ns).plan.devices
