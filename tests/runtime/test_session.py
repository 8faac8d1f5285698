# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions: devices, options, and the forms a program may have."""

from __future__ import annotations

import dataclasses
import inspect
import os
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from fake_devices import fake
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.builder.graph import Graph
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import (
    ArgumentError,
    DecisionError,
    DeviceUnavailable,
    FuelError,
    FuelPassError,
    NoBackendForOp,
    OutOfMemory,
    ProgramError,
    TopologyChanged,
    UnknownDevice,
    WeightError,
)
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.machine import Device
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.candidates import measurement_key
from fuel_passes.planning.measurements import Measurements
from fuel_passes.planning.measurements_schema import dump as dump_times
from fuel_passes.planning.topology import STAMP, attribute_of
from fuel_passes.planning.topology_json import dump
from fuel_runtime import Session
from fuel_runtime.compile.executable import Executable
from machines import UNSTEADY, sources

PROGRAM = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = fuel.sqr %x : tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
func.func @other(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = fuel.neg %x : tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
func.func private @outside(tensor<3xf32>) -> tensor<3xf32>
"""

X = np.array([1, -2, 3], np.float32)


def test_a_module_is_left_as_it_is() -> None:
    module = parse_module(PROGRAM)
    before = str(module)
    exe = Session().compile(module)
    assert str(module) == before
    assert "fuel.run" in str(exe.module)
    np.testing.assert_array_equal(exe(X)[0], X * X)


def test_paths_and_text(tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    for program in (path, str(path), PROGRAM):
        np.testing.assert_array_equal(Session().compile(program)(X)[0], X * X)


def test_another_entry() -> None:
    np.testing.assert_array_equal(Session().compile(PROGRAM, "other")(X)[0], -X)


def test_run_compiles_and_calls() -> None:
    np.testing.assert_array_equal(Session().run(PROGRAM, X)[0], X * X)
    np.testing.assert_array_equal(Session().run(PROGRAM, X, entry="other")[0], -X)


def test_the_program_of_the_design() -> None:
    graph = Graph()
    x = graph.input((8, 16), "f32", name="x")
    w = graph.input((16, 4), "f32", name="w")
    exe = Session(devices="cpu").compile(graph.build((x @ w).relu().softmax()))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 4)))
    (y,) = exe(a, b)
    positive = np.maximum(a @ b, 0)
    exponent = np.exp(positive - positive.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, exponent / exponent.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(exe(w=b, x=a)[0], y)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_bits(threads: int) -> None:
    program = """
    func.func @main(%x: tensor<300000xf32>) -> tensor<300000xf32> {
      %0 = fuel.exp %x : tensor<300000xf32>
      %1 = fuel.mul %0, %x : tensor<300000xf32>
      func.return %1 : tensor<300000xf32>
    }
    """
    x = np.random.default_rng(0).standard_normal(300000).astype(np.float32)
    exe = Session(threads=threads).compile(program)
    assert exe.report().threads == threads
    np.testing.assert_array_equal(exe(x)[0], Session(threads=1).compile(program)(x)[0])


def test_all_cores_of_the_process_by_default() -> None:
    assert Session().compile(PROGRAM).report().threads == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("devices", ["cpu", "cpu:0", " cpu ", "cpu,cpu"])
def test_the_cpu(devices: str) -> None:
    (cpu,) = Session(devices).devices.present
    assert cpu.targets == (TargetAttr.of("cpu", "numpy"),)
    assert cpu.free_bytes() is None
    assert str(Session(devices).devices) == "cpu"


def test_there_is_one_cpu() -> None:
    with pytest.raises(DeviceUnavailable, match="cpu:1 is not available: there is one cpu device"):
        Session("cpu:1")


@pytest.mark.parametrize("devices", ["tpu", "cpu,npu:0", "", "cpu,", "cuda:x", "auto,cpu"])
def test_devices_fuel_cannot_read(devices: str) -> None:
    with pytest.raises(UnknownDevice):
        Session(devices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads must be 1 or more, got 0"),
        ({"variants": "all"}, "variants is bake or keep, not 'all'"),
        ({"precision": "low"}, "precision is fast or exact, not 'low'"),
        ({"deterministic": "yes"}, "deterministic is True or False, not 'yes'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Session(**options)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("hello", "<text>:1:6: Operation hello is not registered"),
        ("func.func @main(", "<text>:1:17: "),
        (
            'func.func @main(%x: tensor<1xf32> {fuel.name = "one"}) {\n'
            f'  fuel.weight "{"key " * 20}\n}}',
            "<text>:2:15: nothing closes this string",
        ),
        ('// "\nfunc.func @f() attributes {a = "\\q"} {}', "<text>:2:32: nothing closes"),
        (
            "func.func @main() -> tensor<1xf32> {\n  func.return %y : tensor<1xf32>\n}",
            "<text>:3:2: values used but not defined: [%y]",
        ),
        (
            "func.func @main(%x: tensor<4xf32>, %y: tensor<3xf32>) {"
            '  %0 = "fuel.add"(%x, %y) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>'
            "  func.return }",
            "<text>: fuel.add: ",
        ),
        ("func.func @main(%x: tensor<?xf32>) { func.return }", "dynamic extent"),
        (
            "func.func @main(%x: f32) { func.return }",
            "argument 0 (arg0): expected a tensor, got f32",
        ),
        ("func.func @main(%x: tensor<2xi7>) { func.return }", "i7 is not an element type of fuel"),
        ("func.func @main(%x: tensor<2xf4E2M1FN>) { func.return }", "has no NumPy type"),
        (
            'func.func @main(%x: tensor<1xf32> {fuel.name = "a"}, '
            '%y: tensor<1xf32> {fuel.name = "a"}) { func.return }',
            "main: two arguments are called 'a'",
        ),
        ("func.func @f() { func.return }", "there is no function 'main'; the module has f"),
        ("func.func private @main()", "'main' is declared only; it has no body to run"),
        ("builtin.module {}", "there is no function 'main'; the module has none"),
    ],
)
def test_programs_that_are_wrong(program: str, message: str) -> None:
    with pytest.raises(ProgramError, match=re.escape(message)) as caught:
        Session().compile(program)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, FuelError)


def test_a_module_that_does_not_verify() -> None:
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> { func.return %x : tensor<2xf32> }"
    module = Parser(make_context(), text).parse_module()
    with pytest.raises(ProgramError, match=r"the module: func\.return: Expected arguments to have"):
        Session().compile(module)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Session().compile(tmp_path / "missing.mlir")
    binary = tmp_path / "binary.mlir"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProgramError, match=r"binary\.mlir: not UTF-8 text"):
        Session().compile(binary)


WEIGHTED = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %w = fuel.weight "layer.w" : tensor<2xf32>
  %b = fuel.weight "layer.b" : tensor<2xf32>
  %0 = fuel.mul %x, %w : tensor<2xf32>
  %1 = fuel.add %0, %b : tensor<2xf32>
  func.return %1 : tensor<2xf32>
}
"""


def weights() -> dict[str, Any]:
    w, b = np.array([2, 3], np.float32), np.array([1, -1], np.float32)
    return {"layer.w": w, "layer.b": b, "unread": np.zeros(7)}


def test_weights_from_a_mapping_and_from_files(tmp_path: Path) -> None:
    from fuel_runtime import save_arrays

    for name in ("w.npz", "w.safetensors"):
        save_arrays(tmp_path / name, weights())
    for source in (weights(), tmp_path / "w.npz", str(tmp_path / "w.safetensors")):
        exe = Session().compile(WEIGHTED, weights=source)
        np.testing.assert_array_equal(exe([1, 1])[0], [3, 2])
        assert sorted(exe.report().weights) == ["layer.b: f32[2]", "layer.w: f32[2]"]


def test_a_weight_error_names_every_offender() -> None:
    with pytest.raises(WeightError) as caught:
        Session().compile(WEIGHTED, weights={"layer.w": np.zeros(3, np.float32), "other": X})
    message = str(caught.value)
    assert "'layer.w': expected f32[2], got f32[3]" in message
    assert "'layer.b': missing, expected f32[2]" in message
    assert message.endswith("(given: layer.w, other)")
    with pytest.raises(WeightError, match=re.escape("expected f32[2], got f64[2]")):
        Session().compile(WEIGHTED, weights=weights() | {"layer.b": np.zeros(2)})
    with pytest.raises(WeightError, match=r"given: none\)$"):
        Session().compile(WEIGHTED)


def test_of_many_given_weights_a_few_are_named() -> None:
    given = {f"w{index}": X for index in range(20)}
    with pytest.raises(WeightError, match=r"given: w0, w1, .* and 12 more\)$"):
        Session().compile(WEIGHTED, weights=given)


def test_two_types_for_one_weight() -> None:
    program = """
    func.func @main() -> (tensor<2xf32>, tensor<3xf32>) {
      %a = fuel.weight "w" : tensor<2xf32>
      %b = fuel.weight "w" : tensor<3xf32>
      func.return %a, %b : tensor<2xf32>, tensor<3xf32>
    }
    """
    with pytest.raises(
        WeightError,
        match=re.escape("'w': the program reads it as f32[2] and as f32[3]; a weight has one type"),
    ):
        Session().compile(program, weights={"w": X})


def test_strided_weights() -> None:
    wide = np.array([2, 9, 3, 9], np.float32)
    exe = Session().compile(WEIGHTED, weights=weights() | {"layer.w": wide[::2]})
    np.testing.assert_array_equal(exe([1, 1])[0], [3, 2])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%a = fuel.exp %b : tensor<2xf32>\n%b = fuel.neg %x : tensor<2xf32>",
            "fuel.exp reads %b (tensor<2xf32>) before it is made",
        ),
        (
            "%a = fuel.add %x, %b : tensor<2xf32>\n%b = fuel.neg %a : tensor<2xf32>",
            "fuel.add reads %b (tensor<2xf32>) before it is made",
        ),
        ("%a = fuel.exp %a : tensor<2xf32>", "fuel.exp reads %a (tensor<2xf32>) before it is made"),
        (
            """
            %a = fuel.scan init(%c = %x : tensor<2xf32>) length 2 -> tensor<2xf32> {
              %d = fuel.exp %e : tensor<2xf32>
              %e = fuel.neg %c : tensor<2xf32>
              fuel.scan_yield carry(%d : tensor<2xf32>)
            }
            """,
            "fuel.exp reads %e (tensor<2xf32>) before it is made",
        ),
        (
            "%a = func.call @other(%x) : (tensor<2xf32>) -> tensor<2xf32>",
            "func.call is not supported; inline @other",
        ),
    ],
)
@pytest.mark.parametrize("as_module", [False, True])
def test_the_order_of_ops(body: str, message: str, as_module: bool) -> None:
    program = f"""
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
      {body}
      func.return %a : tensor<2xf32>
    }}
    func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> {{
      func.return %x : tensor<2xf32>
    }}
    """
    given = Parser(make_context(), program).parse_module() if as_module else program
    with pytest.raises(ProgramError, match=re.escape(message)):
        Session().compile(given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"func.func @main() attributes {{a = {'[' * 3000}{']' * 3000}}} {{ func.return }}",
            "nested too deeply",
        ),
        ("module {" * 600 + "}" * 600, "nested too deeply"),
        ("func.func @main() attributes {a = array<i640: 1>} { func.return }", "cannot be read"),
        (
            f"func.func @main() attributes {{a = 1 : i{'9' * 24}}} {{ func.return }}",
            "cannot be read",
        ),
        ("  \n", "<text>: there is no IR in it"),
    ],
)
def test_text_that_no_program_needs(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        Session().compile(text)


@pytest.mark.parametrize("shape", ["4611686018427387904", "99999999999999999999999x0"])
def test_shapes_that_cannot_be_addressed(shape: str) -> None:
    for program in (
        f"func.func @main(%x: tensor<{shape}xf32>) {{ func.return }}",
        f'func.func @main() {{ %w = fuel.weight "w" : tensor<{shape}xi8>\n func.return }}',
    ):
        with pytest.raises(ProgramError, match="a tensor has below 2\\^60 elements"):
            Session().compile(program)


def test_a_program_that_does_not_fit_into_memory() -> None:
    length = 2**59
    program = f"""
    func.func @main() -> tensor<{length}xf32> {{
      %0 = fuel.iota : tensor<{length}xf32>
      func.return %0 : tensor<{length}xf32>
    }}
    """
    with pytest.raises(OutOfMemory, match="main: not enough memory to load it: Unable to"):
        Session().compile(program)


@pytest.mark.parametrize("text", ["program.txt", "a/folder", ""])
def test_a_string_that_is_no_path(text: str) -> None:
    with pytest.raises(ProgramError, match="was read as IR text; one that is a path must end in"):
        Session().compile(text)


@pytest.mark.parametrize("name", ["é", "权重", 'a "b"\\c', "tab\t"])
def test_names_of_any_characters(name: str) -> None:
    graph, shown = Graph(), name.replace("\t", "")
    x = graph.input((3,), name=shown)
    y = graph.branch(x, [lambda a: a * graph.weight(name, (3,)), lambda a: a], id=name)
    program = str(graph.build(y, names=[shown]))
    for arm, want in enumerate((X * X, X)):
        session = Session(force={name: arm})
        exe = session.compile(program, weights={name: X})
        assert exe.signature.inputs[0].name == exe.signature.outputs[0].name == shown
        np.testing.assert_array_equal(exe(X)[0], want)
        again = session.compile(str(exe.module), weights={name: X}, optimize=False)
        np.testing.assert_array_equal(again(X)[0], want)


@pytest.mark.parametrize("name", ["", "a\nb", "\x00"])
def test_names_that_nobody_could_read(name: str) -> None:
    program = parse_module(PROGRAM)
    (main, *_) = program.body.block.ops
    assert isinstance(main, FuncOp)
    main.arg_attrs = ArrayAttr([DictionaryAttr({"fuel.name": StringAttr(name)})])
    with pytest.raises(ProgramError, match=r"fuel\.name must be a string of printable"):
        Session().compile(program)


@pytest.mark.parametrize("threads", [0, -1, 1025, 10**12, 2.5, True, "2"])
def test_numbers_of_threads(threads: Any) -> None:
    with pytest.raises(ArgumentError, match="session: threads must be "):
        Session(threads=threads)


def test_objects_of_a_wrong_kind() -> None:
    wrong: Any = ["cpu"]
    with pytest.raises(UnknownDevice, match="a comma-separated string such as 'cpu', not"):
        Session(devices=wrong)
    for force in ("d0=1", []):
        with pytest.raises(DecisionError, match="force maps decisions to arms"):
            Session(force=force)  # pyright: ignore[reportArgumentType]
    graph: Any = Graph()
    with pytest.raises(ProgramError, match=re.escape("a Graph; of a graph, pass graph.build(...)")):
        Session().compile(graph)
    with pytest.raises(WeightError, match="expected arrays by name or the path of a file"):
        Session().compile(PROGRAM, weights=wrong)


TWO = """
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = fuel.relu %x {placement = #fuel.device<cpu>} : tensor<512x512xf32>
  %1 = fuel.matmul %0, %0 {placement = #fuel.device<cpu>}
    : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
  func.return %1 : tensor<512x512xf32>
}
"""


def test_a_session_plans_for_the_machine_it_is_given(tmp_path: Path) -> None:
    eye = np.eye(512, dtype=np.float32)
    file = tmp_path / "machine.json"
    file.write_text(dump(PRESETS["cpu+h100"]))
    stamps = set[str]()
    for topology in ("cpu+h100", str(file), file, PRESETS["cpu+h100"]):
        exe = Session(topology=topology).compile(TWO)
        stamps.add(str(exe.module.attributes["fuel.plan"]))
        np.testing.assert_array_equal(exe(eye)[0], eye)
    assert len(stamps) == 1
    assert "fuel.plan" not in Session().compile(TWO).module.attributes


def test_a_topology_that_is_none_is_refused_when_the_session_is_made() -> None:
    with pytest.raises(FuelPassError, match="topology 'moon' is not known"):
        Session(topology="moon")
    with pytest.raises(FuelPassError, match=r"nowhere\.json cannot be read"):
        Session(topology="nowhere.json")


def arms(**options: Any) -> list[tuple[str, str]]:
    """The arms of the decisions of a product on a host and a GPU: where, and why."""
    square = "tensor<512x512xf32>"
    program = f"""
    func.func @main(%x: {square}) -> {square} {{
      %0 = fuel.matmul %x, %x : {square}, {square} -> {square}
      func.return %0 : {square}
    }}"""
    devices = fake("cpu,cuda:0", cuda=options.pop("memory", 2**30))
    report = Session(devices, **options).compile(program).report()
    return [(arm.target, arm.origin) for branch in report.branches for arm in branch.arms]


def test_how_far_and_how_full_is_asked_of_a_session() -> None:
    planned = "fuel-fork-placements: as planned"
    (best, _), (other, why) = arms(reach=1_000)
    assert why == "fuel-fork-placements: runner-up"
    assert {best, other} == {"cpu/numpy", "cuda:0/triton"}
    assert arms(reach=1) == []
    full = {"topology": "cpu+h100", "reach": 1}
    assert arms(**full) == []
    small = replace(
        PRESETS["cpu+h100"], devices=(Device("cpu"), Device("cuda:0", 4 * 2**20)), name="small"
    )
    links = tuple(replace(link, latency_ns=1, bytes_per_ns=1e6) for link in small.links)
    small = replace(small, links=links)
    assert arms(topology=small, reach=1) == []
    assert arms(topology=small, reach=1, refuge=0.4) == [
        ("cuda:0/triton", planned),
        ("cpu/numpy", "fuel-fork-placements: refuge from a full device"),
    ]
    mistakes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"reach": 0.5}, "reach must be a number >= 1, got 0.5"),
        ({"reach": True}, "reach must be a number, got True"),
        ({"refuge": 0}, "refuge must be a number above 0 and at most 1, got 0"),
        ({"refuge": "all"}, "refuge must be a number, got 'all'"),
    )
    for wrong, message in mistakes:
        with pytest.raises(ArgumentError, match=message):
            Session(**wrong)


