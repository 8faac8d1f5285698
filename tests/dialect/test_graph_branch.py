# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Branches: traced from functions, and made of routes by the builder.

Arms are regions: nesting is free once the inner decision is final, and a merge may read nothing of
an arm but arm 0's exit, in whose place the result comes.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import fuel_dialect as fuel
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp

X = np.array([-1.0, 2.0], np.float32)


@pytest.fixture
def g():
    return fuel.Graph()


@pytest.fixture
def x(g):
    return g.input((2,), name="x")


def run(tensors, *arrays, **keywords):
    tensors = tensors if isinstance(tensors, tuple | list) else [tensors]
    module = tensors[0].graph.build(tensors)
    return evaluate(module, *arrays, **keywords)


def top_names(g):
    return [op.name.removeprefix("fuel.") for op in g.trace.root.block.ops]


def branches(module):
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    return [op for op in function.walk() if isinstance(op, BranchOp)]


def test_arms_are_traced_and_every_one_runs(g, x):
    y = g.branch(x, [lambda a: a + 1, lambda a: a * 2, lambda a: -a])
    assert (y.shape, y.dtype.name) == ((2,), "f32")
    for arm, expected in enumerate([X + 1, X * 2, -X]):
        np.testing.assert_array_equal(run(y, X, arms={"d0": arm})[0], expected)
    (op,) = branches(g.build(y))
    assert [str(a.target) for a in op.arms] == ["cpu/numpy"] * 3
    assert not any(a.is_planned for a in op.arms)


def test_targets_and_ids(g, x):
    targets = ["cpu", "cuda:1", "vulkan/own", TargetAttr.of("cpu", "numpy")]
    y = g.branch(x, [lambda a: a.relu()] * 4, targets, id="choice")
    z = g.branch(y, [lambda a: a.exp()])
    first, second = branches(g.build(z))
    assert [str(a.target) for a in first.arms] == [
        "cpu/numpy",
        "cuda:1/triton",
        "vulkan:0/own",
        "cpu/numpy",
    ]
    assert (first.id.data, second.id.data) == ("choice", "d1")


def test_ids_are_unique_and_names_are_given_back_on_failure(g, x):
    def fails(a):
        g.branch(a, [lambda b: b.relu() + g.weight("w", (2,))])
        return a.sum_dim(5)

    with pytest.raises(fuel.ShapeError):
        g.branch(x, [fails])
    assert g.weight("w", (3,)).shape == (3,)
    y = g.branch(x, [lambda a: a], id="d1")
    z = g.branch(y, [lambda a: a])
    assert [op.id.data for op in branches(g.build(z))] == ["d1", "d2"]
    for id, text in [("d1", "taken"), ("a/b", "without"), ("", "without")]:
        with pytest.raises(fuel.GraphError, match=text):
            g.branch(x, [lambda a: a], id=id)
    assert g.branch(z, [lambda a: a]).value.owner.id.data == "d3"


def test_several_inputs_and_results(g, x):
    w = g.input((2, 2))
    a, b = g.branch((x, w), [lambda p, q: (p @ q, p), lambda p, q: [p, p @ q]])
    matrix = np.array([[1, 2], [3, 4]], np.float32)
    for arm, order in ((0, 1), (1, -1)):
        expected = [X @ matrix, X][::order]
        for out, want in zip(run([a, b], X, matrix, arms={"d0": arm}), expected, strict=True):
            np.testing.assert_array_equal(out, want)


def test_leaves_are_cloned_into_arms_wherever_they_were_made(g, x):
    c, w = g.constant([10.0, 20.0], "f32"), g.weight("w", (2,))
    y = g.branch(x, [lambda a: a + c + w, lambda a: c, lambda a: a + g.constant(1.0, "f32")])
    weights = {"w": np.array([100, 200], np.float32)}
    for arm, expected in enumerate([[109, 222], [10, 20], X + 1]):
        np.testing.assert_array_equal(run(y, X, arms={"d0": arm}, weights=weights)[0], expected)
    (op,) = branches(g.build(y))
    assert len(op.inputs) == 1


