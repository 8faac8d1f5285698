# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Operands for every op of the dialect that computes something, by element type.

The ops are those of `dialect.OPS`; a new one without samples here fails the tests of the targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, f64

from fuel_dialect import dtypes
from fuel_dialect.dialect import OPS
from fuel_dialect.numbers import int_array, integer, scalar_attribute, splat_attribute
from fuel_dialect.ops import (
    comparison,
    elementwise,
    indexing,
    linear_algebra,
    memory,
    normalization,
    reduction,
    shape,
)
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.ops.scan import ScanYieldOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import AnyTensor, tensor
from fuel_dialect.traits import Leaf, Transfer

SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (0,), (9,), (3, 4), (2, 0, 3), (2, 1, 5))
LARGE = (3, 150, 301)
"""More than a tile, with a last tile that is shorter."""


@dataclass(frozen=True)
class Sample:
    """Operands of an op, and its properties."""

    arrays: Sequence[Array]
    properties: dict[str, Any] = field(default_factory=dict)
    declared: Sequence[AnyTensor] = ()

    @property
    def elements(self) -> int:
        """Of all operands together."""
        return sum(array.size for array in self.arrays)


FEW = 3


def few(samples: Sequence[Sample]) -> list[Sample]:
    """The first, a middle and the last: where a target takes too long for them all."""
    step = max(-(-len(samples) // FEW), 1)
    return list(samples[::-1][::step][::-1][:FEW])


def values(dtype: str, shape: Sequence[int], seed: int = 0) -> Array:
    """Numbers of every size, with NaN, infinities, both zeros, and the extreme integers."""
    rng = np.random.default_rng(seed)
    entry = dtypes.of(dtype)
    if entry.kind == "mask":
        return rng.random(shape) < 0.5
    corners = _corners(entry.numpy)
    if entry.is_integer:
        limits = np.iinfo(entry.numpy)
        ordinary = rng.integers(limits.min, limits.max, shape, entry.numpy, endpoint=True)
        small = rng.integers(0 if limits.min == 0 else -4, 5, shape).astype(entry.numpy)
        ordinary = np.where(rng.random(shape) < 0.5, ordinary, small)
    else:
        ordinary = np.asarray(rng.standard_normal(shape) * 3).astype(entry.numpy)
    picked = corners[rng.integers(0, len(corners), shape)]
    return np.asarray(np.where(rng.random(shape) < 0.3, picked, ordinary))


def _corners(dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low = [limits.min, limits.min + 1, -1] if limits.min else []
        return np.array([*low, limits.max, 0, 1, 2], dtype)
    with np.errstate(all="ignore"):
        numbers = [0.0, -0.0, 1, -1, 0.5, 2.5, -1.5, 90, -90, 3e9, -2e20, np.inf, -np.inf, np.nan]
        return np.array(numbers, np.float64).astype(dtype)


def ordinary(dtype: str, shape: Sequence[int], seed: int = 0) -> Array:
    """Small numbers, as whose sums are the same in any order but for rounding."""
    rng = np.random.default_rng(seed)
    entry = dtypes.of(dtype)
    if entry.is_float:
        return np.asarray(rng.standard_normal(shape)).astype(entry.numpy)
    return values(dtype, shape, seed)


def elementwise_samples(op: type[elementwise.ElementwiseOp], dtype: str) -> Iterator[Sample]:
    count = 2 if issubclass(op, elementwise.BinaryOp | comparison.ComparisonOp) else 1
    for each in (*SHAPES, LARGE):
        for properties in _properties(op, dtype):
            yield Sample([values(dtype, each, seed) for seed in range(count)], properties)


def scalars(dtype: str) -> tuple[float, ...]:
    """Numbers that meet tensors of a dtype: integers at the limits, and where floats end."""
    entry = dtypes.of(dtype)
    if not entry.is_integer:
        return (2.7, -0.1)
    low, high = entry.limits
    return tuple(n for n in (low, 2, 2**53 + 1, high) if low <= n <= high)


def _properties(op: type[FuelOp], dtype: str) -> list[dict[str, Any]]:
    def number(value: float) -> Any:
        return scalar_attribute(op.mnemonic(), "number", value, dtypes.of(dtype).type)

    numbers = scalars(dtype)
    if issubclass(op, elementwise.ScalarOp):
        return [{"scalar": number(v)} for v in numbers]
    if op is elementwise.PowiOp:
        return [{"exponent": integer(n)} for n in (0, 1, 2, 3, 7, -1, -2)]
    if op is elementwise.ClampOp:
        bounds = [*pairwise(sorted({0, *numbers})), (0, 0)]
        return [{"min": number(a), "max": number(b)} for a, b in bounds]
    return [{}]


def where_samples(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    for each in (*SHAPES, LARGE):
        yield Sample([values("i1", each), values(dtype, each, 1), values(dtype, each, 2)])


def fill_samples(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    value = splat_attribute(1, dtypes.of(dtype).type)
    for each in (*SHAPES, LARGE):
        yield Sample([values(dtype, each), values("i1", each, 1)], {"value": value})


def cast_samples(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    for target in elementwise.CASTABLE:
        for each in ((), (0,), (60,)):
            yield Sample([values(dtype, each)], declared=[tensor(each, target)])


def axes(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    for each in ((5,), (3, 4), (1, 1), (2, 3, 4), (4, 0), (7, 300)):
        for dim in range(len(each)):
            if each[dim] or not getattr(op, "NEEDS_ELEMENTS", False):
                yield Sample([ordinary(dtype, each)], {"dim": integer(dim)})
    with_nan = values(dtype, (6, 5))
    if "add" not in op.mnemonic() and not op.mnemonic().startswith(("sum", "mean")):
        yield Sample([with_nan], {"dim": integer(0)})
        yield Sample([with_nan], {"dim": integer(1)})


def everything(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    for each in ((), (1,), (5,), (2, 3, 4)):
        yield Sample([ordinary(dtype, each)])
    if not getattr(op, "NEEDS_ELEMENTS", False):
        yield Sample([ordinary(dtype, (2, 0))])


def down_to(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    targets = {(): [()], (3, 4): [(), (4,), (1, 4), (3, 1), (3, 4), (1, 1)], (2, 3, 4): [(3, 1)]}
    for each, shapes in targets.items():
        for target in shapes:
            yield Sample([ordinary(dtype, each)], declared=[tensor(target, dtype)])


def views(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    for each in ((2, 3), (1, 4, 5), (5, 1, 2), LARGE):
        x = values(dtype, each)
        yield from (Sample([x], *given) for given in VIEWS[op](each, dtype))


def _each_dim(each: Sequence[int], dtype: str) -> list[tuple[Any, ...]]:
    return [({"dim": integer(dim)},) for dim in range(len(each))]


VIEWS: dict[type[FuelOp], Callable[..., list[tuple[Any, ...]]]] = {
    shape.TransposeOp: lambda each, dtype: [()],
    shape.PermuteOp: lambda each, dtype: [
        ({"axes": int_array([*range(1, len(each)), 0])},),
        ({"axes": int_array(range(len(each)))},),
    ],
    shape.BroadcastToOp: lambda each, dtype: [
        ({}, [tensor((2, *each), dtype)]),
        ({}, [tensor([7 if e == 1 else e for e in each], dtype)]),
    ],
    shape.SliceOp: lambda each, dtype: [
        ({"dim": integer(1), "start": integer(a), "length": integer(b)},)
        for a, b in ((0, each[1]), (each[1] - 1, 1), (0, 0))
    ],
    shape.UnsqueezeOp: lambda each, dtype: _each_dim((*each, 1), dtype),
    shape.SqueezeOp: lambda each, dtype: [
        given for given, e in zip(_each_dim(each, dtype), each, strict=True) if e == 1
    ],
    shape.FlipOp: _each_dim,
    shape.ReshapeOp: lambda each, dtype: [({}, [tensor((prod(each), 1), dtype)])],
    shape.ContiguizeOp: lambda each, dtype: [()],
}


def concat_samples(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    for dim, extents in ((0, (2, 0, 1)), (1, (3,)), (2, (1, 4))):
        parts = [[*(2, 3, 4)[:dim], e, *(2, 3, 4)[dim + 1 :]] for e in extents]
        arrays = [values(dtype, part, seed) for seed, part in enumerate(parts)]
        yield Sample(arrays, {"dim": integer(dim)})


MATMULS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 4), (4, 5)),
    ((1, 4), (4, 1)),
    ((3, 0), (0, 5)),
    ((0, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((6, 3, 4), (1, 4, 5)),
    ((6, 3, 4), (2, 4, 5)),
    ((2, 6, 3, 4), (2, 3, 4, 5)),
    ((4, 6, 3, 4), (2, 3, 4, 5)),
    ((2, 2, 3, 4), (1, 1, 4, 5)),
    ((0, 3, 4), (0, 4, 5)),
)


def matmul_samples(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    for a, b in MATMULS:
        yield Sample([ordinary(dtype, a), ordinary(dtype, b, 1)])
        if dtype == "f32":
            yield Sample([ordinary("f32", a), ordinary("bf16", b, 1)])


def index_samples(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    rng = np.random.default_rng(3)
    for each in ((5,), (4, 3), (2, 3, 4)):
        for dim, extent in enumerate(each):
            for count in (0, 1, 6):
                picked: tuple[int, ...] = (count,)
                if op is indexing.GatherOp:
                    picked = (*(max(e - 1, 1) for e in each[:dim]), count, *each[dim + 1 :])
                indices = rng.integers(0, extent, picked).astype(np.uint32)
                yield Sample([values(dtype, each), indices], {"dim": integer(dim)})


def write_samples(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    for each, source, starts in (
        ((5,), (2,), (1,)),
        ((4, 3), (4, 1), (0, 2)),
        ((2, 6, 4), (2, 3, 2), (0, 1, 1)),
        ((3, 4), (0, 4), (1, 0)),
    ):
        arrays = [values(dtype, each), values(dtype, source, 1)]
        if op is memory.WriteSliceOp:
            yield Sample(arrays, {"starts": int_array(starts)})
            continue
        for axis in range(len(each) if all(source) else 0):
            given: dict[str, Any] = {"axis": integer(axis)}
            given["starts"] = int_array([0 if a == axis else s for a, s in enumerate(starts)])
            place = np.array(each[axis] - source[axis], np.uint32)
            if op is memory.WriteSliceRotatingOp:
                given["modulus"] = integer(max(each[axis] - 1, source[axis]))
                place = np.array(2**32 - 3, np.uint32)
            yield Sample([*arrays, place], given)


def row_samples(op: type[FuelOp], dtype: str) -> Iterator[Sample]:
    given = {"eps": FloatAttr(1e-5, f64)} if issubclass(op, normalization.NormLastDimOp) else {}
    shapes = [(1,), (7,), (3, 4), (2, 3, 50), (400, 301), (0, 4)]
    for each in [*shapes, *([] if given else [(3, 0)])]:
        yield Sample([ordinary(dtype, each)], given)
    special = ordinary(dtype, (5, 6))
    special[0] = -np.inf
    special[1, 2], special[2, 3], special[3] = np.nan, np.inf, 0
    yield Sample([special], given)


Samples = Callable[[Any, str], Iterator[Sample]]

SAMPLES: tuple[tuple[type[FuelOp], Samples, Sequence[str] | None], ...] = (
    (elementwise.WhereOp, where_samples, dtypes.ORDERED),
    (elementwise.MaskedFillOp, fill_samples, elementwise.FILLABLE),
    (elementwise.CastOp, cast_samples, elementwise.CASTABLE),
    (elementwise.ElementwiseOp, elementwise_samples, None),
    (reduction.AllReductionOp, everything, None),
    (reduction.DimReductionOp, axes, None),
    (reduction.TargetReductionOp, down_to, None),
    (shape.ConcatOp, concat_samples, ("f32", "bf16", "i1", "ui8")),
    (shape.ShapeOp, views, ("f32", "bf16", "i8", "f8E5M2")),
    (linear_algebra.MatmulOp, matmul_samples, dtypes.NUMERIC),
    (indexing.IndexingOp, index_samples, ("f64", "bf16", "ui8", "i1")),
    (memory.WriteOp, write_samples, ("f32", "bf16", "i1", "i64")),
    (normalization.LastDimOp, row_samples, dtypes.FLOATS),
)
"""The first class that an op belongs to says how it is sampled, and over which dtypes."""


def samples_of(op: type[FuelOp]) -> tuple[Samples, Sequence[str]]:
    for kind, samples, names in SAMPLES:
        if issubclass(op, kind):
            return samples, names or op.DTYPES  # pyright: ignore[reportAttributeAccessIssue]
    raise AssertionError(f"no samples for {op.name}")


def _computes(op: type[FuelOp]) -> bool:
    is_control = issubclass(op, RegionOp | ScanYieldOp) or not issubclass(op, FuelOp)
    return not is_control and not any(op.has_trait(t) for t in (Leaf, Transfer))


COMPUTING = [op for op in OPS if _computes(op)]
CASES = [(op, dtype) for op in COMPUTING for dtype in samples_of(op)[1]]
