# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-plan`, `fuel-fork-placements` and `fuel-converge`: pins, refusals, refuges, the gate."""

from __future__ import annotations

import logging
import re
from types import SimpleNamespace

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import parse_pipeline

from agreement import main
from effort import SLOW
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelPassError, NoBackendForOp, TopologyChanged
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.targets.machine import Device, Link, Rates, Topology
from fuel_dialect.universe import FUEL_UNIVERSE
from fuel_explain.build import explain
from fuel_explain.text import to_text
from fuel_passes.finishing.insert_copies import InsertCopiesPass
from fuel_passes.forking.converge import ConvergePass, superfluous
from fuel_passes.forking.dropped import dropped
from fuel_passes.forking.find_paths import FindPathsPass
from fuel_passes.forking.fork_placements import ForkPlacementsPass, footprint
from fuel_passes.forking.fork_variants import ForkVariantsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.plan import PlanPass
from fuel_passes.walk import functions
from machines import only, sources, stamp

CONTEXT = make_context()
CPU = TargetAttr.of("cpu", "numpy")
CUDA = TargetAttr.of("cuda:0", "triton")
T = "tensor<8xf32>"
B = "tensor<512x512xf32>"
CHAIN = f"%0 = fuel.matmul %x, %x : {B}, {B} -> {B}\n%1 = fuel.relu %0 : {B}\nfunc.return %1 : {B}"


def machine(memory: int | None = None) -> Topology:
    """A host and a GPU that is a hundred times as fast, near to it."""
    return Topology(
        "test",
        (Device("cpu"), Device("cuda:0", memory)),
        (CPU, CUDA),
        (Link("cpu", "cuda:0", 10, 100.0), Link("cuda:0", "cpu", 10, 100.0)),
        (
            Rates(CPU, 10.0, 10.0, 10.0, 100),
            Rates(CUDA, 1000.0, 1000.0, 1000.0, 100),
        ),
    )


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def branches(module: ModuleOp) -> list[BranchOp]:
    return [op for op in module.walk() if isinstance(op, BranchOp)]


def targets(module: ModuleOp) -> list[TargetAttr | None]:
    return [kernel.target for kernel in kernels(module)]


def planned(module: ModuleOp, how: PlanPass | None = None) -> ModuleOp:
    (how or PlanPass()).apply(CONTEXT, module)
    module.verify()
    return module


def test_a_pin_on_a_device_that_lacks_the_kernel_is_an_error_and_changes_nothing():
    body = (
        "%0 = fuel.exp %x {placement = #fuel.device<vulkan:0>} : tensor<2xf64>\n"
        "func.return %0 : tensor<2xf64>"
    )
    module = main("%x: tensor<2xf64>", "tensor<2xf64>", body)
    FormKernelsPass().apply(CONTEXT, module)
    before = str(module)
    with pytest.raises(
        NoBackendForOp,
        match=r"no target for exp that is pinned to vulkan:0: cpu/numpy: it could; "
        r"vulkan:0/kompute: no kernel for exp \(f64\) -> f64",
    ):
        planned(module, PlanPass(topology="cpu+vulkan"))
    assert str(module) == before


def test_a_session_pin_holds_where_the_device_has_the_kernel():
    body = (
        f"%0 = fuel.exp %x : tensor<2xf64>\n%1 = fuel.exp %y : {T}\n"
        f"func.return %0, %1 : tensor<2xf64>, {T}"
    )
    module = main(f"%x: tensor<2xf64>, %y: {T}", f"(tensor<2xf64>, {T})", body)
    planned(module, PlanPass(topology="cpu+vulkan", device="vulkan"))
    assert list(map(str, targets(module))) == ["None", "vulkan:0/kompute"]


