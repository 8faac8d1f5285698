# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The catalogue of the reference optimiser's tests and hazards, in this encoding.

A stamp is the `target` of a kernel, and then of its run; a Branch is an op with regions, so an arm
is no clone beside the program but holds its ops, and forks are segments rather than nodes. Every
module has a topology and is planned whole, so nothing is "unpinned". The dispatch order is the
order of the block. `docs/planning.md` has the table of all entries.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from agreement import main, names
from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.errors import NoBackendForOp, TopologyChanged
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import tensor_type
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.elementwise import CastOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.ops.memory import CopyOp
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.targets.machine import Device, Link, Rates, Topology
from fuel_dialect.targets.registry import description_of
from fuel_explain import explain
from fuel_explain.reports import BranchReport, RunReport
from fuel_passes.finishing.insert_copies import InsertCopiesPass
from fuel_passes.forking.converge import ConvergePass
from fuel_passes.forking.fork_placements import ForkPlacementsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.promote_dtypes import PromoteDtypesPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.plan import PlanPass
from fuel_passes.planning.topology import generation
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


MIXED = "%a: tensor<2x3xf32>, %b: tensor<3x2xbf16>"
R = "tensor<2x2xf32>"


def mixed(attributes: str = "") -> ModuleOp:
    body = f"%0 = fuel.matmul %a, %b {attributes} : tensor<2x3xf32>, tensor<3x2xbf16> -> {R}"
    return main(MIXED, R, f"{body}\nfunc.return %0 : {R}")


def operand_dtypes(module: ModuleOp) -> list[str]:
    (matmul,) = found(module, MatmulOp)
    return [str(dtypes.of_type(tensor_type(operand))) for operand in matmul.operands]


def described(name: str) -> TargetDescription:
    found = description_of(name)
    assert found is not None
    return found


def with_mixed(monkeypatch: pytest.MonkeyPatch, *backends: str) -> None:
    """Give some targets the kernels whose operands differ in dtype."""
    monkeypatch.setattr(
        "fuel_passes.planning.topology.description_of",
        lambda name: replace(described(name), mixed_floats=name in backends),
    )


def test_optimize_graph_reconciles_mixed_precision_matmul_via_cast():
    module = mixed()
    PromoteDtypesPass().apply(CONTEXT, module)
    assert operand_dtypes(module) == ["f32", "f32"]
    (cast,) = found(module, CastOp)
    (function,) = functions(module)
    assert isinstance(cast, CastOp)
    assert cast.input is function.body.block.args[1], "the weight is as it was"


def test_dtype_reconciliation_ignores_kernels_on_non_candidate_backends(
    monkeypatch: pytest.MonkeyPatch,
):
    with_mixed(monkeypatch, "kompute")
    module = mixed("{placement = #fuel.device<cpu>}")
    PromoteDtypesPass(topology="cpu+vulkan").apply(CONTEXT, module)
    assert operand_dtypes(module) == ["f32", "f32"]


def test_dtype_reconciliation_declines_when_the_candidate_backend_serves_it_natively(
    monkeypatch: pytest.MonkeyPatch,
):
    with_mixed(monkeypatch, "numpy")
    module = mixed("{placement = #fuel.device<cpu>}")
    PromoteDtypesPass(topology="cpu+h100").apply(CONTEXT, module)
    assert operand_dtypes(module) == ["f32", "bf16"]


def test_dtype_reconciliation_counts_admitted_off_device_fallback_as_a_candidate(
    monkeypatch: pytest.MonkeyPatch,
):
    """Whatever has no pin may run on any device of the topology."""
    with_mixed(monkeypatch, "triton")
    module = mixed()
    PromoteDtypesPass(topology="cpu+h100").apply(CONTEXT, module)
    assert operand_dtypes(module) == ["f32", "bf16"]


def test_optimize_graph_without_pinned_device_does_not_stamp():
    """Without a machine there is nothing to choose: no kernel has a target of its own."""
    module = main(f"%x: {T}", T, CHAIN)
    FormKernelsPass().apply(CONTEXT, module)
    PlanPass().apply(CONTEXT, module)
    assert [k.target for k in found(module, KernelOp) if isinstance(k, KernelOp)] == [None, None]
    assert "fuel.plan" not in module.attributes


