# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Elementwise arithmetic: binary, unary, scalar, select, mask and cast.

Operands have one shape and one dtype; nothing broadcasts or promotes by itself.
`fuel_dialect.reference.elementwise` defines what an op computes.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, i1, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    BaseAttr,
    EqAttrConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative, Pure

from fuel_dialect import dtypes
from fuel_dialect.errors import DTypeError, GraphError
from fuel_dialect.numbers import AnyNumber, check_scalar, exact_scalar, int_value
from fuel_dialect.ops.base import (
    ANY_TENSOR,
    SAME_TENSOR,
    FuelOp,
    Properties,
    require_dtype,
    require_equal_dtypes,
    require_equal_shapes,
)
from fuel_dialect.tensors import AnyTensor
from fuel_dialect.traits import AmplifiesError, Elementwise, Exact

ANY_NUMBER = BaseAttr(FloatAttr) | BaseAttr(IntegerAttr)


class ElementwiseOp(FuelOp, abc.ABC):
    """All operands and the result have one shape; `DTYPES` are the element types it takes."""

    DTYPES: ClassVar[tuple[str, ...]] = dtypes.NUMERIC

    traits = traits_def(Pure(), Elementwise())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        require_equal_dtypes(cls, operands)
        require_equal_shapes(cls, operands)
        require_dtype(cls, operands[0], cls.DTYPES)
        return (operands[0],)


class BinaryOp(ElementwiseOp, abc.ABC):
    """Two operands of one type; the result has that type."""

    T: ClassVar = SAME_TENSOR

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


class UnaryOp(ElementwiseOp, abc.ABC):
    """One operand; the result has its type."""

    T: ClassVar = SAME_TENSOR

    input = operand_def(T)
    result = result_def(T)

    assembly_format = "$input attr-dict `:` type($result)"


class FloatUnaryOp(UnaryOp, abc.ABC):
    """A function of real numbers: float element types only."""

    DTYPES: ClassVar[tuple[str, ...]] = dtypes.FLOATS


class TranscendentalOp(FloatUnaryOp, abc.ABC):
    """A function that takes a polynomial or more to compute."""

    WEIGHT: ClassVar[int] = 8


@irdl_op_definition
class AddOp(BinaryOp):
    """a + b; integers wrap."""

    name = "fuel.add"
    traits = traits_def(Commutative())


