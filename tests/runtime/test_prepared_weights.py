# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests that what weights alone decide is computed once, and that nothing else changes by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fuel_dialect.context import load_program
from fuel_dialect.errors import DecisionError, ProgramError, WeightError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_runtime import Session

CAST = """
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = fuel.weight "w" : tensor<8x8xbf16>
  %c = fuel.cast %w : tensor<8x8xbf16> -> tensor<8x8xf32>
  %y = fuel.matmul %x, %c : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}
"""

BRANCH = """
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = fuel.branch "d0"(%a = %x : tensor<2x8xf32>) -> tensor<2x8xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %w = fuel.weight "w" : tensor<8x8xbf16>
    %c = fuel.cast %w : tensor<8x8xbf16> -> tensor<8x8xf32>
    %p = fuel.matmul %a, %c : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
    fuel.yield %p : tensor<2x8xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %w = fuel.weight "w" : tensor<8x8xbf16>
    %c = fuel.cast %w : tensor<8x8xbf16> -> tensor<8x8xf32>
    %d = fuel.abs %c : tensor<8x8xf32>
    %p = fuel.matmul %a, %d : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
    fuel.yield %p : tensor<2x8xf32>
  }
  func.return %y : tensor<2x8xf32>
}
"""

BY_HAND = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = fuel.weight "c" of @once : tensor<2xf32>
  %y = fuel.add %x, %c : tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func private @once() -> (tensor<2xf32> {fuel.name = "c"}) {
  %w = fuel.weight "w" of @twice : tensor<2xf32>
  %c = fuel.exp %w : tensor<2xf32>
  func.return %c : tensor<2xf32>
}
func.func private @twice() -> (tensor<2xf32> {fuel.name = "w"}) {
  %w = fuel.weight "w" : tensor<2xf32>
  %d = fuel.add %w, %w : tensor<2xf32>
  func.return %d : tensor<2xf32>
}
"""


DECIDED_ONCE = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = fuel.weight "c" of @once : tensor<2xf32>
  %y = fuel.add %x, %c : tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func private @once() -> (tensor<2xf32> {fuel.name = "c"}) {
  %w = fuel.weight "w" : tensor<2xf32>
  %d = fuel.branch "d0"(%a = %w : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %b = fuel.add %a, %a : tensor<2xf32>
    fuel.yield %b : tensor<2xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %b = fuel.mul_scalar %a {scalar = 2.0 : f64} : tensor<2xf32>
    fuel.yield %b : tensor<2xf32>
  }
  func.return %d : tensor<2xf32>
}
"""


def weights() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {"w": rng.normal(size=(8, 8)).astype(ml_dtypes.bfloat16)}


@pytest.mark.parametrize("devices", ["cpu", "cpu,cuda:0"])
def test_a_cast_of_a_weight_runs_once(devices: str) -> None:
    given, x = weights(), np.random.default_rng(4).normal(size=(2, 8)).astype(np.float32)
    emulate = "cuda:0" if "cuda" in devices else None
    session = Session(devices, emulate=emulate, device=devices.rpartition(",")[2])
    executable = session.compile(CAST, weights=given)
    report = executable.report()
    assert [(p.name, p.type, p.bytes, p.function) for p in report.prepared] == [
        ("main.c", "f32[8, 8]", 256, "main.weights")
    ]
    assert report.weights == ("w: bf16[8, 8]",)
    assert report.kernels == 1
    expected = x @ given["w"].astype(np.float32)
    for _ in range(2):
        np.testing.assert_allclose(executable(x)[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        evaluate(executable.module, x, weights=given)[0],
        evaluate(load_program(CAST), x, weights=given)[0],
    )
    assert "prepared    1 once, 256 bytes\n  main.c: f32[8, 8] by @main.weights" in str(report)


def test_nothing_is_prepared_where_there_is_no_room() -> None:
    for room, count in ((0, 0), (255, 0), (256, 1)):
        executable = Session("cpu", prepare_bytes=room).compile(CAST, weights=weights())
        assert len(executable.report().prepared) == count


def test_the_same_weight_in_several_arms() -> None:
    module = load_program(BRANCH)
    given, array = weights(), np.ones((2, 8), np.float32)
    wide = given["w"].astype(np.float32)
    for arm, weight in enumerate((wide, np.abs(wide))):
        executable = Session("cpu", force={"d0": arm}).compile(module, weights=given)
        names = [prepared.name for prepared in executable.report().prepared]
        assert names == ["main.c", "main.d"]
        (result,) = executable(array)
        np.testing.assert_allclose(result, array @ weight, rtol=1e-5, atol=1e-6)


def test_a_missing_weight_is_named_though_only_what_prepares_reads_it() -> None:
    with pytest.raises(WeightError, match="'w': missing, expected bf16"):
        Session("cpu").compile(CAST)


def test_functions_that_prepare_for_one_another() -> None:
    w, x = np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)
    expected = x + np.exp(w + w)
    for optimize in (True, False):
        executable = Session("cpu").compile(BY_HAND, weights={"w": w}, optimize=optimize)
        np.testing.assert_allclose(executable(x)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(evaluate(load_program(BY_HAND), x, weights={"w": w})[0], expected)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("of @twice", "of @once"), "weight .* of @once"),
        (('"w" : tensor<2xf32>\n  %d', '"w" of @twice : tensor<2xf32>\n  %d'), "depends on itself"),
        (
            (
                "%y = fuel.add %x, %c",
                '%b = fuel.weight "c" : tensor<2xf32>\n  %y = fuel.add %b, %c',
            ),
            "is the name of two weights",
        ),
    ],
    ids=["no result", "circle", "two of a name"],
)
def test_weights_that_cannot_be_prepared(change: tuple[str, str], sentence: str) -> None:
    text = BY_HAND.replace(*change)
    w = {"w": np.ones(2, np.float32), "c": np.ones(2, np.float32)}
    with pytest.raises(ProgramError, match=sentence):
        Session("cpu").compile(text, weights=w)
    with pytest.raises(ProgramError, match=sentence):
        evaluate(load_program(text), np.ones(2, np.float32), weights=w)


