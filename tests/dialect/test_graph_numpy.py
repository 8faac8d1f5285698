# SPDX-License-Identifier: MIT OR Apache-2.0
"""Operators and NumPy-named methods against NumPy itself: promotion, broadcasting, indexing."""

from __future__ import annotations

import operator
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import (
    array_shapes,
    arrays,
    basic_indices,
    broadcastable_shapes,
    mutually_broadcastable_shapes,
)
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination

import fuel_dialect as fuel
from fuel_dialect import dtypes
from fuel_dialect.builder.promotion import promote, weak
from fuel_dialect.context import make_context
from fuel_dialect.interpreter.evaluate import evaluate

NUMPY_FLOATS = ("f16", "f32", "f64")


@pytest.fixture
def g():
    return fuel.Graph()


def f32(values):
    return np.array(values, np.float32)


def bind(*values):
    """A graph with one input for each array."""
    g = fuel.Graph()
    return [g.input(v.shape, dtypes.of(v.dtype)) for v in map(np.asarray, values)]


def run(result, *values):
    (out,) = evaluate(result.graph.build(result), *values)
    assert out.shape == result.shape
    assert out.dtype == result.dtype.numpy
    return out


def call(function, *values):
    """`function` of tensors, evaluated on arrays."""
    return run(function(*bind(*values)), *values)


def numbers(name, shape):
    """Arrays of small integers that every dtype holds."""
    low = 0 if name.startswith("ui") else -9
    elements = st.integers(low, 9)
    return arrays(np.int64, shape, elements=elements).map(
        lambda a: a.astype(dtypes.BY_NAME[name].numpy)
    )


def promotion_of(a, b):
    """The array API's table, written out."""
    order = ("i8", "i16", "i32", "i64")
    floats = {("f16", "f32"): "f32", ("f16", "f64"): "f64", ("f32", "f64"): "f64"}
    floats |= {("bf16", "f32"): "f32", ("bf16", "f64"): "f64", ("bf16", "f16"): "f32"}
    mixed = {("ui8", s): order[max(1, i)] for i, s in enumerate(order)}
    mixed |= {("ui32", s): "i64" for s in order}
    ints = {(x, y): order[max(i, j)] for (i, x), (j, y) in product(enumerate(order), repeat=2)}
    table = floats | mixed | ints | {("ui8", "ui32"): "ui32"}
    return a if a == b else table.get((a, b), table.get((b, a), ""))


@pytest.mark.parametrize("pair", list(product(dtypes.BY_NAME, repeat=2)), ids="-".join)
def test_dtypes_promote_by_the_array_api_table(pair):
    a, b = (dtypes.BY_NAME[name] for name in pair)
    expected = promotion_of(*pair)
    if not expected:
        with pytest.raises(fuel.DTypeError, match=f"op: {a} and {b} do not promote.*astype"):
            promote("op", a, b)
        return
    assert promote("op", a, b).name == expected
    kinds = {a.kind, b.kind}
    if "storage" not in kinds and "bf16" not in pair:
        assert promote("op", a, b).numpy == np.result_type(a.numpy, b.numpy)


ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.mod, operator.floordiv)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


@given(
    st.data(),
    st.sampled_from(ARITHMETIC + COMPARISONS),
    st.sampled_from([p for p in product(dtypes.NUMERIC, repeat=2) if promotion_of(*p)]),
    mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3, min_side=0),
)
def test_operators_broadcast_and_promote_as_numpy(data, function, pair, shapes):
    a, b = (data.draw(numbers(n, s)) for n, s in zip(pair, shapes.input_shapes, strict=True))
    if function in (operator.mod, operator.floordiv):
        b = np.where(b == 0, np.ones_like(b), b)
    common = dtypes.BY_NAME[promotion_of(*pair)].numpy
    wide = [x.astype(common) for x in (a, b)]
    if function is operator.floordiv and dtypes.of(common).is_float:
        expected = np.floor(np.true_divide(*wide))
    elif function is operator.mod and dtypes.of(common).name == "bf16":
        expected = np.mod(*[w.astype(np.float32) for w in wide]).astype(common)
    else:
        expected = function(*wide)
    out = call(function, a, b)
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out.astype(np.float64), expected.astype(np.float64))


