# SPDX-License-Identifier: MIT OR Apache-2.0
"""`Session.compile(..., place=..., results=...)`: where runs go and results stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

import fuel_dialect as fuel
from fake_devices import fake
from fuel_dialect.errors import ArgumentError, DeviceUnavailable, UnknownDevice
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_runtime import Executable, Session
from fuel_runtime.devices.arrays import DeviceArray

PROGRAM = """
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32> {fuel.name = "out"}, tensor<4xf32>) {
  %h = fuel.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %p = fuel.matmul %h, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %s = fuel.sum_dim %p {dim = 1 : i64} : tensor<4x4xf32> -> tensor<4xf32>
  func.return %p, %s : tensor<4x4xf32>, tensor<4xf32>
}
"""
X = np.arange(16, dtype=np.float32).reshape(4, 4) / 16


def compiled(place: Any = None, results: Any = None, program: Any = PROGRAM) -> Executable:
    return Session(fake("cpu,cuda:0,vulkan:0")).compile(program, place=place, results=results)


def places(exe: Executable) -> list[tuple[str, str]]:
    """The kernels of arm 0 of everything, in order, and where each runs."""
    return [
        (kernel.label.data, run.target.device.label)
        for run in runs_in(exe.module.walk())
        for kernel in run.body.block.ops
        if isinstance(kernel, KernelOp)
    ]


def runs_in(ops: Iterable[Operation]) -> Iterator[RunOp]:
    for op in ops:
        outer = op.parent_op()
        if isinstance(op, RunOp) and (not isinstance(outer, BranchOp) or is_first(op, outer)):
            yield op


def is_first(op: RunOp, branch: BranchOp) -> bool:
    return op.parent is branch.arm_regions[0].block


CASES: list[tuple[dict[str, str], list[str]]] = [
    ({}, ["cpu", "cpu", "cpu"]),
    ({"matmul": "cuda:0"}, ["cuda:0", "cuda:0", "cpu"]),
    ({"fuel.matmul": "cuda:0", "%h": "vulkan:0"}, ["vulkan:0", "cuda:0", "cpu"]),
    ({"h": "vulkan:0", "matmul": "cuda"}, ["vulkan:0", "cuda:0", "cpu"]),
    ({"s": "vulkan:0"}, ["cpu", "cpu", "vulkan:0"]),
]


@pytest.mark.parametrize(("place", "want"), CASES, ids=str)
def test_ops_and_values(place: dict[str, str], want: list[str]) -> None:
    exe = compiled(place)
    assert sorted(device for _, device in places(exe)) == sorted(want)
    out, total = exe(X)
    np.testing.assert_allclose(out, X @ X @ X, rtol=1e-5)
    np.testing.assert_allclose(total, (X @ X @ X).sum(axis=1), rtol=1e-5)
    assert sorted({run.target.partition("/")[0] for run in exe.report().route}) == sorted({*want})


CHAIN = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = fuel.exp %x : tensor<4xf32>
  %b = fuel.add %a, %x : tensor<4xf32>
  func.return %b : tensor<4xf32>
}
"""


def test_kernels_by_label() -> None:
    ((label, _),) = places(compiled(program=CHAIN))
    assert label not in ("exp", "add")
    exe = compiled({label: "cuda:0"}, program=CHAIN)
    assert places(exe) == [(label, "cuda:0")]
    np.testing.assert_allclose(exe(X[0])[0], np.exp(X[0]) + X[0], rtol=1e-6)
    assert places(compiled(program=exe.module)) == [(label, "cuda:0")], "the pin is in the program"
    assert places(compiled({label: "cpu"}, program=exe.module)) == [(label, "cpu")]


def test_a_pinned_op_does_not_share_a_kernel_with_others() -> None:
    exe = compiled({"exp": "cuda:0"}, program=CHAIN)
    assert places(exe) == [("exp", "cuda:0"), ("add", "cpu")]


def test_place_replaces_what_the_program_says() -> None:
    graph = fuel.Graph()
    x = graph.input((4, 4), name="x")
    with fuel.device("cuda:0"):
        y = x @ x
    module = graph.build(y.relu())
    assert places(compiled(program=module))[0][1] == "cuda:0"
    assert places(compiled({"matmul": "vulkan:0"}, program=module))[0][1] == "vulkan:0"
    assert "cuda:0" in str(module)


