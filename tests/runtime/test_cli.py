# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command `fuel-run`: what it prints and writes, and one line for each mistake."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fake_devices import REGISTRY
from fuel_runtime import Session, load_arrays, save_arrays
from fuel_runtime.cli.flags import parser
from fuel_runtime.cli.main import main
from fuel_runtime.devices.opening import open_devices

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PROGRAM = """
func.func @main(%x: tensor<2x3xf32> {fuel.name = "x"}, %y: tensor<3xf32>)
    -> (tensor<2x3xf32> {fuel.name = "sum"}, tensor<2xf32>) {
  %w = fuel.weight "scale" : tensor<3xf32>
  %0 = fuel.mul %y, %w : tensor<3xf32>
  %1 = fuel.broadcast_to %0 : tensor<3xf32> -> tensor<2x3xf32>
  %2 = fuel.add %x, %1 : tensor<2x3xf32>
  %3 = fuel.sum_dim %2 {dim = 1 : i64} : tensor<2x3xf32> -> tensor<2xf32>
  func.return %2, %3 : tensor<2x3xf32>, tensor<2xf32>
}
func.func @large(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %0 = fuel.log %x : tensor<1000xf32>
  func.return %0 : tensor<1000xf32>
}
func.func @bf16(%x: tensor<2xbf16>) -> tensor<2xbf16> {
  %0 = fuel.neg %x : tensor<2xbf16>
  func.return %0 : tensor<2xbf16>
}
func.func @pick(%x: tensor<3x2xf32>, %i: tensor<4xui32>) -> tensor<4x2xf32> {
  %0 = fuel.index_select %x, %i {dim = 0 : i64}
    : tensor<3x2xf32>, tensor<4xui32> -> tensor<4x2xf32>
  func.return %0 : tensor<4x2xf32>
}
func.func @two(%x: tensor<2xf32>) -> tensor<2xf32> {
  %b = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.neg %a : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.sqr %a : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.sqr %a : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  func.return %b : tensor<2xf32>
}
"""

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.array([1, 2, 3], np.float32)
SCALE = np.array([2, 2, -1], np.float32)
SUM = X + Y * SCALE

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program, arguments and weights."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.mlir").write_text(PROGRAM)
    save_arrays("args.safetensors", {"x": X, "arg1": Y})
    save_arrays("args.npz", {"x": X, "arg1": Y})
    save_arrays("weights.npz", {"scale": SCALE})
    save_arrays("two.npz", {"arg0": np.array([2, 3], np.float32)})
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in the folder: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def ok(result: tuple[int, str, str]) -> str:
    code, out, err = result
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize("arguments", ["args.npz", "args.safetensors"])
def test_results_are_printed(run: Run, arguments: str) -> None:
    assert ok(run("p.mlir", arguments, "--weights", "weights.npz")) == (
        "sum: f32[2, 3]\n[[ 2.,  5., -1.],\n [ 5.,  8.,  2.]]\nresult1: f32[2]\n[ 6., 15.]\n"
    )


@pytest.mark.parametrize("out", ["out.npz", "out.safetensors"])
def test_results_are_written(run: Run, out: str) -> None:
    ok(run("p.mlir", "args.npz", "--weights", "weights.npz", "--out", out))
    arrays = load_arrays(out)
    assert arrays.keys() == {"sum", "result1"}
    np.testing.assert_array_equal(arrays["sum"], SUM)
    np.testing.assert_array_equal(arrays["result1"], SUM.sum(axis=1))


def test_random_arguments_and_weights_are_the_same_each_time(run: Run) -> None:
    first, again, other = (ok(run("p.mlir", "--random", seed)) for seed in "334")
    assert first == again
    assert first != other
    assert first.startswith("weights: made up from seed 3, 1 of them\nsum: f32[2, 3]\n")
    given = ok(run("p.mlir", "--random", "3", "--weights", "weights.npz"))
    assert given.startswith("sum: ")