@given(
    st.sampled_from([operator.add, operator.sub, operator.mul, *COMPARISONS]),
    st.sampled_from(["i8", "i32", "ui8", "ui32", "i64", "f16", "f32", "f64"]),
    st.one_of(st.integers(0, 100), st.sampled_from([-3, 2.5, -0.1])),
    st.booleans(),
)
def test_python_numbers_are_weak(function, name, number, reflected):
    dtype = dtypes.BY_NAME[name]
    array = np.array([0, 1, 7, 100], dtype.numpy)
    call_it = (lambda x: function(number, x)) if reflected else (lambda x: function(x, number))
    if dtype.is_integer and (isinstance(number, float) or (number < 0 and name[0] == "u")):
        with pytest.raises(fuel.DTypeError):
            call_it(*bind(array))
        return
    with np.errstate(over="ignore"):
        expected = call_it(array)
    out = call(call_it, array)
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["i8", "i16", "i32", "i64", "ui8", "ui32"])
def test_floor_division_of_integers_is_numpys_up_to_the_limits(name):
    kind = dtypes.BY_NAME[name].numpy
    info = np.iinfo(kind)
    signed = [-1, -2, -7] if info.min else []
    values = np.array([info.min, info.min + 1, *signed, 0, 1, 2, 3, 7, info.max], kind)
    a, b = (x.ravel() for x in np.meshgrid(values, values[values != 0]))
    with np.errstate(over="ignore"):
        expected = a // b
    np.testing.assert_array_equal(call(operator.floordiv, a, b), expected)
    np.testing.assert_array_equal(call(lambda x: x // x.dtype.numpy.type(0), a), np.zeros_like(a))


def test_floor_division_of_floats_rounds_the_quotient_first():
    a = np.array([np.inf, -np.inf, -1, 1, 1, -1, 0])
    b = np.array([2, 2, np.inf, 0.1, 0, 0, 0])
    out = call(operator.floordiv, a, b)
    np.testing.assert_array_equal(out, [np.inf, -np.inf, -0.0, 10, np.inf, -np.inf, np.nan])
    assert np.signbit(out[2])


def test_division_of_integers_asks_for_a_cast(g):
    i = g.input((3,), "i32")
    for bad in (lambda: i / i, lambda: i / 2, lambda: 2 / i, lambda: i.divide(2)):
        with pytest.raises(fuel.DTypeError, match=r"true division of integers.*astype.*//"):
            bad()
    assert g.op_count == 0
    np.testing.assert_array_equal(call(lambda x: 1 / x, f32([2, 4])), f32([0.5, 0.25]))
    np.testing.assert_array_equal(call(lambda x: x / 3, f32([2, 4])), f32([2, 4]) / np.float32(3))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, 2.0, 100])
def test_powers(exponent):
    x = f32([1.25, 2, 0.5])
    np.testing.assert_allclose(call(lambda t: t**exponent, x), x**exponent, rtol=1e-6)
    np.testing.assert_allclose(call(lambda t: 1.5**t, x), np.float32(1.5) ** x, rtol=1e-6)
    y = f32([0, 1, -2])
    np.testing.assert_allclose(call(operator.pow, x, y), x**y, rtol=1e-6)


def test_integer_powers_are_integers(g):
    i = g.input((3,), "i32")
    values = np.array([-3, 0, 5], np.int32)
    np.testing.assert_array_equal(call(lambda t: t**3, values), values**3)
    for bad in (lambda: i**-1, lambda: i**0.5):
        with pytest.raises(fuel.DTypeError, match="is no integer"):
            bad()
    with pytest.raises(fuel.UnsupportedDTypeForOp):
        i.power(i)


