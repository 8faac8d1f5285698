# SPDX-License-Identifier: MIT OR Apache-2.0
"""Elementwise arithmetic and comparisons against Python numbers, `math` and ml_dtypes."""

from __future__ import annotations

import math
import operator
from bisect import bisect
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_dialect import dtypes
from fuel_dialect.reference.precision import Array, convert
from fuel_dialect.tensors import tensor
from ops_on_arrays import apply, arrays, few, same_bits, shapes

NAN, INF = math.nan, math.inf
ARITHMETIC = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}


def of(dtype: str, *values: float) -> Array:
    return np.array(values).astype(dtypes.of(dtype).numpy)


def wrap(value: int, dtype: str) -> int:
    """The integer of `dtype` that is congruent to `value`."""
    limits = np.iinfo(dtypes.of(dtype).numpy)
    span = int(limits.max) - int(limits.min) + 1
    return (value - int(limits.min)) % span + int(limits.min)


def truncated(a: int, b: int) -> int:
    if not b:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": truncated,
    "rem": lambda a, b: a % b if b else 0,
    "maximum": max,
    "minimum": min,
}
INTEGER_UNARY: dict[str, Callable[[int], int]] = {
    "neg": operator.neg,
    "sqr": lambda x: x * x,
    "abs": abs,
    "relu": lambda x: max(x, 0),
    "step": lambda x: int(x > 0),
    "sign": lambda x: (x > 0) - (x < 0),
    "floor": lambda x: x,
    "ceil": lambda x: x,
    "round": lambda x: x,
}


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
@pytest.mark.parametrize("name", INTEGER_BINARY)
@few
@given(data=st.data())
def test_integers_are_python_integers_that_wrap(name: str, dtype: str, data: st.DataObject):
    a, b = data.draw(arrays(dtype)), data.draw(arrays(dtype))
    expected = [
        wrap(INTEGER_BINARY[name](int(x), int(y)), dtype) for x, y in zip(a, b, strict=True)
    ]
    assert apply(name, a, b).tolist() == expected


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
@pytest.mark.parametrize("name", INTEGER_UNARY)
@few
@given(data=st.data())
def test_integer_functions_of_one_operand(name: str, dtype: str, data: st.DataObject):
    x = data.draw(arrays(dtype))
    expected = [wrap(INTEGER_UNARY[name](int(v)), dtype) for v in x]
    assert apply(name, x).tolist() == expected


def test_integer_division_corners():
    least = -(2**31)
    a, b = of("i32", 7, -7, 7, -7, 5, least, least), of("i32", 2, 2, -2, -2, 0, -1, 0)
    assert apply("div", a, b).tolist() == [3, -3, -3, 3, 0, least, 0]
    assert apply("rem", a, b).tolist() == [1, 1, -1, -1, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "f64"])