def test_a_plan_that_is_taken_as_it_is_has_to_be_for_the_topology() -> None:
    """The one that the session was told, else the one that the module states."""
    square = "tensor<512x512xf32>"
    module = parse_module(f"""
    func.func @main(%x: {square}) -> {square} {{
      %0 = fuel.matmul %x, %x : {square}, {square} -> {square}
      func.return %0 : {square}
    }}""")
    OptimizePass(topology="cpu+h100").apply(make_context(), module)
    devices = fake("cpu,cuda:0")

    def taken(topology: str | None = None) -> Executable:
        return Session(devices, topology=topology).compile(module, optimize=False)

    taken("cpu+h100")
    taken()
    with pytest.raises(TopologyChanged, match=r"but 'cpu\+a100' is .*; run fuel-optimize again"):
        taken("cpu+a100")
    Session(devices, topology="cpu+a100").compile(module)
    module.attributes[STAMP] = attribute_of(PRESETS["cpu+h100"])
    taken()
    module.attributes[STAMP] = attribute_of(PRESETS["cpu+a100"])
    with pytest.raises(TopologyChanged, match=r"but 'cpu\+a100' is "):
        taken()


def test_a_report_says_which_arms_had_to_go() -> None:
    square = "tensor<512x512xf32>"
    program = f"""
    func.func @main(%x: {square}) -> {square} {{
      %0 = fuel.matmul %x, %x : {square}, {square} -> {square}
      %1 = fuel.copy %0 to #fuel.device<cpu> : {square}
      %2 = fuel.relu %1 : {square}
      func.return %2 : {square}
    }}"""
    report = Session(fake("cpu,cuda:0"), reach=1_000).compile(program).report()
    (said,) = report.dropped
    assert said.endswith("is the least valuable of more than 5 % of the kernels")
    assert f"dropped     1 arm\n  {said}" in str(report)