def test_unary_operators():
    x = f32([-1.5, 0, 2])
    np.testing.assert_array_equal(call(operator.neg, x), -x)
    np.testing.assert_array_equal(call(abs, x), abs(x))
    (t,) = bind(x)
    assert +t is t


@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3), st.data())
def test_mask_logic(shapes, data):
    a, b = (data.draw(arrays(np.bool_, s)) for s in shapes.input_shapes)
    for function in (operator.and_, operator.or_, operator.xor, operator.eq, operator.ne):
        np.testing.assert_array_equal(call(function, a, b), function(a, b))
    np.testing.assert_array_equal(call(operator.invert, a), ~a)
    np.testing.assert_array_equal(call(lambda x: True & x, a), a)


def test_arrays_meet_tensors_from_either_side():
    x, y = f32([[1, 2], [3, 4]]), np.array([10, 20])
    np.testing.assert_array_equal(call(lambda t: x - t, x), x - x)
    np.testing.assert_array_equal(call(lambda t: t @ x, x), x @ x)
    np.testing.assert_array_equal(call(lambda t: x @ t, x), x @ x)
    (t,) = bind(y)
    assert (t + np.int8(1)).dtype.name == "i64"
    assert (np.float64(2) * bind(x)[0]).dtype.name == "f64"
    assert (bind(x)[0] * np.float64(2)).dtype.name == "f64"


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda f, i, m: f + i, "f32 and i32 do not promote"),
        (lambda f, i, m: f * m, "f32 and i1 do not promote"),
        (lambda f, i, m: i + 0.5, r"i32 and the float 0\.5"),
        (lambda f, i, m: f + True, "True does not go"),
        (lambda f, i, m: m == 1, "masks take True and False"),
        (lambda f, i, m: i + 2**40, "does not fit i32"),
        (lambda f, i, m: f + "one", "got str"),
        (lambda f, i, m: f == None, "got NoneType"),  # noqa: E711
        (lambda f, i, m: f & f, "&: unsupported dtype f32"),
        (lambda f, i, m: ~i, "~: unsupported dtype i32"),
        (lambda f, i, m: m + m, "add: unsupported dtype i1"),
        (lambda f, i, m: f.clip(0, 1).take(f, 0), "indices must be integers"),
        (lambda f, i, m: fuel.where(f, f, f), "condition must be i1"),
        (lambda f, i, m: 10**400 + f, "range of a float"),
    ],
)
def test_what_does_not_promote_is_refused_with_advice(g, build, text):
    f, i, m = g.input((3,)), g.input((3,), "i32"), g.input((3,), "i1")
    with pytest.raises(fuel.DTypeError, match=text):
        build(f, i, m)


def test_weak_numbers_at_the_limits():
    i8, f16, f4 = (dtypes.BY_NAME[n] for n in ("i8", "f16", "f4E2M1FN"))
    assert weak("op", -128, i8) == -128
    assert weak("op", 3, f16) == 3.0
    for number in (128, -129):
        with pytest.raises(fuel.DTypeError, match="holds -128 to 127"):
            weak("op", number, i8)
    with pytest.raises(fuel.DTypeError, match="for storage"):
        weak("op", 1.0, f4)
    big = np.array([2**60 + 1, -(2**60)])
    np.testing.assert_array_equal(call(lambda x: x + (2**60 + 1), big), big + (2**60 + 1))
    np.testing.assert_array_equal(call(lambda x: x - (2**60 + 1), big), big - (2**60 + 1))
    least = np.array([-128, 5], np.int8)
    np.testing.assert_array_equal(call(lambda x: x - (-128), least), least - np.int8(-128))


def test_incompatible_shapes_are_named(g):
    a, b = g.input((2, 3)), g.input((4,))
    for bad in (lambda: a + b, lambda: a < b, lambda: fuel.maximum(a, b), lambda: a & b):
        with pytest.raises(fuel.ShapeError, match=r"incompatible shapes \[2, 3\] and \[4\]"):
            bad()
    assert g.op_count == 0


