# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scans as loops: bodies grown at random against the reference, and how carries are updated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f64, i1
from xdsl.ir import Block, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.context import parse_module
from fuel_dialect.numbers import integer
from fuel_dialect.ops import (
    comparison,
    elementwise,
    linear_algebra,
    normalization,
    reduction,
    shape,
)
from fuel_dialect.ops.base import ConstOp, FuelOp
from fuel_dialect.ops.scan import ScanOp, ScanYieldOp
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from fuel_lowering.numpy.lower import lower_run
from op_modules import module_of
from ops_on_arrays import floats
from programs import numbers
from run_ops import Loaded, check_results, runs_of

F32 = "f32"


class Body:
    """A block that grows op by op; values are found by type."""

    def __init__(self, draw: Callable[..., Any], types: list[AnyTensor]):
        self.draw = draw
        self.block = Block(arg_types=types)
        self.values: list[SSAValue] = list(self.block.args)

    def add(self, op: FuelOp) -> SSAValue:
        self.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def of(self, type: AnyTensor) -> SSAValue:
        """Some value of a type; a constant where there is none."""
        found = [v for v in self.values if v.type == type]
        if found:
            return self.draw(st.sampled_from(found))
        return self.add(ConstOp.splat_of(1, type))

    def grow(self) -> None:
        value = self.draw(st.sampled_from(self.values))
        type = tensor_type(value)
        if type.element_type == i1:
            self.add(elementwise.WhereOp.make(value, *self._two(tensor(type.get_shape(), F32))))
            return
        rank = len(type.get_shape())
        choices = [self._unary, self._binary, self._compare, self._convert]
        if rank:
            choices += [self._rows, self._reduce, self._view]
        if rank == 2:
            choices.append(self._matmul)
        self.draw(st.sampled_from(choices))(value)

    def _two(self, type: AnyTensor) -> tuple[SSAValue, SSAValue]:
        return self.of(type), self.of(type)

    def _unary(self, x: SSAValue) -> None:
        kinds = [elementwise.TanhOp, elementwise.SigmoidOp, elementwise.AbsOp, elementwise.SiluOp]
        self.add(self.draw(st.sampled_from(kinds)).make(x))

    def _binary(self, x: SSAValue) -> None:
        kinds = [elementwise.AddOp, elementwise.SubOp, elementwise.MaximumOp, elementwise.MulOp]
        kind = self.draw(st.sampled_from(kinds))
        value = self.add(kind.make(x, self.of(tensor_type(x))))
        self.add(elementwise.ClampOp.make(value, min=FloatAttr(-9, f64), max=FloatAttr(9, f64)))

    def _compare(self, x: SSAValue) -> None:
        self.add(comparison.LtOp.make(x, self.of(tensor_type(x))))

    def _convert(self, x: SSAValue) -> None:
        type = tensor_type(x)
        half = self.add(elementwise.CastOp.make(x, declared=[tensor(type.get_shape(), "bf16")]))
        doubled = elementwise.AddOp.make(half, half)
        self.block.add_op(doubled)
        self.add(elementwise.CastOp.make(doubled.result, declared=[type]))
        self.values.remove(half)

    def _rows(self, x: SSAValue) -> None:
        self.add(normalization.SoftmaxLastDimOp.make(x))

    def _reduce(self, x: SSAValue) -> None:
        column = tensor((*tensor_type(x).get_shape()[:-1], 1), F32)
        narrow = self.add(reduction.ReduceSumToOp.make(x, declared=[column]))
        self.add(shape.BroadcastToOp.make(narrow, declared=[tensor_type(x)]))

    def _view(self, x: SSAValue) -> None:
        extents = tensor_type(x).get_shape()
        flat = tensor((int(np.prod(extents)),), F32)
        self.add(shape.FlipOp.make(x, dim=integer(0)))
        self.add(shape.ReshapeOp.make(self.values[-1], declared=[flat]))
        if len(extents) == 2:
            self.add(shape.TransposeOp.make(x))

    def _matmul(self, x: SSAValue) -> None:
        rows, columns = tensor_type(x).get_shape()
        other = self.of(tensor((columns, rows), F32))
        self.add(linear_algebra.MatmulOp.make(x, other))


