# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reading by index. Indices are ui32; one outside its extent raises when it is read."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from fuel_dialect import dtypes
from fuel_dialect.errors import DTypeError, ShapeError
from fuel_dialect.movement import MovementOp, Pick, Piece, box
from fuel_dialect.numbers import int_value
from fuel_dialect.ops.base import ANY_TENSOR, FuelOp, Properties, TensorConstraint, require_dim
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type


class IndexingOp(FuelOp, MovementOp, abc.ABC):
    """A data operand and a ui32 index operand."""

    input = operand_def(ANY_TENSOR)
    indices = operand_def(TensorConstraint(("ui32",)))
    result = result_def(ANY_TENSOR)
    dim = prop_def(IntegerAttr)

    assembly_format = (
        "$input `,` $indices attr-dict `:` type($input) `,` type($indices) `->` type($result)"
    )

    traits = traits_def(Pure())

    def pieces(self) -> tuple[Piece, ...]:
        shape = tensor_type(self.result).get_shape()
        return (box(0, shape, at=Pick(1, int_value(self.dim), self.along())),)

    @abc.abstractmethod
    def along(self) -> tuple[int, ...]:
        """Returns the axis of the result that each axis of the indices lies along."""

    @classmethod
    def check_indices(cls, indices: AnyTensor) -> None:
        if dtypes.of_type(indices).name != "ui32":
            raise DTypeError(
                f"{cls.mnemonic()}: indices must be U32 (ui32), got {dtypes.of_type(indices)}"
            )


@irdl_op_definition
class IndexSelectOp(IndexingOp):
    """out[.., i, ..] = x[.., indices[i], ..] along `dim`; the indices have rank 1."""

    name = "fuel.index_select"

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        input, indices = operands
        cls.check_indices(indices)
        shape = input.get_shape()
        if len(indices.get_shape()) != 1:
            raise ShapeError(
                f"index_select: indices must be rank 1, got {list(indices.get_shape())}"
            )
        dim = int_value(properties["dim"])
        require_dim(cls, dim, input)
        picked = (*shape[:dim], indices.get_shape()[0], *shape[dim + 1 :])
        return (tensor(picked, input.element_type),)

    def along(self) -> tuple[int, ...]:
        return (int_value(self.dim),)


@irdl_op_definition
class GatherOp(IndexingOp):
    """out[p] = x[p with coordinate `dim` replaced by indices[p]]; the result has indices' shape."""

    name = "fuel.gather"

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        input, indices = operands
        cls.check_indices(indices)
        source, target = input.get_shape(), indices.get_shape()
        if len(source) != len(target):
            raise ShapeError(
                f"gather: data and indices must have the same rank, got {list(source)} and "
                f"{list(target)}"
            )
        dim = int_value(properties["dim"])
        require_dim(cls, dim, input)
        for axis, (have, want) in enumerate(zip(source, target, strict=True)):
            if axis != dim and want > have:
                raise ShapeError(
                    f"gather: indices {list(target)} reach beyond the data {list(source)} at "
                    f"dim {axis}"
                )
        return (tensor(target, input.element_type),)

    def along(self) -> tuple[int, ...]:
        return tuple(range(len(tensor_type(self.result).get_shape())))