def test_nested_branches_are_named_by_path(g, x):
    def outer(a):
        return g.branch(a, [lambda b: b + 10, lambda b: b + 20])

    y = g.branch(x, [lambda a: a, outer])
    (op, inner) = branches(g.build(y))
    assert (op.id.data, inner.id.data) == ("d0", "d1")
    for arms, expected in [({}, X), ({"d0": 1}, X + 10), ({"d0": 1, "d0/1/d1": 1}, X + 20)]:
        np.testing.assert_array_equal(run(y, X, arms=arms)[0], expected)


def test_an_arm_may_hold_a_scan(g, x):
    def loop(a):
        return g.scan(lambda c, _: (c + a, None), a, length=3)[0]

    y = g.branch(x, [loop, lambda a: a * 4])
    for arm in (0, 1):
        np.testing.assert_array_equal(run(y, X, arms={"d0": arm})[0], 4 * X)


def test_an_arm_reads_no_other_tensor(g, x):
    hidden = x.exp()
    with pytest.raises(fuel.GraphError, match=r"arm 1 reads a result of fuel\.exp .*as an input"):
        g.branch(x, [lambda a: a, lambda a: a + hidden])
    with pytest.raises(fuel.GraphError, match=r"arm 0 reads x .*pass it as an input"):
        g.branch(hidden, [lambda a: x])
    with pytest.raises(fuel.GraphError, match=r"arm 0 reads x"):
        g.branch(hidden, [lambda a: g.scan(lambda c, _: (c + x, None), a, length=2)[0]])
    assert g.op_count == 1


def test_values_do_not_leave_arms(g, x):
    leaked = []

    def arm(a):
        leaked.append(a.exp())
        return a

    g.branch(x, [arm])
    for bad in (lambda: leaked[0] + 1, lambda: g.build(leaked[0]), lambda: x + leaked[0]):
        with pytest.raises(fuel.GraphError, match="inside an arm or a scan body"):
            bad()
    with pytest.raises(fuel.GraphError, match="has ended"):
        g.branch(x, [lambda a: a + leaked[0]])


@pytest.mark.parametrize(
    ("arms", "targets", "error", "text"),
    [
        ([], None, fuel.InvalidBranch, "one arm or more"),
        ([lambda a: a, lambda a: a.astype("f64")], None, fuel.InvalidBranch, "arm 1 gives .*f64"),
        ([lambda a: a, lambda a: a[0]], None, fuel.InvalidBranch, "arm 1 gives tensor<f32>, arm 0"),
        ([lambda a: a, lambda a: (a, a)], None, fuel.InvalidBranch, "arm 1 gives"),
        ([lambda a: None], None, fuel.InvalidBranch, "arm 0: returned NoneType"),
        ([lambda a: (a, 3)], None, fuel.InvalidBranch, "result 1 is a int"),
        ([lambda a: ()], None, fuel.InvalidBranch, "returned tuple"),
        ([lambda a: a], ["cpu", "cpu"], fuel.InvalidBranch, "2 targets for 1 arms"),
        ([lambda a: a], ["?"], fuel.UnknownDevice, "device"),
        ([lambda a: 1 / 0], None, ZeroDivisionError, "division"),
        ([lambda a: a.graph.input((2,)) + a], None, fuel.GraphError, "make it outside"),
    ],
)
def test_arms_that_make_no_branch_leave_the_graph_unchanged(g, x, arms, targets, error, text):
    with pytest.raises(error, match=text):
        g.branch(x, arms, targets)
    assert (g.op_count, len(g.inputs)) == (0, 1)
    np.testing.assert_array_equal(run(x + 1, X)[0], X + 1)


def test_inputs_of_a_branch_are_tensors(g):
    with pytest.raises(fuel.InvalidBranch, match="input 0 is a float"):
        g.branch([1.0], [lambda a: a])


def diamond(g, x, merge=lambda a, b: a.exp()):
    """Two routes from x, and a merge that reads arm 0's exit."""
    arm0, arm1 = x.relu().neg(), x.mul(x)
    return arm0, arm1, merge(arm0, arm1)