SHAPES = [(), (1,), (3,), (2, 3), (3, 2)]


@st.composite
def scans(draw: Any) -> tuple[Any, list[Any]]:
    """A module with one scan, and arguments."""
    length = draw(st.integers(0, 4))
    shapes = st.lists(st.sampled_from(SHAPES), max_size=2)
    carries, rows, consts = ([tensor(s, F32) for s in draw(shapes)] for _ in range(3))
    body = Body(draw, [*carries, *rows, *consts])
    if not body.values:
        body.of(tensor((2,), F32))
    for _ in range(draw(st.integers(0, 8))):
        body.grow()
    following = [body.of(type) for type in carries]
    ys = draw(st.lists(st.sampled_from(body.values), min_size=not carries, max_size=3))
    flags = [v for v in body.values if v.type == tensor((), "i1") or v.type == tensor((1,), "i1")]
    until = draw(st.sampled_from(flags)) if flags and draw(st.booleans()) else None
    body.block.add_op(ScanYieldOp(following, ys, until))
    xs = [tensor((length, *type.get_shape()), F32) for type in rows]
    reverse = draw(st.booleans())
    count = len(carries), len(carries) + len(xs)

    def make(*args: SSAValue) -> FuelOp:
        groups = args[: count[0]], args[count[0] : count[1]], args[count[1] :]
        return ScanOp(*groups, length, Region(body.block), reverse)

    types = [*carries, *xs, *consts]
    module = module_of(types, make)
    arrays = [numbers(draw, list(t.get_shape()), dtypes.of_type(t).name) for t in types]
    return module, arrays


@given(scans())
def test_random_scans_equal_the_reference(case: tuple[Any, list[Any]]):
    module, arrays = case
    loaded = Loaded(lower_run(runs_of(module)[0], "main_0"))
    check_results(loaded, module, arrays, (1e-4, 1e-5))


TEXT = """
func.func @main(%x: STACK, %h: VECTOR) -> (RESULTS) {
  NAMES = fuel.run on #fuel.target<cpu, "numpy"> (%x1 = %x : STACK, %h1 = %h : VECTOR)
      -> (RESULTS) {
    NAMES = fuel.kernel scan "loop" (%x2 = %x1 : STACK, %h2 = %h1 : VECTOR) -> (RESULTS) {
      NAMES = fuel.scan init(%c = %h2 : VECTOR) xs(%p = %x2 : STACK) length 3 -> (RESULTS) {
        BODY
      }
      fuel.yield NAMES : RESULTS
    }
    fuel.yield NAMES : RESULTS
  }
  func.return NAMES : RESULTS
}"""


def module_with(body: str, results: Sequence[str]) -> ModuleOp:
    names = ", ".join(f"%r{i}" for i in range(len(results)))
    text = TEXT.replace("BODY", body).replace("NAMES", names).replace("RESULTS", ", ".join(results))
    return parse_module(text.replace("STACK", S).replace("VECTOR", V))


