# SPDX-License-Identifier: MIT OR Apache-2.0
"""The strict builders: a method for each op, with its errors; and methods of several ops."""

from __future__ import annotations

import numpy as np
import pytest

import fuel_dialect as fuel
from fuel_dialect.dialect import OPS
from fuel_dialect.dtypes import TABLE
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import LeafOp
from fuel_dialect.ops.control import YieldOp
from fuel_dialect.ops.elementwise import FILLABLE
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.ops.scan import ScanYieldOp


@pytest.fixture
def g():
    return fuel.Graph()


def f32(values):
    return np.array(values, np.float32)


def run(tensor, *arrays):
    (out,) = evaluate(tensor.graph.build(tensor), *arrays)
    return out


def made_by(tensor):
    return tensor.value.owner.name.removeprefix("fuel.")


def names(g):
    return [op.name.removeprefix("fuel.") for op in g.trace.root.block.ops]


def test_every_op_kind_has_a_method_of_its_name():
    structural = (LeafOp, RegionOp, ScanYieldOp)
    kinds = [op for op in OPS if not issubclass(op, structural) and op is not YieldOp]
    assert [op.mnemonic() for op in kinds if not hasattr(fuel.Tensor, op.mnemonic())] == []
    assert len(kinds) > 60


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "rem", "maximum", "minimum"])
def test_binary_builders_are_strict(g, name):
    a, b = g.input((3,)), g.input((3,))
    made = getattr(a, name)(b)
    assert (made.shape, made.dtype, made_by(made)) == ((3,), a.dtype, name)
    assert list(made.value.owner.operands) == [a.value, b.value]
    for other, error, text in [
        (g.input((1,)), fuel.ShapeError, "shape mismatch"),
        (g.input((3,), "f64"), fuel.DTypeError, "dtype mismatch"),
        (g.input((2,), "f64"), fuel.DTypeError, "dtype mismatch"),
        (2.0, fuel.DTypeError, "must be a fuel tensor, got float"),
    ]:
        before = g.op_count
        with pytest.raises(error, match=f"{name}.*{text}"):
            getattr(a, name)(other)
        assert g.op_count == before


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_give_masks(g, name):
    a, b = g.input((3,)), g.input((3,))
    made = getattr(a, name)(b)
    assert (made.shape, made.dtype.name, made_by(made)) == ((3,), "i1", name)
    assert list(made.value.owner.operands) == [a.value, b.value]
    with pytest.raises(fuel.ShapeError, match="shape mismatch"):
        getattr(a, name)(g.input((4,)))


UNARY = (
    "neg sqr abs relu step sign floor ceil round sqrt rsqrt recip exp log sin cos tanh sigmoid "
    "silu erf gelu gelu_tanh contiguize"
)


@pytest.mark.parametrize("name", UNARY.split())
def test_unary_builders_keep_shape_and_dtype(g, name):
    x = g.input((3,))
    made = getattr(x, name)()
    assert (made.type, made_by(made), list(made.value.owner.operands)) == (x.type, name, [x.value])


def test_functions_of_reals_refuse_integers(g):
    x = g.input((3,), "i32")
    with pytest.raises(fuel.UnsupportedDTypeForOp, match="exp: unsupported dtype i32") as caught:
        x.exp()
    assert (caught.value.op, caught.value.dtype) == ("exp", "i32")
    assert x.relu().dtype.name == "i32"


def test_scalar_builders(g):
    x = g.input((3,))
    y = x.add_scalar(1).mul_scalar(2.5).powi(3).clamp(-1, 10)
    assert (y.type, names(g)) == (x.type, ["add_scalar", "mul_scalar", "powi", "clamp"])
    np.testing.assert_array_equal(run(y, f32([-2, 0, 1])), [-1, 10, 10])
    for bad, error, text in [
        (lambda: x.clamp(2, 1), fuel.GraphError, "min 2.0 must be <= max 1.0"),
        (lambda: x.clamp(float("nan"), 1), fuel.GraphError, "must be <="),
        (lambda: x.add_scalar("one"), fuel.DTypeError, "expected a number"),
        (lambda: x.powi(1.5), fuel.DTypeError, "integer"),
    ]:
        with pytest.raises(error, match=text):
            bad()
    assert g.op_count == 4