def test_a_diamond_becomes_a_branch(g, x):
    """The catalogue appends one node; here the interiors move into its arms."""
    arm0, arm1, merge = diamond(g, x)
    b = g.open_branch(x)
    assert b.add_arm(arm0) is b
    b.add_arm(arm1, target="cuda:0")
    assert b.diverge() is x
    assert [arm.value for arm in b.arms()] == [arm0.value, arm1.value]
    assert top_names(g) == ["relu", "neg", "mul", "exp"]
    y = b.finalize(merge)
    assert y is not None
    assert top_names(g) == ["branch", "exp"]
    assert list(merge.value.owner.operands) == [y.value]
    assert y.type == x.type
    for arm, expected in enumerate([np.exp(-np.maximum(X, 0)), np.exp(X * X)]):
        np.testing.assert_allclose(run(merge, X, arms={"d0": arm})[0], expected, rtol=1e-6)
    assert [str(a.target) for a in y.value.owner.arms] == ["cpu/numpy", "cuda:0/triton"]


def test_a_graph_without_decisions_builds_unchanged(g, x):
    diamond(g, x)
    assert top_names(g) == ["relu", "neg", "mul", "exp"]


def finalize(g, diverge, arms, merge):
    b = g.open_branch(diverge)
    for arm in arms:
        b.add_arm(arm)
    return b.finalize(merge)


def refuse(g, diverge, arms, merge, text):
    before = str(g.trace.root.block), top_names(g)
    with pytest.raises(fuel.InvalidBranch, match=text):
        finalize(g, diverge, arms, merge)
    assert (str(g.trace.root.block), top_names(g)) == before


def test_rule_1_no_arms(g, x):
    refuse(g, x, [], x.relu(), "one arm or more")


def test_rule_2_everything_stands_where_ops_are_appended(g, x):
    arm0, arm1, merge = diamond(g, x)
    other = fuel.Graph().input((2,))
    refuse(g, other, [arm0, arm1], merge, "diverge must live on the same graph")
    refuse(g, x, [arm0, arm1], other, "reconverge must live on the same graph")
    refuse(g, x, [arm0, other], merge, "arm 1 must live on the same graph")
    inside = []
    g.branch(x, [lambda a: inside.append(a.relu()) or a])
    refuse(g, x, [arm0, inside[0]], merge, "arm 1, .*is out of reach")


def test_rule_3_one_arm_is_no_decision_whatever_the_merge(g, x):
    """One arm plus a nonsensical but reachable merge: nothing, before any other rule."""
    arm0, _, merge = diamond(g, x)
    before = top_names(g)
    assert finalize(g, x, [arm0], merge) is None
    assert finalize(g, x, [arm0], x) is None
    assert top_names(g) == before
    assert branches(g.build(merge)) == []


def test_rule_4_reconverge_is_not_diverge(g, x):
    arm0, arm1, _ = diamond(g, x)
    refuse(g, x, [arm0, arm1], x, "must not be the diverge")


def test_rule_5_reconverge_depends_on_diverge(g, x):
    arm0, arm1, _ = diamond(g, x)
    refuse(g, x, [arm0, arm1], g.input((2,)).exp(), "does not depend on diverge")
    refuse(g, x, [arm0, arm1], g.input((2,)), "does not depend on diverge")


def test_rule_6_exits_have_one_shape_and_dtype(g, x):
    arm0 = x.relu()
    arm1 = x.neg().cast("f16")
    refuse(g, x, [arm0, arm1], arm0.exp(), "arm 1 gives tensor<2xf16>, arm 0 tensor<2xf32>")


def test_rule_7_the_merge_reads_arm_0_directly(g, x):
    arm0, arm1 = x.relu(), x.neg()
    step = arm0.exp()
    refuse(g, x, [arm0, arm1], step.log(), "must read arm 0's exit directly")
    refuse(g, x, [arm1, arm0], step, "must read arm 0's exit directly")


