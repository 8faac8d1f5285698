# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives the NumPy target its rules: ufunc calls on f32 or wider."""

from __future__ import annotations

from collections.abc import Sequence

from acme_fuel.ops import SquaredReluOp
from fuel_lowering.numpy.builder import Builder
from fuel_lowering.numpy.pointwise import widened
from fuel_lowering.numpy.values import Ref


def _squared_relu(b: Builder, op: SquaredReluOp, operands: Sequence[Ref]) -> Ref:
    (x,) = operands
    return b.call("square", b.call("maximum", x, 0))


RULES = {SquaredReluOp: widened(_squared_relu)}
