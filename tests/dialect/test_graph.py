# SPDX-License-Identifier: MIT OR Apache-2.0
"""Building programs: inputs, leaves, build, identity, threads, and what errors leave behind."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import fuel_dialect as fuel
from effort import SLOW
from fuel_dialect import errors
from fuel_dialect.context import parse_module
from fuel_dialect.dtypes import TABLE
from fuel_dialect.interpreter.evaluate import evaluate


def f32(values):
    return np.array(values, np.float32)


def function(module):
    (op,) = module.ops
    assert isinstance(op, FuncOp)
    return op


def op_names(module):
    return [op.name.removeprefix("fuel.") for op in function(module).body.block.ops]


def test_import_is_lazy():
    code = (
        "import sys, fuel_dialect; "
        "heavy = [m for m in sys.modules if m.split('.')[0] in ('numpy', 'xdsl', 'ml_dtypes')]; "
        "print(heavy, len(fuel_dialect.__all__), fuel_dialect.FuelError.__name__)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["[]", str(len(fuel.__all__)), "FuelError"]


def test_every_public_name_resolves():
    assert all(getattr(fuel, name).__name__ == name for name in fuel.__all__)
    assert set(fuel.__all__) <= set(dir(fuel))
    named = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert named - {"PassFailedException"} <= set(fuel.__all__), "every error can be caught by name"
    with pytest.raises(AttributeError, match="nothing_here"):
        fuel.nothing_here


def test_the_design_example_builds_and_runs():
    g = fuel.Graph()
    x = g.input((8, 16), "f32", name="x")
    w = g.input((16, 4), "f32", name="w")
    module = g.build((x @ w).relu().softmax())
    a, b = (np.linspace(-1, 1, n, dtype=np.float32) for n in (128, 64))
    a, b = a.reshape(8, 16), b.reshape(16, 4)
    (y,) = evaluate(module, a, b)
    e = np.exp(np.maximum(a @ b, 0))
    np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-6)


def test_arguments_are_all_inputs_in_order_with_their_names():
    g = fuel.Graph()
    x, _, z = g.input((2,), name="x"), g.input((3,), "i64"), g.input((), "f64", name="layer.z")
    main = function(g.build(x + 1.0, z, names=["first", "second"]))
    assert [str(t) for t in main.function_type.inputs] == [
        "tensor<2xf32>",
        "tensor<3xi64>",
        "tensor<f64>",
    ]
    assert main.arg_attrs is not None
    assert main.res_attrs is not None
    assert [str(a) for a in main.arg_attrs] == [
        '{fuel.name = "x"}',
        "{}",
        '{fuel.name = "layer.z"}',
    ]
    assert [str(a) for a in main.res_attrs] == ['{fuel.name = "first"}', '{fuel.name = "second"}']
    assert [t.shape for t in g.inputs] == [(2,), (3,), ()]


def test_build_takes_only_what_the_results_need_and_can_be_repeated():
    g = fuel.Graph()
    x = g.input((2,))
    y, z = x.exp(), x.log().neg()
    assert op_names(g.build(y)) == ["exp", "func.return"]
    assert op_names(g.build(z, name="other")) == ["log", "neg", "func.return"]
    assert function(g.build(z, name="other")).sym_name.data == "other"
    assert op_names(g.build((y, z))) == ["exp", "log", "neg", "func.return"]
    assert op_names(g.build([x, x])) == ["func.return"]
    (y.add(z)).relu()
    assert op_names(g.build(y)) == ["exp", "func.return"]


def test_modules_round_trip_through_text():
    g = fuel.Graph()
    x = g.input((4, 3), name="x")
    y = g.branch(x, [lambda a: a.relu(), lambda a: a.exp()])
    total, ys = g.scan(lambda c, r: (c + r, c), g.constant(np.zeros(3, np.float32)), y)
    text = str(g.build(total, ys))
    assert str(parse_module(text)) == text


@SLOW
def test_a_chain_of_20_000_ops_builds():
    g = fuel.Graph()
    x = y = g.input((2,))
    for _ in range(20_000):
        y = y.neg()
    module = g.build(y)
    assert g.op_count == 20_000
    assert len(op_names(module)) == 20_001
    (out,) = evaluate(module, f32([1, 2]))
    assert x.shape == y.shape
    np.testing.assert_array_equal(out, [1, 2])


def test_shared_and_repeated_operands_appear_once():
    g = fuel.Graph()
    a, b = g.input((3,)), g.input((3,))
    total = a.add(b)
    assert op_names(g.build(total.mul(a))) == ["add", "mul", "func.return"]
    assert op_names(g.build(a.add(a))) == ["add", "func.return"]
    chain = a.add(b).mul(b).sqr().relu()
    assert op_names(g.build(chain)) == ["add", "mul", "sqr", "relu", "func.return"]


def test_graph_ids_count_up_and_differ():
    first, second = fuel.Graph(), fuel.Graph()
    assert second.id == first.id + 1
    assert first.input((2,)).graph is first
    assert repr(second) == f"<fuel.Graph #{second.id}: 0 inputs, 0 ops>"


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b, m: a.add(b),
        lambda a, b, m: a + b,
        lambda a, b, m: a.masked_fill(b, 1.0),
        lambda a, b, m: m.where(a, b),
        lambda a, b, m: fuel.where(m, a, b),
        lambda a, b, m: fuel.concat([a, b]),
        lambda a, b, m: a.concat(b, 0),
        lambda a, b, m: a @ b,
        lambda a, b, m: a.matmul(b),
        lambda a, b, m: a.broadcast_add(b),
        lambda a, b, m: a.rope_with_tables(b, a),
        lambda a, b, m: a.rope_with_tables(a, b),
        lambda a, b, m: a.take(b, 0),
        lambda a, b, m: a.graph.branch((a, b), [lambda a, b: a]),
        lambda a, b, m: a.graph.scan(lambda c, x: (c, None), a, b),
        lambda a, b, m: a.graph.build(b),
    ],
)
def test_operands_of_two_graphs_are_refused_before_anything_else(build):
    g, other = fuel.Graph(), fuel.Graph()
    a, m = g.input((4, 4)), g.input((4, 4), "i1")
    b = other.input((3, 5), "f64")
    with pytest.raises(fuel.GraphError, match="same graph") as caught:
        build(a, b, m)
    assert f"#{g.id}" in str(caught.value)
    assert f"#{other.id}" in str(caught.value)
    assert g.op_count == other.op_count == 0


def test_input_errors():
    g = fuel.Graph()
    g.input((2,), name="x")
    for bad, error, text in [
        (lambda: g.input((2,), name="x"), fuel.GraphError, "'x' is taken"),
        (lambda: g.input((2,), name=""), fuel.GraphError, "non-empty"),
        (lambda: g.input((-1,)), fuel.ShapeError, "static"),
        (lambda: g.input((2.5,)), fuel.DTypeError, "integer"),
        (lambda: g.input("ab"), fuel.DTypeError, "integer"),
        (lambda: g.input((2,), "u16"), fuel.DTypeError, "no dtype"),
        (lambda: g.iota(-1), fuel.ShapeError, "static"),
    ]:
        with pytest.raises(error, match=text):
            bad()
    assert len(g.inputs) == 1
    assert g.input(5).shape == (5,)


def test_build_errors():
    g = fuel.Graph()
    x = g.input((2,))
    for bad, text in [
        (lambda: g.build(), "one result"),
        (lambda: g.build([]), "one result"),
        (lambda: g.build(3), "result 0 is a int"),
        (lambda: g.build(x, 3), "result 1 is a int"),
        (lambda: g.build(x, names=["a", "b"]), "2 names for 1 results"),
        (lambda: g.build(x, x, names=["a", "a"]), "taken"),
    ]:
        with pytest.raises(fuel.GraphError, match=text):
            bad()


@pytest.mark.parametrize("entry", [d for d in TABLE if d.numpy_name], ids=str)
def test_constants_of_every_dtype_keep_their_bits(entry):
    bits = np.arange(6, dtype=np.uint8) % 2 if entry.kind == "mask" else np.arange(6) + 1
    array = bits.astype(entry.numpy).reshape(2, 3)
    g = fuel.Graph()
    c = g.constant(array)
    assert (c.shape, c.dtype) == ((2, 3), entry)
    (out,) = evaluate(g.build(c))
    assert out.dtype == array.dtype
    assert out.tobytes() == array.tobytes()


def test_constants_from_numbers_and_lists():
    g = fuel.Graph()
    cases = [
        (g.constant(1.5), "f64", 1.5),
        (g.constant(3), "i64", 3),
        (g.constant(True), "i1", True),
        (g.constant(3, "f32"), "f32", np.float32(3)),
        (g.constant(0.1, "bf16"), "bf16", np.asarray(0.1, ml_dtypes.bfloat16)),
        (g.constant(255, "ui8"), "ui8", 255),
        (g.constant([[1, 2], [3, 4]], "i8"), "i8", [[1, 2], [3, 4]]),
        (g.constant(2.5, "f32", shape=(2, 2)), "f32", np.full((2, 2), 2.5)),
        (g.constant(np.float16(2), shape=3), "f16", np.full(3, 2)),
        (g.constant([1, 2, 3, 4], "f32", shape=(2, 2)), "f32", [[1, 2], [3, 4]]),
        (g.constant(np.array([1e39, np.nan]), "f32"), "f32", [np.inf, np.nan]),
        (g.iota(4), "f32", [0, 1, 2, 3]),
    ]
    results = evaluate(g.build([c for c, _, _ in cases]))
    for (tensor, dtype, value), result in zip(cases, results, strict=True):
        assert tensor.dtype.name == dtype
        np.testing.assert_array_equal(result, value)


def test_constant_errors():
    g = fuel.Graph()
    for bad, error, text in [
        (lambda: g.constant([1.0, 2.0], "f32", shape=(3,)), fuel.ShapeError, "shape element count"),
        (lambda: g.constant([[1], [2, 3]]), fuel.DTypeError, "cannot make a tensor"),
        (lambda: g.constant("text"), fuel.DTypeError, "expected a number"),
        (lambda: g.constant(np.uint16(3)), fuel.DTypeError, "uint16"),
        (lambda: g.constant(300, "ui8"), fuel.DTypeError, "does not fit ui8"),
        (lambda: g.constant([300], "ui8"), fuel.DTypeError, "cannot make a tensor"),
        (lambda: g.constant(1.5, "i32"), fuel.DTypeError, "1.5"),
        (lambda: g.constant([1.0], "f4E2M1FN"), fuel.DTypeError, "bytes"),
    ]:
        with pytest.raises(error, match=text):
            bad()
    assert g.op_count == 0


def test_weights_have_one_type_each():
    g = fuel.Graph()
    w = g.weight("w", (2, 3), "bf16")
    again = g.weight("w", (2, 3), "bf16")
    array = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    for out in evaluate(g.build(w, again), weights={"w": array}):
        np.testing.assert_array_equal(out, array)
    with pytest.raises(fuel.ShapeError, match="'w' is tensor<2x3xbf16>"):
        g.weight("w", (3, 2), "bf16")
    with pytest.raises(fuel.DTypeError, match="not tensor<2x3xf32>"):
        g.weight("w", (2, 3), "f32")
    with pytest.raises(fuel.GraphError, match="name"):
        g.weight("", (2, 3))
    assert g.op_count == 2


def test_tensors_describe_themselves():
    g = fuel.Graph()
    x = g.input((2, 3), "f32", name="x")
    assert (x.shape, x.ndim, x.size, x.dtype.name, len(x)) == ((2, 3), 2, 6, "f32", 2)
    assert repr(x) == "<fuel.Tensor [2, 3] f32: x (tensor<2x3xf32>)>"
    assert "fuel.exp" in repr(x.exp())
    assert x.T.shape == (3, 2)
    assert {x: 1}[x] == 1


def test_tensors_have_no_truth_value_and_no_elements():
    g = fuel.Graph()
    x, y = g.input((2,)), g.input((2,))
    with pytest.raises(fuel.GraphError, match=r"if x == y.*fuel\.where"):
        bool(x == y)
    with pytest.raises(fuel.GraphError, match="truth value"):
        bool(x)
    with pytest.raises(fuel.GraphError, match="build the module"):
        np.asarray(x)
    with pytest.raises(fuel.ShapeError, match="no length"):
        len(x.sum())


def test_iteration_gives_the_rows():
    g = fuel.Graph()
    a, b = g.input((2, 3))
    array = f32([[1, 2, 3], [4, 5, 6]])
    one, two = evaluate(g.build(a, b), array)
    np.testing.assert_array_equal(one, array[0])
    np.testing.assert_array_equal(two, array[1])


def test_an_error_in_a_composition_leaves_the_graph_unchanged():
    g = fuel.Graph()
    x, m = g.input((2, 3)), g.input((2, 3), "i1")
    wide = x.astype("f64")
    before = g.op_count
    for bad in [
        lambda: x + np.zeros((4, 4), np.float32),
        lambda: wide.broadcast_add(m),
        lambda: wide.add(x),
        lambda: x @ np.zeros((4, 4), np.float32),
        lambda: x[0, 0, 0],
        lambda: x[:1, 5],
        lambda: x.max(axis=(0, 7)),
        lambda: x.softmax(axis=3),
        lambda: m.softmax(axis=0),
        lambda: fuel.where(m, x, np.zeros(7, np.float32)),
        lambda: fuel.concat([np.zeros((1, 3), np.float32), x, np.zeros((2, 2), np.float32)]),
        lambda: x.rope(),
        lambda: x.take([[0, 1]], 5),
        lambda: x.clip(np.zeros(5, np.float32)),
        lambda: x.matmul(g.inputs[0]),
        lambda: x.reshape(x),
        lambda: x.broadcast_to(x),
        lambda: x.permute(x),
        lambda: x.sum(x),  # pyright: ignore[reportArgumentType]
        lambda: g.constant([x, x]),
        lambda: x // m,
    ]:
        with pytest.raises(fuel.FuelError):
            bad()
        assert g.op_count == before


def test_threads_build_one_graph():
    g = fuel.Graph()
    x = g.input((2,))

    def chain(k):
        y = x
        for _ in range(200):
            y = (y * 1.0) + f32([k, k])
        return y

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(chain, range(4)))
    assert g.op_count == 4 * 200 * 3
    for k, out in enumerate(evaluate(g.build(results), f32([0, 1]))):
        np.testing.assert_array_equal(out, [200 * k, 200 * k + 1])


def test_the_lock_is_reentrant():
    g = fuel.Graph()
    x = g.input((2,))
    with g.lock, g.lock:
        y = x.relu()
    assert op_names(g.build(y)) == ["relu", "func.return"]


@pytest.mark.parametrize("name", ["", "a\nb", "\x00", 3])
def test_names_are_printable(name):
    g = fuel.Graph()
    with pytest.raises(
        fuel.GraphError, match="a name is a non-empty string of printable characters"
    ):
        g.input((2,), name=name)
    with pytest.raises(
        fuel.GraphError, match="a name is a non-empty string of printable characters"
    ):
        g.build(g.input((2,)), names=[name])


def test_a_name_that_another_value_is_known_by():
    g = fuel.Graph()
    x, y = g.input((2,), name="arg1"), g.input((2,))
    with pytest.raises(
        fuel.GraphError, match=r"input 0 is named 'arg1', which is what input 1 is call"
    ):
        g.build(x + y)
    g = fuel.Graph()
    x, y = g.input((2,), name="arg0"), g.input((2,))
    g.build(x, y)
    with pytest.raises(
        fuel.GraphError, match="result 1 is named 'result0', which is what result 0"
    ):
        g.build(x, y, names=[None, "result0"])


@pytest.mark.parametrize("shape", [(2**60,), (2**30, 2**30), (2**31, 0, 2**31), (10**23, 0)])
def test_shapes_that_no_machine_can_address(shape):
    g = fuel.Graph()
    for make in (
        lambda: g.input(shape),
        lambda: g.weight("w", shape),
        lambda: g.constant(1.0, "f32", shape),
        lambda: g.constant(1.0, "f32").broadcast_to(shape),
    ):
        with pytest.raises(
            fuel.ShapeError, match=r"is too large; a tensor has below 2\^60 elements"
        ):
            make()
    assert g.inputs == ()
    g.input((2**60 - 1,), "f64")


def finalised_twice(g, x):
    exit = x.relu()
    merge = exit.exp()
    builder = g.open_branch(x).add_arm(exit)
    assert builder.finalize(merge) is None
    builder.finalize(merge)


NUMBERS = "expected a number or an array of numbers"


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda g, x: g.branch(x, lambda a: a), fuel.GraphError, "arms must be a list of func"),
        (lambda g, x: g.branch(x, [3]), fuel.GraphError, "list of functions, arm 0 is a int"),
        (lambda g, x: g.branch(x, [abs], id=3), fuel.GraphError, "id must be a string, got 3"),
        (lambda g, x: g.branch(x, [abs, abs], [1, 2]), fuel.GraphError, "a target is text .* 1$"),
        (lambda g, x: g.branch(x, [abs], "cpu"), fuel.GraphError, "must be a list .* 'cpu'$"),
        (lambda g, x: g.branch(x, [abs] * 3, "cpu"), fuel.GraphError, "must be a list .* 'cpu'$"),
        (lambda g, x: g.open_branch(None), fuel.GraphError, "diverge is a NoneType"),
        (lambda g, x: g.open_branch(x).add_arm(3), fuel.GraphError, "arm 0 is a int"),
        (lambda g, x: g.open_branch(x).add_arm(x, 3), fuel.GraphError, "a target is text"),
        (lambda g, x: g.open_branch(x).finalize(None), fuel.GraphError, "reconverge is a None"),
        (finalised_twice, fuel.GraphError, "was already finalised"),
        (lambda g, x: g.weight(3, (2,)), fuel.GraphError, "weight: a name is a .*string.* got 3"),
        (lambda g, x: g.weight([], (2,)), fuel.GraphError, "weight: a name is a non-empty string"),
        (lambda g, x: g.build(x, name=""), fuel.GraphError, "build: a name is a non-empty string"),
        (lambda g, x: g.build(x, name=None), fuel.GraphError, "build: a name .* got None"),
        (
            lambda g, x: g.scan(lambda c, _: (c, None), x, length=True),
            fuel.DTypeError,
            "length must be an integer, got True",
        ),
        (lambda g, x: g.constant([1.5], "i32"), fuel.DTypeError, "1.5 .* i32.*not representable"),
        (lambda g, x: g.constant(np.array(1.5), "i32"), fuel.DTypeError, "not representable"),
        (lambda g, x: g.constant(np.array([-1]), "ui32"), fuel.DTypeError, "-1 does not fit ui32"),
        (lambda g, x: g.constant([np.nan], "i64"), fuel.DTypeError, "not representable|NaN"),
        (lambda g, x: g.constant([2.0**63], "i64"), fuel.DTypeError, "not representable|large"),
        (lambda g, x: g.constant(np.array([2]), "i1"), fuel.DTypeError, "2 does not fit i1"),
        (lambda g, x: g.constant(None), fuel.DTypeError, NUMBERS),
        (lambda g, x: g.constant(None, "f32"), fuel.DTypeError, NUMBERS),
        (lambda g, x: g.constant("a"), fuel.DTypeError, NUMBERS),
        (lambda g, x: g.constant("1.5", "f32"), fuel.DTypeError, NUMBERS),
        (lambda g, x: g.constant([1, None]), fuel.DTypeError, NUMBERS),
        (lambda g, x: g.constant(np.array([1j]), "f32"), fuel.DTypeError, NUMBERS),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(build, error, text):
    g = fuel.Graph()
    x = g.input((2,))
    with pytest.raises(error, match=text):
        build(g, x)


def test_array_constants_whose_values_fit_an_integer_dtype_are_kept():
    g = fuel.Graph()
    cases = [
        (np.array([1.0, -2.0]), "i32", [1, -2]),
        (np.array([1.0, 2.0], ml_dtypes.bfloat16), "ui8", [1, 2]),
        (np.array([2**32 - 1], np.uint64), "ui32", [2**32 - 1]),
        ([2**63 - 1, -(2**63)], "i64", [2**63 - 1, -(2**63)]),
        (np.array([1, 0]), "i1", [True, False]),
        (np.zeros((0,)), "i8", []),
    ]
    results = evaluate(g.build([g.constant(value, dtype) for value, dtype, _ in cases]))
    for (_, _, expected), result in zip(cases, results, strict=True):
        assert result.tolist() == expected


@pytest.mark.parametrize("convert", [float, int, complex])
def test_a_tensor_is_no_number_while_the_program_is_built(convert: type) -> None:
    x = fuel.Graph().input((), "f32", name="x")
    with pytest.raises(fuel.GraphError, match="has no number while the program is being built"):
        convert(x)
    assert ((np.float32(2) + x).shape, (np.ones(3, np.float32) * x).shape) == ((), (3,))