def test_where_reads_condition_true_false(g):
    m, a, b = g.input((3,), "i1"), g.input((3,)), g.input((3,))
    made = m.where(a, b)
    assert (made.dtype.name, list(made.value.owner.operands)) == (
        "f32",
        [m.value, a.value, b.value],
    )
    with pytest.raises(fuel.DTypeError, match="condition must be i1"):
        a.where(a, b)
    with pytest.raises(fuel.ShapeError, match="shape mismatch"):
        m.where(a.slice(0, 0, 2), b.slice(0, 0, 2))


@pytest.mark.parametrize("entry", TABLE, ids=str)
def test_masked_fill_screens_every_dtype_before_the_value(g, entry):
    x, m = g.input((3,), entry.type), g.input((3,), "i1")
    if entry.name in FILLABLE:
        value = True if entry.kind == "mask" else 1
        assert x.masked_fill(m, value).type == x.type
        return
    with pytest.raises(fuel.UnsupportedDTypeForOp, match="masked_fill: unsupported dtype"):
        x.masked_fill(m, np.int64(3))


def test_masked_fill_checks_shape_then_mask_then_value(g):
    x = g.input((3,))
    for mask, value, error, text in [
        (g.input((4,), "f32"), 1.0, fuel.ShapeError, "shape mismatch"),
        (g.input((3,), "f32"), 1.0, fuel.DTypeError, "mask must be i1"),
        (g.input((3,), "i1"), np.float64(1), fuel.DTypeError, "must have the dtype f32"),
        (g.input((3,), "i1"), True, fuel.DTypeError, "True"),
    ]:
        with pytest.raises(error, match=text):
            x.masked_fill(mask, value)
    filled = x.masked_fill(g.input((3,), "i1"), -np.inf)
    out = evaluate(g.build(filled), f32([1, 2, 3]), *_fill_arguments(g))[0]
    np.testing.assert_array_equal(out, [-np.inf, 2, -np.inf])


def _fill_arguments(g):
    zeros = [np.zeros(t.shape, t.dtype.numpy) for t in g.inputs[1:-1]]
    return [*zeros, np.array([True, False, True])]


def test_cast_is_always_an_op(g):
    x = g.input((2, 3))
    assert (x.cast("f64").dtype.name, x.cast("f32").shape) == ("f64", (2, 3))
    assert names(g) == ["cast", "cast"]
    with pytest.raises(fuel.UnsupportedDTypeForOp):
        x.cast("f4E2M1FN")


def test_transpose_swaps_the_last_two_dims(g):
    assert g.input((2, 3)).transpose().shape == (3, 2)
    assert g.input((2, 3, 4)).transpose().shape == (2, 4, 3)
    assert g.input((2, 3, 4)).transpose(2, 0, 1).shape == (4, 2, 3)
    with pytest.raises(fuel.ShapeError, match="rank >= 2"):
        g.input((3,)).transpose()


def test_permute_wants_a_permutation(g):
    x = g.input((2, 3, 4))
    assert x.permute(2, 0, 1).shape == x.permute([2, 0, 1]).shape == (4, 2, 3)
    for axes, text in [
        ((0, 1), "must equal tensor rank"),
        ((0, 1, 3), "out of bounds"),
        ((0, 1, -1), "out of bounds"),
        ((0, 1, 1), "duplicate"),
    ]:
        with pytest.raises(fuel.ShapeError, match=text):
            x.permute(*axes)
    assert g.op_count == 2


def test_broadcast_to_follows_numpy(g):
    assert g.input((3,)).broadcast_to(2, 3).shape == (2, 3)
    assert g.input((3, 1)).broadcast_to((3, 4)).shape == (3, 4)
    assert g.input(()).broadcast_to(()).shape == ()
    assert g.op_count == 3
    with pytest.raises(fuel.ShapeError, match="incompatible"):
        g.input((3,)).broadcast_to(2, 4)
    with pytest.raises(fuel.ShapeError, match="rank"):
        g.input((2, 3)).broadcast_to(3)


def test_unsqueeze_and_squeeze(g):
    x = g.input((2, 3))
    assert [x.unsqueeze(d).shape for d in (0, 1, 2)] == [(1, 2, 3), (2, 1, 3), (2, 3, 1)]
    assert g.input((2, 1, 3)).squeeze(1).shape == (2, 3)
    for bad, text in [
        (lambda: x.unsqueeze(3), "out of bounds"),
        (lambda: x.squeeze(0), "expected 1"),
        (lambda: x.squeeze(2), "out of bounds"),
    ]:
        with pytest.raises(fuel.ShapeError, match=text):
            bad()


