# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-decompose`: ops that no target serves become the ops that define them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_close, main, names, run
from fuel_dialect.context import make_context
from fuel_dialect.dialect import OPS
from fuel_dialect.errors import FuelPassError, NoBackendForOp
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_dialect.traits import DecomposableOp
from fuel_passes.legalize.decompose import DecomposePass
from machines import only
from programs import Program, programs

CONTEXT = make_context()
T = "tensor<2x3xf32>"
DECOMPOSABLE = tuple(op.mnemonic() for op in OPS if issubclass(op, DecomposableOp))


def decompose(module: ModuleOp, *ops: str) -> ModuleOp:
    DecomposePass(ops=ops).apply(CONTEXT, module)
    module.verify()
    return module


@contextmanager
def numpy_without(*ops: str) -> Iterator[None]:
    """A NumPy target that lacks kernels."""
    lacking = replace(DESCRIPTION, lacks=only(*ops))
    with patch("fuel_passes.planning.topology.description_of", lambda backend: lacking):
        yield


def test_an_op_without_a_kernel_is_decomposed_and_keeps_its_pin():
    module = main(
        f"%x: {T}",
        T,
        f"""
        %0 = fuel.softmax_last_dim %x {{placement = #fuel.device<cpu>}} : {T}
        func.return %0 : {T}""",
    )
    x = np.array([[1, 2, 3], [-1, 0, 5]], np.float32)
    want = evaluate(module, x)
    with numpy_without("softmax_last_dim"):
        decompose(module)
        assert names(module) == [
            *("reduce_max_to", "broadcast_to", "sub", "exp"),
            *("reduce_sum_to", "broadcast_to", "div"),
        ]
        once = str(module)
        assert str(decompose(module)) == once
    assert {str(op.placement) for op in module.walk() if isinstance(op, FuelOp)} == {"cpu"}
    assert_close(evaluate(module, x), want, rtol=1e-6)


def test_a_served_op_stays_unless_it_is_named():
    body = f"%0 = fuel.softmax_last_dim %x : {T}\nfunc.return %0 : {T}"
    assert names(decompose(main(f"%x: {T}", T, body))) == ["softmax_last_dim"]
    named = decompose(main(f"%x: {T}", T, body), "softmax_last_dim")
    assert "softmax_last_dim" not in names(named)


@pytest.mark.parametrize("op", DECOMPOSABLE)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_every_decomposition_agrees_with_its_op(op: str, dtype: str):
    type = f"tensor<2x3x{dtype}>"
    eps = " {eps = 1.0e-5 : f64}" if "norm" in op else ""
    module = main(
        f"%x: {T}",
        T,
        f"""
        %c = fuel.cast %x : {T} -> {type}
        %0 = fuel.{op} %c{eps} : {type}
        %1 = fuel.cast %0 : {type} -> {T}
        func.return %1 : {T}""",
    )
    rows = [[1, -2, 3], [-np.inf, 0, 5]] if "softmax" in op else [[1, -2, 3], [7, 0.5, 5]]
    x = np.array(rows, np.float32)
    want = evaluate(module, x)
    decompose(module, op)
    assert op not in names(module)
    assert_close(evaluate(module, x), want, rtol=1e-2 if dtype in ("bf16", "f16") else 1e-6)


def test_an_op_that_nothing_serves_is_named_with_its_dtypes():
    module = main(f"%x: {T}", T, f"%0 = fuel.add %x, %x : {T}\nfunc.return %0 : {T}")
    before = str(module)
    with numpy_without("add"), pytest.raises(NoBackendForOp) as caught:
        decompose(module)
    message = str(caught.value)
    assert "add: no kernel for (f32, f32) -> f32 on cpu/numpy" in message
    assert "numpy serves i1, i8" in message
    assert isinstance(caught.value, FuelPassError)
    assert str(module) == before


def test_a_pin_on_a_device_outside_the_topology_is_an_error():
    pin = "{placement = #fuel.device<cuda:1>}"
    module = main(f"%x: {T}", T, f"%0 = fuel.neg %x {pin} : {T}\nfunc.return %0 : {T}")
    with pytest.raises(NoBackendForOp, match=r"neg: pinned to cuda:1, but .* are cpu/numpy"):
        decompose(module)


def test_an_op_that_cannot_be_decomposed_is_refused_by_name():
    module = main(f"%x: {T}", T, f"func.return %x : {T}")
    with pytest.raises(FuelPassError, match="'add' has no decomposition; these have: softmax"):
        decompose(module, "add")


def test_it_works_in_arms_and_scans_but_not_in_arms_for_other_machines():
    module = main(
        f"%x: {T}",
        f"({T}, {T})",
        f"""
        %y = fuel.branch "mine"(%a = %x : {T}) -> {T}
        arm on #fuel.target<cpu, "numpy"> {{
          %0 = fuel.rms_norm_last_dim %a {{eps = 1.0e-5 : f64}} : {T}
          fuel.yield %0 : {T}
        }}
        arm on #fuel.target<cuda:0, "triton"> {{
          %0 = fuel.rms_norm_last_dim %a {{eps = 1.0e-5 : f64}} : {T}
          fuel.yield %0 : {T}
        }}
        %z = fuel.scan init(%s = %x : {T}) length 2 -> {T} {{
          %0 = fuel.rms_norm_last_dim %s {{eps = 1.0e-5 : f64}} : {T}
          fuel.scan_yield carry(%0 : {T})
        }}
        func.return %y, %z : {T}, {T}""",
    )
    norm = ["sqr", "const", "reduce_sum_to", "div", "add_scalar", "rsqrt", "broadcast_to", "mul"]
    assert names(decompose(module, "rms_norm_last_dim")) == [
        *("branch", *norm, "yield", "rms_norm_last_dim", "yield"),
        *("scan", *norm, "scan_yield"),
    ]


@given(programs())
def test_random_programs_keep_their_values(program: Program):
    want = run(program)
    decompose(program.module, *DECOMPOSABLE)
    assert not any(isinstance(op, DecomposableOp) for op in program.module.walk())
    assert_close(run(program), want)
    once = str(program.module)
    assert str(decompose(program.module, *DECOMPOSABLE)) == once