def test_rule_8_every_arm_computes_something_from_diverge(g, x):
    """An exit that is diverge, or a constant, has an empty interior."""
    arm0 = x.relu()
    merge = arm0.exp()
    refuse(g, x, [arm0, x], merge, "arm 1 computes nothing from diverge")
    refuse(g, x, [arm0, g.constant([0.0, 0.0], "f32")], merge, "arm 1 computes nothing")


def test_rule_9_interiors_are_disjoint(g, x):
    """Also: the same exit twice, the merge as an exit, and overlapping decisions."""
    arm0, arm1, merge = diamond(g, x)
    refuse(g, x, [arm0, arm0], merge, r"arms 0 and 1 share fuel\.neg, fuel\.relu")
    refuse(g, x, [arm0, merge], merge, "arms 0 and 1 share")
    shared = x.sin()
    left, right = shared.exp(), shared.neg()
    refuse(g, x, [left, right], left.relu(), r"share fuel\.sin")
    assert finalize(g, x, [arm0, arm1], merge) is not None


def test_rule_10_only_the_merge_reads_from_outside(g, x):
    """Even a reader that feeds the merge is refused."""
    arm0, arm1 = x.relu(), x.neg()
    peek = arm0.exp()
    refuse(g, x, [arm0, arm1], arm0.add(peek), r"of arm 0 is read by fuel\.exp outside")
    other = x.sin()
    other.cos()
    refuse(g, x, [x.floor(), other], x.floor().ceil(), "must read arm 0")
    first = x.floor()
    refuse(g, x, [first, other], first.ceil(), r"of arm 1 is read by fuel\.cos outside")


def test_the_merge_reads_nothing_of_an_arm_but_arm_0s_exit(g, x):
    """The catalogue lets it read any exit or interior node; a region has none to give."""
    arm0, arm1, merge = diamond(g, x, lambda a, b: a.add(b))
    refuse(g, x, [arm0, arm1], merge, "reconverge reads .* of arm 1")
    middle = x.sin()
    exit = middle.cos()
    refuse(g, x, [exit, x.ceil()], exit.add(middle), r"reads a result of fuel\.sin .* of arm 0")


def test_the_merge_may_read_diverge_and_arm_0_twice(g, x):
    arm0, arm1 = x.relu(), x.neg()
    merge = arm0.mul(arm0)
    total = merge.add(x)
    assert finalize(g, x, [arm0, arm1], merge) is not None
    for arm, expected in enumerate([np.maximum(X, 0) ** 2 + X, X * X + X]):
        np.testing.assert_array_equal(run(total, X, arms={"d0": arm})[0], expected)


def test_the_same_diamond_is_refused_a_second_time(g, x):
    """By rule 2 here: the exits stand inside the arms. So is a third arm that comes later."""
    arm0, arm1, merge = diamond(g, x)
    assert finalize(g, x, [arm0, arm1], merge) is not None
    refuse(g, x, [arm0, arm1], merge, "out of reach")
    refuse(g, x, [arm0, x.sin()], merge, "out of reach")
    with pytest.raises(fuel.GraphError, match="inside an arm"):
        arm0.exp()