DECISIONS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %b = fuel.branch "d"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> price 60000 {
    %e = fuel.exp %a {placement = #fuel.device<cpu>} : tensor<4xf32>
    %n = fuel.neg %e : tensor<4xf32>
    fuel.yield %n : tensor<4xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %i = fuel.branch "inner"(%c = %a : tensor<4xf32>) -> tensor<4xf32>
    arm on #fuel.target<cuda:0, "triton"> {
      %f = fuel.exp %c : tensor<4xf32>
      fuel.yield %f : tensor<4xf32>
    }
    arm on #fuel.target<cpu, "numpy"> {
      %f2 = fuel.exp %c : tensor<4xf32>
      fuel.yield %f2 : tensor<4xf32>
    }
    %m = fuel.neg %i : tensor<4xf32>
    fuel.yield %m : tensor<4xf32>
  }
  func.return %b : tensor<4xf32>
}
"""
ROUTES: list[dict[str, int]] = [{"d": 0}, {"d": 1, "d/1/inner": 0}, {"d": 1, "d/1/inner": 1}]
MOVED: list[tuple[dict[str, str] | None, list[str]]] = [
    (None, ["cpu", "cuda:0 cuda:0", "cpu cuda:0"]),
    ({"d": "vulkan:0"}, ["vulkan:0", "vulkan:0 vulkan:0", "vulkan:0 vulkan:0"]),
    ({"%b": "cpu"}, ["cpu", "cpu cpu", "cpu cpu"]),
    ({"d/1/inner": "cpu"}, ["cpu", "cpu cuda:0", "cpu cuda:0"]),
    ({"d/1/inner": "cpu", "d": "vulkan"}, ["vulkan:0", "cpu vulkan:0", "cpu vulkan:0"]),
    ({"exp": "cuda:0", "d": "cpu"}, ["cuda:0 cpu", "cuda:0 cpu", "cuda:0 cpu"]),
    ({"n": "vulkan:0"}, ["cpu vulkan:0", "cuda:0 cuda:0", "cpu cuda:0"]),
    ({"neg": "cpu", "m": "vulkan:0"}, ["cpu", "cuda:0 vulkan:0", "cpu vulkan:0"]),
]


@pytest.mark.parametrize(("place", "want"), MOVED, ids=str)
def test_place_replaces_the_targets_of_arms(place: Any, want: list[str]) -> None:
    for force, devices in zip(ROUTES, want, strict=True):
        session = Session(fake("cpu,cuda:0,vulkan:0"), force=force)
        exe = session.compile(DECISIONS, place=place)
        for again in (exe, session.compile(exe.module, place=place)):
            np.testing.assert_allclose(again(X[0])[0], -np.exp(X[0]), rtol=1e-6)
            found = [run.target.partition("/")[0] for run in again.report().route]
            assert found == devices.split()


def test_an_arm_that_moves_has_no_price_any_more() -> None:
    text = str(compiled({"d": "vulkan:0"}, program=DECISIONS).module)
    assert "price" not in text
    assert "price 60000" in str(compiled({"d/1/inner": "cpu"}, program=DECISIONS).module)


def test_names_of_nothing() -> None:
    message = (
        "place: main has nothing called 'relu', 'q'; it has ops matmul, sum_dim; values h, p, s; "
        "decisions none; kernels matmul, "
    )
    with pytest.raises(ArgumentError, match=re.escape(message)):
        compiled({"relu": "cpu", "matmul": "cuda:0", "q": "cpu"})


WRONG: list[tuple[Any, type[Exception], str]] = [
    ({"matmul": "cuda:1"}, DeviceUnavailable, "place: 'matmul': the session has no cuda:1; its de"),
    ({"matmul": "cuda:"}, UnknownDevice, "'cuda:' does not name a device"),
    ({"matmul": 3}, ArgumentError, "place: 'matmul': a device is named by a string such as"),
    ("cuda:0", ArgumentError, "place: expected a mapping of names to devices, such as {'matmul':"),
    ({1: "cpu"}, ArgumentError, "place: expected a mapping of names to devices"),
]


@pytest.mark.parametrize(("place", "error", "message"), WRONG)
def test_places_that_are_wrong(place: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        compiled(place)


def test_a_program_that_is_taken_as_it_is_says_itself_where_it_runs() -> None:
    with pytest.raises(ArgumentError, match="with optimize=False a program runs where it says"):
        Session(fake("cpu,cuda:0")).compile(PROGRAM, place={"matmul": "cpu"}, optimize=False)


RESULTS: list[tuple[Any, list[str]]] = [
    (None, ["cpu", "cpu"]),
    ("cpu", ["cpu", "cpu"]),
    ("cuda:0", ["cuda:0", "cuda:0"]),
    ({"out": "vulkan:0"}, ["vulkan:0", "cpu"]),
    ({"result1": "cuda:0", "out": "vulkan"}, ["vulkan:0", "cuda:0"]),
    (["cuda:0", None], ["cuda:0", "cpu"]),
]


@pytest.mark.parametrize(("results", "want"), RESULTS, ids=str)
def test_results(results: Any, want: list[str]) -> None:
    values = compiled(results=results)(X)
    homes = [v.device if isinstance(v, DeviceArray) else "cpu" for v in values]
    assert homes == want
    np.testing.assert_allclose(np.asarray(values[0]), X @ X @ X, rtol=1e-5)


def test_results_replace_what_the_program_says() -> None:
    program = PROGRAM.replace('"out"', '"out", fuel.device = #fuel.device<cuda:0>')
    assert isinstance(compiled(program=program)(X)[0], DeviceArray)
    assert isinstance(compiled(program=program, results={"out": "cpu"})(X)[0], np.ndarray)


WRONG_RESULTS: list[tuple[Any, type[Exception], str]] = [
    ({"y": "cpu"}, ArgumentError, "results: there is no result 'y'; the results are out, result1"),
    (["cpu"], ArgumentError, "one device for each of out, result1; got ['cpu']"),
    (3, ArgumentError, "results: expected a device, a mapping of results to devices, or"),
    ("cuda:1", DeviceUnavailable, "results: 'out': the session has no cuda:1"),
    ([3, None], ArgumentError, "results: 'out': a device is named by a string such as 'cpu'"),
]


@pytest.mark.parametrize(("results", "error", "message"), WRONG_RESULTS)
def test_results_that_are_wrong(results: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        compiled(results=results)


def test_a_pin_on_a_device_that_lacks_the_kernel_is_an_error() -> None:
    program = CHAIN.replace("f32", "f64")
    with pytest.raises(fuel.NoBackendForOp, match="on vulkan:0/kompute, where it is pin"):
        compiled({"exp": "vulkan:0"}, program=program)
