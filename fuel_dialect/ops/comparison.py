# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparisons: two operands of one type, a mask of their shape. IEEE: NaN is only unequal."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Commutative

from fuel_dialect import dtypes
from fuel_dialect.ops.base import SAME_TENSOR, Properties, TensorConstraint
from fuel_dialect.ops.elementwise import ElementwiseOp
from fuel_dialect.tensors import AnyTensor, same_shape


class ComparisonOp(ElementwiseOp, abc.ABC):
    """Two operands of one type; the result is `i1` of their shape."""

    T: ClassVar = SAME_TENSOR
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(TensorConstraint(dtypes.MASK))

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (type,) = super().infer(operands, properties, declared)
        return (same_shape(type, i1),)


@irdl_op_definition
class EqOp(ComparisonOp):
    """a == b."""

    name = "fuel.eq"
    traits = traits_def(Commutative())


@irdl_op_definition
class NeOp(ComparisonOp):
    """a != b; true where either is NaN."""

    name = "fuel.ne"
    traits = traits_def(Commutative())


@irdl_op_definition
class LtOp(ComparisonOp):
    """a < b."""

    name = "fuel.lt"


@irdl_op_definition
class LeOp(ComparisonOp):
    """a <= b."""

    name = "fuel.le"


@irdl_op_definition
class GtOp(ComparisonOp):
    """a > b."""

    name = "fuel.gt"


@irdl_op_definition
class GeOp(ComparisonOp):
    """a >= b."""

    name = "fuel.ge"
