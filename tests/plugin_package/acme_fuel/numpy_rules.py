# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives the NumPy target its rules: ufunc calls, bf16 and f16 in f32."""

from __future__ import annotations

from collections.abc import Sequence

from acme_fuel.ops import CumulativeSumOp, SquaredReluOp
from fuel_lowering.numpy.builder import Builder
from fuel_lowering.numpy.steps import Recipe
from fuel_lowering.numpy.values import Ref


def _squared_relu(b: Builder, op: SquaredReluOp, operands: Sequence[Ref]) -> Ref:
    (x,) = operands
    wide = b.call("square", b.call("maximum", b.widen(x), 0))
    return b.narrow(wide, x.dtype)


def _cumulative_sum(b: Builder, op: CumulativeSumOp, operands: Sequence[Ref]) -> Ref:
    (x,) = operands
    recipe = Recipe(("cumsum({0}, -1, None, {y})",))
    return b.step(recipe, x, dtype=x.dtype, shape=x.shape)


RULES = {SquaredReluOp: _squared_relu, CumulativeSumOp: _cumulative_sum}
