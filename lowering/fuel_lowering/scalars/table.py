# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Joins the definitions of elementwise ops into the table that every target reads.

Another package adds rows under the name `scalars` in the entry points `fuel.kernels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import cast

from xdsl.ir import Operation

from fuel_dialect import plugins
from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.base import FuelOp
from fuel_lowering.scalars import arithmetic, casts, functions
from fuel_lowering.scalars.code import Code
from fuel_lowering.scalars.definition import Definitions, Exact
from fuel_lowering.scalars.values import Value

DEFINITIONS: Definitions = {
    **arithmetic.DEFINITIONS,
    **functions.DEFINITIONS,
    **casts.DEFINITIONS,
}
"""The definition of each elementwise op of fuel."""


@cache
def definitions() -> Definitions:
    """Returns the definition of each op, those of other packages too."""
    return plugins.kernels("scalars", DEFINITIONS)


def evaluate(code: Code, op: Operation, operands: Sequence[Value]) -> Value:
    """
    Writes an elementwise op and returns its result, rounded or wrapped to its element type.

    Raises `LoweringError` for an op without a definition.
    """
    definition = definitions().get(type(op))
    if definition is None:
        types = ", ".join(str(o.type) for o in op.operands)
        raise LoweringError(f"{op.name}: there is no scalar rule for it on {types}")
    code.hint = op.results[0].name_hint or cast(FuelOp, op).mnemonic()
    result = definition(code, op, operands)
    return result if isinstance(definition, Exact) else code.round_to_dtype(result)
