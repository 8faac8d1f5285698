# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The run tests of `planner-and-runs.md` section 5, under their names, and its defects about runs and
routes: X-11 to X-19 and X-23 to X-25.

Runs hold kernels here, so a fixture's nodes are products, which stay kernels of their own. A branch
is an op whose regions are the arms, and the merge reads its result: a route needs no skip sets and
no substitution. A pick that is out of range is an error. Left to the runtime issue: the streaming
walk of 6, 15 and X-14; here its result is compared with the reference's, which picks as it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.transforms.canonicalize import CanonicalizePass

from agreement import main
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.canonicalization.regions import inline_arm
from fuel_dialect.context import make_context
from fuel_dialect.errors import DecisionError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.memory import CopyOp, MoveOp
from fuel_dialect.targets.machine import Device, Link, Topology
from fuel_dialect.traits import Leaf, Transfer
from fuel_passes.finishing.form_runs import FormRunsPass, Granularity
from fuel_passes.finishing.order import OrderPass, direct_dependencies
from fuel_passes.finishing.order_runs import OrderRunsPass
from fuel_passes.forking.converge import ConvergePass
from fuel_passes.forking.fork_variants import arms_left
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import branches, functions
from fuel_runtime import Session
from machines import stamp
from work import growth

CONTEXT = make_context()
M = "tensor<2x2xf32>"
Array = np.ndarray[Any, Any]
X = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)
CPU, CUDA, VULKAN = (
    TargetAttr.of("cpu", "numpy"),
    TargetAttr.of("cuda:0", "triton"),
    TargetAttr.of("vulkan:0", "kompute"),
)
LINKS = [
    Link(a, b, 1, 1.0)
    for a, b in product(("cpu", "cuda:0", "vulkan:0"), repeat=2)
    if a != b and "cpu" in (a, b)
]
THREE = Topology(
    "three",
    tuple(map(Device, ("cpu", "cuda:0", "vulkan:0"))),
    (CPU, CUDA, VULKAN),
    tuple(LINKS),
)


def times(result: str, left: str, right: str, device: str = "") -> str:
    """A kernel: a product, on a device if one is named."""
    pin = f"{{placement = #fuel.device<{device}>}} " if device else ""
    return f"%{result} = fuel.matmul %{left}, %{right} {pin}: {M}, {M} -> {M}\n"


def formed(body: str, result: str, machine: Topology | None = None, order: bool = True) -> ModuleOp:
    """A module of one argument after `fuel-form-runs{granularity=chain}` and `fuel-order-runs`."""
    module = main(f"%x: {M}", M, f"{body}func.return %{result} : {M}")
    if machine is not None:
        stamp(module, machine)
    FormRunsPass(granularity="chain").apply(CONTEXT, module)
    if order:
        OrderRunsPass().apply(CONTEXT, module)
    module.verify()
    return module


def runs(module: ModuleOp) -> list[RunOp]:
    return [op for op in module.walk() if isinstance(op, RunOp)]


def sizes(module: ModuleOp) -> list[int]:
    return [sum(isinstance(op, KernelOp) for op in run.body.block.ops) for run in runs(module)]


def targets(module: ModuleOp) -> list[str]:
    return [run.target.device.label for run in runs(module)]


def top(module: ModuleOp) -> list[Operation]:
    (function,) = functions(module)
    return list(function.body.block.ops)


def decision(name: str, result: str, operand: str, *arms: str, extra: str = "") -> str:
    """A branch; each arm computes `r` from `a`."""
    listed = "".join(
        f'arm on #fuel.target<cpu, "numpy"> {{\n{arm}fuel.yield %r : {M}\n}}\n' for arm in arms
    )
    more = f", %b = %{extra} : {M}" if extra else ""
    return f'%{result} = fuel.branch "{name}"(%a = %{operand} : {M}{more}) -> {M}\n{listed}'


FIRST, SECOND = times("r", "a", "a"), f"%n = fuel.neg %a : {M}\n" + times("r", "n", "a")
DIAMOND = (
    times("p", "x", "x")
    + times("d", "p", "p")
    + decision("d0", "m", "d", FIRST, SECOND)
    + times("e", "m", "m")
    + times("z", "e", "e")
)
COUPLED = DIAMOND + times("q", "z", "z") + decision("d1", "w", "q", SECOND, FIRST)


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