def test_reshape_keeps_the_element_count(g):
    x = g.input((2, 6))
    assert x.reshape(3, 4).shape == x.reshape((3, -1)).shape == (3, 4)
    assert x.reshape(-1).shape == (12,)
    assert g.input((0, 4)).reshape(2, -1).shape == (2, 0)
    for dims in [(5,), (5, -1), (-1, -1), (0, -1)]:
        with pytest.raises(fuel.ShapeError, match=r"element count mismatch|static"):
            x.reshape(dims)


def test_slice_and_concat(g):
    x, y = g.input((3, 4)), g.input((3, 2))
    assert x.slice(1, 1, 2).shape == (3, 2)
    assert x.slice(1, 4, 0).shape == (3, 0)
    joined = x.concat(y, 1)
    assert (joined.shape, x.concat([y, y], 1).shape) == ((3, 6), (3, 8))
    assert list(joined.value.owner.operands) == [x.value, y.value]
    for bad, error, text in [
        (lambda: x.slice(1, 3, 2), fuel.ShapeError, "exceeds dim size"),
        (lambda: x.slice(2, 0, 1), fuel.ShapeError, "out of bounds"),
        (lambda: x.concat(y, 0), fuel.ShapeError, "non-dim shapes"),
        (lambda: x.concat(y.reshape(6), 0), fuel.ShapeError, "rank mismatch"),
        (lambda: x.concat(y, 2), fuel.ShapeError, "out of bounds"),
        (lambda: x.concat(y.cast("f64"), 1), fuel.DTypeError, "dtype mismatch"),
    ]:
        with pytest.raises(error, match=text):
            bad()


def test_reductions(g):
    x = g.input((2, 3, 4))
    assert [getattr(x, f"{r}_all")().shape for r in ("sum", "max", "min", "mean")] == [()] * 4
    for name in ("sum", "max", "min", "mean", "argmax", "argmin"):
        reduced = getattr(x, f"{name}_dim")(1)
        assert reduced.shape == (2, 4)
        assert reduced.dtype.name == ("ui32" if name.startswith("arg") else "f32")
        with pytest.raises(fuel.ShapeError, match="out of bounds"):
            getattr(x, f"{name}_dim")(3)
    with pytest.raises(fuel.ShapeError, match="out of bounds"):
        x.sum_dim(-1)


@pytest.mark.parametrize("name", ["reduce_sum_to", "reduce_max_to"])
def test_reduce_to_a_shape_that_broadcasts_back(g, name):
    x = g.input((3, 4))
    assert [getattr(x, name)(s).shape for s in ((4,), (3, 1))] == [(4,), (3, 1)]
    assert names(g) == [name, name]
    with pytest.raises(fuel.ShapeError, match="incompatible"):
        getattr(x, name)((3, 2))


def test_empty_reductions_without_a_value_are_refused(g):
    x = g.input((0, 3))
    assert run(x.sum_all(), np.zeros((0, 3), np.float32)) == 0
    assert x.max_dim(1).shape == (0,)
    for bad in (x.max_all, x.min_all, lambda: x.argmax_dim(0), lambda: x.max_dim(0)):
        with pytest.raises(fuel.ShapeError, match="empty reduction"):
            bad()


@pytest.mark.parametrize(
    ("a", "b", "shape", "ops"),
    [
        ((2, 3), (3, 4), (2, 4), ["matmul"]),
        ((2, 3, 4), (2, 4, 5), (2, 3, 5), ["matmul"]),
        ((2, 3, 4), (4, 5), (2, 3, 5), ["broadcast_to", "matmul"]),
        ((3, 4), (2, 4, 5), (2, 3, 5), ["broadcast_to", "matmul"]),
        ((1, 8, 1, 6), (1, 2, 6, 5), (1, 8, 1, 5), ["matmul"]),
    ],
)
def test_matmul_batches_broadcast_one_rank_2_operand(g, a, b, shape, ops):
    x, y = g.input(a), g.input(b)
    made = x.matmul(y)
    assert (made.shape, names(g)) == (shape, ops)
    left, right = np.random.default_rng(0).random(a), np.random.default_rng(1).random(b)
    if len(a) == 4:
        expected = left @ np.repeat(right, 4, axis=1)
    else:
        expected = left @ right
    np.testing.assert_allclose(run(made, f32(left), f32(right)), expected, rtol=1e-6)


