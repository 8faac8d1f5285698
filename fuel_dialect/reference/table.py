# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Finds the reference's function of an op, and applies it.

The function has the op's mnemonic as its name and stands in the file of the op's category.

It takes the operands as arrays and, as keywords, the properties of its op, `shape` and
`dtype` of the result, and `weights`. Ops with regions are the interpreter's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from fuel_dialect import dtypes, plugins
from fuel_dialect.attributes import BytesAttr
from fuel_dialect.errors import FuelError
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import tensor_type

REFERENCE = "fuel_dialect.reference"
OPS = "fuel_dialect.ops"

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


@cache
def find(op: type[Operation]) -> Function | None:
    """Returns the function of an op class: `reference.shape.concat` for `ops.shape.ConcatOp`."""
    package, _, category = op.__module__.rpartition(".")
    if package == OPS:
        module = import_module(f"{REFERENCE}.{category}")
        call = getattr(module, op.name.partition(".")[2], None)
    else:
        call = plugins.table(plugins.REFERENCES).get(op)
    return None if call is None else Function.of(call)


def function_of(op: Operation) -> Function:
    """Finds the function of an op. Raises `FuelError` for an op that has none."""
    known = None if op.regions else find(type(op))
    if known is None:
        raise FuelError(f"{op.name} has no reference; the package of an op gives it one")
    return known


def apply(
    op: Operation, operands: Sequence[Array], weights: Mapping[str, Array] = NO_WEIGHTS
) -> list[Array]:
    """Computes the results of one op without regions."""
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
    """Converts a property to a Python value; those without one (devices) stay as they are."""
    if isinstance(attribute, FloatAttr | IntegerAttr):
        return cast("FloatAttr[Any] | IntegerAttr[Any]", attribute).value.data
    if isinstance(attribute, DenseArrayBase):
        return attribute.get_values()
    return attribute.data if isinstance(attribute, StringAttr | BytesAttr) else attribute
