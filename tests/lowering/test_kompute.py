# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shaders of runs: their text, and what they compute on a Vulkan device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region
from xdsl.utils.test_value import create_ssa_value

import fuel_dialect as fuel
import run_ops
from agreement import main
from effort import SLOW, examples
from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import IndexOutOfRange, LoweringError
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.movement import MovementOp
from fuel_dialect.ops import elementwise, linear_algebra, reduction
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp, RunOp, YieldOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.targets.kompute import DESCRIPTION
from fuel_dialect.targets.machine import Device, Topology, both_ways
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import AlongAxesOp, Elementwise, RowWise
from fuel_lowering.kompute.language import library
from fuel_lowering.kompute.lower import lower_run
from fuel_lowering.kompute.tuning import TUNINGS, DeviceType
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.topology import STAMP, attribute_of
from fuel_passes.walk import functions
from fuel_runtime import Session
from op_modules import around, run_in, tolerance, types_of
from op_samples import CASES, COMPUTING, Sample, ordinary, samples_of, values
from ops_on_arrays import floats
from programs import Program, programs
from run_ops import runs_of
from targets import _dispatch as dispatch
from targets import execute, run_on

SOURCES = sorted((Path(__file__).parent / "runs").glob("*.mlir"))
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))
VULKAN = TargetAttr.of("vulkan:0", "kompute")
MACHINE = Topology(
    "vulkan", (Device("cpu"), Device("vulkan:0")), (VULKAN,), both_ways("cpu", "vulkan:0", 1, 100.0)
)
"""A machine on which nothing but a Vulkan device computes."""

KINDS: tuple[DeviceType, ...] = ("cpu", "gpu")

needs_vulkan = pytest.mark.needs_vulkan


def planned(module: ModuleOp) -> ModuleOp:
    """The module with all its kernels on the Vulkan device, whatever plan it had."""
    copy = module.clone()
    StripPlanPass().apply(make_context(), copy)
    copy.attributes[STAMP] = attribute_of(MACHINE)
    OptimizePass(variants="bake").apply(make_context(), copy)
    return copy


def array(type: Any, seed: int) -> Array:
    """Ordinary numbers; indices are small."""
    name, shape = str(type.element_type), tuple(type.get_shape())
    if name == "ui32":
        return np.random.default_rng(seed).integers(0, 3, shape, np.uint32)
    if name == "i1":
        return np.random.default_rng(seed).random(shape) < 0.5
    return floats(name, shape, seed, 0.25)


def inputs_of(module: ModuleOp) -> tuple[list[Array], dict[str, Array]]:
    """Arrays for `main` and for its weights."""
    function = next(f for f in functions(module) if f.sym_name.data == "main")
    arguments = [array(a.type, seed) for seed, a in enumerate(function.body.block.args)]
    weights = [op for op in module.walk() if op.name == "fuel.weight"]
    named = {w.properties["key"].data: w.results[0].type for w in weights}  # pyright: ignore[reportAttributeAccessIssue]
    return arguments, {key: _weight(key, named[key], 50 + i) for i, key in enumerate(sorted(named))}


def _weight(key: str, type: Any, seed: int) -> Array:
    """A decay is negative, or what decays grows until no digit is right."""
    made = array(type, seed)
    return -np.abs(made) if key.endswith("decay") else made


def check(module: ModuleOp, arguments: Sequence[Array], kind: DeviceType, *allowed: float) -> None:
    """One run on the device, compared with the reference."""
    (run,) = runs_of(module)
    got = execute(lower_run(run, "main", kind), arguments, {}, dispatch)
    with np.errstate(all="ignore"):
        want = evaluate(module, *arguments)
    for g, w in zip(got, want, strict=True):
        run_ops.assert_close(g, w, *(allowed or tolerance(*arguments, w)))


# Text.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_golden_source_of_a_run(path: Path, kind: DeviceType, golden: Any):
    runs = runs_of(planned(parse_module(path.read_text())))
    source = "\n".join(lower_run(run, path.stem, kind).source for run in runs)
    other = "\n".join(lower_run(run, path.stem, "cpu").source for run in runs)
    if kind == "gpu" and source == other:
        return
    golden(Path(__file__).parent / "golden" / f"{path.stem}.{kind}.glsl.txt", source)


