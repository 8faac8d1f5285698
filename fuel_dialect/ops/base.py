# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Defines the base class of all ops, the tensor constraints, and constant leaves.

Result types come from one place, `FuelOp.infer`: the builder calls it before it makes an op,
and the verifier compares its answer with the types in the IR.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IntegerAttr,
    TensorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    VerificationContext,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import ConstantLike, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from fuel_dialect import dtypes
from fuel_dialect.attributes import BytesAttr, DeviceAttr, as_text
from fuel_dialect.errors import (
    DTypeError,
    FuelError,
    GraphError,
    PluginError,
    ShapeError,
    UnsupportedDTypeForOp,
)
from fuel_dialect.movement import MovementOp, check_pieces
from fuel_dialect.numbers import splat_attribute
from fuel_dialect.plugins import is_outside
from fuel_dialect.tensors import AnyTensor, check_size, tensor, tensor_type
from fuel_dialect.traits import Leaf

if TYPE_CHECKING:
    import numpy as np

Properties: TypeAlias = Mapping[str, Attribute]

NO_PROPERTIES: Properties = {}


@dataclass(frozen=True)
class TensorConstraint(AttrConstraint[AnyTensor]):
    """A ranked tensor of static shape whose element type fuel knows."""

    allowed: tuple[str, ...] | None = None

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, TensorType):
            raise VerifyException(f"expected a tensor, got {attr}")
        type = cast(AnyTensor, attr)
        if DYNAMIC_INDEX in type.get_shape():
            raise VerifyException(
                f"{type} has a dynamic extent; fuel tensors are static: use a capacity and a count "
                "held in a tensor<ui32>"
            )
        try:
            check_size(type.get_shape())
            dtype = dtypes.of_type(type)
        except GraphError as error:
            raise VerifyException(str(error)) from None
        if self.allowed is not None and dtype.name not in self.allowed:
            raise VerifyException(
                f"unsupported dtype {dtype}; the op is defined for {', '.join(self.allowed)}"
            )

    def mapping_type_vars(self, type_var_mapping: Any) -> Self:
        return self


ANY_TENSOR = TensorConstraint()


@dataclass(frozen=True)
class SameTensor(VarConstraint[AnyTensor]):
    """
    The one tensor type that operands and results of an op share, for its text to say once.

    Whether they do share it is for `infer` to say, whose sentence names the shapes.
    """

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if constraint_context.get_variable(self.name) is None:
            constraint_context.set_attr_variable(self.name, attr)
        self.constraint.verify(attr, constraint_context)

    def mapping_type_vars(self, type_var_mapping: Any) -> Self:
        return self


SAME_TENSOR = SameTensor("T", ANY_TENSOR)


@cache
def _has_trait(op: type[Operation], trait: type[OpTrait] | OpTrait) -> bool:
    return op.get_trait(trait) is not None


