# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Counts what each command imports, in an interpreter of its own; `benchmarks/startup.py` has times.

A program pays for what it asks for: f32 needs neither ml_dtypes nor safetensors, and a target, a
device or a drawing is imported by the first program that uses one.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PACKAGES = {
    "cupy",
    "fuel_explain",
    "hypothesis",
    "kp",
    "matplotlib",
    "ml_dtypes",
    "msgspec",
    "psutil",
    "pynvml",
    "safetensors",
    "threadpoolctl",
    "torch",
    "triton",
    "unittest",
}
"""Packages that the MLP of the examples does not use."""

MODULES = {
    "fuel_dialect.builder.graph",
    "fuel_dialect.builder.handle",
    "fuel_dialect.interpreter.evaluate",
    "fuel_lowering.kompute",
    "fuel_lowering.triton",
    "fuel_runtime.devices.cuda",
    "fuel_runtime.devices.emulated",
    "fuel_runtime.devices.vulkan",
    "fuel_runtime.probe",
    "numpy.f2py",
    "numpy.testing",
}

RUN = "from fuel_runtime.cli.main import main; main({arguments!r})"
OPT = "from xdsl.xdsl_opt_main import xDSLOptMain; xDSLOptMain(args={arguments!r}).run()"

BF16 = """
func.func @main(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %y = fuel.neg %x : tensor<4xbf16>
  func.return %y : tensor<4xbf16>
}"""


@cache
def loaded_by(command: str, *arguments: str) -> frozenset[str]:
    """Returns the modules that are loaded after a command has run in a new interpreter."""
    code = f"import sys\n{command.format(arguments=list(arguments))}\nprint('LOADED', *sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return frozenset(run.stdout.rpartition("LOADED ")[2].split())


def run_mlp() -> frozenset[str]:
    return loaded_by(RUN, str(EXAMPLES / "mlp.mlir"), "--random", "0")


def optimize_mlp() -> frozenset[str]:
    return loaded_by(OPT, str(EXAMPLES / "mlp.mlir"), "-p", "fuel-optimize")


@pytest.mark.parametrize("load", [run_mlp, optimize_mlp])
def test_a_program_of_f32_imports_nothing_that_it_does_not_use(load):
    assert not load() & (PACKAGES | MODULES)


SAVED = """
from fuel_runtime import Session
Session().compile({text!r}).save({path!r})"""

F32 = BF16.replace("bf16", "f32")


def test_loading_a_saved_program_imports_no_pass_and_no_op_that_is_elementwise(tmp_path: Path):
    path = str(tmp_path / "p.fuel")
    code = SAVED.format(text=F32, path=path)
    subprocess.run([sys.executable, "-c", code], check=True)
    loaded = loaded_by("from fuel_runtime import Session; Session().load(*{arguments!r})", path)
    unwanted = {
        "fuel_dialect.ops.elementwise",
        "fuel_passes.options",
        "fuel_passes.pipeline",
        "fuel_runtime.compile.build",
        "ml_dtypes",
        "numpy.ma",
    }
    assert loaded & unwanted == set()


def test_an_optimizer_imports_no_layer_above_it_and_no_numpy():
    packages = {name.partition(".")[0] for name in optimize_mlp()}
    assert not packages & {"numpy", "fuel_explain", "fuel_lowering", "fuel_runtime"}


def test_a_program_of_bf16_imports_ml_dtypes(tmp_path: Path):
    path = tmp_path / "neg.mlir"
    path.write_text(BF16)
    assert "ml_dtypes" in loaded_by(RUN, str(path), "--random", "0")