def test_types_of_64_bits_are_refused_with_the_reason():
    text = "%y = fuel.neg %x : tensor<4x{0}>\nfunc.return %y : tensor<4x{0}>"
    for name in ("f64", "i64"):
        module = main(f"%x: tensor<4x{name}>", f"tensor<4x{name}>", text.format(name))
        OptimizePass(variants="bake").apply(make_context(), module)
        with pytest.raises(LoweringError, match=rf"neg.*{name} needs 64-bit"):
            lower_run(runs_of(module)[0], "main")


def test_zeros_in_arithmetic_come_from_the_host():
    """A compiler that knows a zero folds x * 0 as if x were never NaN."""
    body = "%y = fuel.mul_scalar %x {scalar = 0.0 : f64} : tensor<4xf32>"
    module = planned(
        main("%x: tensor<4xf32>", "tensor<4xf32>", f"{body}\nfunc.return %y : tensor<4xf32>")
    )
    lowered = lower_run(runs_of(module)[0], "main")
    assert lowered.kernels[0].scalars == ("zero_bits",)
    assert lowered.launches[0].scalars == (0,)
    assert "* zero;" in lowered.source


# Values.


@needs_vulkan
@pytest.mark.parametrize("path", [*SOURCES, *EXAMPLES], ids=lambda p: p.stem)
def test_programs_wholly_on_kompute_equal_the_reference(path: Path):
    module = parse_module(path.read_text())
    arguments, weights = inputs_of(module)
    got = run_on("kompute", planned(module), arguments, weights)
    with np.errstate(all="ignore"):
        want = evaluate(module, *arguments, weights=weights)
    allowed = max((5e-5, 2e-5), tolerance(*arguments))
    for g, w in zip(got, want, strict=True):
        run_ops.assert_close(g, w, *allowed)


def kernel_kind(op: FuelOp) -> str:
    if isinstance(op, linear_algebra.MatmulOp):
        return "matmul"
    if isinstance(op, MovementOp):
        return "movement"
    return "reduction" if isinstance(op, AlongAxesOp) or op.has_trait(RowWise) else "pointwise"


def module_of(samples: Sequence[tuple[type[FuelOp], Sample]]) -> ModuleOp:
    """`main` with one run of one kernel: ops on the same operands, as far as each has them."""
    types = types_of(max((sample.arrays for _, sample in samples), key=len))
    inner = Block(arg_types=types)
    made = [
        op.make(*inner.args[: len(s.arrays)], declared=s.declared, **s.properties)
        for op, s in samples
    ]
    inner.add_ops([*made, YieldOp(*(op.results[0] for op in made))])
    name = {"kind": StringAttr(kernel_kind(made[0])), "label": StringAttr(made[0].mnemonic())}
    kernel = around(KernelOp, inner, name)
    run = around(RunOp, kernel, {"target": VULKAN})
    results = run_in(run).results
    run.add_op(ReturnOp(*results))
    function = FuncOp("main", (list(types), [r.type for r in results]), Region(run))
    module = ModuleOp([function])
    module.verify()
    return module


def is_declared(op: type[FuelOp], sample: Sample) -> bool:
    """Returns True if the target declares the element types of an op's operands and results."""
    operands = [create_ssa_value(t) for t in types_of(sample.arrays)]
    results = op.make(*operands, declared=sample.declared, **sample.properties).results
    names = {dtypes.of_type(tensor_type(v)).name for v in (*operands, *results)}
    return names <= set(DESCRIPTION.dtypes)


ELEMENTWISE = [op for op in COMPUTING if op.has_trait(Elementwise)]
SHAPES = ((), (5,), (2, 3, 7), (3, 150, 301))


def pointwise_samples(dtype: str, shape: tuple[int, ...]) -> Iterator[tuple[type[FuelOp], Sample]]:
    """Every elementwise op that takes two operands of a type, or the first of them."""
    arrays = [values(dtype, shape, seed) for seed in range(2)]
    for op in ELEMENTWISE:
        sampled, names = samples_of(op)
        if dtype not in names or op is elementwise.WhereOp or op is elementwise.MaskedFillOp:
            continue
        seen: list[tuple[Any, Any]] = []
        for sample in sampled(op, dtype):
            key = (sample.properties, [str(t.get_element_type()) for t in sample.declared])
            if key in seen:
                continue
            seen.append(key)
            declared = [type(t)(t.get_element_type(), shape) for t in sample.declared]
            own = Sample(arrays[: len(sample.arrays)], sample.properties, declared)
            if is_declared(op, own):
                yield op, own


