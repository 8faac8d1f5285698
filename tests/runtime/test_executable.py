# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calling an executable: arguments, results, threads, warnings."""

from __future__ import annotations

import inspect
import re
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fuel_dialect.errors import ArgumentError, IndexOutOfRange, LoweringError
from fuel_runtime import Executable, Session

SCALE = """
func.func @main(%x: tensor<2x3xf32> {fuel.name = "x"}) -> tensor<2x3xf32> {
  %0 = fuel.mul_scalar %x {scalar = 2.0 : f64} : tensor<2x3xf32>
  %1 = fuel.add_scalar %0 {scalar = 1.0 : f64} : tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}
"""

AFFINE = """
func.func @main(%x: tensor<4x3xf32> {fuel.name = "x"}, %w: tensor<3x2xf32> {fuel.name = "w"},
                %b: tensor<2xf32>) -> (tensor<4x2xf32> {fuel.name = "y"}) {
  %0 = fuel.matmul %x, %w : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<4x2xf32>
  %1 = fuel.broadcast_to %b : tensor<2xf32> -> tensor<4x2xf32>
  %2 = fuel.add %0, %1 : tensor<4x2xf32>
  %3 = fuel.relu %2 : tensor<4x2xf32>
  func.return %3 : tensor<4x2xf32>
}
"""

X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
WANT = X * 2 + 1


@pytest.fixture(scope="module")
def scale() -> Executable:
    return Session(threads=2).compile(SCALE)


@pytest.fixture(scope="module")
def affine() -> Executable:
    return Session(threads=2).compile(AFFINE)


def affine_arguments(seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(seed)
    shapes = ((4, 3), (3, 2), (2,))
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes)


def affine_numpy(x: Any, w: Any, b: Any) -> np.ndarray[Any, Any]:
    return np.maximum(x @ w + b, np.float32(0))


def test_a_call_gives_a_tuple_of_new_arrays(scale: Executable) -> None:
    results = scale(X)
    assert type(results) is tuple
    (y,) = results
    assert type(y) is np.ndarray
    assert y.dtype == np.float32
    assert y.flags.writeable
    np.testing.assert_array_equal(y, WANT)


def test_several_arguments(affine: Executable) -> None:
    x, w, b = affine_arguments()
    (y,) = affine(x, w, b)
    np.testing.assert_allclose(y, affine_numpy(x, w, b), rtol=1e-6, atol=1e-6)


def test_arguments_by_name(affine: Executable) -> None:
    x, w, b = affine_arguments()
    (want,) = affine(x, w, b)
    for (got,) in (affine(w=w, arg2=b, x=x), affine(x, w, arg2=b), affine(x, arg2=b, w=w)):
        np.testing.assert_array_equal(got, want)


def test_optimised_or_not_the_results_agree() -> None:
    x, w, b = affine_arguments(1)
    (plain,) = Session().compile(AFFINE, optimize=False)(x, w, b)
    np.testing.assert_allclose(plain, affine_numpy(x, w, b), rtol=1e-6, atol=1e-6)


class ByArray:
    """An array of another library, as one sees it: `__array__` alone."""

    def __init__(self, array: np.ndarray[Any, Any]):
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self.array


