# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests that runs end where another device waits for their values, if calls end sooner."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from xdsl.dialects.builtin import ModuleOp

from diamonds import CONTEXT, assert_valid, top
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_passes.finishing.cut_runs import RUN_NS, CutRunsPass, cut, pieces_of
from fuel_passes.finishing.order_runs import OrderRunsPass
from fuel_passes.finishing.reuse_buffers import ReuseBuffersPass
from fuel_passes.walk import functions
from fuel_runtime import Session
from fuel_runtime.devices.emulated.clock import Clocks
from overlapping import CARDS, T, copy, emulated, pinned, planned, program, simulated_ns

X = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


def runs(module: ModuleOp) -> list[tuple[str, int]]:
    """The device and the number of kernels of each run."""
    return [
        (op.target.device.label, sum(isinstance(k, KernelOp) for k in op.body.block.ops))
        for op in top(module)
        if isinstance(op, RunOp)
    ]


def chains(device: str, first: tuple[str, str], second: tuple[str, str], count: int) -> str:
    """A run of two chains of kernels; each has the name of its result and of what it reads."""
    (a, reads_a), (b, reads_b) = first, second
    text = (
        f"  %{a}, %{b} = fuel.run on #fuel.target<{device}> "
        f"(%{a}in = %{reads_a} : {T}, %{b}in = %{reads_b} : {T}) -> ({T}, {T}) {{\n"
    )
    ends: list[str] = []
    for name in (a, b):
        last = f"{name}in"
        for number in range(count):
            text += (
                f'    %{name}k{number} = fuel.kernel pointwise "{name}"'
                f"(%in = %{last} : {T}) -> {T} {{\n"
                f"      %o = fuel.sin %in : {T}\n      fuel.yield %o : {T}\n    }}\n"
            )
            last = f"{name}k{number}"
        ends.append(last)
    return f"{text}    fuel.yield %{ends[0]}, %{ends[1]} : {T}, {T}\n  }}\n"


CUDA, CPU = 'cuda:0, "triton"', 'cpu, "numpy"'


def batches(length: int) -> ModuleOp:
    """A card computes two values, and the host goes on with each."""
    text = program(
        copy("cx", "x", "c"),
        chains(CUDA, ("a", "cx"), ("b", "cx"), length),
        copy("ha", "a", "h"),
        copy("hb", "b", "h"),
        chains(CPU, ("p", "ha"), ("q", "hb"), 8 * length),
        results=["p", "q"],
    )
    return planned(text)


def test_a_run_is_cut_where_the_host_goes_on_with_a_value():
    module = batches(6)
    assert runs(module) == [("cuda:0", 12), ("cpu", 96)]
    before = simulated_ns(module)
    for inner in (CutRunsPass(), OrderRunsPass()):
        inner.apply(CONTEXT, module)
    module.verify()
    assert_valid(module)
    assert sorted(runs(module)) == [("cpu", 48), ("cpu", 48), ("cuda:0", 6), ("cuda:0", 6)]
    assert simulated_ns(module) <= before - 2 * RUN_NS
    for got, want in zip(evaluate(module, X), evaluate(batches(6), X), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_run_is_not_cut_where_that_saves_less_than_it_costs():
    module = batches(1)
    once = str(module)
    CutRunsPass().apply(CONTEXT, module)
    assert str(module) == once


def test_runs_of_one_device_stay():
    text = program(chains(CUDA, ("a", "x"), ("b", "x"), 6), results=["a", "b"])
    module = planned(text)
    once = str(module)
    CutRunsPass().apply(CONTEXT, module)
    assert str(module) == once
    (run,) = (op for op in top(module) if isinstance(op, RunOp))
    assert len(pieces_of(run)) == 1


def test_a_kernel_that_writes_over_a_value_stays_behind_its_readers():
    """The value that is taken away needs the writer alone, which comes after a reader of both."""
    row = "tensor<1xf32>"
    module = planned(
        f"""
func.func @main(%x: {T}, %y: {row}) -> ({T}, {T}, {T}) {{
  %c = fuel.copy %x to #fuel.device<cuda:0> : {T}
  %s = fuel.copy %y to #fuel.device<cuda:0> : {row}
  %n, %r, %z = fuel.run on #fuel.target<{CUDA}>
      (%a = %c : {T}, %b = %s : {row}) -> ({T}, {T}, {T}) {{
    %v = fuel.kernel pointwise "v"(%p = %a : {T}) -> {T} {{
      %o = fuel.sin %p : {T}
      fuel.yield %o : {T}
    }}
    %read = fuel.kernel pointwise "read"(%p = %v : {T}) -> {T} {{
      %o = fuel.neg %p : {T}
      fuel.yield %o : {T}
    }}
    %write = fuel.kernel movement "write"(%p = %v : {T}, %q = %b : {row}) -> {T} {{
      %o = fuel.write_slice %p, %q {{starts = array<i64: 2>}} : {T}, {row}
      fuel.yield %o : {T}
    }}
    %last = fuel.kernel pointwise "last"(%p = %read : {T}) -> {T} {{
      %o = fuel.neg %p : {T}
      fuel.yield %o : {T}
    }}
    fuel.yield %write, %read, %last : {T}, {T}, {T}
  }}
  %h = fuel.copy %n to #fuel.device<cpu> : {T}
  func.return %h, %r, %z : {T}, {T}, {T}
}}"""
    )
    (run,) = (op for op in top(module) if isinstance(op, RunOp))
    labels = [[kernel.label.data for kernel in piece] for piece in pieces_of(run)]
    assert labels == [["v", "read"], ["last"], ["write"]]
    operands = X, X[:1]
    want = evaluate(module, *operands)
    cut(run)
    module.verify()
    for got, expected in zip(evaluate(module, *operands), want, strict=True):
        np.testing.assert_array_equal(got, expected)


@given(pinned())
def test_cut_runs_compute_the_same_and_sooner(module: ModuleOp):
    before = module.clone()
    CutRunsPass().apply(CONTEXT, module)
    module.verify()
    assert_valid(module)
    once = str(module)
    CutRunsPass().apply(CONTEXT, module)
    assert str(module) == once
    for each in (before, module):
        OrderRunsPass().apply(CONTEXT, each)
        ReuseBuffersPass().apply(CONTEXT, each)
    assert simulated_ns(module) <= simulated_ns(before)
    for got, want in zip(evaluate(module, X), evaluate(before, X), strict=True):
        np.testing.assert_array_equal(got, want)


@given(pinned())
def test_all_cuts_compute_the_same_on_devices(module: ModuleOp):
    """Also those that are not worth it, with the memory of results that others take over."""
    want = evaluate(module, X)
    (function,) = functions(module)
    while any(len(pieces_of(op)) > 1 for op in top(module) if isinstance(op, RunOp)):
        for run in [op for op in function.body.block.ops if isinstance(op, RunOp)]:
            cut(run)
    for inner in (OrderRunsPass(), ReuseBuffersPass()):
        inner.apply(CONTEXT, module)
    session = Session(emulated(Clocks.of(CARDS)), topology=CARDS, telemetry=False)
    executable = session.compile(module, optimize=False)
    for _ in range(2):
        for got, expected in zip(executable(X), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