def computed(body: str, result: str, **force: int) -> Array:
    module = main(f"%x: {M}", M, f"{body}func.return %{result} : {M}")
    return Session(force=force).compile(module)(X)[0]


def product_of(*arms: int) -> Array:
    """Computes the coupled diamonds by definition, by the arms of both; of one, the diamond."""
    value = X @ X
    value = value @ value
    for index, arm in enumerate(arms):
        negated = (arm == 1) != (index == 1)
        value = (-value if negated else value) @ value
        if index == 0:
            value = value @ value
            value = value @ value
        if index == 0 and len(arms) > 1:
            value = value @ value
    return value


def test_lower_runs_arm0_follows_arm0_and_skips_other_arms():
    np.testing.assert_allclose(computed(DIAMOND, "z"), product_of(0), rtol=1e-5)


def test_lower_picked_route_follows_chosen_arm_and_skips_others():
    np.testing.assert_allclose(computed(DIAMOND, "z", d0=1), product_of(1), rtol=1e-5)
    np.testing.assert_allclose(computed(DIAMOND, "z", d0=0), product_of(0), rtol=1e-5)
    with pytest.raises(DecisionError, match="decision d0 has no arm 99"):
        computed(DIAMOND, "z", d0=99)


@pytest.mark.parametrize("arm", [0, 1])
def test_collapse_variant_branch_bakes_the_winner_into_the_route(arm: int):
    module = main(f"%x: {M}", M, f"{DIAMOND}func.return %z : {M}")
    before = evaluate(module, X, arms={"d0": arm})
    (branch,) = (op for op in module.walk() if isinstance(op, BranchOp))
    inline_arm(branch, arm, PatternRewriter(branch))
    module.verify()
    assert not any(isinstance(op, BranchOp) for op in module.walk())
    assert any(op.name == "fuel.neg" for op in module.walk()) == (arm == 1)
    np.testing.assert_array_equal(evaluate(module, X)[0], before[0])


@pytest.mark.parametrize("picks", [(0,), (1,), *product((0, 1), repeat=2)], ids=str)
def test_streaming_lowering_equals_one_shot_on_every_pick(picks: tuple[int, ...]):
    """A walk of the whole route gives what the reference gives, which picks arm by arm."""
    body, result = (DIAMOND, "z") if len(picks) == 1 else (COUPLED, "w")
    force = {f"d{index}": pick for index, pick in enumerate(picks)}
    module = main(f"%x: {M}", M, f"{body}func.return %{result} : {M}")
    (streamed,) = evaluate(module, X, arms=force)
    np.testing.assert_allclose(computed(body, result, **force), streamed, rtol=1e-5)
    np.testing.assert_allclose(streamed, product_of(*picks), rtol=1e-5)


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


def planned_diamonds(kernels: int, count: int) -> ModuleOp:
    """A chain of kernels with decisions that a pass made, of two arms each."""
    body = "".join(times(f"v{n + 1}", f"v{n}", "x") for n in range(kernels))
    value = f"v{kernels}"
    for n in range(count):
        arms = "".join(
            f'arm on #fuel.target<{device}> price {10 + n} origin "fuel-test: made" {{\n'
            f"{times('r', 'a', 'a')}fuel.yield %r : {M}\n}}\n"
            for device in ('cpu, "numpy"', 'cuda:0, "triton"')
        )
        body += f'%w{n} = fuel.branch "d{n}"(%a = %{value} : {M}) -> {M}\n{arms}'
        value = f"w{n}"
    text = body.replace("%v0,", "%x,")
    module = main(f"%x: {M}", M, f"{text}func.return %{value} : {M}")
    FormKernelsPass().apply(CONTEXT, module)
    return module


def gate(module: ModuleOp) -> tuple[int, int]:
    """Counts the decisions, and those that the gate keeps."""
    (function,) = functions(module)
    before = sum(is_planned_branch(branch) for branch in branches(function))
    ConvergePass(topology="cpu+h100").apply(CONTEXT, module)
    module.verify()
    return before, sum(is_planned_branch(branch) for branch in branches(function))


