# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prices: total over the dialect, and what they add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp

from agreement import main
from fuel_dialect.context import make_context
from fuel_dialect.dialect import OPS
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets import own_names
from fuel_dialect.targets.description import DtypeRates, TargetDescription
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_dialect.targets.registry import description_of
from fuel_dialect.tensors import tensor
from fuel_dialect.traits import DecomposableOp
from fuel_passes.forking.fork_variants import alternative_of
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.prices import kernel_ns, op_ns, ops_ns, price_of, size_of
from programs import Program, programs

CONTEXT = make_context()
SIMPLE = TargetDescription(
    name="simple",
    runs_on=("cpu",),
    dtypes=DESCRIPTION.dtypes,
    sources=DESCRIPTION.sources,
    bytes_per_ns=4.0,
    operations_per_ns=2.0,
    flops_per_ns=10.0,
    launch_ns=100,
    tile=1_000,
    threads=4,
)
T = "tensor<2x100xf32>"


def body(module: ModuleOp) -> list[FuelOp]:
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return [op for op in function.body.block.ops if isinstance(op, FuelOp)]


def price(line: str, arguments: str = f"%x: {T}, %y: {T}") -> int:
    """The price of the last op of some lines."""
    module = main(arguments, "()", f"{line}\nfunc.return")
    return op_ns(body(module)[-1], SIMPLE)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op_has_a_price(op: type[FuelOp]):
    assert price_of(op) is not None


