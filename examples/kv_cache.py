# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The decode step of `kv_cache.mlir`, built in Python: 200 steps, each compared with attention that
NumPy computes anew over all tokens so far.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Mapping
from typing import Any

import numpy as np
from make_weights import weights_of
from xdsl.dialects.builtin import ModuleOp

import fuel_dialect as fuel
from fuel_runtime import Session

Array = np.ndarray[Any, np.dtype[Any]]

WIDTH, HEADS, CAPACITY, STEPS = 64, 4, 256, 200
HEAD = WIDTH // HEADS
WARM = 100
"""Steps after which memory may not grow any more."""


def build() -> ModuleOp:
    """A verified module: argument `x`, result `y`, and the state `keys`, `values` and `count`."""
    g = fuel.Graph()
    x = g.input((1, WIDTH), "f32", name="x")
    keys = g.state((HEADS, CAPACITY, HEAD), "f32", name="keys")
    values = g.state((HEADS, CAPACITY, HEAD), "f32", name="values")
    count = g.state((), "ui32", name="count")

    def heads(name: str) -> fuel.Tensor:
        w = g.weight(f"attention.{name}.kernel", (WIDTH, WIDTH))
        return (x @ w).reshape(HEADS, 1, HEAD)

    all_keys = keys.write(heads("key"), at=count, axis=1)
    all_values = values.write(heads("value"), at=count, axis=1)
    held = count + 1
    keys.update(all_keys)
    values.update(all_values)
    count.update(held)

    scores = (heads("query") * HEAD**-0.5) @ all_keys.T
    is_empty = g.iota(CAPACITY) >= held.astype("f32")
    weights = fuel.where(is_empty, -np.inf, scores).softmax()
    row = (weights @ all_values).reshape(1, WIDTH)
    return g.build(row @ g.weight("attention.out.kernel", (WIDTH, WIDTH)), names=["y"])


def plain(tokens: Array, weights: Mapping[str, Array]) -> Array:
    """Computes in NumPy what the last of some tokens gives."""
    q, k, v = (
        (tokens @ weights[f"attention.{name}.kernel"]).reshape(-1, HEADS, HEAD).swapaxes(0, 1)
        for name in ("query", "key", "value")
    )
    scores = q[:, -1:] @ k.swapaxes(1, 2) / np.sqrt(HEAD)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (e / e.sum(axis=-1, keepdims=True)) @ v
    return mixed.reshape(1, WIDTH) @ weights["attention.out.kernel"]


def main() -> int:
    module = build()
    weights = weights_of(module)
    exe = Session(devices="cpu").compile(module, weights=weights)
    state = exe.new_state()
    print(exe.report())

    tokens = np.random.default_rng(0).standard_normal((STEPS, WIDTH)).astype(np.float32)
    difference, memory = 0.0, 0
    tracemalloc.start()
    for step in range(STEPS):
        (y,) = exe(tokens[step : step + 1], state=state)
        want = plain(tokens[: step + 1], weights)
        difference = max(difference, float(np.abs(y - want).max()))
        if step == WARM:
            memory, _ = tracemalloc.get_traced_memory()
    growth = tracemalloc.get_traced_memory()[0] - memory
    print(state)
    print(f"{state['count']} steps, largest difference from plain NumPy: {difference:.1e}")
    print(f"bytes more in use than after {WARM} steps: {growth:,}")
    return int(difference > 1e-5 or growth > state["keys"].nbytes)


if __name__ == "__main__":
    sys.exit(main())