def test_operators_insert_only_what_is_needed(g):
    def kinds(tensor):
        ops = [op for op in g.trace.root.block.ops if op.results]
        return [op.name.removeprefix("fuel.") for op in ops][-count:]

    x, row, i = g.input((2, 3)), g.input((3,)), g.input((2, 3), "i8")
    for build, expected in [
        (lambda: x + x, ["add"]),
        (lambda: x + 2, ["add_scalar"]),
        (lambda: 2 - x, ["const", "sub"]),
        (lambda: x - 2, ["add_scalar"]),
        (lambda: 3 * x, ["mul_scalar"]),
        (lambda: x + row, ["broadcast_to", "add"]),
        (lambda: i + g.inputs[2].cast("i16"), ["cast", "cast", "add"]),
        (lambda: x.astype("f32"), []),
        (lambda: x.sum(), ["sum_all"]),
        (lambda: x.max(-1), ["max_dim"]),
        (lambda: x[:], []),
    ]:
        before = g.op_count
        made = build()
        count = g.op_count - before
        assert (kinds(made) if count else []) == expected


@given(st.data(), array_shapes(max_dims=4, max_side=4))
def test_indexing_is_numpys(data, shape):
    index = data.draw(basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    items = index if isinstance(index, tuple) else (index,)
    array = f32(np.arange(np.prod(shape)).reshape(shape))
    slices = [i for i in items if isinstance(i, slice)]
    if any(s.step not in (None, 1, -1) for s in slices):
        with pytest.raises(fuel.ShapeError, match=r"step .* is not supported"):
            bind(array)[0][index]
        return
    np.testing.assert_array_equal(call(lambda x: x[index], array), array[index])


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (3, fuel.IndexOutOfRange, r"3 is out of bounds for dim 0 of \[3, 4\]"),
        ((0, -5), fuel.IndexOutOfRange, "-5 is out of bounds"),
        ((0, 0, 0), fuel.ShapeError, r"3 indices for shape \[3, 4\]"),
        ((..., ...), fuel.ShapeError, "only one ellipsis"),
        (slice(None, None, 2), fuel.ShapeError, "step 2 is not supported"),
        (slice(None, None, 0), fuel.DTypeError, "zero"),
        (slice(0.5), fuel.DTypeError, "index"),
        (True, fuel.DTypeError, r"where"),
        ([0, 1], fuel.DTypeError, "take"),
        (np.array([0]), fuel.DTypeError, "take"),
        ("x", fuel.DTypeError, "basic index"),
        (1.0, fuel.DTypeError, "basic index"),
    ],
)
def test_indexing_errors(g, index, error, text):
    x = g.input((3, 4))
    with pytest.raises(error, match=text):
        x[index]
    with pytest.raises(fuel.DTypeError, match="take"):
        x[x]
    assert g.op_count == 0
    assert x[np.int64(1)].shape == (4,)


REDUCTIONS = ("sum", "max", "min", "mean")


