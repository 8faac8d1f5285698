# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Every op of the dialect, lowered alone in a kernel of its kind, against the reference.

The ops are those of `dialect.OPS` that compute something; a new one without samples here fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, f64

from fuel_dialect import dtypes
from fuel_dialect.dialect import OPS
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.ops import (
    comparison,
    elementwise,
    indexing,
    linear_algebra,
    normalization,
    reduction,
    shape,
)
from fuel_dialect.ops.base import AnyTensor, FuelOp, integer, splat_attribute, tensor
from fuel_dialect.ops.control import RegionOp, ScanYieldOp
from fuel_dialect.ops.shape import int_array
from fuel_dialect.reference.precision import Array
from fuel_dialect.traits import Leaf, Transfer
from fuel_lowering.numpy import tiles
from fuel_lowering.numpy.lower import lower_run
from run_ops import Loaded, check_results, module_of, runs_of, strided, tolerance, types_of

SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (0,), (9,), (3, 4), (2, 0, 3), (2, 1, 5))
LARGE = (3, 150, 301)
"""More than a tile, with a last tile that is shorter."""


@dataclass(frozen=True)
class Sample:
    """Operands of an op, and its properties."""

    arrays: Sequence[Array]
    properties: dict[str, Any] = field(default_factory=dict)
    declared: Sequence[AnyTensor] = ()


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
        for properties in _properties(op):
            yield Sample([values(dtype, each, seed) for seed in range(count)], properties)


def _properties(op: type[FuelOp]) -> list[dict[str, Any]]:
    if issubclass(op, elementwise.ScalarOp):
        return [{"scalar": FloatAttr(v, f64)} for v in (2.7, -0.1)]
    if op is elementwise.PowiOp:
        return [{"exponent": integer(n)} for n in (0, 1, 2, 3, 7, -1, -2)]
    if op is elementwise.ClampOp:
        return [{"min": FloatAttr(a, f64), "max": FloatAttr(b, f64)} for a, b in ((-1, 2), (0, 0))]
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


def lowered(op: type[FuelOp], sample: Sample) -> tuple[Any, Loaded]:
    def make(*operands: Any) -> FuelOp:
        return op.make(*operands, declared=sample.declared, **sample.properties)

    module = module_of(types_of(sample.arrays), make)
    (run,) = runs_of(module)
    return module, Loaded(lower_run(run, "main_0"))


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{o.mnemonic()}-{d}" for o, d in CASES])
def test_an_op_alone_equals_the_reference(op: type[FuelOp], dtype: str):
    samples, _ = samples_of(op)
    for sample in samples(op, dtype):
        module, loaded = lowered(op, sample)
        allowed = tolerance(*sample.arrays)
        got = check_results(loaded, module, sample.arrays, allowed)
        again = loaded(*map(strided, sample.arrays))
        for a, b in zip(got, again, strict=True):
            assert b.flags.c_contiguous
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), *allowed)


@pytest.mark.parametrize("tile", [1, 5, 12])
@pytest.mark.parametrize("op", COMPUTING, ids=lambda op: op.mnemonic())
def test_an_op_cut_into_small_tiles(op: type[FuelOp], tile: int, monkeypatch: pytest.MonkeyPatch):
    samples, names = samples_of(op)
    monkeypatch.setattr(tiles, "LARGE_TILE", tile)
    monkeypatch.setattr(tiles, "SMALL_TILE", tile)
    for sample in samples(op, names[-1]):
        if all(array.size < 200 for array in sample.arrays):
            module, loaded = lowered(op, sample)
            check_results(loaded, module, sample.arrays, tolerance(*sample.arrays))


def test_there_are_samples_for_all_that_the_dialect_computes():
    assert len(COMPUTING) > 65
    for op in COMPUTING:
        assert samples_of(op)[1]


@pytest.mark.parametrize("op", [indexing.IndexSelectOp, indexing.GatherOp])
def test_an_index_out_of_range_is_an_error(op: type[FuelOp]):
    x, indices = np.zeros((4, 3), np.float32), np.array([0, 3], np.uint32)
    if op is indexing.GatherOp:
        indices = np.array([[0, 1, 4]], np.uint32)
    sample = Sample([x, indices], {"dim": integer(0)})
    _, loaded = lowered(op, sample)
    wrong = np.array(indices + 1, np.uint32)
    with pytest.raises(IndexOutOfRange, match=rf"{op.mnemonic()}: index [45] .*extent 4"):
        loaded(x, wrong)


def _ulps(got: Array, want: Array) -> int:
    order = got.view(np.int32).astype(np.int64), want.view(np.int32).astype(np.int64)
    return int(np.abs(order[0] - order[1]).max())


def test_erf_of_f32_is_within_two_ulps():
    import math

    x = np.linspace(-5, 5, 200_001, dtype=np.float32)
    x = np.concatenate([x, np.geomspace(1e-38, 1, 1000, dtype=np.float32)])
    _, loaded = lowered(elementwise.ErfOp, Sample([x]))
    want = np.array([math.erf(v) for v in x.astype(np.float64)]).astype(np.float32)
    assert _ulps(loaded(x)[0], want) <= 2


def test_gelu_of_f32_is_accurate_in_the_negative_tail():
    import math

    x = np.linspace(-9, 9, 20_001, dtype=np.float32)
    _, loaded = lowered(elementwise.GeluOp, Sample([x]))
    wide = x.astype(np.float64)
    want = 0.5 * wide * np.array([math.erfc(-v / math.sqrt(2)) for v in wide])
    np.testing.assert_allclose(loaded(x)[0].astype(np.float64), want, rtol=1e-5)


def test_sigmoid_and_silu_of_f32_are_accurate_in_the_negative_tail():
    x = np.linspace(-103, 103, 20_001, dtype=np.float32)
    wide = x.astype(np.float64)
    want = np.exp(np.minimum(wide, 0)) / (1 + np.exp(-np.abs(wide)))
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    for op, factor in ((elementwise.SigmoidOp, np.ones_like(wide)), (elementwise.SiluOp, wide)):
        _, loaded = lowered(op, Sample([x]))
        error = np.abs(loaded(x)[0].astype(np.float64) - want * factor)
        assert (
            error <= 1e-6 * want * np.abs(factor) + smallest * np.maximum(np.abs(factor), 1)
        ).all()


FINITE = (elementwise.GeluTanhOp, elementwise.GeluOp, elementwise.SiluOp, elementwise.SigmoidOp)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("op", FINITE, ids=lambda op: op.mnemonic())
def test_activations_are_finite_up_to_the_largest_number(op: type[FuelOp], dtype: str):
    numpy = dtypes.of(dtype).numpy
    with np.errstate(all="ignore"):
        x = np.array([10.0**e for e in range(308)], np.float64).astype(numpy)
        x = x[np.isfinite(x.astype(np.float64))]
    x = np.concatenate([x, -x])
    module, loaded = lowered(op, Sample([x]))
    (got,) = check_results(loaded, module, [x], tolerance(x))
    assert np.isfinite(got.astype(np.float64)).all()
