# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shape ops, reductions, matmul, indexing and row ops against loops over Python numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.builder import Builder
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from fuel_dialect import dtypes
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.interpreter.evaluate import Environment, evaluate_block, evaluate_op
from fuel_dialect.ops.control import YieldOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import tensor
from fuel_dialect.traits import DecomposableOp
from ops_on_arrays import apply, arrays, few, floats, make, same_bits, shapes, type_of

NAN, INF = math.nan, math.inf


def of(dtype: str, values: object) -> Array:
    return np.array(values).astype(dtypes.of(dtype).numpy)


def reshaped(x: Array, shape: Sequence[int]) -> Array:
    return np.array(x, order="C").reshape(shape)


@given(data=st.data())
def test_reshape_and_contiguize_keep_the_row_major_order(data: st.DataObject):
    x = data.draw(arrays("bf16", shapes()))
    strided = np.transpose(x)
    order = [x[index[::-1]] for index in np.ndindex(strided.shape)]
    flat = apply("reshape", strided, declared=tensor((x.size,), "bf16"))
    assert same_bits(flat, np.array(order, x.dtype).reshape(x.size))
    assert same_bits(apply("contiguize", strided), strided)
    assert apply("contiguize", strided).flags.c_contiguous


@given(data=st.data())
def test_concat_joins_in_order(data: st.DataObject):
    shape = data.draw(shapes().filter(len))
    dim = data.draw(st.integers(0, len(shape) - 1))
    extents = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    parts = [data.draw(arrays("i16", (*shape[:dim], n, *shape[dim + 1 :]))) for n in extents]
    joined = apply("concat", *parts, dim=dim)
    start = 0
    for part in parts:
        stop = start + part.shape[dim]
        piece = np.take(joined, range(start, stop), axis=dim)
        assert same_bits(piece, part)
        start = stop
    assert start == joined.shape[dim]


def groups(x: Array, dims: set[int]) -> dict[tuple[int, ...], list[float]]:
    """Elements in row-major order, by their index on the dims that are kept (0 on the others)."""
    found: dict[tuple[int, ...], list[float]] = {}
    for index in np.ndindex(x.shape):
        kept = tuple(0 if d in dims else i for d, i in enumerate(index))
        found.setdefault(kept, []).append(x[index].item())
    return found


def reduced(x: Array, dims: set[int], function: Callable[[list[float]], float]) -> Array:
    """`function` of each group; dims are kept as 1."""
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    result = np.zeros(shape, np.float64)
    for index, elements in groups(x, dims).items():
        result[index] = function(elements)
    return result


def largest(elements: list[float]) -> float:
    return NAN if any(v != v for v in elements) else max(elements)


def smallest(elements: list[float]) -> float:
    return NAN if any(v != v for v in elements) else min(elements)


def first_largest(elements: list[float]) -> float:
    peak = largest(elements)
    return next(i for i, v in enumerate(elements) if v == peak or v != v)


def first_smallest(elements: list[float]) -> float:
    peak = smallest(elements)
    return next(i for i, v in enumerate(elements) if v == peak or v != v)


EXTREMES = {
    "max_dim": largest,
    "min_dim": smallest,
    "argmax_dim": first_largest,
    "argmin_dim": first_smallest,
}


@few
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "i8", "ui32", "i1"])
@pytest.mark.parametrize("name", EXTREMES)
@given(data=st.data())
def test_extremes_along_a_dim(name: str, dtype: str, data: st.DataObject):
    shape = data.draw(shapes(min_side=1).filter(len))
    x = data.draw(arrays(dtype, shape))
    dim = data.draw(st.integers(0, len(shape) - 1))
    wide = x.astype(np.float64) if dtypes.of(dtype).is_float else x.astype(np.int64)
    expected = reduced(wide, {dim}, EXTREMES[name]).squeeze(dim)
    np.testing.assert_array_equal(apply(name, x, dim=dim).astype(np.float64), expected)


def test_ties_and_nans_have_a_first():
    x = of("f32", [[1.0, 3.0, 3.0], [NAN, 3.0, NAN], [2.0, NAN, 5.0]])
    assert apply("argmax_dim", x, dim=1).tolist() == [1, 0, 1]
    assert apply("argmin_dim", x, dim=1).tolist() == [0, 0, 1]


