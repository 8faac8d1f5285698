# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-explain` says of each candidate its price, or why it is refused; planning says nothing."""

from __future__ import annotations

import logging

import pytest

from agreement import main
from fuel_dialect.context import make_context
from fuel_dialect.ops.control import RunOp
from fuel_explain import explain
from fuel_explain.reports import FunctionReport
from fuel_passes.pipeline import OptimizePass

F = "tensor<3xf32>"


def explained(body: str, dtype: str = "f64") -> FunctionReport:
    """Explains a function on a host and a Vulkan device, which has no f64."""
    type = f"tensor<3x{dtype}>"
    module = main(f"%x: {type}", type, f"{body.replace('T', type)}\nfunc.return %r : {type}")
    return explain(module, OptimizePass(topology="cpu+vulkan")).functions[0]


EXP = "%r = fuel.exp %x : T"


def test_generic_only_cell_emits_one_aggregated_miss_through_compile_plan():
    """The one item that one target alone could run is marked, and says what the other lacks."""
    (item,) = explained(EXP).items
    assert item.only_one
    (why,) = {c.refused for c in item.candidates if c.refused}
    assert why == "no kernel for exp (f64) -> f64"


def test_telemetry_off_emits_nothing_and_does_not_change_the_plan(
    caplog: pytest.LogCaptureFixture,
):
    source = main(f"%x: {F}", F, f"%r = fuel.exp %x : {F}\nfunc.return %r : {F}")
    plain, told = source.clone(), source.clone()
    pipeline = OptimizePass(topology="cpu+vulkan")
    with caplog.at_level(logging.INFO, "fuel"):
        pipeline.apply(make_context(), plain)
        explain(told, pipeline)
    assert str(plain) == str(told)
    assert caplog.records == []


def test_specialized_winner_emits_no_miss():
    (item,) = explained(EXP, "f32").items
    assert not item.only_one
    assert sum(candidate.chosen for candidate in item.candidates) == 1


def test_detailed_dispatch_record_emitted_with_per_candidate_judge_latency():
    """Each candidate has its own price; one that is refused has none, which is not 0."""
    (served,), (refused,) = explained(EXP, "f32").items, explained(EXP).items
    prices = {c.target: c.price_ns for c in served.candidates}
    assert all(price is not None and price > 0 for price in prices.values())
    assert len(set(prices.values())) == 2
    assert [c.price_ns is None for c in refused.candidates if c.refused] == [True]


def test_coarse_dispatch_record_has_no_candidates():
    """The plan itself is the record: its runs name the winner, and nothing of what lost."""
    module = main(f"%x: {F}", F, f"%r = fuel.exp %x : {F}\nfunc.return %r : {F}")
    OptimizePass(topology="cpu+vulkan").apply(make_context(), module)
    (run,) = (op for op in module.walk() if isinstance(op, RunOp))
    assert str(run.target) == "cpu/numpy"
    assert set(run.properties) == {"target"}
