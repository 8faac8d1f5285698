# SPDX-License-Identifier: MIT OR Apache-2.0
"""Properties of the whole pipeline on several devices: random programs on random machines."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_close, decisions, run
from effort import examples
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.targets.machine import Topology
from fuel_passes.forking.fork_placements import ForkPlacementsPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import functions
from machines import Walk, machines, placed_programs, stamp
from programs import Program

CONTEXT = make_context()
PIPELINES = [
    OptimizePass(),
    OptimizePass(variants="keep"),
    OptimizePass(granularity="chain"),
]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, Program]:
    machine = draw(machines())
    return machine, draw(placed_programs(machine))


def optimised(module: ModuleOp, pipeline: OptimizePass = PIPELINES[0]) -> ModuleOp:
    module = module.clone()
    pipeline.apply(CONTEXT, module)
    module.verify()
    return module


@examples(80)
@given(cases(), st.sampled_from(PIPELINES), st.data())
def test_on_any_route_operands_are_there_and_results_agree(
    case: tuple[Topology, Program], pipeline: OptimizePass, data: st.DataObject
) -> None:
    check(case, pipeline, data)


def check(case: tuple[Topology, Program], pipeline: OptimizePass, data: st.DataObject) -> None:
    machine, program = case
    module = optimised(program.module, pipeline)
    sizes = decisions(module)
    route = {path: data.draw(st.integers(0, arms - 1)) for path, arms in sizes.items()}
    for function in functions(module):
        Walk(machine, route).function(function)
    kept = {
        path: arm for path, arm in originals(route).items() if path in decisions(program.module)
    }
    assert_close(run(program, route, module), run(program, kept))


def originals(route: dict[str, int]) -> dict[str, int]:
    """The decisions of a person, by their paths in the source."""
    return {path: arm for path, arm in route.items() if not path.split("/")[-1].startswith("d")}


@examples(60)
@given(cases(), st.sampled_from(PIPELINES), st.data())
def test_with_as_many_decisions_as_there_can_be_too(
    case: tuple[Topology, Program], pipeline: OptimizePass, data: st.DataObject
) -> None:
    """Variants in placements in a person's branches: what the gate would never let through."""
    with (
        patch("fuel_passes.forking.fork_variants.is_tiled", lambda elements, target: True),
        patch("fuel_passes.forking.fork_variants.arms_left", lambda function: 1_000),
        patch("fuel_passes.forking.converge.arms_left", lambda function: 1_000),
        patch("fuel_passes.pipeline.ForkPlacementsPass", partial(ForkPlacementsPass, reach=1e9)),
    ):
        check(case, pipeline, data)


@examples(40)
@given(cases(), st.sampled_from(PIPELINES))
def test_twice_is_once(case: tuple[Topology, Program], pipeline: OptimizePass) -> None:
    _, program = case
    once = optimised(program.module, pipeline)
    assert str(optimised(once, pipeline)) == str(once)
    again = parse_module(str(once))
    assert str(optimised(again, pipeline)) == str(once)


@examples(40)
@given(cases(), st.data())
def test_planning_again_for_another_machine_is_planning_the_source(
    case: tuple[Topology, Program], data: st.DataObject
) -> None:
    machine, program = case
    other = data.draw(machines(like=machine))
    again = optimised(stamp(optimised(program.module), other))
    assert str(again) == str(optimised(stamp(program.module, other)))


@examples(30)
@given(cases())
def test_planned_arms_are_few(case: tuple[Topology, Program]) -> None:
    _, program = case
    for function in functions(optimised(program.module)):
        arms = sum(
            len(op.arms) - 1
            for op in function.walk()
            if isinstance(op, BranchOp) and op.arms.data[0].is_planned
        )
        kernels = sum(isinstance(op, KernelOp) for op in function.walk())
        assert arms <= 1 or arms / kernels < 0.05