CHUNK = 20
"""Ops of one kernel, each with a result of its own."""

QUICK = {("f32", SHAPES[2]), ("bf16", SHAPES[2]), ("i8", SHAPES[2]), ("i1", SHAPES[2])}
"""One of each way to compute; test_targets.py has each op in one element type."""


@needs_vulkan
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        pytest.param(dtype, shape, marks=() if (dtype, shape) in QUICK else SLOW)
        for dtype in DESCRIPTION.dtypes
        for shape in (SHAPES if dtype in ("f32", "i8") else SHAPES[2:3])
    ],
    ids=str,
)
def test_every_elementwise_op(dtype: str, shape: tuple[int, ...]):
    samples = list(pointwise_samples(dtype, shape))
    assert samples
    for start in range(0, len(samples), CHUNK):
        chunk = samples[start : start + CHUNK]
        arrays = max((sample.arrays for _, sample in chunk), key=len)
        if dtype == "f32":
            check(module_of(chunk), arrays, "cpu", 1e-5, 1e-6)
        else:
            check(module_of(chunk), arrays, "cpu")


@needs_vulkan
@pytest.mark.parametrize("op", [elementwise.WhereOp, elementwise.MaskedFillOp])
@pytest.mark.parametrize("dtype", DESCRIPTION.dtypes)
def test_selections(op: type[FuelOp], dtype: str):
    sampled, _ = samples_of(op)
    sample = next(s for s in sampled(op, dtype) if s.arrays[0].shape == (2, 1, 5))
    check(module_of([(op, sample)]), sample.arrays, "cpu")


REDUCTIONS = [op for op in COMPUTING if issubclass(op, reduction.DimReductionOp)]


@needs_vulkan
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((5,), 0), ((3, 4), 1), ((6, 5), 0), ((2, 3, 4), 1), ((7, 300), 1), ((3, 0), 1)],
    ids=str,
)
@pytest.mark.parametrize("dtype", DESCRIPTION.dtypes)
def test_every_reduction(dtype: str, shape: tuple[int, ...], dim: int, kind: DeviceType):
    if dtype not in ("f32", "i8", "bf16") and shape != (2, 3, 4):
        return
    x = ordinary(dtype, shape)
    samples = [
        (op, Sample([x], {"dim": run_ops_integer(dim)}))
        for op in REDUCTIONS
        if dtype in samples_of(op)[1] and (x.size or not getattr(op, "NEEDS_ELEMENTS", False))
    ]
    if samples:
        check(module_of(samples), [x], kind)


def run_ops_integer(value: int) -> Any:
    from fuel_dialect.numbers import integer

    return integer(value)


@needs_vulkan
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_of_nan_and_infinity(dtype: str, dim: int, kind: DeviceType):
    x = values(dtype, (40, 36))
    x[3], x[:, 5] = -np.inf, np.inf
    samples = [
        (op, Sample([x], {"dim": run_ops_integer(dim)}))
        for op in REDUCTIONS
        if not op.mnemonic().startswith(("sum", "mean"))
    ]
    check(module_of(samples), [x], kind)


OTHERS = [
    (op, dtype)
    for op, dtype in CASES
    if dtype in DESCRIPTION.dtypes and op not in ELEMENTWISE and op not in REDUCTIONS
]