def test_bounds_of_a_session() -> None:
    with pytest.raises(NoBackendForOp, match="no target for sqr: cpu/numpy tiles: precision-floor"):
        Session(max_ulps=0).compile(PROGRAM)
    np.testing.assert_array_equal(Session(max_ulps=4, deterministic=True).run(PROGRAM, X)[0], X * X)
    with sources("numpy", tiles={"unstable": UNSTEADY}):
        module = Session(deterministic=True).compile(PROGRAM).module
    assert "fuel.kernel library" in str(module)
    for wrong in (-1, 1.5, True):
        with pytest.raises(ArgumentError, match="max_ulps must be a whole number >= 0, got"):
            Session(max_ulps=wrong)  # pyright: ignore[reportArgumentType]


def test_a_session_has_every_option_of_fuel_optimize() -> None:
    taken = inspect.signature(Session).parameters
    for field in dataclasses.fields(OptimizePass):
        if field.name != "place":
            assert taken[field.name].default == field.default
    assert "place" in inspect.signature(Session.compile).parameters


def test_options_reach_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[OptimizePass] = []
    rewrite = OptimizePass.rewrite
    monkeypatch.setattr(
        OptimizePass, "rewrite", lambda self, *rest: (asked.append(self), rewrite(self, *rest))
    )
    options: dict[str, Any] = {
        "variants": "keep",
        "granularity": "chain",
        "precision": "exact",
        "device": "cpu",
        "deterministic": True,
        "max_ulps": 7,
        "prepare_bytes": 64,
        "plugins": False,
    }
    exe = Session(**options).compile(PROGRAM)
    assert asked == [OptimizePass(topology="cpu", **options)]
    np.testing.assert_array_equal(exe(X)[0], X * X)