class ByDlpack:
    """An array of another library that speaks DLPack alone."""

    def __init__(self, array: np.ndarray[Any, Any]):
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def misaligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    view = buffer[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


@pytest.mark.parametrize(
    "value",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        np.ascontiguousarray(X[::-1])[::-1],
        read_only(X),
        misaligned(X),
        X.astype(">f4"),
        X.view(np.recarray).view(type("Subclass", (np.ndarray,), {})),
        memoryview(X.tobytes()).cast("f", X.shape),
        ByArray(X),
        ByDlpack(X),
        X.tolist(),
        tuple(map(tuple, X.tolist())),
        [[-3, -2, -1], [0, 1, 2]],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_an_argument_may_be(scale: Executable, value: Any) -> None:
    (y,) = scale(value)
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, WANT)


def test_an_argument_stays_as_it_is(scale: Executable) -> None:
    x = X.copy()
    (y,) = scale(x)
    y[...] = 7
    np.testing.assert_array_equal(x, X)


def test_python_floats_round_and_keep_what_is_not_finite(scale: Executable) -> None:
    (y,) = scale([[0.1, float("inf"), float("nan")], [1, True, -0.5]])
    want = np.array([[0.1, np.inf, np.nan], [1, 1, -0.5]], np.float32) * 2 + 1
    np.testing.assert_array_equal(y, want)


TAKES = r"main takes 1 argument (x: f32[2, 3])"


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((), {}, f"{TAKES}; missing: 'x'"),
        ((X, X), {}, f"{TAKES}; got 2 arguments"),
        ((X,), {"x": X}, "main: argument 'x' is given twice"),
        ((), {"z": X}, "main has no argument 'z'; it takes 1 argument (x: f32[2, 3])"),
        ((X.T,), {}, "main: argument 0 (x): expected f32[2, 3], got f32[3, 2]"),
        ((X[0],), {}, "main: argument 0 (x): expected f32[2, 3], got f32[3]"),
        ((X.astype(np.float64),), {}, "main: argument 0 (x): expected f32[2, 3], got f64[2, 3]"),
        ((X.astype(np.int32),), {}, "main: argument 0 (x): expected f32[2, 3], got i32[2, 3]"),
        ((X.astype(complex),), {}, "expected f32[2, 3], got complex128[2, 3]"),
        ((X.astype(ml_dtypes.bfloat16),), {}, "expected f32[2, 3], got bf16[2, 3]"),
        ((np.float64(1),), {}, "expected f32[2, 3], got f64[]"),
        ((1.0,), {}, "expected f32[2, 3], got a number, 1.0"),
        (([[1, 2], [3]],), {}, "got list, which cannot be read as an array of numbers: "),
        (("abc",), {}, "got str, which cannot be read as an array of numbers"),
        ((None,), {}, "got NoneType, which cannot be read as an array of numbers"),
        (([[1j, 0, 0], [0, 0, 0]],), {}, "expected f32[2, 3], got complex128[2, 3]"),
        (([[1e300, 0, 0], [0, 0, 0]],), {}, "1e+300 is not a value of f32"),
        (([[2**24 + 1, 0, 0], [0, 0, 0]],), {}, "16777217 is not a value of f32"),
    ],
)
def test_arguments_that_do_not_fit(
    scale: Executable, arguments: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        scale(*arguments, **named)


def test_argument_errors_are_value_errors(scale: Executable) -> None:
    with pytest.raises(ValueError, match="expected f32"):
        scale(X.T)


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("i1", [True, False, 1], [0, 1, 2]),
        ("i8", [-128, 127, 2.0], [0, 1, 128]),
        ("ui8", [0, 255, True], [0, 1, -1]),
        ("ui32", [0, 2**32 - 1, 1], [0, 1, 2.5]),
        ("i64", [-(2**62), 2**62, 0], [0.5, 1, 2]),
        ("bf16", [1.0, 0.1, 256], [1, 2, 257]),
        ("f16", [65504.0, -0.5, 2], [1.0, 2.0, 1e6]),
    ],
)
def test_python_numbers_take_the_dtype_if_it_holds_them(
    dtype: str, good: list[Any], bad: list[Any]
) -> None:
    same = f"func.func @main(%x: tensor<3x{dtype}>) -> tensor<3x{dtype}> {{"
    exe = Session().compile(f"{same} func.return %x : tensor<3x{dtype}> }}")
    (y,) = exe(good)
    want = exe.signature.inputs[0].numpy
    assert y.dtype == want
    np.testing.assert_array_equal(y, np.array(good).astype(want))
    with pytest.raises(ArgumentError, match=f"is not a value of {dtype}$"):
        exe(bad)


