# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures what the host does in a nanosecond, by element type, with the kernels that are priced.

Each rate comes from compiled programs, so that what they do with an element type counts: f16 that
is widened to f32, integer products that no BLAS makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.builder.graph import Graph
from fuel_dialect.builder.tensor import Tensor
from fuel_dialect.targets.description import DtypeRates
from fuel_dialect.targets.machine import Rates

BASE = "f32"
"""The element type whose rates are those of all that have none of their own."""

OTHERS = ("f64", "f16", "bf16", "i64", "i32", "i16", "i8", "ui8")
"""Element types that may have rates of their own; those that it lacks are as these are or rare."""

DIFFERENT = 1.25
"""The least factor between the rates of two element types that is noted: less may be noise."""


@dataclass(frozen=True)
class Sizes:
    """Holds the amounts of work; a time is the least of those that fit into a while."""

    moved: int = 1 << 24
    """Bytes of one of two operands that are joined."""
    elements: int = 1 << 15
    """Of a chain of elementwise ops."""
    side: int = 384
    """Of a square product."""
    calls: int = 5
    """At least."""
    while_ns: int = 100_000_000


def host_rates(target: TargetAttr, threads: int, sizes: Sizes = Sizes()) -> Rates:
    """The rates of NumPy on this machine. Takes about five seconds."""
    base = _all_rates(BASE, sizes)
    assert base.bytes_per_ns is not None
    assert base.operations_per_ns is not None
    assert base.flops_per_ns is not None
    others = ((name, _differing(base, _all_rates(name, sizes))) for name in OTHERS)
    return Rates(
        target,
        base.bytes_per_ns,
        base.operations_per_ns,
        base.flops_per_ns,
        _launch_ns(sizes),
        tuple((name, rates) for name, rates in others if rates != DtypeRates()),
        threads,
    )


def _all_rates(dtype: str, sizes: Sizes) -> DtypeRates:
    return DtypeRates(
        _rounded(_bytes_per_ns(dtype, sizes)),
        _rounded(_operations_per_ns(dtype, sizes)),
        _rounded(_flops_per_ns(dtype, sizes)),
    )


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")


def _differing(base: DtypeRates, own: DtypeRates) -> DtypeRates:
    """Those of some rates that are not as the base."""
    return DtypeRates(
        _other(base.bytes_per_ns, own.bytes_per_ns),
        _other(base.operations_per_ns, own.operations_per_ns),
        _other(base.flops_per_ns, own.flops_per_ns),
    )


def _other(base: float | None, own: float | None) -> float | None:
    if base is None or own is None:
        return own
    return own if max(base / own, own / base) >= DIFFERENT else None


def _bytes_per_ns(dtype: str, sizes: Sizes) -> float:
    count = sizes.moved // dtypes.BY_NAME[dtype].itemsize
    time = _time_ns(lambda x, y: x.concat(y, 0), dtype, (count,), sizes)
    return 4 * sizes.moved / time


def _operations_per_ns(dtype: str, sizes: Sizes) -> float:
    """By a chain that is longer than another, on one thread; what a call costs besides cancels."""

    def chain(length: int) -> int:
        def build(x: Tensor, y: Tensor) -> Tensor:
            value = x
            for _ in range(length):
                value = value.mul(y).add(x)
            return value

        return _time_ns(build, dtype, (sizes.elements,), sizes, threads=1)

    return 32 * sizes.elements / max(chain(20) - chain(4), 1)


def _flops_per_ns(dtype: str, sizes: Sizes) -> float:
    side = sizes.side
    time = _time_ns(lambda x, y: x.matmul(y), dtype, (side, side), sizes)
    return 2 * side**3 / time


def _launch_ns(sizes: Sizes) -> int:
    """By a chain of small products, which do not join into one kernel."""

    def chain(length: int) -> int:
        def build(x: Tensor, y: Tensor) -> Tensor:
            value = x
            for _ in range(length):
                value = value.matmul(y)
            return value

        return _time_ns(build, BASE, (2, 2), sizes)

    return max((chain(20) - chain(4)) // 16, 1)


def _time_ns(
    build: Callable[[Tensor, Tensor], Tensor],
    dtype: str,
    shape: Sequence[int],
    sizes: Sizes,
    threads: int | None = None,
) -> int:
    """The least time of some calls of a program of two operands, 1 the first and 0 the second."""
    from fuel_runtime.compile.session import Session

    graph = Graph()
    x, y = (graph.input(tuple(shape), dtype, name=name) for name in "xy")
    run: Callable[..., Any] = Session(threads=threads).compile(graph.build(build(x, y)))
    numpy_type = dtypes.BY_NAME[dtype].numpy
    given = np.zeros(shape, numpy_type), np.ones(shape, numpy_type)
    run(*given)
    times: list[int] = []
    while len(times) < sizes.calls or sum(times) < sizes.while_ns:
        start = perf_counter_ns()
        run(*given)
        times.append(perf_counter_ns() - start)
    return max(min(times), 1)