def test_fewness_gate_passes_on_sparse_branching():
    module = planned_diamonds(40, 1)
    (function,) = functions(module)
    assert arms_left(function) == 1, "one more is allowed"
    assert gate(module) == (1, 1)


def test_fewness_gate_fails_on_per_op_branching():
    module = planned_diamonds(10, 12)
    (function,) = functions(module)
    assert arms_left(function) < 0
    assert gate(module) == (12, 1)


def kernel(result: str, left: str, right: str, device: str) -> str:
    """A product that is a kernel already, so that it stays where it stands."""
    return (
        f'%{result} = fuel.kernel matmul "matmul"(%p = %{left} : {M}, %q = %{right} : {M}) -> {M} '
        f"attributes {{placement = #fuel.device<{device}>}} {{\n"
        f"{times('o', 'p', 'q')}fuel.yield %o : {M}\n}}\n"
    )


def two_devices(cuda: int, vulkan: int) -> str:
    """Two chains on two devices that a copy brings together."""
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + kernel("c0", "x", "c", "cuda:0")
    body += "".join(kernel(f"c{n}", f"c{n - 1}", "c", "cuda:0") for n in range(1, cuda))
    body += kernel("v0", "c", "x", "vulkan:0")
    body += "".join(kernel(f"v{n}", f"v{n - 1}", "c", "vulkan:0") for n in range(1, vulkan))
    body += f"%t = fuel.copy %v{vulkan - 1} to #fuel.device<cuda:0> : {M}\n"
    return body + kernel("z", f"c{cuda - 1}", "t", "cuda:0")


def assert_valid(module: ModuleOp) -> None:
    """Every op after what it reads."""
    (function,) = functions(module)
    block = function.body.block
    place = {op: index for index, op in enumerate(block.ops)}
    for op in block.ops:
        assert all(place[before] < place[op] for before in direct_dependencies(op, block))


def test_device_alternating_reorder_interleaves_two_devices():
    module = formed(two_devices(4, 4), "z", THREE)
    assert_valid(module)
    assert targets(module)[:2] in (["cuda:0", "vulkan:0"], ["vulkan:0", "cuda:0"])
    order = [op for op in top(module) if not op.has_trait(Leaf)]
    assert [isinstance(op, CopyOp) for op in order] == [False, False, True, False, False]
    assert sizes(module) == [4, 4, 1]


def test_device_alternating_reorder_single_device_is_identity():
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + times("0", "x", "c") + times("1", "x", "x")
    body += times("2", "1", "c") + times("3", "2", "c") + times("4", "0", "3")
    for machine in (None, THREE):
        assert str(formed(body, "4", machine)) == str(formed(body, "4", machine, order=False))


def test_device_alternating_reorder_respects_dependencies():
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n"
    order = ("cpu", "cuda:0", "vulkan:0", "cuda:0")
    names = ("x", "0", "1", "2", "3")
    for (before, after), device in zip(pairwise(names), order, strict=True):
        body += times(after, before, "c", device)
    assert targets(formed(body, "3", THREE)) == list(order)


def test_lower_picked_route_multidevice_is_a_valid_reordering():
    plain = formed(two_devices(4, 8), "z", THREE, order=False)
    ordered = formed(two_devices(4, 8), "z", THREE)
    assert_valid(ordered)
    assert sorted(targets(plain)) == sorted(targets(ordered))
    assert targets(plain) != targets(ordered)
    np.testing.assert_array_equal(evaluate(plain, X)[0], evaluate(ordered, X)[0])


def test_streaming_multidevice_equals_one_shot_reordered():
    """Without a decision there is nothing to wait for: the order is that of one block."""
    module = formed(two_devices(4, 4), "z", THREE)
    once = str(module)
    OrderRunsPass().apply(CONTEXT, module)
    assert str(module) == once


@pytest.mark.parametrize(
    ("cuda", "vulkan", "first"), [(8, 2, "cuda:0"), (2, 8, "vulkan:0")], ids=str
)
def test_device_alternating_reorder_emits_heavier_chunk_first(cuda: int, vulkan: int, first: str):
    """Both chains stand before the copy, the heavier one first."""
    module = formed(two_devices(cuda, vulkan), "z", THREE)
    assert targets(module)[0] == first
    assert sizes(module)[:2] == sorted((cuda, vulkan), reverse=True)


