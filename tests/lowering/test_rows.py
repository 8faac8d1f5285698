# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Fused kernels against the reference: random row kernels along any axes, and products with what
follows them, in tiles of every size and on every dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.context import make_context
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.numbers import integer
from fuel_dialect.ops import elementwise, linear_algebra, normalization, reduction, shape
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import tensor, tensor_type
from fuel_lowering.numpy import rows, tiles
from fuel_lowering.numpy.lower import lower_run
from fuel_lowering.numpy.pool import Pool
from fuel_passes.finishing.form_runs import FormRunsPass
from ops_on_arrays import same_bits
from run_ops import Loaded, check_results, poison, runs_of, strided

CONTEXT = make_context()
DTYPES = ("f32", "f64", "bf16", "f16", "i32")
TILES = [(65_536, 32_768, 256), (24, 12, 4), (7, 3, 2), (1, 1, 1)]
TOLERANCES = {"f32": (1e-4, 1e-5), "f64": (1e-9, 1e-10), "bf16": (0.1, 0.1), "f16": (2e-2, 2e-2)}
"""Relative and absolute; a bf16 or f16 value that lies between two may be rounded to either."""

UNARY = [elementwise.NegOp, elementwise.AbsOp, elementwise.ReluOp]
SMOOTH = [elementwise.TanhOp, elementwise.SigmoidOp, elementwise.SiluOp]
BINARY = [elementwise.AddOp, elementwise.SubOp, elementwise.MaximumOp]
BY_DIM = [reduction.MaxDimOp, reduction.MinDimOp, reduction.SumDimOp]
DOWN_TO = [reduction.ReduceMaxToOp, reduction.ReduceSumToOp]
ROWS = [normalization.SoftmaxLastDimOp, normalization.LogSoftmaxLastDimOp]


@dataclass
class _Rows:
    """Grows a program of ops that may all be one kernel: full values, and statistics of them."""

    draw: Callable[..., Any]
    axes: list[int]
    block: Block
    full: list[SSAValue]
    statistics: list[SSAValue] = field(default_factory=list[SSAValue])

    @property
    def type(self) -> Any:
        return tensor_type(self.full[0])

    @property
    def is_float(self) -> bool:
        return dtypes.of_type(self.type).is_float

    def add(self, op: FuelOp) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def pick(self, among: list[Any]) -> Any:
        return self.draw(st.sampled_from(among))

    def elementwise(self) -> None:
        values = self.pick([v for v in (self.full, self.statistics) if v])
        kinds = [*UNARY, *(SMOOTH if self.is_float else []), *BINARY]
        kind, value = self.pick(kinds), self.pick(values)
        alike = [v for v in values if v.type == value.type]
        operands = [value, self.pick(alike)] if kind in BINARY else [value]
        values.append(self.add(kind.make(*operands)))

    def reduce(self) -> None:
        value, extents = self.pick(self.full), list(self.type.get_shape())
        if len(self.axes) == 1 and self.draw(st.booleans()):
            kind = self.pick([*BY_DIM, *([reduction.MeanDimOp] if self.is_float else [])])
            self.statistics.append(self.add(kind.make(value, dim=integer(self.axes[0]))))
            return
        column = tensor([1 if a in self.axes else e for a, e in enumerate(extents)], "f32")
        target = tensor(column.get_shape(), self.type.element_type)
        self.statistics.append(self.add(self.pick(DOWN_TO).make(value, declared=[target])))

    def row(self) -> None:
        if self.axes != [len(self.type.get_shape()) - 1] or not self.is_float:
            return
        value = self.pick(self.full)
        if self.draw(st.booleans()):
            self.full.append(self.add(self.pick(ROWS).make(value)))
        else:
            eps = FloatAttr(1e-3, f64)
            self.full.append(self.add(normalization.RmsNormLastDimOp.make(value, eps=eps)))

    def spread(self) -> None:
        """A statistic broadcast back."""
        if not self.statistics:
            return
        value = self.pick(self.statistics)
        if len(tensor_type(value).get_shape()) < len(self.type.get_shape()):
            value = self.add(shape.UnsqueezeOp.make(value, dim=integer(self.axes[0])))
        wide = self.add(shape.BroadcastToOp.make(value, declared=[self.type]))
        other = self.pick(self.full)
        self.full.append(self.add(self.pick(BINARY).make(other, wide)))

    def index(self) -> None:
        if len(self.axes) == 1:
            value, dim = self.pick(self.full), integer(self.axes[0])
            self.found.append(self.add(reduction.ArgmaxDimOp.make(value, dim=dim)))

    found: list[SSAValue] = field(default_factory=list[SSAValue])


