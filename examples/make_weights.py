# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes the weights of every example: `out/<name>.safetensors`, next to this file.

Names, shapes and element types are read from the `fuel.weight` ops of the IR. The last part of a
name says what the weight is, and so how it is drawn. The same name and shape give the same values
on every machine.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect import dtypes
from fuel_dialect.context import load_program
from fuel_dialect.ops.memory import WeightOp
from fuel_runtime.array_files import save_arrays

EXAMPLES = Path(__file__).resolve().parent
OUT = EXAMPLES / "out"

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, Sequence[int]], Array]


def kernel(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Keeps the variance of what it multiplies: standard deviation 1 / sqrt(rows)."""
    return rng.standard_normal(shape) / np.sqrt(shape[0])


def bias(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    return 0.1 * rng.standard_normal(shape)


def gain(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    return 1 + 0.1 * rng.standard_normal(shape)


def decay(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Mamba's start: state n of every channel decays at the rate n + 1."""
    return np.broadcast_to(-np.arange(1.0, shape[1] + 1), shape)


def angles(shape: Sequence[int]) -> Array:
    """Of a rotary embedding [positions, width], base 10,000; both halves of a row are equal."""
    positions, width = shape
    rates = 10_000.0 ** (-np.arange(0, width, 2) / width)
    half = np.outer(np.arange(positions), rates)
    return np.concatenate([half, half], axis=1)


KINDS: Mapping[str, Draw] = {
    "kernel": kernel,
    "bias": bias,
    "gain": gain,
    "decay": decay,
    "cos": lambda rng, shape: np.cos(angles(shape)),
    "sin": lambda rng, shape: np.sin(angles(shape)),
}
"""The distribution of a weight, by the last part of its name."""


def draw(op: WeightOp) -> Array:
    """The values of one weight."""
    key, type = op.key.data, op.result.type
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    values = KINDS[key.rpartition(".")[2]](rng, type.get_shape())
    return np.ascontiguousarray(values.astype(dtypes.of_type(type).numpy))


def weights_of(module: ModuleOp) -> dict[str, Array]:
    """Every weight that a module names."""
    return {op.key.data: draw(op) for op in module.walk() if isinstance(op, WeightOp)}


def make(path: Path, folder: Path = OUT) -> Path:
    """Write the weights of one IR file. Returns the file they are in."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{path.stem}.safetensors"
    save_arrays(target, weights_of(load_program(path)))
    return target


def main() -> int:
    for path in sorted(EXAMPLES.glob("*.mlir")):
        target = make(path)
        print(f"{path.name}: {target.relative_to(EXAMPLES)}, {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
