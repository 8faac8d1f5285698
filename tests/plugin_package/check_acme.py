# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks of the installed package; `tests/repository/test_plugin_package.py` runs them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import pytest
from acme_fuel.kinds import price
from acme_fuel.loops import LoopsTarget
from acme_fuel.numpy_rules import RULES
from acme_fuel.ops import SoftsignOp, SquaredReluOp
from acme_fuel.reference_target import ReferenceTarget
from xdsl.dialects.builtin import ModuleOp
from xdsl.universe import Universe

import fuel_dialect as fuel
from fuel_dialect import plugins
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.dtypes import BY_NAME
from fuel_dialect.errors import DeviceUnavailable, NoBackendForOp, PluginError, UnknownDevice
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.targets.presets import PRESETS
from fuel_dialect.targets.registry import registered
from fuel_explain import explain
from fuel_explain.colours import colour_of
from fuel_explain.text import to_text
from fuel_lowering.numpy import emit
from fuel_passes.forking.find_paths import FindPathsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.decompose import DecomposePass
from fuel_passes.legalize.recognize import RecognizePass
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.candidates import measurement_key
from fuel_passes.planning.measurements import shape_class
from fuel_passes.planning.prices import kernel_ns
from fuel_passes.planning.topology import STAMP, attribute_of, target_description
from fuel_runtime import Session, open_devices
from fuel_runtime.cli.main import main
from fuel_runtime.devices.described_topology import topology_for
from fuel_runtime.probe import probe

CHAIN = """\
func.func @main(%x: tensor<300x400xf32>, %y: tensor<300x400xf32>) -> tensor<300x400xf32> {
  %r = fuel.relu %x : tensor<300x400xf32>
  %s = fuel.sqr %r : tensor<300x400xf32>
  %z = fuel.mul %s, %y : tensor<300x400xf32>
  func.return %z : tensor<300x400xf32>
}
"""

LOOPS = """\
builtin.module attributes {fuel.topology = #fuel.topology<"loops", [#fuel.target<cpu, "loops">]>} {
  func.func @main(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
    %s = acme.squared_relu %x : tensor<2x3xf64>
    %z = fuel.add %s, %y : tensor<2x3xf64>
    func.return %z : tensor<2x3xf64>
  }
}
"""

Array = np.ndarray[Any, Any]


def arrays(*shape: int, dtype: str = "f4") -> tuple[Array, Array]:
    numbers = np.random.default_rng(0)
    x, y = (numbers.standard_normal(shape).astype(dtype) for _ in range(2))
    x.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    return x, y


def squared_relu(x: Array) -> Array:
    return np.square(np.maximum(x, 0))


def optimized(text: str, **options: Any) -> ModuleOp:
    module = parse_module(text)
    OptimizePass(**options).apply(make_context(), module)
    module.verify()
    return module


def arms_of(module: ModuleOp) -> list[str]:
    branches = (op for op in module.walk() if isinstance(op, BranchOp))
    return [arm.origin.data for branch in branches for arm in branch.arms]


def test_the_op_parses_prints_and_has_a_reference() -> None:
    module = parse_module(LOOPS)
    assert "acme.squared_relu %x : tensor<2x3xf64>" in str(module)
    x, y = arrays(2, 3, dtype="f8")
    (z,) = evaluate(module, x, y)
    np.testing.assert_array_equal(z, squared_relu(x) + y)


def test_constants_fold_through_the_reference() -> None:
    text = """
    func.func @main() -> tensor<4xf32> {
      %c = fuel.const 3.0 : f32 -> tensor<4xf32>
      %s = acme.squared_relu %c : tensor<4xf32>
      func.return %s : tensor<4xf32>
    }"""
    assert "fuel.const 9.000000e+00 : f32" in str(optimized(text))


def test_a_chain_of_stock_ops_is_recognised() -> None:
    module = parse_module(CHAIN)
    RecognizePass().apply(make_context(), module)
    once = str(module)
    assert "acme.squared_relu" in once
    assert "fuel.relu" not in once
    RecognizePass().apply(make_context(), module)
    assert str(module) == once