@st.composite
def row_programs(draw: Callable[..., Any]) -> ModuleOp:
    """Reductions along one set of axes, and elementwise ops around them."""
    extents = [draw(st.integers(1, 6)) for _ in range(draw(st.integers(1, 4)))]
    count = draw(st.integers(1, len(extents)))
    axes = sorted(draw(st.permutations(range(len(extents))))[:count])
    dtype = draw(st.sampled_from(DTYPES))
    type = tensor(extents, dtype)
    block = Block(arg_types=[type, type])
    rows = _Rows(draw, axes, block, list(block.args))
    steps = [rows.elementwise, rows.elementwise, rows.reduce, rows.spread, rows.row, rows.index]
    rows.reduce()
    for _ in range(draw(st.integers(1, 8))):
        draw(st.sampled_from(steps))()
    values = [*rows.full[2:], *rows.statistics, *rows.found]
    results = [draw(st.sampled_from(values)) for _ in range(draw(st.integers(1, 3)))]
    return module_of(block, list(dict.fromkeys(results)))


def module_of(block: Block, results: list[SSAValue]) -> ModuleOp:
    """A function of one run, with its live-ins and live-outs, made of the ops of a block."""
    block.add_op(ReturnOp(*results))
    module = ModuleOp([function_of(block)])
    module.verify()
    FormRunsPass().apply(CONTEXT, module)
    (run,) = runs_of(module)
    run.detach()
    body = Block(arg_types=[value.type for value in run.inputs])
    run.operands = body.args
    body.add_ops([run, ReturnOp(*run.outputs)])
    module = ModuleOp([function_of(body)])
    module.verify()
    return module


def function_of(block: Block) -> FuncOp:
    assert block.last_op is not None
    types = ([a.type for a in block.args], [r.type for r in block.last_op.operands])
    return FuncOp("main", types, Region(block))


def check(module: ModuleOp, arguments: list[Array], allowed: tuple[float, float]) -> None:
    """As the reference, with the same bits on any number of threads and for strided arguments."""
    (run,) = runs_of(module)
    lowered = lower_run(run, "main_0")
    got = check_results(Loaded(lowered), module, arguments, allowed)
    for threads in (2, 3):
        loaded = Loaded(lowered, Pool(threads))
        poison(loaded.scratch)
        again = loaded(*arguments)
        assert all(same_bits(a, b) for a, b in zip(again, got, strict=True))
    check_results(Loaded(lowered), module, [strided(a) for a in arguments], allowed)


def numbers(module: ModuleOp, seed: int) -> list[Array]:
    """Small whole numbers for the arguments."""
    rng = np.random.default_rng(seed)
    made: list[Array] = []
    for type in (tensor_type(value) for value in runs_of(module)[0].inputs):
        dtype = dtypes.of_type(type).numpy
        made.append(rng.integers(-6, 7, type.get_shape()).astype(np.float64).astype(dtype))
    return made


@given(row_programs(), st.sampled_from(TILES), st.integers(0, 3))
def test_row_kernels_equal_the_reference_in_tiles_of_any_size(
    module: ModuleOp, tile: tuple[int, int, int], seed: int
):
    (run,) = runs_of(module)
    name = dtypes.of_type(tensor_type(run.inputs[0])).name
    large, small, narrowest = tile
    with (
        patch.object(tiles, "LARGE_TILE", large),
        patch.object(tiles, "SMALL_TILE", small),
        patch.object(tiles, "NARROWEST", narrowest),
        np.errstate(all="ignore"),
    ):
        check(module, numbers(module, seed), TOLERANCES.get(name, (0.0, 0.0)))


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_products_with_what_follows_them(
    dtype: str, tile: tuple[int, int, int], batch: tuple[int, ...]
):
    """Bias, an activation that reads its operand twice, a residual, a cast; the product itself."""
    left, right, result = ((*batch, *extents) for extents in ((5, 4), (4, 7), (5, 7)))
    types = [tensor(extents, dtype) for extents in (left, right, result)]
    block = Block(arg_types=[*types, tensor((7,), dtype)])
    x, w, residual, bias = block.args

    def add(op: FuelOp) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    product = add(linear_algebra.MatmulOp.make(x, w))
    wide = add(shape.BroadcastToOp.make(bias, declared=[types[2]]))
    active = add(elementwise.SiluOp.make(add(elementwise.AddOp.make(product, wide))))
    summed = add(elementwise.AddOp.make(residual, active))
    cast = add(elementwise.CastOp.make(summed, declared=[tensor(result, "f32")]))
    alone = add(linear_algebra.MatmulOp.make(x, w))
    module = module_of(block, [cast, summed, add(elementwise.SiluOp.make(alone))])
    kinds = [op.kind.data for op in module.walk() if isinstance(op, KernelOp)]
    assert kinds == ["matmul", "matmul"]
    large, small, narrowest = tile
    with (
        patch.object(tiles, "LARGE_TILE", large),
        patch.object(tiles, "SMALL_TILE", small),
        patch.object(tiles, "NARROWEST", narrowest),
    ):
        check(module, numbers(module, 0), TOLERANCES[dtype])