def test_matmul_errors_leave_no_broadcast_behind(g):
    x, y = g.input((2, 3, 4)), g.input((5, 6))
    for bad, error, text in [
        (lambda: x.matmul(y), fuel.ShapeError, "inner dim mismatch"),
        (lambda: x.matmul(g.input((3, 4, 5))), fuel.ShapeError, "batch dim mismatch"),
        (lambda: x.matmul(g.input((1, 2, 4, 5))), fuel.ShapeError, "ranks"),
        (lambda: x.matmul(g.input((4,))), fuel.ShapeError, "rank >= 2"),
        (lambda: x.matmul(g.input((2, 4, 5), "f64")), fuel.DTypeError, "dtype mismatch"),
    ]:
        with pytest.raises(error, match=text):
            bad()
    assert g.op_count == 0
    assert x.matmul(g.input((2, 4, 5), "bf16")).dtype.name == "f32"


def test_indexing(g):
    x, i = g.input((3, 4)), g.input((5,), "ui32")
    assert x.index_select(0, i).shape == (5, 4)
    assert x.gather(1, g.input((2, 5), "ui32")).shape == (2, 5)
    for bad, error, text in [
        (lambda: x.index_select(0, g.input((5,))), fuel.DTypeError, "must be U32"),
        (lambda: x.index_select(0, g.input((5, 1), "ui32")), fuel.ShapeError, "must be rank 1"),
        (lambda: x.index_select(2, i), fuel.ShapeError, "out of bounds"),
        (lambda: x.gather(1, g.input((2, 5))), fuel.DTypeError, "U32"),
        (lambda: x.gather(1, i), fuel.ShapeError, "same rank"),
    ]:
        with pytest.raises(error, match=text):
            bad()


def test_norms_along_the_last_dim(g):
    x = g.input((2, 2))
    for made in (
        x.softmax_last_dim(),
        x.log_softmax_last_dim(),
        x.layer_norm_last_dim(1e-5),
        x.rms_norm_last_dim(1e-5),
    ):
        assert made.type == x.type
    with pytest.raises(fuel.ShapeError, match="rank >= 1"):
        g.input(()).softmax_last_dim()
    with pytest.raises(fuel.ShapeError, match="must be > 0"):
        g.input((2, 0)).rms_norm_last_dim(1e-5)


def test_transfers_name_a_device(g):
    x = g.input((2,))
    assert str(x.copy("cuda:1").value.owner.to) == "cuda:1"
    assert made_by(x.move("cpu")) == "move"
    with pytest.raises(fuel.UnknownDevice, match="no device!"):
        x.copy("no device!")


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("broadcast_add", np.add),
        ("broadcast_sub", np.subtract),
        ("broadcast_mul", np.multiply),
        ("broadcast_div", np.divide),
    ],
)
def test_broadcast_compositions(g, name, function):
    a, b, c = g.input((4, 1)), g.input((1, 3)), g.input((3,))
    assert (getattr(a, name)(b).shape, g.op_count) == ((4, 3), 3)
    assert (getattr(c, name)(b).shape, g.op_count) == ((1, 3), 5)
    one, two, three = f32([[1], [2], [3], [4]]), f32([[1, 2, 4]]), f32([1, 2, 3])
    np.testing.assert_array_equal(run(getattr(a, name)(b), one, two, three), function(one, two))
    with pytest.raises(fuel.ShapeError, match="incompatible shapes"):
        getattr(g.input((4,)), name)(b)
    with pytest.raises(fuel.DTypeError, match="dtype mismatch"):
        getattr(a, name)(g.input((4, 1), "i32"))


