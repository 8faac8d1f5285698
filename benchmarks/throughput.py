# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures the optimiser on a long chain of ops: stock passes against `fuel-optimize`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from harness import Measurement, Settings, no_collection, progress
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from fuel_dialect.context import make_context
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.elementwise import AddOp, ExpOp, MulScalarOp, TanhOp
from fuel_dialect.tensors import tensor
from fuel_passes.pipeline import OptimizePass

STOCK = "canonicalize,cse,dce"
FUEL = "fuel-optimize"
SIZES = (10_000, 40_000)

PASSES: Mapping[str, Sequence[ModulePass]] = {
    STOCK: (CanonicalizePass(), CommonSubexpressionElimination(), DeadCodeElimination()),
    FUEL: (OptimizePass(),),
}


def chain(length: int) -> ModuleOp:
    """One function: `length` elementwise ops in a row, none of which can be simplified."""
    type = tensor((64,), "f32")
    block = Block(arg_types=[type, type])
    value, other = block.args
    makers: tuple[Callable[[SSAValue, int], FuelOp], ...] = (
        lambda v, i: AddOp.make(v, other),
        lambda v, i: ExpOp.make(v),
        lambda v, i: MulScalarOp.make(v, scalar=FloatAttr(1.5 + i, f64)),
        lambda v, i: TanhOp.make(v),
    )
    for index in range(length):
        op = makers[index % len(makers)](value, index)
        block.add_op(op)
        value = op.results[0]
    block.add_op(ReturnOp(value))
    return ModuleOp([FuncOp("main", ((type, type), (type,)), Region(block))])


def contestant(name: str, length: int) -> str:
    return f"{name}, {length:,} ops"


def seconds_per_op(name: str, length: int) -> float:
    """On a module of its own, which is made before the clock starts."""
    module, context = chain(length), make_context()
    with no_collection():
        before = time.perf_counter()
        for inner in PASSES[name]:
            inner.apply(context, module)
        return (time.perf_counter() - before) / length


def measure(settings: Settings) -> Measurement:
    """Seconds per op of both, at both sizes, by turns."""
    pairs = [(name, length) for length in SIZES for name in PASSES]
    for name, length in pairs[: len(PASSES)]:
        seconds_per_op(name, length // 10)
    count = min(settings.rounds, max(3, int(settings.longest_seconds / 4)))
    progress(f"optimiser: {count} rounds")
    rounds: dict[str, list[float]] = {contestant(*pair): [] for pair in pairs}
    for index in range(count):
        start = index % len(pairs)
        for pair in (*pairs[start:], *pairs[:start]):
            rounds[contestant(*pair)].append(seconds_per_op(*pair))
    title = "optimiser: a chain of elementwise ops, time per op"
    return Measurement("optimiser", title, rounds)
