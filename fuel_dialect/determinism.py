# SPDX-License-Identifier: MIT OR Apache-2.0
"""The mark of modules whose kernels give the same bits for any number of threads."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation

DETERMINISTIC = "fuel.deterministic"


def mark_deterministic(module: ModuleOp, asked: bool) -> None:
    """Ask for kernels that give the same bits each time, or no longer."""
    module.attributes.pop(DETERMINISTIC, None)
    if asked:
        module.attributes[DETERMINISTIC] = UnitAttr()


def is_deterministic(op: Operation) -> bool:
    """Returns True if an op is in a module that asks for such kernels."""
    outer: Operation | None = op
    while outer is not None and not isinstance(outer, ModuleOp):
        outer = outer.parent_op()
    return outer is not None and DETERMINISTIC in outer.attributes
