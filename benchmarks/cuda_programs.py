# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Programs of the size that GPUs are bought for, and the same in a size for a dry run.

A builder takes a shape and an element type. A shape means what the builder says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from harness import Array
from outcomes import Allowed
from xdsl.dialects.builtin import ModuleOp

import fuel_dialect as fuel

Shape = tuple[int, ...]
Build = Callable[[fuel.Graph, Shape, str], Any]
"""The results of a program."""

ALLOWED = {"f64": 1e-12, "f32": 3e-5, "f16": 4e-3, "bf16": 3e-2}
"""By element type, of sums over thousands of elements and of chains of ops; see `Allowed`."""


@dataclass(frozen=True)
class Program:
    """A program in one size."""

    kind: str
    build: Build
    shape: Shape
    dtype: str
    is_positive: bool = False
    """True if its operands are positive, so that sums do not cancel."""
    index_bound: int = 1

    @property
    def name(self) -> str:
        return f"{self.kind} {self.dtype}{list(self.shape)}"

    @property
    def allowed(self) -> Allowed:
        return Allowed(ALLOWED.get(self.dtype, 0.0))

    def module(self) -> ModuleOp:
        graph = fuel.Graph()
        results = self.build(graph, self.shape, self.dtype)
        return graph.build(results)

    def operands(self, ports: Sequence[Any], seed: int = 0) -> list[Array]:
        """An array for each input of an executable."""
        return [self._operand(port, seed + number) for number, port in enumerate(ports)]

    def _operand(self, port: Any, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        if port.dtype.name == "ui32":
            return rng.integers(0, self.index_bound, port.shape, np.uint32)
        numbers = normal(rng, port.shape)
        if port.dtype.is_integer:
            return (numbers * 1000).astype(np.int64).astype(port.numpy)
        numbers = np.abs(numbers) if self.is_positive else numbers
        return numbers.astype(port.numpy, copy=False)


MOST_DRAWN = 1 << 22


def normal(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Normally distributed f32; a large array repeats some millions of them."""
    drawn = rng.standard_normal(min(prod(shape), MOST_DRAWN), np.float32)
    if prod(shape) <= MOST_DRAWN:
        return drawn.reshape(shape)
    numbers = np.empty(shape, np.float32)
    flat = numbers.reshape(-1)
    for start in range(0, flat.size, MOST_DRAWN):
        part = flat[start : start + MOST_DRAWN]
        part[:] = drawn[: part.size]
    return numbers


# What is elementwise.


def gated(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """Eight ops: the chain of `programs/pointwise.mlir`."""
    x, y = (graph.input(shape, dtype) for _ in range(2))
    h = x * 0.5 + y
    return h / ((-h).exp() + 1) * y + x


def strided(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """A transposed operand, a broadcast row, and a column turned round."""
    x = graph.input(shape[::-1], dtype)
    row = graph.input((shape[1],), dtype)
    column = graph.input((shape[0], 1), dtype)
    return (x.T * row + column.flip(0)).tanh()


def whole_numbers(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    x, y = (graph.input(shape, dtype) for _ in range(2))
    return fuel.maximum(x * y, x - y), (x > y).astype(dtype)


# Rows and columns.


def softmax(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    return graph.input(shape, dtype).softmax()


def log_softmax(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    return graph.input(shape, dtype).log_softmax()


def rms_norm(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    x, gain = graph.input(shape, dtype), graph.input(shape[-1:], dtype)
    return x.rms_norm(1e-6) * gain


def layer_norm(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    x = graph.input(shape, dtype)
    gain, bias = (graph.input(shape[-1:], dtype) for _ in range(2))
    return x.layer_norm(1e-5) * gain + bias


def sums(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """Along each axis, and of everything."""
    x = graph.input(shape, dtype)
    return [x.sum(axis=0), x.sum(axis=1), x.sum(), x.mean(axis=0), x.mean(axis=-1)]


def extremes(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    x = graph.input(shape, dtype)
    return [x.max(axis=0), x.min(axis=1), x.argmax(axis=0), x.argmax(axis=1), x.argmin(axis=1)]


# Elements that go elsewhere.


def transposed(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    x = graph.input(shape, dtype)
    axes = (*range(1, len(shape)), 0)
    return x.permute(*axes).contiguize()


def joined(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    x, y = (graph.input(shape, dtype) for _ in range(2))
    return [graph.concat([x, y, x], axis) for axis in range(len(shape))]


def rows(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """Some rows of a table, and an element of each row: [rows, columns, how many]."""
    count, columns, picked = shape
    table = graph.input((count, columns), dtype)
    places = graph.input((picked,), "ui32")
    element = graph.input((count, 1), "ui32")
    return table.take(places, axis=0), table.take_along_axis(element, axis=1)


# Products: [batch dims, m, k, n].


def _factors(graph: fuel.Graph, shape: Shape, dtype: str) -> tuple[fuel.Tensor, fuel.Tensor]:
    *batch, m, k, n = shape
    return graph.input((*batch, m, k), dtype), graph.input((*batch, k, n), dtype)


def matmul(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    a, b = _factors(graph, shape, dtype)
    return a @ b


def matmul_transposed(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """Both factors lie transposed in memory."""
    m, k, n = shape
    return graph.input((k, m), dtype).T @ graph.input((n, k), dtype).T


def matmul_epilogue(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """With bias, activation, residual and a cast."""
    a, b = _factors(graph, shape, dtype)
    m, _, n = shape
    bias, residual = graph.input((n,), dtype), graph.input((m, n), dtype)
    return ((a @ b * shape[1] ** -0.5 + bias).gelu_tanh() + residual).astype("f32")


# Steps: [steps, width].


def recurrence(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """The scan of `programs/scan.mlir`."""
    x = graph.input(shape, dtype)
    a, h = (graph.input(shape[1:], dtype) for _ in range(2))

    def step(h: fuel.Tensor, x: fuel.Tensor, a: fuel.Tensor) -> Any:
        new = (a * 0.25 * h + x).tanh()
        return new, new

    last, states = graph.scan(step, h, x, (a,))
    return last, states


def recurrence_of_products(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    x, h = graph.input((shape[0], 1, shape[1]), dtype), graph.input((1, shape[1]), dtype)
    w = graph.input((shape[1], shape[1]), dtype)

    def step(h: fuel.Tensor, x: fuel.Tensor, w: fuel.Tensor) -> Any:
        new = (h @ w * shape[1] ** -0.5 + x).tanh()
        return new, new

    last, states = graph.scan(step, h, x, (w,))
    return last, states


# Models.


def block(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """A decoder layer: causal attention and a gated feed-forward layer; [positions, width]."""
    positions, width = shape
    x = graph.input(shape, dtype)
    row = graph.iota(positions)
    later = row.reshape(1, positions) > row.reshape(positions, 1)
    x = x + _attention(graph, x, later, HEADS)
    normed = _normed(graph, x)
    hidden = 2 * width
    gate = (normed @ graph.input((width, hidden), dtype) * width**-0.5).silu()
    linear = normed @ graph.input((width, hidden), dtype) * width**-0.5
    return x + gate * linear @ graph.input((hidden, width), dtype) * hidden**-0.5


HEADS = 8


def _normed(graph: fuel.Graph, x: fuel.Tensor) -> fuel.Tensor:
    return x.rms_norm(1e-6) * graph.input(x.shape[-1:], x.dtype)


def _attention(graph: fuel.Graph, x: fuel.Tensor, later: fuel.Tensor, heads: int) -> fuel.Tensor:
    positions, width = x.shape
    normed = _normed(graph, x)

    def split() -> fuel.Tensor:
        flat = normed @ graph.input((width, width), x.dtype) * width**-0.5
        return flat.reshape(positions, heads, width // heads).permute(1, 0, 2)

    query, key, value = split(), split(), split()
    scores = query @ key.permute(0, 2, 1) * (width / heads) ** -0.5
    weights = fuel.where(later, -np.inf, scores).softmax()
    mixed = (weights @ value).permute(1, 0, 2).reshape(positions, width)
    return mixed @ graph.input((width, width), x.dtype) * width**-0.5


def decode(graph: fuel.Graph, shape: Shape, dtype: str) -> Any:
    """
    A step of decoding, as in `examples/kv_cache.py`: [heads, room, width of a head].

    When there is no room left, the oldest token goes.
    """
    heads, room, head = shape
    width = heads * head
    x = graph.input((1, width), dtype, name="x")
    keys = graph.state(shape, dtype, name="keys")
    values = graph.state(shape, dtype, name="values")
    count = graph.state((), "ui32", name="count")

    def split() -> fuel.Tensor:
        return (x @ graph.input((width, width), dtype) * width**-0.5).reshape(heads, 1, head)

    query, key, value = split(), split(), split()
    place = count % room
    all_keys, all_values = keys.write(key, at=place, axis=1), values.write(value, at=place, axis=1)
    held = count + 1
    keys.update(all_keys)
    values.update(all_values)
    count.update(held)
    scores = query * head**-0.5 @ all_keys.T
    is_empty = graph.iota(room) >= held.astype("f32")
    weights = fuel.where(is_empty, -np.inf, scores).softmax()
    return (weights @ all_values).reshape(1, width) @ graph.input((width, width), dtype)


FLOATS = ("f32", "f16", "bf16")
Rows = Iterator[Program]


def _all(
    kind: str, build: Build, shapes: Sequence[Shape], names: Sequence[str], **more: Any
) -> Rows:
    for shape in shapes:
        for dtype in names:
            yield Program(kind, build, shape, dtype, **more)


def real_sizes() -> list[Program]:
    """Lists what is checked on a GPU, the likeliest to matter first."""
    square, odd = (4096, 4096), (1021, 777)
    return [
        *_all("pointwise", gated, [(1 << 22,), (20_000_000,)], ["f32"]),
        *_all("softmax", softmax, [(4096, 1024)], FLOATS),
        *_all("rms_norm", rms_norm, [square], FLOATS),
        *_all("matmul", matmul, [(1024,) * 3, (4096,) * 3], FLOATS),
        *_all("matmul", matmul, [(1021, 515, 777), (2048, 2048, 2048)], FLOATS),
        *_all("matmul_epilogue", matmul_epilogue, [(2048,) * 3, (1000, 333, 1100)], FLOATS),
        *_all("sums", sums, [square, odd], ["f32", "bf16"], is_positive=True),
        *_all("extremes", extremes, [square, odd], ["f32", "bf16", "i32"]),
        *_all("rows", rows, [(50_000, 1024, 8192)], ["f32", "f16"], index_bound=1024),
        *_all("transposed", transposed, [(4096, 3001), (64, 128, 500)], ["f32", "bf16", "i8"]),
        *_all("joined", joined, [(2049, 1000), (16, 100, 333)], ["f32", "bf16"]),
        *_all("scan", recurrence, [(1024, 512), (10_000, 257)], ["f32"]),
        *_all("scan_of_products", recurrence_of_products, [(64, 256)], ["f32", "bf16"]),
        *_all("block", block, [(1024, 1024)], ["f32", "bf16"]),
        *_all("strided", strided, [(2048, 3000)], FLOATS),
        *_all("whole_numbers", whole_numbers, [(1 << 22,)], ["i32", "i64", "i8"]),
        *_all("log_softmax", log_softmax, [(1000, 1003), (8, 200_000)], FLOATS),
        *_all("softmax", softmax, [(8, 200_000), (100_000, 33)], ["f32"]),
        *_all("layer_norm", layer_norm, [square, (1000, 5003)], FLOATS),
        *_all("sums", sums, [(3, 200_000), (200_000, 3)], ["f32"], is_positive=True),
        *_all("matmul_transposed", matmul_transposed, [(1024,) * 3, (515, 333, 200)], FLOATS),
        *_all("matmul", matmul, [(1, 4096, 4096), (4096, 4096, 1), (64, 8192, 128)], FLOATS),
        *_all("matmul", matmul, [(32, 512, 64, 512), (3, 5, 65, 33, 17)], FLOATS),
        *_all("matmul", matmul, [(512, 512, 512)], ["f64", "i32"]),
    ]


def tiny_sizes() -> list[Program]:
    """One of each kind, for a dry run."""
    matrix = (5, 9)
    return [
        *_all("pointwise", gated, [(40,)], ["f32"]),
        *_all("softmax", softmax, [matrix], ["bf16"]),
        *_all("rms_norm", rms_norm, [matrix], ["f16"]),
        *_all("matmul", matmul, [(5, 6, 7), (2, 5, 6, 7)], ["f32"]),
        *_all("matmul_epilogue", matmul_epilogue, [(5, 6, 7)], ["bf16"]),
        *_all("sums", sums, [matrix], ["f32"], is_positive=True),
        *_all("extremes", extremes, [matrix], ["i32"]),
        *_all("rows", rows, [(6, 5, 4)], ["f32"], index_bound=5),
        *_all("transposed", transposed, [(2, 3, 4)], ["i8"]),
        *_all("joined", joined, [matrix], ["f32"]),
        *_all("scan", recurrence, [(6, 4)], ["f32"]),
        *_all("scan_of_products", recurrence_of_products, [(3, 4)], ["f32"]),
        *_all("block", block, [(4, 16)], ["f32"]),
        *_all("strided", strided, [matrix], ["f32"]),
        *_all("whole_numbers", whole_numbers, [matrix], ["i64"]),
        *_all("log_softmax", log_softmax, [matrix], ["f32"]),
        *_all("layer_norm", layer_norm, [matrix], ["f32"]),
        *_all("matmul_transposed", matmul_transposed, [(5, 6, 7)], ["f32"]),
    ]