V, S = "tensor<4xf32>", "tensor<3x4xf32>"
LOOPS = {
    "row": (f"%n = fuel.add %c, %p : {V}\n fuel.scan_yield carry(%n : {V}) ys(%n : {V})", [V, S]),
    "in_place": (f"%n = fuel.add %c, %p : {V}\n fuel.scan_yield carry(%n : {V})", [V]),
    "swap": (
        f"%n = fuel.exp %p : {V}\n %m = fuel.flip %c {{dim = 0 : i64}} : {V} -> {V}\n"
        f"%q = fuel.add %n, %c : {V}\n %r = fuel.mul %q, %m : {V}\n"
        f"fuel.scan_yield carry(%r : {V})",
        [V],
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_allocate_nothing(name: str):
    """No array is made inside the loop, and the results are the reference's."""
    module = module_with(*LOOPS[name])
    lowered = lower_run(runs_of(module)[0], "main_0")
    head, loop = lowered.source.split("    for ")
    step = [line for line in loop.splitlines()[1:] if line.startswith("        ")]
    assert step
    assert "empty" not in "\n".join(step)
    assert ("_next" in head) == (name == "swap")
    arrays = [floats("f32", (3, 4)), floats("f32", (4,), seed=1)]
    check_results(Loaded(lowered), module, arrays)


def test_what_no_step_changes_is_computed_before_the_loop():
    body = Block(arg_types=[tensor((4,), F32), tensor((4,), F32)])
    carry, const = body.args
    scaled = elementwise.ExpOp.make(const)
    total = elementwise.AddOp.make(carry, scaled.result)
    body.add_ops([scaled, total, ScanYieldOp([total.result])])
    module = module_of([tensor((4,), F32)] * 2, lambda h, k: ScanOp([h], [], [k], 5, Region(body)))
    lowered = lower_run(runs_of(module)[0], "main_0")
    head, loop = lowered.source.split("    for _ in range(5):")
    assert "exp(" in head
    assert "exp(" not in loop
    arrays = [floats("f32", (4,)), floats("f32", (4,), seed=1)]
    check_results(Loaded(lowered), module, arrays)


def test_a_scan_in_a_scan():
    inner = Block(arg_types=[tensor((3,), F32), tensor((3,), F32)])
    total = elementwise.AddOp.make(*inner.args)
    inner.add_ops([total, ScanYieldOp([total.result], [total.result])])
    outer = Block(arg_types=[tensor((3,), F32), tensor((2, 3), F32)])
    loop = ScanOp([outer.args[0]], [outer.args[1]], [], 2, Region(inner))
    summed = reduction.ReduceSumToOp.make(loop.outputs[1], declared=[tensor((3,), F32)])
    following = elementwise.SubOp.make(loop.outputs[0], summed.result)
    end = ScanYieldOp([following.result], [loop.outputs[1]])
    outer.add_ops([loop, summed, following, end])
    module = module_of(
        [tensor((3,), F32), tensor((4, 2, 3), F32)],
        lambda h, x: ScanOp([h], [x], [], 4, Region(outer), reverse=True),
    )
    loaded = Loaded(lower_run(runs_of(module)[0], "main_0"))
    check_results(loaded, module, [floats("f32", (3,)), floats("f32", (4, 2, 3), seed=1)])


def test_rows_of_a_flipped_operand_are_there_before_the_loop():
    module = parse_module(
        """
        func.func @main(%x: tensor<2xf32>) -> tensor<f32> {
          %o = fuel.run on #fuel.target<cpu, "numpy"> (%a = %x : tensor<2xf32>) -> tensor<f32> {
            %h = fuel.kernel scan "scan" (%b = %a : tensor<2xf32>) -> tensor<f32> {
              %f = fuel.flip %b {dim = 0 : i64} : tensor<2xf32> -> tensor<2xf32>
              %i = fuel.const 0.5 : f32 -> tensor<f32>
              %c, %y = fuel.scan init(%s = %i : tensor<f32>) xs(%r = %f : tensor<2xf32>) length 2
                  -> (tensor<f32>, tensor<2xf32>) {
                %t = fuel.tanh %s : tensor<f32>
                fuel.scan_yield carry(%t : tensor<f32>) ys(%r : tensor<f32>)
              }
              fuel.yield %c : tensor<f32>
            }
            fuel.yield %h : tensor<f32>
          }
          func.return %o : tensor<f32>
        }
        """
    )
    lowered = lower_run(runs_of(module)[0], "main_0")
    check_results(Loaded(lowered), module, [floats("f32", (2,))])
