# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Every op of the dialect, lowered alone in a kernel of its kind, against the reference.

The ops and their operands are those of `op_samples`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuel_dialect as fuel
from beside import optimised
from effort import SLOW, slow_but
from fuel_dialect import dtypes
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.numbers import integer
from fuel_dialect.ops import elementwise, indexing
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.reference.precision import Array
from fuel_lowering.numpy import language, tiles
from fuel_lowering.numpy.lower import lower_run
from op_modules import module_of, op_of, tolerance, types_of
from op_samples import COMPUTING, Sample, samples_of, values
from ops_on_arrays import same_bits
from run_ops import Loaded, check_results, runs_of, strided


def lowered(op: type[FuelOp], sample: Sample) -> tuple[Any, Loaded]:
    module = module_of(types_of(sample.arrays), lambda *operands: op_of(op, sample, operands))
    (run,) = runs_of(module)
    return module, Loaded(lower_run(run, "main_0"))


EACH = [
    pytest.param(op, dtype, id=f"{op.mnemonic()}-{dtype}", marks=() if quick else SLOW)
    for op in COMPUTING
    for names in (samples_of(op)[1],)
    for dtype in names
    for quick in (dtype in (names[-1], names[COMPUTING.index(op) % len(names)]),)
]
"""Each op and element type. The quick ones: the last of each op, which is a float, and in turn."""


@pytest.mark.parametrize(("op", "dtype"), EACH)
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


@pytest.mark.parametrize("tile", slow_but([1, 5, 12], [5]))
@pytest.mark.parametrize("op", COMPUTING, ids=lambda op: op.mnemonic())
def test_an_op_cut_into_small_tiles(op: type[FuelOp], tile: int, monkeypatch: pytest.MonkeyPatch):
    samples, names = samples_of(op)
    monkeypatch.setattr(tiles, "LARGE_TILE", tile)
    monkeypatch.setattr(tiles, "SMALL_TILE", tile)
    for sample in samples(op, names[-1]):
        if all(array.size < 200 for array in sample.arrays):
            module, loaded = lowered(op, sample)
            check_results(loaded, module, sample.arrays, tolerance(*sample.arrays))


def test_an_op_in_loops_of_small_tiles(monkeypatch: pytest.MonkeyPatch):
    """One thread goes over small arrays, too, so that temporaries are small."""
    monkeypatch.setattr(tiles, "LONE_TILE", 5)
    monkeypatch.setattr(tiles, "MOST_TEMPORARY", 1)
    loops = 0
    for op in COMPUTING:
        samples, names = samples_of(op)
        for sample in samples(op, names[-1]):
            if all(array.size < 200 for array in sample.arrays):
                module, loaded = lowered(op, sample)
                check_results(loaded, module, sample.arrays, tolerance(*sample.arrays))
                loops += "for i in range(" in loaded.lowered.source
    assert loops > 10


LIMITS = {"f": (1.5, -1.5, 0.0, -0.0, np.inf, -np.inf, np.nan), "i": (3, 0, -128, 127), "u": (3, 0)}


@pytest.mark.parametrize("many", [0, 10**9])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i8", "i64", "ui8", "i1"])
def test_limits_that_are_numbers(dtype: str, many: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(language, "MANY", many)
    numpy = dtypes.BY_NAME[dtype].numpy
    x = values(dtype, (3, 50))
    for limit in LIMITS[dtype[0] if dtype[0] in "iu" and dtype != "i1" else "f"]:
        for order in ((fuel.maximum, fuel.minimum), (fuel.minimum, fuel.maximum)):
            graph = fuel.Graph()
            a = graph.input(x.shape, dtype)
            with np.errstate(all="ignore"):
                bounds = [np.asarray(v).astype(numpy) for v in (limit, 1)]
            b, c = (graph.constant(np.broadcast_to(bound, x.shape)) for bound in bounds)
            module = graph.build(order[0](a, b), order[1](order[0](a, b), c), order[1](a, b))
            (run,) = runs_of(optimised(module))
            loaded = Loaded(lower_run(run, "main_0"))
            for got, want in zip(loaded(x), evaluate(module, x), strict=True):
                assert same_bits(got, want)


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
