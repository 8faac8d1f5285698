# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Compares planned memory with what is measured, with peers, and with planners that try everything.

The transformer example: the planned peak of a call on the host and what `tracemalloc` measures,
with and without the buffers that NumPy takes inside of its own calls, which are in no plan; beside
it the same program in NumPy, as one would type it, and in JAX by its own analysis, where that is
installed.
Random small graphs on a device: the planned peak of a call over that of the best arena there is.
"""

from __future__ import annotations

import argparse
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import numpy as np
from peers import Absent, load

import fuel_dialect as fuel
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.context import load_program, make_context
from fuel_passes.memory import slots
from fuel_passes.memory.lifetimes import timeline_of
from fuel_passes.memory.sizes import size_class
from fuel_passes.memory.spans import Block, most_alive, rivals
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import functions
from fuel_runtime import Session

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "transformer_block.mlir"

Array = np.ndarray[Any, Any]

GRAPHS = 300
MOST_BLOCKS = 7
"""Blocks of which every order is tried."""

WANTED = 1.1
NEAR = f"at most {WANTED}"
PLANNED, NUMPY, JAX = "fuel, planned", "NumPy, measured", "JAX, its analysis"
MEASURED, WITHOUT_BUFFERS = "fuel, measured", "without NumPy's buffers"
LEAST_BUFFER = 16
"""The elements of a buffer inside of a call of NumPy, at the least; 8,192 unless one asks."""


# The transformer example.


def transformer(np: Any, x: Any, w: Mapping[str, Any]) -> Any:
    """Computes the block of `examples/transformer_block.mlir` with NumPy, or what is like it."""

    def rms_norm(x: Any, gain: Any) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain

    def heads(x: Any, count: int) -> Any:
        return x.reshape(64, count, 32).transpose(1, 0, 2)

    def rotated(x: Any) -> Any:
        turned = np.concatenate([-x[..., 16:], x[..., :16]], axis=-1)
        return x * w["rotary.cos"] + turned * w["rotary.sin"]

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    n = rms_norm(x, w["attention.gain"])
    q = rotated(heads(n @ w["attention.query.kernel"], 8))
    k = rotated(heads(n @ w["attention.key.kernel"], 2))
    v = heads(n @ w["attention.value.kernel"], 2)
    scores = q.reshape(2, 4, 64, 32) @ k.transpose(0, 2, 1)[:, None] * np.float32(32**-0.5)
    later = np.arange(64)[None, :] > np.arange(64)[:, None]
    attention = softmax(np.where(later, -np.inf, scores))
    joined = (attention @ v[:, None]).reshape(8, 64, 32).transpose(1, 0, 2).reshape(64, 256)
    y = x + joined @ w["attention.out.kernel"]
    n = rms_norm(y, w["feed_forward.gain"])
    wide = n @ w["feed_forward.1.kernel"]
    gated = wide / (1 + np.exp(-wide)) * (n @ w["feed_forward.3.kernel"])
    return y + gated @ w["feed_forward.2.kernel"]


def peak_of(call: Callable[[], object]) -> int:
    """Returns the most bytes that a call has at once, beside what is there before."""
    tracemalloc.start()
    kept = call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return peak


def of_the_example(weights: Mapping[str, Array]) -> dict[str, int]:
    """Returns the bytes of a call of the example, by who calls it."""
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    session = Session(threads=2)
    executable, fresh = (session.compile(EXAMPLE, weights=weights) for _ in range(2))
    # The first call makes the workspace.
    measured = peak_of(lambda: executable(x))
    with np.errstate():
        np.setbufsize(LEAST_BUFFER)
        own = peak_of(lambda: fresh(x))
    planned = executable.memory().of("cpu").transient
    found = {PLANNED: planned, MEASURED: measured, WITHOUT_BUFFERS: own}
    want = transformer(np, x, weights)
    np.testing.assert_allclose(executable(x)[0], want, rtol=1e-3, atol=1e-4)
    found[NUMPY] = peak_of(lambda: transformer(np, x, weights))
    jax_bytes = of_jax(x, weights)
    return found if jax_bytes is None else {**found, JAX: jax_bytes}


def of_jax(x: Array, weights: Mapping[str, Array]) -> int | None:
    """Returns what XLA says that a call takes beside its arguments; None where JAX is absent."""
    try:
        jax = load("jax")
    except Absent:
        return None
    program = jax.jit(lambda x, w: transformer(jax.numpy, x, w))
    analysis = program.lower(x, dict(weights)).compile().memory_analysis()
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes


# Random small graphs.


def small_graph(random: Random) -> Any:
    """Returns a module whose kernels hand values of several sizes on, also past one another."""
    graph = fuel.Graph()
    values = [graph.input((random.choice([1, 4, 16, 64]), 64), name="x")]
    for _ in range(random.randint(2, 7)):
        x = random.choice(values[-3:])
        width = random.choice([16, 64, 128, 256, 400])
        y = x @ graph.weight(f"w{len(values)}", (x.shape[1], width), "f32")
        others = [v for v in values if v.shape == y.shape]
        values.append(y + random.choice(others) if others and random.random() < 0.5 else y.relu())
    last = values[-1]
    for value in random.sample(values[1:-1], min(2, len(values) - 2)):
        last = last.sum() + value.sum()
    return graph.build(last)


def blocks_of(module: Any) -> list[Block]:
    """Returns the values between runs of a module on the card, in sizes that devices give."""
    card = DeviceAttr.of("cuda:0")
    OptimizePass(granularity="chain", topology="cpu+h100", device="cuda:0").apply(
        make_context(), module
    )
    (function,) = (f for f in functions(module) if f.sym_name.data == "main")
    held = [h for h in timeline_of(function).held if h.device == card and h.owner == "call"]
    return [Block(size_class(h.bytes), h.spans(), h.choices()) for h in held if not h.is_given]


def best_arena(blocks: Sequence[Block]) -> int:
    """Returns the bytes of the best arena: every one can be pressed down in some order."""
    against, best = rivals(blocks), sum(block.bytes for block in blocks)
    for order in permutations(range(len(blocks))):
        offsets: dict[int, int] = {}
        for index in order:
            taken = sorted((offsets[o], blocks[o].bytes) for o in against[index] & offsets.keys())
            offset = 0
            for first, bytes in taken:
                if offset + blocks[index].bytes <= first:
                    break
                offset = max(offset, first + bytes)
            offsets[index] = offset
            if offset + blocks[index].bytes >= best:
                break
        else:
            best = max((o + blocks[i].bytes for i, o in offsets.items()), default=0)
    return best


def ratios(count: int, seed: int) -> Iterator[float]:
    """Yields, for random small graphs, the bytes of planned slots over those of the best arena."""
    random = Random(seed)
    while count:
        blocks = blocks_of(small_graph(random))
        if not 2 <= len(blocks) <= MOST_BLOCKS:
            continue
        least = most_alive(blocks)
        planned = slots.assign(blocks).bytes
        yield planned / (least if planned == least else best_arena(blocks))
        count -= 1


def summary(found: Sequence[float]) -> dict[str, float]:
    """Returns the middle, the 95th percentile, the worst, and the share that is near the best."""
    ordered = sorted(found)
    return {
        "graphs": len(ordered),
        "median": median(ordered),
        "95 %": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
        "worst": ordered[-1],
        NEAR: sum(ratio <= WANTED for ratio in ordered) / len(ordered),
    }


def main() -> int:
    """Prints the figures and whether the targets are met; with `--strict`, returns 2 if not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=GRAPHS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args()
    example = of_the_example(weights_of_example())
    graphs = summary(list(ratios(options.graphs, options.seed)))
    for name, bytes in example.items():
        print(f"{name:>23}: {bytes:>9,} bytes a call of the transformer example")
    print("small graphs, planned over the best arena:")
    print(f"  {', '.join(f'{name} {value:.3g}' for name, value in graphs.items())}")
    targets = {
        f"no more than {peer}": example[PLANNED] <= example[peer]
        for peer in (NUMPY, JAX)
        if peer in example
    }
    targets[f"every small graph {NEAR} times the best arena"] = graphs["worst"] <= WANTED
    for text, is_met in targets.items():
        print(f"{'pass' if is_met else 'FAIL'}  {text}")
    if options.out is not None:
        options.out.write_text(json.dumps({"example": example, "graphs": graphs}, indent=1))
    return 2 if options.strict and not all(targets.values()) else 0


def weights_of_example() -> dict[str, Array]:
    """Draws the weights of the example."""
    from make_weights import weights_of

    return dict(weights_of(load_program(EXAMPLE)))


if __name__ == "__main__":
    sys.path.append(str(ROOT / "examples"))
    sys.exit(main())