def test_random_arguments_of_every_dtype(run: Run, folder: Path) -> None:
    names = "i1 i8 i16 i32 i64 ui8 ui32 bf16 f16 f32 f64 f8E4M3FN f8E5M2 f8E8M0FNU".split()
    arguments = ", ".join(f"%{name}: tensor<50x{name}>" for name in names)
    types = ", ".join(f"tensor<50x{name}>" for name in names)
    (folder / "all.mlir").write_text(
        f"func.func @main({arguments}) -> ({types}) {{\n"
        f"  func.return {', '.join(f'%{name}' for name in names)} : {types}\n}}"
    )
    out = ok(run("all.mlir", "--random", "0", "--out", "all.safetensors"))
    arrays = load_arrays("all.safetensors")
    for index, name in enumerate(names):
        assert f"result{index}: {name}[50]" in out
        assert len(np.unique(arrays[f"result{index}"].astype(np.float64))) > 1


def test_random_indices_stay_inside(run: Run) -> None:
    for seed in range(5):
        assert "result0: f32[4, 2]" in ok(run("p.mlir", "--entry", "pick", "--random", str(seed)))


def test_large_results_are_summarised(run: Run) -> None:
    x = np.ones(1000, np.float32)
    x[:3] = [0, -1, np.e]
    save_arrays("large.npz", {"arg0": x})
    out = ok(run("p.mlir", "large.npz", "--entry", "large"))
    assert out == (
        "result0: f32[1000]\n"
        "min 0, max 1, mean 0.001002, 1 NaN, 1 inf, first -inf, nan, 1, 0, 0, 0\n"
    )


def test_bf16_is_printed_and_written(run: Run) -> None:
    save_arrays("b.safetensors", {"arg0": np.array([1, 2.5], ml_dtypes.bfloat16)})
    out = ok(run("p.mlir", "b.safetensors", "--entry", "bf16", "--out", "o.safetensors"))
    assert out == "result0: bf16[2]\n[-1. , -2.5]\n"
    assert load_arrays("o.safetensors")["result0"].dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(("arm", "printed"), [("0", "[-2., -3.]"), ("1", "[4., 9.]")])
def test_forced_arms(run: Run, arm: str, printed: str) -> None:
    out = ok(run("p.mlir", "two.npz", "--entry", "two", "--force", f"d0={arm}"))
    assert out == f"result0: f32[2]\n{printed}\n"


