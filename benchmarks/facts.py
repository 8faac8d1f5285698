# SPDX-License-Identifier: MIT OR Apache-2.0
"""Collects what figures depend on: processor, Python, packages; no paths or machine names."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fuel_lowering.cores import usable_cores

PACKAGES = (
    "fuel-compiler",
    "xdsl",
    "numpy",
    "ml_dtypes",
    "triton",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "jax",
    "jaxlib",
    "torch",
    "matplotlib",
)
SWITCHES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that change how fast NumPy's matmul is."""


def processor() -> str:
    """The model of the processor, as the system gives it."""
    try:
        with open("/proc/cpuinfo") as file:
            models = (line.partition(":")[2] for line in file if line.startswith("model name"))
            return next(models, "").strip() or platform.machine()
    except OSError:
        return platform.processor() or platform.machine()


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def blas() -> str:
    """NumPy's BLAS; the kernel it chose where threadpoolctl is installed."""
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    found = config["Build Dependencies"]["blas"]
    text = f"{found['name']} {found['version']}"
    try:
        from threadpoolctl import threadpool_info  # pyright: ignore[reportMissingImports]
    except ImportError:
        return text
    kernels = {p["architecture"] for p in threadpool_info() if p.get("user_api") == "blas"}
    return f"{text} ({', '.join(sorted(kernels))})"


def machine() -> dict[str, Any]:
    """The facts for the JSON file."""
    load = os.getloadavg() if hasattr(os, "getloadavg") else ()
    return {
        "processor": processor(),
        "architecture": platform.machine(),
        "cores": usable_cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: installed(name) for name in PACKAGES},
        "blas": blas(),
        "environment": {name: os.environ[name] for name in SWITCHES if name in os.environ},
        "load_average_at_start": [round(value, 2) for value in load],
    }


def label() -> str:
    """A name for this kind of machine: `amd-epyc-2-cores`."""
    words = re.sub(r"\(.*?\)|@.*|\bCPU\b|\bProcessor\b", " ", processor())
    return re.sub(r"[^a-z0-9]+", "-", f"{words} {usable_cores()} cores".lower()).strip("-")