# The defects.


@pytest.mark.parametrize("picks", list(product((0, 1), repeat=2)), ids=str)
def test_x11_a_merge_follows_the_arm_that_is_chosen(picks: tuple[int, int]):
    """Decided: the merge reads the result of the branch, so no pick can come after it."""
    module = main(f"%x: {M}", M, f"{COUPLED}func.return %w : {M}")
    OptimizePass().apply(CONTEXT, module)
    assert_valid(module)
    force = {"d0": picks[0], "d1": picks[1]}
    np.testing.assert_allclose(evaluate(module, X, arms=force)[0], product_of(*picks), rtol=1e-5)


def test_x12_leaves_of_an_arm_are_inside_it():
    """Decided: what only an arm reads stands in the arm, constants too."""
    private = f"%c = fuel.const 3.0 : f32 -> {M}\n" + times("r", "a", "c")
    body = times("d", "x", "x") + decision("d0", "m", "d", FIRST, private)
    module = main(f"%x: {M}", M, f"{body}func.return %m : {M}")
    OptimizePass().apply(CONTEXT, module)
    assert not any(op.has_trait(Leaf) for op in top(module))
    (branch,) = (op for op in top(module) if isinstance(op, BranchOp))
    leaves = [sum(op.has_trait(Leaf) for op in r.walk()) for r in branch.arm_regions]
    assert leaves == [0, 1]


def test_x13_a_value_that_others_read_is_a_result_of_its_run():
    """Decided: live-outs are computed for each run; any kernel of it may give one."""
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + times("a0", "x", "c") + times("b0", "a0", "c")
    body += times("d0", "b0", "c") + times("c0", "c", "b0") + times("z", "c0", "d0")
    module = formed(body, "z")
    first, second, *_ = runs(module)
    assert len(first.outputs) == 2
    assert second.operands[0] in first.outputs
    assert_valid(module)


def test_x14_an_order_is_a_permutation_and_valid():
    """Decided: what is promised of any order is the same ops, each after what it reads."""
    plain = formed(two_devices(3, 5), "z", THREE, order=False)
    before = list(top(plain))
    OrderRunsPass().apply(CONTEXT, plain)
    assert set(top(plain)) == set(before)
    assert_valid(plain)


def test_x15_constants_are_no_second_device():
    """Decided: leaves have no device, so all on one device keeps its order."""
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n"
    body += times("s", "x", "c", "cuda:0") + times("l0", "c", "x", "cuda:0")
    body += "".join(times(f"l{n}", f"l{n - 1}", "c", "cuda:0") for n in range(1, 5))
    body += times("z", "s", "l4", "cuda:0")
    text = [str(formed(body, "z", THREE, order=order)) for order in (False, True)]
    assert text[0] == text[1]


def test_x16_constants_do_not_cut():
    """Decided: leaves are no inputs of a run, so a layer (product, bias, relu) is one."""
    layers = "".join(
        f'%w{n} = fuel.weight "w{n}" : {M}\n%b{n} = fuel.weight "b{n}" : {M}\n'
        + times(f"p{n}", f"h{n}", f"w{n}")
        + f"%q{n} = fuel.add %p{n}, %b{n} : {M}\n%h{n + 1} = fuel.relu %q{n} : {M}\n"
        for n in range(3)
    )
    module = formed(f"%h0 = fuel.neg %x : {M}\n{layers}", "h3")
    assert sizes(module) == [4]


@pytest.mark.parametrize("granularity", ["chain", "segment"])
@pytest.mark.parametrize("operands", ["%r, %m", "%m, %r"])
def test_x17_there_is_one_order_and_it_knows_who_reuses_memory(
    operands: str, granularity: Granularity
):
    """Decided: `fuel-order` puts readers first, and who forms and orders runs leaves them there."""
    body = f"%m = fuel.move %x to #fuel.device<cpu> : {M}\n"
    body += f"%t = fuel.copy %x to #fuel.device<cpu> : {M}\n" + times("r", "t", "x")
    body += f"%z = fuel.matmul {operands} : {M}, {M} -> {M}\n"
    module = main(f"%x: {M}", M, f"{body}func.return %z : {M}")
    runs_of = FormRunsPass(granularity=granularity)
    for inner in (FormKernelsPass(), OrderPass(), runs_of, OrderRunsPass()):
        inner.apply(CONTEXT, module)
    order = top(module)
    (move,) = (op for op in order if isinstance(op, MoveOp))
    reader = next(op for op in order if isinstance(op, RunOp))
    assert order.index(reader) < order.index(move)