def test_the_report_comes_before_the_results(run: Run) -> None:
    out = ok(run("p.mlir", "two.npz", "--entry", "two", "--report", "--threads", "3"))
    assert out.startswith("two(arg0: f32[2]) -> (result0: f32[2])\ndevices     asked for cpu, 3")
    assert "  d0: arm 0, static winner\n" in out
    assert "arm 2 on cuda:0/triton" in out
    assert out.endswith("\n\nresult0: f32[2]\n[-2., -3.]\n")


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices of tests in place of those of this machine."""
    monkeypatch.setattr(
        "fuel_runtime.compile.session.open_devices", partial(open_devices, registry=REGISTRY)
    )


@pytest.mark.usefixtures("fakes")
def test_devices_auto(run: Run) -> None:
    out = ok(run("p.mlir", "two.npz", "--entry", "two", "--devices", "auto", "--report"))
    assert "devices     asked for auto, " in out
    assert "  cuda:0: absent, the driver of cuda:0 is not installed; install a driver\n" in out


@pytest.mark.usefixtures("fakes")
def test_several_devices(run: Run) -> None:
    devices = ("--devices", "cpu,vulkan:0,cuda:0", "--emulate", "cuda:0", "--report")
    pins = ("--place", "mul=cuda:0", "--place=add=cpu")
    program = "p.mlir", "args.npz", "--weights", "weights.npz"
    alone = ok(run(*program))
    out = ok(run(*program, *devices, *pins))
    assert out.endswith(alone)
    assert "  vulkan:0: present, fake vulkan\n  cuda:0: emulated, fake cuda\n" in out
    assert "  run0 on cuda:0/triton: 1 kernel, 1 launch\n" in out
    assert "  arg1: f32[3], caller to cuda:0, 12 bytes\n" in out
    assert "24 bytes in all calls so far\n" in out


def test_no_optimize_takes_the_program_as_it_is(run: Run) -> None:
    for option in ("--no-optimize", "--variants=keep"):
        out = ok(run("p.mlir", "args.npz", "--weights", "weights.npz", option))
        assert "[ 6., 15.]" in out


def test_options_of_the_optimiser(run: Run) -> None:
    usual = ok(run("p.mlir", *ARGS))
    for option in ("--topology=cpu-vulkan", "--max-ulps=4", "--deterministic", "--no-plugins"):
        assert ok(run("p.mlir", *ARGS, option)) == usual
    for granularity, count in (("segment", 1), ("chain", 2)):
        out = ok(run("p.mlir", *ARGS, "--report", "--granularity", granularity))
        assert f"runs        {count} a call" in out
        assert out.endswith(usual)


@pytest.mark.usefixtures("fakes")
def test_a_device_for_all_kernels(run: Run) -> None:
    devices = ("--devices", "cpu,cuda:0", "--emulate", "cuda:0", "--report")
    out = ok(run("p.mlir", *ARGS, *devices, "--device", "cuda:0"))
    assert "runs        1 a call, of 1 lowered\n  run0 on cuda:0/triton: " in out


@pytest.mark.usefixtures("fakes")
def test_results_that_stay_on_a_device(run: Run) -> None:
    usual = ok(run("p.mlir", *ARGS))
    devices = ("--devices", "cpu,cuda:0", "--emulate", "cuda:0=1048576", "--report")
    both = ("--results=sum=cuda:0", "--results=result1=cuda:0")
    for where in (("--results", "cuda:0"), both):
        out = ok(run("p.mlir", *ARGS, *devices, "--device", "cuda:0", *where))
        assert out.endswith(usual)
        assert "cuda:0 to cpu" not in out


def test_decisions_without_signals_and_with_exploring(run: Run) -> None:
    usual = ok(run("p.mlir", *ARGS))
    keep = ("--variants", "keep", "--repeat", "3")
    assert ok(run("p.mlir", *ARGS, *keep, "--no-telemetry", "--explore", "0.5")) == usual
    assert ok(run("p.mlir", *ARGS, *keep, "--answer-within", "60")) == usual


@pytest.mark.parametrize("flag", ["--check-arms", "--check-arms=1e-3"])
def test_arms_that_agree_are_compared(run: Run, flag: str) -> None:
    program = (str(EXAMPLES / "nested_branch.mlir"), "--random", "0")
    usual = ok(run(*program))
    assert ok(run(*program, flag)) == usual
    out = ok(run(*program, flag, "--repeat", "2", "--report"))
    assert "softmax: arm 1 and arm 0, 2 calls: differs by " in out


def test_a_program_that_is_saved_and_run_again(run: Run, folder: Path) -> None:
    usual = ok(run("p.mlir", *ARGS, "--save", "p.fuel"))
    (folder / "p.mlir").unlink()
    assert ok(run("p.fuel", "args.npz")) == usual
    assert ok(run("p.fuel", *ARGS)) == usual
    made_up = ok(run("p.fuel", "--random", "0"))
    assert made_up.startswith("sum: f32[2, 3]\n")


def test_every_option_of_a_session_has_a_flag() -> None:
    flags = {action.dest for action in parser()._actions}
    of_session = set(inspect.signature(Session.__init__).parameters) - {"self"}
    of_compile = set(inspect.signature(Session.compile).parameters) - {"self", "program"}
    assert of_session | of_compile <= flags


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: fuel-run [-h]")
    assert "examples:" in out
    options = (
        "random repeat entry weights devices emulate place force threads out report no-optimize"
    )
    planning = "variants topology precision device deterministic max-ulps measurements no-plugins"
    for option in (*options.split(), *planning.split()):
        assert f"--{option}" in out


ARGS = ("args.npz", "--weights", "weights.npz")


def prepare(folder: Path) -> None:
    """Files with a mistake in them."""
    (folder / "parse.mlir").write_text("func.func @main() {\n  fuel.nope\n}")
    (folder / "verify.mlir").write_text(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        '  %0 = "fuel.transpose"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n'
        "  func.return %0 : tensor<2xf32>\n}"
    )
    (folder / "binary.mlir").write_bytes(b"\xff\xfe")
    save_arrays("shape.npz", {"x": X.T, "arg1": Y})
    save_arrays("dtype.npz", {"x": X.astype(np.float64), "arg1": Y})
    save_arrays("missing.npz", {"x": X})
    save_arrays("unknown.npz", {"x": X, "arg1": Y, "z": Y})
    save_arrays("nothing.npz", {"x": X})
    save_arrays("far.npz", {"arg0": X.reshape(3, 2), "arg1": np.array([0, 1, 2, 3], np.uint32)})
    save_arrays("b.safetensors", {"arg0": np.ones(2, ml_dtypes.bfloat16)})
    save_arrays("weights-shape.npz", {"scale": SCALE[:2]})
    save_arrays("weights-other.npz", {"scale": SCALE, "shift": SCALE})
    (folder / "text.npz").write_bytes(b"hello there")
    (folder / "empty.mlir").write_bytes(b"")
    whole = (folder / "args.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[:-7])
    (folder / "cut.npz").write_bytes((folder / "args.npz").read_bytes()[:-70])


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "over the program": (
        ("p.mlir", *ARGS, "--trace", "p.mlir"),
        "--trace p.mlir would write over the program",
    ),
    "over the program by another path": (
        ("p.mlir", *ARGS, "--record", "./p.mlir"),
        "--record ./p.mlir would write over the program",
    ),
    "over the arguments": (("p.mlir", "args.npz", "--record", "args.npz"), "the arguments"),
    "over the weights": (
        ("p.mlir", "args.npz", "--weights", "args.npz", "--trace", "args.npz"),
        "--trace args.npz would write over",
    ),
    "over another output": (
        ("p.mlir", *ARGS, "--trace", "out.npz"),
        "--trace out.npz would write over --out",
    ),
    "no folder to record in": (
        ("p.mlir", *ARGS, "--record", "no/r.json"),
        "no/r.json: No such file or directory",
    ),
    "no name of a trace": (("p.mlir", *ARGS, "--trace", ""), "No such file or directory"),
    "a trace that is a folder": (("p.mlir", *ARGS, "--trace", "."), ".: Is a directory"),
    "missing program": (("none.mlir", *ARGS), "none.mlir: No such file or directory"),
    "program is a folder": ((".", *ARGS), ".: Is a directory"),
    "missing arguments": (("p.mlir", "none.npz"), "none.npz: No such file or directory"),
    "missing weights": (
        ("p.mlir", "args.npz", "--weights", "none.npz"),
        "none.npz: No such file or directory",
    ),
    "parse error": (("parse.mlir",), "parse.mlir:3:1: Operation fuel.nope is not registered"),
    "verify error": (("verify.mlir",), "verify.mlir: fuel.transpose: "),
    "binary program": (("binary.mlir",), "binary.mlir: not UTF-8 text"),
    "no arguments": (
        ("p.mlir",),
        "main takes arguments (x: f32[2, 3], arg1: f32[3]); give a file of them, or --random SEED",
    ),
    "both": (("p.mlir", "args.npz", "--random", "1"), "a file of arguments or --random, not both"),
    "wrong shape": (
        ("p.mlir", "shape.npz", *ARGS[1:]),
        "main: argument 0 (x): expected f32[2, 3], got f32[3, 2]",
    ),
    "wrong dtype": (
        ("p.mlir", "dtype.npz", *ARGS[1:]),
        "main: argument 0 (x): expected f32[2, 3], got f64[2, 3]",
    ),
    "missing argument": (("p.mlir", "missing.npz", *ARGS[1:]), "missing: 'arg1'"),
    "unknown argument": (("p.mlir", "unknown.npz", *ARGS[1:]), "main has no argument 'z'"),
    "missing weight": (
        ("p.mlir", "args.npz"),
        "weights: 'scale': missing, expected f32[3] (given: none)",
    ),
    "weight of a wrong shape": (
        ("p.mlir", "args.npz", "--weights", "weights-shape.npz"),
        "weights: 'scale': expected f32[3], got f32[2]",
    ),
    "unknown weight": (
        ("p.mlir", "args.npz", "--weights", "weights-other.npz"),
        "weights-other.npz: the program has no weight 'shift'; it has scale",
    ),
    "truncated safetensors": (
        ("p.mlir", "cut.safetensors", *ARGS[1:]),
        "cut.safetensors: not a whole safetensors file: ",
    ),
    "truncated npz": (("p.mlir", "cut.npz"), "cut.npz: not a whole npz file: "),
    "other array file": (("p.mlir", "p.mlir"), "p.mlir: the name must end in .safetensors or"),
    "unknown entry": (
        ("p.mlir", *ARGS, "--entry", "nain"),
        "there is no function 'nain'; the module has main, large, bf16, pick, two",
    ),
    "unknown device": (("p.mlir", *ARGS, "--devices", "tpu:0"), "'tpu:0' is not a device; the"),
    "absent device": (("p.mlir", *ARGS, "--devices", "cuda:99"), "cuda:99 is not available: "),
    "a device without a size": (
        ("p.mlir", *ARGS, "--memory", "cpu"),
        "write a device and its size",
    ),
    "a size that is none": (("p.mlir", *ARGS, "--memory", "cpu=2 gigs"), "is a size such as 2GiB"),
    "emulated, not asked for": (("p.mlir", *ARGS, "--emulate", "cuda"), "cuda:0 is to be emulated"),
    "place without a device": (("p.mlir", *ARGS, "--place", "mul"), "place 'mul': write a name"),
    "place twice": (
        ("p.mlir", *ARGS, "--place", "mul=cpu", "--place=mul=cpu"),
        "place 'mul=cpu': mul is placed already",
    ),
    "place of nothing": (("p.mlir", *ARGS, "--place", "exp=cpu"), "main has nothing called 'exp'"),
    "force without an arm": (("p.mlir", *ARGS, "--force", "d0"), "--force 'd0': write a decision"),
    "force with a bad arm": (("p.mlir", *ARGS, "--force", "d0=x"), "--force 'd0=x': write a"),
    "force what is not there": (
        ("p.mlir", *ARGS, "--force", "d0=1"),
        "there is no decision 'd0'; the program has none",
    ),
    "force an arm that is not there": (
        ("p.mlir", "two.npz", "--entry", "two", "--force", "d0=7"),
        "decision d0 has no arm 7; its arms are 0 to 2",
    ),
    "force an arm that cannot run": (
        ("p.mlir", "two.npz", "--entry", "two", "--force", "d0=2"),
        "decision d0: arm 2 cannot be forced: the session has no cuda:0",
    ),
    "no program": (("", *ARGS), "the name of the program is empty"),
    "force twice": (
        ("p.mlir", *ARGS, "--force", "d0=0", "--force", "d0=1"),
        "--force 'd0=1': d0 is forced already; give it once",
    ),
    "force an arm of many digits": (
        ("p.mlir", *ARGS, "--force", f"d0={'1' * 5000}"),
        "write a decision and an arm",
    ),
    "many threads": (("p.mlir", *ARGS, "--threads", "20000"), "must be 1024 or fewer, got 20000"),
    "long seed": (("p.mlir", "--random", "1" * 5000), "expected a number of 100 digits or fewer"),
    "no npz": (("p.mlir", "text.npz"), "text.npz: not an npz file, which is a zip archive"),
    "empty program": (("empty.mlir", *ARGS), "empty.mlir: there is no IR in it"),
    "one argument too many": (("p.mlir", *ARGS, "more.npz"), "unrecognized arguments: more.npz"),
    "no calls": (
        ("p.mlir", *ARGS, "--repeat", "0"),
        "expected a whole number from 1 upwards, not '0'",
    ),
    "no such topology": (("p.mlir", *ARGS, "--topology", "moon"), "topology 'moon' is not known"),
    "topology of other devices": (
        ("p.mlir", *ARGS, "--topology", "cpu+h100", "--device", "cuda:0"),
        "main cannot run: the session has no cuda:0; its devices are cpu",
    ),
    "device not in the topology": (
        ("p.mlir", *ARGS, "--device", "cuda:0"),
        "device cuda:0 is not in topology 'cpu'; it has cpu/numpy",
    ),
    "not compiled again": (
        ("p.fuel", *ARGS, "--variants", "keep", "--entry=two"),
        "p.fuel is compiled; it cannot be given with --variants, --entry",
    ),
    "no saved program": (("none.fuel", *ARGS), "none.fuel: No such file or directory"),
    "where none is saved": (("p.mlir", *ARGS, "--save", "p.zip"), "p.zip: the name of a saved"),
    "bad share": (("p.mlir", *ARGS, "--explore", "2"), "--explore: expected a share from 0 to 1"),
    "bad difference": (
        ("p.mlir", *ARGS, "--check-arms=-1"),
        "--check-arms: expected a relative difference from 0 and below 1, such as 1e-3",
    ),
    "no time": (
        ("p.mlir", *ARGS, "--answer-within", "0"),
        "--answer-within: expected a number of seconds above 0, such as 0.5, not '0'",
    ),
    "endless time": (("p.mlir", *ARGS, "--answer-within", "inf"), "expected a number of seconds"),
    "no number": (("p.mlir", *ARGS, "--answer-within", "soon"), "expected a number of seconds"),
    "no share": (("p.mlir", *ARGS, "--explore", "x"), "--explore: expected a share from 0 to 1"),
    "bad bytes": (
        ("p.mlir", *ARGS, "--devices=cpu,cuda:0", "--emulate=cuda:0=1G"),
        "--emulate 'cuda:0=1G': write a device and its bytes",
    ),
    "unknown result": (("p.mlir", *ARGS, "--results", "z=cpu"), "there is no result 'z'"),
    "results twice": (
        ("p.mlir", *ARGS, "--results", "cpu", "--results", "sum=cpu"),
        "--results cpu is for all results; it cannot be given with another",
    ),
    "bad arm to forbid": (("p.mlir", *ARGS, "--forbid", "d0"), "--forbid 'd0': write a decision"),
    "bad precision floor": (("p.mlir", *ARGS, "--max-ulps", "-1"), "argument --max-ulps: expected"),
    "too high a precision": (("p.mlir", *ARGS, "--max-ulps", "0"), "tiles: precision-floor"),
    "no measurements": (("p.mlir", *ARGS, "--measurements", "no.json"), "no.json cannot be read"),
    "options of no use": (
        ("p.mlir", *ARGS, "--no-optimize", "--max-ulps=4", "--no-plugins"),
        "takes the program as it is; it cannot be given with --max-ulps, --no-plugins",
    ),
    "no threads": (("p.mlir", *ARGS, "--threads", "0"), "threads must be 1 or more, got 0"),
    "index out of range": (("p.mlir", "far.npz", "--entry", "pick"), "index_select"),
    "bf16 into npz": (
        ("p.mlir", "b.safetensors", "--entry", "bf16"),
        "out.npz: npz cannot hold 'result0', which is bf16; write a .safetensors file, which can",
    ),
    "bad seed": (("p.mlir", "--random", "-1"), "argument --random: expected a whole number"),
    "bad option": (("p.mlir", "--nope"), "unrecognized arguments: --nope (see fuel-run --help)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_one_line_and_writes_nothing(run: Run, folder: Path, mistake: str) -> None:
    prepare(folder)
    before = sorted(folder.iterdir())
    arguments, message = MISTAKES[mistake]
    code, out, err = run(*arguments, "--out", "out.npz")
    assert code == 2
    assert out == ""
    assert err.startswith("fuel-run: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("out.txt", "out.txt: the name must end in"),
        ("no/out.npz", "error: no/out.npz: No such file or directory"),
    ],
)
def test_where_results_cannot_go(run: Run, folder: Path, out: str, message: str) -> None:
    before = sorted(folder.iterdir())
    code, printed, err = run("p.mlir", *ARGS, "--out", out)
    assert (code, printed) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_an_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fuel_runtime.cli.main.load_program", interrupt)
    assert run("p.mlir", *ARGS) == (130, "", "")


def test_options_may_stand_anywhere(run: Run) -> None:
    usual = ok(run("p.mlir", *ARGS))
    assert ok(run("p.mlir", "--weights", "weights.npz", "args.npz")) == usual
    assert ok(run("--weights", "weights.npz", "p.mlir", "args.npz")) == usual


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"fuel {version('fuel-compiler')}\n"


NESTED = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %b = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.neg %a : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %c = fuel.branch "d1"(%d = %a : tensor<2xf32>) -> tensor<2xf32>
    arm on #fuel.target<cpu, "numpy"> {
      %0 = fuel.sqr %d : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    arm on #fuel.target<cpu, "numpy"> {
      %0 = fuel.exp %d : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %c : tensor<2xf32>
  }
  func.return %b : tensor<2xf32>
}
"""


