# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The strict builders: one method for each op kind, under its name.

Nothing broadcasts, promotes or counts dims from the end here; what does not fit is refused with a
`DTypeError` or a `ShapeError`. Methods composed of several ops stand at the end.
`fuel_dialect.builder.tensor` adds operators and NumPy-named methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, SupportsIndex, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, UnitAttr, f64
from xdsl.ir import Attribute, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.builder.arguments import as_int, as_shape, unpack
from fuel_dialect.builder.constants import make_constant
from fuel_dialect.builder.op_methods import OpMethods
from fuel_dialect.builder.promotion import Number, is_number, weak
from fuel_dialect.builder.trace import Trace
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import DTypeError, GraphError, InvalidScan, ShapeError
from fuel_dialect.layout import broadcast_shapes
from fuel_dialect.numbers import int_array, integer, scalar_attribute, splat_attribute
from fuel_dialect.ops import (
    elementwise,
    linear_algebra,
    memory,
    reduction,
    shape,
)
from fuel_dialect.ops.base import ConstOp, FuelOp
from fuel_dialect.tensors import AnyTensor, tensor

Dims = Sequence[SupportsIndex]


class Handle(OpMethods):
    """A value of a graph: shape, dtype, and the strict builders. Hashed by identity."""

    __slots__ = ("trace", "value")

    def __init__(self, trace: Trace, value: SSAValue):
        self.trace = trace
        self.value = value

    @property
    def graph(self) -> Any:
        """The `Graph` that the value belongs to."""
        return self.trace.graph

    @property
    def type(self) -> AnyTensor:
        """The tensor type in the IR."""
        return self.value.type  # pyright: ignore[reportReturnType]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.get_shape()

    @property
    def dtype(self) -> DType:
        return dtypes.of_type(self.type)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def emit(
        self,
        op: type[FuelOp],
        *others: Handle,
        declared: Sequence[AnyTensor] = (),
        **properties: Attribute | None,
    ) -> Self:
        """One op on this value and others of the same graph."""
        name = op.mnemonic()
        for other in others:
            self.require_same_graph(name, other)
        operands = (self.value, *(other.value for other in others))
        value = self.trace.emit(op, operands, declared, **properties)
        return type(self)(self.trace, value)

    def require_same_graph(self, op: str, other: Handle, role: str = "the other") -> None:
        """Raise `GraphError` for a value of another graph, `DTypeError` for no value at all."""
        if not isinstance(other, Handle):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DTypeError(
                f"{op}: {role} must be a fuel tensor, got {type(other).__name__}; use an operator, "
                "or make a tensor with graph.constant"
            )
        if other.trace is not self.trace:
            raise GraphError(
                f"{op}: operands must live on the same graph; the first is on #{self.trace.id}, "
                f"{role} on #{other.trace.id}: build that on #{self.trace.id} too"
            )

    def _splat(self, number: Number, dtype: DType | None = None) -> Self:
        """A constant of this shape."""
        type_ = tensor(self.shape, (dtype or self.dtype).type)
        value = splat_attribute(number, type_.element_type)
        made = self.trace.emit(ConstOp, (), (type_,), value=value)
        return type(self)(self.trace, made)

    def _scalar(self, op: str, what: str, number: object) -> Attribute:
        return scalar_attribute(op, what, number, self.type.element_type)

    def add_scalar(self, scalar: float) -> Self:
        """
        self + scalar.

        For floats the scalar is held as f64 and converted to the dtype; for integers it is one of
        the dtype's. Raises `DTypeError`.
        """
        number = self._scalar("add_scalar", "the scalar", scalar)
        return self.emit(elementwise.AddScalarOp, scalar=number)

    def mul_scalar(self, scalar: float) -> Self:
        """self * scalar, which is what `add_scalar` says. Raises `DTypeError`."""
        number = self._scalar("mul_scalar", "the scalar", scalar)
        return self.emit(elementwise.MulScalarOp, scalar=number)

    def powi(self, exponent: SupportsIndex) -> Self:
        """self to an integer power, by repeated multiplication; 0 gives 1."""
        return self.emit(
            elementwise.PowiOp, exponent=integer(as_int("powi", "the exponent", exponent))
        )

    def clamp(self, min: float, max: float) -> Self:
        """
        self limited to [min, max], which are what `add_scalar` says.

        Raises `DTypeError`, and `GraphError` unless min <= max.
        """
        low, high = (self._scalar("clamp", *bound) for bound in (("min", min), ("max", max)))
        return self.emit(elementwise.ClampOp, min=low, max=high)

    def where(self, on_true: Handle, on_false: Handle) -> Self:
        """`on_true` where this mask is true, else `on_false`. One shape; both of one dtype."""
        self.require_same_graph("where", on_true, "on_true")
        self.require_same_graph("where", on_false, "on_false")
        return self.emit(elementwise.WhereOp, on_true, on_false)

    def masked_fill(self, mask: Handle, value: Number | np.generic) -> Self:
        """
        `value` where the mask is true, else self. One shape.

        A Python number takes self's dtype; a NumPy scalar must have it. Raises
        `UnsupportedDTypeForOp` for packed and block-scale dtypes.
        """
        self.require_same_graph("masked_fill", mask, "the mask")
        return self.emit(elementwise.MaskedFillOp, mask, value=_fill(self.dtype, value))

    def cast(self, dtype: object) -> Self:
        """Self in another dtype; always an op, also for the same dtype."""
        return self.emit(elementwise.CastOp, declared=(tensor(self.shape, dtypes.of(dtype).type),))

    def transpose(self, *axes: Any) -> Self:
        """The last two dims swapped; with axes, `permute` by them. Rank >= 2."""
        if axes:
            return self.permute(*axes)
        return self.emit(shape.TransposeOp)

    def permute(self, *axes: Any) -> Self:
        """Dim i of the result is dim `axes[i]`. Raises `ShapeError` for no permutation."""
        order = [as_int("permute", "an axis", a) for a in unpack(axes)]
        return self.emit(shape.PermuteOp, axes=int_array(order))

    def broadcast_to(self, *dims: Any) -> Self:
        """Repeated to a shape by the NumPy rule; always an op, also for the same shape."""
        target = as_shape("broadcast_to", unpack(dims))
        return self.emit(shape.BroadcastToOp, declared=(self._shaped(target),))

    def _shaped(self, dims: Sequence[int]) -> AnyTensor:
        return tensor(dims, self.type.element_type)

    def slice(self, dim: SupportsIndex, start: SupportsIndex, length: SupportsIndex) -> Self:
        """Elements `start` to `start + length` of a dim. Raises "exceeds dim size"."""
        return self.emit(
            shape.SliceOp,
            dim=integer(as_int("slice", "dim", dim)),
            start=integer(as_int("slice", "start", start)),
            length=integer(as_int("slice", "length", length)),
        )

    def unsqueeze(self, dim: SupportsIndex) -> Self:
        """A size-1 dim inserted, 0 <= dim <= rank."""
        return self.emit(shape.UnsqueezeOp, dim=integer(as_int("unsqueeze", "dim", dim)))

    def concat(self, others: Handle | Sequence[Handle], dim: SupportsIndex) -> Self:
        """Self, then the others, joined along a dim. One dtype; all other dims equal."""
        more = [others] if isinstance(others, Handle) else list(others)
        return self.emit(shape.ConcatOp, *more, dim=integer(as_int("concat", "dim", dim)))

    def _over(self, op: type[reduction.DimReductionOp], dim: SupportsIndex) -> Self:
        return self.emit(op, dim=integer(as_int(op.mnemonic(), "dim", dim)))

    def matmul(self, other: Handle, allow_tf32: bool = False) -> Self:
        """
        Returns self @ other: [..., m, k] and [..., k, n] give [..., m, n].

        Batch dims are equal, or self's are multiples of other's (grouped heads); a rank-2
        operand is broadcast to the other's batch. Dtypes are equal, or f32 and bf16. For NumPy's
        batch and rank-1 rules use the operator `@`. `allow_tf32` lets tensor cores compute a
        product of f32 from 10 bits of the mantissa of each factor.
        """
        self.require_same_graph("matmul", other)
        left, right = self.ndim, other.ndim
        with self.trace.editing():
            a: Handle = self
            if left == 2 < right:
                a = self.broadcast_to((*other.shape[:-2], *self.shape))
            elif right == 2 < left:
                other = other.broadcast_to((*self.shape[:-2], *other.shape))
            rounding = UnitAttr() if allow_tf32 else None
            product = a.emit(linear_algebra.MatmulOp, other, allow_tf32=rounding)
            return type(self)(self.trace, product.value)

    def copy(self, device: str | DeviceAttr) -> Self:
        """The value, resident on a device as well. Raises `UnknownDevice` and `InvalidScan`."""
        return self._transfer(memory.CopyOp, device)

    def move(self, device: str | DeviceAttr) -> Self:
        """The value, given over to a device. Raises `UnknownDevice` and `InvalidScan`."""
        return self._transfer(memory.MoveOp, device)

    def _transfer(self, op: type[memory.TransferOp], device: str | DeviceAttr) -> Self:
        name = op.mnemonic()
        if self.trace.scope.in_scan:
            raise InvalidScan(
                f"{name}: a {name} is not allowed in the body of a scan, which runs on one device; "
                f"{name} what the scan reads or gives"
            )
        return self.emit(op, to=DeviceAttr.of(device))

    def _broadcast_pair(self, op: str, other: Handle) -> tuple[Self, Handle]:
        self.require_same_graph(op, other)
        if self.dtype != other.dtype:
            raise DTypeError(f"{op}: dtype mismatch: {self.dtype}, {other.dtype}; insert a cast")
        common = broadcast_shapes(op, self.shape, other.shape)
        return self.broadcast_if_needed(common), other.broadcast_if_needed(common)

    def broadcast_if_needed(self, dims: Sequence[int]) -> Self:
        """`broadcast_to`, or self where the shape is that already."""
        return self if self.shape == tuple(dims) else self.broadcast_to(dims)

    def fmax_ieee(self, other: Handle) -> Self:
        """The larger, or the one that is not NaN; of two zeros self. Never made of `maximum`."""
        with self.trace.editing():
            return self._other_if_nan(self.ge(other), other)

    def fmin_ieee(self, other: Handle) -> Self:
        """The smaller, or the one that is not NaN; of two zeros self."""
        with self.trace.editing():
            return self._other_if_nan(self.le(other), other)

    def _other_if_nan(self, keep: Self, other: Handle) -> Self:
        picked = keep.where(self, other)
        picked = type(self)(self.trace, other.ne(other).value).where(self, picked)
        return self.ne(self).where(other, picked)

    def trunc(self) -> Self:
        """Rounded toward zero, signed zeros kept; integers are returned as they are."""
        if not self.dtype.is_float:
            return self
        with self.trace.editing():
            up = self.ge(self._splat(0.0))
            return up.where(self.floor(), self.ceil())

    def rem_trunc(self, other: Handle) -> Self:
        """self - trunc(self / other) * other: the sign of the dividend."""
        with self.trace.editing():
            return self.sub(self.div(other).trunc().mul(other))

    def rms_norm_last_dim_decomposed(self, eps: float) -> Self:
        """`rms_norm_last_dim` as seven ops in this dtype."""
        if not self.ndim:
            raise ShapeError("rms_norm_last_dim: needs rank >= 1, got a rank-0 tensor")
        with self.trace.editing():
            mean = self.sqr().mean_dim(self.ndim - 1)
            column = mean._reshape((*self.shape[:-1], 1)).add_scalar(eps).sqrt()
            return self.div(column.broadcast_to(self.shape))

    def _reshape(self, dims: Sequence[int]) -> Self:
        return self.emit(shape.ReshapeOp, declared=(self._shaped(dims),))

    def rope(self, base: float = 10000.0, start_pos: int = 0) -> Self:
        """
        Rotary position embedding, half-split, of [..., seq, d] floats with d even.

        Row p is turned by the angles (start_pos + p) * base^(-2i/d); the tables are computed in
        f64 and held as f32.
        """
        seq, d = self._rope_dims()
        cos, sin = rope_tables(seq, d, base, start_pos)
        with self.trace.editing():
            cosine, sine = (self._table(t) for t in (cos, sin))
            return self.rope_with_tables(cosine, sine)

    def _table(self, array: np.ndarray[Any, Any]) -> Self:
        return type(self)(self.trace, make_constant(self.trace, array, self.dtype))

    def _rope_dims(self) -> tuple[int, int]:
        if self.ndim < 2:
            raise ShapeError(f"rope: needs rank >= 2, got {list(self.shape)}")
        if self.shape[-1] % 2:
            raise ShapeError(f"rope: the last dim of {list(self.shape)} must be even")
        if not self.dtype.is_float:
            raise DTypeError(f"rope: needs a float dtype, got {self.dtype}")
        return self.shape[-2], self.shape[-1]

    def rope_with_tables(self, cos: Handle, sin: Handle) -> Self:
        """`rope` with tables [seq, d] of this dtype: self * cos + rotated(self) * sin."""
        for role, table in (("cos", cos), ("sin", sin)):
            self.require_same_graph("rope", table, role)
        dims = self._rope_dims()
        for role, table in (("cos", cos), ("sin", sin)):
            if table.shape != dims:
                raise ShapeError(
                    f"rope: {role} has shape {list(table.shape)}, expected {list(dims)} for "
                    f"{list(self.shape)}"
                )
        with self.trace.editing():
            return self._rotate(cos, sin)

    def _rotate(self, cos: Handle, sin: Handle) -> Self:
        last, half = self.ndim - 1, self.shape[-1] // 2
        padded = (1,) * (self.ndim - 2) + self.shape[-2:]
        tables = [table._reshape(padded) for table in (cos, sin)]
        cos, sin = (table.broadcast_to(self.shape) for table in tables)
        first = self.slice(last, 0, half)
        second = self.slice(last, half, half).neg()
        rotated = second.concat(first, last)
        return self.mul(cos).add(rotated.mul(sin))


