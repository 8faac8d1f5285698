# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Constant folding: computes by the reference what an op gives on constant operands.

An op that fails on its operands (an index out of range) is left alone, to fail when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Attribute, Operation

from fuel_dialect.attributes import BytesAttr
from fuel_dialect.errors import FuelError
from fuel_dialect.reference.constants import attribute, elements
from fuel_dialect.reference.table import apply
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_dialect.traits import Elementwise, FreeWhenContiguous, ViewOp

FOLD_LIMIT = 65_536
"""Folding makes no constant with bytes of its own that has more elements than this."""

SMALL = 64
"""A constant may grow by folding up to this number of elements."""


@dataclass(frozen=True)
class Constant:
    """Represents a constant operand: its value, as `fuel.const` holds it, and its type."""

    value: Attribute
    type: AnyTensor

    @property
    def is_splat(self) -> bool:
        """Returns True if one number stands for all elements."""
        return not isinstance(self.value, BytesAttr)


def fold_constant(op: Operation, constants: Sequence[Constant]) -> Sequence[Attribute] | None:
    """Return the value of the result of an op on constants; None leaves the op alone."""
    splat = all(constant.is_splat for constant in constants)
    if splat and (isinstance(op, ViewOp) or op.has_trait(FreeWhenContiguous)):
        return (constants[0].value,)
    one_element = splat and op.has_trait(Elementwise)
    if not one_element and not _is_small(op, constants):
        return None
    try:
        types = [_scalar(c.type) if one_element else c.type for c in constants]
        operands = [elements(c.value, type) for c, type in zip(constants, types, strict=True)]
        results = [attribute(result) for result in apply(op, operands)]
    except FuelError:
        return None
    if one_element and any(isinstance(result, BytesAttr) for result in results):
        return None
    return results


def _scalar(type: AnyTensor) -> AnyTensor:
    return tensor((), type.element_type)


def _is_small(op: Operation, constants: Sequence[Constant]) -> bool:
    """Return True if folding makes no large constant, nor one much larger than its operands."""
    read = [prod(constant.type.get_shape()) for constant in constants]
    made = [prod(tensor_type(result).get_shape()) for result in op.results]
    return max(*read, *made) <= FOLD_LIMIT and sum(made) <= max(sum(read), SMALL)
