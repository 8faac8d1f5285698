# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-fork-variants`: kernels that could be other kernels become arms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from xdsl.dialects.builtin import ModuleOp

from agreement import TakeForks, assert_close, assert_equal, main, names, run
from fuel_dialect.attributes import ArmAttr
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelPassError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_dialect.traits import Leaf
from fuel_passes.forking import fork_variants
from fuel_passes.forking.fork_variants import ForkVariantsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.simplify import SimplifyPass
from fuel_passes.legalize.strip_plan import StripPlanPass
from programs import Program, programs

CONTEXT = make_context()
BIG = "tensor<512x256xf32>"
SMALL = "tensor<8x8xf32>"
NUMPY = '#fuel.target<cpu, "numpy">'
EVERYTHING = ForkVariantsPass(reach=1_000_000)


@contextmanager
def no_limits() -> Iterator[None]:
    """Fork also tiny kernels, and all of them."""
    tiny = replace(DESCRIPTION, tile=0)
    with (
        patch("fuel_passes.planning.topology.description_of", lambda backend: tiny),
        patch.object(fork_variants, "arms_left", lambda function: 1_000),
    ):
        yield


def formed(module: ModuleOp) -> ModuleOp:
    FormKernelsPass().apply(CONTEXT, module)
    module.verify()
    return module


def fork(module: ModuleOp, how: ForkVariantsPass = ForkVariantsPass()) -> ModuleOp:
    how.apply(CONTEXT, module)
    module.verify()
    return module


def branches(module: ModuleOp) -> list[BranchOp]:
    return [op for op in module.walk() if isinstance(op, BranchOp)]


def chain(type: str, kernels: int = 1) -> ModuleOp:
    """Kernels of two ops each, which another order of the rows keeps apart, and one of one op."""
    body: list[str] = []
    for n in range(kernels):
        body.append(f"%e{n} = fuel.exp %v{n} : {type}")
        body.append(f"%t{n} = fuel.tanh %e{n} : {type}")
        body.append(f"%v{n + 1} = fuel.flip %t{n} {{dim = 0 : i64}} : {type} -> {type}")
    body.append(f"%z = fuel.neg %v{kernels} : {type}")
    body.append(f"func.return %z : {type}")
    return formed(main(f"%v0: {type}", type, "\n".join(body)))


def test_a_pointwise_kernel_is_also_one_call_per_op():
    module = formed(
        main(
            f"%x: {BIG}, %g: tensor<256xf32>",
            BIG,
            f"""
            %b = fuel.broadcast_to %g : tensor<256xf32> -> {BIG}
            %c = fuel.const 2.0 : f32 -> {BIG}
            %0 = fuel.mul %x, %b : {BIG}
            %1 = fuel.add %0, %c : {BIG}
            %2 = fuel.tanh %1 : {BIG}
            func.return %2 : {BIG}""",
        )
    )
    fork(module)
    (branch,) = branches(module)
    assert branch.id.data == "d0"
    written, calls = (region.block for region in branch.arm_regions)
    assert [op.kind.data for op in written.ops if isinstance(op, KernelOp)] == ["pointwise"]
    kernels = [op for op in calls.ops if isinstance(op, KernelOp)]
    assert [(k.kind.data, k.label.data) for k in kernels] == [
        ("library", "mul"),
        ("library", "add"),
        ("library", "tanh"),
    ]
    inner = [[op.name for op in k.body.block.ops] for k in kernels]
    assert inner == [
        ["fuel.broadcast_to", "fuel.mul", "fuel.yield"],
        ["fuel.const", "fuel.add", "fuel.yield"],
        ["fuel.tanh", "fuel.yield"],
    ]
    x = np.linspace(-3, 3, 512 * 256, dtype=np.float32).reshape(512, 256)
    g = np.linspace(0, 1, 256, dtype=np.float32)
    assert_equal(evaluate(module, x, g, arms={"d0": 1}), evaluate(module, x, g))


def test_a_softmax_is_also_its_decomposition():
    module = fork(
        formed(
            main(
                f"%x: {BIG}", BIG, f"%0 = fuel.softmax_last_dim %x : {BIG}\nfunc.return %0 : {BIG}"
            )
        )
    )
    (branch,) = branches(module)
    labels = [
        [op.label.data for op in region.block.ops if isinstance(op, KernelOp)]
        for region in branch.arm_regions
    ]
    assert labels == [
        ["softmax_last_dim"],
        ["reduce_max_to", "sub_exp", "reduce_sum_to", "div"],
    ]
    x = np.linspace(-3, 3, 512 * 256, dtype=np.float32).reshape(512, 256)
    assert_close(evaluate(module, x, arms={"d0": 1}), evaluate(module, x))


