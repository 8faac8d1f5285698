# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recognition: the square of a relu that nothing else reads."""

from __future__ import annotations

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from acme_fuel.ops import SquaredReluOp
from fuel_dialect import dtypes
from fuel_dialect.ops.elementwise import ReluOp, SqrOp
from fuel_dialect.tensors import tensor_type


class RecognizeSquaredRelu(RewritePattern):
    """`sqr(relu(x))` is `squared_relu(x)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SqrOp, rewriter: PatternRewriter) -> None:
        relu = op.input.owner
        if not isinstance(relu, ReluOp) or not relu.result.has_one_use():
            return
        is_float = dtypes.of_type(tensor_type(op.result)).name in SquaredReluOp.DTYPES
        if is_float and op.placement == relu.placement:
            new = SquaredReluOp.make(relu.input, placement=op.placement)
            rewriter.replace(op, new)
            rewriter.erase(relu)


def patterns() -> list[RewritePattern]:
    return [RecognizeSquaredRelu()]
