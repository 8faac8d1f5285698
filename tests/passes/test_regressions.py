# SPDX-License-Identifier: MIT OR Apache-2.0
"""Faults that were found from outside, each with its kind."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import ReturnOp
from xdsl.transforms.canonicalize import CanonicalizePass

from agreement import main, names
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import ProgramError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import FuelOp
from fuel_passes.finishing.order import OrderPass
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Session

CONTEXT = make_context()


def test_a_promoted_constant_folds_at_once():
    module = main(
        "%0: tensor<1x5x4xf32>",
        "tensor<1x5x2xf32>",
        "%3 = fuel.const -1.5 : bf16 -> tensor<1x4x2xbf16>\n"
        "%4 = fuel.matmul %0, %3 : tensor<1x5x4xf32>, tensor<1x4x2xbf16> -> tensor<1x5x2xf32>\n"
        "func.return %4 : tensor<1x5x2xf32>",
    )
    OptimizePass().apply(CONTEXT, module)
    once = str(module)
    assert "cast" not in names(module)
    OptimizePass().apply(CONTEXT, module)
    assert str(module) == once


@pytest.mark.parametrize(("rows", "columns"), [(3, 1), (1, 1), (1, 3)])
@pytest.mark.parametrize("number", [0.0, np.nan, np.inf])
def test_a_product_with_one_element_keeps_nan_and_inf(rows: int, columns: int, number: float):
    a, b, c = f"tensor<{rows}x1xf32>", f"tensor<1x{columns}xf32>", f"tensor<{rows}x{columns}xf32>"
    module = main(
        f"%x: {a}, %w: {b}",
        c,
        f"%d = fuel.matmul %x, %w : {a}, {b} -> {c}\nfunc.return %d : {c}",
    )
    x = np.array([np.inf, np.nan, 1], np.float32)[:rows, None]
    w = np.full((1, columns), number, np.float32)
    want = evaluate(module, x, w)
    np.testing.assert_array_equal(Session().compile(module)(x, w), want)


@pytest.mark.parametrize("extent", [3, 300])
def test_views_of_a_contiguized_value(extent: int):
    cube = f"tensor<3x{extent}x{extent}xf32>"
    module = main(
        f"%x: {cube}",
        cube,
        f"%c = fuel.contiguize %x : {cube}\n%t = fuel.transpose %c : {cube} -> {cube}\n"
        f"%n = fuel.neg %t : {cube}\nfunc.return %n : {cube}",
    )
    x = np.arange(3 * extent * extent, dtype=np.float32).reshape(3, extent, extent)
    (got,) = Session().compile(module)(x)
    np.testing.assert_array_equal(got, -x.swapaxes(1, 2))


def test_two_moves_of_one_value_keep_their_order():
    text = (
        "%m = fuel.move %x to #fuel.device<cpu> : tensor<4xf32>\n"
        "%n = fuel.move %x to #fuel.device<cuda:0> : tensor<4xf32>\n"
        "func.return %x, %m, %n : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>"
    )
    module = main("%x: tensor<4xf32>", "(tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)", text)
    before = str(module)
    OrderPass().apply(CONTEXT, module)
    module.verify()
    assert str(module) == before


def test_a_pin_survives_folding():
    module = main(
        "",
        "tensor<4xf32>",
        "%c = fuel.const 2.0 : f32 -> tensor<4xf32>\n"
        "%n = fuel.neg %c {placement = #fuel.device<cuda:0>} : tensor<4xf32>\n"
        "func.return %n : tensor<4xf32>",
    )
    CanonicalizePass().apply(CONTEXT, module)
    assert names(module) == ["const", "neg"]


def test_the_only_arm_of_a_branch_stays_on_its_device():
    module = main(
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
        '%y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>\n'
        'arm on #fuel.target<cuda:0, "triton"> {\n'
        "%0 = fuel.neg %a : tensor<4xf32>\nfuel.yield %0 : tensor<4xf32>\n}\n"
        "func.return %y : tensor<4xf32>",
    )
    CanonicalizePass().apply(CONTEXT, module)
    pins = [
        str(op.placement)
        for op in module.walk()
        if isinstance(op, FuelOp) and not isinstance(op, ReturnOp)
    ]
    assert pins == ["cuda:0"]


def test_a_view_of_a_constant_that_grows_is_not_folded():
    module = main(
        "",
        "tensor<8192x8xf32>",
        f'%c = fuel.const #fuel.bytes<"0x{np.arange(8, dtype=np.float32).tobytes().hex()}"> '
        "-> tensor<8xf32>\n"
        "%b = fuel.broadcast_to %c : tensor<8xf32> -> tensor<8192x8xf32>\n"
        "func.return %b : tensor<8192x8xf32>",
    )
    CanonicalizePass().apply(CONTEXT, module)
    assert names(module) == ["const", "broadcast_to"]


@pytest.mark.parametrize(
    "line",
    [
        '%y = "fuel.permute"(%x) <{axes = array<f32: 0.0>}> : (tensor<4xf32>) -> tensor<4xf32>',
        '%y = "fuel.powi"(%x) <{exponent = true}> : (tensor<4xf32>) -> tensor<4xf32>',
        '%y = "fuel.powi"(%x) <{exponent = 3 : index}> : (tensor<4xf32>) -> tensor<4xf32>',
        f"%y = fuel.const 1.0 : f32 -> tensor<{'1x' * 65}f32>",
    ],
)
def test_properties_of_another_type_and_too_many_dims_are_refused(line: str):
    with pytest.raises(ProgramError):
        parse_module(
            f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{line}\n"
            "func.return %x : tensor<4xf32>\n}"
        )


def test_a_scan_may_carry_and_read_floats_of_several_types():
    """No op in its body mixes them, so any target that serves those serves the scan."""
    module = main(
        "%x: tensor<f32>, %k: tensor<1xf64>",
        "(tensor<f32>, tensor<2x1xf64>)",
        """
        %c, %y = fuel.scan init(%s = %x : tensor<f32>) consts(%e = %k : tensor<1xf64>)
            length 2 -> (tensor<f32>, tensor<2x1xf64>) {
          %t = fuel.neg %s : tensor<f32>
          fuel.scan_yield carry(%t : tensor<f32>) ys(%e : tensor<1xf64>)
        }
        func.return %c, %y : tensor<f32>, tensor<2x1xf64>""",
    )
    OptimizePass(topology="cpu+h100").apply(CONTEXT, module)
    carry, rows = evaluate(module, np.float32(1.5), np.array([2.0]))
    assert (float(carry), rows.tolist()) == (1.5, [[2.0], [2.0]])
