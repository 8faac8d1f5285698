# SPDX-License-Identifier: MIT OR Apache-2.0
"""Carries of scans are handed on as a parallel copy, whatever they begin with, on every target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_equal, main
from carries import Case, carrying_scans
from fuel_dialect.context import make_context
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.reference.precision import Array
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Session
from targets import LAUNCHERS, run_on

MARKS = {"kompute": [pytest.mark.needs_vulkan]}
TARGETS = [pytest.param(name, marks=MARKS.get(name, [])) for name in ("numpy", *sorted(LAUNCHERS))]
each_target = pytest.mark.parametrize("target", TARGETS)
some = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def run(
    target: str, module: ModuleOp, arguments: Sequence[Array], weights: Mapping[str, Array]
) -> Sequence[Array]:
    if target == "numpy":
        return Session(devices="cpu").run(module, *arguments, weights=weights)
    optimised = module.clone()
    OptimizePass().apply(make_context(), optimised)
    return run_on(target, optimised, arguments, weights)


def check(
    target: str, module: ModuleOp, arguments: Sequence[Array], weights: Mapping[str, Array]
) -> None:
    with np.errstate(all="ignore"):
        want = evaluate(module, *arguments, weights=weights)
        assert_equal(run(target, module, arguments, weights), want)


@each_target
@some
@given(case=carrying_scans())
def test_random_carries(target: str, case: Case):
    check(target, case.module, case.arguments, case.weights)


STEPS = {
    "fibonacci": ("%s = fuel.add %a, %b : V", "%s, %a, %c", [13, 8, 3]),
    "swap": ("", "%b, %a, %c", [1, 0, 3]),
    "ring": ("", "%b, %c, %a", [1, 0, 3]),
    "ring the other way": ("", "%c, %a, %b", [1, 0, 3]),
    "previous x": ("", "%x, %a, %b", [5, 4, 3]),
    "previous sum": ("%s = fuel.add %a, %x : V", "%s, %a, %b", [16, 11, 7]),
    "a const operand": ("", "%q, %a, %b", [7, 7, 7]),
    "one value twice": ("%s = fuel.add %b, %x : V", "%s, %s, %a", [15, 15, 10]),
    "two carries from one": ("%s = fuel.add %a, %b : V", "%s, %a, %a", [13, 8, 8]),
}
"""The body, the next carries, and what six steps make of 1, 0 and 3, the rows of x being 0 to 5."""

LEAVES = {
    "splats": "%{0}0 = fuel.const {1} : f32 -> V",
    "elements": "%{0}1 = fuel.const {1} : f32 -> V\n%{0}0 = fuel.add %{0}1, %z : V",
    "arguments": "",
    "weights": '%{0}0 = fuel.weight "{0}" : V',
}
"""The start of each carry."""

INITS = {"a": 1.0, "b": 0.0, "c": 3.0}


def three_carries(begin: str, body: str, following: str, y: str) -> ModuleOp:
    """A scan of three carries, six rows of an x and a const operand."""
    given = ", %a0: V, %b0: V, %c0: V" if begin == "arguments" else ""
    leaves = "\n".join(LEAVES[begin].format(name, value) for name, value in INITS.items())
    text = f"""
  {leaves}
  %r0, %r1, %r2, %r3 = fuel.scan init(%a = %a0 : V, %b = %b0 : V, %c = %c0 : V)
      xs(%x = %xs : S) consts(%q = %q0 : V) length 6 -> (V, V, V, S) {{
    {body}
    fuel.scan_yield carry({following} : V, V, V) ys({y} : V)
  }}
  func.return %r0, %r1, %r2, %r3 : V, V, V, S
"""
    texts = f"%xs: S, %q0: V, %z: V{given}", "(V, V, V, S)", text
    return main(*(t.replace("V", "tensor<4xf32>").replace("S", "tensor<6x4xf32>") for t in texts))


@each_target
@pytest.mark.parametrize("begin", LEAVES)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("is_one_kernel", [True, False])
def test_carries_are_a_parallel_copy(target: str, begin: str, name: str, is_one_kernel: bool):
    body, following, want = STEPS[name]
    if not is_one_kernel:
        body += "\n%f = fuel.flip %a {dim = 0 : i64} : V -> V"
    module = three_carries(begin, body, following, "%a" if is_one_kernel else "%f")
    arrays = {key: np.full(4, value, np.float32) for key, value in INITS.items()}
    xs = np.repeat(np.arange(6, dtype=np.float32), 4).reshape(6, 4)
    arguments = [xs, np.full(4, 7, np.float32), np.zeros(4, np.float32)]
    arguments += list(arrays.values()) if begin == "arguments" else []
    found = run(target, module, arguments, arrays if begin == "weights" else {})
    assert_equal(found[:3], [np.full(4, number, np.float32) for number in want])
    assert_equal(found, evaluate(module, *arguments, weights=arrays))