@pytest.mark.parametrize("arm", [0, 1])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_every_arm_runs_on_numpy(arm: int, dtype: str) -> None:
    x, y = arrays(300, 400, dtype=dtype)
    text = CHAIN.replace("f32", {"f2": "f16", "f4": "f32", "f8": "f64"}[dtype])
    exe = Session(force={"d0": arm}).compile(text)
    with np.errstate(all="ignore"):
        expected = squared_relu(x) * y
        (z,) = exe(x, y)
    np.testing.assert_array_equal(z, expected)
    origins = [a.origin for d in exe.report().branches for a in d.arms]
    assert origins == ["fuel-fork-variants: as written", "acme-split: relu and sqr apart"]


def test_a_graph_takes_the_op() -> None:
    g = fuel.Graph()
    x = g.input((2, 3), "f32")
    module = g.build(x.emit(SquaredReluOp) + 1)
    array = np.array([[-1, 2, np.nan], [3, -0.0, 5]], np.float32)
    (y,) = Session().run(module, array)
    np.testing.assert_array_equal(y, squared_relu(array) + 1)


SOFTSIGN = """\
func.func @main(%x: tensor<20x30xf32>) -> tensor<20x30xf32> {
  %s = acme.softsign %x : tensor<20x30xf32>
  %y = fuel.relu %s : tensor<20x30xf32>
  func.return %y : tensor<20x30xf32>
}
"""


def session_on(device: str) -> Session:
    """Returns a session of a device, emulated if it is a CUDA device; skips where it is missing."""
    try:
        return Session(devices=device, emulate=device if device == "cuda:0" else None)
    except DeviceUnavailable as error:
        pytest.skip(str(error))


FLOATS = {
    "cpu": ["bf16", "f16", "f32", "f64"],
    "cuda:0": ["bf16", "f16", "f32", "f64"],
    "vulkan:0": ["bf16", "f16", "f32"],
}
"""The element types of floats that each device computes with."""


@pytest.mark.parametrize(("device", "dtype"), [(d, each) for d in FLOATS for each in FLOATS[d]])
def test_an_op_with_a_definition_runs_on_every_target(device: str, dtype: str) -> None:
    """A class, a reference and a definition are all there is of the op."""
    text, session = SOFTSIGN.replace("f32", dtype), session_on(device)
    x = arrays(20, 30, dtype="f8")[0].astype(BY_NAME[dtype].numpy)
    with np.errstate(all="ignore"):
        (want,) = evaluate(parse_module(text), x)
        (got,) = session.run(text, x)
    np.testing.assert_array_equal(np.asarray(got).astype("f8"), want.astype("f8"))


MOVED = """\
func.func @main(%x: tensor<{shape}xf32>) -> (tensor<{padded}xf32>, tensor<{shape}xf32>) {{
  %d = fuel.add %x, %x : tensor<{shape}xf32>
  %p = acme.pad %d {{width = {width} : i64, value = -2.0 : f64}}
    : tensor<{shape}xf32> -> tensor<{padded}xf32>
  %q = fuel.abs %p : tensor<{padded}xf32>
  %r = acme.roll %d {{shift = {shift} : i64}} : tensor<{shape}xf32> -> tensor<{shape}xf32>
  %s = fuel.neg %r : tensor<{shape}xf32>
  func.return %q, %s : tensor<{padded}xf32>, tensor<{shape}xf32>
}}
"""


