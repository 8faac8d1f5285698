# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-form-runs`: what starts a run, what is in none, and what a run gives."""

from __future__ import annotations

from xdsl.transforms.canonicalize import CanonicalizePass

from agreement import main
from diamonds import (
    CONTEXT,
    CPU,
    FIRST,
    THREE,
    M,
    assert_valid,
    decision,
    formed,
    runs,
    sizes,
    targets,
    times,
    top,
)
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.traits import Leaf, Transfer
from fuel_passes.finishing.form_runs import FormRunsPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import branches, functions


def test_straight_line_extracts_to_one_run():
    """The constant is no node: each kernel that reads it has a clone."""
    module = formed(
        f"%c = fuel.const 2.0 : f32 -> {M}\n"
        + times("0", "x", "c")
        + times("1", "0", "c")
        + times("2", "1", "c"),
        "2",
    )
    (run,) = runs(module)
    assert (sizes(module), run.target) == ([3], CPU)
    assert [op.name for op in run.body.block.ops] == [*["fuel.kernel"] * 3, "fuel.yield"]


def test_two_arm_branch_extracts_to_four_runs():
    body = f"%p = fuel.neg %x : {M}\n%d = fuel.exp %p : {M}\n"
    body += decision("d0", "m", "d", f"%r = fuel.silu %a : {M}\n", f"%r = fuel.relu %a : {M}\n")
    body += f"%e = fuel.relu %m : {M}\n%z = fuel.tanh %e : {M}\n"
    module = formed(body, "z")
    assert [type(op).__name__ for op in top(module)] == ["RunOp", "BranchOp", "RunOp", "ReturnOp"]
    assert len(runs(module)) == 4
    (branch,) = (op for op in top(module) if isinstance(op, BranchOp))
    assert [len(list(region.block.ops)) for region in branch.arm_regions] == [2, 2]


def test_residency_seam_starts_new_run():
    """A value that crosses to another device: here in the order of the pins, two and two."""
    body = f"%c = fuel.const 2.0 : f32 -> {M}\n" + times("0", "x", "c", "cpu")
    body += times("1", "0", "c", "cpu") + times("2", "1", "c", "cuda:0")
    module = formed(body + times("3", "2", "c", "cuda:0"), "3", THREE)
    assert (targets(module), sizes(module)) == (["cpu", "cuda:0"], [2, 2])


def test_fan_in_starts_new_run():
    """The sum of two chains is in a run that holds neither."""
    body = f"%c = fuel.const 2.0 : f32 -> {M}\n" + times("0", "x", "c") + times("1", "0", "c")
    module = formed(body + times("2", "c", "x") + times("3", "1", "2") + times("4", "3", "c"), "4")
    assert sizes(module) == [2, 1, 2]
    last = runs(module)[-1]
    assert [operand.owner for operand in last.operands] == runs(module)[:2]


def test_leaves_of_an_arm_are_inside_it():
    """Values that only an arm reads stand in the arm, constants too."""
    private = f"%c = fuel.const 3.0 : f32 -> {M}\n" + times("r", "a", "c")
    body = times("d", "x", "x") + decision("d0", "m", "d", FIRST, private)
    module = main(f"%x: {M}", M, f"{body}func.return %m : {M}")
    OptimizePass().apply(CONTEXT, module)
    assert not any(op.has_trait(Leaf) for op in top(module))
    (branch,) = (op for op in top(module) if isinstance(op, BranchOp))
    leaves = [sum(op.has_trait(Leaf) for op in r.walk()) for r in branch.arm_regions]
    assert leaves == [0, 1]


def test_a_value_that_others_read_is_a_result_of_its_run():
    """Live-outs are computed for each run; any kernel of it may give one."""
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + times("a0", "x", "c") + times("b0", "a0", "c")
    body += times("d0", "b0", "c") + times("c0", "c", "b0") + times("z", "c0", "d0")
    module = formed(body, "z")
    first, second, *_ = runs(module)
    assert len(first.outputs) == 2
    assert second.operands[0] in first.outputs
    assert_valid(module)


def test_constants_do_not_cut():
    """Leaves are no inputs of a run, so a layer (product, bias, relu) is one."""
    layers = "".join(
        f'%w{n} = fuel.weight "w{n}" : {M}\n%b{n} = fuel.weight "b{n}" : {M}\n'
        + times(f"p{n}", f"h{n}", f"w{n}")
        + f"%q{n} = fuel.add %p{n}, %b{n} : {M}\n%h{n + 1} = fuel.relu %q{n} : {M}\n"
        for n in range(3)
    )
    module = formed(f"%h0 = fuel.neg %x : {M}\n{layers}", "h3")
    assert sizes(module) == [4]


def test_a_transfer_is_in_no_run():
    """A transfer stands by itself, whatever reads it."""
    body = f"%t = fuel.copy %x to #fuel.device<cuda:0> : {M}\n" + times("z", "t", "t", "cuda:0")
    module = formed(body, "z", THREE)
    (copy,) = (op for op in module.walk() if op.has_trait(Transfer))
    assert copy in top(module)
    assert sizes(module) == [1]


def test_a_decision_of_one_arm_cuts_nothing():
    """It canonicalises away before anything counts it."""
    only = f"%k = fuel.const 2.0 : f32 -> {M}\n" + times("r", "a", "k")
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + times("0", "x", "c")
    body += decision("one", "m", "0", only) + times("z", "m", "c")
    module = main(f"%x: {M}", M, f"{body}func.return %z : {M}")
    CanonicalizePass().apply(CONTEXT, module)
    (function,) = functions(module)
    assert list(branches(function)) == []
    FormRunsPass(granularity="chain").apply(CONTEXT, module)
    assert sizes(module) == [3]
