# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-bake-variants`: clear decisions between kernels of one device are taken."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from agreement import TakeForks, assert_close, main, names, run
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelPassError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp
from fuel_passes.forking.bake_variants import BakeVariantsPass
from fuel_passes.forking.fork_variants import ForkVariantsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from programs import Program, programs

CONTEXT = make_context()
T = "tensor<2xf32>"
CPU = '#fuel.target<cpu, "numpy">'
CUDA = '#fuel.target<cuda:0, "triton">'
X = np.array([3, -4], np.float32)


def bake(module: ModuleOp, within: float = 1.5) -> ModuleOp:
    BakeVariantsPass(within=within).apply(CONTEXT, module)
    module.verify()
    return module


def forked(*prices: int | None, targets: tuple[str, ...] = (), origin: str = "a-pass") -> ModuleOp:
    """A branch whose arm n multiplies by n."""
    targets = targets or (CPU,) * len(prices)
    who = f'origin "{origin}"' if origin else ""
    arms = "\n".join(
        f"arm on {target} {'' if price is None else f'price {price}'} {who} {{\n"
        f"%0 = fuel.mul_scalar %a {{scalar = {n}.0 : f64}} : {T}\nfuel.yield %0 : {T}\n}}"
        for n, (price, target) in enumerate(zip(prices, targets, strict=True))
    )
    return main(
        f"%x: {T}", T, f'%y = fuel.branch "d0"(%a = %x : {T}) -> {T}\n{arms}\nfunc.return %y : {T}'
    )


def arms(module: ModuleOp) -> list[float]:
    """The factors of the arms that are left, in order; one without a branch."""
    branch = [op for op in module.walk() if isinstance(op, BranchOp)]
    count = len(branch[0].arm_regions) if branch else 1
    results = [evaluate(module, X, arms={"d0": arm}) for arm in range(count)]
    return [float(y[0] / X[0]) for (y,) in results]


@pytest.mark.parametrize(
    ("prices", "kept"),
    [
        ((100, 200), [0]),
        ((200, 100), [1]),
        ((100, 150), [0, 1]),
        ((100, 151), [0]),
        ((150, 100), [0, 1]),
        ((140, 100, 300), [0, 1]),
        ((300, 100, 140), [1, 2]),
        ((100, 400, 140), [0, 2]),
        ((100, 100), [0, 1]),
        ((0, 0), [0, 1]),
        ((0, 1), [0]),
        ((None, 100), [0]),
        ((900, None, 100), [0]),
        ((7,), [0]),
    ],
)
def test_arms_that_are_too_dear_go(prices: tuple[int | None, ...], kept: list[int]):
    module = bake(forked(*prices))
    assert arms(module) == kept
    once = str(module)
    assert str(bake(module)) == once
    descriptions = [op.arms for op in module.walk() if isinstance(op, BranchOp)]
    if descriptions:
        assert [arm.price_ns for arm in descriptions[0]] == [prices[k] for k in kept]


def test_within_is_an_option():
    assert arms(bake(forked(100, 190), within=2)) == [0, 1]
    assert arms(bake(forked(100, 101), within=1)) == [0]


def test_branches_between_devices_and_written_ones_stay():
    for module in (forked(100, 900, targets=(CPU, CUDA)), forked(100, 900, origin="")):
        before = str(module)
        assert str(bake(module)) == before


def test_an_operand_that_only_a_dropped_arm_read_goes():
    module = main(
        f"%x: {T}, %u: {T}",
        T,
        f"""
        %e = fuel.exp %u : {T}
        %y = fuel.branch "d0"(%a = %x : {T}, %b = %e : {T}) -> {T}
        arm on {CPU} price 10 origin "a-pass" {{
          %0 = fuel.neg %a : {T}
          fuel.yield %0 : {T}
        }}
        arm on {CPU} price 11 origin "a-pass" {{
          fuel.yield %a : {T}
        }}
        arm on {CPU} price 99 origin "a-pass" {{
          fuel.yield %b : {T}
        }}
        func.return %y : {T}""",
    )
    bake(module)
    (branch,) = (op for op in module.walk() if isinstance(op, BranchOp))
    assert len(branch.inputs) == 1


def test_nested_branches_are_baked_in_arms_that_stay_and_that_go():
    inner = f"""%i = fuel.branch "ID"(%b = %a : {T}) -> {T}
          arm on {CPU} price 10 origin "a-pass" {{
            %0 = fuel.neg %b : {T}
            fuel.yield %0 : {T}
          }}
          arm on {CPU} price 90 origin "a-pass" {{
            %0 = fuel.abs %b : {T}
            fuel.yield %0 : {T}
          }}
          fuel.yield %i : {T}"""
    module = main(
        f"%x: {T}",
        T,
        f"""
        %y = fuel.branch "d0"(%a = %x : {T}) -> {T}
        arm on {CPU} price 10 origin "a-pass" {{
          {inner.replace("ID", "d1")}
        }}
        arm on {CPU} price 12 origin "a-pass" {{
          {inner.replace("ID", "d2")}
        }}
        arm on {CPU} price 90 origin "a-pass" {{
          {inner.replace("ID", "d3")}
        }}
        func.return %y : {T}""",
    )
    assert names(bake(module)) == ["branch", "neg", "yield", "neg", "yield"]


def test_a_bad_option_is_refused():
    with pytest.raises(FuelPassError, match=r"within must be >= 1, got 0\.5"):
        bake(forked(1, 2), within=0.5)


@given(programs(), st.sampled_from([1, 1.5, 1000]))
def test_random_programs_keep_their_values(program: Program, within: float):
    want = run(program)
    FormKernelsPass().apply(CONTEXT, program.module)
    with (
        patch("fuel_passes.forking.fork_variants.is_tiled", lambda elements, target: True),
        patch("fuel_passes.forking.fork_variants.arms_left", lambda function: 1_000),
    ):
        ForkVariantsPass(reach=1_000_000).apply(CONTEXT, program.module)
    bake(program.module, within)
    assert_close(run(program), want)
    assert_close(run(program, TakeForks(1)), want)