@few
@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
@given(data=st.data())
def test_integer_sums_wrap(dtype: str, data: st.DataObject):
    x = data.draw(arrays(dtype, shapes()))
    limits = np.iinfo(x.dtype)
    span = int(limits.max) - int(limits.min) + 1
    total = sum(int(v) for v in x.flat)
    assert apply("sum_all", x).item() == (total - int(limits.min)) % span + int(limits.min)


@few
@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@given(data=st.data())
def test_float_sums_and_means(dtype: str, data: st.DataObject):
    shape = data.draw(shapes(min_side=1).filter(len))
    dim = data.draw(st.integers(0, len(shape) - 1))
    x = np.abs(floats(dtype, shape, seed=data.draw(st.integers(0, 99))))
    wide = x.astype(np.float64)
    tolerance = {"bf16": 2**-8, "f16": 2**-10, "f32": 1e-6, "f64": 1e-14}[dtype]

    def close(got: Array, expected: Any) -> None:
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance)

    close(apply("sum_dim", x, dim=dim), reduced(wide, {dim}, math.fsum).squeeze(dim))
    close(apply("sum_all", x), np.float64(math.fsum(wide.flat)))
    close(apply("mean_all", x), np.float64(math.fsum(wide.flat) / x.size))
    close(apply("mean_dim", x, dim=dim), reduced(wide, {dim}, math.fsum).squeeze(dim) / shape[dim])


@given(data=st.data())
def test_reduction_to_a_shape_is_the_dual_of_broadcast(data: st.DataObject):
    shape = data.draw(shapes(min_side=1))
    new = data.draw(st.integers(0, len(shape)))
    target = tuple(data.draw(st.sampled_from([1, n])) for n in shape[new:])
    dims = {d for d, n in enumerate(shape) if d < new or target[d - new] == 1}
    x = np.asarray(floats("f64", shape, seed=len(shape)))
    total = apply("reduce_sum_to", x, declared=tensor(target, "f64"))
    np.testing.assert_allclose(total, reduced(x, dims, math.fsum).reshape(target), rtol=1e-12)
    peak = apply("reduce_max_to", x, declared=tensor(target, "f64"))
    assert same_bits(peak, reduced(x, dims, max).reshape(target))


def test_narrow_floats_accumulate_in_f32():
    ones = np.ones(1000, dtypes.of("bf16").numpy)
    assert float(apply("sum_all", ones)) == 1000.0
    big = np.full(1000, 1000.0, np.float16)
    assert float(apply("mean_all", big)) == 1000.0
    assert float(apply("sum_all", big)) == INF
    product = apply("matmul", ones.reshape(1, 1000), ones.reshape(1000, 1))
    assert product.tolist() == [[1000.0]]


def test_empty_reductions():
    empty = np.zeros((0, 3), np.float32)
    assert apply("sum_all", empty).item() == 0.0
    assert np.isnan(apply("mean_all", empty))
    assert apply("sum_dim", empty, dim=0).tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(apply("mean_dim", empty, dim=0)).all()
    for name in ("max_dim", "min_dim", "mean_dim", "argmax_dim", "argmin_dim"):
        assert apply(name, empty, dim=1).shape == (0,)
    both = np.zeros((0, 0), np.float32)
    for name in EXTREMES:
        assert apply(name, both, dim=0).shape == (0,)
    assert apply("reduce_max_to", both, declared=tensor((1, 0), "f32")).shape == (1, 0)


@few
@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@given(data=st.data())
def test_no_bits_raise_a_warning(dtype: str, data: st.DataObject):
    x = data.draw(arrays(dtype, (3, 4)))
    for name in ("sum_all", "mean_all", "softmax_last_dim", "log_softmax_last_dim"):
        assert apply(name, x).dtype == x.dtype
    for name in ("layer_norm_last_dim", "rms_norm_last_dim"):
        assert apply(name, x, eps=1e-3).dtype == x.dtype
    assert apply("matmul", x, x.T).shape == (3, 3)
    for target in (d for d in dtypes.TABLE if d.numpy_name is not None):
        cast = apply("cast", x, declared=tensor(x.shape, target.name))
        assert cast.dtype == target.numpy


@pytest.mark.parametrize("name", ["sum_all", "mean_all", "max_all", "min_all"])
def test_nan_wins_a_reduction(name: str):
    assert np.isnan(apply(name, of("f32", [[1.0, NAN], [INF, -INF]])))


