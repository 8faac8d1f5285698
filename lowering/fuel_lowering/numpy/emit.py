# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table from ops to the rules that write their steps, those of other packages included."""

from __future__ import annotations

from functools import cache
from typing import cast

from xdsl.ir import Operation

from fuel_dialect.plugins import KERNELS, kernels, table
from fuel_lowering.numpy import builder, language, library, matmul, rows, scan
from fuel_lowering.numpy.builder import Rule, Rules
from fuel_lowering.numpy.language import rule_of

WRITERS = (builder, language, library, rows, matmul, scan)
"""The files that hold rules: of leaves, elementwise ops, movement, rows, products and scans."""


@cache
def rules() -> Rules:
    """
    Returns the rule of every op that the target computes.

    A rule that another package has for this target comes before its definition for all targets.
    """
    stock = {op: rule for writer in WRITERS for op, rule in writer.RULES.items()}
    shared = {op: rule_of(definition) for op, definition in table(KERNELS, "scalars").items()}
    return {**shared, **kernels("numpy", cast("dict[type[Operation], Rule]", stock))}
