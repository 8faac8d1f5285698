# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The reference's functions by mnemonic, and their application to one op.

A function takes the operands as arrays and, as keywords, the properties of its op, `shape` and
`dtype` of the result, and `weights`. Ops with regions are the interpreter's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from fuel_dialect import dtypes, plugins
from fuel_dialect.attributes import BytesAttr
from fuel_dialect.errors import FuelError
from fuel_dialect.reference import (
    comparison,
    elementwise,
    indexing,
    linear_algebra,
    memory,
    normalization,
    reduction,
    shape,
)
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import tensor_type

CATEGORIES: tuple[ModuleType, ...] = (
    elementwise,
    comparison,
    shape,
    reduction,
    linear_algebra,
    indexing,
    memory,
    normalization,
)

NO_WEIGHTS: Mapping[str, Array] = MappingProxyType({})


@dataclass(frozen=True)
class Function:
    """Represents the definition of one op, with the names of its keyword parameters."""

    call: Callable[..., Any]
    keywords: tuple[str, ...]

    @staticmethod
    def of(call: Callable[..., Any]) -> Function:
        parameters = inspect.signature(call).parameters.values()
        return Function(call, tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY))


def _public_functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, item in vars(module).items():
        if inspect.isfunction(item) and item.__module__ == module.__name__ and name[0] != "_":
            yield name, item


FUNCTIONS: Mapping[str, Function] = {
    name: Function.of(call) for module in CATEGORIES for name, call in _public_functions(module)
}
"""Maps mnemonics (`add` for `fuel.add`) to functions."""


@cache
def outside() -> Mapping[type[Operation], Function]:
    """Return the functions of ops that other packages define, by op class."""
    return {op: Function.of(call) for op, call in plugins.table(plugins.REFERENCES).items()}


def function_of(op: Operation) -> Function:
    """Find the function of an op. Raises `FuelError` for an op that has none."""
    dialect, _, mnemonic = op.name.partition(".")
    known = FUNCTIONS.get(mnemonic) if dialect == "fuel" else None
    known = known or outside().get(type(op))
    if known is None:
        raise FuelError(f"{op.name} has no reference; the package of an op gives it one")
    return known


def apply(
    op: Operation, operands: Sequence[Array], weights: Mapping[str, Array] = NO_WEIGHTS
) -> list[Array]:
    """Compute the results of one op without regions."""
    function = function_of(op)
    keywords = {name: _keyword(op, name, weights) for name in function.keywords}
    return [np.asarray(function.call(*operands, **keywords))]


def _keyword(op: Operation, name: str, weights: Mapping[str, Array]) -> Any:
    if name == "weights":
        return weights
    if name == "shape":
        return tensor_type(op.results[0]).get_shape()
    if name == "dtype":
        return dtypes.of_type(tensor_type(op.results[0])).numpy
    return _python(op.properties[name])


def _python(attribute: Attribute) -> Any:
    """Convert a property to a Python value; those without one (devices) stay as they are."""
    if isinstance(attribute, FloatAttr | IntegerAttr):
        return cast("FloatAttr[Any] | IntegerAttr[Any]", attribute).value.data
    if isinstance(attribute, DenseArrayBase):
        return attribute.get_values()
    return attribute.data if isinstance(attribute, StringAttr | BytesAttr) else attribute