def test_scalars() -> None:
    exe = Session().compile(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {"
        "  %0 = fuel.exp %x : tensor<f32> func.return %0 : tensor<f32> }"
    )
    for value in (1, 1.0, np.float32(1), np.array(1, np.float32)):
        (y,) = exe(value)
        assert y.shape == ()
        np.testing.assert_allclose(y, np.e, rtol=1e-6)
    with pytest.raises(ArgumentError, match=re.escape("expected f32[], got f64[]")):
        exe(np.float64(1))


RETURNS = """
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>,
    tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %w = fuel.weight "w" : tensor<3xf32>
  %c = fuel.const 4.0 : f32 -> tensor<3xf32>
  %b = fuel.const #fuel.bytes<"0x0000803F0000004000004040"> -> tensor<3xf32>
  %i = fuel.iota : tensor<3xf32>
  %s = fuel.add %x, %y : tensor<3xf32>
  func.return %x, %x, %w, %c, %b, %i, %s, %s : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
    tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
"""


@pytest.mark.parametrize("optimize", [True, False])
def test_results_share_memory_with_nothing(optimize: bool) -> None:
    weight = np.full(3, 9, np.float32)
    exe = Session().compile(RETURNS, weights={"w": weight}, optimize=optimize)
    x, y = np.ones(3, np.float32), np.array([1, 2, 3], np.float32)
    want = [x, x, weight, [4, 4, 4], [1, 2, 3], [0, 1, 2], x + y, x + y]
    arrays = [x, y, weight, *exe(x, y), *exe(x, y)]
    for first in range(len(arrays)):
        for second in range(first):
            assert not np.shares_memory(arrays[first], arrays[second])
    for result in arrays[3:]:
        result[...] = -1
    for got, expected in zip(exe(x, y), want, strict=True):
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(got, expected)


def test_no_arguments_and_no_results() -> None:
    session = Session()
    exe = session.compile(
        "func.func @main() -> tensor<2xf32> {"
        "  %c = fuel.const 3.0 : f32 -> tensor<2xf32> func.return %c : tensor<2xf32> }"
    )
    np.testing.assert_array_equal(exe()[0], [3, 3])
    with pytest.raises(ArgumentError, match="main takes no arguments; got 1 arguments"):
        exe(1)
    nothing = session.compile("func.func @main(%x: tensor<2xf32>) { func.return }")
    assert nothing([1, 2]) == ()


def test_empty_tensors() -> None:
    exe = Session().compile(
        "func.func @main(%x: tensor<0x3xf32>) -> (tensor<0x3xf32>, tensor<3xf32>) {"
        "  %0 = fuel.relu %x : tensor<0x3xf32>"
        "  %1 = fuel.sum_dim %x {dim = 0 : i64} : tensor<0x3xf32> -> tensor<3xf32>"
        "  func.return %0, %1 : tensor<0x3xf32>, tensor<3xf32> }"
    )
    empty, total = exe(np.zeros((0, 3), np.float32))
    assert empty.shape == (0, 3)
    np.testing.assert_array_equal(total, np.zeros(3))


def test_calls_from_many_threads_at_once(affine: Executable) -> None:
    def work(seed: int) -> None:
        for step in range(50):
            x, w, b = affine_arguments(1000 * seed + step)
            (y,) = affine(x, w, b)
            np.testing.assert_allclose(y, affine_numpy(x, w, b), rtol=1e-5, atol=1e-5)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work, seed) for seed in range(8)]:
            done.result()


OVERFLOW = """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0 = fuel.mul %x, %x : tensor<4xf32>
  %1 = fuel.log %x : tensor<4xf32>
  %2 = fuel.div %0, %1 : tensor<4xf32>
  %3 = fuel.cast %0 : tensor<4xf32> -> tensor<4xi32>
  func.return %2, %3 : tensor<4xf32>, tensor<4xi32>
}
"""