STRIDED = """
    %s = fuel.slice %{0} {{dim = 0 : i64, start = 1 : i64, length = 3 : i64}}
        : tensor<8xf32> -> tensor<3xf32>
    %f = fuel.flip %s {{dim = 0 : i64}} : tensor<3xf32> -> tensor<3xf32>
    %{1} = fuel.{2} %f : tensor<3xf32>"""


def test_optimize_graph_inserts_layout_fixup_for_strided_input():
    """None is needed on this target: its kernels read views as they lie."""
    body = STRIDED.format("x", "r", "relu")
    module = main("%x: tensor<8xf32>", "tensor<3xf32>", f"{body}\nfunc.return %r : tensor<3xf32>")
    optimised(module)
    (kernel,) = found(module, KernelOp)
    assert [op.name for op in kernel.regions[0].block.ops] == [
        "fuel.slice",
        "fuel.flip",
        "fuel.relu",
        "fuel.yield",
    ]
    x = np.arange(-2, 6, dtype=np.float32)
    assert evaluate(module, x)[0].tolist() == [1.0, 0.0, 0.0]


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


def test_optimize_graph_branchless_is_idempotent_and_adds_no_nodes():
    once = str(optimised(chain()))
    module = chain()
    assert [str(optimised(module)) for _ in range(3)] == [once] * 3


BRANCHLESS = [
    f"%0 = fuel.relu %x : {T}\n%1 = fuel.silu %0 : {T}\n%r = fuel.tanh %1 : {T}",
    f"%0 = fuel.relu %x : {T}\n%1 = fuel.silu %x : {T}\n%2 = fuel.add %0, %1 : {T}\n"
    f"%r = fuel.tanh %2 : {T}",
    # H-1: chains of different lengths, each of kernels of its own
    f"%0 = fuel.matmul %x, %x : {T}, {T} -> {T}\n%1 = fuel.matmul %0, %0 : {T}, {T} -> {T}\n"
    f"%2 = fuel.matmul %1, %1 : {T}, {T} -> {T}\n%3 = fuel.transpose %x : {T} -> {T}\n"
    f"%4 = fuel.matmul %3, %x : {T}, {T} -> {T}\n%5 = fuel.matmul %2, %4 : {T}, {T} -> {T}\n"
    f"%r = fuel.add %5, %x : {T}",
]


def branchless(body: str, machine: Topology | None = None) -> ModuleOp:
    module = main(f"%x: {T}", T, f"{body}\nfunc.return %r : {T}")
    return stamp(module, machine) if machine else module


def kernel_labels(module: ModuleOp) -> list[str]:
    return [k.label.data for k in found(module, KernelOp) if isinstance(k, KernelOp)]


@pytest.mark.parametrize("body", BRANCHLESS)
@pytest.mark.parametrize("machine", [None, ONE_WINS])
def test_equivalence_gate_branchless_order_matches_compile_plan(
    body: str, machine: Topology | None
):
    """Kernels run in the order in which they were formed, where nothing is decided."""
    formed = branchless(body, machine)
    FormKernelsPass().apply(CONTEXT, formed)
    module = optimised(branchless(body, machine))
    assert decisions(module) == []
    assert kernel_labels(module) == kernel_labels(formed)


@pytest.mark.parametrize("body", BRANCHLESS)
def test_dispatch_order_is_stable_across_repeated_calls_with_no_mutation(body: str):
    assert len({str(optimised(branchless(body))) for _ in range(5)}) == 1


def test_driver_matches_legacy_sequence():
    """`fuel-optimize` is its passes, one after the other."""
    by_hand = chain(CLOSE)
    for inner in OptimizePass().passes():
        inner.apply(CONTEXT, by_hand)
    assert str(by_hand) == str(optimised(chain(CLOSE)))