def test_what_is_required_of_precision_refuses_targets():
    module = main(f"%x: {T}", T, f"%0 = fuel.exp %x : {T}\nfunc.return %0 : {T}")
    planned(module, PlanPass(topology="cpu+vulkan", device="vulkan"))
    assert list(map(str, targets(module))) == ["vulkan:0/kompute"]
    planned(module, PlanPass(topology="cpu+vulkan", device="vulkan", max_ulps=100))
    assert targets(module) == [None]
    with pytest.raises(NoBackendForOp, match="tiles may give a exp of f32 4 units"):
        planned(module, PlanPass(topology="cpu+vulkan", max_ulps=0))


def test_arguments_and_results_draw_the_plan_to_where_they_live():
    body = f"%0 = fuel.exp %x : {T}\nfunc.return %0 : {T}"
    far = "{fuel.device = #fuel.device<cuda:0>}"
    at_home = planned(stamp(main(f"%x: {T}", T, body), machine()))
    away = planned(stamp(main(f"%x: {T} {far}", f"({T} {far})", body), machine()))
    assert (targets(at_home), targets(away)) == ([None], [CUDA])


def test_an_argument_device_that_is_none_is_refused():
    module = main(f'%x: {T} {{fuel.device = "cuda"}}', T, f"func.return %x : {T}")
    with pytest.raises(FuelPassError, match=r"@main, argument 0: fuel\.device must be"):
        planned(stamp(module, machine()))


def test_variants_move_as_one_and_those_that_the_device_lacks_go():
    """A GPU has no library calls, so that one form is left of two."""
    body = f"%0 = fuel.softmax_last_dim %x : {B}\nfunc.return %0 : {B}"
    module = stamp(main(f"%x: {B}", B, body), machine())
    for inner in OptimizePass(variants="keep").passes():
        inner.apply(CONTEXT, module)
        if isinstance(inner, ForkVariantsPass):
            (branch,) = branches(module)
            assert [arm.target for arm in branch.arms] == [CPU, CPU]
    assert branches(module) == []
    (run,) = [op for op in module.walk() if isinstance(op, RunOp)]
    assert run.target == CUDA


def test_a_variant_that_is_baked_stays_on_its_target():
    body = f"%0 = fuel.softmax_last_dim %x : {B}\nfunc.return %0 : {B}"
    module = stamp(main(f"%x: {B}", B, body), machine())
    OptimizePass().apply(CONTEXT, module)
    (run,) = [op for op in module.walk() if isinstance(op, RunOp)]
    assert run.target == CUDA


def test_a_full_device_gets_a_refuge_out_of_reach():
    roomy, full = (stamp(main(f"%x: {B}", B, CHAIN), machine(m)) for m in (2**30, 2 * 2**20))
    for module in (roomy, full):
        planned(module)
        ForkPlacementsPass(reach=1).apply(CONTEXT, module)
        module.verify()
    assert branches(roomy) == []
    (branch,) = branches(full)
    assert [arm.target for arm in branch.arms] == [CUDA, CPU]
    assert branch.arms.data[1].origin.data.endswith("refuge from a full device")


def optimized(how: OptimizePass, memory: int | None = None) -> list[list[str]]:
    """The targets of the arms of each branch of the chain, and why the last one is there."""
    module = stamp(main(f"%x: {B}", B, CHAIN), machine(memory))
    how.apply(CONTEXT, module)
    module.verify()
    again = module.clone()
    how.apply(CONTEXT, again)
    assert str(again) == str(module)
    return [
        [*(str(arm.target) for arm in b.arms), b.arms.data[-1].origin.data]
        for b in branches(module)
    ]


def test_reach_and_refuge_are_options_of_the_whole():
    runner_up = ["cuda:0/triton", "cpu/numpy", "fuel-fork-placements: runner-up"]
    refuge = [*runner_up[:2], "fuel-fork-placements: refuge from a full device"]
    assert optimized(OptimizePass()) == []
    assert optimized(OptimizePass(reach=1_000)) == [runner_up]
    # The product reads 1 MiB and gives 1 MiB.
    assert optimized(OptimizePass(), 2 * 2**20) == [refuge]
    assert optimized(OptimizePass(), 4 * 2**20) == []
    assert optimized(OptimizePass(refuge=0.4), 4 * 2**20) == [refuge]
    assert optimized(OptimizePass(refuge=0.5), 4 * 2**20) == []
    for how, message in (
        (OptimizePass(reach=0.5), "reach must be >= 1, got 0.5"),
        (OptimizePass(refuge=0), "refuge must be above 0 and at most 1, got 0"),
    ):
        with pytest.raises(FuelPassError, match=message):
            optimized(how)