def test_x18_a_transfer_is_in_no_run():
    """Decided: a transfer stands by itself, whatever reads it."""
    body = f"%t = fuel.copy %x to #fuel.device<cuda:0> : {M}\n" + times("z", "t", "t", "cuda:0")
    module = formed(body, "z", THREE)
    (copy,) = (op for op in module.walk() if op.has_trait(Transfer))
    assert copy in top(module)
    assert sizes(module) == [1]


def test_x19_a_decision_of_one_arm_cuts_nothing():
    """Decided: it canonicalises away before anything counts it."""
    only = f"%k = fuel.const 2.0 : f32 -> {M}\n" + times("r", "a", "k")
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + times("0", "x", "c")
    body += decision("one", "m", "0", only) + times("z", "m", "c")
    module = main(f"%x: {M}", M, f"{body}func.return %z : {M}")
    CanonicalizePass().apply(CONTEXT, module)
    (function,) = functions(module)
    assert list(branches(function)) == []
    FormRunsPass(granularity="chain").apply(CONTEXT, module)
    assert sizes(module) == [3]


def test_x23_all_walks_find_the_same_decisions():
    """Decided: an unread decision is no decision; those that stay are found nested or not."""
    body = (
        f'%m = fuel.branch "outer"(%a = %x : {M}) -> {M}\n'
        f'arm on #fuel.target<cpu, "numpy"> {{\n'
        f'%q = fuel.branch "inner"(%k = %a : {M}) -> {M}\n'
        f'arm on #fuel.target<cpu, "numpy"> {{\n%0 = fuel.neg %k : {M}\nfuel.yield %0 : {M}\n}}\n'
        f'arm on #fuel.target<cpu, "numpy"> {{\n%0 = fuel.exp %k : {M}\nfuel.yield %0 : {M}\n}}\n'
        f"fuel.yield %q : {M}\n}}\n"
        f'arm on #fuel.target<cpu, "numpy"> {{\n%0 = fuel.sqr %a : {M}\nfuel.yield %0 : {M}\n}}\n'
    )
    body += decision("unread", "u", "x", FIRST, SECOND)
    module = main(f"%x: {M}", M, f"{body}func.return %m : {M}")
    OptimizePass().apply(CONTEXT, module)
    (function,) = functions(module)
    found = [branch.id.data for branch in branches(function)]
    assert found == ["outer", "inner"]
    session = Session(force={"outer": 0, "outer/0/inner": 1})
    (got,) = session.compile(module, optimize=False)(X)
    np.testing.assert_allclose(got, np.exp(X), rtol=1e-6)


def test_x24_the_order_of_many_decisions_is_linear_work():
    """Decided: no cones; each op is looked at once, at compile time."""

    def prepare(count: int) -> Callable[[], None]:
        body, value = "", "x"
        for n in range(count):
            body += decision(f"d{n}", f"m{n}", value, FIRST, SECOND)
            value = f"m{n}"
        module = main(f"%x: {M}", M, f"{body}func.return %{value} : {M}")

        def run() -> None:
            FormRunsPass(granularity="chain").apply(CONTEXT, module)
            OrderRunsPass().apply(CONTEXT, module)

        return run

    assert growth(prepare, 15) < 4.6


@pytest.mark.parametrize("pick", [0, 1])
def test_x25_what_is_read_after_the_merge_too_is_computed_on_every_route(pick: int):
    """Decided: an arm reads what comes in; who else reads that is no business of the route."""
    body = times("s", "x", "x") + times("d", "x", "s")
    body += decision("d0", "m", "d", FIRST, times("r", "a", "b"), extra="s")
    body += times("z", "m", "s")
    got = computed(body, "z", d0=pick)
    s = X @ X
    d = X @ s
    np.testing.assert_allclose(got, (d @ (s if pick else d)) @ s, rtol=1e-5)