@given(st.data(), array_shapes(max_dims=4, max_side=3), st.booleans())
def test_reductions_are_numpys_over_any_axes(data, shape, keepdims):
    rank = len(shape)
    axes = st.lists(st.integers(0, rank - 1), unique=True, min_size=0).map(tuple)
    axis = data.draw(st.one_of(st.none(), st.integers(-rank, rank - 1), axes))
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape) % 7
    for name in REDUCTIONS:
        out = call(lambda x, name=name: getattr(x, name)(axis, keepdims), array)
        expected = getattr(np, name)(array, axis, keepdims=keepdims)
        np.testing.assert_allclose(out, expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_argmax_and_argmin(axis, keepdims):
    x = f32([[1, 5, 5], [np.nan, 0, -1]])
    for name in ("argmax", "argmin"):
        out = call(lambda t, name=name: getattr(t, name)(axis, keepdims), x)
        assert out.dtype == np.uint32
        np.testing.assert_array_equal(out, getattr(np, name)(x, axis, keepdims=keepdims))


def test_sums_of_integers_and_masks_are_i64():
    for name in ("i8", "ui8", "i32", "ui32", "i64"):
        x = np.full(300, 100, dtypes.BY_NAME[name].numpy)
        out = call(lambda t: t.sum(), x)
        assert (out, out.dtype) == (30_000, np.dtype(np.int64))
    assert call(lambda t: t.sum(), np.array([True, True, False])) == 2
    assert call(lambda t: t.sum(dtype="f32"), np.array([1, 2])).dtype == np.float32
    half = np.full(8, 1, ml_dtypes.bfloat16)
    assert call(lambda t: t.sum(), half).dtype == half.dtype


def test_reduction_errors(g):
    x = g.input((2, 0))
    for bad, error, text in [
        (lambda: x.sum(2), fuel.ShapeError, "axis 2 is out of bounds"),
        (lambda: x.sum((0, -2)), fuel.ShapeError, "given twice"),
        (lambda: x.max(), fuel.ShapeError, "empty reduction"),
        (lambda: x.max(1), fuel.ShapeError, "empty reduction"),
        (lambda: x.sum("a"), fuel.DTypeError, "integer"),
        (lambda: x.argmax((0, 1)), fuel.DTypeError, "integer"),  # pyright: ignore[reportArgumentType]
        (lambda: g.input((2,), "i32").mean(), fuel.DTypeError, "unsupported dtype"),
    ]:
        with pytest.raises(error, match=text):
            bad()
    assert g.op_count == 0


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_softmax_along_any_axis(axis):
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    e = np.exp(x - x.max(axis, keepdims=True))
    soft = e / e.sum(axis, keepdims=True)
    np.testing.assert_allclose(call(lambda t: t.softmax(axis), x), soft)
    np.testing.assert_allclose(call(lambda t: t.log_softmax(axis=axis), x), np.log(soft))


def test_norms():
    x = np.random.default_rng(0).normal(size=(2, 5))
    centred = x - x.mean(-1, keepdims=True)
    layer = centred / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    rms = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(call(lambda t: t.layer_norm(1e-3), x), layer)
    np.testing.assert_allclose(call(lambda t: t.rms_norm(eps=1e-3), x), rms)


def test_activations():
    x = np.linspace(-3, 3, 7)
    s = 1 / (1 + np.exp(-x))
    for name, expected in [
        ("exp", np.exp(x)),
        ("tanh", np.tanh(x)),
        ("relu", np.maximum(x, 0)),
        ("sigmoid", s),
        ("silu", x * s),
    ]:
        np.testing.assert_allclose(call(lambda t, n=name: getattr(t, n)(), x), expected)


@given(st.data(), array_shapes(max_dims=3, max_side=3))
def test_shape_methods(data, shape):
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    rank = len(shape)
    axes = data.draw(st.permutations(range(-rank, 0)))
    wider = data.draw(broadcastable_shapes(shape, min_dims=rank, max_dims=rank + 1, max_side=3))
    full = np.broadcast_shapes(shape, wider)
    place = data.draw(st.integers(-rank - 1, rank))
    flipped = data.draw(st.one_of(st.none(), st.integers(-rank, rank - 1)))
    for build, expected in [
        (lambda t: t.permute_dims(axes), np.transpose(x, axes)),
        (lambda t: t.broadcast_to(full), np.broadcast_to(x, full)),
        (lambda t: t.expand_dims(place), np.expand_dims(x, place)),
        (lambda t: t.flip(flipped), np.flip(x, flipped)),
        (lambda t: t.squeeze(), np.squeeze(x)),
        (lambda t: t.reshape(-1), x.reshape(-1)),
        (lambda t: t.reshape((1, x.size, -1)), x.reshape(1, x.size, 1)),
    ]:
        np.testing.assert_array_equal(call(build, x), expected)


def test_expand_dims_takes_several_axes(g):
    x = g.input((2, 3))
    assert x.expand_dims((0, -1)).shape == (1, 2, 3, 1)
    assert x.expand_dims((0, -1)).squeeze((0, -1)).shape == (2, 3)
    with pytest.raises(fuel.ShapeError, match="given twice"):
        x.expand_dims((0, 0))
    with pytest.raises(fuel.ShapeError, match="out of bounds"):
        x.expand_dims(3)


@given(st.data())
def test_matmul_operator_is_numpys(data):
    m, k, n = (data.draw(st.integers(0, 3)) for _ in range(3))
    batch = data.draw(mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
    left = data.draw(st.sampled_from([(k,), (*batch.input_shapes[0], m, k)]))
    right = data.draw(st.sampled_from([(k,), (*batch.input_shapes[1], k, n)]))
    a, b = data.draw(numbers("f64", left)), data.draw(numbers("f32", right))
    np.testing.assert_array_equal(call(operator.matmul, a, b), a @ b)


def test_a_product_may_be_allowed_to_round_its_factors(g):
    x = g.input((2, 3, 4), "f32")
    w = g.input((4, 5), "f32")
    module = g.build(fuel.matmul(x, w, allow_tf32=True), x.matmul(w, allow_tf32=True), x @ w)
    assert str(module).count("{allow_tf32}") == 2
    canonical = module.clone()
    CommonSubexpressionElimination().apply(make_context(), canonical)
    assert str(canonical).count("{allow_tf32}") == 1, "a rounded product is no exact one"
    assert str(canonical).count("fuel.matmul") == 2


def test_matmul_operator_errors(g):
    x = g.input((2, 3, 4))
    for other, error, text in [
        (g.input(()), fuel.ShapeError, "rank >= 1"),
        (g.input((3, 5)), fuel.ShapeError, "inner dim mismatch"),
        (g.input((3,)), fuel.ShapeError, "inner dim mismatch"),
        (g.input((3, 4, 5)), fuel.ShapeError, "incompatible shapes"),
        (g.input((4, 5), "i32"), fuel.DTypeError, "do not promote"),
        (2.0, fuel.DTypeError, "got float"),
    ]:
        with pytest.raises(error, match=text):
            operator.matmul(x, other)
    assert g.op_count == 0


@given(
    mutually_broadcastable_shapes(num_shapes=3, max_dims=2, max_side=3),
    st.sampled_from([("i8", "i32"), ("f16", "f32"), ("ui8", "i8"), ("f32", "f32")]),
    st.data(),
)
def test_where_maximum_and_minimum_are_numpys(shapes, pair, data):
    c, a, b = shapes.input_shapes
    mask = data.draw(arrays(np.bool_, c))
    x, y = data.draw(numbers(pair[0], a)), data.draw(numbers(pair[1], b))
    np.testing.assert_array_equal(call(fuel.where, mask, x, y), np.where(mask, x, y))
    np.testing.assert_array_equal(call(fuel.maximum, x, y), np.maximum(x, y))
    np.testing.assert_array_equal(call(fuel.minimum, x, y), np.minimum(x, y))
    weakly = call(lambda m, t: fuel.where(m, t, 3), mask, x)
    assert weakly.dtype == x.dtype
    np.testing.assert_array_equal(weakly, np.where(mask, x, x.dtype.type(3)))


def test_where_of_two_numbers_takes_numpys_default():
    mask = np.array([True, False])
    for pair in [(1.0, 0.0), (1, 0), (True, False), (1, 0.5)]:
        out = call(lambda m, p=pair: fuel.where(m, *p), mask)
        assert out.dtype == np.where(mask, *pair).dtype
        np.testing.assert_array_equal(out, np.where(mask, *pair))
    (t,) = bind(mask)
    np.testing.assert_array_equal(run(fuel.where(True, t, ~t), mask), mask)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (None, 1.5), (-0.5, None), (None, None), (f32([0, 1, 2]), 2)]
)
def test_clip(low, high):
    x = f32([-2, 0.25, np.nan])
    out = call(lambda t: t.clip(low, high), x)
    np.testing.assert_array_equal(out, x if low is high is None else np.clip(x, low, high))


