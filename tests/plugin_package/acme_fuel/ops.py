# SPDX-License-Identifier: MIT OR Apache-2.0
"""The dialect `acme`: two ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import irdl_op_definition

from fuel_dialect.dialect import FuelConstants
from fuel_dialect.ops.elementwise import FloatUnaryOp, ReluOp, SqrOp
from fuel_dialect.traits import DecomposableOp


@irdl_op_definition
class SquaredReluOp(FloatUnaryOp, DecomposableOp):
    """max(0, x) squared; NaN stays NaN."""

    name = "acme.squared_relu"

    WEIGHT: ClassVar[int] = 2

    def decompose(self, builder: Builder) -> Sequence[SSAValue]:
        relu = builder.insert(ReluOp.make(self.input))
        return builder.insert(SqrOp.make(relu.result)).results


@irdl_op_definition
class SoftsignOp(FloatUnaryOp):
    """x / (1 + |x|)."""

    name = "acme.softsign"

    WEIGHT: ClassVar[int] = 4


Acme = Dialect("acme", [SquaredReluOp, SoftsignOp], [], [FuelConstants()])
