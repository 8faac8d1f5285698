# SPDX-License-Identifier: MIT OR Apache-2.0
"""Optimising what has changed a little, from an earlier placement."""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_close, main, run
from effort import examples
from fuel_dialect.context import make_context
from fuel_dialect.errors import TopologyChanged
from fuel_dialect.targets.machine import Topology
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning import candidates
from fuel_passes.planning.measurements import Measurements
from fuel_passes.planning.replan import Planned, optimize
from fuel_passes.walk import functions
from machines import Walk, machines, placed_programs
from programs import Program

CONTEXT = make_context()
B = "tensor<512x512xf32>"
PIPELINE = OptimizePass(topology="2xh100")


def network(layers: int, changed: int | None = None) -> ModuleOp:
    lines = [
        f"%v{i + 1} = fuel.{'matmul' if i != changed else 'add'} %v{i}, %x : {B}, {B} -> {B}"
        for i in range(layers)
    ]
    text = "\n".join(
        line.replace(f": {B}, {B} -> {B}", f": {B}") if "add" in line else line for line in lines
    )
    return main(f"%x: {B}, %v0: {B}", B, f"{text}\nfunc.return %v{layers} : {B}")


def scratch(module: ModuleOp, pipeline: OptimizePass = PIPELINE) -> str:
    module = module.clone()
    pipeline.apply(CONTEXT, module)
    return str(module)


def planned(module: ModuleOp, previous: Planned | None = None) -> tuple[str, Planned]:
    module = module.clone()
    found = optimize(module, PIPELINE, previous)
    module.verify()
    return str(module), found


def test_without_a_previous_plan_it_is_the_pipeline():
    text, found = planned(network(6))
    assert text == scratch(network(6))
    assert set(found.placements) == {"main"}
    assert found.placements["main"].exact


def test_what_is_known_of_kernels_and_of_places_is_taken_over():
    _, before = planned(network(8))
    text, after = planned(network(8, changed=3), before)
    assert before.candidates.known.items() < after.candidates.known.items()
    assert text == scratch(network(8, changed=3))
    assert not after.placements["main"].exact


@pytest.mark.parametrize("other", ["cpu", "cpu+h100"])
def test_a_plan_for_another_machine_is_refused_and_nothing_done(other: str):
    _, before = planned(network(4))
    module = network(4)
    written = str(module)
    with pytest.raises(
        TopologyChanged, match=rf"but '{re.escape(other)}' is .*; run fuel-optimize"
    ):
        optimize(module, OptimizePass(topology=other), before)
    assert str(module) == written
    found = optimize(module, OptimizePass(topology="cpu"))
    assert found.placements == {}
    assert optimize(module, OptimizePass(topology="cpu"), found).placements == {}


def test_measured_prices_are_asked_for_again():
    _, before = planned(network(4))
    module = network(4)
    pipeline = OptimizePass(topology="2xh100", measurements=Measurements({}))
    with patch.object(candidates, "source_ns", wraps=candidates.source_ns) as priced:
        optimize(module, pipeline, before)
    assert priced.call_count > 0


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, Program, Program]:
    machine = draw(machines())
    return machine, draw(placed_programs(machine)), draw(placed_programs(machine))


@examples(60)
@given(cases())
def test_whatever_was_planned_before_the_program_computes_the_same(
    case: tuple[Topology, Program, Program],
) -> None:
    machine, program, other = case
    previous = optimize(other.module.clone())
    module = program.module.clone()
    found = optimize(module, previous=previous)
    module.verify()
    for function in functions(module):
        Walk(machine, {}).function(function)
    assert_close(run(program, {}, module), run(program, {}))
    for placement in found.placements.values():
        assert all(placement.total_ns <= single for single in placement.singles.values())
    again = module.clone()
    OptimizePass().apply(CONTEXT, again)
    assert str(again) == scratch(program.module, OptimizePass()), "history is forgotten"