@needs_vulkan
@pytest.mark.parametrize(("op", "dtype"), OTHERS, ids=[f"{o.mnemonic()}-{d}" for o, d in OTHERS])
def test_every_other_op(op: type[FuelOp], dtype: str):
    sampled, _ = samples_of(op)
    samples = [s for s in sampled(op, dtype) if is_declared(op, s)]
    step = max(len(samples) // 3, 1)
    for sample in samples[::step][:4]:
        check(module_of([(op, sample)]), sample.arrays, "cpu")


@needs_vulkan
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i8", "i32", "ui32"])
@pytest.mark.parametrize("sizes", [(1, 8, 24), (9, 7, 5), (70, 33, 66), (20, 64, 20)], ids=str)
def test_products(sizes: tuple[int, int, int], dtype: str, kind: DeviceType):
    m, k, n = sizes
    sample = Sample([ordinary(dtype, (3, m, k)), ordinary(dtype, (3, k, n), 1)])
    allowed = (1e-4, 1e-4) if dtype == "f32" else ()
    check(module_of([(linear_algebra.MatmulOp, sample)]), sample.arrays, kind, *allowed)


# Sizes at which a kernel has to be cut.


@SLOW
@needs_vulkan
def test_twenty_million_elements():
    body = (
        "%d = fuel.mul_scalar %x {scalar = 2.0 : f64} : tensor<20000000xf32>\n"
        "%y = fuel.add_scalar %d {scalar = 1.0 : f64} : tensor<20000000xf32>\n"
        "func.return %y : tensor<20000000xf32>"
    )
    module = planned(main("%x: tensor<20000000xf32>", "tensor<20000000xf32>", body))
    x = np.arange(20_000_000, dtype=np.float32)
    (y,) = run_on("kompute", module, [x])
    np.testing.assert_array_equal(y, x * np.float32(2) + np.float32(1))


@needs_vulkan
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [0, 1])
def test_a_reduction_of_200_000_elements(dim: int, kind: DeviceType):
    shape = (200_000, 3) if dim == 0 else (3, 200_000)
    x = np.abs(floats("f32", shape))
    samples = [(op, Sample([x], {"dim": run_ops_integer(dim)})) for op in REDUCTIONS]
    check(module_of(samples), [x], kind, 1e-5, 0)


SCAN = """
%r, %ys = fuel.scan init(%h = %c : tensor<5x{0}>) xs(%t = %x : tensor<100000x5x{0}>) length 100000
    {1} -> (tensor<5x{0}>, tensor<100000x5x{0}>) {{
  %m = fuel.maximum %t, %h : tensor<5x{0}>
  %d = fuel.mul_scalar %m {{scalar = 0.5 : f64}} : tensor<5x{0}>
  %n = fuel.add %d, %t : tensor<5x{0}>
  fuel.scan_yield carry(%n : tensor<5x{0}>) ys(%d : tensor<5x{0}>)
}}
func.return %r, %ys : tensor<5x{0}>, tensor<100000x5x{0}>
"""


@needs_vulkan
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_scan_of_100_000_steps(dtype: str, reverse: bool):
    arguments = f"%c: tensor<5x{dtype}>, %x: tensor<100000x5x{dtype}>"
    results = f"(tensor<5x{dtype}>, tensor<100000x5x{dtype}>)"
    text = SCAN.format(dtype, "reverse" if reverse else "")
    module = planned(main(arguments, results, text))
    c, x = floats(dtype, (5,)), floats(dtype, (100_000, 5), 1)
    got = run_on("kompute", module, [c, x])
    numpy = x.dtype
    carry, ys = c, np.empty_like(x)
    half = numpy.type(0.5)
    for step in range(len(x) - 1, -1, -1) if reverse else range(len(x)):
        d = (np.maximum(x[step], carry) * half).astype(numpy)
        carry = (d + x[step]).astype(numpy)
        ys[step] = d
    np.testing.assert_array_equal(got[0].astype(np.float32), carry.astype(np.float32))
    np.testing.assert_array_equal(got[1].astype(np.float32), ys.astype(np.float32))


def test_no_function_of_the_library_has_a_loop():
    """Lavapipe stops after 65,535 turns of all loops of an invocation; scans and rows have them."""
    loops = re.compile(r"^[^/\n]*\b(for|while|do)\b", re.MULTILINE)
    assert [name for name, text in library().items() if loops.search(text)] == []