def test_what_the_gate_drops_is_said_in_the_ir_and_when_explaining():
    """Two runs of kernels that a transfer parts: two decisions, of which one may stay."""
    body = (
        f"%0 = fuel.matmul %x, %x : {B}, {B} -> {B}\n"
        f"%1 = fuel.copy %0 to #fuel.device<cpu> : {B}\n"
        f"%2 = fuel.relu %1 : {B}\n"
        f"func.return %2 : {B}"
    )
    module = stamp(main(f"%x: {B}", B, body), machine())
    explanation = explain(module, OptimizePass(reach=1_000))
    (function,) = functions(module)
    (kept,) = branches(module)
    (said,) = dropped(function)
    assert said == (
        "d1: the arm for cpu/numpy, 209,816 ns, from fuel-fork-placements: runner-up, is the least "
        "valuable of more than 5 % of the kernels"
    )
    assert kept.id.data == "d0"
    assert explanation.functions[0].dropped == (said,)
    assert f"dropped {said}" in to_text(explanation)
    before = str(module)
    OptimizePass(reach=1_000).apply(CONTEXT, module)
    assert str(module) == before
    StripPlanPass().apply(CONTEXT, module)
    assert dropped(function) == ()


def apply(pipeline: str, module: ModuleOp) -> None:
    """Passes by name, as `xdsl-opt -p` takes them."""
    for spec in parse_pipeline(pipeline):
        FUEL_UNIVERSE.all_passes[spec.name]().from_spec(spec).apply(CONTEXT, module)


CONSUMERS = (
    "fuel-fork-variants",
    "fuel-plan",
    "fuel-fork-placements",
    "fuel-converge",
    "fuel-bake-variants",
    "fuel-insert-copies",
    "fuel-insert-contiguous",
    "fuel-form-runs",
)
"""The passes that read a topology and what an earlier pass has planned for one."""


@pytest.mark.parametrize("name", CONSUMERS)
def test_who_uses_a_plan_for_another_topology_is_refused_and_nothing_done(name: str):
    body = f"%0 = fuel.softmax_last_dim %x : {B}\nfunc.return %0 : {B}"
    for topology, other in (("cpu+h100", "cpu+a100"), ("2xh100", "cpu")):
        module = main(f"%x: {B}", B, body)
        apply(f'fuel-form-kernels,fuel-fork-variants,fuel-plan{{topology="{topology}"}}', module)
        before = str(module)
        with pytest.raises(TopologyChanged, match=rf"but '{re.escape(other)}' is .*; run fuel-opt"):
            apply(f'{name}{{topology="{other}"}}', module)
        assert str(module) == before
        apply(f'{name}{{topology="{topology}"}}', module)
        again = main(f"%x: {B}", B, body)
        scratch = again.clone()
        apply(f'fuel-optimize{{topology="{other}"}}', scratch)
        apply(f'fuel-optimize{{topology="{topology}"}},fuel-optimize{{topology="{other}"}}', again)
        assert str(again) == str(scratch)


def test_pathfinders_are_refused_a_plan_for_another_topology(monkeypatch: pytest.MonkeyPatch):
    module = stamp(main(f"%x: {B}", B, CHAIN), machine())
    planned(module)
    plugin = SimpleNamespace(load_as=lambda kind: None)
    monkeypatch.setattr("fuel_passes.forking.find_paths.found", lambda group: [plugin])
    with pytest.raises(TopologyChanged):
        FindPathsPass("fuel-fork-placements", topology="cpu").apply(CONTEXT, module)


