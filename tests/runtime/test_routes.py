# SPDX-License-Identifier: MIT OR Apache-2.0
"""Routes through decisions: what runs on each, by value."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.pattern_rewriter import PatternRewriter

from agreement import main
from diamonds import CONTEXT, FIRST, SECOND, M, X, assert_valid, decision, times
from fuel_dialect.canonicalization.regions import inline_arm
from fuel_dialect.errors import DecisionError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import branches, functions
from fuel_runtime import Session

Array = np.ndarray[Any, Any]


DIAMOND = (
    times("p", "x", "x")
    + times("d", "p", "p")
    + decision("d0", "m", "d", FIRST, SECOND)
    + times("e", "m", "m")
    + times("z", "e", "e")
)


COUPLED = DIAMOND + times("q", "z", "z") + decision("d1", "w", "q", SECOND, FIRST)


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


# The defects.


@pytest.mark.parametrize("picks", list(product((0, 1), repeat=2)), ids=str)
def test_a_merge_follows_the_arm_that_is_chosen(picks: tuple[int, int]):
    """The merge reads the result of the branch, so no pick can come after it."""
    module = main(f"%x: {M}", M, f"{COUPLED}func.return %w : {M}")
    OptimizePass().apply(CONTEXT, module)
    assert_valid(module)
    force = {"d0": picks[0], "d1": picks[1]}
    np.testing.assert_allclose(evaluate(module, X, arms=force)[0], product_of(*picks), rtol=1e-5)


def test_all_walks_find_the_same_decisions():
    """An unread decision is no decision; those that stay are found nested or not."""
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


@pytest.mark.parametrize("pick", [0, 1])
def test_what_is_read_after_the_merge_too_is_computed_on_every_route(pick: int):
    """An arm reads what comes in; who else reads that is no business of the route."""
    body = times("s", "x", "x") + times("d", "x", "s")
    body += decision("d0", "m", "d", FIRST, times("r", "a", "b"), extra="s")
    body += times("z", "m", "s")
    got = computed(body, "z", d0=pick)
    s = X @ X
    d = X @ s
    np.testing.assert_allclose(got, (d @ (s if pick else d)) @ s, rtol=1e-5)
