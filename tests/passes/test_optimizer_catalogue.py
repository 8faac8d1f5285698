# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The catalogue of the reference optimiser's tests and hazards, in this encoding.

A stamp is the `target` of a kernel, and then of its run; a Branch is an op with regions, so an arm
is no clone beside the program but holds its ops, and forks are segments rather than nodes.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from agreement import main, names
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.errors import NoBackendForOp, TopologyChanged
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.memory import CopyOp
from fuel_dialect.targets import triton
from fuel_dialect.targets.machine import Device, Link, Rates, Topology
from fuel_passes.fork_placements import ForkPlacementsPass
from fuel_passes.form_kernels import FormKernelsPass
from fuel_passes.insert_copies import InsertCopiesPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.plan_pass import PlanPass
from fuel_passes.walk import branches, functions
from machines import stamp

CONTEXT = make_context()
CPU = TargetAttr.of("cpu", "numpy")
CUDA = TargetAttr.of("cuda:0", "triton")
T = "tensor<64x64xf32>"
FAR = "{fuel.device = #fuel.device<cuda:0>}"
CHAIN = f"%0 = fuel.relu %x : {T}\n%1 = fuel.matmul %0, %0 : {T}, {T} -> {T}\n"
CHAIN += f"func.return %1 : {T}"


def near(cpu_speed: float, cuda_speed: float) -> Topology:
    """A host and a GPU side by side, of given speeds."""
    links = (Link("cpu", "cuda:0", 1, 1e6), Link("cuda:0", "cpu", 1, 1e6))
    rates = [Rates(t, s, s, s, 1) for t, s in ((CPU, cpu_speed), (CUDA, cuda_speed))]
    return Topology("near", (Device("cpu"), Device("cuda:0")), (CPU, CUDA), links, tuple(rates))


ONE_WINS = near(1.0, 1e4)
CLOSE = near(1.0, 2.0)


def chain(machine: Topology = ONE_WINS) -> ModuleOp:
    return stamp(main(f"%x: {T}", T, CHAIN), machine)


def optimised(module: ModuleOp, how: OptimizePass | None = None) -> ModuleOp:
    (how or OptimizePass()).apply(CONTEXT, module)
    module.verify()
    return module


def found(module: ModuleOp, kind: type[Operation]) -> list[Operation]:
    return [op for op in module.walk() if isinstance(op, kind)]


def decisions(module: ModuleOp) -> list[BranchOp]:
    return [branch for function in functions(module) for branch in branches(function)]


def test_optimize_graph_stamps_backends_onto_the_graph():
    module = optimised(chain())
    assert {run.target for run in found(module, RunOp) if isinstance(run, RunOp)} == {CUDA}


def test_placement_of_observes_the_decision_and_marks_not_computed():
    module = chain()
    FormKernelsPass().apply(CONTEXT, module)
    assert [k.target for k in found(module, KernelOp) if isinstance(k, KernelOp)] == [None, None]
    PlanPass().apply(CONTEXT, module)
    assert [k.target for k in found(module, KernelOp) if isinstance(k, KernelOp)] == [CUDA, CUDA]


def test_residency_noop_when_colocated():
    module = stamp(main(f"%x: {T} {FAR}", f"({T} {FAR})", CHAIN), ONE_WINS)
    assert found(optimised(module), CopyOp) == []


def two_consumers() -> ModuleOp:
    body = f"%0 = fuel.relu %x : {T}\n%1 = fuel.matmul %x, %x : {T}, {T} -> {T}\n"
    return stamp(
        main(f"%x: {T}", f"({T} {FAR}, {T} {FAR})", body + f"func.return %0, %1 : {T}, {T}"),
        ONE_WINS,
    )


def test_residency_one_copy_per_crossing_deduped():
    (copy,) = found(optimised(two_consumers()), CopyOp)
    assert isinstance(copy, CopyOp)
    assert str(copy.to) == "cuda:0"


def test_residency_idempotent_and_restamped_on_second_call():
    module = optimised(two_consumers())
    once = str(module)
    InsertCopiesPass().apply(CONTEXT, module)
    assert str(module) == once


def test_residency_stitches_every_branch_arm_not_just_arm0():
    (branch,) = decisions(optimised(chain(CLOSE)))
    by_target = {
        arm.target: [op.name for op in region.block.ops]
        for arm, region in zip(branch.arms, branch.arm_regions, strict=True)
    }
    assert by_target == {
        CPU: ["fuel.run", "fuel.yield"],
        CUDA: ["fuel.copy", "fuel.run", "fuel.yield"],
    }


def test_deliberate_fork_emits_one_two_arm_branch():
    (branch,) = decisions(optimised(chain(CLOSE)))
    assert [arm.target for arm in branch.arms] == [CUDA, CPU]
    first, second = (arm.price_ns for arm in branch.arms)
    assert (first or 0) < (second or 0)


def test_plain_fan_out_is_not_a_branch():
    assert decisions(optimised(two_consumers())) == []


def test_no_default_max_n_truncation():
    links = [
        Link(a, b, 1, 1e6)
        for a in ("cpu", "cuda:0", "cuda:1", "cuda:2")
        for b in ("cpu", "cuda:0", "cuda:1", "cuda:2")
        if a != b
    ]
    targets = (CPU, *(TargetAttr.of(f"cuda:{n}", "triton") for n in range(3)))
    devices = tuple(Device(t.device.label) for t in targets)
    rates = tuple(Rates(t, 1.0, 1.0, 1.0, 1) for t in targets)
    machine = Topology("four", devices, targets, tuple(links), rates)
    module = chain(machine)
    PlanPass().apply(CONTEXT, module)
    ForkPlacementsPass().apply(CONTEXT, module)
    (branch,) = decisions(module)
    assert {arm.target for arm in branch.arms} == set(targets)