def test_an_op_of_another_dialect_has_none():
    assert price_of(test.TestOp) is None
    with pytest.raises(FuelPassError, match=r"test\.op has no price"):
        op_ns(test.TestOp.create(), SIMPLE)
    assert price_of(ReturnOp) is not None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # 3 tensors of 800 bytes at 4 bytes/ns, against 200 operations at 2/ns.
        (f"%0 = fuel.add %x, %y : {T}", 100 + 600),
        # 24 operations per element outweigh the bytes.
        (f"%0 = fuel.pow %x, %y : {T}", 100 + 2_400),
        (f"%0 = fuel.sum_dim %x {{dim = 1 : i64}} : {T} -> tensor<2xf32>", 100 + 202),
        (f"%0 = fuel.transpose %x : {T} -> tensor<100x2xf32>", 0),
        (f"%0 = fuel.reshape %x : {T} -> tensor<200xf32>", 0),
        (f"%0 = fuel.const 1.0 : f32 -> {T}", 0),
        (f"%0 = fuel.concat %x, %y {{dim = 0 : i64}} : {T}, {T} -> tensor<4x100xf32>", 100 + 800),
        (f"%0 = fuel.copy %x to #fuel.device<cuda:0> : {T}", 100 + 400),
    ],
)
def test_single_ops(line: str, expected: int):
    assert price(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Half the bandwidth: 2 tensors of 1,600 bytes at 2 bytes/ns, against 200 at 1/8 a ns.
        ("%0 = fuel.neg %d : tensor<200xf64>", 1_600),
        ("%0 = fuel.pow %d, %d : tensor<200xf64>", 24 * 200 * 8),
        # An op on two element types takes as long as the slower of them.
        ("%0 = fuel.cast %x : tensor<200xf32> -> tensor<200xf64>", 1_600),
        ("%0 = fuel.neg %x : tensor<200xf32>", 400),
        ("%0 = fuel.matmul %m, %m : tensor<9x9xf64>, tensor<9x9xf64> -> tensor<9x9xf64>", 2_916),
        (
            "%0 = fuel.concat %d, %d {dim = 0 : i64}"
            " : tensor<200xf64>, tensor<200xf64> -> tensor<400xf64>",
            3_200,
        ),
        # Rows of f16 are widened once, and computed in f32.
        ("%0 = fuel.softmax_last_dim %h : tensor<200xf16>", 200 * 13 // 2 + 200 * 40 // 2),
        ("%0 = fuel.exp %h : tensor<200xf16>", 200 * 8 * 40 // 2),
    ],
)
def test_element_types_have_rates_of_their_own(line: str, expected: int):
    rates = (
        ("f64", DtypeRates(2.0, 0.125, 0.5)),
        ("f16", DtypeRates(operations_per_ns=0.05)),
    )
    arguments = "%d: tensor<200xf64>, %m: tensor<9x9xf64>, %x: tensor<200xf32>, %h: tensor<200xf16>"
    slower = replace(SIMPLE, by_dtype=rates)
    type = line.replace("->", ":").rpartition(": ")[2]
    module = main(arguments, type, f"{line}\nfunc.return %0 : {type}")
    assert ops_ns(body(module), slower) == 100 + expected
    FormKernelsPass().apply(CONTEXT, module)
    assert ops_ns(body(module), slower) == 100 + expected


def test_a_product_is_priced_by_its_flops():
    matrix = "tensor<100x100xf32>"
    line = f"%0 = fuel.matmul %a, %a : {matrix}, {matrix} -> {matrix}"
    assert price(line, f"%a: {matrix}") == 100 + 2 * 100**3 // 10


def test_a_pointwise_kernel_moves_each_byte_once_and_launches_once():
    module = main(
        f"%x: {T}, %g: tensor<100xf32>, %big: tensor<9x2x100xf32>",
        T,
        f"""
        %b = fuel.broadcast_to %g : tensor<100xf32> -> {T}
        %s = fuel.slice %big {{dim = 0 : i64, start = 0 : i64, length = 1 : i64}}
          : tensor<9x2x100xf32> -> tensor<1x2x100xf32>
        %r = fuel.squeeze %s {{dim = 0 : i64}} : tensor<1x2x100xf32> -> {T}
        %0 = fuel.add %x, %b : {T}
        %1 = fuel.mul %0, %r : {T}
        func.return %1 : {T}""",
    )
    FormKernelsPass().apply(CONTEXT, module)
    # x and the result 800 bytes each, g 400, one of nine slices 800.
    assert ops_ns(body(module), SIMPLE) == 100 + 700


def test_many_elements_are_shared_out_over_threads():
    small, large = "tensor<1000xf64>", "tensor<1001xf64>"
    line = "%0 = fuel.softmax_last_dim %a : "
    assert price(line + small, f"%a: {small}") == 100 + 13 * 1_000 // 2
    assert price(line + large, f"%a: {large}") == 100 + 4_004


def test_a_scan_is_length_times_body_and_a_branch_its_cheapest_arm():
    step = f"%0 = fuel.add %s, %k : {T}"
    scan = f"""
        %z = fuel.scan init(%s = %x : {T}) consts(%k = %y : {T}) length 5 -> {T} {{
          {step}
          fuel.scan_yield carry(%0 : {T})
        }}"""
    assert price(scan) == 5 * 700
    arm = 'arm on #fuel.target<cpu, "numpy">'
    branch = f"""
        %z = fuel.branch "b"(%s = %x : {T}, %k = %y : {T}) -> {T}
        {arm} {{
          {step}
          %1 = fuel.neg %0 : {T}
          fuel.yield %1 : {T}
        }}
        {arm} {{
          {step}
          fuel.yield %0 : {T}
        }}"""
    assert price(branch) == 700


@pytest.mark.parametrize(
    ("type", "size"),
    [
        (tensor((3, 4), "f32"), 48),
        (tensor((), "bf16"), 2),
        (tensor((0, 4), "i64"), 0),
        (tensor((5,), "i1"), 5),
        (tensor((3,), "f4E2M1FN"), 2),
    ],
)
def test_sizes_in_bytes(type: object, size: int):
    assert size_of(type) == size  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("op", [op for op in OPS if issubclass(op, DecomposableOp)])
@pytest.mark.parametrize("shape", ["1x3", "64x256", "512x512", "4096x1024"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_no_op_is_dearer_than_its_other_form(op: type[FuelOp], shape: str, dtype: str):
    """So that baking by static prices never replaces what a person wrote."""
    name, type = op.mnemonic(), f"tensor<{shape}x{dtype}>"
    eps = " {eps = 1.0e-5 : f64}" if "norm" in name else ""
    text = f"%0 = fuel.{name} %x{eps} : {type}\nfunc.return %0 : {type}"
    module = main(f"%x: {type}", type, text)
    FormKernelsPass().apply(CONTEXT, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    other = alternative_of(kernel)
    assert other is not None
    for backend in own_names():
        description = description_of(backend)
        assert description is not None
        assert kernel_ns(kernel, description) <= other.price(kernel, description)


def test_a_row_kernel_moves_each_byte_once():
    module = main(
        f"%x: {T}, %g: tensor<100xf32>",
        f"({T}, tensor<2xf32>)",
        f"""
        %b = fuel.broadcast_to %g : tensor<100xf32> -> {T}
        %0 = fuel.neg %x : {T}
        %m = fuel.max_dim %0 {{dim = 1 : i64}} : {T} -> tensor<2xf32>
        %u = fuel.unsqueeze %m {{dim = 1 : i64}} : tensor<2xf32> -> tensor<2x1xf32>
        %s = fuel.broadcast_to %u : tensor<2x1xf32> -> {T}
        %1 = fuel.sub %0, %s : {T}
        %2 = fuel.mul %1, %b : {T}
        func.return %2, %m : {T}, tensor<2xf32>""",
    )
    FormKernelsPass().apply(CONTEXT, module)
    # x and the result 800 bytes each, g 400, the maxima 8.
    assert ops_ns(body(module), SIMPLE) == 100 + 502


def test_a_product_is_priced_with_what_follows_it():
    matrix = "tensor<100x100xf32>"
    module = main(
        f"%a: {matrix}, %b: tensor<100xf32>",
        matrix,
        f"""
        %0 = fuel.matmul %a, %a : {matrix}, {matrix} -> {matrix}
        %1 = fuel.broadcast_to %b : tensor<100xf32> -> {matrix}
        %2 = fuel.add %0, %1 : {matrix}
        func.return %2 : {matrix}""",
    )
    FormKernelsPass().apply(CONTEXT, module)
    assert ops_ns(body(module), SIMPLE) == 100 + 2 * 100**3 // 10


@given(programs())
def test_every_random_program_can_be_priced(program: Program):
    assert ops_ns(body(program.module), DESCRIPTION) >= 0
    OptimizePass(variants="keep").apply(CONTEXT, program.module)
    assert ops_ns(body(program.module), DESCRIPTION) >= 0
