# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs over the host, an emulated CUDA device and a Vulkan device, in one session."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from fuel_dialect import dtypes
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.context import parse_module
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.ops.base import FuelOp, tensor_type
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.reference.interpreter import evaluate
from fuel_dialect.state import donations
from fuel_dialect.traits import Leaf
from fuel_runtime import DeviceArray, Session

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

from make_weights import weights_of  # noqa: E402

DEVICES = ("cpu", "cuda:0", "vulkan:0")
PATHS = sorted(EXAMPLES.glob("*.mlir"))

pytestmark = [
    pytest.mark.needs_vulkan,
    pytest.mark.xdist_group("three targets"),
]

Array = np.ndarray[Any, Any]


@cache
def session() -> Session:
    """One session for all tests: opening devices takes longer than most of them."""
    return Session(devices=",".join(DEVICES), emulate="cuda:0")


def placed(module: ModuleOp, choose: Callable[[], str]) -> ModuleOp:
    """The module with each op of its functions pinned to a device; branches stay as they are."""
    module = module.clone()
    for function in module.body.ops:
        assert isinstance(function, FuncOp)
        for op in function.body.block.ops:
            if isinstance(op, FuelOp) and not op.has_trait(Leaf) and not isinstance(op, BranchOp):
                op.properties["placement"] = DeviceAttr.of(choose())
    return module


@cache
def example(path: Path) -> tuple[ModuleOp, list[Array], dict[str, Array], tuple[Array, ...]]:
    """An example, arguments for it, its weights, and its results by the reference."""
    module = parse_module(path.read_text(encoding="utf-8"))
    (function,) = (f for f in module.body.ops if isinstance(f, FuncOp))
    rng = np.random.default_rng(0)
    arguments = [_argument(rng, a.type) for a in function.body.block.args]
    weights = weights_of(module)
    return module, arguments, weights, evaluate(module, *arguments, weights=weights)


def _argument(rng: np.random.Generator, type: Any) -> Array:
    dtype, shape = dtypes.of_type(type), tuple(type.get_shape())
    if dtype.is_float:
        return (0.5 * rng.standard_normal(shape)).astype(dtype.numpy)
    return np.zeros(shape, dtype.numpy)


def check(path: Path, choose: Callable[[], str]) -> None:
    module, arguments, weights, want = example(path)
    exe = session().compile(placed(module, choose), weights=weights)
    for _ in range(2):
        for g, w in zip(exe(*arguments), want, strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)


STATELESS = [p for p in PATHS if "fuel.donated" not in p.read_text(encoding="utf-8")]
each_example = pytest.mark.parametrize("path", STATELESS, ids=lambda path: path.stem)


@each_example
@pytest.mark.parametrize("device", DEVICES)
def test_an_example_runs_wholly_on_a_device(path: Path, device: str):
    check(path, lambda: device)


@each_example
def test_an_example_is_dealt_over_all_devices_in_turn(path: Path):
    turn = iter(range(10**6))
    check(path, lambda: DEVICES[next(turn) % len(DEVICES)])


@settings(max_examples=8, deadline=None)
@given(path=st.sampled_from(STATELESS), seed=st.integers(0, 2**32 - 1))
def test_an_example_is_dealt_over_all_devices_at_random(path: Path, seed: int):
    rng = random.Random(seed)
    check(path, lambda: rng.choice(DEVICES))


