# SPDX-License-Identifier: MIT OR Apache-2.0
"""The GRU of `gated_recurrent_cell.mlir`, built in Python and compared with plain NumPy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from make_weights import weights_of
from xdsl.dialects.builtin import ModuleOp

import fuel_dialect as fuel
from fuel_runtime import Session

Array = np.ndarray[Any, np.dtype[Any]]

STEPS, BATCH, FEATURES, HIDDEN = 48, 16, 64, 128


def build() -> ModuleOp:
    """A verified module: arguments `x` and `h0`, results `last` and `states`."""
    g = fuel.Graph()
    x = g.input((STEPS, BATCH, FEATURES), "f32", name="x")
    h0 = g.input((BATCH, HIDDEN), "f32", name="h0")
    w = g.weight("gru.input.kernel", (FEATURES, 3 * HIDDEN))
    u = g.weight("gru.hidden.kernel", (HIDDEN, 3 * HIDDEN))
    b = g.weight("gru.input.bias", (3 * HIDDEN,))
    c = g.weight("gru.hidden.bias", (3 * HIDDEN,))

    def cell(h: fuel.Tensor, step: fuel.Tensor) -> tuple[fuel.Tensor, fuel.Tensor]:
        from_x, from_h = step @ w + b, h @ u + c
        r_x, z_x, n_x = (from_x[:, i * HIDDEN : (i + 1) * HIDDEN] for i in range(3))
        r_h, z_h, n_h = (from_h[:, i * HIDDEN : (i + 1) * HIDDEN] for i in range(3))
        z = (z_x + z_h).sigmoid()
        n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
        h = n + z * (h - n)
        return h, h

    last, states = g.scan(cell, h0, x)
    return g.build(last, states, names=["last", "states"])


def plain(x: Array, h: Array, weights: Mapping[str, Array]) -> tuple[Array, Array]:
    """The same in NumPy."""
    w, u, b, c = (
        weights[f"gru.{part}.{kind}"] for kind in ("kernel", "bias") for part in ("input", "hidden")
    )
    states: list[Array] = []
    for step in x:
        r_x, z_x, n_x = np.split(step @ w + b, 3, axis=1)
        r_h, z_h, n_h = np.split(h @ u + c, 3, axis=1)
        r, z = (1 / (1 + np.exp(-gate)) for gate in (r_x + r_h, z_x + z_h))
        n = np.tanh(n_x + r * n_h)
        h = n + z * (h - n)
        states.append(h)
    return h, np.stack(states)


def main() -> int:
    module = build()
    print(module)
    weights = weights_of(module)
    exe = Session(devices="cpu").compile(module, weights=weights)
    print(exe.report())

    rng = np.random.default_rng(0)
    x, h0 = (rng.standard_normal(p.shape).astype(p.numpy) for p in exe.signature.inputs)
    results = zip(exe(x, h0=h0), plain(x, h0, weights), strict=True)
    difference = max(float(np.abs(got - want).max()) for got, want in results)
    print(f"largest difference from plain NumPy: {difference:.1e}")
    return int(difference > 1e-5)


if __name__ == "__main__":
    sys.exit(main())