def test_a_saved_program_keeps_what_was_prepared(tmp_path: Path) -> None:
    given, x = weights(), np.random.default_rng(4).normal(size=(2, 8)).astype(np.float32)
    session = Session("cpu")
    executable = session.compile(CAST, weights=given)
    (expected,) = executable(x)
    executable.save(tmp_path / "with.fuel", weights=True)
    executable.save(tmp_path / "without.fuel")
    for loaded in (
        session.load(tmp_path / "with.fuel"),
        session.load(tmp_path / "without.fuel", weights=given),
    ):
        np.testing.assert_array_equal(loaded(x)[0], expected)
        assert [each.name for each in loaded.report().prepared] == ["main.c"]
    with pytest.raises(WeightError, match="'w': missing"):
        session.load(tmp_path / "without.fuel")


def test_other_weights_are_prepared_anew(tmp_path: Path) -> None:
    x = np.ones((2, 8), np.float32)
    session = Session("cpu")
    session.compile(CAST, weights=weights()).save(tmp_path / "p.fuel", weights=True)
    other = {"w": np.eye(8).astype(ml_dtypes.bfloat16)}
    np.testing.assert_array_equal(session.load(tmp_path / "p.fuel", weights=other)(x)[0], x)


def test_prepared_weights_are_in_the_order_of_the_program() -> None:
    count = 40
    lines = ["func.func @main(%x0: tensor<1x2xf32>) -> tensor<1x2xf32> {"]
    for i in range(count):
        lines += [
            f'  %w{i} = fuel.weight "w{i}" : tensor<2x2xbf16>',
            f"  %c{i} = fuel.cast %w{i} : tensor<2x2xbf16> -> tensor<2x2xf32>",
            f"  %x{i + 1} = fuel.matmul %x{i}, %c{i} "
            ": tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>",
        ]
    text = "\n".join([*lines, f"  func.return %x{count} : tensor<1x2xf32>", "}"])
    given = {f"w{i}": np.full((2, 2), i, ml_dtypes.bfloat16) for i in range(count)}
    executable = Session("cpu").compile(text, weights=given)
    names = [prepared.name for prepared in executable.report().prepared]
    assert names == [f"main.c{i}" for i in range(count)]


def test_a_decision_of_what_prepares_is_not_forced() -> None:
    given = {"w": np.array([1.5, -2], np.float32)}
    executable = Session("cpu").compile(DECIDED_ONCE, weights=given, optimize=False)
    (got,) = executable(np.ones(2, np.float32))
    np.testing.assert_array_equal(got, np.array([4, -3], np.float32))
    sentence = "no decision 'd0'.* d0 of @once is decided once, as weights are prepared"
    with pytest.raises(DecisionError, match=sentence):
        Session("cpu", force={"d0": 1}).compile(DECIDED_ONCE, weights=given, optimize=False)