def test_the_footprint_counts_inputs_and_what_is_alive_at_a_time():
    body = (
        f"%0 = fuel.matmul %x, %x : {B}, {B} -> {B}\n%1 = fuel.matmul %0, %0 : {B}, {B} -> {B}\n"
        f"%2 = fuel.matmul %1, %1 : {B}, {B} -> {B}\nfunc.return %2 : {B}"
    )
    module = main(f"%x: {B}", B, body)
    FormKernelsPass().apply(CONTEXT, module)
    assert footprint(kernels(module)) == 3 * 2**20


def test_the_gate_keeps_one_arm_and_logs_what_goes(caplog: pytest.LogCaptureFixture):
    module = stamp(main(f"%x: {B}", B, CHAIN), machine())
    planned(module)
    ForkPlacementsPass(reach=1_000).apply(CONTEXT, module)
    (branch,) = branches(module)
    arm = branch.arms.data[1]
    branch.properties["arms"] = type(branch.arms)([*branch.arms, arm])
    branch.add_region(branch.arm_regions[1].clone())
    with caplog.at_level(logging.INFO, "fuel"):
        ConvergePass().apply(CONTEXT, module)
    assert [len(b.arms) for b in branches(module)] == [2]
    assert caplog.messages == [
        "fuel-converge: d0: the arm for cpu/numpy, 26,843,646 ns, from "
        "fuel-fork-placements: runner-up, is the same as arm 1"
    ]


def test_an_arm_stays_that_is_dearer_but_needs_less_memory():
    """Three arms on one device: beaten in price, beaten in both, and the one that beats them."""
    wide = f"%0 = fuel.concat %a, %a {{dim = 0 : i64}} : {T}, {T} -> tensor<16xf32>\n"
    wide += "%1 = fuel.slice %0 {dim = 0 : i64, start = 0 : i64, length = 8 : i64}"
    wide += f" : tensor<16xf32> -> {T}\nfuel.yield %1 : {T}"
    slim = f"%0 = fuel.neg %a : {T}\nfuel.yield %0 : {T}"
    late = wide.replace("start = 0", "start = 8")
    origin = 'origin "fuel-test: made"'
    module = main(
        f"%x: {T}",
        T,
        f"""
        %y = fuel.branch "d0"(%a = %x : {T}) -> {T}
        arm on #fuel.target<cuda:0, "triton"> price 10 {origin} {{ {wide} }}
        arm on #fuel.target<cpu, "numpy"> price 20 {origin} {{ {wide} }}
        arm on #fuel.target<cpu, "numpy"> price 30 {origin} {{ {slim} }}
        arm on #fuel.target<cpu, "numpy"> price 40 {origin} {{ {late} }}
        func.return %y : {T}""",
    )
    (branch,) = branches(stamp(module, machine()))
    assert superfluous(branch) == {
        3: "is dearer than others on its device and needs no less memory"
    }


def kinds_by_arm(module: ModuleOp) -> list[list[str]]:
    return [
        [op.label.data for op in branch.arm_regions[0].walk() if isinstance(op, KernelOp)]
        for branch in branches(module)
    ]


FIXED = f"""
%0 = fuel.matmul %x, %x : {B}, {B} -> {B}
%1 = fuel.softmax_last_dim %0 {{placement = #fuel.device<cuda:0>}} : {B}
%2 = fuel.matmul %1, %1 : {B}, {B} -> {B}
func.return %2 : {B}"""


@pytest.mark.parametrize("lacking", [False, True])
def test_what_stands_around_a_pinned_or_unsupported_kernel_is_forked(lacking: bool):
    body = FIXED.replace(" {placement = #fuel.device<cuda:0>}", "") if lacking else FIXED
    module = stamp(main(f"%x: {B}", B, body), machine())
    lacks = {"lacks": only("softmax_last_dim")} if lacking else {}
    with sources("numpy", tiles=lacks, library=lacks):
        planned(module)
        ForkPlacementsPass(reach=1_000).apply(CONTEXT, module)
    module.verify()
    assert kinds_by_arm(module) == [["matmul"], ["matmul"]]
    assert [[arm.target for arm in b.arms] for b in branches(module)] == [[CUDA, CPU]] * 2
    (fixed,) = [k for k in kernels(module) if k.label.data == "softmax_last_dim"]
    assert fixed.parent_op() is branches(module)[0].parent_op()
    InsertCopiesPass().apply(CONTEXT, module)
    module.verify()