@irdl_op_definition
class SubOp(BinaryOp):
    """a - b; integers wrap."""

    name = "fuel.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """a * b; integers wrap."""

    name = "fuel.mul"
    traits = traits_def(Commutative())


@irdl_op_definition
class DivOp(BinaryOp):
    """a / b; integers truncate toward zero, a zero divisor gives 0, MIN / -1 gives MIN."""

    name = "fuel.div"
    WEIGHT: ClassVar[int] = 2


@irdl_op_definition
class PowOp(BinaryOp):
    """a to the power b, by IEEE; a negative base with a fractional exponent is NaN."""

    name = "fuel.pow"
    WEIGHT: ClassVar[int] = 24
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.FLOATS
    traits = traits_def(AmplifiesError())


@irdl_op_definition
class RemOp(BinaryOp):
    """a - floor(a / b) * b: the sign of the divisor; an integer zero divisor gives 0."""

    name = "fuel.rem"
    WEIGHT: ClassVar[int] = 4


@irdl_op_definition
class MaximumOp(BinaryOp):
    """The larger; NaN if either is NaN."""

    name = "fuel.maximum"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    traits = traits_def(Commutative(), Exact())


@irdl_op_definition
class MinimumOp(BinaryOp):
    """The smaller; NaN if either is NaN."""

    name = "fuel.minimum"
    DTYPES: ClassVar[tuple[str, ...]] = dtypes.ORDERED
    traits = traits_def(Commutative(), Exact())


@irdl_op_definition
class NegOp(UnaryOp):
    """-x; integers wrap."""

    name = "fuel.neg"
    traits = traits_def(Exact())


@irdl_op_definition
class SqrOp(UnaryOp):
    """x * x; integers wrap."""

    name = "fuel.sqr"


@irdl_op_definition
class AbsOp(UnaryOp):
    """The magnitude; the least integer stays itself."""

    name = "fuel.abs"
    traits = traits_def(Exact())


@irdl_op_definition
class ReluOp(UnaryOp):
    """max(0, x); NaN stays NaN."""

    name = "fuel.relu"
    traits = traits_def(Exact())


@irdl_op_definition
class StepOp(UnaryOp):
    """1 where x > 0, else 0 (also for NaN)."""

    name = "fuel.step"
    traits = traits_def(Exact())


@irdl_op_definition
class SignOp(UnaryOp):
    """-1, 0 or 1; NaN stays NaN."""

    name = "fuel.sign"
    traits = traits_def(Exact())


@irdl_op_definition
class FloorOp(UnaryOp):
    """Round down; integers stay."""

    name = "fuel.floor"
    traits = traits_def(Exact())


@irdl_op_definition
class CeilOp(UnaryOp):
    """Round up; integers stay."""

    name = "fuel.ceil"
    traits = traits_def(Exact())


@irdl_op_definition
class RoundOp(UnaryOp):
    """Round to nearest, ties to even; integers stay."""

    name = "fuel.round"
    traits = traits_def(Exact())


@irdl_op_definition
class SqrtOp(FloatUnaryOp):
    """Square root; NaN for a negative."""

    name = "fuel.sqrt"
    WEIGHT: ClassVar[int] = 4


@irdl_op_definition
class RsqrtOp(FloatUnaryOp):
    """1 / sqrt(x)."""

    name = "fuel.rsqrt"
    WEIGHT: ClassVar[int] = 5


@irdl_op_definition
class RecipOp(FloatUnaryOp):
    """1 / x; a zero gives the infinity of its sign."""

    name = "fuel.recip"
    WEIGHT: ClassVar[int] = 2


@irdl_op_definition
class ExpOp(TranscendentalOp):
    """e to the power x."""

    name = "fuel.exp"


@irdl_op_definition
class LogOp(TranscendentalOp):
    """Natural logarithm: 0 gives -inf, a negative NaN."""

    name = "fuel.log"


@irdl_op_definition
class SinOp(TranscendentalOp):
    """Sine of radians."""

    name = "fuel.sin"


@irdl_op_definition
class CosOp(TranscendentalOp):
    """Cosine of radians."""

    name = "fuel.cos"


@irdl_op_definition
class TanhOp(TranscendentalOp):
    """Hyperbolic tangent."""

    name = "fuel.tanh"


@irdl_op_definition
class SigmoidOp(TranscendentalOp):
    """1 / (1 + exp(-x)), without overflow."""

    name = "fuel.sigmoid"


@irdl_op_definition
class SiluOp(TranscendentalOp):
    """x * sigmoid(x)."""

    name = "fuel.silu"
    WEIGHT: ClassVar[int] = 10
    ULPS: ClassVar[Mapping[str, int]] = {"f32": 8}


@irdl_op_definition
class ErfOp(TranscendentalOp):
    """The error function."""

    name = "fuel.erf"
    WEIGHT: ClassVar[int] = 12


@irdl_op_definition
class GeluOp(TranscendentalOp):
    """x / 2 * (1 + erf(x / sqrt 2)), the exact form."""

    name = "fuel.gelu"
    WEIGHT: ClassVar[int] = 14
    ULPS: ClassVar[Mapping[str, int]] = {"f32": 80, "f64": 8}  # digits of exp(-x^2) in the tail


@irdl_op_definition
class GeluTanhOp(TranscendentalOp):
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""

    name = "fuel.gelu_tanh"
    WEIGHT: ClassVar[int] = 16
    ULPS: ClassVar[Mapping[str, int]] = {"f32": 256, "f64": 2048}  # as gelu


class WithScalarsOp(UnaryOp, abc.ABC):
    """
    A tensor and numbers, which are the properties `SCALARS`.

    For floats a number is held as f64 and converted to the element type, then the arithmetic is
    done in the element type. For integers it is an i64 whose value the element type has.
    """

    SCALARS: ClassVar[tuple[str, ...]]

    @classmethod
    def create(cls, **given: Any) -> Self:
        return super().create(**given)._with_exact_scalars()

    @classmethod
    def build(cls, **given: Any) -> Self:
        return super().build(**given)._with_exact_scalars()

    def _with_exact_scalars(self) -> Self:
        """Hold `2.0 : f64`, which a text may say for an integer tensor, as the integer it is."""
        element = cast(AnyTensor, self.input.type).element_type if self.operands else None
        if element in dtypes.BY_TYPE:
            for name in self.properties.keys() & set(self.SCALARS):
                self.properties[name] = exact_scalar(self.properties[name], element)
        return self

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        types = super().infer(operands, properties, declared)
        for name in cls.SCALARS:
            check_scalar(cls.mnemonic(), name, properties[name], operands[0].element_type)
        return types


class ScalarOp(WithScalarsOp, abc.ABC):
    """A tensor and one number."""

    SCALARS: ClassVar[tuple[str, ...]] = ("scalar",)

    scalar = prop_def(ANY_NUMBER)

    @property
    def value(self) -> float:
        """The number: an int for integer tensors, else a float."""
        return cast(AnyNumber, self.scalar).value.data


@irdl_op_definition
class AddScalarOp(ScalarOp):
    """x + scalar."""

    name = "fuel.add_scalar"


@irdl_op_definition
class MulScalarOp(ScalarOp):
    """x * scalar."""

    name = "fuel.mul_scalar"


@irdl_op_definition
class PowiOp(UnaryOp):
    """
    x to an integer power, by repeated multiplication.

    Exponent 0 gives 1, also for 0 and NaN; a negative one gives 1 / x^|n|.
    """

    name = "fuel.powi"
    WEIGHT: ClassVar[int] = 4

    exponent = prop_def(IntegerAttr.constr(EqAttrConstraint(i32) | EqAttrConstraint(i64)))

    def error_factor(self) -> int:
        """Each factor brings an error of its own."""
        return max(1, abs(int_value(self.exponent)))


@irdl_op_definition
class ClampOp(WithScalarsOp):
    """x limited to [min, max], both inclusive; NaN stays NaN."""

    name = "fuel.clamp"
    traits = traits_def(Exact())

    SCALARS: ClassVar[tuple[str, ...]] = ("min", "max")

    min = prop_def(ANY_NUMBER)
    max = prop_def(ANY_NUMBER)

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest value: ints for integer tensors, else floats."""
        return cast(AnyNumber, self.min).value.data, cast(AnyNumber, self.max).value.data

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        types = super().infer(operands, properties, declared)
        low, high = (cast(AnyNumber, properties[name]).value.data for name in cls.SCALARS)
        if not low <= high:
            raise GraphError(f"clamp: min {low} must be <= max {high}")
        return types


