# SPDX-License-Identifier: MIT OR Apache-2.0
"""The classifier of `mlp.mlir`, built in Python: build, compile, run, compare with plain NumPy."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from make_weights import weights_of
from xdsl.dialects.builtin import ModuleOp

import fuel_dialect as fuel
from fuel_runtime import Session

Array = np.ndarray[Any, np.dtype[Any]]

BATCH = 64
SIZES = (784, 512, 256, 10)


def build() -> ModuleOp:
    """A verified module with one argument, `x`."""
    g = fuel.Graph()
    h = g.input((BATCH, SIZES[0]), "f32", name="x")
    for layer, (rows, columns) in enumerate(pairwise(SIZES), start=1):
        kernel = g.weight(f"mlp.{layer}.kernel", (rows, columns))
        bias = g.weight(f"mlp.{layer}.bias", (columns,))
        h = h @ kernel + bias
        if layer < len(SIZES) - 1:
            h = h.gelu()
    return g.build(h.softmax(), names=["probabilities"])


def plain(x: Array, weights: Mapping[str, Array]) -> Array:
    """The same in NumPy."""
    erf = np.vectorize(math.erf)
    for layer in (1, 2, 3):
        x = x @ weights[f"mlp.{layer}.kernel"] + weights[f"mlp.{layer}.bias"]
        if layer < 3:
            x = 0.5 * x * (1 + erf(x / math.sqrt(2)))
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main() -> int:
    module = build()
    print(module)
    weights = weights_of(module)
    exe = Session(devices="cpu").compile(module, weights=weights)
    print(exe.report())

    x = np.random.default_rng(0).standard_normal((BATCH, SIZES[0])).astype(np.float32)
    (probabilities,) = exe(x)
    difference = float(np.abs(probabilities - plain(x, weights)).max())
    print(f"largest difference from plain NumPy: {difference:.1e}")
    return int(difference > 1e-5)


if __name__ == "__main__":
    sys.exit(main())