def product(a: Array, b: Array) -> list[Any]:
    """Batched matmul with the grouped-head rule, over Python numbers."""

    def entry(batch: tuple[int, ...], row: int, column: int) -> float | int:
        group = tuple(h // (m // n) for h, m, n in zip(batch, a.shape, b.shape, strict=False))
        terms = (
            a[(*batch, row, k)].item() * b[(*group, k, column)].item() for k in range(a.shape[-1])
        )
        return sum(terms)

    shape = (*a.shape[:-1], b.shape[-1])
    return [entry(index[:-2], index[-2], index[-1]) for index in np.ndindex(shape)]


@few
@pytest.mark.parametrize("dtype", ["f64", "i8", "ui32", "f32 x bf16"])
@given(data=st.data())
def test_matmul(dtype: str, data: st.DataObject):
    size = st.integers(0, 3)
    rows, inner, columns = data.draw(size), data.draw(size), data.draw(size)
    heads = data.draw(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3)), max_size=2))
    left_shape = (*(n * group for n, group in heads), rows, inner)
    right_shape = (*(n for n, _ in heads), inner, columns)
    left, _, right = dtype.partition(" x ")
    if dtypes.of(left).is_integer:
        a, b = data.draw(arrays(left, left_shape)), data.draw(arrays(left, right_shape))
    else:
        a, b = floats(left, left_shape, 1), floats(right or left, right_shape, 2)
    result = apply("matmul", a, b)
    expected = product(a, b)
    if dtypes.of(left).is_integer:
        limits = np.iinfo(a.dtype)
        span = int(limits.max) - int(limits.min) + 1
        wrapped = [(int(v) - int(limits.min)) % span + int(limits.min) for v in expected]
        assert result.ravel().tolist() == wrapped
    else:
        np.testing.assert_allclose(result.ravel(), expected, rtol=1e-5, atol=1e-5)


@given(data=st.data())
def test_index_select_and_gather(data: st.DataObject):
    shape = data.draw(shapes(min_side=1).filter(len))
    dim = data.draw(st.integers(0, len(shape) - 1))
    x = data.draw(arrays("f32", shape))
    index = st.integers(0, shape[dim] - 1)
    chosen = data.draw(st.lists(index, max_size=4))
    selected = apply("index_select", x, np.array(chosen, np.uint32), dim=dim)
    for position, source in enumerate(chosen):
        assert same_bits(selected.take(position, dim), x.take(source, dim))
    count = data.draw(st.integers(0, 3))
    smaller = tuple(
        count if d == dim else data.draw(st.integers(0, n)) for d, n in enumerate(shape)
    )
    indices = np.zeros(smaller, np.uint32)
    for place in np.ndindex(smaller):
        indices[place] = data.draw(index)
    gathered = apply("gather", x, indices, dim=dim)
    for place in np.ndindex(smaller):
        source = (*place[:dim], int(indices[place]), *place[dim + 1 :])
        assert same_bits(np.asarray(gathered[place]), np.asarray(x[source]))


def test_an_index_out_of_range_is_named():
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(IndexOutOfRange, match="index_select: index 4 is out of range for extent 4"):
        apply("index_select", x, np.array([0, 4], np.uint32), dim=1)
    with pytest.raises(IndexOutOfRange, match=r"gather: index 4294967295 is out of range .* 3"):
        apply("gather", x, np.array([[2**32 - 1]], np.uint32), dim=0)
    with pytest.raises(IndexOutOfRange, match="index 0 is out of range for extent 0"):
        apply("index_select", np.zeros((0,), np.float32), np.array([0], np.uint32), dim=0)


def test_iota_counts():
    (result,) = evaluate_op(make("iota", declared=[tensor((4,), "f32")]), [])
    assert result.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert result.dtype == np.float32


def softmax(row: list[float]) -> list[float]:
    peak = max(row)
    weights = [math.exp(v - peak) for v in row]
    return [w / math.fsum(weights) for w in weights]


def normalised(row: list[float], eps: float) -> list[float]:
    mean_square = math.fsum(v * v for v in row) / len(row)
    return [v / math.sqrt(mean_square + eps) for v in row]


def centred(row: list[float]) -> list[float]:
    mean = math.fsum(row) / len(row)
    return [v - mean for v in row]


ROWS: dict[str, Callable[[list[float]], list[float]]] = {
    "softmax_last_dim": softmax,
    "log_softmax_last_dim": lambda row: [math.log(v) for v in softmax(row)],
    "layer_norm_last_dim": lambda row: normalised(centred(row), 1e-3),
    "rms_norm_last_dim": lambda row: normalised(row, 1e-3),
}


