# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures the planning of a decoder of transformer layers for a host and two GPUs.

The passes of `fuel-optimize` are timed one by one too, each on what the ones before made. What
is timed is the processor: planning has one thread, and a busy machine does not count against it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from harness import Measurement, Settings, no_collection, progress
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import fuel_dialect as fuel
from fuel_dialect.context import make_context
from fuel_dialect.ops.base import FuelOp
from fuel_passes.forking.collector import paused_collector
from fuel_passes.legalize.simplify import SimplifyAfter
from fuel_passes.pipeline import OptimizePass

THREE = OptimizePass(topology="2xh100")
"""A host and two GPUs."""

POSITIONS, WIDTH, HEADS, HIDDEN = 128, 512, 8, 1_376
LAYERS, MORE_LAYERS = 24, 192
"""About 1,000 and about 8,000 ops."""


def decoder(layers: int) -> ModuleOp:
    """A decoder with causal attention and gated feed-forward layers."""
    graph = fuel.Graph()
    x = graph.input((POSITIONS, WIDTH), name="x")
    row = graph.iota(POSITIONS)
    square = (POSITIONS, POSITIONS)
    later = row.broadcast_to(square).gt(row.unsqueeze(1).broadcast_to(square))
    mask = later.broadcast_to((HEADS, *square))
    for layer in range(layers):
        x = x.add(_attention(graph, x, mask, f"{layer}.attention"))
        x = x.add(_feed_forward(graph, x, f"{layer}.feed_forward"))
    return graph.build(_norm(graph, x, "out"))


def _norm(graph: fuel.Graph, x: fuel.Tensor, name: str) -> fuel.Tensor:
    gain = graph.weight(f"{name}.gain", (WIDTH,)).broadcast_to((POSITIONS, WIDTH))
    return x.rms_norm_last_dim(1e-6).mul(gain)


def _attention(graph: fuel.Graph, x: fuel.Tensor, mask: fuel.Tensor, name: str) -> fuel.Tensor:
    normed = _norm(graph, x, name)

    def heads(what: str) -> fuel.Tensor:
        flat = normed.matmul(graph.weight(f"{name}.{what}", (WIDTH, WIDTH)))
        return flat.reshape((POSITIONS, HEADS, WIDTH // HEADS)).permute((1, 0, 2))

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query.matmul(key.permute((0, 2, 1))).mul_scalar((WIDTH / HEADS) ** -0.5)
    weights = scores.masked_fill(mask, float("-inf")).softmax_last_dim()
    joined = weights.matmul(value).permute((1, 0, 2)).reshape((POSITIONS, WIDTH))
    return joined.matmul(graph.weight(f"{name}.out", (WIDTH, WIDTH)))


def _feed_forward(graph: fuel.Graph, x: fuel.Tensor, name: str) -> fuel.Tensor:
    normed = _norm(graph, x, name)
    gate = normed.matmul(graph.weight(f"{name}.1", (WIDTH, HIDDEN))).silu()
    linear = normed.matmul(graph.weight(f"{name}.3", (WIDTH, HIDDEN)))
    return gate.mul(linear).matmul(graph.weight(f"{name}.2", (HIDDEN, WIDTH)))


def ops_of(module: ModuleOp) -> int:
    return sum(isinstance(op, FuelOp) for op in module.walk())


def seconds(module: ModuleOp, inner: ModulePass) -> float:
    """Of a pass on a module, which it changes."""
    context = make_context()
    with no_collection():
        before = time.process_time()
        inner.apply(context, module)
        return time.process_time() - before


def singly() -> Iterator[tuple[str, ModulePass]]:
    """The passes of the pipeline by their places and names."""
    for number, inner in enumerate(THREE.passes(), 1):
        named = inner.inner if isinstance(inner, SimplifyAfter) else inner
        yield f"{number:2} {named.name}", inner


def passes(settings: Settings) -> Measurement:
    """Seconds of the pipeline on 24 layers, and of each of its passes."""
    source = decoder(LAYERS)
    count = _rounds(settings, "planning")
    rounds: dict[str, list[float]] = {THREE.name: []}
    for _ in range(count):
        rounds[THREE.name].append(seconds(source.clone(), THREE))
        module = source.clone()
        with paused_collector():
            for name, inner in singly():
                rounds.setdefault(name, []).append(seconds(module, inner))
    ops = f"a decoder of {LAYERS} layers, {ops_of(source):,} ops"
    return Measurement("planning", f"planning: {ops}, for three devices", rounds)


def contestant(layers: int) -> str:
    return f"{layers} layers"


def sizes(settings: Settings) -> Measurement:
    """Seconds per op of the pipeline, by turns on 24 layers and on 192."""
    sources: Mapping[int, ModuleOp] = {n: decoder(n) for n in (LAYERS, MORE_LAYERS)}
    count = _rounds(settings, "planning_size")
    rounds: dict[str, list[float]] = {contestant(layers): [] for layers in sources}
    for index in range(count):
        for layers in list(sources)[:: 1 if index % 2 else -1]:
            source = sources[layers]
            taken = seconds(source.clone(), THREE)
            rounds[contestant(layers)].append(taken / ops_of(source))
    counts = " and ".join(f"{ops_of(source):,}" for source in sources.values())
    title = f"planning: decoders of {counts} ops for three devices, time per op"
    return Measurement("planning_size", title, rounds)


def _rounds(settings: Settings, name: str) -> int:
    seconds(decoder(2), THREE)
    count = min(settings.rounds, max(3, int(settings.longest_seconds / 3)))
    progress(f"{name}: {count} rounds")
    return count