@irdl_op_definition
class WhereOp(ElementwiseOp):
    """`on_true` where the mask is true, else `on_false`."""

    name = "fuel.where"
    traits = traits_def(Exact())

    T: ClassVar = SAME_TENSOR

    condition = operand_def(ANY_TENSOR)
    on_true = operand_def(T)
    on_false = operand_def(T)
    result = result_def(T)

    assembly_format = (
        "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        condition, on_true, on_false = operands
        if condition.element_type != i1:
            raise DTypeError(f"where: the condition must be i1, got {dtypes.of_type(condition)}")
        require_equal_dtypes(cls, (on_true, on_false))
        require_equal_shapes(cls, operands)
        require_dtype(cls, on_true, dtypes.ORDERED)
        return (on_true,)


@irdl_op_definition
class MaskedFillOp(ElementwiseOp):
    """`value` where the mask is true, else x. The value has x's element type."""

    name = "fuel.masked_fill"
    traits = traits_def(Exact())

    T: ClassVar = SAME_TENSOR

    input = operand_def(T)
    mask = operand_def(ANY_TENSOR)
    result = result_def(T)
    value = prop_def()

    assembly_format = "$input `,` $mask attr-dict `:` type($result) `,` type($mask)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        input, mask = operands
        require_equal_shapes(cls, operands)
        if mask.element_type != i1:
            raise DTypeError(f"masked_fill: the mask must be i1, got {dtypes.of_type(mask)}")
        require_dtype(cls, input, FILLABLE)
        value = properties["value"]
        if not isinstance(value, FloatAttr | IntegerAttr) or (
            cast("FloatAttr[Any] | IntegerAttr[Any]", value).type != input.element_type
        ):
            raise DTypeError(
                f"masked_fill: the value {value} must have the dtype {dtypes.of_type(input)} of x"
            )
        return (input,)


FILLABLE = (*dtypes.ORDERED, "f8E4M3FN", "f8E5M2")
"""Types that have a fill value and a zero: all but the packed and the block scale ones."""


@irdl_op_definition
class CastOp(FuelOp):
    """
    x in another element type, element by element.

    Float to float rounds to nearest even; float to integer truncates and saturates, NaN gives 0;
    to i1, non-zero (NaN too) is true.
    """

    name = "fuel.cast"

    input = operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)

    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    traits = traits_def(Pure(), Elementwise(), Exact())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (input,), (result,) = operands, declared
        require_equal_shapes(cls, (input, result))
        for type in (input, result):
            require_dtype(cls, type, CASTABLE)
        return declared

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        if self.input.type == self.result.type:
            return (self.input,)
        return super().fold()


CASTABLE = tuple(d.name for d in dtypes.TABLE if d.numpy_name is not None)
