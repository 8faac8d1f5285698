# SPDX-License-Identifier: MIT OR Apache-2.0
"""`check_arms`: all arms run on the same values, and one that gives something else is an error."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import examples
from fuel_dialect import dtypes
from fuel_dialect.errors import ArmsDiffer, DecisionError, DeviceFailure
from fuel_runtime import Session
from fuel_runtime.call.arm_checks import TOLERANCES, ArmChecks, difference
from live_programs import CPU, CUDA, ONE, STATE, TWO, Array, Fails, Lab, X, one, two

TYPE = "tensor<256xf32>"


def module(body: str, arguments: str = f"%x: {TYPE}", results: str = TYPE) -> str:
    return f"func.func @main({arguments}) -> {results} {{\n{body}}}\n"


def decision(name: str, value: str, result: str, *bodies: str) -> str:
    arms = "".join(f"\n  arm on {CPU} {{\n{body}  }}" for body in bodies)
    return f'  {result} = fuel.branch "{name}"(%a = {value} : {TYPE}) -> {TYPE}{arms}\n'


def scaled(n: int, by: float) -> str:
    return (
        f"    %m{n} = fuel.mul_scalar %a {{scalar = {by:.9e} : f64}} : {TYPE}\n"
        f"    fuel.yield %m{n} : {TYPE}\n"
    )


def apart(*by: float) -> str:
    arms = [scaled(n, factor) for n, factor in enumerate(by)]
    return module(decision("d0", "%x", "%y", *arms) + f"  func.return %y : {TYPE}\n")


def compiled(program: str, **options: Any) -> Any:
    return Session(check_arms=True, telemetry=False, **options).compile(program, optimize=False)


def test_arms_that_agree_are_reported() -> None:
    exe = Lab().compile(TWO, check_arms=True)
    for _ in range(3):
        for got, want in zip(exe(X), two(X), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    checks = {(c.decision, c.arm): c for c in exe.report().checks}
    assert set(checks) == {("d0", 2), ("d1", 2)}
    assert all(c.calls == 3 and c.against == 0 and c.worst <= 1e-6 for c in checks.values())
    assert "  d0: arm 2 and arm 0, 3 calls: differs by " in str(exe.report())


@pytest.mark.parametrize("forced", [0, 1, 2])
def test_an_arm_that_differs_is_named_with_the_place_and_both_values(forced: int) -> None:
    factors = (1.0, 1.0, 1.5)
    exe = compiled(apart(*factors), force={"d0": forced})
    wrong = next(arm for arm in range(3) if factors[arm] != factors[forced])
    with pytest.raises(ArmsDiffer) as raised:
        exe(np.full(256, 2, np.float32))
    text = str(raised.value)
    assert f"main: decision d0: arm {wrong} on cpu/numpy gives {2 * factors[wrong]} at [0]" in text
    assert f"arm {forced} on cpu/numpy gives {2 * factors[forced]}" in text
    check = max(exe.report().checks, key=lambda c: c.worst)
    assert (check.arm, check.against) == (wrong, forced)
    assert check.worst == pytest.approx(abs(factors[wrong] / factors[forced] - 1))


def test_a_tolerance_of_ones_own() -> None:
    program = apart(1.0, 1.001)
    with pytest.raises(ArmsDiffer, match=r"0\.0001 is allowed"):
        compiled(program)(X)
    session = Session(check_arms=0.01, telemetry=False)
    np.testing.assert_array_equal(session.compile(program, optimize=False)(X)[0], X)
    with pytest.raises(ArmsDiffer, match="; 0 is allowed"):
        Session(check_arms=0, telemetry=False).compile(program, optimize=False)(X)


def test_arms_that_are_forbidden_do_not_run() -> None:
    exe = compiled(apart(1.0, 1.5, 1.0), forbid={"d0": 1})
    np.testing.assert_array_equal(exe(X)[0], X)
    assert [c.arm for c in exe.report().checks] == [2]


def test_strict_takes_one_arm_and_checks_all() -> None:
    exe = compiled(apart(1.0, 1.0), strict=True)
    np.testing.assert_array_equal(exe(X)[0], X)
    assert [(c.arm, c.worst) for c in exe.report().checks] == [(1, 0.0)]


def test_an_arm_that_computes_nothing_is_compared_too() -> None:
    nothing = f"    fuel.yield %a : {TYPE}\n"
    program = module(
        decision("d0", "%x", "%y", nothing, scaled(1, 1.0)) + f"  func.return %y : {TYPE}\n"
    )
    exe = compiled(program)
    np.testing.assert_array_equal(exe(X)[0], X)
    assert [(c.arm, c.worst) for c in exe.report().checks] == [(1, 0.0)]
    with pytest.raises(ArmsDiffer, match="arm 1"):
        compiled(program.replace("1.000000000e+00", "2.000000000e+00"))(X)


def test_a_decision_in_the_arm_that_is_taken_is_checked() -> None:
    inner = (
        '    %i = fuel.branch "e"(%b = %a : '
        f"{TYPE}) -> {TYPE}\n  arm on {CPU} {{\n"
        f"    fuel.yield %b : {TYPE}\n  }}\n  arm on {CPU} {{\n"
        f"    %n = fuel.neg %b : {TYPE}\n    fuel.yield %n : {TYPE}\n  }}\n"
        f"    fuel.yield %i : {TYPE}\n"
    )
    program = module(
        decision("d0", "%x", "%y", inner, scaled(1, 1.0)) + f"  func.return %y : {TYPE}\n"
    )
    with pytest.raises(ArmsDiffer, match="decision d0/0/e: arm 1"):
        compiled(program)(X)


def test_state_is_as_before_an_arm_that_differs_and_moves_on_once_otherwise() -> None:
    exe = Lab().compile(STATE, check_arms=True)
    state = exe.new_state(s=X)
    for step in (1, 2, 3):
        exe(X, state=state)
        np.testing.assert_allclose(state["s"], X * (step + 1), rtol=1e-6)
    wrong = STATE.replace("price 101 {\n", f"price 101 {{\n    %q = fuel.neg %a : {TYPE}\n", 1)
    head, _, tail = wrong.rpartition("fuel.copy %a")
    exe = Lab().compile(
        f"{head}fuel.copy %q{tail.replace('fuel.sqr', 'fuel.relu', 1)}", check_arms=True
    )
    state = exe.new_state(s=X)
    with pytest.raises(ArmsDiffer):
        exe(X, state=state)
    np.testing.assert_array_equal(state["s"], X)


BROKEN = DeviceFailure("cuda:0: it is broken")


def test_an_arm_that_cannot_run_is_reported_and_the_call_goes_on() -> None:
    lab = Lab()
    exe = lab.compile(ONE, check_arms=True, force={"d0": 1})
    Fails(lab.driver("cuda:0"), "replay", 1, BROKEN)
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5)
    (check,) = exe.report().checks
    assert (check.arm, check.against) == (0, 1)
    assert "DeviceFailure" in check.error
    assert "it is broken" in str(exe.report())


def test_the_arm_of_the_call_fails_while_it_is_checked() -> None:
    lab = Lab()
    exe = lab.compile(ONE, check_arms=True)
    lab.poll()
    fails = Fails(lab.driver("cuda:0"), "replay", 1, BROKEN)
    np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5)
    assert fails.calls >= 1
    used = [lab.driver("cuda:0").used]
    for _ in range(3):
        np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5)
        used.append(lab.driver("cuda:0").used)
    assert used == [used[0]] * 4


@pytest.mark.parametrize("given", [-1, 1, 1.5, "x", float("nan"), float("inf"), None])
def test_what_is_no_tolerance(given: object) -> None:
    with pytest.raises(DecisionError, match="check_arms is True, False or a relative difference"):
        Session(check_arms=given)  # pyright: ignore[reportArgumentType]


FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@examples(50)
@given(
    st.lists(st.tuples(FLOATS, FLOATS), min_size=0, max_size=6), st.sampled_from(["f32", "bf16"])
)
def test_the_difference_is_that_of_a_loop(pairs: list[tuple[float, float]], dtype: str) -> None:
    numpy = dtypes.BY_NAME[dtype].numpy
    with np.errstate(all="ignore"):
        got, want = (np.array([p[i] for p in pairs], np.float32).astype(numpy) for i in (0, 1))
    worst, place = difference(got, want)
    wide = [float(w) for w in want]
    finite = [w if np.isfinite(w) else 0.0 for w in wide]
    mean = (sum(w * w for w in finite) / len(finite)) ** 0.5 if finite else 0.0
    each: list[float] = []
    for g, w, f in zip(map(float, got), wide, finite, strict=True):
        equal = g == w or (np.isnan(g) and np.isnan(w))
        off = 0.0 if equal else inf
        if not equal and np.isfinite(g) and np.isfinite(w):
            scale = max(abs(f), mean)
            off = abs(g - w) / scale if scale else inf
        each.append(off)
    assert worst == pytest.approx(max(each, default=0.0))
    assert not each or each[place[0]] == pytest.approx(worst)


def test_a_float_that_is_only_stored_is_a_float() -> None:
    numpy = dtypes.BY_NAME["f8E4M3FN"].numpy
    want = np.array([1, 2, np.nan, 4], np.float32).astype(numpy)
    got = np.array([1, 2, np.nan, 4.5], np.float32).astype(numpy)
    assert difference(want, want) == (0.0, (0,))
    assert difference(got, want) == (0.125, (3,))
    checks = ArmChecks("main", {}, None)
    assert checks._allowed(want) == TOLERANCES[8] == 0.2  # pyright: ignore[reportPrivateUsage]


def test_squares_that_overflow_hide_no_difference() -> None:
    want, got = np.array([1e200, 2e200, 1.0]), np.array([-1e200, 2e200, 1.0])
    worst, place = difference(got, want)
    assert place == (0,)
    assert worst == pytest.approx(2 / (5 / 3) ** 0.5)
    assert difference(want, want) == (0.0, (0,))
    zeros = np.zeros(2)
    assert difference(np.array([0.0, 1e-300]), zeros) == (inf, (1,))


@pytest.mark.parametrize("numpy", [np.int32, np.bool_, np.uint8])
def test_what_is_no_float_is_equal_or_not(numpy: type[Any]) -> None:
    a: Array = np.array([[0, 1], [1, 1]], numpy)
    b = a.copy()
    assert difference(a, b) == (0.0, (0, 0))
    b[1, 0] = 0
    assert difference(a, b) == (inf, (1, 0))


def test_a_target_of_another_device_is_named() -> None:
    program = ONE.replace("fuel.sin %s1", "fuel.cos %s1")
    with pytest.raises(ArmsDiffer, match=r"arm 1 on cpu/numpy .* arm 0 on cuda:0/triton"):
        Lab().compile(program, check_arms=True)(X)
    assert CUDA in program
