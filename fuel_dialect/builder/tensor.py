# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Tensors of a graph: operators and NumPy-named methods.

They broadcast and promote as the array API says, by inserting `broadcast_to` and `cast`, and count
axes from either end. Methods named after op kinds are strict: see `fuel_dialect.builder.handle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, prod
from types import EllipsisType
from typing import Any, NoReturn, SupportsIndex, TypeAlias, cast

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.builder.arguments import Axes, as_int, as_shape, normal_axis, unpack
from fuel_dialect.builder.constants import make_constant
from fuel_dialect.builder.handle import Handle
from fuel_dialect.builder.numpy_methods import NumpyMethods
from fuel_dialect.builder.promotion import (
    Number,
    Operand,
    is_array,
    is_number,
    promote,
    weak,
)
from fuel_dialect.builder.state import update_state
from fuel_dialect.builder.trace import Trace
from fuel_dialect.errors import (
    DTypeError,
    GraphError,
    IndexOutOfRange,
    ShapeError,
    UnsupportedDTypeForOp,
)
from fuel_dialect.layout import broadcast_shapes
from fuel_dialect.numbers import integer
from fuel_dialect.ops import elementwise, reduction, shape
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.tensors import describe

Index: TypeAlias = "SupportsIndex | slice | EllipsisType | None"

POWI_LIMIT = 64
"""Largest exponent that float tensors are raised to by repeated multiplication."""


class Tensor(Handle, NumpyMethods):
    """
    A value of a graph under construction: it has a shape and a dtype, and no elements yet.

    `shape`, `dtype`, `ndim`, `size` and `graph` describe it. All errors are `FuelError`s, raised
    where the mistake is made, and leave the graph as it was.
    """

    __slots__ = ()

    __array_ufunc__ = None  # NumPy arrays leave operators to this class

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def T(self) -> Tensor:
        """The last two dims swapped; rank >= 2."""
        return self.transpose()

    def __repr__(self) -> str:
        return f"<fuel.Tensor {list(self.shape)} {self.dtype}: {describe(self.value)}>"

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise GraphError(
            "a fuel tensor has no truth value while the program is being built: `if x == y`, "
            "`and`, `or` and `not` cannot see elements; use fuel.where, & | ~ on masks, or `is` to "
            "compare handles"
        )

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise GraphError(
            f"{self!r} has no elements while the program is being built; build the module, run it"
        )

    def __float__(self) -> NoReturn:
        raise GraphError(
            f"{self!r} has no number while the program is being built; build the module, run it"
        )

    __int__ = __complex__ = __float__

    def __len__(self) -> int:
        if not self.ndim:
            raise ShapeError("len: a rank-0 tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def _binary(
        self, name: str, op: type[FuelOp], other: Operand, reflected: bool = False
    ) -> Tensor:
        """One op of two operands in their common shape and dtype."""
        with self.trace.editing():
            operands = (other, self) if reflected else (self, other)
            left, right = align(name, *operands)
            return left.emit(op, right)

    def __add__(self, other: Operand) -> Tensor:
        if is_number(other):
            return self.add_scalar(weak("add", other, self.dtype))
        return self._binary("add", elementwise.AddOp, other)

    def __radd__(self, other: Operand) -> Tensor:
        return self + other

    def __rtruediv__(self, other: Operand) -> Tensor:
        return self._divide(other, reflected=True)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return self._floor_divide(other, reflected=True)

    def __matmul__(self, other: Tensor | np.ndarray[Any, Any]) -> Tensor:
        return matmul(self, other)

    def __rmatmul__(self, other: Tensor | np.ndarray[Any, Any]) -> Tensor:
        return matmul(other, self)

    def __pos__(self) -> Tensor:
        return self

    def _masks(self, name: str, other: Operand) -> tuple[Tensor, Tensor]:
        a, b = align(name, self, other)
        if a.dtype.kind != "mask":
            raise UnsupportedDTypeForOp(name, a.dtype.name, dtypes.MASK)
        return a, b

    def __and__(self, other: Operand) -> Tensor:
        with self.trace.editing():
            a, b = self._masks("&", other)
            return a.where(b, a)

    def __or__(self, other: Operand) -> Tensor:
        with self.trace.editing():
            a, b = self._masks("|", other)
            return a.where(a, b)

    def __xor__(self, other: Operand) -> Tensor:
        with self.trace.editing():
            a, b = self._masks("^", other)
            return a.ne(b)

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __invert__(self) -> Tensor:
        if self.dtype.kind != "mask":
            raise UnsupportedDTypeForOp("~", self.dtype.name, dtypes.MASK)
        return self.ne(self._splat(True))

    def subtract(self, other: Operand) -> Tensor:
        """self - other, broadcast and promoted."""
        if is_number(other) and self._takes(other) and self._takes(-other):
            return self.add_scalar(-other)
        return self._binary("subtract", elementwise.SubOp, other)

    def _takes(self, number: Number) -> bool:
        """Returns True if the dtype has the number."""
        try:
            weak("subtract", number, self.dtype)
        except DTypeError:
            return False
        return True

    def multiply(self, other: Operand) -> Tensor:
        """self * other, broadcast and promoted."""
        if is_number(other):
            return self.mul_scalar(weak("multiply", other, self.dtype))
        return self._binary("multiply", elementwise.MulOp, other)

    def divide(self, other: Operand) -> Tensor:
        """self / other, broadcast and promoted. Raises `DTypeError` for integers."""
        return self._divide(other)

    def _divide(self, other: Operand, reflected: bool = False) -> Tensor:
        if self.dtype.is_integer:
            raise DTypeError(
                f"divide: true division of integers ({self.dtype}) has no dtype; cast to a float "
                'first, such as astype("f32"), or use // for the floored quotient'
            )
        return self._binary("divide", elementwise.DivOp, other, reflected)

    def floor_divide(self, other: Operand) -> Tensor:
        """The floor of the quotient, broadcast and promoted; an integer zero divisor gives 0."""
        return self._floor_divide(other)

    def _floor_divide(self, other: Operand, reflected: bool = False) -> Tensor:
        with self.trace.editing():
            operands = (other, self) if reflected else (self, other)
            a, b = align("floor_divide", *operands)
            quotient = a.div(b)
            if a.dtype.kind == "signed":
                # div truncates: one less where there is a rest and the signs differ
                return quotient.add(a.sign().mul(a.rem(b).sign()).clamp(-1, 0))
            return quotient.floor() if a.dtype.is_float else quotient

    def power(self, other: Operand) -> Tensor:
        """
        self to the power other, broadcast and promoted.

        Integer tensors take a Python integer >= 0 only. Raises `DTypeError` for others.
        """
        if not is_number(other) or isinstance(other, bool):
            return self._binary("power", elementwise.PowOp, other)
        if self.dtype.is_integer:
            return self.powi(self._integer_exponent(other))
        if isinstance(other, int) and abs(other) <= POWI_LIMIT:
            return self.powi(other)
        return self._binary("power", elementwise.PowOp, other)

    def _integer_exponent(self, exponent: float) -> int:
        if isinstance(exponent, int) and exponent >= 0:
            return exponent
        raise DTypeError(
            f"power: a tensor of {self.dtype} to the power {exponent} is no integer; cast it to a "
            "float dtype first"
        )

    def astype(self, dtype: object) -> Tensor:
        """Self in another dtype: a cast, or self where the dtype is that already."""
        target = dtypes.of(dtype)
        return self if target == self.dtype else self.cast(target)

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Limited to [min, max]; a bound is a number, a tensor, an array, or None for no bound."""
        bounds = [b for b in (min, max) if b is not None]
        with self.trace.editing():
            if all(is_number(b) for b in bounds):
                low, high = self._bounds()
                low = weak("clip", min, self.dtype) if is_number(min) else low
                high = weak("clip", max, self.dtype) if is_number(max) else high
                return self.clamp(low, high)
            lifted = self if min is None else self._binary("clip", elementwise.MaximumOp, min)
            if max is None:
                return lifted
            return lifted._binary("clip", elementwise.MinimumOp, max)

    def _bounds(self) -> tuple[float, float]:
        return self.dtype.limits if self.dtype.is_integer else (-inf, inf)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Tensor:
        """
        Basic indexing: ints, slices of step 1 or -1, None, one Ellipsis.

        Raises `IndexOutOfRange` for an int beyond its dim, `ShapeError` for too many indices or
        another step, `DTypeError` for tensors and arrays as indices.
        """
        items = index if isinstance(index, tuple) else (index,)
        with self.trace.editing():
            result, dim = self, 0
            for item in self._expand(items):
                result, dim = result._index(item, dim)
            return result

    def _expand(self, items: tuple[Index, ...]) -> list[Index]:
        """The items with the Ellipsis written out."""
        dots = [position for position, item in enumerate(items) if item is Ellipsis]
        if len(dots) > 1:
            raise ShapeError("index: only one ellipsis (...) is allowed")
        used = len(items) - len(dots) - sum(item is None for item in items)
        if used > self.ndim:
            raise ShapeError(f"index: {used} indices for shape {list(self.shape)}")
        at = dots[0] if dots else len(items)
        return [*items[:at], *[slice(None)] * (self.ndim - used), *items[at + 1 :]]

    def _index(self, item: Index, dim: int) -> tuple[Tensor, int]:
        """One item applied at `dim`, and the dim where the next one applies."""
        if item is None:
            return self.unsqueeze(dim), dim + 1
        if isinstance(item, slice):
            return self._slice(item, dim), dim + 1
        number = hasattr(item, "__index__") and not isinstance(item, bool | np.bool_ | np.ndarray)
        if not number:
            raise DTypeError(
                f"index: {item!r} is no basic index; use take or take_along_axis for indices, "
                "fuel.where for masks"
            )
        position, extent = as_int("index", "an index", cast(SupportsIndex, item)), self.shape[dim]
        if not -extent <= position < extent:
            raise IndexOutOfRange(
                f"index: {position} is out of bounds for dim {dim} of {list(self.shape)}"
            )
        start = position + extent if position < 0 else position
        return self.slice(dim, start, 1).squeeze(dim), dim

    def _slice(self, item: slice, dim: int) -> Tensor:
        extent = self.shape[dim]
        try:
            start, stop, step = item.indices(extent)
        except (TypeError, ValueError) as error:
            raise DTypeError(f"index: {item}: {error}") from None
        if step == 1:
            length = max(stop - start, 0)
            return self if length == extent else self.slice(dim, start, length)
        if step != -1:
            raise ShapeError(
                f"index: step {step} is not supported, only 1 and -1; use take with the indices"
            )
        length = max(start - stop, 0)
        part = self if length == extent else self.slice(dim, stop + 1 if length else 0, length)
        return part.flip(dim)

    def _axes(self, op: str, axes: Axes) -> tuple[int, ...]:
        """Axes counted from the start, ascending; None is all. Raises `ShapeError`."""
        if axes is None:
            return tuple(range(self.ndim))
        given = axes if isinstance(axes, Sequence) else (axes,)
        found = [normal_axis(op, a, self.ndim, self.shape) for a in given]
        if len(set(found)) != len(found):
            raise ShapeError(f"{op}: an axis is given twice in {list(given)}")
        return tuple(sorted(found))

    def reshape(self, *dims: Any) -> Tensor:
        """The same row-major elements in another shape; one extent may be -1."""
        given = [as_int("reshape", "an extent", d) for d in unpack(dims)]
        if given.count(-1) == 1:
            given[given.index(-1)] = self._missing_extent(given)
        return self._reshape(as_shape("reshape", given))

    def _missing_extent(self, given: Sequence[int]) -> int:
        known = prod(d for d in given if d != -1)
        if known <= 0 or self.size % known:
            raise ShapeError(
                f"reshape: element count mismatch: no extent for -1 makes {list(given)} of "
                f"{list(self.shape)}, which has {self.size} elements"
            )
        return self.size // known

    def permute_dims(self, *axes: Any) -> Tensor:
        """Dim i of the result is dim `axes[i]`; negative axes count from the end."""
        order = [normal_axis("permute_dims", a, self.ndim, self.shape) for a in unpack(axes)]
        return self.permute(order)

    def squeeze(self, axis: Axes = None) -> Tensor:
        """Size-1 dims removed: those given, or all. Raises `ShapeError` for another size."""
        if axis is None:
            chosen = tuple(i for i, extent in enumerate(self.shape) if extent == 1)
        else:
            chosen = self._axes("squeeze", axis)
        with self.trace.editing():
            result: Tensor = self
            for dim in reversed(chosen):
                result = result.emit(shape.SqueezeOp, dim=integer(dim))
            return result

    def expand_dims(self, axis: Axes) -> Tensor:
        """Size-1 dims inserted so that they stand at the given axes of the result."""
        given = axis if isinstance(axis, Sequence) else (axis,)
        rank = self.ndim + len(given)
        places = sorted(normal_axis("expand_dims", a, rank, self.shape) for a in given)
        if len(set(places)) != len(places):
            raise ShapeError(f"expand_dims: an axis is given twice in {list(given)}")
        with self.trace.editing():
            result: Tensor = self
            for dim in places:
                result = result.unsqueeze(dim)
            return result

    def flip(self, axis: Axes = None) -> Tensor:
        """The order along axes reversed; None is all."""
        chosen = self._axes("flip", axis)
        with self.trace.editing():
            result: Tensor = self
            for dim in chosen:
                result = result.emit(shape.FlipOp, dim=integer(dim))
            return result

    def _reduce(
        self, name: str, op: type[reduction.DimReductionOp], axis: Axes, keepdims: bool
    ) -> Tensor:
        """One reduction over any axes: they are brought to the end and reshaped to one."""
        axes = self._axes(name, axis)
        if not axes and self.ndim:
            return self
        with self.trace.editing():
            if len(axes) == self.ndim != 1 and op in reduction.OVER_ALL:
                result = self.emit(reduction.OVER_ALL[op])
            elif len(axes) == 1:
                result = self._over(op, axes[0])
            else:
                result = self._merge(axes)._over(op, self.ndim - len(axes))
            if keepdims:
                kept = [1 if i in axes else extent for i, extent in enumerate(self.shape)]
                return result._reshape(kept)
            return result

    def _merge(self, axes: tuple[int, ...]) -> Tensor:
        """The axes as one last dim."""
        rest = [i for i in range(self.ndim) if i not in axes]
        order = [*rest, *axes]
        moved = self if order == list(range(self.ndim)) else self.permute(order)
        return moved._reshape((*(self.shape[i] for i in rest), prod(self.shape[i] for i in axes)))

    def sum(self, axis: Axes = None, keepdims: bool = False, dtype: object = None) -> Tensor:
        """
        The sum over axes; None is all.

        Integers and masks are summed as i64, floats in their dtype, or in `dtype` where given.
        """
        exact = self.dtype.is_integer or self.dtype.kind == "mask"
        target = ("i64" if exact else self.dtype) if dtype is None else dtype
        with self.trace.editing():
            return self.astype(target)._reduce("sum", reduction.SumDimOp, axis, keepdims)

    def _swap_last(self, axis: int) -> Tensor:
        """`axis` and the last dim swapped."""
        order = list(range(self.ndim))
        order[axis], order[-1] = order[-1], order[axis]
        return self if axis == self.ndim - 1 else self.permute(order)

    def softmax(self, axis: SupportsIndex = -1) -> Tensor:
        """exp(x - max) / sum(exp(x - max)) along an axis, of floats."""
        with self.trace.editing():
            last = normal_axis("softmax", axis, self.ndim, self.shape)
            return self._swap_last(last).softmax_last_dim()._swap_last(last)

    def log_softmax(self, axis: SupportsIndex = -1) -> Tensor:
        """The logarithm of the softmax along an axis, of floats."""
        with self.trace.editing():
            last = normal_axis("log_softmax", axis, self.ndim, self.shape)
            return self._swap_last(last).log_softmax_last_dim()._swap_last(last)

    def layer_norm(self, eps: float = 1e-5) -> Tensor:
        """(x - mean) / sqrt(var + eps) along the last dim, of floats, without affine part."""
        return self.layer_norm_last_dim(eps)

    def rms_norm(self, eps: float = 1e-5) -> Tensor:
        """x / sqrt(mean(x^2) + eps) along the last dim, of floats, without affine part."""
        return self.rms_norm_last_dim(eps)

    def take(self, indices: Tensor | np.ndarray[Any, Any] | Sequence[Any], axis: Any) -> Tensor:
        """
        The entries `indices` (integers of any shape, negative ones count from the end) of an axis.

        Host indices are checked here; those of a tensor when the program runs.
        """
        dim = normal_axis("take", axis, self.ndim, self.shape)
        with self.trace.editing():
            chosen = self._indices("take", indices, self.shape[dim])
            flat = chosen if chosen.ndim == 1 else chosen._reshape((chosen.size,))
            picked = self.index_select(dim, flat)
            if chosen.ndim == 1:
                return picked
            return picked._reshape((*self.shape[:dim], *chosen.shape, *self.shape[dim + 1 :]))

    def update(self, new: Tensor) -> None:
        """
        Say what a member of the state, made by `graph.state`, is in the next call; once.

        Raises `GraphError` for a tensor that is no state, `ShapeError` and `DTypeError`.
        """
        update_state(self.trace, self, new)

    def write(self, source: Tensor, at: Tensor | SupportsIndex, axis: SupportsIndex = 0) -> Tensor:
        """
        A tensor like self, with `source` from `at` on along an axis: JAX's
        `dynamic_update_slice_in_dim`, NumPy's `x[at : at + n] = source`.

        `at` is a number, or a tensor of one ui32 or i64 that is read when the program runs; there
        `IndexOutOfRange` is raised for a source that would reach beyond self (nothing is clamped).
        `source` has self's extents along the other dims. Where self is dead afterwards, as the
        state of a graph is, the source is written in place.
        """
        dim = normal_axis("write", axis, self.ndim, self.shape)
        with self.trace.editing():
            self.require_same_graph("write", source, "the source")
            if source.ndim != self.ndim:
                raise ShapeError(
                    f"write: the source {list(source.shape)} and the destination "
                    f"{list(self.shape)} must have the same rank"
                )
            ranges = [(0, width) for width in source.shape]
            if isinstance(at, Tensor):
                return self.write_slice_doff(source, at, dim, ranges)
            start = as_int("write", "the start", at)
            ranges[dim] = (start, start + source.shape[dim])
            return self.write_slice(source, ranges)

    def take_along_axis(
        self, indices: Tensor | np.ndarray[Any, Any] | Sequence[Any], axis: SupportsIndex
    ) -> Tensor:
        """One entry of the axis for each index; all other dims broadcast against self's."""
        dim = normal_axis("take_along_axis", axis, self.ndim, self.shape)
        with self.trace.editing():
            chosen = self._indices("take_along_axis", indices, self.shape[dim])
            if chosen.ndim != self.ndim:
                raise ShapeError(
                    f"take_along_axis: indices {list(chosen.shape)} and data {list(self.shape)} "
                    "must have the same rank"
                )
            common = broadcast_shapes(
                "take_along_axis", _put(self.shape, dim, 1), _put(chosen.shape, dim, 1)
            )
            source = self.broadcast_if_needed(_put(common, dim, self.shape[dim]))
            return source.gather(
                dim, chosen.broadcast_if_needed(_put(common, dim, chosen.shape[dim]))
            )

    def _indices(self, op: str, indices: object, extent: int) -> Tensor:
        """Indices into a dim of `extent`, as ui32 counted from the start."""
        if not isinstance(indices, Tensor):
            return _constant(self.trace, _host_indices(op, indices, extent))
        self.require_same_graph(op, indices, "indices")
        if not indices.dtype.is_integer:
            raise DTypeError(f"{op}: indices must be integers, got {indices.dtype}")
        if indices.dtype.kind == "unsigned":
            return indices.astype("ui32")
        wide = indices.astype("i64")
        counted = where(wide < 0, wide + extent, wide)
        # an index out of range becomes one that is so as ui32 too, and is reported at run time
        return minimum(where(counted < 0, extent, counted), extent).astype("ui32")


def _put(dims: Sequence[int], dim: int, extent: int) -> tuple[int, ...]:
    return (*dims[:dim], extent, *dims[dim + 1 :])


def _host_indices(op: str, indices: object, extent: int) -> np.ndarray[Any, Any]:
    array = np.asarray(indices)
    if not array.size:
        return np.zeros(array.shape, np.uint32)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"{op}: indices must be integers, got {array.dtype}")
    if array.min() < -extent or array.max() >= extent:
        worst = array.min() if array.min() < -extent else array.max()
        raise IndexOutOfRange(f"{op}: index {worst} is out of bounds for an axis of {extent}")
    return np.where(array < 0, array + extent, array).astype(np.uint32)


def _constant(
    trace: Trace,
    value: object,
    dtype: dtypes.DType | None = None,
    shape: tuple[int, ...] | None = None,
) -> Tensor:
    return Tensor(trace, make_constant(trace, value, dtype, shape))


def _trace_of(op: str, operands: Sequence[object]) -> Trace:
    """Return the trace of the tensors among operands. Raises `GraphError` for two, or for none."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if not tensors:
        raise GraphError(f"{op}: needs one tensor of a graph or more")
    for other in tensors[1:]:
        tensors[0].require_same_graph(op, other)
    return tensors[0].trace


def _tensor_of(op: str, trace: Trace, operand: object) -> Tensor:
    """A tensor, or an array as a constant. Raises `DTypeError` for anything else."""
    if isinstance(operand, Tensor):
        return operand
    if is_array(operand):
        return _constant(trace, operand)
    raise DTypeError(f"{op}: expected a tensor, an array or a number, got {type(operand).__name__}")


def align(op: str, *operands: Operand, also: Sequence[int] = ()) -> list[Tensor]:
    """
    Operands in their common dtype and common shape (that of `also` included).

    Arrays become constants, and numbers, which are weak, splats. Raises `GraphError`,
    `DTypeError` or `ShapeError`.
    """
    trace = _trace_of(op, operands)
    given = [o if is_number(o) else _tensor_of(op, trace, o) for o in operands]
    return _align(op, given, also)


def _align(op: str, given: Sequence[Tensor | Number], also: Sequence[int]) -> list[Tensor]:
    tensors = [o for o in given if isinstance(o, Tensor)]
    dtype = promote(op, *(t.dtype for t in tensors))
    numbers = [weak(op, o, dtype) for o in given if not isinstance(o, Tensor)]
    shapes = [t.shape for t in tensors]
    common = broadcast_shapes(op, *([also] if also else []), *shapes)
    ready = iter([t.astype(dtype).broadcast_if_needed(common) for t in tensors])
    splats = iter(
        [_constant(tensors[0].trace, n, dtype, common) for n in numbers],
    )
    return [next(ready) if isinstance(o, Tensor) else next(splats) for o in given]


def where(condition: Operand, on_true: Operand, on_false: Operand) -> Tensor:
    """
    `on_true` where the mask is true, else `on_false`; broadcast, the two promoted.

    Two numbers get NumPy's default dtype (f64, i64 or i1). Raises `DTypeError` unless the condition
    is a mask.
    """
    trace = _trace_of("where", (condition, on_true, on_false))
    with trace.editing():
        mask = _constant(trace, condition) if is_number(condition) else condition
        mask = _tensor_of("where", trace, mask)
        if mask.dtype.kind != "mask":
            raise DTypeError(f"where: the condition must be i1, got {mask.dtype}; compare with 0")
        if is_number(on_true) and is_number(on_false):
            on_true = _constant(trace, np.result_type(on_true, on_false).type(on_true))
        pair = [o if is_number(o) else _tensor_of("where", trace, o) for o in (on_true, on_false)]
        a, b = _align("where", pair, mask.shape)
        return mask.broadcast_if_needed(a.shape).emit(elementwise.WhereOp, a, b)


def maximum(a: Operand, b: Operand) -> Tensor:
    """The larger, broadcast and promoted; NaN if either is."""
    return _pair("maximum", elementwise.MaximumOp, a, b)


def minimum(a: Operand, b: Operand) -> Tensor:
    """The smaller, broadcast and promoted; NaN if either is."""
    return _pair("minimum", elementwise.MinimumOp, a, b)


def _pair(name: str, op: type[FuelOp], a: Operand, b: Operand) -> Tensor:
    with _trace_of(name, (a, b)).editing():
        left, right = align(name, a, b)
        return left.emit(op, right)


def concat(tensors: Sequence[Operand], axis: SupportsIndex | None = 0) -> Tensor:
    """
    Tensors joined along an axis, promoted; None flattens them first.

    Raises `ShapeError` ("rank mismatch", "non-dim shapes") when they do not fit.
    """
    if not isinstance(tensors, list | tuple):
        raise DTypeError(f"concat: expected a list of tensors, got {type(tensors).__name__}")
    trace = _trace_of("concat", tensors)
    with trace.editing():
        parts = [_tensor_of("concat", trace, t) for t in tensors]
        if axis is None:
            parts = [p.reshape(-1) if p.size else p.reshape(0) for p in parts]
        dtype = promote("concat", *(p.dtype for p in parts))
        first, *rest = [p.astype(dtype) for p in parts]
        dim = normal_axis("concat", axis or 0, first.ndim, first.shape)
        return first.emit(shape.ConcatOp, *rest, dim=integer(dim))


def matmul(
    a: Tensor | np.ndarray[Any, Any],
    b: Tensor | np.ndarray[Any, Any],
    allow_tf32: bool = False,
) -> Tensor:
    """
    a @ b by NumPy's rules: batch dims broadcast, a rank-1 operand is a row or a column.

    Dtypes promote. Raises `ShapeError` for rank 0, "inner dim mismatch" and "incompatible
    shapes". Grouped heads are for the method `matmul`, which says what `allow_tf32` does.
    """
    trace = _trace_of("matmul", (a, b))
    with trace.editing():
        left, right = _tensor_of("matmul", trace, a), _tensor_of("matmul", trace, b)
        _check_matmul(left, right)
        dtype = promote("matmul", left.dtype, right.dtype)
        rows = left.astype(dtype) if left.ndim > 1 else left.astype(dtype).unsqueeze(0)
        columns = right.astype(dtype) if right.ndim > 1 else right.astype(dtype).unsqueeze(1)
        batch = broadcast_shapes("matmul", rows.shape[:-2], columns.shape[:-2])
        rows = rows.broadcast_if_needed((*batch, *rows.shape[-2:]))
        product = rows.matmul(
            columns.broadcast_if_needed((*batch, *columns.shape[-2:])), allow_tf32
        )
        product = product if right.ndim > 1 else product.squeeze(-1)
        return product if left.ndim > 1 else product.squeeze(-1 if right.ndim == 1 else -2)


def _check_matmul(left: Tensor, right: Tensor) -> None:
    if not left.ndim or not right.ndim:
        raise ShapeError(
            f"matmul: needs rank >= 1, got {list(left.shape)} and {list(right.shape)}; use *"
        )
    inner = right.shape[-2] if right.ndim > 1 else right.shape[0]
    if left.shape[-1] != inner:
        raise ShapeError(
            f"matmul: inner dim mismatch: {left.shape[-1]} of {list(left.shape)} and {inner} of "
            f"{list(right.shape)}"
        )