@pytest.mark.parametrize("name", ARITHMETIC)
@few
@given(data=st.data())
def test_float_arithmetic_is_that_of_the_type_itself(name: str, dtype: str, data: st.DataObject):
    shape = data.draw(shapes())
    a, b = data.draw(arrays(dtype, shape)), data.draw(arrays(dtype, shape))
    with np.errstate(all="ignore"):
        expected = np.asarray(ARITHMETIC[name](a, b))
    assert same_bits(apply(name, a, b), expected)


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "neg": operator.neg,
    "sqr": lambda x: x * x,
    "abs": abs,
    "relu": lambda x: x if x > 0 or x != x else 0.0,
    "step": lambda x: float(x > 0),
    "sign": lambda x: x if x != x else float((x > 0) - (x < 0)),
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "round": lambda x: float(round(x)),
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else NAN,
    "rsqrt": lambda x: NAN if x < 0 else (1 / math.sqrt(x) if x else math.copysign(INF, x)),
    "recip": lambda x: 1 / x if x else math.copysign(INF, x),
    "exp": math.exp,
    "log": lambda x: math.log(x) if x > 0 else (NAN if x else -INF),
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "erf": math.erf,
    "gelu": lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
}
ULPS = {"bf16": 2**-8, "f16": 2**-10, "f32": 3e-6, "f64": 1e-12}


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
@few
@given(values=st.lists(st.floats(-30, 30, allow_subnormal=False), min_size=1, max_size=8))
def test_functions_of_reals_are_those_of_math(name: str, dtype: str, values: list[float]):
    x = of(dtype, *values)
    with np.errstate(all="ignore"):
        expected = of(dtype, *[FUNCTIONS[name](float(v)) for v in x])
    absolute = float(np.finfo(np.float32).tiny) if dtype != "f16" else 2.0**-24
    absolute = max(absolute, ULPS[dtype] * (4 if name == "gelu_tanh" else 0))
    np.testing.assert_allclose(
        apply(name, x).astype(np.float64),
        expected.astype(np.float64),
        rtol=ULPS[dtype],
        atol=absolute,
    )


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_propagates_through_every_function(name: str, dtype: str):
    (result,) = apply(name, of(dtype, NAN))
    assert bool(np.isnan(result)) == (name != "step")
    assert name != "step" or result == 0


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("round", [0.5, 1.5, 2.5, 3.5, -0.5], [0.0, 2.0, 2.0, 4.0, -0.0]),
        ("recip", [0.0, -0.0, INF], [INF, -INF, 0.0]),
        ("rsqrt", [0.0, INF, -1.0], [INF, 0.0, NAN]),
        ("sqrt", [-0.0, -1.0, INF], [-0.0, NAN, INF]),
        ("log", [0.0, -1.0, INF], [-INF, NAN, INF]),
        ("exp", [-INF, INF, 1000.0], [0.0, INF, INF]),
        ("sigmoid", [-INF, INF, -1000.0], [0.0, 1.0, 0.0]),
        ("sign", [-0.0, INF, -2.0], [0.0, 1.0, -1.0]),
        ("tanh", [INF, -INF, -0.0], [1.0, -1.0, -0.0]),
        ("erf", [INF, -INF, 0.0], [1.0, -1.0, 0.0]),
        ("step", [0.0, 1e-30, -1.0], [0.0, 1.0, 0.0]),
        ("neg", [0.0, INF], [-0.0, -INF]),
        ("sin", [INF, 0.0], [NAN, 0.0]),
    ],
)
def test_corners(name: str, values: list[float], expected: list[float]):
    result = apply(name, of("f32", *values))
    np.testing.assert_array_equal(result, of("f32", *expected))
    if name != "sign":
        assert same_bits(result, of("f32", *expected))


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
@pytest.mark.parametrize(("name", "pick"), [("maximum", max), ("minimum", min)])
@few
@given(data=st.data())
def test_maximum_and_minimum_propagate_nan(
    name: str, pick: Callable[[float, float], float], dtype: str, data: st.DataObject
):
    a, b = data.draw(arrays(dtype)), data.draw(arrays(dtype))
    for x, y, result in zip(a, b, apply(name, a, b), strict=True):
        if np.isnan(x) or np.isnan(y):
            assert np.isnan(result)
        else:
            assert result == pick(x, y)


@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6).filter(lambda b: abs(b) > 1e-3),
)
def test_float_remainder_follows_the_formula(a: float, b: float):
    (result,) = apply("rem", of("f64", a), of("f64", b))
    exact = Fraction(a) - math.floor(Fraction(a) / Fraction(b)) * Fraction(b)
    assert result == float(exact)
    assert apply("rem", of("f64", 5.5, -5.5, 5.5), of("f64", 2.0, 2.0, -2.0)).tolist() == [
        1.5,
        0.5,
        -0.5,
    ]


def test_float_division_and_remainder_by_zero():
    a, zero = of("f32", 1.0, -1.0, 0.0, NAN), of("f32", 0.0, 0.0, 0.0, 0.0)
    assert same_bits(apply("div", a, zero), of("f32", INF, -INF, NAN, NAN))
    assert np.isnan(apply("rem", a, zero)).all()


def test_pow_is_that_of_ieee():
    a, b = of("f64", 2.0, -8.0, -2.0, 0.0, NAN, 1.0), of("f64", 0.5, 1 / 3, 3.0, -1.0, 0.0, NAN)
    expected = of("f64", math.sqrt(2), NAN, -8.0, INF, 1.0, 1.0)
    assert same_bits(apply("pow", a, b), expected)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 31, -1, -2, -5])
@few
@given(data=st.data())
def test_powi_multiplies(exponent: int, data: st.DataObject):
    x = data.draw(arrays("i32"))
    powers = [int(v) ** abs(exponent) for v in x]
    wrapped = [wrap(p, "i32") for p in powers]
    expected = wrapped if exponent >= 0 else [wrap(truncated(1, p), "i32") for p in wrapped]
    assert apply("powi", x, exponent=exponent).tolist() == expected


