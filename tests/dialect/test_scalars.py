# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scalars that meet integer tensors are integers: built, written, read, folded and computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f64, i64

import fuel_dialect as fuel
from fuel_dialect import dtypes
from fuel_dialect.context import parse_module
from fuel_dialect.errors import DTypeError, ProgramError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import ConstOp
from ops_on_arrays import apply

N = 2**53 + 1
every_integer = pytest.mark.parametrize("dtype", dtypes.INTEGERS)


def wrapped(number: int, dtype: dtypes.DType) -> int:
    """A number of any size, modulo 2^bits, in the range of a dtype."""
    low, _ = dtype.limits
    return (number - low) % 2**dtype.bits + low


@every_integer
@given(data=st.data())
def test_scalar_arithmetic_is_that_of_integers(dtype: str, data: st.DataObject):
    kind = dtypes.BY_NAME[dtype]
    low, high = kind.limits
    near = [n + d for n in (low, 0, 2**24, 2**53, -(2**53), high) for d in (-1, 0, 1)]
    numbers = st.sampled_from([n for n in near if low <= n <= high]) | st.integers(low, high)
    x, a, b = (data.draw(numbers) for _ in range(3))
    array = np.array([x], kind.numpy)
    assert apply("add_scalar", array, scalar=a).tolist() == [wrapped(x + a, kind)]
    assert apply("mul_scalar", array, scalar=a).tolist() == [wrapped(x * a, kind)]
    low, high = sorted((a, b))
    assert apply("clamp", array, min=low, max=high).tolist() == [min(max(x, low), high)]


def built(call: object, *values: int) -> list[int]:
    """Returns what a function of an i64 tensor gives on values."""
    g = fuel.Graph()
    x = g.input((len(values),), "i64", name="x")
    (result,) = evaluate(g.build(call(x)), np.array(values, np.int64))  # pyright: ignore[reportCallIssue]
    return result.tolist()


def test_builders_keep_every_bit():
    values = (2**60, -(2**60), N, -N, 0)
    assert built(lambda x: x.clamp(-N, N), *values) == [N, -N, N, -N, 0]
    assert built(lambda x: x.clip(-N, N), *values) == [N, -N, N, -N, 0]
    assert built(lambda x: x.clip(max=N), 2**60, 3) == [N, 3]
    assert built(lambda x: x + N, 0, 1) == [N, N + 1]
    assert built(lambda x: x - N, 0, 1) == [-N, 1 - N]
    assert built(lambda x: x * N, 1, -1, 3) == [N, -N, 3 * N]
    assert built(lambda x: N - x, 0) == [N]
    assert built(lambda x: x.masked_fill(x.equal(0), N), 0, 1) == [N, 1]
    assert built(lambda x: fuel.maximum(x, N), 0) == [N]


def text_of(op: str, scalar: str, dtype: str) -> str:
    bounds = f"min = {scalar}, max = {scalar}" if op == "clamp" else f"scalar = {scalar}"
    return (
        f"func.func @main(%x: tensor<2x{dtype}>) -> tensor<2x{dtype}> {{\n"
        f"%y = fuel.{op} %x {{{bounds}}} : tensor<2x{dtype}>\n"
        f"func.return %y : tensor<2x{dtype}>\n}}"
    )


OPS = pytest.mark.parametrize("op", ["add_scalar", "mul_scalar", "clamp"])


@OPS
@every_integer
def test_text_round_trips(op: str, dtype: str):
    for number in {*dtypes.BY_NAME[dtype].limits, 7, *([N, -N] if dtype == "i64" else [])}:
        module = parse_module(text_of(op, f"{number} : i64", dtype))
        (made,) = (o for o in module.walk() if o.name == f"fuel.{op}")
        held = [p for p in made.properties.values() if isinstance(p, IntegerAttr)]
        assert {p.value.data for p in held} == {number}
        assert str(parse_module(str(module))) == str(module)


@OPS
def test_floats_that_are_integers_are_read_as_such(op: str):
    for text, number in (("2.0", 2), ("9.0e18", 9 * 10**18), ("-0.0", 0), ("7 : i32", 7)):
        module = parse_module(text_of(op, text, "i64"))
        (made,) = (o for o in module.walk() if o.name == f"fuel.{op}")
        assert set(made.properties.values()) == {IntegerAttr(number, i64)}


@OPS
@pytest.mark.parametrize(
    ("scalar", "dtype", "message"),
    [
        ("2.5", "i32", "2.5 is no i32"),
        ("1.0e30", "i64", "is no i64"),
        ("9223372036854775808.0", "i64", "is no i64"),
        ("0x7FF0000000000000 : f64", "i64", "inf is no i64"),
        ("0x7FF8000000000000 : f64", "i64", "nan is no i64"),
        ("128 : i64", "i8", "128 is no i8, which holds the integers -128 to 127"),
        ("-1 : i64", "ui8", "-1 is no ui8"),
        ("4294967296 : i64", "ui32", "4294967296 is no ui32"),
        ("2 : i64", "f32", "must be a float, as the tensor is f32"),
    ],
)
def test_what_the_dtype_does_not_hold_is_refused(op: str, scalar: str, dtype: str, message: str):
    with pytest.raises(ProgramError, match=message):
        parse_module(text_of(op, scalar, dtype))


@pytest.mark.parametrize("number", [2.5, 2**63, -(2**63) - 1, float("inf"), float("nan"), "2"])
def test_builders_refuse_what_the_dtype_does_not_hold(number: float):
    g = fuel.Graph()
    x = g.input((2,), "i64")
    for call in (x.add_scalar, x.mul_scalar, lambda n: x.clamp(n, n)):
        with pytest.raises(DTypeError):
            call(number)
    with pytest.raises(DTypeError):
        x.powi(2**63)
    assert g.op_count == 0


def test_folding_keeps_every_bit():
    x = ConstOp.from_numpy(np.array([2**60, -(2**60), 1]))
    for mnemonic, properties, expected in (
        ("clamp", {"min": -N, "max": N}, [N, -N, 1]),
        ("add_scalar", {"scalar": N}, [2**60 + N, N - 2**60, N + 1]),
        ("mul_scalar", {"scalar": N}, [2**60, -(2**60), N]),
    ):
        (op,) = (o for o in fuel_ops() if o.mnemonic() == mnemonic)
        given = {name: IntegerAttr(n, i64) for name, n in properties.items()}
        folded = op.make(x.result, declared=(), **given).fold()
        assert folded is not None
        made = ConstOp.make(declared=[x.type], value=folded[0])  # pyright: ignore[reportArgumentType]
        assert made.to_numpy().tolist() == expected


def fuel_ops():
    from fuel_dialect.ops import elementwise

    return (elementwise.ClampOp, elementwise.AddScalarOp, elementwise.MulScalarOp)


def test_scalars_of_floats_stay_f64():
    g = fuel.Graph()
    x = g.input((2,), "f32")
    op = x.add_scalar(1).value.owner
    assert set(op.properties.values()) == {FloatAttr(1.0, f64)}  # pyright: ignore[reportAttributeAccessIssue]