def test_where_nothing_is_forked_the_order_stays():
    module = planned(stamp(main(f"%x: {B}", B, FIXED), machine()))
    before = str(module)
    ForkPlacementsPass(reach=1).apply(CONTEXT, module)
    assert str(module) == before


def test_kernels_of_a_dropped_decision_stay_on_their_target():
    body = (
        f"%0 = fuel.matmul %x, %x : {B}, {B} -> {B}\n"
        f"%c = fuel.copy %0 to #fuel.device<cpu> : {B}\n"
        f"%1 = fuel.matmul %c, %c : {B}, {B} -> {B}\n%2 = fuel.relu %1 : {B}\n"
        f"func.return %2 : {B}"
    )
    module = stamp(main(f"%x: {B}", B, body), machine())
    planned(module)
    ForkPlacementsPass(reach=1_000).apply(CONTEXT, module)
    assert [len(branch.arms) for branch in branches(module)] == [2, 2]
    ConvergePass().apply(CONTEXT, module)
    module.verify()
    (branch,) = branches(module)
    (dropped,) = [k for k in kernels(module) if k.parent is branch.parent]
    assert (dropped.label.data, dropped.target) == ("matmul", CUDA)


def test_stripping_the_plan_gives_the_source():
    source = stamp(main(f"%x: {B}", B, CHAIN), machine())
    module = source.clone()
    OptimizePass().apply(CONTEXT, module)
    assert {run.target for run in module.walk() if isinstance(run, RunOp)} == {CUDA}
    StripPlanPass().apply(CONTEXT, module)
    assert str(module) == str(source)


@pytest.mark.parametrize("later", [ForkPlacementsPass, InsertCopiesPass])
def test_a_plan_for_another_machine_is_not_carried_on(
    later: type[ForkPlacementsPass | InsertCopiesPass],
):
    module = planned(main(f"%x: {B}", B, CHAIN), PlanPass(topology="cpu+h100"))
    with pytest.raises(TopologyChanged, match="run fuel-optimize again"):
        later(topology="cpu+a100").apply(CONTEXT, module)
    OptimizePass(topology="cpu+a100").apply(CONTEXT, module)
    fresh = main(f"%x: {B}", B, CHAIN)
    OptimizePass(topology="cpu+a100").apply(CONTEXT, fresh)
    assert str(module) == str(fresh)


S = "tensor<2x2xf32>"


@SLOW
def test_a_chain_of_5000_kernels_is_planned():
    body = "\n".join(
        f"%v{i + 1} = fuel.matmul %v{i}, %v{i} : {S}, {S} -> {S}" for i in range(5_000)
    )
    text = f"{body}\nfunc.return %v5000 : {S}"
    module = main(f"%v0: {S}", S, text)
    OptimizePass(topology="2xh100").apply(CONTEXT, module)
    module.verify()
    assert len(kernels(module)) >= 5_000


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("fuel-plan{topology=moon}", "'moon' is not known"),
        ('fuel-fork-placements{topology="cpu+h100" reach=0}', "reach must be >= 1, got 0"),
        ('fuel-fork-placements{topology="cpu+h100" refuge=2}', "at most 1, got 2"),
    ],
)
def test_bad_options_are_refused(option: str, message: str):
    (spec,) = parse_pipeline(option)
    kinds = {"fuel-plan": PlanPass, "fuel-fork-placements": ForkPlacementsPass}
    with pytest.raises(FuelPassError, match=message):
        kinds[spec.name].from_spec(spec).apply(CONTEXT, ModuleOp([]))
