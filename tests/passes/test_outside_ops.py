# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ops that another package defines, of more than one class, through all passes and on NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

import fuel_dialect as fuel
from fuel_dialect import plugins
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelError, NoBackendForOp
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.numbers import int_value, integer
from fuel_dialect.ops.base import ANY_TENSOR, FuelOp, Properties
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.elementwise import UnaryOp
from fuel_dialect.reference import table as reference
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_dialect.tensors import AnyTensor
from fuel_lowering.numpy import emit
from fuel_lowering.numpy.builder import Builder
from fuel_lowering.numpy.steps import Recipe
from fuel_lowering.numpy.values import Ref, broadcast_if_needed
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.prices import op_ns
from fuel_runtime import Session

Array = np.ndarray[Any, Any]


@irdl_op_definition
class HalveOp(UnaryOp):
    """x / 2."""

    name = "ext.halve"


@irdl_op_definition
class RollOp(FuelOp):
    """The elements, row-major, `by` places further; no trait says anything of it."""

    name = "ext.roll"
    WEIGHT: ClassVar[int] = 3

    input = operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)
    by = prop_def(IntegerAttr)

    traits = traits_def(Pure())

    @classmethod
    def infer(
        cls,
        operands: Sequence[AnyTensor],
        properties: Properties,
        declared: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor]:
        return operands


def halve(x: Array) -> Array:
    return (x / 2).astype(x.dtype)


def roll(x: Array, *, by: int) -> Array:
    return np.roll(x, by)


def _halve(b: Builder, op: HalveOp, xs: Sequence[Ref]) -> Ref:
    return b.call("divide", xs[0], 2)


def _roll(b: Builder, op: RollOp, xs: Sequence[Ref]) -> Ref:
    return b.step(
        Recipe((f"copyto({{y}}, np.roll({{0}}, {int_value(op.by)}))",)), broadcast_if_needed(xs[0])
    )


TABLES: Mapping[tuple[str, str | None], dict[type[Operation], Callable[..., Any]]] = {
    (plugins.REFERENCES, None): {HalveOp: halve, RollOp: roll},
    (plugins.KERNELS, "numpy"): {HalveOp: _halve, RollOp: _roll},
}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def table(group: str, name: str | None = None) -> Mapping[type[Operation], Any]:
        return TABLES.get((group, name), {})

    monkeypatch.setattr(plugins, "table", table)
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget() -> None:
    emit.rules.cache_clear()
    reference.find.cache_clear()


def check(module: ModuleOp, *arrays: Array, topology: str = "cpu") -> ModuleOp:
    """Every program gives what the reference gives, as written, optimised and run."""
    expected = evaluate(module, *arrays)
    optimised = module.clone()
    OptimizePass(topology=topology, variants="keep").apply(make_context(), optimised)
    optimised.verify()
    once = str(optimised)
    OptimizePass(topology=topology, variants="keep").apply(make_context(), optimised)
    assert str(optimised) == once
    for found in (evaluate(optimised, *arrays), Session().run(module, *arrays)):
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-6)  # sums may be reordered
    return optimised


def kinds(module: ModuleOp) -> list[str]:
    return [op.kind.data for op in module.walk() if isinstance(op, KernelOp)]


@pytest.mark.usefixtures("tables")
def test_an_elementwise_op_fuses_also_into_rows_and_products() -> None:
    g = fuel.Graph()
    x, w = g.input((8, 16), "f32"), g.input((16, 4), "f32")
    product = (x.softmax().emit(HalveOp) @ w).emit(HalveOp)
    module = g.build(product, x.transpose().emit(HalveOp))
    numbers = np.random.default_rng(3)
    arrays = [numbers.standard_normal(shape).astype("f4") for shape in ((8, 16), (16, 4))]
    assert sorted(kinds(check(module, *arrays))) == ["matmul", "pointwise", "reduction"]


@pytest.mark.usefixtures("tables")
def test_an_op_without_traits_is_a_library_kernel_with_a_price() -> None:
    g = fuel.Graph()
    x = g.input((4, 6), "f32")
    y = (x + 1).transpose().emit(RollOp, by=integer(5)).emit(HalveOp)
    module = g.build(y)
    found = check(module, np.arange(24, dtype=np.float32).reshape(4, 6), topology="cpu+h100")
    assert kinds(found).count("library") == 1
    (op,) = (op for op in module.walk() if isinstance(op, RollOp))
    assert op_ns(op, DESCRIPTION) == 500 + max(-(-2 * 24 * 4 // 20), 3 * 24 // 8)


@pytest.mark.usefixtures("tables")
def test_the_body_of_a_scan_may_hold_one() -> None:
    g = fuel.Graph()
    xs = g.input((5, 3), "f32")
    carry, ys = g.scan(lambda c, x: (c.emit(HalveOp) + x, c * 2), g.input((3,), "f32"), xs)
    arrays = [np.ones((5, 3), np.float32), np.full(3, 8, np.float32)]
    assert "scan" in kinds(check(g.build(carry, ys), *arrays))


@pytest.mark.usefixtures("tables")
def test_only_targets_with_a_rule_run_it() -> None:
    g = fuel.Graph()
    x = g.input((512, 512), "f32")
    module = g.build(x.exp().emit(HalveOp).exp().tanh())
    OptimizePass(topology="cpu+h100", device="cuda:0").apply(make_context(), module)
    assert 'fuel.run on #fuel.target<cpu, "numpy">' in str(module)


def test_without_a_rule_or_a_reference_it_is_an_error_that_names_the_op() -> None:
    g = fuel.Graph()
    module = g.build(g.input((4,), "f32").emit(HalveOp))
    with pytest.raises(NoBackendForOp, match=r"ext\.halve: no kernel for \(f32\) -> f32 on cpu"):
        OptimizePass().apply(make_context(), module.clone())
    with pytest.raises(FuelError, match=r"ext\.halve has no reference; the package of an op"):
        evaluate(module, np.ones(4, np.float32))