def test_clip_of_integers_keeps_every_bit():
    x = np.array([2**62 + 1, -(2**62) - 1, 5])
    for low, high in [(None, None), (0, None), (None, 2**62), (3, 2**62 + 1)]:
        out = call(lambda t, a=low, b=high: t.clip(a, b), x)
        expected = np.clip(x, low, high) if (low, high) != (None, None) else x
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(fuel.DTypeError, match="common dtype"):
        bind(x)[0].clip(0.5)


def test_concat():
    a, b = np.array([[1, 2]], np.int8), np.array([[3, 4], [5, 6]], np.int16)
    np.testing.assert_array_equal(call(lambda x, y: fuel.concat([x, y, a]), a, b), [*a, *b, *a])
    flat = call(lambda x, y: x.graph.concat((x, y), axis=None), a, b)
    np.testing.assert_array_equal(flat, [1, 2, 3, 4, 5, 6])
    assert flat.dtype == np.int16
    x, y = bind(a, b)
    for bad, error, text in [
        (lambda: fuel.concat([x, y], 1), fuel.ShapeError, "non-dim shapes"),
        (lambda: fuel.concat([x, x[0]]), fuel.ShapeError, "rank mismatch"),
        (lambda: fuel.concat(x), fuel.DTypeError, "a list of tensors, got Tensor"),  # pyright: ignore[reportArgumentType]
        (lambda: fuel.concat([]), fuel.GraphError, "one tensor"),
        (lambda: fuel.concat([x, y], 2), fuel.ShapeError, "out of bounds"),
        (lambda: fuel.concat([x, x.astype("f32")]), fuel.DTypeError, "do not promote"),
    ]:
        with pytest.raises(error, match=text):
            bad()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [[0, -1, 1], [[0, 1], [-2, 0]], []])