class FuelOp(IRDLOperation, HasFolderInterface, abc.ABC):
    """
    Base of every op of the dialect.

    `placement`, where given, pins the op to a device.
    """

    WEIGHT: ClassVar[int] = 1
    """Arithmetic per element (of the operand, for a reduction), where an addition is 1."""

    ULPS: ClassVar[Mapping[str, int]] = {}
    """
    Bounds the error of the op by element type, in units in the last place; with some room.

    A target states a bound for all ops; here are the elementwise ones whose definition loses more.
    """

    irdl_options = (ParsePropInAttrDict(),)

    placement = opt_prop_def(DeviceAttr)

    @classmethod
    def mnemonic(cls) -> str:
        """The op's name: `add` for `fuel.add`; whole, if another package defines the op."""
        return cls.name.removeprefix("fuel.")

    @classmethod
    def has_trait(
        cls, trait: type[OpTrait] | OpTrait, *, value_if_unregistered: bool = True
    ) -> bool:
        """Says what xDSL's says, once for each class: passes ask it several times for every op."""
        return _has_trait(cls, trait)

    def variant(self) -> str:
        """
        Returns what of the op, besides its types, decides how long it takes; empty for nothing.

        It stands in the key of measured times. Of an op of another package it is all properties.
        """
        if self.name.startswith("fuel."):
            return ""
        return ", ".join(
            f"{name}={value}"
            for name, value in sorted(self.properties.items())
            if name != "placement"
        )

    def error_factor(self) -> int:
        """Returns how many times the error that a target states for the op it may be off."""
        return 1

    @classmethod
    @abc.abstractmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        """
        The result types, given operand types and properties.

        Ops whose result shape or dtype is a parameter (broadcast_to, cast, const) read it from
        `declared`. Raises a `GraphError` subclass that names the op, the shapes and the dtypes.
        """

    @classmethod
    def create(cls, *, properties: Properties = NO_PROPERTIES, **rest: Any) -> Self:
        """An op as it is given; text that xDSL read as bytes becomes text again."""
        given = {name: as_text(value) for name, value in properties.items()}
        return super().create(properties=given, **rest)

    @classmethod
    def make(
        cls,
        *operands: SSAValue,
        declared: Sequence[AnyTensor] = (),
        **properties: Attribute | None,
    ) -> Self:
        """An op whose result types are inferred. Raises what `infer` raises; makes nothing then."""
        given = {name: value for name, value in properties.items() if value is not None}
        types = _inferred(cls, [tensor_type(o) for o in operands], given, declared)
        return cls.create(operands=operands, result_types=types, properties=given)

    def verify_(self) -> None:
        declared = [tensor_type(r) for r in self.results]
        try:
            operands = [tensor_type(o) for o in self.operands]
            inferred = _inferred(type(self), operands, self.properties, declared)
            if list(inferred) != declared:
                raise VerifyException(
                    f"{self.mnemonic()}: gives {_types(inferred)}, not {_types(declared)}"
                )
            if isinstance(self, MovementOp):
                _check_pieces(self)
        except GraphError as error:
            raise VerifyException(str(error)) from None

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """Constant folding by `reference`, for pure ops with one result."""
        if not self.operands or self.placement is not None:
            return None
        for operand in self.operands:
            if not isinstance(operand.owner, ConstOp):
                return None
        from fuel_dialect.reference.folding import Constant, fold_constant

        makers = [cast(ConstOp, operand.owner) for operand in self.operands]
        return fold_constant(self, [Constant(maker.value, maker.type) for maker in makers])


def _inferred(
    op: type[FuelOp],
    operands: Sequence[AnyTensor],
    properties: Properties,
    declared: Sequence[AnyTensor],
) -> Sequence[AnyTensor]:
    """Returns the result types of an op. Raises `PluginError` where a rule of a package fails."""
    try:
        types = op.infer(operands, properties, declared)
    except Exception as error:
        _blame(op, "infer", error)
        raise
    if is_outside(op) and any(extent < 0 for type in types for extent in type.get_shape()):
        raise ShapeError(f"{op.name}: gives {_types(types)}, which has a negative extent")
    return types


def _check_pieces(op: MovementOp) -> None:
    try:
        check_pieces(op)
    except Exception as error:
        _blame(cast(type[FuelOp], type(op)), "pieces", error)
        raise


def _blame(op: type[FuelOp], method: str, error: Exception) -> None:
    """Raises `PluginError` for an error, none of fuel's, in a method of another package's op."""
    if is_outside(op) and not isinstance(error, FuelError | VerifyException):
        raise PluginError(
            f"{op.name}: its method {method} raised {type(error).__name__}: {error}"
        ) from error


def _types(types: Sequence[Attribute]) -> str:
    return ", ".join(str(t) for t in types) or "nothing"


def require_dtype(op: type[FuelOp], type: AnyTensor, allowed: Sequence[str]) -> None:
    """Raise `UnsupportedDTypeForOp` unless the element type is among `allowed`."""
    dtype = dtypes.of_type(type)
    if dtype.name not in allowed:
        raise UnsupportedDTypeForOp(op.mnemonic(), dtype.name, allowed)


