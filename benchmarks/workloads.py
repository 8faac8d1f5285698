# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Lists what is measured: a program in `programs/`, and the same written for each peer.

The hand-written NumPy forms (`out=`) keep scratch between calls, allocate the results they return,
and work in blocks that fit a cache where the work has no order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import peers
from harness import Array, Contestant, Workload

from fuel_dialect.context import load_program
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_runtime import Session

PROGRAMS = Path(__file__).resolve().parent / "programs"

FUEL = "fuel"
PLAIN = "NumPy"
OUT = "NumPy out="
BLOCK = 32_768

Arrays = Sequence[Array]


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Random f32, the same each time."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def one(result: Any) -> Arrays:
    """For a peer that returns one array itself."""
    return [np.asarray(result)]


def fuel(
    path: Path, inputs: Arrays, weights: Mapping[str, Array] = {}
) -> tuple[Contestant, Arrays]:
    """The compiled program, and what the reference says it computes."""
    module = load_program(path)
    exe = Session(devices="cpu").compile(module, weights=dict(weights))
    return Contestant(FUEL, lambda: exe(*inputs)), evaluate(module, *inputs, weights=weights)


def standard_peers(
    jax: Callable[[Any], Any], torch: Callable[[Any], Any], inputs: Arrays
) -> dict[str, Callable[[], Contestant]]:
    """JAX and torch in both forms; each program gets its package and gives a function."""
    return {
        peers.JAX: partial(peers.jax_jit, jax, inputs),
        peers.EAGER: partial(peers.torch_eager, torch, inputs),
        peers.COMPILED: partial(peers.torch_compiled, torch, inputs),
    }


def workload(
    title: str,
    path: Path,
    inputs: Arrays,
    numpy: Sequence[Contestant],
    others: Mapping[str, Callable[[], Contestant]],
    weights: Mapping[str, Array] = {},
) -> Workload:
    """Fuel first, then NumPy, then the peers that can be had."""
    compiled, expected = fuel(path, inputs, weights)
    field = peers.gather(others)
    contestants = [compiled, *numpy, *field.present]
    return Workload(path.stem, title, contestants, expected, field.skipped)


def call() -> Workload:
    """The cost of a call."""
    x, scratch = normal(8), np.empty(8, np.float32)
    two, unit = np.array(2, np.float32), np.array(1, np.float32)
    function = lambda package: lambda x: (x * 2 + 1,)  # noqa: E731

    def out() -> Array:
        np.multiply(x, two, scratch)
        return np.add(scratch, unit)

    others = standard_peers(function, function, [x])
    others[f"{peers.JAX}, NumPy in and out"] = partial(peers.jax_jit_numpy, function, [x])
    numpy = [Contestant(PLAIN, lambda: x * 2 + 1, one), Contestant(OUT, out, one)]
    return workload("call overhead: x * 2 + 1, 8 f32", PROGRAMS / "call.mlir", [x], numpy, others)


def gated(exp: Callable[[Any], Any], x: Any, y: Any) -> Any:
    """Eight pointwise ops, as one would type them."""
    h = x * 0.5 + y
    return h / (1 + exp(-h)) * y + x


def pointwise() -> Workload:
    """A chain that one pass over memory can do."""
    x, y = normal(1 << 22), normal(1 << 22, seed=1)
    first, second = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)

    def out() -> Array:
        z = np.empty_like(x)
        for start in range(0, x.size, BLOCK):
            here = slice(start, start + BLOCK)
            np.multiply(x[here], 0.5, out=first)
            np.add(first, y[here], out=first)
            np.negative(first, out=second)
            np.exp(second, out=second)
            np.add(second, 1, out=second)
            np.divide(first, second, out=first)
            np.multiply(first, y[here], out=first)
            np.add(first, x[here], out=z[here])
        return z

    numpy = [Contestant(PLAIN, lambda: gated(np.exp, x, y), one), Contestant(OUT, out, one)]
    others = standard_peers(
        lambda jax: lambda x, y: (gated(jax.numpy.exp, x, y),),
        lambda torch: lambda x, y: (gated(torch.exp, x, y),),
        [x, y],
    )
    title = "8 pointwise ops, one exp, 4 Mi f32"
    return workload(title, PROGRAMS / "pointwise.mlir", [x, y], numpy, others)


