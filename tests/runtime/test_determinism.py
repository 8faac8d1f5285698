# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions that are deterministic: the same bits for any number of threads, of fuel and of BLAS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agreement import main
from effort import SLOW
from fuel_dialect.context import make_context
from fuel_dialect.determinism import DETERMINISTIC, is_deterministic
from fuel_dialect.errors import NoBackendForOp
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.candidates import candidates_for
from fuel_runtime import Session
from machines import sources

A, B, C = "tensor<33x1000xf32>", "tensor<1000x77xf32>", "tensor<33x77xf32>"
PROGRAM = f"""
func.func @main(%a: {A}, %b: {B}) -> ({C}, tensor<33xf32>, tensor<f32>) {{
  %0 = fuel.matmul %a, %b : {A}, {B} -> {C}
  %1 = fuel.softmax_last_dim %0 : {C}
  %2 = fuel.sum_dim %0 {{dim = 1 : i64}} : {C} -> tensor<33xf32>
  %3 = fuel.sum_all %a : {A} -> tensor<f32>
  func.return %1, %2, %3 : {C}, tensor<33xf32>, tensor<f32>
}}
"""


def arguments() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    shapes = (33, 1000), (1000, 77)
    a, b = (random.standard_normal(shape, np.float32) for shape in shapes)
    return a, b


def bits(threads: int) -> str:
    """The results of the program, deterministic, as text."""
    results = Session(threads=threads, deterministic=True).run(PROGRAM, *arguments())
    return "".join(np.asarray(result).tobytes().hex() for result in results)


@SLOW
def test_the_same_bits_for_any_number_of_threads():
    """BLAS reads how many it may use when it is loaded: one process for each number."""
    found = {bits(threads) for threads in (1, 2, 3)}
    for blas in ("1", "2"):
        code = "import test_determinism as t; print(t.bits(2))"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        env |= {f"{name}_NUM_THREADS": blas for name in ("OPENBLAS", "OMP", "MKL")}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.strip())
    assert len(found) == 1


def test_the_results_are_those_of_the_program():
    a, b = arguments()
    (rows, sums, whole) = Session(deterministic=True).run(PROGRAM, a, b)
    product = a.astype(np.float64) @ b
    exponentials = np.exp(product - product.max(1, keepdims=True))
    softmax = exponentials / exponentials.sum(1, keepdims=True)
    np.testing.assert_allclose(rows, softmax, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(sums, product.sum(1), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(whole, a.sum(dtype=np.float64), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("4x3x5xf32", "4x5x2xf32", "4x3x2xf32"),
        ("6x3x5xf64", "2x5x2xf64", "6x3x2xf64"),
        ("1x1xf32", "1x1xf32", "1x1xf32"),
        ("3x0xf32", "0x2xf32", "3x2xf32"),
        ("3x5xbf16", "5x2xbf16", "3x2xbf16"),
        ("3x5xf16", "5x2xf16", "3x2xf16"),
        ("3x5xi32", "5x2xi32", "3x2xi32"),
    ],
)
def test_products_of_every_form_agree_with_those_of_blas(left: str, right: str, result: str):
    body = f"%0 = fuel.matmul %a, %b : tensor<{left}>, tensor<{right}> -> tensor<{result}>"
    module = main(
        f"%a: tensor<{left}>, %b: tensor<{right}>",
        f"tensor<{result}>",
        f"{body}\nfunc.return %0 : tensor<{result}>",
    )
    random = np.random.default_rng(1)
    inputs = [
        random.integers(-3, 4, [int(n) for n in text.split("x")[:-1]]).astype(np.float32)
        for text in (left, right)
    ]
    given = [x.astype(port) for x, port in zip(inputs, _dtypes(left, right), strict=True)]
    strict = Session(deterministic=True).run(module, *given)
    free = Session().run(module, *given)
    np.testing.assert_array_equal(np.asarray(strict[0]), np.asarray(free[0]))


def _dtypes(*texts: str) -> list[np.dtype[Any]]:
    from fuel_dialect import dtypes

    return [dtypes.BY_NAME[text.split("x")[-1]].numpy for text in texts]


def test_blas_is_refused_where_bits_have_to_stay_and_says_why():
    body = f"%0 = fuel.matmul %a, %b : {A}, {B} -> {C}\nfunc.return %0 : {C}"
    module = main(f"%a: {A}, %b: {B}", C, body)
    FormKernelsPass().apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if op.name == "fuel.kernel")
    found = candidates_for(PRESETS["cpu"], deterministic=True).of(kernel)
    why = "determinism: {} gives a matmul of f32 other bits where a library may use another"
    assert [(c.source, c.refusal is None) for c in found] == [
        ("tiles", False),
        ("library", False),
        ("einsum", True),
    ]
    for candidate in found[:2]:
        assert str(candidate.refusal).startswith(why.format(candidate.source))
    free = candidates_for(PRESETS["cpu"]).of(kernel)
    assert [c.source for c in free] == ["tiles", "library"]
    assert all(c.refusal is None for c in free)


def test_where_nothing_gives_the_same_bits_the_error_says_so():
    with (
        sources("numpy", einsum={"kinds": ()}),
        pytest.raises(NoBackendForOp, match=r"no target for matmul: .*tiles: determinism: tiles "),
    ):
        Session(deterministic=True).compile(PROGRAM)


def test_integer_products_are_made_by_tiles_still():
    T = "tensor<4x4xi32>"
    body = f"%0 = fuel.matmul %a, %a : {T}, {T} -> {T}\nfunc.return %0 : {T}"
    module = main(f"%a: {T}", T, body)
    FormKernelsPass().apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if op.name == "fuel.kernel")
    found = candidates_for(PRESETS["cpu"], deterministic=True).of(kernel)
    assert found[0].source == "tiles"
    assert found[0].refusal is None


def test_a_module_says_that_it_is_deterministic_until_it_is_planned_otherwise():
    T = "tensor<4xf32>"
    module = main(f"%a: {T}", T, f"%0 = fuel.neg %a : {T}\nfunc.return %0 : {T}")
    assert not is_deterministic(module)
    OptimizePass(deterministic=True).apply(make_context(), module)
    assert DETERMINISTIC in module.attributes
    assert all(is_deterministic(op) for op in module.walk())
    before = str(module)
    OptimizePass(deterministic=True).apply(make_context(), module)
    assert str(module) == before
    again = module.clone()
    OptimizePass().apply(make_context(), again)
    assert DETERMINISTIC not in again.attributes
    StripPlanPass().apply(make_context(), module)
    assert DETERMINISTIC not in module.attributes
    assert not is_deterministic(next(iter(module.ops)))
