# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every extent of 0 and 1, in every place: each family of ops over extents from {0, 1, 2, 3}."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, f64

from effort import SLOW
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.numbers import int_array, integer
from fuel_dialect.ops import (
    elementwise,
    indexing,
    linear_algebra,
    memory,
    normalization,
    reduction,
    shape,
)
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.tensors import tensor
from fuel_lowering.triton.compile import compile_kernel
from fuel_lowering.triton.lower import lower_run
from fuel_passes.walk import functions
from fuel_runtime import Session
from op_modules import module_of_samples, run_in, tolerance
from op_samples import Sample, ordinary
from run_ops import assert_close
from targets import run_on

CPU = TargetAttr.of("cpu", "numpy")
EXTENTS = (0, 1, 2, 3)
DTYPES = ["i32", *(pytest.param(name, marks=SLOW) for name in ("f32", "f16"))]

Cases = Iterator[tuple[type[FuelOp], Sample]]


def products(dtype: str) -> Cases:
    for m, k, n in product(EXTENTS, repeat=3):
        for batch, other in (((), ()), ((2,), (1,)), ((1,), (1,)), ((2,), (2,))):
            lhs = ordinary(dtype, (*batch, m, k))
            yield linear_algebra.MatmulOp, Sample([lhs, ordinary(dtype, (*other, k, n), 1)])


def pointwise(dtype: str) -> Cases:
    for each in product(EXTENTS, repeat=2):
        x = ordinary(dtype, each)
        yield elementwise.AddOp, Sample([x, x])
        yield elementwise.CastOp, Sample([x], declared=[tensor(each, "i32")])
        yield shape.TransposeOp, Sample([x])
        yield shape.FlipOp, Sample([x], {"dim": integer(0)})
        yield shape.BroadcastToOp, Sample([x], declared=[tensor((2, *each), dtype)])


def reductions(dtype: str) -> Cases:
    ops = (reduction.SumDimOp, reduction.MaxDimOp, reduction.ArgmaxDimOp)
    for each in product(EXTENTS, repeat=2):
        x = ordinary(dtype, each)
        for op, dim in product(ops, range(2)):
            if each[dim] or not op.NEEDS_ELEMENTS:
                yield op, Sample([x], {"dim": integer(dim)})
        for target in product(*((1, extent) for extent in each)):
            yield reduction.ReduceSumToOp, Sample([x], declared=[tensor(target, dtype)])


def rows(dtype: str) -> Cases:
    for each in product(EXTENTS, repeat=2):
        if dtype[0] == "f" and each[1]:
            x = ordinary(dtype, each)
            yield normalization.SoftmaxLastDimOp, Sample([x])
            yield normalization.RmsNormLastDimOp, Sample([x], {"eps": FloatAttr(1e-5, f64)})


def movement(dtype: str) -> Cases:
    for each, dim in product(product(EXTENTS, repeat=2), range(2)):
        x = ordinary(dtype, each)
        yield shape.ConcatOp, Sample([x, x], {"dim": integer(dim)})
        for count in EXTENTS if each[dim] else (0,):
            chosen = np.zeros(count, np.uint32)
            yield indexing.IndexSelectOp, Sample([x, chosen], {"dim": integer(dim)})
            each_at = [count if d == dim else extent for d, extent in enumerate(each)]
            places = np.zeros(each_at, np.uint32)
            yield indexing.GatherOp, Sample([x, places], {"dim": integer(dim)})


def writes(dtype: str) -> Cases:
    for each in product(EXTENTS[:3], repeat=2):
        for widths in product(*(range(extent + 1) for extent in each)):
            x, source = ordinary(dtype, each), ordinary(dtype, widths, 1)
            starts = [e - w for e, w in zip(each, widths, strict=True)]
            yield memory.WriteSliceOp, Sample([x, source], {"starts": int_array(starts)})
            if widths[1]:
                given: dict[str, Any] = {"starts": int_array([starts[0], 0]), "axis": integer(1)}
                at = np.array(starts[1], np.uint32)
                yield memory.WriteSliceDoffOp, Sample([x, source, at], given)
                ring = {**given, "modulus": integer(each[1])}
                yield memory.WriteSliceRotatingOp, Sample([x, source, at], ring)


QUICK: list[Callable[[str], Cases]] = [pointwise, rows, writes]
MANY: list[Callable[[str], Cases]] = [products, reductions, movement]
"""The families with so many shapes that Kompute takes over ten seconds for the shaders of one."""

EACH = [
    *product([*QUICK, *MANY], ["numpy", "triton"]),
    *(pytest.param(each, "kompute", marks=pytest.mark.needs_vulkan) for each in QUICK),
    *(pytest.param(each, "kompute", marks=[SLOW, pytest.mark.needs_vulkan]) for each in MANY),
]


def results_on(target: str, module: Any, arrays: list[Any]) -> Any:
    if target == "numpy":
        return Session().compile(module, optimize=False)(*arrays)
    return run_on(target, module, arrays)


@pytest.mark.parametrize(("family", "target"), EACH)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_family_of_ops_equals_the_reference(
    dtype: str, family: Callable[[str], Cases], target: str
) -> None:
    cases = list(family(dtype))
    for start in range(0, len(cases), 64):
        part = cases[start : start + 64]
        module = module_of_samples(part, CPU)
        arrays = [array for _, sample in part for array in sample.arrays]
        want = evaluate(module, *arrays)
        got = results_on(target, module, arrays)
        for (op, sample), g, w in zip(part, got, want, strict=True):
            shapes = [array.shape for array in sample.arrays]
            assert (g.dtype, g.shape) == (w.dtype, w.shape), (op.name, shapes)
            assert_close(g, w, *tolerance(*sample.arrays))


@pytest.mark.parametrize("dtype", ["i32", "f32"])
@pytest.mark.parametrize("extents", [(1, 1, 1), (3, 1, 1), (1, 1, 3)])
def test_a_product_of_single_elements_compiles_to_cubin(
    extents: tuple[int, int, int], dtype: str
) -> None:
    m, k, n = extents
    sample = Sample([ordinary(dtype, (m, k)), ordinary(dtype, (k, n))])
    module = module_of_samples([(linear_algebra.MatmulOp, sample)], CPU)
    (function,) = functions(module)
    for kernel in lower_run(run_in(function.body.block), "main").kernels:
        assert compile_kernel(kernel, 90).cubin.startswith(b"\x7fELF")
