# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Finds the patterns that stock canonicalize applies to an op.

The patterns stand above the ops, which read this file, so their table is named by string.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Operation
    from xdsl.pattern_rewriter import RewritePattern

TABLE = "fuel_dialect.canonicalization.table"


def patterns_of(op: type[Operation]) -> tuple[RewritePattern, ...]:
    """Return the patterns of one kind of op; an op that has none gets an empty tuple."""
    return import_module(TABLE).PATTERNS.get(op, ())