def test_two_decisions_with_one_diverge_and_one_merge(g, x):
    a, b, c, d = x.relu(), x.neg(), x.sin(), x.cos()
    merge = a.add(c)
    assert finalize(g, x, [a, b], merge) is not None
    assert finalize(g, x, [c, d], merge) is not None
    for arms, expected in [
        ({}, np.maximum(X, 0) + np.sin(X)),
        ({"d0": 1, "d1": 1}, -X + np.cos(X)),
    ]:
        np.testing.assert_allclose(run(merge, X, arms=arms)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("first", [0, 1])
def test_chained_decisions_in_either_order(g, x, first):
    a, b = x.relu(), x.neg()
    middle = a.exp()
    c, d = middle.sin(), middle.cos()
    end = c.floor()
    steps = [(x, [a, b], middle), (middle, [c, d], end)]
    for diverge, arms, merge in (steps[first], steps[1 - first]):
        assert finalize(g, diverge, arms, merge) is not None
    assert top_names(g) == ["branch", "exp", "branch", "floor"]
    picks = {f"d{first}": 1, f"d{1 - first}": 0}
    expected = np.floor(np.sin(np.exp(-X)))
    np.testing.assert_array_equal(run(end, X, arms=picks)[0], expected)


def test_nested_inner_first_is_accepted(g, x):
    """Refused in the catalogue; regions nest, so an arm may run through a final decision."""
    start = x.relu()
    p, q = start.sin(), start.cos()
    exit = p.exp()
    alternative = x.neg()
    merge = exit.floor()
    assert finalize(g, start, [p, q], exit) is not None
    assert finalize(g, x, [exit, alternative], merge) is not None
    assert top_names(g) == ["branch", "floor"]
    for arms, expected in [
        ({}, np.exp(np.sin(np.maximum(X, 0)))),
        ({"d1/0/d0": 1}, np.exp(np.cos(np.maximum(X, 0)))),
        ({"d1": 1}, -X),
    ]:
        np.testing.assert_array_equal(run(merge, X, arms=arms)[0], np.floor(expected))


def test_nested_outer_first_is_refused_while_inner_routes_stand_outside(g, x):
    """And once the outer is final, its inside can no longer diverge: inner first, here."""
    start = x.relu()
    p, q = start.sin(), start.cos()
    exit = p.exp()
    merge = exit.floor()
    refuse(g, x, [exit, x.neg()], merge, r"of arm 0 is read by fuel\.cos outside")
    assert finalize(g, start, [p, q], exit) is not None
    assert finalize(g, x, [exit, x.ceil()], merge) is not None
    with pytest.raises(fuel.GraphError, match="inside an arm"):
        start.tanh()


def test_overlapping_decisions_are_refused(g, x):
    middle = x.relu()
    exit, other = middle.exp(), x.neg()
    merge = exit.floor()
    assert finalize(g, x, [exit, other], merge) is not None
    refuse(g, middle, [exit, x.sin()], merge, "diverge, .*out of reach")


def test_arms_may_be_built_after_the_merge_and_read_other_tensors(g, x):
    w = g.input((2,))
    arm0 = x.relu()
    merge = arm0.exp()
    late = w.sqr().add(w)
    constant = g.constant(np.array([1, 2], np.float32))
    arm1 = x.mul(late).add(constant).div(late)
    y = finalize(g, x, [arm0, arm1], merge)
    assert y is not None
    end = merge.add(late)
    scale = np.array([2, 3], np.float32)
    spread = scale * scale + scale
    (op,) = branches(g.build(end))
    assert [v.type for v in op.inputs] == [x.type, w.type]
    for arm, value in enumerate([np.maximum(X, 0), (X * spread + [1, 2]) / spread]):
        (out,) = run(end, X, scale, arms={"d0": arm})
        np.testing.assert_allclose(out, np.exp(value) + spread, rtol=1e-6)


def test_diverge_may_be_a_leaf_or_one_of_several_results(g, x):
    c = g.constant(np.array([1, 4], np.float32))
    a, b = c.sqrt(), c.neg()
    merge = a.add(x)
    assert finalize(g, c, [a, b], merge) is not None
    np.testing.assert_array_equal(run(merge, X, arms={"d0": 1})[0], X - [1, 4])
    p, q = g.branch(x, [lambda v: (v, v + 1)])
    r, s = q.relu(), q.neg()
    end = r.add(p)
    assert finalize(g, q, [r, s], end) is not None
    np.testing.assert_array_equal(run(end, X, arms={"d2": 1})[0], -(X + 1) + X)


def test_arm_0_stays_runnable(g, x):
    arm0, arm1, merge = diamond(g, x)
    (before,) = run(merge, X)
    assert finalize(g, x, [arm0, arm1], merge) is not None
    np.testing.assert_array_equal(run(merge, X)[0], before)


def test_the_builder_works_inside_an_arm(g, x):
    def arm(a):
        one, two, merge = diamond(g, a)
        finalize(g, a, [one, two], merge)
        return merge

    y = g.branch(x, [arm, lambda a: a])
    np.testing.assert_allclose(run(y, X, arms={"d0/0/d1": 1})[0], np.exp(X * X), rtol=1e-6)