@needs_vulkan
@pytest.mark.parametrize("op", ["rem", "sin"])
def test_a_scan_of_functions_of_large_numbers(op: str):
    steps = 16_000
    numbers = np.random.default_rng(0)
    start = numbers.normal(size=4).astype(np.float32)
    xs = (numbers.normal(size=(steps, 4)) * 1e6).astype(np.float32)

    def rem(carry: fuel.Tensor, x: fuel.Tensor) -> tuple[fuel.Tensor, fuel.Tensor]:
        return (carry * 0.5 + x) % 1e-3, carry

    def sin(carry: fuel.Tensor, x: fuel.Tensor) -> tuple[fuel.Tensor, fuel.Tensor]:
        waves = x.cos() + (x + 1.0).cos() + (x + 2.0).cos() + (x + 3.0).cos()
        return (carry + x).sin() + waves, carry

    def ran_on(device: str) -> Array:
        graph = fuel.Graph()
        inputs = graph.input((4,), "f32"), graph.input(xs.shape, "f32")
        with fuel.device(device):
            _, ys = graph.scan({"rem": rem, "sin": sin}[op], *inputs)
            module = graph.build(ys)
        (result,) = Session(devices=device).compile(module)(start, xs)
        return np.asarray(result)

    np.testing.assert_allclose(ran_on("vulkan:0"), ran_on("cpu"), rtol=1e-4, atol=1e-5)


@needs_vulkan
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_over_a_long_axis(kind: DeviceType):
    """Longer than one launch may loop, with k no multiple of four."""
    a, b = floats("f32", (17, 70_001)), floats("f32", (70_001, 18), 1)
    sample = Sample([a, b])
    check(module_of([(linear_algebra.MatmulOp, sample)]), [a, b], kind, 1e-3, 1e-2)


# Errors.


@needs_vulkan
def test_an_index_out_of_range_names_the_op():
    body = (
        "%g = fuel.index_select %x, %i {dim = 0 : i64} : tensor<4x3xf32>, tensor<2xui32>"
        " -> tensor<2x3xf32>\nfunc.return %g : tensor<2x3xf32>"
    )
    module = planned(main("%x: tensor<4x3xf32>, %i: tensor<2xui32>", "tensor<2x3xf32>", body))
    x, fine = np.ones((4, 3), np.float32), np.array([0, 3], np.uint32)
    (got,) = run_on("kompute", module, [x, fine])
    np.testing.assert_array_equal(got, x[fine])
    for wrong in (4, 2**31, 2**32 - 1):
        with pytest.raises(IndexOutOfRange, match="index_select"):
            run_on("kompute", module, [x, np.array([0, wrong], np.uint32)])


@needs_vulkan
@examples(8)
@given(programs())
def test_random_programs_equal_the_reference(program: Program):
    """All runs that hold only what the target declares."""
    module = program.module.clone()
    StripPlanPass().apply(make_context(), module)
    if not all(_is_served(op) for op in module.walk()):
        return
    got = run_on("kompute", planned(module), program.arguments, program.weights)
    with np.errstate(all="ignore"):
        want = evaluate(module, *program.arguments, weights=program.weights)
    for g, w in zip(got, want, strict=True):
        run_ops.assert_close(g, w, *max((1e-4, 1e-4), tolerance(*program.arguments, w)))


def _is_served(op: Operation) -> bool:
    if isinstance(op, ScanOp) and op.end.until is not None:
        return False
    types = [tensor_type(v) for v in (*op.operands, *op.results)] if op.results else []
    return all(dtypes.of_type(t).name in DESCRIPTION.dtypes for t in types)


STEPPED = """
%r, %ys = fuel.scan init(%h = %c : tensor<1x3x{0}>) xs(%t = %x : tensor<7x1x3x{0}>) length 7
    -> (tensor<1x3x{0}>, tensor<7x1x3x{0}>) {{
  %p = fuel.matmul %h, %m : tensor<1x3x{0}>, tensor<3x3x{0}> -> tensor<1x3x{0}>
  %n = fuel.add %p, %t : tensor<1x3x{0}>
  fuel.scan_yield carry(%n : tensor<1x3x{0}>) ys(%n : tensor<1x3x{0}>)
}}
func.return %r, %ys : tensor<1x3x{0}>, tensor<7x1x3x{0}>
"""