def properties(name: str) -> dict[str, Any]:
    return {"eps": 1e-3} if "norm" in name else {}


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("name", ROWS)
def test_row_ops(name: str, dtype: str):
    x = floats(dtype, (2, 3, 5), scale=2.0)
    expected = np.array([ROWS[name]([float(v) for v in row]) for row in x.reshape(-1, 5)])
    tolerance = {"bf16": 2**-8, "f16": 2**-10, "f32": 3e-6, "f64": 1e-13}[dtype]
    got = apply(name, x, **properties(name)).astype(np.float64)
    np.testing.assert_allclose(got, expected.reshape(x.shape), rtol=tolerance, atol=tolerance)


def decomposed(name: str, x: Array) -> Array:
    """The value of the op's decomposition."""
    op = make(name, type_of(x), **properties(name))
    assert isinstance(op, DecomposableOp)
    block = Block(arg_types=[type_of(x)])
    op.operands[0] = block.args[0]
    values = op.decompose(Builder(InsertPoint.at_end(block)))
    block.add_op(YieldOp(*values))
    (result,) = evaluate_block(block, [x], Environment())
    return result


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("name", ROWS)
def test_decompositions_compute_the_op(name: str, dtype: str):
    x = floats(dtype, (3, 7), scale=3.0)
    tolerance = {"bf16": 2**-7, "f16": 2**-9, "f32": 3e-6, "f64": 1e-13}[dtype]
    expected = apply(name, x, **properties(name))
    assert decomposed(name, x).dtype == x.dtype
    np.testing.assert_allclose(
        decomposed(name, x).astype(np.float64),
        expected.astype(np.float64),
        rtol=tolerance,
        atol=tolerance,
    )


SPECIAL_ROWS = [
    [-INF, -INF, -INF],
    [INF, 0.0, 1.0],
    [NAN, 0.0, 1.0],
    [-INF, 0.0, 1.0],
    [1000.0, -1000.0, 0.0],
    [0.0, 0.0, 0.0],
]


@pytest.mark.parametrize("name", ROWS)
def test_special_rows_agree_with_the_decomposition(name: str):
    x = of("f32", SPECIAL_ROWS)
    got = apply(name, x, **properties(name))
    np.testing.assert_allclose(decomposed(name, x), got, rtol=1e-6)


def test_softmax_of_special_rows():
    got = apply("softmax_last_dim", of("f32", SPECIAL_ROWS))
    assert np.isnan(got[:3]).all()
    np.testing.assert_allclose(got[3], [0.0, 1 / (1 + math.e), math.e / (1 + math.e)], rtol=1e-6)
    assert got[4].tolist() == [1.0, 0.0, 0.0]
    logs = apply("log_softmax_last_dim", of("f32", SPECIAL_ROWS))
    assert logs[4].tolist() == [0.0, -2000.0, -1000.0]


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0, 0)])
@pytest.mark.parametrize("name", ["softmax_last_dim", "log_softmax_last_dim"])
def test_softmax_of_nothing_is_nothing(name: str, shape: tuple[int, int]):
    x = np.zeros(shape, np.float32)
    assert apply(name, x).shape == shape
    assert decomposed(name, x).shape == shape


@pytest.mark.parametrize("name", ["layer_norm_last_dim", "rms_norm_last_dim"])
def test_norms_of_no_rows_are_nothing(name: str):
    x = np.zeros((0, 3), np.float32)
    assert apply(name, x, eps=1e-3).shape == (0, 3)
    assert decomposed(name, x).shape == (0, 3)


def test_flip_and_friends_see_every_index():
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for i, j, k in itertools.product(range(2), range(3), range(4)):
        assert apply("transpose", x)[i, k, j] == x[i, j, k]
        assert apply("permute", x, axes=(2, 0, 1))[k, i, j] == x[i, j, k]
        assert apply("flip", x, dim=1)[i, 2 - j, k] == x[i, j, k]
        assert apply("unsqueeze", x, dim=1)[i, 0, j, k] == x[i, j, k]
        wide = apply("broadcast_to", x, declared=tensor((5, 2, 3, 4), "i32"))
        assert (wide[:, i, j, k] == x[i, j, k]).all()
    assert apply("slice", x, dim=2, start=1, length=2).tolist() == x[:, :, 1:3].tolist()
    assert apply("squeeze", reshaped(x, (24, 1)), dim=1).tolist() == list(range(24))
