# SPDX-License-Identifier: MIT OR Apache-2.0
"""The wheel, in a clean environment with what it depends on and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from effort import SLOW

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [SLOW, pytest.mark.xdist_group("wheel")]  # one worker: the wheel is built once

PROGRAM = """\
// SPDX-License-Identifier: MIT OR Apache-2.0
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %a = fuel.relu %x : tensor<8x16xf32>
  %y = fuel.softmax_last_dim %a : tensor<8x16xf32>
  func.return %y : tensor<8x16xf32>
}
"""


@dataclass(frozen=True)
class Installed:
    """A wheel, and an environment that it is installed in."""

    wheel: Path
    folder: Path

    def run(self, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a tool of the environment, out of reach of this checkout."""
        clean = {name: v for name, v in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.folder / "bin" / tool, *arguments],
            cwd=self.folder,
            env=clean,
            capture_output=True,
            text=True,
            timeout=300,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    (environment / "program.mlir").write_text(PROGRAM)
    return Installed(wheel, environment)


def test_the_wheel_holds_the_packages_and_nothing_else(installed: Installed) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    top = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {
        "fuel_dialect",
        "fuel_passes",
        "fuel_explain",
        "fuel_lowering",
        "fuel_runtime",
    }
    assert all(f"{package}/py.typed" in names for package in top)
    licences = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE-MIT", "LICENSE-APACHE"}


def test_stock_xdsl_opt_loads_the_dialect(installed: Installed) -> None:
    done = installed.run("xdsl-opt", "program.mlir")
    assert done.returncode == 0, done.stderr
    assert "%y = fuel.softmax_last_dim %a : tensor<8x16xf32>" in done.stdout


def test_stock_xdsl_opt_runs_the_passes(installed: Installed) -> None:
    done = installed.run("xdsl-opt", "-p", "fuel-optimize", "program.mlir")
    assert done.returncode == 0, done.stderr
    assert 'fuel.run on #fuel.target<cpu, "numpy">' in done.stdout
    assert "fuel.kernel" in done.stdout


def test_stock_xdsl_opt_runs_the_target(installed: Installed) -> None:
    done = installed.run("xdsl-opt", "-t", "fuel-numpy", "program.mlir")
    assert done.returncode == 0, done.stderr
    compile(done.stdout, "generated", "exec")
    assert "def " in done.stdout


def test_fuel_run_runs(installed: Installed) -> None:
    done = installed.run("fuel-run", "program.mlir", "--random", "0", "--out", "out.npz")
    assert done.returncode == 0, done.stderr
    assert (installed.folder / "out.npz").exists()
    failed = installed.run("fuel-run", "missing.mlir", "--random", "0")
    assert failed.returncode == 2
    assert len(failed.stderr.splitlines()) == 1