def test_ieee_max_and_min_suppress_nan_and_keep_the_first_zero(g):
    a, b = g.input((6,)), g.input((6,))
    low, high = a.fmin_ieee(b), a.fmax_ieee(b)
    assert names(g) == "le where ne where ne where ge where ne where ne where".split()
    x, y = f32([1, np.nan, 2, np.nan, -0.0, 0.0]), f32([2, 1, np.nan, np.nan, 0.0, -0.0])
    for made, expected in ((high, [2, 1, 2, np.nan, -0.0, 0.0]), (low, [1, 1, 2, np.nan, -0.0, 0])):
        out = run(made, x, y)
        np.testing.assert_array_equal(out, f32(expected))
        np.testing.assert_array_equal(np.signbit(out[4:]), [True, False])


def test_trunc_keeps_signed_zeros_and_rem_trunc_the_sign_of_the_dividend(g):
    x, y = g.input((6,)), g.input((6,))
    values = f32([-0.5, -0.0, 0.0, np.nan, np.inf, 2.0**23])
    t = x.trunc()
    assert names(g) == ["const", "ge", "floor", "ceil", "where"]
    out = run(t, values, values)
    np.testing.assert_array_equal(out, np.trunc(values))
    np.testing.assert_array_equal(np.signbit(out[:3]), [True, True, False])
    a, b = f32([-7, 7, -7, 7, 5, 0]), f32([3, 3, -3, -3, np.inf, 1])
    with np.errstate(invalid="ignore"):
        expected = a - np.trunc(a / b) * b
    np.testing.assert_array_equal(run(x.rem_trunc(y), a, b), expected)
    assert run(x.rem(y), a, b)[0] == 2
    i = g.input((2,), "i32")
    assert i.trunc() is i
    s = fuel.Graph()
    assert run(s.input(()).trunc(), np.float32(-1.5)) == -1


def test_rms_norm_decomposes_into_seven_ops(g):
    x = g.input((2, 4))
    made = x.rms_norm_last_dim_decomposed(1e-5)
    assert names(g) == ["sqr", "mean_dim", "reshape", "add_scalar", "sqrt", "broadcast_to", "div"]
    values = f32(np.arange(8).reshape(2, 4))
    np.testing.assert_allclose(run(made, values), run(x.rms_norm_last_dim(1e-5), values), rtol=1e-6)


def test_rope_is_eleven_ops_on_two_tables(g):
    x = g.input((2, 3, 4))
    made = x.rope(base=100.0, start_pos=2)
    rotation = "reshape reshape broadcast_to broadcast_to slice slice neg concat mul mul add"
    assert names(g) == ["const", "const", *rotation.split()]
    values = f32(np.random.default_rng(0).random((2, 3, 4)))
    angles = np.outer([2, 3, 4], [1, 0.1])
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = values[..., :2], values[..., 2:]
    expected = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    np.testing.assert_allclose(run(made, values), expected, rtol=1e-6)
    assert g.input((2, 4), "bf16").rope().dtype.name == "bf16"


def test_rope_errors(g):
    x, cos = g.input((3, 4)), g.input((3, 4))
    for bad, error, text in [
        (lambda: g.input((4,)).rope(), fuel.ShapeError, "rank >= 2"),
        (lambda: g.input((3, 5)).rope(), fuel.ShapeError, "even"),
        (lambda: g.input((3, 4), "i32").rope(), fuel.DTypeError, "float"),
        (lambda: x.rope_with_tables(cos, g.input((1, 3, 4))), fuel.ShapeError, r"sin .*\[3, 4\]"),
        (
            lambda: x.rope_with_tables(cos, g.input((3, 4), "f64")),
            fuel.DTypeError,
            "dtype mismatch",
        ),
        (lambda: fuel.rope_tables(3, 5), fuel.ShapeError, "even"),
        (lambda: fuel.rope_tables(3, 4, inv_freq=[1.0]), fuel.ShapeError, "2 frequencies"),
    ]:
        with pytest.raises(error, match=text):
            bad()
    assert g.op_count == 0


def test_rope_tables_can_start_anywhere():
    cos, sin = fuel.rope_tables(5, 6)
    assert cos.dtype == sin.dtype == np.float32
    np.testing.assert_array_equal((cos[0], sin[0]), ([1] * 6, [0] * 6))
    late = fuel.rope_tables(3, 6, start_pos=2)
    np.testing.assert_array_equal(late, (cos[2:], sin[2:]))
    same = fuel.rope_tables(5, 6, inv_freq=[10000.0 ** (-2 * i / 6) for i in range(3)])
    np.testing.assert_array_equal(same, (cos, sin))