def test_a_decision_forced_in_vain_is_told_of(run: Run, folder: Path) -> None:
    (folder / "nested.mlir").write_text(NESTED)
    code, out, err = run("nested.mlir", "two.npz", "--force", "d0/1/d1=1")
    assert (code, out) == (0, "result0: f32[2]\n[-2., -3.]\n")
    assert err.startswith("fuel-run: note: --force d0/1/d1=1 has no effect: it is inside an arm")
    assert err.count("\n") == 1
    assert ok(run("nested.mlir", "two.npz", "--force", "d0=1", "--force", "d0/1/d1=0")) == (
        "result0: f32[2]\n[4., 9.]\n"
    )


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_is_not_there(run: Run, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, stream, None)
    assert run("p.mlir", *ARGS)[0] == 0
    assert run("p.mlir", "none.npz")[:2] == (2, "")


SUMMING = """
func.func @main(%x: tensor<2xf32>, %sum: tensor<2xf32> {fuel.name = "sum", fuel.donated})
    -> (tensor<2xf32>, tensor<2xf32> {fuel.aliases = 1 : i64}) {
  %next = fuel.add %sum, %x : tensor<2xf32>
  %y = fuel.neg %next : tensor<2xf32>
  func.return %y, %next : tensor<2xf32>, tensor<2xf32>
}
"""


