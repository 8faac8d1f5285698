# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table from ops to the rules that write their steps, those of other packages included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import cast

from xdsl.ir import Operation

from fuel_dialect.movement import MovementOp
from fuel_dialect.plugins import KERNELS, kernels, table
from fuel_lowering.numpy import builder, language, matmul, movement, rows, scan
from fuel_lowering.numpy.builder import Rule

WRITERS = (builder, language, movement, rows, matmul, scan)
"""The files that hold rules: of leaves, elementwise ops, movement, rows, products and scans."""


@cache
def rules() -> Mapping[type[Operation], Rule]:
    """
    Returns the rule of every op that has one of its own.

    A rule that another package has for this target comes before its definition for all targets.
    """
    stock = {op: rule for writer in WRITERS for op, rule in writer.RULES.items()}
    definitions = table(KERNELS, "scalars").items()
    shared = {op: language.rule_of(definition) for op, definition in definitions}
    return {**shared, **kernels("numpy", cast("dict[type[Operation], Rule]", stock))}


def rule_of(op: Operation) -> Rule | None:
    """Returns the rule of an op that the target computes: its own, or that of all movement."""
    return rules().get(type(op)) or (movement.move if isinstance(op, MovementOp) else None)
