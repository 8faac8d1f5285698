# SPDX-License-Identifier: MIT OR Apache-2.0
"""A package that adds an op, kernels, a target, a pattern and passes, built and then installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from effort import SLOW

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tests" / "plugin_package"


@SLOW
def test_the_package_does_what_it_says(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(PACKAGE)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(PACKAGE / "check_acme.py")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "failed" not in done.stdout
