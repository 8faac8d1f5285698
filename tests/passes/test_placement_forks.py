# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decisions between devices: the arms, their prices, runs and order; how few they are."""

from __future__ import annotations

import numpy as np

from agreement import main
from beside import (
    CHAIN,
    CLOSE,
    CONTEXT,
    CPU,
    CUDA,
    FAR,
    ONE_WINS,
    STRIDED,
    T,
    chain,
    decisions,
    optimised,
    two_consumers,
)
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import RunOp
from fuel_dialect.ops.memory import CopyOp
from fuel_dialect.targets.machine import Device, Link, Rates, Topology
from fuel_explain import explain
from fuel_explain.reports import BranchReport, RunReport
from fuel_passes.forking.fork_placements import ForkPlacementsPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.plan import PlanPass
from machines import stamp


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


def test_branched_graph_realizes_via_arm0():
    """Arm 0 runs when nobody picks: the plan without the fork."""
    module = optimised(chain(CLOSE))
    (branch,) = decisions(module)
    assert branch.arms.data[0].target == CUDA
    plain = optimised(chain(CLOSE), OptimizePass(device="cuda"))
    assert decisions(plain) == []
    first = branch.arm_regions[0]
    assert [op.name for op in first.walk()][:-1] == [
        op.name
        for op in plain.walk()
        if op.name.startswith("fuel.") and not (isinstance(op, CopyOp) and str(op.to) == "cpu")
    ]
    x = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    np.testing.assert_array_equal(evaluate(module, x)[0], evaluate(plain, x)[0])


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


def test_a_cross_device_fork_comes_out_of_a_priced_plan():
    (branch,) = decisions(optimised(chain(CLOSE)))
    assert len({arm.target.device for arm in branch.arms}) == 2
    assert all(arm.price_ns for arm in branch.arms)


def test_every_arm_has_runs_on_its_own_target():
    (branch,) = decisions(optimised(chain(CLOSE)))
    for arm, region in zip(branch.arms, branch.arm_regions, strict=True):
        assert {run.target for run in region.walk() if isinstance(run, RunOp)} == {arm.target}


def test_kernels_of_every_arm_read_views_right():
    """Views stand in the kernels that read them, in any arm."""
    arms = "".join(
        f'arm on #fuel.target<{device}, "{backend}"> {{{STRIDED.format("a", "r", op)}\n'
        "fuel.yield %r : tensor<3xf32>\n}\n"
        for device, backend, op in (("cpu", "numpy", "neg"), ("cuda:0", "triton", "sqr"))
    )
    body = f'%b = fuel.branch "mine"(%a = %x : tensor<8xf32>) -> tensor<3xf32>\n{arms}'
    module = main("%x: tensor<8xf32>", "tensor<3xf32>", f"{body}func.return %b : tensor<3xf32>")
    optimised(stamp(module, CLOSE))
    x = np.arange(8, dtype=np.float32)
    results = [evaluate(module, x, arms={"mine": arm})[0].tolist() for arm in (0, 1)]
    assert results == [[-3.0, -2.0, -1.0], [9.0, 4.0, 1.0]]


def test_a_fork_may_give_the_results_of_the_function():
    module = optimised(stamp(main(f"%x: {T}", f"({T} {FAR})", CHAIN), CLOSE))
    (branch,) = decisions(module)
    (use,) = branch.results[0].uses
    assert isinstance(use.operation, CopyOp)
    assert str(use.operation.to) == "cuda:0"


def test_two_devices_of_one_backend_are_two_arms():
    heavy = f"%0 = fuel.matmul %x, %x : {T}, {T} -> {T}\nfunc.return %0 : {T}"
    module = main(f"%x: {T} {FAR}", f"({T} {FAR})", heavy)
    PlanPass(topology="2xh100").apply(CONTEXT, module)
    ForkPlacementsPass(topology="2xh100", reach=10).apply(CONTEXT, module)
    (branch,) = decisions(module)
    reached = [str(arm.target) for arm in branch.arms]
    assert reached == ["cuda:0/triton", "cuda:1/triton", "cpu/numpy"]


def test_a_decision_of_one_arm_is_none():
    """It canonicalises away, and is counted no more."""
    body = f"""
        %b = fuel.branch "one"(%a = %x : {T}) -> {T}
        arm on #fuel.target<cpu, "numpy"> {{
          %0 = fuel.matmul %a, %a : {T}, {T} -> {T}
          fuel.yield %0 : {T}
        }}
        func.return %b : {T}"""
    assert decisions(optimised(main(f"%x: {T}", T, body))) == []


def test_fewness_is_enforced():
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


def test_an_arm_is_priced_by_all_that_it_holds():
    """Of a segment of several kernels, each for its own price, and the transfers in and out."""
    module = stamp(main(f"%x: {T} {FAR}", f"({T} {FAR})", CHAIN), CLOSE)
    explanation = explain(module, OptimizePass())
    (function,) = explanation.functions
    branch = function.body.boxes[0]
    assert isinstance(branch, BranchReport)
    for arm, body in zip(branch.decision.arms, branch.bodies, strict=True):
        runs = [box.price_ns or 0 for box in body.boxes if isinstance(box, RunReport)]
        assert arm.price_ns is not None
        transfers = arm.price_ns - sum(runs)
        assert transfers == (0 if arm.target == str(CUDA) else 2 * (1 + 1))


def test_an_arm_is_where_its_target_says_whatever_the_session_is_pinned_to():
    body = f"""
        %b = fuel.branch "mine"(%a = %x : {T}) -> {T}
        arm on #fuel.target<cpu, "numpy"> {{
          %0 = fuel.neg %a : {T}
          fuel.yield %0 : {T}
        }}
        arm on #fuel.target<cuda:0, "triton"> {{
          %0 = fuel.neg %a : {T}
          fuel.yield %0 : {T}
        }}
        func.return %b : {T}"""
    module = stamp(main(f"%x: {T}", T, body), CLOSE)
    (branch,) = decisions(optimised(module, OptimizePass(device="cpu")))
    near, far = ([op.name for op in region.block.ops] for region in branch.arm_regions)
    assert near == ["fuel.run", "fuel.yield"]
    assert far == ["fuel.copy", "fuel.run", "fuel.yield"]


def test_a_plan_without_pins_is_complete():
    """Every run has a target, and every arm the transfers that it needs."""
    module = optimised(chain(CLOSE))
    (branch,) = decisions(module)
    for arm, region in zip(branch.arms, branch.arm_regions, strict=True):
        assert [run.target for run in region.walk() if isinstance(run, RunOp)] == [arm.target]
        assert any(isinstance(op, CopyOp) for op in region.walk()) == (arm.target == CUDA)


def test_an_optimised_module_with_branches_is_optimised_again():
    module = optimised(chain(CLOSE))
    once = str(module)
    assert str(optimised(module)) == once
    assert str(optimised(stamp(module, ONE_WINS))) == str(optimised(chain()))
