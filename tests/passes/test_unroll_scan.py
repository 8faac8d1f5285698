# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-unroll-scan`: straight-line code with the values of the loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_equal, main, names, run
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelPassError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.indexing import IndexingOp
from fuel_dialect.ops.scan import ScanOp
from fuel_passes.legalize.unroll_scan import UnrollScanPass
from programs import Program, programs

CONTEXT = make_context()
S = "tensor<f32>"


def unroll(module: ModuleOp, max_length: int | None = None) -> ModuleOp:
    UnrollScanPass(max_length=max_length).apply(CONTEXT, module)
    module.verify()
    return module


def running_sum(length: int, until: float | None = None, reverse: bool = False) -> ModuleOp:
    """Carries a sum, stacks twice the sum, and may stop once the sum exceeds a bound."""
    xs = f"tensor<{length}xf32>"
    test = end = steps = ""
    results = [S, xs]
    if until is not None:
        test = f"""
          %b = fuel.const {until} : f32 -> {S}
          %p = fuel.gt %n, %b : {S} -> tensor<i1>
          %q = fuel.reshape %p : tensor<i1> -> tensor<1x1xi1>"""
        end, steps = " until %q : tensor<1x1xi1>", ", %t"
        results.append("tensor<ui32>")
    types = ", ".join(results)
    return main(
        f"%x: {xs}",
        f"({types})",
        f"""
        %i = fuel.const 1.0 : f32 -> {S}
        %c, %y{steps} = fuel.scan init(%s = %i : {S}) xs(%r = %x : {xs}) consts(%one = %i : {S})
            length {length}{" reverse" if reverse else ""} -> ({types}) {{
          %two = fuel.const 2.0 : f32 -> {S}
          %m = fuel.mul %r, %one : {S}
          %n = fuel.add %s, %m : {S}
          %d = fuel.mul %n, %two : {S}{test}
          fuel.scan_yield carry(%n : {S}) ys(%d : {S}){end}
        }}
        func.return %c, %y{steps} : {types}""",
    )


def test_it_is_one_copy_of_the_body_per_step_and_one_concat():
    module = unroll(running_sum(3))
    step = ["slice", "squeeze", "mul", "add", "mul", "unsqueeze"]
    assert names(module) == ["const", "const", *step * 3, "concat"]
    (total, ys) = evaluate(module, np.array([1, 2, 4], np.float32))
    assert total == 8
    assert ys.tolist() == [4, 8, 16]


@given(
    st.integers(0, 6),
    st.sampled_from([None, -100.0, 2.0, 5.0, 100.0]),
    st.booleans(),
    st.lists(st.integers(-3, 4), min_size=6, max_size=6),
)
def test_values_equal_the_loop(length: int, until: float | None, reverse: bool, xs: list[int]):
    x = np.array(xs[:length], np.float32)
    module = running_sum(length, until, reverse)
    want = evaluate(module, x)
    unroll(module)
    assert "scan" not in names(module)
    assert_equal(evaluate(module, x), want)
    once = str(module)
    assert str(unroll(module)) == once


def test_no_steps_give_the_initial_carry_and_empty_rows():
    module = unroll(running_sum(0, until=1.0))
    total, ys, steps = evaluate(module, np.zeros(0, np.float32))
    assert (total, ys.shape, ys.dtype, steps) == (1, (0,), np.float32, 0)
    assert "slice" not in names(module)


def test_longer_scans_stay():
    assert "scan" in names(unroll(running_sum(4), max_length=3))
    assert "scan" not in names(unroll(running_sum(4), max_length=4))


def test_inner_scans_are_unrolled_once_and_copied():
    module = main(
        "%x: tensor<2x3xf32>",
        S,
        f"""
        %i = fuel.const 0.0 : f32 -> {S}
        %c = fuel.scan init(%s = %i : {S}) xs(%r = %x : tensor<2x3xf32>) length 2 -> {S} {{
          %d = fuel.scan init(%t = %s : {S}) xs(%e = %r : tensor<3xf32>) length 3 -> {S} {{
            %0 = fuel.add %t, %e : {S}
            fuel.scan_yield carry(%0 : {S})
          }}
          fuel.scan_yield carry(%d : {S})
        }}
        func.return %c : {S}""",
    )
    inner_only = module.clone()
    assert names(unroll(module)).count("add") == 6
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_equal(evaluate(module, x), [np.array(15, np.float32)])
    UnrollScanPass(max_length=2).apply(CONTEXT, inner_only)
    assert names(inner_only).count("scan") == 2


