# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decisions stay few, and many are no more than linear work."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from agreement import main
from diamonds import CONTEXT, FIRST, SECOND, M, decision, times
from fuel_passes.finishing.form_runs import FormRunsPass
from fuel_passes.finishing.order_runs import OrderRunsPass
from fuel_passes.forking.converge import ConvergePass
from fuel_passes.forking.fork_variants import arms_left
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.walk import branches, functions
from work import growth


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


def test_the_order_of_many_decisions_is_linear_work():
    """No cones; each op is looked at once, at compile time."""

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