def test_powi_of_floats():
    x = of("f32", 2.0, -2.0, 0.0, NAN, INF)
    assert apply("powi", x, exponent=0).tolist() == [1.0] * 5
    assert same_bits(apply("powi", x, exponent=-3), of("f32", 0.125, -0.125, INF, NAN, 0.0))
    third = of("bf16", 1.0078125)
    assert apply("powi", third, exponent=3)[0] == of("bf16", 1.0078125**3)[0]


@pytest.mark.parametrize("dtype", dtypes.FLOATS)
def test_scalars_are_converted_before_the_arithmetic(dtype: str):
    x = of(dtype, 1, 2, 3)
    one_and_half = convert(np.array([1.5]), x.dtype)
    assert same_bits(apply("add_scalar", x, scalar=1.5), apply("add", x, one_and_half.repeat(3)))
    assert same_bits(apply("mul_scalar", x, scalar=1.5), apply("mul", x, one_and_half.repeat(3)))


def test_scalars_round_in_bf16():
    assert apply("mul_scalar", of("bf16", 1.0), scalar=1.00390625 + 1e-9)[0] == 1.0078125


@pytest.mark.parametrize("dtype", dtypes.NUMERIC)
@few
@given(data=st.data())
def test_clamp(dtype: str, data: st.DataObject):
    x = data.draw(arrays(dtype))
    for value, result in zip(x, apply("clamp", x, min=0.0, max=2.0), strict=True):
        if value != value:
            assert np.isnan(result)
        else:
            assert result == min(max(value, 0), 2)


@pytest.mark.parametrize(
    ("name", "compare"),
    [
        ("eq", operator.eq),
        ("ne", operator.ne),
        ("lt", operator.lt),
        ("le", operator.le),
        ("gt", operator.gt),
        ("ge", operator.ge),
    ],
)
@pytest.mark.parametrize("dtype", dtypes.ORDERED)
@few
@given(data=st.data())
def test_comparisons(
    name: str, compare: Callable[[Any, Any], bool], dtype: str, data: st.DataObject
):
    a, b = data.draw(arrays(dtype)), data.draw(arrays(dtype))
    number = int if dtypes.of(dtype).kind != "float" else float
    expected = [compare(number(x), number(y)) for x, y in zip(a, b, strict=True)]
    assert apply(name, a, b).tolist() == expected


@pytest.mark.parametrize("dtype", dtypes.ORDERED)
@few
@given(data=st.data())
def test_where_and_masked_fill_pick(dtype: str, data: st.DataObject):
    mask, a, b = data.draw(arrays("i1")), data.draw(arrays(dtype)), data.draw(arrays(dtype))
    picked = np.stack([x if m else y for m, x, y in zip(mask, a, b, strict=True)])
    assert same_bits(apply("where", mask, a, b), picked)


def test_masked_fill_keeps_every_bit_of_its_value():
    from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i1, i64

    mask = np.array([True, False])
    large = IntegerAttr(2**62 + 1, i64)
    assert apply("masked_fill", of("i64", 1, 2), mask, value=large).tolist() == [2**62 + 1, 2]
    true = IntegerAttr(1, i1)
    assert apply("masked_fill", np.array([False, False]), mask, value=true).tolist() == [
        True,
        False,
    ]
    zero = apply("masked_fill", of("f32", 1, 2), mask, value=FloatAttr(-0.0, f32))
    assert same_bits(zero, of("f32", -0.0, 2.0))


@pytest.mark.parametrize("target", dtypes.INTEGERS)
@pytest.mark.parametrize("source", dtypes.FLOATS)
@few
@given(data=st.data())
def test_float_to_integer_truncates_and_saturates(source: str, target: str, data: st.DataObject):
    x = data.draw(arrays(source))
    limits = np.iinfo(dtypes.of(target).numpy)

    def saturate(value: float) -> int:
        if value != value:
            return 0
        if math.isinf(value):
            return int(limits.max if value > 0 else limits.min)
        return min(max(math.trunc(value), int(limits.min)), int(limits.max))

    result = apply("cast", x, declared=tensor(x.shape, target))
    assert result.tolist() == [saturate(float(v)) for v in x]


@pytest.mark.parametrize("target", dtypes.INTEGERS)
@pytest.mark.parametrize("source", [*dtypes.INTEGERS, "i1"])
@few
@given(data=st.data())
def test_integer_to_integer_wraps(source: str, target: str, data: st.DataObject):
    x = data.draw(arrays(source))
    result = apply("cast", x, declared=tensor(x.shape, target))
    assert result.tolist() == [wrap(int(v), target) for v in x]


