# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-promote-dtypes`: lossless casts for kernels that no target has."""

from __future__ import annotations

import logging
from typing import Literal

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_close, main, names
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelPassError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.elementwise import CastOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_passes.legalize.promote_dtypes import PromoteDtypesPass

CONTEXT = make_context()
A, B, R = "tensor<2x3xf32>", "tensor<3x3xbf16>", "tensor<2x3xf32>"
ARGUMENTS = f"%a: {A}, %b: {B}"
MATMUL = f": {A}, {B} -> {R}"
NUMPY = '#fuel.target<cpu, "numpy">'


def promote(module: ModuleOp, precision: Literal["fast", "exact"] = "fast") -> ModuleOp:
    PromoteDtypesPass(precision=precision).apply(CONTEXT, module)
    module.verify()
    return module


def test_one_cast_serves_all_readers_and_is_reported(caplog: pytest.LogCaptureFixture):
    module = main(
        ARGUMENTS,
        f"({R}, {R})",
        f"""
        %0 = fuel.matmul %a, %b {MATMUL}
        %1 = fuel.matmul %0, %b {MATMUL}
        func.return %0, %1 : {R}, {R}""",
    )
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.linspace(-1, 1, 9).reshape(3, 3).astype(ml_dtypes.bfloat16)
    want = evaluate(module, a, b)
    with caplog.at_level(logging.WARNING, "fuel"):
        promote(module)
    assert names(module) == ["cast", "matmul", "matmul"]
    assert [r.getMessage().split(" operands")[0] for r in caplog.records] == [
        "fuel-promote-dtypes: 1"
    ]
    assert_close(evaluate(module, a, b), want, rtol=1e-6)
    cast = next(op for op in module.walk() if isinstance(op, CastOp))
    assert str(cast.result.type) == "tensor<3x3xf32>"
    assert all(op.rhs is cast.result for op in module.walk() if isinstance(op, MatmulOp))


def test_a_second_application_changes_and_reports_nothing(caplog: pytest.LogCaptureFixture):
    module = promote(main(ARGUMENTS, R, f"%0 = fuel.matmul %a, %b {MATMUL}\nfunc.return %0 : {R}"))
    once = str(module)
    caplog.clear()
    assert str(promote(module)) == once
    assert caplog.records == []


def test_served_ops_of_several_dtypes_are_left_alone():
    module = main(
        "%x: tensor<4xf16>, %i: tensor<2xui32>",
        "tensor<2xf16>",
        """
        %m = fuel.gt %x, %x : tensor<4xf16> -> tensor<4xi1>
        %w = fuel.where %m, %x, %x : tensor<4xi1>, tensor<4xf16>
        %s = fuel.index_select %w, %i {dim = 0 : i64}
          : tensor<4xf16>, tensor<2xui32> -> tensor<2xf16>
        func.return %s : tensor<2xf16>""",
    )
    before = str(module)
    assert str(promote(module)) == before


def test_it_works_in_every_arm_and_in_scan_bodies():
    module = main(
        ARGUMENTS,
        f"({R}, {R})",
        f"""
        %y = fuel.branch "mine"(%c = %a : {A}, %d = %b : {B}) -> {R}
        arm on {NUMPY} {{
          %0 = fuel.matmul %c, %d {MATMUL}
          fuel.yield %0 : {R}
        }}
        arm on {NUMPY} {{
          %0 = fuel.neg %c : {A}
          %1 = fuel.matmul %0, %d {MATMUL}
          fuel.yield %1 : {R}
        }}
        arm on #fuel.target<cuda:0, "triton"> {{
          %0 = fuel.matmul %c, %d {MATMUL}
          fuel.yield %0 : {R}
        }}
        %z = fuel.scan init(%s = %a : {A}) consts(%k = %b : {B}) length 2 -> {R} {{
          %0 = fuel.matmul %s, %k {MATMUL}
          fuel.scan_yield carry(%0 : {R})
        }}
        func.return %y, %z : {R}, {R}""",
    )
    promote(module)
    assert names(module) == [
        *("branch", "cast", "matmul", "yield", "neg", "cast", "matmul", "yield"),
        *("matmul", "yield", "scan", "cast", "matmul", "scan_yield"),
    ]


def test_exact_precision_refuses_and_names_the_op_and_its_dtypes():
    module = main(ARGUMENTS, R, f"%0 = fuel.matmul %a, %b {MATMUL}\nfunc.return %0 : {R}")
    before = str(module)
    with pytest.raises(FuelPassError, match=r"matmul of \(f32, bf16\).*precision=exact"):
        promote(module, "exact")
    assert str(module) == before


def test_the_cast_has_the_pin_of_its_reader():
    pin = "{placement = #fuel.device<cpu>}"
    module = main(ARGUMENTS, R, f"%0 = fuel.matmul %a, %b {pin} {MATMUL}\nfunc.return %0 : {R}")
    promote(module)
    cast = next(op for op in module.walk() if isinstance(op, CastOp))
    assert str(cast.placement) == "cpu"
