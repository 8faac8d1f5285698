# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table from ops to the rules that write their steps, those of other packages included."""

from __future__ import annotations

from functools import cache
from typing import cast

from xdsl.ir import Operation

from fuel_dialect.plugins import kernels
from fuel_lowering.numpy import builder, library, matmul, pointwise, rows, scan
from fuel_lowering.numpy.builder import Rule, Rules

WRITERS = (builder, pointwise, library, rows, matmul, scan)
"""The files that hold rules: of leaves, elementwise ops, movement, rows, products and scans."""


@cache
def rules() -> Rules:
    """Returns the rule of every op that the target computes."""
    stock = {op: rule for writer in WRITERS for op, rule in writer.RULES.items()}
    return kernels("numpy", cast("dict[type[Operation], Rule]", stock))