def _fill(dtype: DType, value: Number | np.generic) -> Attribute:
    """The attribute of a fill value; a wrong one too, which the op then refuses."""
    if not is_number(value):
        number = np.asarray(value)
        return splat_attribute(number.item(), dtypes.of(number.dtype).type)
    if dtype.kind == "storage":
        return _fill_storage(dtype, value)
    return splat_attribute(weak("masked_fill", value, dtype), dtype.type)


def _fill_storage(dtype: DType, value: Number) -> FloatAttr[Any]:
    fillable = dtype.name in elementwise.FILLABLE
    return FloatAttr(float(value), cast(AnyFloat, dtype.type) if fillable else f64)


def rope_tables(
    length: int,
    head_dim: int,
    base: float = 10000.0,
    start_pos: int = 0,
    inv_freq: Sequence[float] | None = None,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """
    The cos and sin tables of `rope`: f32 [length, head_dim], each value at i and i + head_dim / 2.

    `inv_freq` (head_dim / 2 numbers) takes the place of base^(-2i / head_dim).
    """
    half = head_dim // 2
    if head_dim % 2:
        raise ShapeError(f"rope: the head dim must be even, got {head_dim}")
    if inv_freq is not None and len(inv_freq) != half:
        raise ShapeError(
            f"rope: needs {half} frequencies for head dim {head_dim}, got {len(inv_freq)}"
        )
    steps = np.arange(half, dtype=np.float64)
    frequencies = base ** (-2 * steps / max(head_dim, 1)) if inv_freq is None else inv_freq
    positions = np.arange(start_pos, start_pos + length, dtype=np.float64)
    angles = np.outer(positions, np.asarray(frequencies, np.float64))
    doubled = np.concatenate([angles, angles], axis=1)
    return np.cos(doubled).astype(np.float32), np.sin(doubled).astype(np.float32)
