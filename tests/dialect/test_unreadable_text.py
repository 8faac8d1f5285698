# SPDX-License-Identifier: MIT OR Apache-2.0
"""Text that no program is: values read outside their region, numbers too long, splats too large."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuel_dialect as fuel
from fuel_dialect import knobs
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.context import load_program, parse_module
from fuel_dialect.errors import (
    DTypeError,
    FuelError,
    ProgramError,
    SettingError,
    UnknownDevice,
)

T = "tensor<4xf32>"
CPU = '#fuel.target<cpu, "numpy">'
REGIONS = {
    "branch": (
        'fuel.branch "{id}"(%{arg} = %{init} : T) -> T arm on CPU {{ {body} fuel.yield {end} }}'
    ),
    "kernel": 'fuel.kernel pointwise "k"(%{arg} = %{init} : T) -> T {{ {body} fuel.yield {end} }}',
    "run": "fuel.run on CPU (%{arg} = %{init} : T) -> T {{ {body} fuel.yield {end} }}",
    "scan": (
        "fuel.scan init(%{arg} = %{init} : T) length 2 -> T "
        "{{ {body} fuel.scan_yield carry({end}) }}"
    ),
}


def region(kind: str, init: str, body: str = "", arg: str = "a", end: str | None = None) -> str:
    """A region op whose argument stands for `init`."""
    text = REGIONS[kind].format(id=arg, arg=arg, init=init, body=body, end=f"%{end or arg} : T")
    return text.replace("CPU", CPU).replace(" T", f" {T}")


def program(*lines: str, result: str = "y") -> str:
    body = "\n".join(lines)
    return f"func.func @main(%x: {T}) -> {T} {{\n{body}\nfunc.return %{result} : {T}\n}}"


@pytest.mark.parametrize("kind", REGIONS)
def test_an_argument_is_not_read_outside_its_region(kind: str):
    with pytest.raises(ProgramError, match=rf"fuel\.{kind} reads %a \({re.escape(T)}\)"):
        parse_module(program(f"%y = {region(kind, 'a')}"))


@pytest.mark.parametrize("kind", REGIONS)
def test_an_inner_result_is_not_read_outside_its_region(kind: str):
    inner = region("kernel", "a", arg="k") if kind == "run" else f"fuel.neg %a : {T}"
    body = f"%i = {inner}\n"
    with pytest.raises(ProgramError, match=r"fuel\.neg reads %i .* a region of fuel\."):
        parse_module(program(f"%z = fuel.neg %i : {T}", f"%y = {region(kind, 'x', body)}"))
    with pytest.raises(ProgramError, match="%i"):
        parse_module(program(f"%y = {region(kind, 'x', body)}", result="i"))


@pytest.mark.parametrize("kind", REGIONS)
def test_an_op_does_not_read_its_own_result(kind: str):
    with pytest.raises(ProgramError, match="%y"):
        parse_module(program(f"%y = {region(kind, 'y')}"))
    with pytest.raises(ProgramError):
        parse_module(program(f"%y = {region(kind, 'x', f'%i = fuel.neg %y : {T} ')}"))


def test_an_arm_does_not_read_another_arm():
    arms = f"arm on {CPU} {{ fuel.yield %i : {T} }} arm on {CPU} {{ %i = fuel.neg %a : {T}\n"
    text = f'%y = fuel.branch "d"(%a = %x : {T}) -> {T} {arms} fuel.yield %i : {T} }}'
    with pytest.raises(ProgramError, match=r"fuel\.yield reads %i .* a region of fuel\.branch"):
        parse_module(program(text))


@given(
    depth=st.integers(1, 4),
    data=st.data(),
)
def test_nested_regions_read_only_what_is_around_them(depth: int, data: st.DataObject):
    """A chain of nested branches, one of which reads an argument from any level of the chain."""
    reader = data.draw(st.integers(0, depth - 1), "reader")
    read = data.draw(st.integers(0, depth - 1), "read")
    text = ""
    for level in reversed(range(depth)):
        init = f"a{read}" if level == reader else f"a{level - 1}" if level else "x"
        end = f"b{level + 1}" if text else None
        text = f"%b{level} = {region('branch', init, text, f'a{level}', end)}\n"
    if read == reader - 1:
        parse_module(program(text, result="b0"))
        return
    with pytest.raises(ProgramError):
        parse_module(program(text, result="b0"))


def test_a_module_that_is_given_is_checked_too():
    module = parse_module(program(f"%y = {region('branch', 'x')}"))
    (branch,) = (op for op in module.walk() if op.name == "fuel.branch")
    branch.operands[0] = branch.regions[0].block.args[0]
    with pytest.raises(ProgramError, match=r"fuel\.branch reads %a"):
        load_program(module)


LONG = {"decimal": "9" * 5000, "hexadecimal": "0x" + "F" * 5000}
PLACES = {
    "attribute": "%y = fuel.neg %x {{a = {0}}} : T",
    "typed": "%y = fuel.neg %x {{a = [{{b = {0} : i64}}]}} : T",
    "index": "%y = fuel.neg %x {{a = {0} : index}} : T",
    "property": "%y = fuel.slice %x {{dim = {0} : i64, start = 0, length = 4}} : T -> T",
    "extent": "%y = fuel.neg %x : tensor<{0}xf32>",
    "array": "%y = fuel.permute %x {{axes = array<i64: {0}>}} : T -> T",
    "splat": "%y = fuel.const {0} : i64 -> tensor<4xi64>",
    "dense": "%y = fuel.neg %x {{a = dense<{0}> : tensor<2xi64>}} : T",
    "device": "%y = fuel.copy %x to #fuel.device<cuda:{0}> : T",
    "price": '%y = fuel.branch "d"(%a = %x : T) -> T arm on CPU price {0} {{ fuel.yield %a : T }}',
    "length": (
        "%y = fuel.scan init(%a = %x : T) length {0} -> T {{ fuel.scan_yield carry(%a : T) }}"
    ),
    "location": '%y = fuel.neg %x : T loc("a":{0}:1)',
    "affine": "%y = fuel.neg %x {{a = affine_map<(d0) -> (d0 + {0})>}} : T",
}


@pytest.mark.parametrize("number", LONG.values(), ids=LONG)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_an_integer_of_thousands_of_digits_is_refused_in_one_line(place: str, number: str):
    text = place.format(number).replace("CPU", CPU).replace(" T", f" {T}")
    with pytest.raises(ProgramError, match=r"^<text>:2:\d+: ") as caught:
        parse_module(program(text))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("width", [5000])
def test_names_of_types_and_results_with_long_numbers(width: int):
    for text in (
        f"%y = fuel.neg %x {{a = 1 : i{'9' * width}}} : {T}",
        f"%y = fuel.neg %x#{'9' * width} : {T}",
    ):
        with pytest.raises(ProgramError, match="more than 4300 digits"):
            parse_module(program(text))


def test_long_floats_are_numbers():
    parse_module(program(f"%y = fuel.add_scalar %x {{scalar = 0.{'3' * 5000} : f64}} : {T}"))


HUGE = [
    "dense<1.0> : tensor<3000000000xf32>",
    "dense<true> : tensor<3000000000xi1>",
    "dense<1> : vector<3000000000xi8>",
    "dense<1.0> : memref<60000x60000xf64>",
    'dense<"0x00000000"> : tensor<3000000000xf32>',
    "[{b = dense<1.0> : tensor<3000000000xf32>}]",
    "dense<1.0> : !big",
]


@pytest.mark.parametrize("value", HUGE)
def test_a_dense_splat_is_refused_before_it_is_made(value: str):
    alias = "!big = tensor<3000000000xf32>\n"
    before = time.perf_counter()
    for text in (
        alias + program(f"%y = fuel.neg %x {{a = {value}}} : {T}"),
        f"{alias}builtin.module attributes {{a = {value}}} {{}}",
    ):
        with pytest.raises(ProgramError, match="a dense attribute has at most 16777216 elements"):
            parse_module(text)
    assert time.perf_counter() - before < 5


def test_small_dense_attributes_are_read():
    parse_module(program(f"%y = fuel.neg %x {{a = dense<1.0> : tensor<1024xf32>}} : {T}"))


def test_what_xdsl_trips_over_is_a_program_error_with_its_place():
    with pytest.raises(ProgramError, match=r"^<text>:2:\d+: it cannot be read: Invalid Block name"):
        parse_module('"func.func"() ({\n^0(%x: i32): "func.return"() : () -> () }) : () -> ()')


@pytest.mark.parametrize("digits", [41, 5000])
def test_a_switch_with_a_long_number(digits: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(knobs.CACHE_BYTES, "9" * digits)
    with pytest.raises(SettingError, match=knobs.CACHE_BYTES) as caught:
        knobs.cache_bytes()
    assert len(str(caught.value)) < 300


def test_a_device_with_a_long_number():
    with pytest.raises(UnknownDevice, match="does not name a device"):
        DeviceAttr.of("cuda:" + "9" * 5000)


N = 10**5000
CALLS: dict[str, Callable[..., Any]] = {
    "add": lambda g, x, f, m: x + N,
    "add to floats": lambda g, x, f, m: f + N,
    "subtract": lambda g, x, f, m: x - N,
    "clip": lambda g, x, f, m: x.clip(0, N),
    "power": lambda g, x, f, m: x**N,
    "powi": lambda g, x, f, m: f.powi(N),
    "scalar": lambda g, x, f, m: x.mul_scalar(N),
    "clamp": lambda g, x, f, m: x.clamp(-N, N),
    "fill": lambda g, x, f, m: x.masked_fill(m, N),
    "constant": lambda g, x, f, m: g.constant(N, "i64"),
    "constants": lambda g, x, f, m: g.constant([N], "i64"),
    "shape": lambda g, x, f, m: g.input((N,)),
    "reshape": lambda g, x, f, m: f.reshape(N),
    "axis": lambda g, x, f, m: f.sum(N),
    "index": lambda g, x, f, m: f[N],
    "length": lambda g, x, f, m: g.scan(lambda c, _: (c, None), f, length=N),
    "where": lambda g, x, f, m: fuel.where(m, N, f),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_integer_too_long_to_print_in_a_builder(call: Callable[..., Any]):
    g = fuel.Graph()
    x, f, m = g.input((4,), "i64"), g.input((4,), "f32"), g.input((4,), "i1")
    before = g.op_count
    with pytest.raises(DTypeError) as caught:
        call(g, x, f, m)
    assert isinstance(caught.value, FuelError)
    assert len(str(caught.value)) < 300
    assert g.op_count == before