def test_a_row_kernel_is_also_its_library_calls_and_pointwise_kernels():
    module = formed(
        main(
            f"%x: {BIG}, %g: tensor<256xf32>",
            BIG,
            f"""
            %b = fuel.broadcast_to %g : tensor<256xf32> -> {BIG}
            %0 = fuel.sqr %x : {BIG}
            %1 = fuel.softmax_last_dim %0 : {BIG}
            %2 = fuel.mul %1, %b : {BIG}
            %3 = fuel.tanh %2 : {BIG}
            func.return %3 : {BIG}""",
        )
    )
    (branch,) = branches(fork(module))
    written, split = (
        [(op.kind.data, op.label.data) for op in region.block.ops if isinstance(op, KernelOp)]
        for region in branch.arm_regions
    )
    assert written == [("reduction", "sqr_softmax_last_dim_mul_tanh")]
    assert split == [
        ("pointwise", "sqr"),
        ("library", "softmax_last_dim"),
        ("pointwise", "mul_tanh"),
    ]
    x = np.linspace(-3, 3, 512 * 256, dtype=np.float32).reshape(512, 256)
    g = np.linspace(0, 1, 256, dtype=np.float32)
    assert_equal(evaluate(module, x, g, arms={"d0": 1}), evaluate(module, x, g))


def test_a_product_with_what_follows_it_is_not_forked():
    module = formed(
        main(
            f"%x: {BIG}, %w: tensor<256x256xf32>",
            BIG,
            f"""
            %0 = fuel.matmul %x, %w : {BIG}, tensor<256x256xf32> -> {BIG}
            %1 = fuel.tanh %0 : {BIG}
            func.return %1 : {BIG}""",
        )
    )
    assert branches(fork(module, EVERYTHING)) == []


def test_arms_are_priced_and_say_why():
    module = fork(chain(BIG))
    (branch,) = branches(module)
    written, calls = branch.arms
    assert isinstance(written, ArmAttr)
    assert str(written.target) == "cpu/numpy"
    assert written.origin.data == "fuel-fork-variants: as written"
    assert calls.origin.data == "fuel-fork-variants: one library call per op"
    assert written.price_ns is not None
    assert calls.price_ns is not None
    assert 0 < written.price_ns < calls.price_ns


def test_kernels_of_one_tile_or_of_one_op_are_not_forked():
    for module in (
        chain(SMALL),
        formed(main(f"%x: {BIG}", BIG, f"%0 = fuel.exp %x : {BIG}\nfunc.return %0 : {BIG}")),
        formed(
            main(
                f"%x: {BIG}",
                "tensor<256x512xf32>",
                f"%0 = fuel.transpose %x : {BIG} -> tensor<256x512xf32>\n"
                "func.return %0 : tensor<256x512xf32>",
            )
        ),
    ):
        before = str(module)
        assert str(fork(module)) == before


def test_forms_out_of_reach_are_not_forked():
    assert branches(fork(chain(BIG), ForkVariantsPass(reach=1))) == []
    assert len(branches(fork(chain(BIG), ForkVariantsPass(reach=100.0)))) == 1


def test_planned_arms_stay_under_five_percent_and_twice_is_once():
    for kernels, forks in ((1, 1), (19, 1), (40, 2), (60, 3)):
        module = fork(chain(BIG, kernels), EVERYTHING)
        count = kernels + 1
        found = len(branches(module))
        assert found == forks
        assert found == 1 or found < 0.05 * count
        once = str(module)
        assert str(fork(module, EVERYTHING)) == once


def test_max_branches_limits_further():
    assert len(branches(fork(chain(BIG, 60), ForkVariantsPass(max_branches=2)))) == 2
    assert branches(fork(chain(BIG, 60), ForkVariantsPass(max_branches=0))) == []