def require_equal_dtypes(op: type[FuelOp], types: Sequence[AnyTensor]) -> None:
    """Raise `DTypeError` ("dtype mismatch") unless all element types are equal."""
    if any(t.element_type != types[0].element_type for t in types):
        names = ", ".join(str(dtypes.of_type(t)) for t in types)
        raise DTypeError(f"{op.mnemonic()}: dtype mismatch: {names}; insert a cast")


def require_equal_shapes(op: type[FuelOp], types: Sequence[AnyTensor]) -> None:
    """Raise `ShapeError` ("shape mismatch") unless all shapes are equal."""
    if any(t.get_shape() != types[0].get_shape() for t in types):
        shapes = ", ".join(str(list(t.get_shape())) for t in types)
        raise ShapeError(f"{op.mnemonic()}: shape mismatch: {shapes}; insert a broadcast_to")


def require_dim(op: type[FuelOp], dim: int, type: AnyTensor, bound: int | None = None) -> None:
    """Raise `ShapeError` ("out of bounds") unless 0 <= dim < rank (or `bound`)."""
    rank = len(type.get_shape()) if bound is None else bound
    if not 0 <= dim < rank:
        raise ShapeError(
            f"{op.mnemonic()}: dim {dim} is out of bounds for shape {list(type.get_shape())}"
        )


class LeafOp(FuelOp, abc.ABC):
    """An op without operands whose result type is declared."""

    result = result_def(ANY_TENSOR)

    traits = traits_def(Pure(), Leaf())


@irdl_op_definition
class ConstOp(LeafOp):
    """
    A constant: a splat (one value for all elements), or the bytes of every element.

    `fuel.const 1.000000e+00 : f32 -> tensor<4xf32>`,
    `fuel.const #fuel.bytes<"0x0000803F00000040"> -> tensor<2xf32>`.
    """

    name = "fuel.const"

    value = prop_def()

    assembly_format = "$value attr-dict `->` type($result)"

    traits = traits_def(ConstantLike())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        (type,) = declared
        value = properties["value"]
        dtype = dtypes.of_type(type)
        if isinstance(value, BytesAttr):
            if not dtype.itemsize:
                raise DTypeError(f"const: {dtype} is packed; hold its bytes in a tensor of ui8")
            needed = prod(type.get_shape()) * dtype.itemsize
            if len(value.data) != needed:
                raise ShapeError(
                    f"const: {len(value.data)} bytes do not make {type}, which takes {needed}"
                )
            if dtype.name == "i1" and max(value.data, default=0) > 1:
                raise DTypeError(f"const: the bytes of {type} must be 0 or 1")
            return declared
        if not isinstance(value, FloatAttr | IntegerAttr):
            raise DTypeError(f"const: expected a number or #fuel.bytes, got {value}")
        element = cast(Attribute, value.type)
        if element != type.element_type:
            raise DTypeError(
                f"const: dtype mismatch: the value is {element}, the result {type.element_type}"
            )
        return declared

    @property
    def type(self) -> AnyTensor:
        return tensor_type(self.result)

    @property
    def splat(self) -> float | int | None:
        """The value of all elements, or None when the bytes are given."""
        if isinstance(self.value, BytesAttr):
            return None
        return cast("FloatAttr[Any] | IntegerAttr[Any]", self.value).value.data

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.value,)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The elements, read-only; a splat is one element broadcast by stride 0."""
        from fuel_dialect.reference.constants import elements

        return elements(self.value, self.type)

    @staticmethod
    def splat_of(value: float, type: AnyTensor) -> ConstOp:
        """A constant with `value` in every element."""
        return ConstOp.make(declared=[type], value=splat_attribute(value, type.element_type))

    @staticmethod
    def from_numpy(array: np.ndarray[Any, Any]) -> ConstOp:
        """A constant equal to an array, bit for bit."""
        from fuel_dialect.reference.constants import attribute

        type = tensor(array.shape, dtypes.of(array.dtype).type)
        return ConstOp.make(declared=[type], value=attribute(array))