def test_numpy_warnings_stay_inside() -> None:
    exe = Session().compile(OVERFLOW)
    before = np.geterr()
    with np.errstate(all="raise"):
        quotient, integers = exe(np.array([3e38, -1, 1, 0], np.float32))
    assert np.geterr() == before
    np.testing.assert_array_equal(integers, [2**31 - 1, 1, 1, 0])
    np.testing.assert_array_equal(quotient, np.array([np.inf, np.nan, np.inf, -0.0], np.float32))


GATHER = """
func.func @main(%x: tensor<3x2xf32>, %i: tensor<2xui32> {fuel.name = "i"}) -> tensor<2x2xf32> {
  %0 = fuel.index_select %x, %i {dim = 0 : i64}
    : tensor<3x2xf32>, tensor<2xui32> -> tensor<2x2xf32>
  %1 = fuel.neg %0 : tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}
"""


def test_a_call_after_one_that_failed_is_right() -> None:
    exe = Session().compile(GATHER)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    for _ in range(3):
        with pytest.raises(IndexOutOfRange, match="index_select"):
            exe(x, [0, 3])
        np.testing.assert_array_equal(exe(x, [2, 0])[0], -x[[2, 0]])


def test_what_an_executable_says_of_itself(affine: Executable) -> None:
    text = "main(x: f32[4, 3], w: f32[3, 2], arg2: f32[2]) -> (y: f32[4, 2])"
    assert str(affine.signature) == text
    assert repr(affine) == f"<Executable {text}>"
    assert isinstance(affine, Executable)
    assert [port.shape for port in affine.signature.inputs] == [(4, 3), (3, 2), (2,)]
    compile(affine.source, "source", "exec")
    assert "def call(self, a0=MISSING, a1=MISSING, a2=MISSING, /" in affine.source
    assert {op.name for op in affine.module.walk()} >= {"fuel.run", "fuel.kernel"}
    affine.module.verify()


def test_an_op_outside_of_runs_is_an_error() -> None:
    program = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }
    """
    with pytest.raises(LoweringError, match=r"unrealized_conversion_cast stands outside of a run"):
        Session().compile(program, optimize=False)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "ui8", "ui32"])
def test_python_numbers_at_the_ends_of_integers(dtype: str) -> None:
    exe = Session().compile(
        f"func.func @main(%x: tensor<{dtype}>) -> tensor<{dtype}> {{"
        f"  func.return %x : tensor<{dtype}> }}"
    )
    limits = np.iinfo(exe.signature.inputs[0].numpy)
    low, high = int(limits.min), int(limits.max)
    for value in (low, high):
        assert exe(value)[0] == value
    for value in (low - 1, high + 1, float(2 * high + 2), 2**63, -(2**63) - 1, 2**64):
        with pytest.raises(ArgumentError):
            exe(value)


def test_integers_that_a_float_cannot_count() -> None:
    exe = Session().compile(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> { func.return %x : tensor<f32> }"
    )
    assert exe(2**24)[0] == 2**24
    for value in (2**24 + 1, 2**64 - 1, 2**63 - 1):
        with pytest.raises(ArgumentError, match=f"{value} is not a value of f32"):
            exe(value)
    with pytest.raises(ArgumentError, match="it takes more than 64 bits"):
        exe(2**200)


def test_a_number_for_a_tensor(affine: Executable) -> None:
    _, w, b = affine_arguments()
    with pytest.raises(ArgumentError, match=re.escape("expected f32[4, 3], got a number, 1.0")):
        affine(1.0, w, b)


def test_masked_arrays_are_refused(scale: Executable) -> None:
    masked = np.ma.masked_array(X, X > 0)
    with pytest.raises(ArgumentError, match=r"a masked array; fuel has no masked elements"):
        scale(masked)


def test_an_executable_presents_itself(affine: Executable) -> None:
    assert weakref.ref(affine)() is affine
    assert type(affine).__doc__ == Executable.__doc__
    assert str(inspect.signature(affine)) == "(*args: 'Any', **named: 'Any') -> 'tuple[Any, ...]'"
    assert type(affine).__module__ == "fuel_runtime.compile.executable"
