# SPDX-License-Identifier: MIT OR Apache-2.0
"""Triton's interpreter, repaired: what it computes is what the text means on a GPU."""

from __future__ import annotations

import gc
import linecache
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl
from triton.runtime import interpreter, jit

from fuel_dialect import knobs
from fuel_dialect.errors import LoweringError
from fuel_lowering.triton.compile import compile_kernel
from fuel_lowering.triton.interpret import InterpretedKernel, interpreting
from triton_kernels import ADD, interpret, kernel

NAN, INF = np.nan, np.inf
BF16 = np.dtype(ml_dtypes.bfloat16)
HARD = np.array([1.5, -1.5, NAN, INF, -INF, -0.0, 0.0, 1e-40, 3e9, -3e9, 2.5, -0.9] * 2, "f4")[:16]
OTHER = np.array([NAN, 2.5, 1, -INF, 1, 0.0, -0.0, 1e-41, 3, 0, 1, 2, 3, 4, 5, 6], "f4")


def elementwise(expression: str, *arrays: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Evaluates an expression of x (and y) for arrays of 16 elements."""
    out = np.zeros(16, arrays[0].dtype if dtype is None else dtype)
    names = "xyz"[: len(arrays)]
    lines = ["i = tl.arange(0, 16)"]
    lines += [f"{name} = tl.load(p{number} + i)" for number, name in enumerate(names)]
    lines.append(f"tl.store(p{len(arrays)} + i, {expression})")
    every = [*arrays, out]
    interpret(kernel("each", "\n".join(lines), every), every)
    return out


def test_programs_of_a_grid_and_masks():
    x, y = np.arange(1000, dtype="f4"), np.full(1000, 0.5, "f4")
    out = np.zeros(1004, "f4")
    interpret(kernel("add", ADD, [x, y, out]), [x, y, out], grid=(2, 1, 1))
    np.testing.assert_array_equal(out[:1000], x * y + x)
    assert not out[1000:].any()


def test_all_axes_of_a_grid_and_helpers():
    text = """
@triton.jit
def twice(x):
    return x * 2

@triton.jit
def place(p0, n):
    i = tl.program_id(0) * 6 + tl.program_id(1) * 2 + tl.program_id(2)
    tl.store(p0 + i, twice(i) + n + tl.num_programs(1))
"""
    out = np.zeros(24, np.int32)
    interpret(kernel("place", text, [out], "n"), [out], [100], (4, 3, 2))
    np.testing.assert_array_equal(out, 2 * np.arange(24) + 103)


def test_loops_to_bounds_of_the_launch():
    body = """
total = tl.zeros((16,), tl.float32)
for step in range(tl.program_id(0), n, 2):
    total += tl.load(p0 + step * 16 + tl.arange(0, 16))
tl.store(p1 + tl.arange(0, 16), total)
"""
    x, out = np.arange(128, dtype="f4"), np.zeros(16, "f4")
    interpret(kernel("sums", body, [x, out], "n"), [x, out], [7])
    np.testing.assert_array_equal(out, x.reshape(8, 16)[0:7:2].sum(0))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("tl.maximum(x, y)", np.fmax),
        ("tl.minimum(x, y)", np.fmin),
        ("tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)", np.maximum),
        ("tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)", np.minimum),
        ("tl.where(x > y, x, y)", lambda x, y: np.where(x > y, x, y)),
        ("tl.div_rn(x, y)", np.divide),
        ("libdevice.pow(x, y)", np.power),
        ("libdevice.fmod(x, y)", np.fmod),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_and_zeros(expression: str, expected):
    found = elementwise(expression, HARD, OTHER)
    wanted = expected(HARD, OTHER)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    if "imum" not in expression:
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("name", ["cos", "exp", "expm1", "log", "log1p", "rint", "sin", "tanh"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_the_device_library(name: str, dtype: str):
    x = HARD.astype(dtype)
    np.testing.assert_array_equal(elementwise(f"libdevice.{name}(x)", x), getattr(np, name)(x))


def test_erf_and_trunc_of_the_device_library():
    x = np.linspace(-2, 2, 16, dtype="f4")
    np.testing.assert_array_equal(elementwise("libdevice.trunc(x)", x), np.trunc(x))
    found = elementwise("libdevice.erf(x)", x)
    np.testing.assert_allclose(found[[0, -1]], [-0.9953223, 0.9953223], rtol=1e-6)
    np.testing.assert_array_equal(found, -found[::-1])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8"])
def test_integers_wrap(dtype: str):
    facts = np.iinfo(dtype)
    x = np.resize(np.array([facts.max, facts.min, 100], dtype), 16)
    y = np.resize(np.array([3, 1, 100, facts.max], dtype), 16)
    np.testing.assert_array_equal(elementwise("x * y + x - y", x, y), x * y + x - y)


def test_half_of_a_bfloat16_rounds_to_even():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 4096, np.uint64).astype(np.uint32)
    bits = np.concatenate([bits, bits & 0xFFFF0000 | 0x8000, [0x7F7FFFFF, 0x7F800000, 0x80000001]])
    x = bits[-8192:].astype(np.uint32).view("f4")
    out = np.zeros(x.size, BF16)
    body = "i = tl.arange(0, 8192)\n"
    body += "tl.store(p1 + i, tl.load(p0 + i).to(tl.bfloat16))"
    interpret(kernel("narrow", body, [x, out]), [x, out])
    numbers = ~np.isnan(x)
    wanted = np.where(numbers, x, 0).astype(BF16)
    np.testing.assert_array_equal(out[numbers].view("u2"), wanted[numbers].view("u2"))
    assert set(out[~numbers].view("u2")) == {0x7FFF}


def test_every_bfloat16_widens():
    x = np.arange(1 << 16, dtype=np.uint16).view(BF16)
    out = np.zeros(x.size, "f4")
    body = "i = tl.arange(0, 65536)\ntl.store(p1 + i, tl.load(p0 + i).to(tl.float32))"
    interpret(kernel("widen", body, [x, out]), [x, out])
    np.testing.assert_array_equal(out.view("u4"), np.arange(1 << 16, dtype="u4") << 16)


def test_half_to_bfloat16_goes_through_f32():
    x = np.linspace(-3, 3, 16).astype("f2")
    found = elementwise("x.to(tl.bfloat16)", x, dtype=BF16)
    np.testing.assert_array_equal(found, x.astype("f4").astype(BF16))


@pytest.mark.parametrize("dtype", ["f4", "f2", BF16, "f8", "i1"])
def test_dot(dtype: Any):
    rng = np.random.default_rng(1)
    a, b = ((rng.standard_normal((32, 32)) * 3).astype(dtype) for _ in range(2))
    sum_dtype, name = {8: ("f8", "float64"), 1: ("i4", "int32")}.get(a.itemsize, ("f4", "float32"))
    c = np.zeros((32, 32), sum_dtype)
    body = f"""
i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
acc = tl.full((32, 32), 1, tl.{name})
acc = tl.dot(tl.load(p0 + i), tl.load(p1 + i), acc, input_precision="ieee", out_dtype=tl.{name})
tl.store(p2 + i, acc)
"""
    arrays = [a.reshape(-1), b.reshape(-1), c.reshape(-1)]
    interpret(kernel("dot", body, arrays), arrays)
    wide = a.astype(sum_dtype), b.astype(sum_dtype)
    np.testing.assert_allclose(c, wide[0] @ wide[1] + 1, rtol=1e-5, atol=1e-4)


REDUCE = """
@triton.jit
def greater(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

@triton.jit
def first(a, i, b, j):
    ahead = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    return tl.where(ahead, a, b), tl.where(ahead, i, j)

@triton.jit
def reduce(p0, p1, p2, p3, p4):
    rows, cols = tl.arange(0, 4), tl.arange(0, 8)
    x = tl.load(p0 + rows[:, None] * 8 + cols[None, :])
    tl.store(p1 + rows, tl.reduce(x, 1, greater))
    index = tl.broadcast_to(cols[None, :], (4, 8))
    value, at = tl.reduce((x, index), -1, first)
    tl.store(p2 + rows, at)
    column = tl.reduce(x, 0, greater, keep_dims=True)
    tl.store(p3 + tl.arange(0, 1)[:, None] + cols[None, :], column)
    tl.store(p4, tl.reduce(x, None, greater))
    tl.store(p4 + 1, tl.sum(tl.sum(x, 1), 0))
"""


def test_reductions_with_own_functions():
    x = np.array([[1, 7, 7, 2, 0, 3, -1, 4]] * 4, "f4")
    x[1, 4] = x[1, 6] = NAN
    x[2] = -INF
    outs = [np.zeros(4, "f4"), np.zeros(4, "i4"), np.zeros(8, "f4"), np.zeros(2, "f4")]
    arrays = [x.reshape(-1), *outs]
    interpret(kernel("reduce", REDUCE, arrays), arrays)
    np.testing.assert_array_equal(outs[0], x.max(1))
    np.testing.assert_array_equal(outs[1], [1, 4, 0, 1])
    np.testing.assert_array_equal(outs[2], x.max(0))
    np.testing.assert_array_equal(outs[3], [NAN, NAN])


def test_scans_with_own_functions():
    text = """
@triton.jit
def line(a, x, b, y):
    return a * b, x * b + y

@triton.jit
def scan(p0, p1):
    i = tl.arange(0, 8)
    x = tl.load(p0 + i)
    factor, total = tl.associative_scan((x, x + 1.0), 0, line)
    tl.store(p1 + i, total)
    factor, total = tl.associative_scan((x, x + 1.0), 0, line, reverse=True)
    tl.store(p1 + 8 + i, total)
"""
    x, out = np.linspace(0, 1, 8, dtype="f4"), np.zeros(16, "f4")
    interpret(kernel("scan", text, [x, out]), [x, out])
    for part, order in ((out[:8], x), (out[8:][::-1], x[::-1])):
        total = np.float32(0)
        for value, found in zip(order, part, strict=True):
            total = total * value + (value + 1)
            assert found == pytest.approx(total, rel=1e-6)


def test_a_status_word():
    body = """
i = tl.arange(0, 4)
j = tl.load(p0 + i)
bad = (j < 0) | (j >= 4)
if tl.max(bad.to(tl.int32), 0) > 0:
    tl.atomic_max(p1, 3)
"""
    index, status = np.array([0, 3, 4, 1]), np.zeros(1, "i4")
    interpret(kernel("check", body, [index, status]), [index, status])
    assert status == [3]
    index[2], status[0] = 2, 0
    interpret(kernel("check", body, [index, status]), [index, status])
    assert status == [0]


def state() -> list[object]:
    """Lists the attributes of Triton that the interpreter might change."""
    owners = (tl, tl.core, tl.math, tl.tensor, interpreter, interpreter.ReduceOps, jit.JITFunction)
    return [getattr(owner, name) for owner in owners for name in sorted(vars(owner))]


def test_triton_is_as_it_was_afterwards(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(knobs.CACHE_BYTES, "0")
    x = np.zeros(32, "f4")
    outs = [np.zeros(4, "f4"), np.zeros(4, "i4"), np.zeros(8, "f4"), np.zeros(2, "f4")]
    arrays = [x, *outs]
    text = kernel("reduce", REDUCE, arrays)
    interpret(text, arrays)
    before = state()
    interpret(text, arrays)
    assert all(a is b for a, b in zip(before, state(), strict=True))
    assert compile_kernel(text, 80).name == "reduce"


def test_threads_take_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(knobs.CACHE_BYTES, "0")
    x, y = np.arange(1000, dtype="f4"), np.full(1000, 0.5, "f4")
    outs = [np.zeros(1000, "f4") for _ in range(6)]
    texts = [kernel("add", ADD, [x, y, out]) for out in outs]

    def work(number: int) -> None:
        if number % 3 == 2:
            compile_kernel(texts[number], 80)
        interpret(texts[number], [x, y, outs[number]], grid=(2, 1, 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(6)))
    for out in outs:
        np.testing.assert_array_equal(out, x * y + x)


def test_a_failure_names_the_kernel_and_leaves_triton_whole():
    x = np.zeros(16, "f4")
    broken = InterpretedKernel(kernel("broken", "tl.store(p0 + 1, missing)", [x]))
    before = tl.store
    with pytest.raises(LoweringError, match=r"kernel broken fails .* 'missing' is not defined"):
        with interpreting():
            broken.launch([x.ctypes.data], (), (1, 1, 1))
    assert tl.store is before


def test_a_kernel_that_is_gone_leaves_nothing():
    x = np.zeros(1000, "f4")
    loaded = InterpretedKernel(kernel("add", ADD, [x, x, x]))
    with interpreting():
        loaded.launch([x.ctypes.data] * 3, (), (2, 1, 1))
    function = weakref.ref(loaded._function)
    del loaded
    gc.collect()
    assert function() is None
    assert not [name for name in linecache.cache if name.startswith("<fuel")]
