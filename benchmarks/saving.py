# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures how long a saved program takes to load, and how long the same takes to compile.

Each is timed in a process of its own, with an empty kernel cache, and again in the same process,
where modules are imported and the cache is full. The medians of some rounds are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DECODER = "decoder"
"""The decoder of `planning`, 24 layers; not a file of the examples."""

CASES = (
    ("mlp", "cpu"),
    ("transformer_block", "cpu"),
    (DECODER, "cpu"),
    ("mlp", "vulkan:0"),
    ("transformer_block", "vulkan:0"),
)


def timed(what: str, example: str, devices: str, file: str) -> list[float]:
    """Returns the seconds of a first and of a second time; compiling writes the file."""
    from fuel_runtime import Session

    session = Session(devices)
    times: list[float] = []
    exe: Any = None
    for _ in range(2):
        start = time.perf_counter()
        exe = session.load(file) if what == "load" else _compiled(session, example)
        times.append(time.perf_counter() - start)
    if what == "compile":
        exe.save(file, weights=True)
    return times


def _compiled(session: Any, example: str) -> Any:
    """Compiles an example, with zeros for weights; these are in its file."""
    import numpy as np

    from fuel_dialect import dtypes
    from fuel_dialect.ops.memory import WeightOp
    from fuel_dialect.tensors import tensor_type

    module = _program(example)
    types = {
        op.key.data: tensor_type(op.result) for op in module.walk() if isinstance(op, WeightOp)
    }
    weights = {k: np.zeros(t.get_shape(), dtypes.of_type(t).numpy) for k, t in types.items()}
    return session.compile(module, weights=weights)


def _program(example: str) -> Any:
    from fuel_dialect.context import load_program

    if example != DECODER:
        return load_program(ROOT / "examples" / f"{example}.mlir")
    import planning

    return planning.decoder(planning.LAYERS)


def in_process(what: str, example: str, devices: str, file: Path) -> list[float]:
    """Returns the times of a new process with an empty kernel cache."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, __file__, "--time", what, example, devices, str(file)],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "FUEL_CACHE_DIR": folder},
        )
    return json.loads(run.stdout)


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.time:
        print(json.dumps(timed(*options.time)))
        return
    for example, devices in CASES:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "program.fuel"
            rows = [
                (
                    in_process("compile", example, devices, file),
                    in_process("load", example, devices, file),
                )
                for _ in range(options.rounds)
            ]
        for number, when in enumerate(("first", "again")):
            made = median(row[0][number] for row in rows)
            read = median(row[1][number] for row in rows)
            print(
                f"{example} on {devices}, {when}: compile {1e3 * made:.0f} ms, "
                f"load {1e3 * read:.0f} ms, {read / made:.2f} of it"
            )


if __name__ == "__main__":
    main()
