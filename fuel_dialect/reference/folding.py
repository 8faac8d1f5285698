# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Constant folding: what an op gives on constant operands, computed by the reference.

An op that fails on its operands (an index out of range) is left alone, to fail when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute

from fuel_dialect.attributes import BytesAttr
from fuel_dialect.errors import FuelError
from fuel_dialect.interpreter.evaluate import evaluate_op
from fuel_dialect.ops.base import FOLD_LIMIT, AnyTensor, ConstOp, FuelOp, tensor, tensor_type
from fuel_dialect.reference.constants import attribute, elements
from fuel_dialect.traits import Elementwise, FreeWhenContiguous, ViewOp

SMALL = 64
"""Elements up to which a constant may grow by folding."""


def fold_constant(op: FuelOp, consts: Sequence[ConstOp]) -> Sequence[Attribute] | None:
    """The value of the result of `op`, whose operands are `consts`; None: leave the op alone."""
    splat = all(const.splat is not None for const in consts)
    if splat and (isinstance(op, ViewOp) or op.has_trait(FreeWhenContiguous)):
        return (consts[0].value,)
    one_element = splat and op.has_trait(Elementwise)
    if not one_element and not _is_small(op, consts):
        return None
    try:
        operands = [elements(c.value, _scalar(c.type) if one_element else c.type) for c in consts]
        results = [attribute(result) for result in evaluate_op(op, operands)]
    except FuelError:
        return None
    if one_element and any(isinstance(result, BytesAttr) for result in results):
        return None
    return results


def _scalar(type: AnyTensor) -> AnyTensor:
    return tensor((), type.element_type)


def _is_small(op: FuelOp, consts: Sequence[ConstOp]) -> bool:
    """Whether folding makes no large constant, nor one much larger than what it is made of."""
    read = [prod(const.type.get_shape()) for const in consts]
    made = [prod(tensor_type(result).get_shape()) for result in op.results]
    return max(*read, *made) <= FOLD_LIMIT and sum(made) <= max(sum(read), SMALL)