@pytest.mark.parametrize("device", ["cpu", "cuda:0", "vulkan:0"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize(
    ("shape", "width", "shift"),
    [((5,), 1, 2), ((3, 4), 2, -1), ((2, 3, 7), 0, 0), ((3, 0), 1, 5), ((300, 5), 3, 17)],
)
def test_ops_that_say_their_pieces_run_on_every_target(
    device: str, dtype: str, shape: tuple[int, ...], width: int, shift: int
) -> None:
    """A class with pieces and a reference are all there is of such an op."""
    session = session_on(device)
    padded = tuple(extent + 2 * width for extent in shape)
    text = MOVED.format(
        shape="x".join(map(str, shape)), padded="x".join(map(str, padded)), width=width, shift=shift
    ).replace("xf32", f"x{dtype}")
    x = np.random.default_rng(5).normal(size=shape).astype(BY_NAME[dtype].numpy)
    got = session.run(text, x)
    twice = x.astype("f8") * 2
    want = np.abs(np.pad(twice, width, constant_values=-2.0)), -np.roll(twice, shift, -1)
    for found, expected in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.asarray(found).astype("f8"), expected)
    for found, expected in zip(evaluate(parse_module(text), x), want, strict=True):
        np.testing.assert_array_equal(found.astype("f8"), expected)


SUMS = """\
func.func @main(%x: tensor<5x7xf64>) -> tensor<5x7xf64> {
  %d = fuel.add %x, %x : tensor<5x7xf64>
  %s = acme.cumulative_sum %d : tensor<5x7xf64> -> tensor<5x7xf64>
  %n = fuel.neg %s : tensor<5x7xf64>
  func.return %n : tensor<5x7xf64>
}
"""


def test_a_kind_of_kernel_is_a_row_and_a_writer() -> None:
    """Forming, prices, keys of measured times and lowering look the kind up."""
    x = arrays(5, 7, dtype="f8")[0]
    x = np.where(np.isfinite(x), x, 1.0)
    exe = Session().compile(SUMS)
    kernels = {k.kind.data: k for k in exe.module.walk() if isinstance(k, KernelOp)}
    assert list(kernels) == ["pointwise", "cumulative"]
    np.testing.assert_array_equal(exe(x)[0], -np.cumsum(x * 2, -1))
    kernel, cpu = kernels["cumulative"], PRESETS["cpu"]
    description = target_description(cpu, cpu.targets[0])
    assert kernel_ns(kernel, description) == price(kernel, description)
    assert measurement_key(kernel, cpu.targets[0], cpu).shape_class == shape_class((5, 7))


def test_ops_that_differ_in_a_property_have_times_of_their_own() -> None:
    cpu, keys = PRESETS["cpu"], list[object]()
    for shift in (1, 2, 1):
        text = (
            "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
            f"  %r = acme.roll %x {{shift = {shift} : i64}} : tensor<8xf32> -> tensor<8xf32>\n"
            "  func.return %r : tensor<8xf32>\n}"
        )
        (kernel,) = (op for op in optimized(text).walk() if isinstance(op, KernelOp))
        keys.append(measurement_key(kernel, cpu.targets[0], cpu))
    assert keys[0] == keys[2] != keys[1]
    assert "acme.roll[shift=2 : i64]" in str(keys[1])


def test_a_rule_for_numpy_comes_before_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = plugins.table, emit.rules
    monkeypatch.setitem(cast("dict[Any, Any]", RULES), SoftsignOp, RULES[SquaredReluOp])
    for cached in caches:
        cached.cache_clear()
    try:
        assert cast(Any, emit.rules()[SoftsignOp]).__wrapped__ is RULES[SquaredReluOp]
    finally:
        monkeypatch.undo()
        for cached in caches:
            cached.cache_clear()
    assert getattr(emit.rules()[SoftsignOp], "__wrapped__", None) is not RULES[SquaredReluOp]


def test_a_rule_that_fails_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = plugins.table, emit.rules

    def fails(*_: object) -> NoReturn:
        raise KeyError("nothing")

    monkeypatch.setitem(cast("dict[Any, Any]", RULES), SoftsignOp, fails)
    for cached in caches:
        cached.cache_clear()
    sentence = r"'numpy' of package acme-fuel failed for acme\.softsign: KeyError: 'nothing'"
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = acme.softsign %x : tensor<4xf32>
      func.return %y : tensor<4xf32>
    }"""
    try:
        with pytest.raises(PluginError, match=sentence):
            Session("cpu").compile(text)
    finally:
        monkeypatch.undo()
        for cached in caches:
            cached.cache_clear()


def test_strings_that_name_nothing_and_functions_that_fail() -> None:
    for path in ("acme_fuel.nowhere:price", "acme_fuel.kinds:nowhere"):
        with pytest.raises(PluginError, match=f"'{path}', which the package acme_fuel gives"):
            plugins.named(path)
    with pytest.raises(ModuleNotFoundError):
        plugins.named("no_such_package.inner:price")
    with pytest.raises(PluginError, match="acme_fuel:price failed: ZeroDivisionError"):
        plugins.guarded("acme_fuel:price", lambda: 1 // 0)()


def test_twice_is_once() -> None:
    module = optimized(CHAIN, variants="keep")
    once = str(module)
    OptimizePass(variants="keep").apply(make_context(), module)
    assert str(module) == once


def test_strip_plan_takes_the_arms_out() -> None:
    module = optimized(CHAIN)
    assert "acme-split: relu and sqr apart" in arms_of(module)
    StripPlanPass().apply(make_context(), module)
    assert arms_of(module) == []
    assert "acme.squared_relu" in str(module)


def test_a_small_kernel_is_forked_and_its_branch_pruned() -> None:
    small = CHAIN.replace("300x400", "3x4")
    assert arms_of(optimized(small)) == []
    module = parse_module(CHAIN.replace("300x400", "30x400"))
    for inner in (RecognizePass(), FormKernelsPass(), FindPathsPass()):
        inner.apply(make_context(), module)
    assert arms_of(module) == ["acme-split: as written", "acme-split: relu and sqr apart"]


def test_without_plugins_the_program_stays_as_written() -> None:
    module = optimized(CHAIN, plugins=False)
    assert arms_of(module) == []
    assert "acme" not in str(module)


def test_targets_without_a_rule_are_refused() -> None:
    explanation = to_text(explain(parse_module(CHAIN), OptimizePass(topology="cpu+vulkan")))
    lines = [line for line in explanation.splitlines() if "vulkan:0/kompute " in line]
    assert "refused: it has no kernel for" in lines[0]


def test_an_op_pinned_to_a_target_without_a_rule_is_decomposed() -> None:
    text = CHAIN.replace("fuel.relu", "acme.squared_relu")
    module = parse_module(text)
    DecomposePass(topology="cpu+vulkan").apply(make_context(), module)
    assert "acme.squared_relu" in str(module)
    pin = "{placement = #fuel.device<vulkan:0>}"
    pinned = parse_module(text.replace("squared_relu %x", f"squared_relu %x {pin}"))
    DecomposePass(topology="cpu+vulkan").apply(make_context(), pinned)
    assert "acme.squared_relu" not in str(pinned)
    assert str(pinned).count("placement = #fuel.device<vulkan:0>") == 2


def test_the_second_target_computes_the_same() -> None:
    module = optimized(LOOPS)
    assert 'fuel.run on #fuel.target<cpu, "loops">' in str(module)
    output = io.StringIO()
    LoopsTarget().emit(make_context(), module, output)
    namespace: dict[str, Any] = {}
    exec(output.getvalue(), namespace)
    x, y = arrays(2, 3, dtype="f8")
    (z,) = namespace["run_0"](x.ravel().tolist(), y.ravel().tolist())
    np.testing.assert_array_equal(np.reshape(z, (2, 3)), squared_relu(x) + y)


def test_what_the_second_target_lacks_is_decomposed_or_refused() -> None:
    with pytest.raises(NoBackendForOp, match=r"exp: no kernel for \(f64\) -> f64 on cpu/loops"):
        optimized(LOOPS.replace("acme.squared_relu", "fuel.exp"))


RELU = """\
func.func @main(%x: tensor<300x400xf32>) -> tensor<300x400xf32> {
  %w = fuel.weight "w" : tensor<300x400xf32>
  %r = fuel.maximum %x, %w : tensor<300x400xf32>
  func.return %r : tensor<300x400xf32>
}
"""

BOTH = "cpu,cpu/reference"


def test_the_reference_target_runs_alone() -> None:
    x, w = arrays(300, 400)
    exe = Session("cpu/reference").compile(RELU, weights={"w": w})
    np.testing.assert_array_equal(exe(x)[0], np.maximum(x, w))
    (run,) = exe.report().route
    assert (run.target, run.launches) == ("cpu/reference", 0)
    assert '// run0\n%r = fuel.run on #fuel.target<cpu, "reference">' in exe.source
    assert [port for port in exe.report().weights] == ["w: f32[300, 400]"]


def test_a_session_holds_both_targets_and_plans_with_the_cheaper() -> None:
    x, w = arrays(300, 400)
    exe = Session(BOTH).compile(RELU, weights={"w": w})
    np.testing.assert_array_equal(exe(x)[0], np.maximum(x, w))
    assert [run.target for run in exe.report().route] == ["cpu/numpy"]
    assert "  cpu: present, targets numpy, reference\n" in str(exe.report())
    assert "reference" not in str(Session("cpu").compile(RELU, weights={"w": w}).report())
    with pytest.raises(UnknownDevice, match=r"what runs on cpu is numpy, loops, reference"):
        Session("cpu/abacus")


@pytest.mark.parametrize("arm", [0, 1])
def test_it_is_forked_against_numpy(arm: int) -> None:
    x, w = arrays(300, 400)
    session = Session(BOTH, variants="keep", reach=100, force={"d0": arm})
    exe = session.compile(RELU, weights={"w": w})
    np.testing.assert_array_equal(exe(x)[0], np.maximum(x, w))
    (branch,) = exe.report().branches
    assert [a.target for a in branch.arms] == ["cpu/numpy", "cpu/reference"]
    prices = [arm.price_ns or 0 for arm in branch.arms]
    assert 0 < prices[0] < prices[1]
    assert [run.target for run in exe.report().route] == [branch.arms[arm].target]


def test_runs_of_both_targets_in_one_call() -> None:
    text = """\
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %b = fuel.branch "d"(%a = %x : tensor<3xf32>) -> tensor<3xf32>
  arm on #fuel.target<cpu, "reference"> {
    %0 = fuel.log %a : tensor<3xf32>
    fuel.yield %0 : tensor<3xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.neg %a : tensor<3xf32>
    fuel.yield %0 : tensor<3xf32>
  }
  %y = fuel.neg %b : tensor<3xf32>
  func.return %y : tensor<3xf32>
}
"""
    exe = Session(BOTH).compile(text)
    (y,) = exe(np.array([0, 1, -1], np.float32))
    np.testing.assert_array_equal(y, np.array([np.inf, 0, np.nan], np.float32))
    assert [run.target for run in exe.report().route] == ["cpu/reference", "cpu/numpy"]
    pinned = Session(BOTH).compile(
        RELU, weights={"w": np.zeros((300, 400), "f4")}, place={"r": "cpu"}
    )
    assert [run.target for run in pinned.report().route] == ["cpu/numpy"]


def test_states_and_workspaces_of_both_targets() -> None:
    g = fuel.Graph()
    total = g.state((4,), "f32", name="total")
    x = g.input((4,), "f32", name="x")
    g.update(total, total + x)
    module = g.build(x * 2)
    for devices in ("cpu", "cpu/reference"):
        exe = Session(devices).compile(module)
        state = exe.new_state()
        for _ in range(3):
            exe(np.ones(4, np.float32), state=state)
        np.testing.assert_array_equal(state["total"], np.full(4, 3, np.float32))


def test_fuel_run_takes_the_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(RELU)
    assert main([str(path), "--random", "0", "--devices", "cpu/reference", "--report"]) == 0
    assert "run0 on cpu/reference: 1 kernel\n" in capsys.readouterr().out


def test_it_has_a_price_and_a_colour() -> None:
    topology = topology_for(open_devices(BOTH, 1))
    assert topology.name == "cpu+cpu/reference"
    module = parse_module(RELU)
    module.attributes[STAMP] = attribute_of(topology)
    explanation = to_text(explain(module, OptimizePass()))
    assert "* cpu/numpy " in explanation
    assert "  cpu/reference " in explanation
    assert colour_of("cpu/reference") == "#b0578d" != colour_of("cpu/numpy")


def test_it_prints_its_runs() -> None:
    output = io.StringIO()
    module = parse_module(RELU)
    module.attributes[STAMP] = attribute_of(topology_for(open_devices("cpu/reference", 1)))
    ReferenceTarget().emit(make_context(), module, output)
    assert output.getvalue().startswith(
        '// main_0\n%r = fuel.run on #fuel.target<cpu, "reference">'
    )
    assert Universe.get_multiverse().all_targets["acme-reference"]() is ReferenceTarget


def test_its_probe_is_asked_if_it_joins() -> None:
    joining = {**registered(), "reference": replace(registered()["reference"], joins=True)}
    topology, _ = probe("here", lambda command: "", registry=joining)
    assert [str(target) for target in topology.targets] == ["cpu/numpy", "cpu/reference"]
    assert [device.name for device in topology.devices] == ["cpu"]
    assert topology.devices[0].memory_bytes is not None


def test_a_target_without_its_package_is_absent() -> None:
    lacking = replace(registered()["reference"], packages=("no_such_package",))
    joining = {**registered(), "reference": replace(lacking, joins=True)}
    devices = open_devices("cpu", 1, None, joining)
    assert [(str(a.what), a.reason) for a in devices.absent] == [
        ("cpu/reference", "the package no_such_package is not installed")
    ]
    report = str(Session(devices).compile(RELU, weights={"w": np.zeros((300, 400), "f4")}).report())
    assert "  cpu/reference: absent, the package no_such_package is not installed\n" in report
    with pytest.raises(DeviceUnavailable, match="cpu/reference is not available: the package no_"):
        open_devices("cpu/reference", 1, None, {**registered(), "reference": lacking})
