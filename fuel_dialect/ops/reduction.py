# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reductions: over all elements, over one dim (removed), or down to a broadcastable shape.

An empty sum is 0 and an empty mean NaN; an empty max, min or argmax is refused when the op is
built (DESIGN 3). bf16 and f16 accumulate in f32.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from fuel_dialect import dtypes
from fuel_dialect.errors import ShapeError
from fuel_dialect.layout import check_broadcast
from fuel_dialect.numbers import int_value
from fuel_dialect.ops.base import (
    ANY_TENSOR,
    FuelOp,
    Properties,
    require_dim,
    require_dtype,
    require_equal_dtypes,
)
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_dialect.traits import AlongAxesOp, Exact, Reduction


class ReductionOp(FuelOp, AlongAxesOp, abc.ABC):
    """
    One operand, one smaller result.

    `NEEDS_ELEMENTS` marks the reductions that have no value over nothing.
    """

    DTYPES: ClassVar[tuple[str, ...]] = dtypes.NUMERIC
    NEEDS_ELEMENTS: ClassVar[bool] = False

    input = operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)

    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    traits = traits_def(Pure(), Reduction())

    @classmethod
    def check(cls, input: AnyTensor, reduced: int, kept: int) -> None:
        """Raise unless the dtype fits, and a needed element exists for every result element."""
        require_dtype(cls, input, cls.DTYPES)
        if cls.NEEDS_ELEMENTS and kept and not reduced:
            raise ShapeError(
                f"{cls.mnemonic()}: an empty reduction of {list(input.get_shape())} has no value"
            )


class AllReductionOp(ReductionOp, abc.ABC):
    """Over every element; the result has rank 0."""

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (input,) = operands
        cls.check(input, prod(input.get_shape()), 1)
        return (tensor((), input.element_type),)

    def axes(self) -> tuple[int, ...]:
        return tuple(range(len(tensor_type(self.input).get_shape())))


class DimReductionOp(ReductionOp, abc.ABC):
    """Over one dim, which is removed."""

    dim = prop_def(IntegerAttr)

    RESULT: ClassVar[str | None] = None

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (input,) = operands
        dim, shape = int_value(properties["dim"]), input.get_shape()
        require_dim(cls, dim, input)
        kept = (*shape[:dim], *shape[dim + 1 :])
        cls.check(input, shape[dim], prod(kept))
        return (tensor(kept, cls.RESULT or input.element_type),)

    def axes(self) -> tuple[int, ...]:
        return (int_value(self.dim),)


class TargetReductionOp(ReductionOp, abc.ABC):
    """
    Down to a shape that broadcasts to the operand's: the dual of broadcast_to.

    Dims that are 1 in the result are kept as 1, leading dims it lacks are removed.
    """

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (input,), (result,) = operands, declared
        require_equal_dtypes(cls, (input, result))
        source, target = input.get_shape(), result.get_shape()
        check_broadcast(cls.mnemonic(), target, source)
        padded = (1,) * (len(source) - len(target)) + tuple(target)
        reduced = prod(s for s, t in zip(source, padded, strict=True) if t == 1)
        cls.check(input, reduced, prod(target))
        return declared

    def axes(self) -> tuple[int, ...]:
        """The dims that the result lacks, or has as 1."""
        rank, kept = len(tensor_type(self.input).get_shape()), tensor_type(self.result).get_shape()
        new = rank - len(kept)
        return tuple(dim for dim in range(rank) if dim < new or kept[dim - new] == 1)


@irdl_op_definition
class SumAllOp(AllReductionOp):
    """The sum of all elements."""

    name = "fuel.sum_all"


@irdl_op_definition
class MaxAllOp(AllReductionOp):
    """The largest element; NaN if any is NaN."""

    name = "fuel.max_all"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    NEEDS_ELEMENTS: ClassVar[bool] = True
    traits = traits_def(Exact())


@irdl_op_definition
class MinAllOp(AllReductionOp):
    """The smallest element; NaN if any is NaN."""

    name = "fuel.min_all"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    NEEDS_ELEMENTS: ClassVar[bool] = True
    traits = traits_def(Exact())


@irdl_op_definition
class MeanAllOp(AllReductionOp):
    """The mean of all elements."""

    name = "fuel.mean_all"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.FLOATS


@irdl_op_definition
class SumDimOp(DimReductionOp):
    """The sum along `dim`."""

    name = "fuel.sum_dim"


@irdl_op_definition
class MaxDimOp(DimReductionOp):
    """The largest along `dim`; NaN if any is NaN."""

    name = "fuel.max_dim"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    NEEDS_ELEMENTS: ClassVar[bool] = True
    traits = traits_def(Exact())


@irdl_op_definition
class MinDimOp(DimReductionOp):
    """The smallest along `dim`; NaN if any is NaN."""

    name = "fuel.min_dim"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    NEEDS_ELEMENTS: ClassVar[bool] = True
    traits = traits_def(Exact())


@irdl_op_definition
class MeanDimOp(DimReductionOp):
    """The mean along `dim`."""

    name = "fuel.mean_dim"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.FLOATS


@irdl_op_definition
class ArgmaxDimOp(DimReductionOp):
    """The index of the largest along `dim`, as ui32: the first of ties, or the first NaN."""

    name = "fuel.argmax_dim"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    NEEDS_ELEMENTS: ClassVar[bool] = True
    RESULT: ClassVar[str | None] = "ui32"
    traits = traits_def(Exact())


@irdl_op_definition
class ArgminDimOp(DimReductionOp):
    """The index of the smallest along `dim`, as ui32: the first of ties, or the first NaN."""

    name = "fuel.argmin_dim"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    NEEDS_ELEMENTS: ClassVar[bool] = True
    RESULT: ClassVar[str | None] = "ui32"
    traits = traits_def(Exact())


@irdl_op_definition
class ReduceSumToOp(TargetReductionOp):
    """Sums down to the result shape."""

    name = "fuel.reduce_sum_to"


@irdl_op_definition
class ReduceMaxToOp(TargetReductionOp):
    """Maxima down to the result shape; NaN if any is NaN."""

    name = "fuel.reduce_max_to"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    NEEDS_ELEMENTS: ClassVar[bool] = True
    traits = traits_def(Exact())


OVER_ALL: Mapping[type[FuelOp], type[AllReductionOp]] = {
    SumDimOp: SumAllOp,
    MaxDimOp: MaxAllOp,
    MinDimOp: MinAllOp,
    MeanDimOp: MeanAllOp,
}
"""The op over all elements for one over a dim."""