@pytest.mark.parametrize("source", [*dtypes.ORDERED, "f8E4M3FN", "f8E5M2"])
def test_cast_to_mask_is_non_zero(source: str):
    x = of(source, 0, 1)
    mask = tensor(x.shape, "i1")
    assert apply("cast", x, declared=mask).tolist() == [False, True]
    if dtypes.of(source).is_float:
        assert apply("cast", of(source, -0.0, NAN), declared=mask).tolist() == [False, True]


@cache
def finite(dtype: str) -> tuple[list[float], list[int]]:
    """The finite elements of a 16 or 8 bit float type, ascending, and their bits."""
    entry = dtypes.of(dtype)
    bits = np.arange(2**entry.bits, dtype=f"u{entry.itemsize}")
    with np.errstate(all="ignore"):
        values = bits.view(entry.numpy).astype(np.float64)
    order = [i for i in np.argsort(values, kind="stable") if math.isfinite(values[i])]
    return values[order].tolist(), bits[order].tolist()


def nearest_even(value: Fraction, dtype: str) -> float:
    """The element of a 16 or 8 bit float type nearest to `value`, ties to the even bits."""
    values, bits = finite(dtype)
    middle = bisect(values, value)
    near = range(max(middle - 3, 0), min(middle + 3, len(values)))
    return values[min(near, key=lambda i: (abs(Fraction(values[i]) - value), bits[i] & 1))]


@pytest.mark.parametrize("target", ["bf16", "f16", "f8E4M3FN", "f8E5M2"])
@given(mantissa=st.integers(-(2**53), 2**53), shift=st.sampled_from([0, 30, 47, 52, 53]))
def test_f64_rounds_once(target: str, mantissa: int, shift: int):
    value = mantissa / 2**shift
    if abs(value) > 400:
        return
    result = apply("cast", of("f64", value), declared=tensor((1,), target))
    assert float(result[0]) == nearest_even(Fraction(value), target)


@pytest.mark.parametrize("source", ["i64", "i32", "ui32"])
@given(data=st.data())
def test_integer_to_bf16_rounds_once(source: str, data: st.DataObject):
    x = data.draw(arrays(source, (3,)))
    result = apply("cast", x, declared=tensor(x.shape, "bf16"))
    assert [float(v) for v in result] == [nearest_even(Fraction(int(v)), "bf16") for v in x]


@given(st.lists(st.integers(-65504, 65504), min_size=1, max_size=20))
def test_integer_to_f16_rounds_once(values: list[int]):
    for source in ("i64", "i32"):
        result = apply("cast", of(source, *values), declared=tensor((len(values),), "f16"))
        assert [float(v) for v in result] == [nearest_even(Fraction(v), "f16") for v in values]


def test_rounding_that_a_detour_over_f32_gets_wrong():
    tie_and_a_bit = of("f64", 1 + 2**-8 + 2**-40, -(1 + 2**-8 + 2**-40))
    bf16 = apply("cast", tie_and_a_bit, declared=tensor((2,), "bf16"))
    assert [float(v) for v in bf16] == [1 + 2**-7, -(1 + 2**-7)]
    for target, bits in (("f8E4M3FN", 3), ("f8E5M2", 2), ("f16", 10)):
        tie = of("f64", 1 + 2.0 ** -(bits + 1) + 2**-40)
        assert float(apply("cast", tie, declared=tensor((1,), target))[0]) == 1 + 2.0**-bits
    large = np.array([2**62 + 2**54 + 1, -(2**62 + 2**54 + 1)])
    bf16 = apply("cast", large, declared=tensor((2,), "bf16"))
    assert [float(v) for v in bf16] == [2.0**62 + 2.0**55, -(2.0**62 + 2.0**55)]


@pytest.mark.parametrize("target", [d.name for d in dtypes.TABLE if d.numpy_name is not None])
@pytest.mark.parametrize("source", [d.name for d in dtypes.TABLE if d.numpy_name is not None])
def test_every_cast_is_defined_and_exact_where_it_can_be(source: str, target: str):
    x = of(source, 1, 2) if source != "i1" else np.array([True, True])
    result = apply("cast", x, declared=tensor((2,), target))
    expected = [1.0, 1.0] if "i1" in (source, target) else [1.0, 2.0]
    assert [float(v) for v in result] == expected