@pytest.mark.parametrize(("calls", "said", "y"), [(1, "1 call", -2), (3, "3 calls", -6)])
def test_state_is_kept_from_call_to_call(
    run: Run, folder: Path, calls: int, said: str, y: int
) -> None:
    (folder / "sum.mlir").write_text(SUMMING)
    assert ok(run("sum.mlir", "two.npz", "--repeat", str(calls))) == (
        f"state: starts at zero, and is gone after {said}: sum: f32[2]\n"
        f"result0: f32[2]\n[{y}., {3 * y // 2}.]\n"
    )


ENDED = """
import os, signal, sys
from fuel_runtime import array_files
from fuel_runtime.cli.main import command

def stuck(file, arrays):
    os.kill(os.getpid(), signal.SIGTERM)

array_files._FORMATS[".npz"] = (array_files._FORMATS[".npz"][0], stuck)
sys.argv = ["fuel-run", "p.mlir", "--random", "0", "--out", "out.npz"]
sys.exit(command())
"""


def test_a_request_to_end_leaves_no_files(folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"")
    assert sorted(folder.iterdir()) == before


INTERRUPTED = """
import sys

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from fuel_runtime.__main__ import main
sys.exit(main())
"""


def test_an_interrupt_while_it_starts(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "fuel_runtime", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_as_a_process(folder: Path) -> None:
    done = process("p.mlir", *ARGS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("result1: f32[2]\n[ 6., 15.]\n")


def test_a_failing_process(folder: Path) -> None:
    done = process("p.mlir", "none.npz")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fuel-run: error: none.npz: No such file or directory\n"


def test_a_reader_that_goes_away(folder: Path) -> None:
    command = [sys.executable, "-m", "fuel_runtime", "p.mlir", "--random", "0", "--report"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 0


def test_an_output_that_is_no_file_stays_what_it_is(run: Run, folder: Path) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    code, _, err = run("p.mlir", *ARGS, "--record", "pipe")
    reader.join()
    assert (code, err) == (0, "")
    assert json.loads(read[0])["decisions"] == {}
    assert pipe.is_fifo()