def test_scans_in_kernels_are_left_alone():
    module = main(
        "%x: tensor<2xf32>",
        S,
        f"""
        %i = fuel.const 0.0 : f32 -> {S}
        %k = fuel.kernel scan "scan"(%a = %x : tensor<2xf32>, %b = %i : {S}) -> {S} {{
          %c = fuel.scan init(%s = %b : {S}) xs(%r = %a : tensor<2xf32>) length 2 -> {S} {{
            %0 = fuel.add %s, %r : {S}
            fuel.scan_yield carry(%0 : {S})
          }}
          fuel.yield %c : {S}
        }}
        func.return %k : {S}""",
    )
    before = str(module)
    assert str(unroll(module)) == before


def test_a_scan_in_an_arm_is_unrolled():
    module = main(
        "%x: tensor<2xf32>",
        S,
        f"""
        %k = fuel.branch "mine"(%a = %x : tensor<2xf32>) -> {S}
        arm on #fuel.target<cpu, "numpy"> {{
          %i = fuel.const 0.0 : f32 -> {S}
          %c = fuel.scan init(%s = %i : {S}) xs(%r = %a : tensor<2xf32>) length 2 -> {S} {{
            %0 = fuel.add %s, %r : {S}
            fuel.scan_yield carry(%0 : {S})
          }}
          fuel.yield %c : {S}
        }}
        func.return %k : {S}""",
    )
    assert "scan" not in names(unroll(module))


def test_steps_have_the_pin_of_the_scan():
    module = running_sum(2, until=3.0)
    (scan,) = (op for op in module.walk() if isinstance(op, ScanOp))
    scan.properties["placement"] = DeviceAttr.of("cpu")
    before = {op for op in module.walk() if isinstance(op, FuelOp)}
    unroll(module)
    made = [op for op in module.walk() if isinstance(op, FuelOp) and op not in before]
    assert {str(op.placement) for op in made} == {"cpu"}


def test_an_early_end_with_reads_by_index_is_refused():
    module = main(
        "%x: tensor<4xf32>, %i: tensor<2x1xui32>",
        "(tensor<1xf32>, tensor<ui32>)",
        """
        %z = fuel.const 0.0 : f32 -> tensor<1xf32>
        %c, %t = fuel.scan init(%s = %z : tensor<1xf32>) xs(%r = %i : tensor<2x1xui32>)
            consts(%k = %x : tensor<4xf32>) length 2 -> (tensor<1xf32>, tensor<ui32>) {
          %0 = fuel.index_select %k, %r {dim = 0 : i64}
            : tensor<4xf32>, tensor<1xui32> -> tensor<1xf32>
          %p = fuel.gt %0, %s : tensor<1xf32> -> tensor<1xi1>
          fuel.scan_yield carry(%0 : tensor<1xf32>) until %p : tensor<1xi1>
        }
        func.return %c, %t : tensor<1xf32>, tensor<ui32>""",
    )
    before = str(module)
    with pytest.raises(FuelPassError, match="until whose body holds index_select"):
        unroll(module)
    assert str(module) == before


def test_a_negative_length_is_refused():
    with pytest.raises(FuelPassError, match="max-length must be >= 0, got -1"):
        unroll(running_sum(1), max_length=-1)


def _may_unroll(module: ModuleOp) -> bool:
    return not any(
        isinstance(op, ScanOp)
        and op.end.until is not None
        and any(isinstance(inner, IndexingOp) for inner in op.body.walk())
        for op in module.walk()
    )


@given(programs())
def test_random_programs_keep_their_values(program: Program):
    if not _may_unroll(program.module):
        with pytest.raises(FuelPassError):
            unroll(program.module)
        return
    want = run(program)
    unroll(program.module)
    assert "scan" not in names(program.module)
    assert_equal(run(program), want)
