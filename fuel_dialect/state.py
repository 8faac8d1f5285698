# SPDX-License-Identifier: MIT OR Apache-2.0
"""
State: tensors that live across the calls of a function.

A donated argument (`fuel.donated`) is a member of the state; the result that has its number as
`fuel.aliases` is what it is in the next call. The buffer is handed on, not copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.dialects.func import FuncOp

from fuel_dialect.errors import GraphError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
    from xdsl.ir import Attribute

DONATED = "fuel.donated"
"""The attribute of an argument that is a member of the state."""

ALIASES = "fuel.aliases"
"""The attribute of a result with the number of the donated argument whose next value it is."""

CLASS = "fuel.class"
"""The attribute of an argument with its storage class, where that is written out."""


def donations(function: FuncOp) -> dict[int, int]:
    """
    The donated arguments of a function, each with the result that is its next value.

    Raises `GraphError` for a donated argument without one result of its type that aliases it, for a
    result that aliases anything else, and for a storage class that does not fit.
    """
    arguments = _attributes(function.arg_attrs, len(function.function_type.inputs))
    results = _attributes(function.res_attrs, len(function.function_type.outputs))
    donated = [i for i, extra in enumerate(arguments) if _is_donated(function, i, extra)]
    found: dict[int, int] = {}
    for index, extra in enumerate(results):
        where = f"@{function.sym_name.data}: result {index}"
        if DONATED in extra:
            raise GraphError(f"{where} has {DONATED}; it is for arguments: use {ALIASES}")
        if ALIASES in extra:
            _alias(function, index, _number(where, extra[ALIASES]), donated, found)
    for index in donated:
        if index not in found:
            raise GraphError(
                f"@{function.sym_name.data}: argument {index} is donated, but no result says what "
                f"it is in the next call: give that result {{{ALIASES} = {index} : i64}}"
            )
    return {index: found[index] for index in donated}


def _attributes(given: ArrayAttr[DictionaryAttr] | None, count: int) -> list[dict[str, Attribute]]:
    return [{} for _ in range(count)] if given is None else [dict(a.data) for a in given]


def _is_donated(function: FuncOp, index: int, extra: dict[str, Attribute]) -> bool:
    """Returns True for a donated argument. Raises `GraphError` for attributes that say nothing."""
    where = f"@{function.sym_name.data}: argument {index}"
    if ALIASES in extra:
        raise GraphError(f"{where} has {ALIASES}; it is for results: use {DONATED}")
    is_donated = DONATED in extra
    if is_donated and not isinstance(extra[DONATED], UnitAttr):
        raise GraphError(f"{where}: {DONATED} stands alone, it has no value; got {extra[DONATED]}")
    if CLASS not in extra:
        return is_donated
    given, own = extra[CLASS], "state" if is_donated else "transient"
    if not isinstance(given, StringAttr) or given.data != own:
        raise GraphError(
            f'{where}: {CLASS} must be "{own}" here, got {given}: "state" is the class of donated '
            'arguments, "transient" of all others, and "shared" that of fuel.weight and fuel.const'
        )
    return is_donated


def _number(where: str, attribute: Attribute) -> int:
    if not isinstance(attribute, IntegerAttr) or attribute.type != i64:  # pyright: ignore[reportUnknownMemberType]
        raise GraphError(
            f"{where}: {ALIASES} is the number of an argument, an i64, not {attribute}"
        )
    return cast("IntegerAttr[Any]", attribute).value.data


def _alias(
    function: FuncOp, result: int, argument: int, donated: list[int], found: dict[int, int]
) -> None:
    """Note what a result aliases. Raises `GraphError`."""
    where = f"@{function.sym_name.data}: result {result}"
    if argument not in donated:
        listed = ", ".join(map(str, donated)) or "none"
        raise GraphError(
            f"{where} aliases argument {argument}, which is not donated; donated are {listed}"
        )
    if argument in found:
        raise GraphError(
            f"{where} aliases argument {argument}, and so does result {found[argument]}; a donated "
            "argument has one next value"
        )
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    if inputs[argument] != outputs[result]:
        raise GraphError(
            f"{where} is {outputs[result]}; it cannot alias argument {argument}, {inputs[argument]}"
        )
    found[argument] = result