def numpy_softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax() -> Workload:
    """Rows that fit a cache."""
    x = normal(4096, 1024)
    rows = BLOCK // x.shape[1]

    def out() -> Array:
        y = np.empty_like(x)
        for start in range(0, len(x), rows):
            a, b = x[start : start + rows], y[start : start + rows]
            np.subtract(a, a.max(axis=-1, keepdims=True), out=b)
            np.exp(b, out=b)
            np.divide(b, b.sum(axis=-1, keepdims=True), out=b)
        return y

    numpy = [Contestant(PLAIN, lambda: numpy_softmax(x), one), Contestant(OUT, out, one)]
    others = standard_peers(
        lambda jax: lambda x: (jax.nn.softmax(x, axis=-1),),
        lambda torch: lambda x: (torch.softmax(x, dim=-1),),
        [x],
    )
    path = PROGRAMS / "softmax.mlir"
    return workload("softmax of the rows of 4096 x 1024 f32", path, [x], numpy, others)


SIZES = (784, 1024, 1024, 10)
BATCH = 128


def numpy_gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def gelu_in_place(x: Array, scratch: Array) -> None:
    np.multiply(x, x, out=scratch)
    np.multiply(scratch, 0.044715, out=scratch)
    np.add(scratch, 1, out=scratch)
    np.multiply(scratch, x, out=scratch)
    np.multiply(scratch, 0.7978845608, out=scratch)
    np.tanh(scratch, out=scratch)
    np.add(scratch, 1, out=scratch)
    np.multiply(x, 0.5, out=x)
    np.multiply(x, scratch, out=x)


def mlp_weights() -> dict[str, Array]:
    weights: dict[str, Array] = {}
    for layer, (rows, columns) in enumerate(pairwise(SIZES), start=1):
        weights[f"w{layer}"] = normal(rows, columns, seed=layer, scale=rows**-0.5)
        weights[f"b{layer}"] = normal(columns, seed=layer, scale=0.1)
    return weights


def numpy_mlp(x: Array, weights: Mapping[str, Array]) -> list[Contestant]:
    w1, b1, w2, b2, w3, b3 = weights.values()
    first, second, scratch = (np.empty((BATCH, SIZES[1]), np.float32) for _ in range(3))

    def plain() -> Array:
        h = numpy_gelu(numpy_gelu(x @ w1 + b1) @ w2 + b2)
        return numpy_softmax(h @ w3 + b3)

    def out() -> Array:
        source = x
        for w, b, h in ((w1, b1, first), (w2, b2, second)):
            np.matmul(source, w, out=h)
            np.add(h, b, out=h)
            gelu_in_place(h, scratch)
            source = h
        return numpy_softmax(second @ w3 + b3)

    return [Contestant(PLAIN, plain, one), Contestant(OUT, out, one)]


def mlp() -> Workload:
    """Library matmuls with pointwise work between them."""
    x, weights = normal(BATCH, SIZES[0]), mlp_weights()

    def layers(gelu: Any, softmax: Any) -> Any:
        return lambda x, w1, b1, w2, b2, w3, b3: (
            softmax(gelu(gelu(x @ w1 + b1) @ w2 + b2) @ w3 + b3),
        )

    others = standard_peers(
        lambda jax: layers(jax.nn.gelu, jax.nn.softmax),
        lambda torch: layers(
            partial(torch.nn.functional.gelu, approximate="tanh"), partial(torch.softmax, dim=-1)
        ),
        [x, *weights.values()],
    )
    title = f"MLP: {BATCH} x {', '.join(map(str, SIZES))}"
    return workload(title, PROGRAMS / "mlp.mlir", [x], numpy_mlp(x, weights), others, weights)