def test_the_nearest_prices_are_kept():
    module = formed(
        main(
            f"%x: {BIG}",
            f"({BIG}, {BIG})",
            f"""
            %0 = fuel.neg %x : {BIG}
            %1 = fuel.abs %0 : {BIG}
            %2 = fuel.sqr %1 : {BIG}
            %3 = fuel.relu %2 : {BIG}
            %s = fuel.rms_norm_last_dim %x {{eps = 1.0e-5 : f64}} : {BIG}
            func.return %3, %s : {BIG}, {BIG}""",
        )
    )
    (branch,) = branches(fork(module, EVERYTHING))
    first = branch.arm_regions[0].block.first_op
    assert isinstance(first, KernelOp)
    assert first.label.data == "rms_norm_last_dim"


def test_an_id_is_not_used_twice_in_a_function():
    module = formed(
        main(
            f"%x: {BIG}",
            BIG,
            f"""
            %y = fuel.branch "d0"(%a = %x : {BIG}) -> {BIG}
            arm on {NUMPY} {{
              %0 = fuel.exp %a : {BIG}
              %1 = fuel.tanh %0 : {BIG}
              fuel.yield %1 : {BIG}
            }}
            arm on {NUMPY} {{
              fuel.yield %a : {BIG}
            }}
            arm on #fuel.target<cuda:0, "triton"> {{
              %0 = fuel.exp %a : {BIG}
              %1 = fuel.tanh %0 : {BIG}
              fuel.yield %1 : {BIG}
            }}
            func.return %y : {BIG}""",
        )
    )
    fork(module)
    assert [b.id.data for b in branches(module)] == ["d0", "d1"]
    inner = branches(module)[1].parent
    assert inner is branches(module)[0].arm_regions[0].block


def test_leaves_are_cloned_into_the_arms():
    module = formed(
        main(
            f"%x: {BIG}",
            BIG,
            f"""
            %w = fuel.weight "w" : {BIG}
            %0 = fuel.mul %x, %w : {BIG}
            %1 = fuel.tanh %0 : {BIG}
            func.return %1 : {BIG}""",
        )
    )
    fork(module)
    (branch,) = branches(module)
    assert len(branch.inputs) == 1
    block = branch.parent
    assert block is not None
    assert [op.name for op in block.ops] == ["fuel.branch", "func.return"]
    assert names(module).count("weight") == 2


def test_arm_0_is_the_program_unless_asked_otherwise():
    cheap = replace(DESCRIPTION, tile=0, launch_ns=0, bytes_per_ns=1e9, threads=1)
    module = formed(
        main(
            f"%x: {SMALL}",
            SMALL,
            f"%0 = fuel.softmax_last_dim %x : {SMALL}\nfunc.return %0 : {SMALL}",
        )
    )
    other = module.clone()
    with (
        patch("fuel_passes.planning.topology.description_of", lambda backend: cheap),
        patch("fuel_dialect.ops.normalization.SoftmaxLastDimOp.WEIGHT", 50),
    ):
        fork(module)
        fork(other, ForkVariantsPass(cheapest_first=True))
    ((written, decomposed),) = (branch.arms for branch in branches(module))
    assert (written.price_ns or 0) > (decomposed.price_ns or 0)
    assert written.origin.data.endswith("as written")
    assert branches(other)[0].arms.data[0].origin.data.endswith("decomposed")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (ForkVariantsPass(reach=0.5), r"reach must be >= 1, got 0\.5"),
        (ForkVariantsPass(max_branches=-1), "max-branches must be >= 0, got -1"),
        (ForkVariantsPass(topology="moon"), "'moon' is not known; the presets are cpu"),
    ],
)
def test_bad_options_are_refused(how: ForkVariantsPass, message: str):
    with pytest.raises(FuelPassError, match=message):
        fork(chain(SMALL), how)


@given(programs())
def test_random_programs_have_their_values_in_every_arm(program: Program):
    SimplifyPass().apply(CONTEXT, program.module)
    formed(program.module)
    want = run(program)
    ordered = without_leaves(program.module)
    with no_limits():
        fork(program.module, EVERYTHING)
        once = str(program.module)
        assert str(fork(program.module, EVERYTHING)) == once
    assert_equal(run(program), want)
    assert_close(run(program, TakeForks(1)), want)
    StripPlanPass().apply(CONTEXT, program.module)
    formed(program.module)
    assert without_leaves(program.module) == ordered


def without_leaves(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if not op.has_trait(Leaf)]
