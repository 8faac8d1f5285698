# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-strip-plan`: nothing of a plan stays, nothing of the program is lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_equal, main, names, run
from effort import SLOW
from fuel_dialect.context import make_context
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, SequenceOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.traits import Leaf
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.simplify import SimplifyPass
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.pipeline import OptimizePass
from programs import Program, programs

CONTEXT = make_context()
X = "%x: tensor<3xf32>"
T = "tensor<3xf32>"
S = "tensor<f32>"
NUMPY = '#fuel.target<cpu, "numpy">'


def strip(module: ModuleOp) -> ModuleOp:
    StripPlanPass().apply(CONTEXT, module)
    module.verify()
    return module


def test_runs_and_kernels_dissolve_where_they_stand():
    module = main(
        X,
        T,
        f"""
        %a = fuel.neg %x : {T}
        %r = fuel.run on {NUMPY} (%i = %a : {T}) -> {T} {{
          %c = fuel.const 2.0 : f32 -> {T}
          %k = fuel.kernel pointwise "mul_exp"(%j = %i : {T}, %d = %c : {T}) -> {T} {{
            %m = fuel.mul %j, %d : {T}
            %e = fuel.exp %m : {T}
            fuel.yield %e : {T}
          }}
          fuel.yield %k : {T}
        }}
        %z = fuel.abs %r : {T}
        func.return %z : {T}""",
    )
    assert names(strip(module)) == ["neg", "const", "mul", "exp", "abs"]
    x = np.array([0.5, -1, 2], np.float32)
    assert_equal(evaluate(module, x), [np.exp(-x * np.float32(2))])


def test_planned_branches_fall_to_arm_0_and_written_ones_stay():
    planned = "fuel-fork-variants: as written"
    module = main(
        X,
        T,
        f"""
        %u = fuel.branch "mine"(%a = %x : {T}) -> {T}
        arm on {NUMPY} {{
          %p = fuel.branch "d0"(%b = %a : {T}) -> {T}
          arm on {NUMPY} price 5 origin "{planned}" {{
            %0 = fuel.neg %b : {T}
            fuel.yield %0 : {T}
          }}
          arm on {NUMPY} price 3 origin "{planned}" {{
            %0 = fuel.mul_scalar %b {{scalar = -1.0 : f64}} : {T}
            fuel.yield %0 : {T}
          }}
          fuel.yield %p : {T}
        }}
        arm on {NUMPY} {{
          %1 = fuel.abs %a : {T}
          fuel.yield %1 : {T}
        }}
        func.return %u : {T}""",
    )
    assert names(strip(module)) == ["branch", "neg", "yield", "abs", "yield"]


def test_a_written_branch_in_a_planned_arm_comes_out():
    module = main(
        X,
        T,
        f"""
        %p = fuel.branch "d0"(%b = %x : {T}) -> {T}
        arm on {NUMPY} origin "some-pass: why" {{
          %u = fuel.branch "mine"(%c = %b : {T}) -> {T}
          arm on {NUMPY} {{
            %0 = fuel.neg %c : {T}
            fuel.yield %0 : {T}
          }}
          arm on {NUMPY} {{
            %0 = fuel.abs %c : {T}
            fuel.yield %0 : {T}
          }}
          fuel.yield %u : {T}
        }}
        arm on {NUMPY} origin "some-pass: why" {{
          fuel.yield %b : {T}
        }}
        func.return %p : {T}""",
    )
    assert names(strip(module)) == ["branch", "neg", "yield", "abs", "yield"]


def test_an_arm_that_yields_its_operand_is_the_operand():
    module = main(
        X,
        T,
        f"""
        %k = fuel.kernel pointwise "nothing"(%a = %x : {T}) -> {T} {{
          fuel.yield %a : {T}
        }}
        func.return %k : {T}""",
    )
    assert names(strip(module)) == []


def test_planned_transfers_vanish_and_pins_and_the_stamp_stay():
    module = main(
        X,
        T,
        f"""
        %0 = fuel.copy %x to #fuel.device<cuda:0> planned : {T}
        %1 = fuel.neg %0 {{placement = #fuel.device<cuda:0>}} : {T}
        %2 = fuel.move %1 to #fuel.device<cpu> planned : {T}
        %3 = fuel.copy %2 to #fuel.device<cpu> : {T}
        func.return %3 : {T}""",
        stamp=f'fuel.topology = #fuel.topology<"mine", [{NUMPY}]>',
    )
    strip(module)
    assert names(module) == ["neg", "copy"]
    (neg, copy) = (op for op in module.walk() if isinstance(op, FuelOp))
    assert str(neg.placement) == "cuda:0"
    assert isinstance(copy, TransferOp)
    assert "fuel.topology" in module.attributes


@SLOW
def test_long_plans_are_no_problem():
    body = "\n".join(
        f'%k{n + 1} = fuel.kernel pointwise "neg"(%a{n} = %k{n} : {T}) -> {T} {{\n'
        f"%n{n} = fuel.neg %a{n} : {T}\nfuel.yield %n{n} : {T}\n}}"
        for n in range(2_000)
    )
    module = main("%k0: tensor<3xf32>", T, f"{body}\nfunc.return %k2000 : {T}")
    assert names(strip(module)) == ["neg"] * 2_000


def without_leaves(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if not op.has_trait(Leaf)]


@given(programs())
def test_random_programs_keep_their_values_and_order(program: Program):
    SimplifyPass().apply(CONTEXT, program.module)
    want = run(program)
    FormKernelsPass().apply(CONTEXT, program.module)
    strip(program.module)
    assert not any(isinstance(op, SequenceOp) for op in program.module.walk())
    assert_equal(run(program), want)
    ordered = without_leaves(program.module)
    FormKernelsPass().apply(CONTEXT, program.module)
    assert without_leaves(strip(program.module)) == ordered


@given(programs())
def test_nothing_of_a_whole_plan_stays_and_twice_is_once(program: Program):
    OptimizePass(variants="keep").apply(CONTEXT, program.module)
    want = run(program)
    strip(program.module)
    for op in program.module.walk():
        assert not isinstance(op, SequenceOp)
        assert not isinstance(op, BranchOp) or not op.arms.data[0].is_planned
    assert_equal(run(program), want)
    once = str(program.module)
    assert str(strip(program.module)) == once
