# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds the function of a module that is to run."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from fuel_dialect.errors import ProgramError


def find_function(module: ModuleOp, entry: str) -> FuncOp:
    """Returns the function of a name. Raises `ProgramError` that lists what there is."""
    functions = {f.sym_name.data: f for f in module.body.ops if isinstance(f, FuncOp)}
    function = functions.get(entry)
    if function is None:
        have = ", ".join(functions) or "none"
        raise ProgramError(f"there is no function {entry!r}; the module has {have}")
    if not function.body.blocks:
        raise ProgramError(f"the function {entry!r} is declared only; it has no body to run")
    return function
