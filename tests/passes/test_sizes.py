# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests that four times the size to build or to plan is about four times the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpOperands, SSAValue

import fuel_dialect as fuel
from agreement import main, names
from effort import SLOW
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.shape import ConcatOp
from fuel_passes.finishing.form_runs import FormRunsPass
from fuel_passes.finishing.order_runs import OrderRunsPass, alternating, items_of
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import functions
from work import growth

CONTEXT = make_context()
T = "tensor<2xf32>"
M = "tensor<2x2xf32>"
LINEAR = 5.0
"""Of 4: sorting and what is done once leave their mark."""


def concat(count: int) -> ModuleOp:
    arguments = ", ".join(f"%x{n}: {T}" for n in range(count))
    values = ", ".join(f"%n{n}" for n in range(count))
    body = "\n".join(f"%n{n} = fuel.neg %x{n} : {T}" for n in range(count))
    joined = f"tensor<{2 * count}xf32>"
    types = ", ".join([T] * count)
    body += f"\n%r = fuel.concat {values} {{dim = 0 : i64}} : {types} -> {joined}"
    return main(arguments, joined, f"{body}\nfunc.return %r : {joined}")


def test_kernels_of_a_concat_of_many_operands(monkeypatch: pytest.MonkeyPatch):
    """
    Setting one operand copies all; the kernels that are read do so, once each, and no more.

    That copying is not done in Python, so it is counted here apart.
    """
    copied = 0
    set_one = OpOperands.__setitem__

    def counted(operands: OpOperands, index: int, value: SSAValue) -> None:
        nonlocal copied
        copied += len(operands)
        set_one(operands, index, value)

    monkeypatch.setattr(OpOperands, "__setitem__", counted)
    FormKernelsPass().apply(CONTEXT, concat(200))
    assert copied <= 200 * 200 + 200
    monkeypatch.undo()

    def prepare(count: int) -> Callable[[], Any]:
        module = concat(count)
        return lambda: FormKernelsPass().apply(CONTEXT, module)

    assert growth(prepare, 100) < LINEAR


@SLOW
def test_a_plan_with_a_concat_of_2000_operands():
    module = concat(2_000)
    OptimizePass(topology="2xh100").apply(CONTEXT, module)
    module.verify()
    (joined,) = (op for op in module.walk() if isinstance(op, ConcatOp))
    assert len(joined.inputs) == 2_000
    kernel = joined.parent_op()
    assert isinstance(kernel, KernelOp)
    assert [argument.index for argument in kernel.body.block.args] == list(range(2_000))


def test_readers_along_a_chain_of_views_repeat_one_each():
    """Each of them would otherwise hold the whole chain up to its value."""
    count = 200
    body = ""
    for n in range(count):
        before, after = (f"tensor<{2 * count - k}xf32>" for k in (n, n + 1))
        cut = f"{{dim = 0 : i64, start = 1 : i64, length = {2 * count - n - 1} : i64}}"
        body += f"%v{n + 1} = fuel.slice %v{n} {cut} : {before} -> {after}\n"
        body += f"%s{n + 1} = fuel.sum_all %v{n + 1} : {after} -> tensor<f32>\n"
    results = ", ".join(f"%s{n + 1}" for n in range(count))
    types = ", ".join(["tensor<f32>"] * count)
    text = f"{body}func.return {results} : {types}"
    module = main(f"%v0: tensor<{2 * count}xf32>", f"({types})", text)
    OptimizePass().apply(CONTEXT, module)
    module.verify()
    assert names(module).count("slice") == count
    x = np.arange(2 * count, dtype=np.float32)
    sums = [float(r) for r in evaluate(module, x)]
    assert sums == [float(x[n + 1 :].sum()) for n in range(count)]


def decisions(count: int) -> ModuleOp:
    """Decisions side by side, between runs on two devices."""
    body = ""
    for n in range(count):
        device, backend = (("cpu", "numpy"), ("cuda:0", "triton"))[n % 2]
        body += f"""
            %k{n} = fuel.run on #fuel.target<{device}, "{backend}"> (%a = %x : {T}) -> {T} {{
              %0 = fuel.kernel pointwise "neg"(%b = %a : {T}) -> {T} {{
                %1 = fuel.neg %b : {T}
                fuel.yield %1 : {T}
              }}
              fuel.yield %0 : {T}
            }}
            %r{n} = fuel.branch "d{n}"(%a = %k{n} : {T}) -> {T}
            arm on #fuel.target<cpu, "numpy"> {{
              fuel.yield %a : {T}
            }}
            arm on #fuel.target<cuda:0, "triton"> {{
              fuel.yield %a : {T}
            }}"""
    results = ", ".join(f"%r{n}" for n in range(count))
    types = ", ".join([T] * count)
    return main(f"%x: {T}", f"({types})", f"{body}\nfunc.return {results} : {types}")


def test_the_order_of_many_decisions():
    def prepare(count: int) -> Callable[[], Any]:
        module = decisions(count)
        return lambda: OrderRunsPass().apply(CONTEXT, module)

    assert growth(prepare, 60) < LINEAR


def test_the_order_by_counts_is_the_one_of_the_rule():
    """Section 3.6: the heaviest downstream, another device than before, the earliest."""
    module = decisions(4)
    (function,) = functions(module)
    items, before = items_of(function.body.block)
    assert _shown(alternating(items, before)) == "cpu cuda:0 cpu cuda:0 d0 d1 d2 d3".split()
    assert alternating([], {}) == []


def test_the_order_asks_a_card_before_the_host_computes():
    module = decisions(4)
    OrderRunsPass().apply(CONTEXT, module)
    (function,) = functions(module)
    items, _ = items_of(function.body.block)
    assert _shown(items)[:4] == "cuda:0 cuda:0 cpu cpu".split()


def _shown(items: Sequence[Operation]) -> list[str]:
    found = [op for op in items if isinstance(op, RunOp | BranchOp)]
    return [str(op.target.device) if isinstance(op, RunOp) else op.id.data for op in found]


def test_diamonds_of_the_builder_cost_the_same_late_as_early():
    def prepare(count: int) -> Callable[[], Any]:
        graph = fuel.Graph()
        value = graph.input((2,))
        return lambda: diamonds(value, count)

    def diamonds(value: fuel.Tensor, count: int) -> None:
        for _ in range(count):
            first, second = value.relu(), value.neg()
            merge = first.exp()
            builder = value.graph.open_branch(value).add_arm(first).add_arm(second)
            assert builder.finalize(merge) is not None
            value = merge

    assert growth(prepare, 30) < LINEAR


@pytest.mark.parametrize("order", [("cpu", "cuda:0", "cpu"), ("cuda:0", "cpu", "cuda:0")])
def test_runs_follow_one_another_where_a_value_changes_device(order: tuple[str, ...]):
    """Without transfers between them, as on devices that share memory, or by this pass alone."""
    body = "\n".join(
        f"%v{n + 1} = fuel.matmul %v{n}, %v{n} {{placement = #fuel.device<{device}>}}"
        f" : {M}, {M} -> {M}"
        for n, device in enumerate(order)
    )
    module = main(
        "%v0: tensor<2x2xf32>", "tensor<2x2xf32>", f"{body}\nfunc.return %v3 : tensor<2x2xf32>"
    )
    FormRunsPass(topology="cpu+h100").apply(CONTEXT, module)
    module.verify()
    assert names(module).count("run") == 3
    runs = [op for op in module.walk() if isinstance(op, RunOp)]
    assert tuple(str(run.target.device) for run in runs) == order
    assert str(parse_module(str(module))) == str(module)