STACKED = """
func.func @main(%x: tensor<5x4xf32>, %m: tensor<4x4xf32>) -> tensor<5x4xf32> {
  %c = fuel.const 0.0 : f32 -> tensor<1x4xf32>
  %h, %ys = fuel.scan init(%s = %c : tensor<1x4xf32>) xs(%t = %x : tensor<5x4xf32>)
      consts(%k = %m : tensor<4x4xf32>) length 5 -> (tensor<1x4xf32>, tensor<5x4xf32>) {
    %r = fuel.unsqueeze %t {dim = 0 : i64} : tensor<4xf32> -> tensor<1x4xf32>
    %p = fuel.matmul %s, %k : tensor<1x4xf32>, tensor<4x4xf32> -> tensor<1x4xf32>
    %n = fuel.add %p, %r : tensor<1x4xf32>
    %y = fuel.squeeze %n {dim = 0 : i64} : tensor<1x4xf32> -> tensor<4xf32>
    fuel.scan_yield carry(%n : tensor<1x4xf32>) ys(%y : tensor<4xf32>)
  }
  %z = fuel.exp %ys : tensor<5x4xf32>
  func.return %z : tensor<5x4xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_a_scan_that_are_stacked_in_a_temporary(device: str):
    """A temporary is bytes, but a launch counts elements."""
    module = parse_module(STACKED)
    arrays = [_argument(np.random.default_rng(1), tensor_type(a)) for a in _arguments(module)]
    (want,) = evaluate(module, *arrays)
    (got,) = session().compile(placed(module, lambda: device))(*arrays)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def _arguments(module: ModuleOp) -> tuple[Any, ...]:
    (function,) = (f for f in module.body.ops if isinstance(f, FuncOp))
    assert not donations(function)
    return tuple(function.body.block.args)


GATHER = """
func.func @main(%x: tensor<8x4xf32>, %i: tensor<3xui32>) -> tensor<3x4xf32> {
  %y = fuel.index_select %x, %i {dim = 0 : i64} : tensor<8x4xf32>, tensor<3xui32> -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_an_index_out_of_range_names_the_op(device: str):
    exe = session().compile(placed(parse_module(GATHER), lambda: device))
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    (y,) = exe(x, np.array([7, 0, 3], np.uint32))
    np.testing.assert_array_equal(y, x[[7, 0, 3]])
    with pytest.raises(IndexOutOfRange, match="index_select"):
        exe(x, np.array([7, 8, 3], np.uint32))
    (y,) = exe(x, np.array([1, 1, 1], np.uint32))
    np.testing.assert_array_equal(y, x[[1, 1, 1]])


CHAIN = """
func.func @main(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %a = fuel.exp %x : tensor<16x8xf32>
  %b = fuel.softmax_last_dim %a : tensor<16x8xf32>
  func.return %b : tensor<16x8xf32>
}
"""


@pytest.mark.parametrize(("device", "calls"), [("vulkan:0", 2_000), ("cuda:0", 100)])
def test_no_memory_is_kept(device: str, calls: int):
    """The interpreter of the emulated device is slow, so it makes fewer calls."""
    (found,) = (d for d in session().devices.present if str(d.target.device) == device)
    gc.collect()
    before = found.free_bytes()
    exe = session().compile(placed(parse_module(CHAIN), lambda: device))
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    want = evaluate(parse_module(CHAIN), x)[0]
    (y,) = exe(x)
    first = found.free_bytes()
    for _ in range(calls):
        (y,) = exe(x)
    np.testing.assert_allclose(y, want, rtol=1e-5)
    assert found.free_bytes() == first
    del exe, y
    gc.collect()
    assert found.free_bytes() == before


@pytest.mark.parametrize("device", DEVICES)
def test_two_threads_at_once(device: str):
    exe = session().compile(placed(parse_module(CHAIN), lambda: device))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((16, 8)).astype(np.float32) for _ in range(2)]
    wanted = [evaluate(parse_module(CHAIN), x)[0] for x in inputs]
    wrong: list[str] = []

    def call(x: Array, want: Array) -> None:
        for _ in range(10):
            (y,) = exe(x)
            if not np.allclose(y, want, rtol=1e-5):
                wrong.append(f"{np.abs(y - want).max()}")

    threads = [threading.Thread(target=call, args=p) for p in zip(inputs, wanted, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_stay_where_they_are_wanted():
    exe = session().compile(placed(parse_module(CHAIN), lambda: "vulkan:0"), results="vulkan:0")
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    (y,) = exe(x)
    assert isinstance(y, DeviceArray)
    np.testing.assert_allclose(np.asarray(y), evaluate(parse_module(CHAIN), x)[0], rtol=1e-5)
