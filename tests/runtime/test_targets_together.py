# SPDX-License-Identifier: MIT OR Apache-2.0
"""NumPy, Triton in its interpreter and Kompute in one session: every example, anyhow dealt out."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import cycle, permutations
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_weights import weights_of
from xdsl.dialects.builtin import ArrayAttr, ModuleOp

from agreement import assert_close
from effort import SLOW, examples, slow_but
from fuel_dialect.attributes import ArmAttr, DeviceAttr, TargetAttr
from fuel_dialect.builder.pins import takes_pin
from fuel_dialect.context import parse_module
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp
from fuel_runtime import Session
from fuel_runtime.cli.main import main as fuel_run
from fuel_runtime.compile.functions import find_function
from fuel_runtime.devices.arrays import DeviceArray

pytestmark = pytest.mark.needs_vulkan

Array = np.ndarray[Any, np.dtype[Any]]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATHS = sorted(p for p in EXAMPLES.glob("*.mlir") if "fuel.donated" not in p.read_text())
"""The examples without state; `test_state.py` runs those that have some."""
BACKENDS = {"cpu": "numpy", "cuda:0": "triton", "vulkan:0": "kompute"}
RTOL = 1e-4
"""Of f32 results, which all examples have; see `tests/examples`."""
MEBIBYTE = 1 << 20

every_device = pytest.mark.parametrize("device", BACKENDS)


@cache
def session() -> Session:
    return Session(devices="cpu,cuda:0,vulkan:0", emulate={"cuda:0": 1 << 28})


def read(path: Path) -> ModuleOp:
    return parse_module(path.read_text(), path.name)


@cache
def case(path: Path) -> tuple[list[Array], Mapping[str, Array], Sequence[Array]]:
    """Arguments, weights, and what the reference makes of them."""
    module = read(path)
    rng = np.random.default_rng(3)
    types = find_function(module, "main").function_type.inputs
    arguments = [rng.standard_normal(t.get_shape()).astype(np.float32) for t in types]  # pyright: ignore[reportAttributeAccessIssue]
    weights = weights_of(module)
    return arguments, weights, evaluate(module, *arguments, weights=weights)


def inside_scans(module: ModuleOp) -> set[Any]:
    return {o for op in module.walk() if op.name == "fuel.scan" for o in op.walk() if o is not op}


def dealt(path: Path, deal: Callable[[], str]) -> ModuleOp:
    """The module with every op, and every arm that it was written with, put on a device."""
    module = read(path)
    inner = inside_scans(module)
    pinned: dict[Any, str] = {}
    for op in module.walk():
        if not isinstance(op, FuelOp) or op in inner:
            continue
        if isinstance(op, BranchOp):
            deal_arms(op, deal, pinned)
        elif takes_pin(op):
            block = op.parent
            name = pinned.get(block) or deal()
            op.properties["placement"] = DeviceAttr.of(name)
    return module


def deal_arms(branch: BranchOp, deal: Callable[[], str], pinned: dict[Any, str]) -> None:
    """An arm and all that is in it stand on one device; an inner branch goes with the outer."""
    arms: list[ArmAttr] = []
    for arm, region in zip(branch.arms.data, branch.regions, strict=True):
        name = pinned.get(branch.parent) or deal()
        pinned[region.block] = name
        arms.append(ArmAttr.of(TargetAttr.of(name, BACKENDS[name]), arm.price_ns))
    branch.properties["arms"] = ArrayAttr(arms)


def check(path: Path, deal: Callable[[], str]) -> set[str]:
    """Run an example so dealt, twice; the devices that its runs were on."""
    arguments, weights, want = case(path)
    executable = session().compile(dealt(path, deal), weights=weights)
    for _ in range(2):
        assert_close(executable(*arguments), want, RTOL)
    return {run.target.partition("/")[0] for run in executable.report().route}


QUICK = {"mlp", "nested_branch"}
mostly_slow = pytest.mark.parametrize(
    "path", slow_but(PATHS, QUICK, lambda path: path.stem), ids=lambda path: path.stem
)


@every_device
@mostly_slow
def test_an_example_wholly_on_a_device(path: Path, device: str) -> None:
    assert check(path, lambda: device) == {device}


@mostly_slow
def test_an_example_dealt_in_turn(path: Path) -> None:
    turn, given = cycle(BACKENDS), []

    def deal() -> str:
        given.append(next(turn))
        return given[-1]

    assert len(check(path, deal)) > 1 or len(given) == 1


@examples(8)
@given(st.sampled_from(PATHS), st.randoms(use_true_random=False))
def test_an_example_dealt_at_random(path: Path, random: Any) -> None:
    check(path, lambda: random.choice(list(BACKENDS)))


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


@every_device
def test_steps_of_a_scan_that_are_stacked_in_a_temporary(device: str) -> None:
    """A temporary is bytes, but a launch counts elements."""
    module = parse_module(STACKED)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 4), (4, 4))]
    place = {name: device for name in ("scan", "exp")}
    assert_close(session().compile(module, place=place)(*arrays), evaluate(module, *arrays))


# Calls that follow one another, and calls at once.

CHAIN = """
func.func @main(%x: tensor<4x8xf32>, %i: tensor<3xui32>) -> tensor<3x8xf32> {
  %a = fuel.exp %x {placement = #fuel.device<DEVICE>} : tensor<4x8xf32>
  %b = fuel.add %a, %x {placement = #fuel.device<cpu>} : tensor<4x8xf32>
  %c = fuel.index_select %b, %i {dim = 0 : i64, placement = #fuel.device<DEVICE>} :
      tensor<4x8xf32>, tensor<3xui32> -> tensor<3x8xf32>
  func.return %c : tensor<3x8xf32>
}
"""
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
ROWS = np.array([3, 0, 3], np.uint32)
SUM = (np.exp(X) + X)[ROWS]


def chain(device: str) -> str:
    return CHAIN.replace("DEVICE", device)


@SLOW
@pytest.mark.parametrize(("device", "calls"), [("vulkan:0", 2000), ("cuda:0", 300)])
def test_memory_does_not_grow(device: str, calls: int) -> None:
    """The interpreter is slow: fewer calls there."""
    executable = session().compile(chain(device))
    home = session().devices.at(DeviceAttr.of(device))
    for _ in range(100):
        executable(X, ROWS)
    gc.collect()
    free, before = home.free_bytes(), psutil.Process().memory_info().rss
    for _ in range(calls):
        executable(X, ROWS)
    gc.collect()
    np.testing.assert_allclose(executable(X, ROWS)[0], SUM, rtol=1e-5)
    assert home.free_bytes() == free
    assert psutil.Process().memory_info().rss - before < 4 * MEBIBYTE


@pytest.mark.parametrize("device", ["vulkan:0", "cuda:0"])
def test_all_memory_comes_back(device: str) -> None:
    home = session().devices.at(DeviceAttr.of(device))
    gc.collect()
    before = home.free_bytes()
    executable = session().compile(chain(device), results=device)
    (kept,) = executable(X, ROWS)
    during = home.free_bytes()
    assert before is not None
    assert during is not None
    assert during < before
    del executable, kept
    gc.collect()
    assert home.free_bytes() == before


def call_at_once(executables: Sequence[Any], calls: int) -> None:
    """Call each in a thread of its own, with arguments of its own."""
    failed: list[BaseException] = []

    def work(executable: Any, factor: int) -> None:
        x = X * np.float32(factor)
        try:
            for _ in range(calls):
                (got,) = executable(x, ROWS)
                np.testing.assert_allclose(got, (np.exp(x) + x)[ROWS], rtol=1e-5)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(e, i)) for i, e in enumerate(executables, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@every_device
def test_two_threads_at_once(device: str) -> None:
    call_at_once([session().compile(chain(device))] * 2, 25)


def test_two_sessions_and_all_devices_at_once() -> None:
    other = Session(devices="cpu,cuda:0", emulate="cuda:0")
    executables = [session().compile(chain(device)) for device in BACKENDS]
    call_at_once([*executables, other.compile(chain("cuda:0"))], 25)


@every_device
def test_an_index_out_of_range_names_the_op(device: str) -> None:
    executable = session().compile(chain(device))
    with pytest.raises(IndexOutOfRange, match="index_select"):
        executable(X, np.array([0, 4, 1], np.uint32))
    np.testing.assert_allclose(executable(X, ROWS)[0], SUM, rtol=1e-5)


@pytest.mark.parametrize("device", ["vulkan:0", "cuda:0"])
def test_a_result_stays_and_is_read_elsewhere(device: str) -> None:
    (kept,) = session().compile(chain(device), results=device)(X, ROWS)
    assert isinstance(kept, DeviceArray)
    assert str(kept.device) == device
    double = """func.func @main(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
      %y = fuel.add %x, %x : tensor<3x8xf32>
      func.return %y : tensor<3x8xf32>
    }"""
    for other in BACKENDS:
        (got,) = session().compile(double, place={"add": other})(kept)
        np.testing.assert_allclose(got, 2 * SUM, rtol=1e-5)


# The end of the process, the command, and warm caches.

END = """
import gc
import numpy as np
from fuel_runtime import Session
session = Session(devices="cpu,cuda:0,vulkan:0", emulate="cuda:0")
exe = session.compile({text!r}, results="vulkan:0")
result = exe(np.zeros((4, 8), np.float32), np.array([0, 1, 2], np.uint32))
for name in {order!r}:
    del globals()[name]
    gc.collect()
print("end")
"""


ORDERS = list(permutations(("session", "exe", "result")))[::2]


@pytest.mark.parametrize("order", slow_but(ORDERS, ORDERS[-1:]))
def test_the_end_in_any_order(order: Sequence[str]) -> None:
    text = END.format(text=chain("vulkan:0"), order=order[:2])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_the_report_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "chain.mlir"
    file.write_text(chain("vulkan:0").replace("fuel.device<cpu>", "fuel.device<cuda:0>"))
    devices = ["--devices", "cpu,vulkan:0,cuda:0", "--emulate", "cuda:0"]
    assert fuel_run([*devices, "--report", str(file), "--random", "0"]) == 0
    said = capsys.readouterr().out
    for part in ("vulkan:0/kompute", "cuda:0/triton", "emulated cuda device", "bytes"):
        assert part in said


MISSING = """
import sys
from importlib import util
find = util.find_spec
util.find_spec = lambda name, package=None: None if name == {package!r} else find(name, package)
sys.modules[{package!r}] = None
from fuel_runtime.cli.main import main
sys.exit(main({arguments!r}))
"""


@pytest.mark.parametrize(("device", "package"), [("cuda:0", "triton"), ("vulkan:0", "kp")])
def test_a_missing_package_is_one_sentence(device: str, package: str) -> None:
    arguments = ["--devices", f"cpu,{device}", str(PATHS[1]), "--random", "0"]
    if device == "cuda:0":
        arguments += ["--emulate", device]
    text = MISSING.format(package=package, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1
    assert f"{device} is not available" in done.stderr
    assert package in done.stderr