def test_a_session_plans_with_what_was_measured(tmp_path: Path) -> None:
    kernel = next(op for op in Session().compile(PROGRAM).module.walk() if isinstance(op, KernelOp))
    cpu = PRESETS["cpu"]
    key = measurement_key(kernel, cpu.targets[0], cpu)
    slow = Measurements({key: 10**9, replace(key, revision="library-1"): 10**3})
    file = tmp_path / "times.json"
    file.write_text(dump_times(slow))
    for measurements in (slow, str(file), file):
        exe = Session(measurements=measurements).compile(PROGRAM)
        assert "fuel.kernel library" in str(exe.module)
        np.testing.assert_array_equal(exe(X)[0], X * X)
    with pytest.raises(FuelPassError, match=r"nowhere\.json cannot be read"):
        Session(measurements="nowhere.json").compile(PROGRAM)


def test_what_is_no_topology_is_said() -> None:
    with pytest.raises(ArgumentError, match="topology is the name of a preset"):
        Session(topology=5)  # pyright: ignore[reportArgumentType]


def test_what_holds_no_times_is_said() -> None:
    with pytest.raises(ArgumentError, match=r"measurements is a \.json or \.db file or a M"):
        Session(measurements=5)  # pyright: ignore[reportArgumentType]


def test_an_arm_may_be_a_number_of_numpy() -> None:
    Session(force={"d0": np.int64(1)})  # pyright: ignore[reportArgumentType]
    with pytest.raises(DecisionError, match="an arm is a number from 0 upwards, not True"):
        Session(force={"d0": True})


def test_an_executable_is_saved_and_not_pickled() -> None:
    executable = Session().compile(PROGRAM)
    with pytest.raises(TypeError, match=r"cannot be pickled; save\(\) and Session\.load\(\)"):
        pickle.dumps(executable)
    with pytest.raises(UnknownDevice, match="the program takes no memory of 'cuda:0'; of cpu"):
        executable.memory().of("cuda:0")
    with pytest.raises(UnknownDevice, match=r"place.*'cpu/numpy' does not name a device"):
        Session().compile(PROGRAM, place={"sqr": "cpu/numpy"})
