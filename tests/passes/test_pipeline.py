# SPDX-License-Identifier: MIT OR Apache-2.0
"""Properties of the whole pipeline, over random programs."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.traits import IsTerminator
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination
from xdsl.utils.arg_spec import parse_pipeline

from agreement import assert_close, decisions, main, run
from effort import SLOW, examples
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.dialect import OPS
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.traits import Leaf, Transfer, ViewOp
from fuel_passes.finishing.form_runs import FormRunsPass
from fuel_passes.forming.form_kernels import FormKernelsPass, form_kernels
from fuel_passes.forming.groups import Caps
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import plan_blocks
from programs import Program, programs

CONTEXT = make_context()
OPTIONS = [
    OptimizePass(variants=v, granularity=g)
    for v, g in product(("bake", "keep"), ("segment", "chain"))
]


@examples(150)
@given(programs(), st.sampled_from(OPTIONS), st.data())
def test_optimised_and_not_agree_on_any_route(
    program: Program, pipeline: OptimizePass, data: st.DataObject
) -> None:
    optimised = program.module.clone()
    pipeline.apply(CONTEXT, optimised)
    optimised.verify()
    sizes = decisions(optimised)
    route = {path: data.draw(st.integers(0, arms - 1)) for path, arms in sizes.items()}
    kept = {path: arm for path, arm in route.items() if path in decisions(program.module)}
    assert_close(run(program, route, optimised), run(program, kept))


@examples(150)
@given(programs(), st.sampled_from(OPTIONS))
def test_twice_is_once(program: Program, pipeline: OptimizePass) -> None:
    module = program.module.clone()
    pipeline.apply(CONTEXT, module)
    once = str(module)
    pipeline.apply(CONTEXT, module)
    assert str(module) == once
    again = parse_module(once)
    pipeline.apply(CONTEXT, again)
    assert str(again) == once


@examples(100)
@given(programs(), st.sampled_from(OPTIONS))
def test_the_result_is_runs_branches_transfers_and_leaves(
    program: Program, pipeline: OptimizePass
) -> None:
    module = program.module.clone()
    pipeline.apply(CONTEXT, module)
    for block in plan_blocks(module):
        for op in block.ops:
            is_end = op.has_trait(IsTerminator)
            is_other = op.has_trait(Leaf) or op.has_trait(Transfer)
            assert is_end or is_other or isinstance(op, RunOp | BranchOp)
            if isinstance(op, RunOp):
                check_run(op)


def check_run(run: RunOp) -> None:
    for op in run.body.block.ops:
        assert isinstance(op, KernelOp) or op.has_trait(Leaf) or op.has_trait(IsTerminator)
        if isinstance(op, KernelOp):
            check_kernel(op)
    end = run.body.block.last_op
    assert end is not None
    assert all(isinstance(value.owner, KernelOp) for value in end.operands)


def check_kernel(kernel: KernelOp) -> None:
    inner = [op for op in kernel.body.block.ops if not op.has_trait(IsTerminator)]
    assert inner
    assert not any(isinstance(op, BranchOp | KernelOp | RunOp) for op in inner)
    scans = [op for op in inner if isinstance(op, ScanOp)]
    assert len(scans) == (kernel.kind.data == "scan")


@examples(100)
@given(programs())
def test_stock_passes_keep_every_arm_and_its_ops(program: Program) -> None:
    module = program.module.clone()
    OptimizePass(variants="keep").apply(CONTEXT, module)
    before = arm_contents(module)
    for stock in (
        CommonSubexpressionElimination(),
        CanonicalizePass(),
        DeadCodeElimination(),
    ):
        stock.apply(CONTEXT, module)
    module.verify()
    assert arm_contents(module) == before


def arm_contents(module: ModuleOp) -> dict[str, list[list[str]]]:
    return {
        op.id.data: [[inner.name for inner in region.walk()] for region in op.arm_regions]
        for op in module.walk()
        if isinstance(op, BranchOp)
    }


@examples(100)
@given(programs(), st.integers(1, 4))
def test_kernels_and_runs_compute_the_same(program: Program, max_ops: int) -> None:
    expected = run(program)
    module = program.module.clone()
    FormKernelsPass(max_ops=max_ops).apply(CONTEXT, module)
    module.verify()
    assert_close(run(program, module=module), expected)
    once = str(module)
    FormKernelsPass(max_ops=max_ops).apply(CONTEXT, module)
    assert str(module) == once
    FormRunsPass().apply(CONTEXT, module)
    module.verify()
    assert_close(run(program, module=module), expected)


@SLOW
def test_a_chain_of_20000_ops_goes_through_every_pass() -> None:
    body = "\n".join(f"%v{i + 1} = fuel.tanh %v{i} : tensor<2xf32>" for i in range(20_000))
    module = parse_module(
        f"func.func @main(%v0: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\n"
        "func.return %v20000 : tensor<2xf32>\n}"
    )
    OptimizePass().apply(CONTEXT, module)
    module.verify()
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert sum(len(k.body.block.ops) - 1 for k in kernels) == 20_000
    assert sum(isinstance(op, RunOp) for op in module.walk()) == 1


def test_a_kernel_holds_at_most_the_ops_it_may() -> None:
    module = parse_module(
        """
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %a = fuel.exp %x : tensor<2xf32>
          %b = fuel.exp %a : tensor<2xf32>
          %c = fuel.exp %b : tensor<2xf32>
          func.return %c : tensor<2xf32>
        }
        """
    )
    (block,) = plan_blocks(module)
    form_kernels(block, Caps(ops=2))
    kernels = [op for op in block.ops if isinstance(op, KernelOp)]
    assert [k.label.data for k in kernels] == ["exp_exp", "exp"]


def test_a_kernel_reads_at_most_the_values_it_may() -> None:
    module = parse_module(
        """
        func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %z: tensor<2x3xf32>)
            -> tensor<2x3xf32> {
          %a = fuel.add %x, %y : tensor<2x3xf32>
          %b = fuel.add %a, %z : tensor<2x3xf32>
          %c = fuel.softmax_last_dim %b : tensor<2x3xf32>
          func.return %c : tensor<2x3xf32>
        }
        """
    )
    (block,) = plan_blocks(module)
    form_kernels(block, Caps(operands=2))
    kernels = [op for op in block.ops if isinstance(op, KernelOp)]
    assert [k.label.data for k in kernels] == ["add", "add_softmax_last_dim"]
    assert [len(k.inputs) for k in kernels] == [2, 2]


def test_views_are_never_results_of_their_own() -> None:
    """Every view op of the dialect that a function returns is written out by a kernel."""
    views = [op for op in OPS if issubclass(op, ViewOp)]
    assert len(views) == 7
    module = parse_module(
        """
        func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
          %t = fuel.transpose %x : tensor<2x3xf32> -> tensor<3x2xf32>
          func.return %t : tensor<3x2xf32>
        }
        """
    )
    OptimizePass().apply(CONTEXT, module)
    (run,) = (op for op in module.walk() if isinstance(op, RunOp))
    (kernel,) = (op for op in run.walk() if isinstance(op, KernelOp))
    assert (kernel.kind.data, kernel.label.data) == ("movement", "transpose")


@pytest.mark.parametrize(
    ("option", "choices"),
    [("variants=both", "bake"), ("granularity=all", "segment"), ("precision=some", "exact")],
)
def test_unknown_option_values_are_refused(option: str, choices: str) -> None:
    (spec,) = parse_pipeline(f"fuel-optimize{{{option}}}")
    with pytest.raises(Exception, match=choices):
        OptimizePass.from_spec(spec)


@pytest.mark.parametrize(
    "pipeline",
    [
        OptimizePass(reach=0.5),
        OptimizePass(refuge=2),
        OptimizePass(max_ulps=0),
        OptimizePass(max_ulps=-1),
        OptimizePass(device="cuda:7"),
        OptimizePass(topology="moon"),
        OptimizePass(measurements="none.json"),
    ],
)
def test_what_cannot_be_optimised_is_left_as_it_was(pipeline: OptimizePass):
    t = "tensor<8xf32>"
    body = f"%0 = fuel.exp %x : {t}\n%1 = fuel.tanh %0 : {t}\nfunc.return %1 : {t}"
    module = main(
        f"%x: {t}",
        t,
        body,
        stamp='fuel.topology = #fuel.topology<"cpu", [#fuel.target<cpu, "numpy">]>',
    )
    OptimizePass().apply(make_context(), module)
    before = str(module)
    with pytest.raises(FuelPassError):
        pipeline.apply(make_context(), module)
    assert str(module) == before
    module.verify()
    OptimizePass().apply(make_context(), module)
    assert str(module) == before


def test_what_is_interrupted_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    t = "tensor<8xf32>"
    module = main(f"%x: {t}", t, f"%0 = fuel.exp %x : {t}\nfunc.return %0 : {t}")
    before = str(module)
    monkeypatch.setattr(FormRunsPass, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        OptimizePass().apply(make_context(), module)
    assert str(module) == before
