# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-insert-contiguous`: what a target cannot read is written out once, and priced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_close
from effort import examples
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.shape import FlipOp
from fuel_dialect.targets.description import Strides, TargetDescription
from fuel_dialect.targets.machine import Rates, Topology
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.finishing.form_runs import FormRunsPass
from fuel_passes.finishing.insert_contiguous import InsertContiguousPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.prices import kernel_ns
from fuel_passes.planning.strides import unreadable
from fuel_passes.planning.topology import STAMP, attribute_of, target_description
from fuel_runtime import Session
from programs import Program, programs

CONTEXT = make_context()
CPU = TargetAttr.of("cpu", "numpy")
KINDS = ("pointwise", "reduction", "matmul", "library", "scan")


def packed(*kinds: str) -> Topology:
    """The CPU, if its kernels of some kinds read nothing but contiguous operands."""
    strides: tuple[tuple[str, Strides], ...] = tuple((kind, "contiguous") for kind in kinds)
    rates = Rates(CPU, 20.0, 8.0, 100.0, 500, strides=strides)
    return replace(PRESETS["cpu"], name="packed", rates=(rates,))


def stamped(module: ModuleOp, topology: Topology) -> ModuleOp:
    module.attributes[STAMP] = attribute_of(topology)
    return module


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def described(topology: Topology) -> TargetDescription:
    return target_description(topology, CPU)


READERS = """
func.func @main(%x: tensor<64x64xf32>, %r: tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %t = fuel.transpose %x : tensor<64x64xf32> -> tensor<64x64xf32>
  %b = fuel.broadcast_to %r : tensor<64xf32> -> tensor<64x64xf32>
  %e = fuel.add %t, %b : tensor<64x64xf32>
  %m = fuel.matmul %e, %t : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %s = fuel.sum_dim %t {dim = 1 : i64} : tensor<64x64xf32> -> tensor<64xf32>
  func.return %m, %s : tensor<64x64xf32>, tensor<64xf32>
}
"""


@pytest.mark.parametrize(
    ("kinds", "written"),
    [
        ((), []),
        (("matmul", "library"), ["transpose"]),
        (("pointwise", "library"), ["transpose", "broadcast_to"]),
        (("reduction", "library"), ["transpose"]),
        (KINDS, ["transpose", "broadcast_to"]),
    ],
)
def test_a_value_is_written_out_once(kinds: tuple[str, ...], written: list[str]) -> None:
    module = stamped(parse_module(READERS), packed(*kinds))
    OptimizePass(variants="keep").apply(CONTEXT, module)
    module.verify()
    found = [k.label.data for k in kernels(module) if k.kind.data == "movement"]
    assert found == written
    numbers = np.random.default_rng(1)
    arrays = [numbers.standard_normal(s).astype("f4") for s in ((64, 64), (64,))]
    expected = evaluate(parse_module(READERS), *arrays)
    for result, wanted in zip(evaluate(module, *arrays), expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-4)


@examples(40)
@given(programs())
def test_no_kernel_is_left_with_what_it_cannot_read(program: Program) -> None:
    topology = packed(*KINDS)
    module = stamped(program.module.clone(), topology)
    OptimizePass(variants="keep").apply(CONTEXT, module)
    module.verify()
    assert [k.label.data for k in kernels(module) if unreadable(k, described(topology))] == []
    found = evaluate(module, *program.arguments, weights=program.weights)
    wanted = evaluate(program.module, *program.arguments, weights=program.weights)
    assert_close(found, wanted)
    once = str(module)
    OptimizePass(variants="keep").apply(CONTEXT, module)
    assert str(module) == once


@examples(25)
@given(programs())
def test_strip_plan_gives_the_views_back(program: Program) -> None:
    plain, written = program.module.clone(), stamped(program.module.clone(), packed(*KINDS))
    for module in (plain, written):
        OptimizePass(plugins=False).apply(CONTEXT, module)
        module.attributes.pop(STAMP, None)
    OptimizePass(plugins=False).apply(CONTEXT, written)
    assert str(written) == str(plain)


def test_prices_count_what_will_be_written_out() -> None:
    topology = packed(*KINDS)
    module = stamped(parse_module(READERS), topology)
    FormKernelsPass().apply(CONTEXT, module)
    single = next(k for k in kernels(module) if k.kind.data == "reduction")
    before = kernel_ns(single, described(topology))
    assert before > kernel_ns(single, DESCRIPTION)
    InsertContiguousPass().apply(CONTEXT, module)
    transpose = next(k for k in kernels(module) if k.label.data == "transpose")
    after = kernel_ns(single, described(topology)) + kernel_ns(transpose, described(topology))
    assert after == before
    bytes = 64 * 64 * 4
    assert kernel_ns(transpose, DESCRIPTION) == 500 + -(-2 * bytes // 20)


def test_it_works_in_runs_too_and_strip_dissolves_them() -> None:
    module = stamped(parse_module(READERS), packed("reduction"))
    FormRunsPass().apply(CONTEXT, module)
    for _ in range(2):
        InsertContiguousPass().apply(CONTEXT, module)
        module.verify()
        assert [k.kind.data for k in kernels(module)].count("movement") == 1
    StripPlanPass().apply(CONTEXT, module)
    assert kernels(module) == []


FLIPPED = """
func.func @main(%x: tensor<3x8x8xf32>, %y: tensor<3x8x8xf32>) -> tensor<3x8x8xf32> {
  %f = fuel.flip %y {dim = DIM : i64} : tensor<3x8x8xf32> -> tensor<3x8x8xf32>
  %t = fuel.transpose %x : tensor<3x8x8xf32> -> tensor<3x8x8xf32>
  %m = fuel.matmul %t, %f : tensor<3x8x8xf32>, tensor<3x8x8xf32> -> tensor<3x8x8xf32>
  func.return %m : tensor<3x8x8xf32>
}
"""


@pytest.mark.parametrize("dim", [1, 2])
def test_blas_gets_matrices_that_it_can_read(dim: int) -> None:
    text = FLIPPED.replace("DIM", str(dim))
    module = parse_module(text)
    OptimizePass().apply(CONTEXT, module)
    flips = [op.parent_op() for op in module.walk() if isinstance(op, FlipOp)]
    assert [k.kind.data for k in flips if isinstance(k, KernelOp)] == ["movement"]
    x, y = np.random.default_rng(2).standard_normal((2, 3, 8, 8)).astype("f4")
    (found,) = Session().run(text, x, y)
    expected: Any = np.swapaxes(x, 1, 2) @ np.ascontiguousarray(np.flip(y, dim))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_flip_of_batches_leaves_every_matrix_readable() -> None:
    module = parse_module(FLIPPED.replace("DIM", "0"))
    OptimizePass().apply(CONTEXT, module)
    assert [k.kind.data for k in kernels(module)] == ["matmul"]