def test_optimize_graph_branchless_is_idempotent_and_adds_no_nodes():
    once = str(optimised(chain()))
    module = chain()
    assert [str(optimised(module)) for _ in range(3)] == [once] * 3


def test_optimize_graph_fails_fast_on_missing_binding(monkeypatch: pytest.MonkeyPatch):
    nothing = replace(triton.DESCRIPTION, dtypes=())
    monkeypatch.setattr("fuel_passes.plan.topology.description_of", lambda backend: nothing)
    machine = replace(ONE_WINS, name="empty")
    with pytest.raises(NoBackendForOp, match="relu"):
        optimised(chain(machine))


def test_cached_env_tolerates_a_concurrent_topology_generation_bump():
    module = chain()
    FormKernelsPass().apply(CONTEXT, module)
    PlanPass().apply(CONTEXT, module)
    stamp(module, CLOSE)
    with pytest.raises(TopologyChanged):
        InsertCopiesPass().apply(CONTEXT, module)


def test_h1_constants_are_no_device_of_their_own():
    body = f'%c = fuel.const 1.0 : f32 -> {T}\n%w = fuel.weight "w" : {T}\n'
    body += f"%0 = fuel.matmul %w, %w : {T}, {T} -> {T}\n%1 = fuel.add %0, %c : {T}\n"
    module = stamp(main("", f"({T} {FAR})", body + f"func.return %1 : {T}"), ONE_WINS)
    assert found(optimised(module), CopyOp) == []


@pytest.mark.parametrize("operands", ["%m, %r", "%r, %m"])
def test_h2_readers_come_before_what_reuses_their_buffer(operands: str):
    body = f"%m = fuel.move %x to #fuel.device<cpu> : {T}\n%c = fuel.relu %x : {T}\n"
    body += f"%r = fuel.matmul %c, %c : {T}, {T} -> {T}\n"
    body += f"%s = fuel.add {operands} : {T}\nfunc.return %s : {T}"
    module = stamp(main(f"%x: {T}", T, body), ONE_WINS)
    top = names(optimised(module, OptimizePass(granularity="chain")))
    readers = [i for i, name in enumerate(top) if name == "copy"]
    assert readers[0] < top.index("move")


def test_h3_a_cross_device_fork_comes_out_of_a_priced_plan():
    (branch,) = decisions(optimised(chain(CLOSE)))
    assert len({arm.target.device for arm in branch.arms}) == 2
    assert all(arm.price_ns for arm in branch.arms)


def test_h4_a_result_is_fetched_from_wherever_the_arm_left_it():
    module = optimised(chain(CLOSE))
    (branch,) = decisions(module)
    (use,) = branch.results[0].uses
    assert isinstance(use.operation, CopyOp)
    assert str(use.operation.to) == "cpu"


def test_h5_every_arm_has_runs_on_its_own_target():
    (branch,) = decisions(optimised(chain(CLOSE)))
    for arm, region in zip(branch.arms, branch.arm_regions, strict=True):
        assert {run.target for run in region.walk() if isinstance(run, RunOp)} == {arm.target}


def test_h7_a_fork_may_give_the_results_of_the_function():
    module = optimised(stamp(main(f"%x: {T}", f"({T} {FAR})", CHAIN), CLOSE))
    (branch,) = decisions(module)
    (use,) = branch.results[0].uses
    assert isinstance(use.operation, CopyOp)
    assert str(use.operation.to) == "cuda:0"


def test_h8_two_devices_of_one_backend_are_two_arms():
    heavy = f"%0 = fuel.matmul %x, %x : {T}, {T} -> {T}\nfunc.return %0 : {T}"
    module = main(f"%x: {T} {FAR}", f"({T} {FAR})", heavy)
    PlanPass(topology="2xh100").apply(CONTEXT, module)
    ForkPlacementsPass(topology="2xh100", reach=10).apply(CONTEXT, module)
    (branch,) = decisions(module)
    reached = [str(arm.target) for arm in branch.arms]
    assert reached == ["cuda:0/triton", "cuda:1/triton", "cpu/numpy"]


def test_h10_fewness_is_enforced():
    """Each transfer parts two segments that both devices run nearly as well."""
    body = "".join(
        f"%a{n} = fuel.copy %v{n} to #fuel.device<cpu> : {T}\n"
        f"%v{n + 1} = fuel.matmul %a{n}, %a{n} : {T}, {T} -> {T}\n"
        for n in range(50)
    )
    module = stamp(main(f"%v0: {T}", T, f"{body}func.return %v50 : {T}"), CLOSE)
    unlimited = module.clone()
    PlanPass().apply(CONTEXT, unlimited)
    ForkPlacementsPass().apply(CONTEXT, unlimited)
    assert len(decisions(unlimited)) == 50
    assert len(decisions(optimised(module))) == 2


def test_h22_an_optimised_module_with_branches_is_optimised_again():
    module = optimised(chain(CLOSE))
    once = str(module)
    assert str(optimised(module)) == once
    assert str(optimised(stamp(module, ONE_WINS))) == str(optimised(chain()))
