# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-optimize` as its passes: what each leaves, their order, and plans of another machine."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from agreement import main, names
from beside import (
    CHAIN,
    CLOSE,
    CONTEXT,
    CUDA,
    ONE_WINS,
    STRIDED,
    T,
    chain,
    decisions,
    described,
    found,
    optimised,
)
from fuel_dialect.errors import NoBackendForOp, TopologyChanged
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.targets.machine import Topology
from fuel_passes.finishing.insert_copies import InsertCopiesPass
from fuel_passes.forking.converge import ConvergePass
from fuel_passes.forking.fork_placements import ForkPlacementsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.plan import PlanPass
from fuel_passes.planning.topology import generation
from machines import stamp


def test_optimize_graph_stamps_backends_onto_the_graph():
    module = optimised(chain())
    assert {run.target for run in found(module, RunOp) if isinstance(run, RunOp)} == {CUDA}


def test_placement_of_observes_the_decision_and_marks_not_computed():
    module = chain()
    FormKernelsPass().apply(CONTEXT, module)
    assert [k.target for k in found(module, KernelOp) if isinstance(k, KernelOp)] == [None, None]
    PlanPass().apply(CONTEXT, module)
    assert [k.target for k in found(module, KernelOp) if isinstance(k, KernelOp)] == [CUDA, CUDA]


def test_optimize_graph_without_pinned_device_does_not_stamp():
    """Without a machine there is nothing to choose: no kernel has a target of its own."""
    module = main(f"%x: {T}", T, CHAIN)
    FormKernelsPass().apply(CONTEXT, module)
    PlanPass().apply(CONTEXT, module)
    assert [k.target for k in found(module, KernelOp) if isinstance(k, KernelOp)] == [None, None]
    assert "fuel.plan" not in module.attributes


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


def test_optimize_graph_branchless_is_idempotent_and_adds_no_nodes():
    once = str(optimised(chain()))
    module = chain()
    assert [str(optimised(module)) for _ in range(3)] == [once] * 3


BRANCHLESS = [
    f"%0 = fuel.relu %x : {T}\n%1 = fuel.silu %0 : {T}\n%r = fuel.tanh %1 : {T}",
    f"%0 = fuel.relu %x : {T}\n%1 = fuel.silu %x : {T}\n%2 = fuel.add %0, %1 : {T}\n"
    f"%r = fuel.tanh %2 : {T}",
    # chains of different lengths, each of kernels of its own
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


@pytest.mark.parametrize("operands", ["%m, %r", "%r, %m"])
def test_readers_come_before_what_reuses_their_buffer(operands: str):
    body = f"%m = fuel.move %x to #fuel.device<cpu> : {T}\n%c = fuel.relu %x : {T}\n"
    body += f"%r = fuel.matmul %c, %c : {T}, {T} -> {T}\n"
    body += f"%s = fuel.add {operands} : {T}\nfunc.return %s : {T}"
    module = stamp(main(f"%x: {T}", T, body), ONE_WINS)
    top = names(optimised(module, OptimizePass(granularity="chain")))
    readers = [i for i, name in enumerate(top) if name == "copy"]
    assert readers[0] < top.index("move")


@pytest.mark.parametrize("pass_", OptimizePass().passes(), ids=lambda pass_: pass_.name)
def test_each_pass_says_what_it_does(pass_: ModulePass):
    """Comments that lag behind are found by reading; options that nobody explains, here."""
    text = inspect.getdoc(type(pass_)) or ""
    options = [field.name for field in fields(pass_) if field.name not in ("name", "inner")]
    assert len(text) > 40
    assert [name for name in options if name.replace("_", "-") not in text] == []


def test_no_generation_means_no_plan():
    """A generation is a hash, which nothing else is; what is not planned has none."""
    module = chain()
    InsertCopiesPass().apply(CONTEXT, module)
    assert "fuel.plan" not in module.attributes
    assert len({generation(machine) for machine in (ONE_WINS, CLOSE)}) == 2
    assert all(re.fullmatch("[0-9a-f]{16}", generation(m)) for m in (ONE_WINS, CLOSE))