@needs_vulkan
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_steps_that_begin_inside_a_word(dtype: str):
    """A scan that is launched step by step, on three elements a step."""
    names = {"c": (1, 3), "x": (7, 1, 3), "k": (3, 3)}
    types = [f"%{n}: tensor<{'x'.join(map(str, s))}x{dtype}>" for n, s in names.items()]
    text = STEPPED.format(dtype).replace(
        "length 7", f"consts(%m = %k : tensor<3x3x{dtype}>) length 7"
    )
    results = f"(tensor<1x3x{dtype}>, tensor<7x1x3x{dtype}>)"
    module = main(", ".join(types), results, text)
    arguments = [ordinary(dtype, shape, seed) for seed, shape in enumerate(names.values())]
    got = run_on("kompute", planned(module), arguments)
    want = evaluate(module, *arguments)
    for g, w in zip(got, want, strict=True):
        run_ops.assert_close(g, w, *max((1e-5, 1e-5), tolerance(*arguments)))


# Rows that several workgroups read.


SPLIT = """
%m = fuel.mean_dim %x {{dim = {dim} : i64}} : {type} -> {column}
%p = fuel.max_dim %x {{dim = {dim} : i64}} : {type} -> {column}
%n = fuel.unsqueeze %m {{dim = {dim} : i64}} : {column} -> {kept}
%w = fuel.broadcast_to %n : {kept} -> {type}
%c = fuel.sub %x, %w : {type}
%s = fuel.exp %c : {type}
%t = fuel.sum_dim %s {{dim = {dim} : i64}} : {type} -> {column}
%i = fuel.argmin_dim %c {{dim = {dim} : i64}} : {type} -> {places}
func.return %p, %c, %t, %i : {column}, {type}, {column}, {places}"""


@needs_vulkan
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("shape", "dim"), [((2, 5000), 1), ((1, 4097), 1), ((3001, 3), 0)])
def test_rows_that_workgroups_share(shape: tuple[int, int], dim: int, dtype: str, kind: DeviceType):
    """Two passes, results of rows and of elements after each, and the place of the least."""
    column, kept = str(shape[1 - dim]), [*shape]
    kept[dim] = 1
    spelled = {
        "type": f"tensor<{shape[0]}x{shape[1]}x{dtype}>",
        "column": f"tensor<{column}x{dtype}>",
        "kept": f"tensor<{kept[0]}x{kept[1]}x{dtype}>",
        "places": f"tensor<{column}xui32>",
    }
    results = "({column}, {type}, {column}, {places})".format(**spelled)
    body = SPLIT.format(dim=dim, **spelled)
    module = planned(main(f"%x: {spelled['type']}", results, body))
    x = floats(dtype, shape, 1, 0.5)
    last = (slice(None), -2) if dim else (-2, slice(None))
    x[last] = -9
    few = replace(TUNINGS[kind], share=700, groups=16, row_elements=64)
    with patch.dict(TUNINGS, {kind: few}):
        (run,) = runs_of(module)
        lowered = lower_run(run, "main", kind)
        assert max(launch.grid[0] for launch in lowered.launches) >= 3 * int(column)
        check(module, [x], kind)
        x[:, 0] = np.nan
        check(module, [x], kind)


@needs_vulkan
@pytest.mark.parametrize("kind", KINDS)
def test_one_row_of_masks_and_of_integers_that_workgroups_share(kind: DeviceType):
    module = planned(
        main(
            "%x: tensor<20001xi1>, %y: tensor<20001xi8>",
            "(tensor<i1>, tensor<i8>, tensor<i8>)",
            """
%a = fuel.max_all %x : tensor<20001xi1> -> tensor<i1>
%b = fuel.sum_all %y : tensor<20001xi8> -> tensor<i8>
%c = fuel.min_all %y : tensor<20001xi8> -> tensor<i8>
func.return %a, %b, %c : tensor<i1>, tensor<i8>, tensor<i8>""",
        )
    )
    y = np.random.default_rng(0).integers(-100, 100, 20001).astype(np.int8)
    with patch.dict(TUNINGS, {kind: replace(TUNINGS[kind], share=700, groups=16, row_elements=64)}):
        for one in (False, True):
            x = np.zeros(20001, bool)
            x[15_000] = one
            want = evaluate(module, x, y)
            runs = runs_of(module)
            assert len(runs) == 1
            got = execute(lower_run(runs[0], "main", kind), [x, y], {}, dispatch)
            assert [g.item() for g in got] == [w.item() for w in want]