def test_noop_registry_leaves_branchless_graph_unchanged():
    module = branchless(BRANCHLESS[1])
    FormKernelsPass().apply(CONTEXT, module)
    before = str(module)
    for inner in (ForkPlacementsPass(), ConvergePass()):
        inner.apply(CONTEXT, module)
    assert str(module) == before


def test_lockstep_runs_pathfinder_before_dependent_optimizer():
    """Passes that add arms come before those that drop some."""
    order = [inner.name for inner in OptimizePass().passes()]
    adds = [order.index(name) for name in ("fuel-fork-variants", "fuel-fork-placements")]
    drops = [order.index(name) for name in ("fuel-converge", "fuel-bake-variants")]
    assert max(adds) < min(drops)


def test_optimize_graph_fails_fast_on_missing_binding(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "fuel_passes.planning.topology.description_of",
        lambda backend: replace(described(backend), dtypes=(), by_dtype=()),
    )
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


def test_h6_kernels_of_every_arm_read_views_right():
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


def test_h9_a_decision_of_one_arm_is_none():
    """It canonicalises away, and is counted no more."""
    body = f"""
        %b = fuel.branch "one"(%a = %x : {T}) -> {T}
        arm on #fuel.target<cpu, "numpy"> {{
          %0 = fuel.matmul %a, %a : {T}, {T} -> {T}
          fuel.yield %0 : {T}
        }}
        func.return %b : {T}"""
    assert decisions(optimised(main(f"%x: {T}", T, body))) == []


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


def test_h11_casts_are_not_mended_by_casts(monkeypatch: pytest.MonkeyPatch):
    """A cast reads one value and is never promoted; what it needs is asked of the target too."""
    module = main(
        "%x: tensor<2xbf16>",
        "tensor<2xf32>",
        "%0 = fuel.cast %x : tensor<2xbf16> -> tensor<2xf32>\nfunc.return %0 : tensor<2xf32>",
    )
    before = str(module)
    PromoteDtypesPass().apply(CONTEXT, module)
    assert str(module) == before
    monkeypatch.setattr(
        "fuel_passes.planning.topology.description_of",
        lambda name: replace(described(name), lacks=frozenset({"cast"})),
    )
    with pytest.raises(NoBackendForOp, match="cast"):
        optimised(mixed())


def test_h15_an_arm_is_priced_by_all_that_it_holds():
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


def test_h17_an_arm_is_where_its_target_says_whatever_the_session_is_pinned_to():
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


def test_h18_a_plan_without_pins_is_complete():
    """Every run has a target, and every arm the transfers that it needs."""
    module = optimised(chain(CLOSE))
    (branch,) = decisions(module)
    for arm, region in zip(branch.arms, branch.arm_regions, strict=True):
        assert [run.target for run in region.walk() if isinstance(run, RunOp)] == [arm.target]
        assert any(isinstance(op, CopyOp) for op in region.walk()) == (arm.target == CUDA)


@pytest.mark.parametrize("pass_", OptimizePass().passes(), ids=lambda pass_: pass_.name)
def test_h19_each_pass_says_what_it_does(pass_: ModulePass):
    """Comments that lag behind are found by reading; options that nobody explains, here."""
    text = inspect.getdoc(type(pass_)) or ""
    options = [field.name for field in fields(pass_) if field.name not in ("name", "inner")]
    assert len(text) > 40
    assert [name for name in options if name.replace("_", "-") not in text] == []


def test_h20_no_generation_means_no_plan():
    """A generation is a hash, which nothing else is; what is not planned has none."""
    module = chain()
    InsertCopiesPass().apply(CONTEXT, module)
    assert "fuel.plan" not in module.attributes
    assert len({generation(machine) for machine in (ONE_WINS, CLOSE)}) == 2
    assert all(re.fullmatch("[0-9a-f]{16}", generation(m)) for m in (ONE_WINS, CLOSE))


def test_h22_an_optimised_module_with_branches_is_optimised_again():
    module = optimised(chain(CLOSE))
    once = str(module)
    assert str(optimised(module)) == once
    assert str(optimised(stamp(module, ONE_WINS))) == str(optimised(chain()))
