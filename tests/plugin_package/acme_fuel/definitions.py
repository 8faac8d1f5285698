# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines elementwise ops over the primitives of scalar code, once for every target."""

from __future__ import annotations

from collections.abc import Sequence

from acme_fuel.ops import SoftsignOp
from fuel_lowering.scalars.values import ScalarBuilder, V


def _softsign(code: ScalarBuilder[V], op: SoftsignOp, operands: Sequence[V]) -> V:
    (x,) = operands
    return code.apply("div", x, code.apply("add", code.apply("abs", x), code.number(1, x)))


DEFINITIONS = {SoftsignOp: _softsign}
