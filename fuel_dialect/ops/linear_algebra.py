# SPDX-License-Identifier: MIT OR Apache-2.0
"""Matrix multiplication, over batches and over the grouped heads of attention."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from fuel_dialect import dtypes
from fuel_dialect.errors import DTypeError, ShapeError
from fuel_dialect.ops.base import ANY_TENSOR, FuelOp, Properties, require_dtype
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_dialect.traits import Contraction


@irdl_op_definition
class MatmulOp(FuelOp):
    """
    A @ B over the last two dims; leading dims are batch.

    Dtypes are equal, or A is f32 and B bf16 (the result is f32). Ranks are equal. Each batch
    dim of A equals B's or is a larger multiple of it: entry h of A then meets entry
    h // (A / B) of B, as in grouped-query attention. bf16 and f16 accumulate in f32.
    `allow_tf32` lets a target round the factors of an f32 product to 10 bits of mantissa, for
    tensor cores; without it all bits count.
    """

    name = "fuel.matmul"

    lhs = operand_def(ANY_TENSOR)
    rhs = operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)
    allow_tf32 = opt_prop_def(UnitAttr)

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"

    traits = traits_def(Pure(), Contraction())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        lhs, rhs = operands
        _check_dtypes(lhs, rhs)
        if properties.get("allow_tf32") is not None and dtypes.of_type(lhs).name != "f32":
            raise DTypeError(f"matmul: allow_tf32 is for products of f32, not of {lhs}")
        a, b = lhs.get_shape(), rhs.get_shape()
        if len(a) < 2 or len(b) < 2:
            raise ShapeError(f"matmul: needs rank >= 2, got {list(a)} and {list(b)}")
        if len(a) != len(b):
            raise ShapeError(
                f"matmul: ranks of {list(a)} and {list(b)} differ; reshape or broadcast_to one"
            )
        for axis, (m, n) in enumerate(zip(a[:-2], b[:-2], strict=True)):
            if m != n and not (0 < n < m and m % n == 0):
                raise ShapeError(
                    f"matmul: batch dim mismatch at dim {axis}: {list(a)} and {list(b)}; they "
                    "must be equal, or the first a multiple of the second"
                )
        if a[-1] != b[-2]:
            raise ShapeError(
                f"matmul: inner dim mismatch: {a[-1]} of {list(a)} and {b[-2]} of {list(b)}"
            )
        return (tensor((*a[:-1], b[-1]), lhs.element_type),)

    def variant(self) -> str:
        return "" if self.allow_tf32 is None else "tf32"

    def groups(self) -> tuple[int, ...]:
        """Returns, for each batch dim, how many entries of A meet one entry of B."""
        a, b = (tensor_type(v).get_shape()[:-2] for v in (self.lhs, self.rhs))
        return tuple(1 if m == n else m // n for m, n in zip(a, b, strict=True))


def _check_dtypes(lhs: AnyTensor, rhs: AnyTensor) -> None:
    a, b = dtypes.of_type(lhs).name, dtypes.of_type(rhs).name
    if a != b and (a, b) != ("f32", "bf16"):
        raise DTypeError(
            f"matmul: dtype mismatch: {a} and {b}; they must be equal, or f32 and bf16"
        )
    for type in (lhs, rhs):
        require_dtype(MatmulOp, type, dtypes.NUMERIC)