def test_the_sum_of_everything_takes_what_comes_before_and_after_it():
    """One row and more than a tile: whole calls between phases of tiles."""
    type = tensor((300, 300), "f32")
    block = Block(arg_types=[type])
    (x,) = block.args
    square = elementwise.SqrOp.make(x)
    total = reduction.SumAllOp.make(square.results[0])
    root = elementwise.SqrtOp.make(total.results[0])
    wide = shape.BroadcastToOp.make(root.results[0], declared=[type])
    result = elementwise.DivOp.make(square.results[0], wide.results[0])
    block.add_ops([square, total, root, wide, result])
    module = module_of(block, [result.results[0], root.results[0]])
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    assert (kernel.kind.data, kernel.label.data) == ("reduction", "sqr_sum_all_sqrt_div")
    check(module, numbers(module, 0), (1e-5, 1e-6))


def test_specials_go_through_a_row_kernel():
    """NaN wins, a row of -inf is NaN, infinities stay; in a tile as in the reference."""
    type = tensor((600, 128), "f32")
    block = Block(arg_types=[type])
    (x,) = block.args
    half = elementwise.MulScalarOp.make(x, scalar=FloatAttr(0.5, f64))
    soft = normalization.SoftmaxLastDimOp.make(half.results[0])
    peak = reduction.MaxDimOp.make(half.results[0], dim=integer(1))
    place = reduction.ArgmaxDimOp.make(half.results[0], dim=integer(1))
    block.add_ops([half, soft, peak, place])
    module = module_of(block, [soft.results[0], peak.results[0], place.results[0]])
    array = np.random.default_rng(0).standard_normal((600, 128)).astype(np.float32)
    array[0] = -np.inf
    array[1, 5], array[2, 7], array[3, 9], array[4, 1] = np.nan, np.inf, -np.inf, np.nan
    array[4, 0] = np.inf
    array[5] = -0.0
    check(module, [array], (1e-5, 1e-6))
    results = {str(a.dtype) + str(a.ndim): a for a in evaluate(module, array)}
    soft_rows, peaks, places = (results[key] for key in ("float322", "float321", "uint321"))
    assert np.isnan(soft_rows[[0, 1, 2, 4]]).all()
    assert np.isfinite(soft_rows[3]).all()
    assert np.isnan(peaks[1])
    assert peaks[2] == np.inf
    assert (places[1], places[4], places[5]) == (5, 1, 0)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("length", [1, 2, 31, rows.LONGEST_EINSUM, rows.LONGEST_EINSUM + 1])
def test_sums_of_rows_are_exact_to_a_few_units_in_the_last_place(dtype: str, length: int):
    type = tensor((3, length), dtype)
    block = Block(arg_types=[type])
    total = reduction.SumDimOp.make(block.args[0], dim=integer(1))
    root = elementwise.NegOp.make(total.results[0])
    block.add_ops([total, root])
    (run,) = runs_of(module_of(block, [root.results[0]]))
    array = np.random.default_rng(length).random((3, length)).astype(dtypes.BY_NAME[dtype].numpy)
    (got,) = Loaded(lower_run(run, "main_0"))(array)
    exact = np.array([-math.fsum(row) for row in array.tolist()])
    assert np.abs((got - exact) / exact).max() <= 8 * np.finfo(array.dtype).eps
