# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The workloads that carry a state from step to step.

The hand-written loops give `out` by position, which costs less than the keyword.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import peers
from harness import Array, Contestant, Workload
from workloads import OUT, PLAIN, PROGRAMS, Arrays, normal, one, standard_peers, workload

EXAMPLES = PROGRAMS.parent.parent / "examples"

UNROLLS = "unrolls the loop into thousands of ops and compiles for minutes"


def scan_inputs() -> Arrays:
    return normal(1024, 512), normal(512, seed=1, scale=0.5), normal(512, seed=2)


def scan_peers(states: bool) -> dict[str, Callable[[], Contestant]]:
    """`lax.scan`, and a Python loop over torch's ops."""

    def jax(jax: Any) -> Any:
        def body(a: Any, h: Any, x: Any) -> Any:
            h = jax.numpy.tanh(a * h + x)
            return h, (h if states else None)

        def run(x: Any, a: Any, h: Any) -> Any:
            last, rows = jax.lax.scan(partial(body, a), h, x)
            return (last, rows) if states else (last,)

        return run

    def torch(torch: Any) -> Any:
        def run(x: Any, a: Any, h: Any) -> Any:
            rows: list[Any] = []
            for row in x:
                h = torch.tanh(a * h + row)
                rows.append(h)
            return (h, torch.stack(rows)) if states else (h,)

        return run

    others = standard_peers(jax, torch, scan_inputs())
    return {**others, peers.COMPILED: peers.absent(UNROLLS)}


def scan() -> Workload:
    """A recurrence that gives every state."""
    x, a, h0 = scan_inputs()

    def plain() -> Arrays:
        h, states = h0, np.empty_like(x)
        for step, row in enumerate(x):
            h = np.tanh(a * h + row)
            states[step] = h
        return h, states

    def out() -> Arrays:
        h, states = h0, np.empty_like(x)
        multiply, add, tanh = np.multiply, np.add, np.tanh
        for row, state in zip(x, states, strict=True):
            multiply(a, h, state)
            add(state, row, state)
            h = tanh(state, state)
        return h.copy(), states

    numpy = [Contestant(PLAIN, plain), Contestant(OUT, out)]
    title = "scan: h = tanh(a h + x), 1024 steps of 512 f32, all states"
    path = PROGRAMS / "scan.mlir"
    return workload(title, path, [x, a, h0], numpy, scan_peers(states=True))


def scan_carry() -> Workload:
    """The same recurrence; only the last state."""
    x, a, h0 = scan_inputs()

    def plain() -> Array:
        h = h0
        for row in x:
            h = np.tanh(a * h + row)
        return h

    def out() -> Array:
        h = h0.copy()
        multiply, add, tanh = np.multiply, np.add, np.tanh
        for row in x:
            multiply(a, h, h)
            add(h, row, h)
            tanh(h, h)
        return h

    numpy = [Contestant(PLAIN, plain, one), Contestant(OUT, out, one)]
    title = "scan: h = tanh(a h + x), 1024 steps of 512 f32, last state"
    path = PROGRAMS / "scan_carry.mlir"
    return workload(title, path, [x, a, h0], numpy, scan_peers(states=False))


def gru() -> Workload:
    """The gated recurrent cell of the examples."""
    x, h0 = normal(48, 16, 64), normal(16, 128, seed=1)
    w, u = normal(64, 384, seed=2, scale=0.125), normal(128, 384, seed=3, scale=0.088)
    b, c = normal(384, seed=4, scale=0.1), normal(384, seed=5, scale=0.1)
    names = ("input.kernel", "hidden.kernel", "input.bias", "hidden.bias")
    weights = {f"gru.{name}": array for name, array in zip(names, (w, u, b, c), strict=True)}
    numpy = [
        Contestant(PLAIN, lambda: gru_plain(x, h0, w, u, b, c)),
        Contestant(OUT, lambda: gru_out(x, h0, w, u, b, c)),
    ]
    inputs = [x, h0, w, u, b, c]
    others = {**standard_peers(gru_jax, gru_torch, inputs), peers.COMPILED: peers.absent(UNROLLS)}
    path = EXAMPLES / "gated_recurrent_cell.mlir"
    title = "gated recurrent unit: 48 steps, batch 16, 64 to 128"
    return workload(title, path, [x, h0], numpy, others, weights)


def gru_plain(x: Array, h: Array, w: Array, u: Array, b: Array, c: Array) -> Arrays:
    states: list[Array] = []
    for row in x:
        r, z, n = np.split(row @ w + b, 3, axis=1)
        r_h, z_h, n_h = np.split(h @ u + c, 3, axis=1)
        z = 1 / (1 + np.exp(-(z + z_h)))
        n = np.tanh(n + 1 / (1 + np.exp(-(r + r_h))) * n_h)
        h = n + z * (h - n)
        states.append(h)
    return h, np.stack(states)


def gru_out(x: Array, h: Array, w: Array, u: Array, b: Array, c: Array) -> Arrays:
    """The input's part of all steps in one product; r and z together."""
    steps, size = len(x), h.shape[1]
    states: Array = np.empty((steps, *h.shape), np.float32)
    from_x = np.matmul(x, w)
    np.add(from_x, b, from_x)
    from_h = np.empty_like(from_x[0])
    r, z, n_h = (from_h[:, i * size : (i + 1) * size] for i in range(3))
    gates = from_h[:, : 2 * size]
    for row, state in zip(from_x, states, strict=True):
        n = row[:, 2 * size :]
        np.matmul(h, u, from_h)
        np.add(from_h, c, from_h)
        np.add(gates, row[:, : 2 * size], gates)
        np.negative(gates, gates)
        np.exp(gates, gates)
        np.add(gates, 1, gates)
        np.reciprocal(gates, gates)
        np.multiply(r, n_h, r)
        np.add(n, r, n)
        np.tanh(n, n)
        np.subtract(h, n, state)
        np.multiply(state, z, state)
        np.add(state, n, state)
        h = state
    return h.copy(), states


def gru_jax(jax: Any) -> Any:
    numpy, sigmoid = jax.numpy, jax.nn.sigmoid

    def run(x: Any, h: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            r, z, n = numpy.split(row @ w + b, 3, axis=1)
            r_h, z_h, n_h = numpy.split(h @ u + c, 3, axis=1)
            z, n = sigmoid(z + z_h), numpy.tanh(n + sigmoid(r + r_h) * n_h)
            h = n + z * (h - n)
            return h, h

        return jax.lax.scan(step, h, x)

    return run


def gru_torch(torch: Any) -> Any:
    """torch's own fused GRU on the same weights."""
    cell = torch.nn.GRU(64, 128)
    bound = False

    def run(x: Any, h: Any, *weights: Any) -> Any:
        nonlocal bound
        if not bound:
            w, u, b, c = (
                torch.nn.Parameter(v.T.contiguous()) if v.ndim == 2 else torch.nn.Parameter(v)
                for v in weights
            )
            cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0 = w, u, b, c
            bound = True
        states, last = cell(x, h[None])
        return last[0], states

    return run