def test_take(axis, indices):
    x = f32(np.arange(12).reshape(3, 4))
    chosen = np.array(indices, np.int64)
    expected = np.take(x, chosen, axis)
    np.testing.assert_array_equal(call(lambda t: t.take(indices, axis), x), expected)
    for name in ("i8", "i64"):
        given_ = chosen.astype(dtypes.BY_NAME[name].numpy)
        np.testing.assert_array_equal(call(lambda t, i: t.take(i, axis), x, given_), expected)
    positive = (chosen % x.shape[axis]).astype(np.uint32)
    np.testing.assert_array_equal(call(lambda t, i: t.take(i, axis), x, positive), expected)


@pytest.mark.parametrize("bad", [3, -4, 2**32, -(2**63), 2**63 - 1, 2**32 + 1, -(2**32)])
def test_take_never_reads_out_of_range(bad):
    x = f32([1, 2, 3])
    with pytest.raises(fuel.IndexOutOfRange, match=f"{bad} is out of bounds"):
        bind(x)[0].take([0, bad], 0)
    index = np.array([0, bad])
    with pytest.raises(fuel.IndexOutOfRange, match="index_select"):
        call(lambda t, i: t.take(i, 0), x, index)


def test_take_along_axis():
    x = f32(np.arange(12).reshape(3, 4))
    order = np.argsort(-x, axis=1)
    for axis, indices in [(1, order), (-1, order[:1]), (0, order[:2] % 3), (1, order[:, :2])]:
        expected = np.take_along_axis(x, indices, axis)
        out = call(lambda t, i, a=axis: t.take_along_axis(i, a), x, indices)
        np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(
        call(lambda t: t.take_along_axis(order, 1), x), np.take_along_axis(x, order, 1)
    )
    (t,) = bind(x)
    with pytest.raises(fuel.ShapeError, match="same rank"):
        t.take_along_axis([0], 1)
    with pytest.raises(fuel.ShapeError, match="incompatible"):
        t.take_along_axis(order[:2], 1)


def test_astype_rounds_and_saturates():
    x = f32([1.7, -300, np.nan])
    np.testing.assert_array_equal(call(lambda t: t.astype("i8"), x), [1, -128, 0])
    np.testing.assert_array_equal(call(lambda t: t.astype(np.bool_), x), [True, True, True])
