# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Tests every target that launches kernels against the reference.

Each op in each element type that the target declares, views as operands of each form of kernel,
special values, scans, random programs, and the examples. A kernel that touches memory outside its
buffers, or writes to what it reads, fails here too (`targets.execute`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from make_weights import weights_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import fuel_dialect as fuel
from agreement import assert_close as assert_results_close
from agreement import main
from effort import SLOW, examples, slow_but
from fuel_dialect import dtypes
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops import indexing
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.targets.registry import description_of
from fuel_passes.pipeline import OptimizePass
from op_modules import is_known, module_of, op_of, tolerance, types_of
from op_samples import COMPUTING, Sample, few, samples_of, values
from ops_on_arrays import arrays, floats, same_bits
from programs import Program, programs
from run_ops import assert_close, runs_of
from targets import LAUNCHERS, run_on

MARKS = {"kompute": [pytest.mark.needs_vulkan]}
TARGETS = [pytest.param(name, marks=MARKS.get(name, [])) for name in sorted(LAUNCHERS)]
SOURCES = Path(__file__).parent / "runs"
EXAMPLES = Path(__file__).parents[2] / "examples"
some = examples(15, suppress_health_check=[HealthCheck.too_slow])

each_target = pytest.mark.parametrize("target", TARGETS)


def declared(target: str) -> tuple[str, ...]:
    """The element types that a target declares."""
    return import_module(f"fuel_dialect.targets.{target}").DESCRIPTION.dtypes


def optimized(module: ModuleOp, **options: Any) -> ModuleOp:
    copy = module.clone()
    OptimizePass(**options).apply(make_context(), copy)
    return copy


def check(
    target: str,
    module: ModuleOp,
    arguments: Sequence[Array],
    allowed: tuple[float, float] | None = None,
    weights: dict[str, Array] | None = None,
) -> tuple[Array, ...]:
    """Run a module, optimised where it has no runs yet, and compare with the reference."""
    with np.errstate(all="ignore"):
        want = evaluate(module, *arguments, weights=weights or {})
    got = run_on(target, optimized(module), arguments, weights or {})
    for g, w in zip(got, want, strict=True):
        assert_close(g, w, *(allowed or tolerance(*arguments)))
    return got


def f32_main(arguments: str, results: str, body: str) -> ModuleOp:
    """`agreement.main`, of text where `<2x3>` is short for `tensor<2x3xf32>`."""
    return main(*(_SHORT.sub(_spelled, text) for text in (arguments, results, body)))


_SHORT = re.compile(r"(?<!\w)<([\dx]*)>")


def _spelled(match: re.Match[str]) -> str:
    return f"tensor<{match[1]}x f32>".replace("x f32", "xf32" if match[1] else "f32")


# Ops.


def quick_dtype(op: type[FuelOp], target: str) -> str:
    """Chooses one element type that a target has, in turn for the ops, for `make test`."""
    names = [name for name in samples_of(op)[1] if name in declared(target)]
    return names[COMPUTING.index(op) % len(names)]


OPS = [
    pytest.param(
        op, quick, id=f"{op.mnemonic()}-{'one' if quick else 'others'}", marks=() if quick else SLOW
    )
    for op in COMPUTING
    for quick in (True, False)
]
"""Each op, with its quick element type and with all others."""


def few_samples(op: type[FuelOp], dtype: str, target: str) -> list[Sample]:
    """The first, a middle and the last of the small samples of types that the target has."""
    names = declared(target)
    samples = (s for s in samples_of(op)[0](op, dtype) if is_known(s, names))
    return few([sample for sample in samples if sample.elements <= 2000])


def run_sample(target: str, op: type[FuelOp], sample: Sample) -> None:
    module = module_of(types_of(sample.arrays), lambda *operands: op_of(op, sample, operands))
    with np.errstate(all="ignore"):
        want = evaluate(module, *sample.arrays)
    for g, w in zip(run_on(target, module, sample.arrays), want, strict=True):
        assert_close(g, w, *tolerance(*sample.arrays))


@each_target
@pytest.mark.parametrize(("op", "quick"), OPS)
def test_an_op_in_every_element_type_equals_the_reference(
    op: type[FuelOp], quick: bool, target: str
):
    for dtype in samples_of(op)[1]:
        if (dtype == quick_dtype(op, target)) == quick:
            for sample in few_samples(op, dtype, target):
                run_sample(target, op, sample)


@each_target
def test_casts_between_all_element_types(target: str):
    names = declared(target)
    for source in names:
        text = "\n".join(
            f"%{i} = fuel.cast %x : tensor<40x{_type(source)}> -> tensor<40x{_type(name)}>"
            for i, name in enumerate(names)
        )
        types = ", ".join(f"tensor<40x{_type(name)}>" for name in names)
        ends = ", ".join(f"%{i}" for i in range(len(names)))
        module = main(
            f"%x: tensor<40x{_type(source)}>",
            f"({types})",
            f"{text}\nfunc.return {ends} : {types}",
        )
        x = values(source, (40,))
        with np.errstate(all="ignore"):
            want = evaluate(module, x)
        for g, w in zip(run_on(target, optimized(module), [x]), want, strict=True):
            assert same_bits(g, w)


def _type(name: str) -> str:
    return str(dtypes.BY_NAME[name].type)


EXACT = ("neg", "abs", "sign", "relu", "step", "floor", "sqr", "recip")


@each_target
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@examples(10)
@given(data=st.data())
def test_any_bits_of_floats(target: str, dtype: str, data: st.DataObject):
    """NaN, infinities, both zeros and subnormals come out as the reference says, bit for bit."""
    x, y = data.draw(arrays(dtype, (40,))), data.draw(arrays(dtype, (40,)))
    type = f"tensor<40x{_type(dtype)}>"
    binary = ("add", "sub", "mul", "div")
    lines = [f"%{name} = fuel.{name} %x : {type}" for name in EXACT]
    lines += [f"%{name} = fuel.{name} %x, %y : {type}" for name in binary]
    names = [f"%{name}" for name in (*EXACT, *binary)]
    types = ", ".join([type] * len(names))
    body = "\n".join([*lines, f"func.return {', '.join(names)} : {types}"])
    module = main(f"%x: {type}, %y: {type}", f"({types})", body)
    with np.errstate(all="ignore"):
        want = evaluate(module, x, y)
    for name, g, w in zip(names, run_on(target, optimized(module), [x, y]), want, strict=True):
        assert same_bits(g, w), name


MOVES: dict[str, Callable[[fuel.Tensor, fuel.Tensor], fuel.Tensor]] = {
    "transpose": lambda x, _: x.transpose(),
    "flip": lambda x, _: x.flip(1),
    "permute": lambda x, _: x.reshape(8, 32, 256).permute((1, 0, 2)),
    "broadcast": lambda x, _: x.broadcast_to((2, 256, 256)),
    "concat": lambda x, _: fuel.concat([x, x.flip(0)], axis=1),
    "index_select": lambda x, at: x.index_select(0, at[0]),
    "gather": lambda x, at: x.gather(1, at.broadcast_to((256, 256))),
    "write": lambda x, _: x.write(x[:, :100].flip(1), at=50, axis=1),
}


@each_target
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("move", MOVES)
def test_what_is_moved_keeps_its_bits(target: str, dtype: str, move: str):
    """Those of each NaN too, of which an arithmetic unit makes another one."""
    g = fuel.Graph()
    x, at = g.input((256, 256), dtype), g.input((1, 256), "ui32")
    module = g.build(MOVES[move](x, at))
    held = dtypes.of(dtype).numpy
    patterns = np.arange(1 << 16).astype(f"u{held.itemsize}") << 8 * (held.itemsize - 2)
    arguments = [patterns.view(held).reshape(256, 256), np.arange(256, dtype=np.uint32)[None, ::-1]]
    (want,) = evaluate(module, *arguments)
    (got,) = run_on(target, optimized(module), arguments)
    assert got.tobytes() == want.tobytes()


@each_target
@pytest.mark.parametrize("columns", [40, 64])
def test_a_number_that_an_op_gives_for_all_elements(target: str, columns: int):
    """It is reduced, carried and multiplied as a block of elements is."""
    g = fuel.Graph()
    x = g.input((4, columns), "f32")
    one = x.powi(0)

    def step(c: fuel.Tensor, r: fuel.Tensor) -> tuple[fuel.Tensor, fuel.Tensor]:
        return r.powi(0), c + r.powi(0).exp()

    reduced = [one.sum(axis=1), one.exp().max(axis=1), (one > 0.5).astype("f32").sum(axis=0)]
    last, rows = g.scan(step, x[0], x)
    module = g.build(one.softmax(), one.argmax(axis=1), one @ x.T, *reduced, last, rows)
    check(target, module, [floats("f32", (4, columns))])


# Views, as operands of each form.


VIEWS = """
  %t = fuel.transpose %x : <6x8> -> <8x6>
  %f = fuel.flip %t {dim = 0 : i64} : <8x6> -> <8x6>
  %s = fuel.slice %f {dim = 1 : i64, start = 1 : i64, length = 5 : i64} : <8x6> -> <8x5>
  %r = fuel.slice %y {dim = 0 : i64, start = 2 : i64, length = 1 : i64} : <3x5> -> <1x5>
  %b = fuel.broadcast_to %r : <1x5> -> <8x5>
"""

FORMS: dict[str, tuple[str, str]] = {
    "map": ("%z = fuel.mul %s, %b : <8x5>", "8x5xf32"),
    "rows": ("%z = fuel.softmax_last_dim %s : <8x5>", "8x5xf32"),
    "columns": (
        "%p = fuel.sub %s, %b : <8x5>\n"
        "%z = fuel.argmin_dim %p {dim = 0 : i64} : <8x5> -> tensor<5xui32>",
        "5xui32",
    ),
    "all": ("%z = fuel.sum_all %s : <8x5> -> <>", "f32"),
    "repeated": (
        "%z = fuel.sum_dim %b {dim = 0 : i64} : <8x5> -> <5>",
        "5xf32",
    ),
    "matmul": (
        "%u = fuel.transpose %b : <8x5> -> <5x8>\n"
        "%m = fuel.matmul %s, %u : <8x5>, <5x8> -> <8x8>\n"
        "%w = fuel.slice %x {dim = 0 : i64, start = 3 : i64, length = 1 : i64} : <6x8> -> <1x8>\n"
        "%v = fuel.broadcast_to %w : <1x8> -> <8x8>\n"
        "%z = fuel.add %m, %v : <8x8>",
        "8x8xf32",
    ),
    "constant_factor": (
        "%c = fuel.const 2.0 : f32 -> <5x4>\n%z = fuel.matmul %s, %c : <8x5>, <5x4> -> <8x4>",
        "8x4xf32",
    ),
    "concat": (
        "%c = fuel.const 7.0 : f32 -> <8x2>\n"
        "%z = fuel.concat %s, %c, %b {dim = 1 : i64} : <8x5>, <8x2>, <8x5> -> <8x12>",
        "8x12xf32",
    ),
    "write": ("%z = fuel.contiguize %s : <8x5>", "8x5xf32"),
    "reshape": ("%z = fuel.reshape %s : <8x5> -> <4x10>", "4x10xf32"),
    "scan": (
        "%h, %z = fuel.scan init(%c = %r1 : <5>) xs(%a = %s : <8x5>) length 8 reverse"
        " -> (<5>, <8x5>) {\n"
        "%n = fuel.add %c, %a : <5>\n"
        "fuel.scan_yield carry(%n : <5>) ys(%n : <5>)\n}",
        "8x5xf32",
    ),
}


@each_target
@pytest.mark.parametrize("form", FORMS)
def test_views_are_read_where_they_lie(form: str, target: str):
    text, result = FORMS[form]
    squeezed = "%r1 = fuel.squeeze %r {dim = 0 : i64} : <1x5> -> <5>"
    module = f32_main(
        "%x: <6x8>, %y: <3x5>",
        f"tensor<{result}>",
        f"{VIEWS}\n{squeezed}\n{text}\nfunc.return %z : tensor<{result}>",
    )
    check(target, module, [floats("f32", (6, 8)), floats("f32", (3, 5), 1)])


# Indices.


@each_target
@pytest.mark.parametrize("op", [indexing.IndexSelectOp, indexing.GatherOp])
def test_an_index_out_of_range_is_told_with_its_op(op: type[FuelOp], target: str):
    shape = "3" if op is indexing.IndexSelectOp else "1x3"
    result = "3x3" if op is indexing.IndexSelectOp else "1x3"
    name = op.mnemonic()
    lines = [
        "%a = fuel.index_select %x, %ok {dim = 0 : i64} : <4x3>, tensor<2xui32> -> <2x3>",
        f"%b = fuel.{name} %x, %i {{dim = 0 : i64}} "
        f": <4x3>, tensor<{shape}xui32> -> tensor<{result}xf32>",
        f"func.return %a, %b : <2x3>, tensor<{result}xf32>",
    ]
    module = f32_main(
        f"%x: <4x3>, %ok: tensor<2xui32>, %i: tensor<{shape}xui32>",
        f"(<2x3>, tensor<{result}xf32>)",
        "\n".join(lines),
    )
    x, ok = floats("f32", (4, 3)), np.array([0, 3], np.uint32)
    extents = tuple(int(e) for e in shape.split("x"))
    for wrong in (4, 2**31, 2**32 - 1):
        indices = np.array([0, wrong, 3], np.uint32).reshape(extents)
        with pytest.raises(IndexOutOfRange, match=f"{name} %b: "):
            run_on(target, optimized(module), [x, ok, indices])
    check(target, module, [x, ok, np.array([1, 3, 0], np.uint32).reshape(extents)])


@each_target
@pytest.mark.parametrize("names", ["result", "operands", "none"])
@pytest.mark.parametrize("wrong", [0, 3, 7])
def test_of_eight_writes_the_one_out_of_range_is_named(names: str, wrong: int, target: str):
    at = "at" if names != "none" else "8"
    lines, value = list[str](), "x" if names != "none" else "0"
    for i in range(8):
        result = f"row{i}" if names == "result" else f"{100 + i}"
        position = f"{at}{i}"
        lines.append(
            f"%{result} = fuel.write_slice_doff %{value}, %{'s' if names != 'none' else '1'}, "
            f"%{position} {{starts = array<i64: 0>, axis = 0 : i64}} : <8>, <2>, tensor<ui32>"
        )
        value = result
    given = ", ".join(f"%{at}{i}: tensor<ui32>" for i in range(8))
    first = "%x: <8>, %s: <2>" if names != "none" else "%0: <8>, %1: <2>"
    module = f32_main(
        f"{first}, {given}", "<8>", "\n".join([*lines, f"func.return %{value} : <8>"])
    )
    x, s = floats("f32", (8,)), floats("f32", (2,))
    places = [np.array(7 if i == wrong else i % 6, np.uint32) for i in range(8)]
    said = {
        "result": rf"^write_slice_doff %row{wrong}: ",
        "operands": rf"^write_slice_doff of .*%s, %at{wrong}: ",
        "none": r"^write_slice_doff: ",
    }
    for run in (
        lambda: run_on(target, optimized(module), [x, s, *places]),
        lambda: evaluate(module, x, s, *places),
    ):
        with pytest.raises(IndexOutOfRange, match=said[names]):
            run()


@each_target
@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_a_write_at_a_position_out_of_range_is_told(dtype: str, target: str):
    module = main(
        f"%x: tensor<3x8x{dtype}>, %s: tensor<2x3x{dtype}>, %at: tensor<ui32>",
        f"tensor<3x8x{dtype}>",
        "%r = fuel.write_slice_doff %x, %s, %at {starts = array<i64: 1, 0>, axis = 1 : i64}"
        f" : tensor<3x8x{dtype}>, tensor<2x3x{dtype}>, tensor<ui32>\n"
        f"func.return %r : tensor<3x8x{dtype}>",
    )
    x, s = values(dtype, (3, 8)), values(dtype, (2, 3))
    for at in (0, 4, 5):
        (got,) = check(target, module, [x, s, np.array(at, np.uint32)])
        assert same_bits(got[1:, at : at + 3], s)
    for wrong in (6, 2**31, 2**32 - 1):
        with pytest.raises(IndexOutOfRange, match="write_slice_doff"):
            run_on(target, optimized(module), [x, s, np.array(wrong, np.uint32)])


@each_target
def test_a_ring_takes_any_position_and_views_are_written_from_where_they_lie(target: str):
    module = f32_main(
        "%x: <3x9>, %s: <4x2>, %r: <1x2>, %at: tensor<ui32>",
        "(<3x9>, <3x9>)",
        """
  %f = fuel.flip %s {dim = 0 : i64} : <4x2> -> <4x2>
  %t = fuel.transpose %f : <4x2> -> <2x4>
  %a = fuel.write_slice_rotating %x, %t, %at
      {starts = array<i64: 1, 0>, axis = 1 : i64, modulus = 7 : i64} : <3x9>, <2x4>, tensor<ui32>
  %b = fuel.broadcast_to %r : <1x2> -> <3x2>
  %c = fuel.write_slice %x, %b {starts = array<i64: 0, 7>} : <3x9>, <3x2>
  func.return %a, %c : <3x9>, <3x9>""",
    )
    arrays = [floats("f32", shape, seed) for seed, shape in enumerate([(3, 9), (4, 2), (1, 2)])]
    for at in (0, 3, 5, 7, 2**31 + 1, 2**32 - 1):
        got = check(target, module, [*arrays, np.array(at, np.uint32)])
        assert same_bits(got[0][1:, at % 7], arrays[1][::-1].T[:, 0])


@each_target
@pytest.mark.parametrize("dtype", ["f32", "i1", "bf16"])
@pytest.mark.parametrize("shape", [(64, 128), (40, 33), (3, 100, 70), (2, 3, 33, 65)])
def test_operands_that_lie_across_the_result(shape: tuple[int, ...], dtype: str, target: str):
    """A transpose, a flipped one, a broadcast, and one that is along: over several results."""
    turned = (*shape[:-2], shape[-1], shape[-2])
    given, wanted = (f"tensor<{'x'.join(map(str, s))}x{dtype}>" for s in (shape, turned))
    row, op = f"tensor<{shape[-2]}x{dtype}>", "maximum" if dtype == "i1" else "add"
    module = main(
        f"%x: {given}, %y: {wanted}, %r: {row}",
        f"({wanted}, {wanted}, {wanted})",
        f"""
%t = fuel.transpose %x : {given} -> {wanted}
%f = fuel.flip %t {{dim = {len(shape) - 1} : i64}} : {wanted} -> {wanted}
%w = fuel.broadcast_to %r : {row} -> {wanted}
%a = fuel.{op} %t, %y : {wanted}
%b = fuel.{op} %a, %w : {wanted}
%c = fuel.{op} %b, %f : {wanted}
func.return %a, %c, %f : {wanted}, {wanted}, {wanted}""",
    )
    check(
        target, module, [values(dtype, shape), values(dtype, turned), values(dtype, shape[-2:-1])]
    )


@each_target
@pytest.mark.parametrize(
    "types", [("f32", "f32"), ("f64", "f64"), ("f32", "bf16"), ("bf16", "bf16")]
)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_of_one_row(batch: tuple[int, ...], types: tuple[str, str], target: str):
    """With a transposed matrix too, and with a bias, an activation and a reshape after it."""
    if not {*types} <= {*declared(target)}:
        return
    k, n = 45, 70
    x, w, v, r = (
        "x".join(map(str, (*batch, *extents))) for extents in ((1, k), (k, n), (n, k), (1, n))
    )
    a, b = types
    flat = f"{'x'.join(map(str, batch))}{'x' if batch else ''}{n}x{a}"
    module = main(
        f"%x: tensor<{x}x{a}>, %w: tensor<{w}x{b}>, %v: tensor<{v}x{b}>, %b: tensor<{r}x{a}>",
        f"(tensor<{flat}>, tensor<{r}x{a}>)",
        f"""
%p = fuel.matmul %x, %w : tensor<{x}x{a}>, tensor<{w}x{b}> -> tensor<{r}x{a}>
%s = fuel.add %p, %b : tensor<{r}x{a}>
%g = fuel.silu %s : tensor<{r}x{a}>
%f = fuel.reshape %g : tensor<{r}x{a}> -> tensor<{flat}>
%t = fuel.transpose %v : tensor<{v}x{b}> -> tensor<{w}x{b}>
%q = fuel.matmul %x, %t : tensor<{x}x{a}>, tensor<{w}x{b}> -> tensor<{r}x{a}>
func.return %f, %q : tensor<{flat}>, tensor<{r}x{a}>""",
    )
    shapes = ((*batch, 1, k), (*batch, k, n), (*batch, n, k), (*batch, 1, n))
    arrays = [floats(d, s, i) for i, (d, s) in enumerate(zip((a, b, b, a), shapes, strict=True))]
    tight = {"f32": (1e-4, 1e-4), "f64": (1e-9, 1e-9), "bf16": (0.05, 0.1)}[a]
    check(target, module, arrays, tight)


@each_target
@pytest.mark.parametrize("shape", [(1, 1, 2), (1, 3, 1), (1, 1, 1)])
def test_reductions_that_differ_in_axes_of_one_element_are_one_kernel(
    shape: tuple[int, ...], target: str
):
    """A norm as its definition is a sum over every axis that has one element in the result."""
    type, kept = (f"tensor<{'x'.join(map(str, s))}xf32>" for s in (shape, shape[:-1]))
    module = main(
        f"%x: {type}",
        f"({kept}, {type})",
        f"""
%n = fuel.rms_norm_last_dim %x {{eps = 1.0e-3 : f64}} : {type}
%s = fuel.sum_dim %n {{dim = 2 : i64}} : {type} -> {kept}
%p = fuel.softmax_last_dim %n : {type}
func.return %s, %p : {kept}, {type}""",
    )
    check(target, module, [floats("f32", shape)])


# Writes in place.


DONATED = """
func.func @main(%x: tensor<3x10x{n}x{d}> {{fuel.donated}}, %s: tensor<{source}x{d}>,
                %at: tensor<ui32>)
    -> (tensor<3x10x{n}x{d}> {{fuel.aliases = 0 : i64}}) {{
  %r = fuel.{op} : tensor<3x10x{n}x{d}>, {operand}
  func.return %r : tensor<3x10x{n}x{d}>
}}"""
WRITES = {
    "write_slice": ("2x3x{n}", "write_slice %x, %s {starts = array<i64: 1, 4, 0>}", ""),
    "write_slice_doff": (
        "2x3x{n}",
        "write_slice_doff %x, %s, %at {starts = array<i64: 1, 0, 0>, axis = 1 : i64}",
        ", tensor<ui32>",
    ),
    "write_slice_rotating": (
        "2x3x{n}",
        "write_slice_rotating %x, %s, %at "
        "{starts = array<i64: 1, 0, 0>, axis = 1 : i64, modulus = 9 : i64}",
        ", tensor<ui32>",
    ),
}


def donated(op: str, dtype: str, last: int) -> ModuleOp:
    """A write of [2, 3, last] into a donated [3, 10, last]."""
    source, text, position = WRITES[op]
    source = source.format(n=last)
    operand = f"tensor<{source}x{dtype}>{position}"
    return parse_module(DONATED.format(n=last, d=dtype, source=source, op=text, operand=operand))


@each_target
@pytest.mark.parametrize("op", WRITES)
@pytest.mark.parametrize("last", slow_but([1, 3, 4], [3]))
def test_a_write_into_a_donated_array_touches_what_is_written_alone(
    op: str, last: int, target: str
):
    """For the types of all widths; elements are written alone where they are whole words."""
    for dtype in declared(target):
        module = donated(op, dtype, last)
        x, s = values(dtype, (3, 10, last)), values(dtype, (2, 3, last))
        for at in (0, 3, 7, 8, 2**32 - 1):
            if op != "write_slice_rotating" and at > 7:
                continue
            check(target, module, [x, s, np.array(at, np.uint32)])


@each_target
@pytest.mark.parametrize("op", WRITES)
def test_a_write_into_a_donated_array_is_as_large_as_what_is_written(op: str, target: str):
    _, lower = LAUNCHERS[target]()
    (run,) = runs_of(optimized(donated(op, "f32", 4096)))
    lowered = lower(run, "main")
    (launch,) = lowered.launches
    (kernel,) = lowered.kernels
    block = 1024 if target == "triton" else 256
    assert launch.grid == (-(-2 * 3 * 4096 // block), 1, 1)
    written = [p for p in kernel.parameters if p.writes and p.elements > 1]
    assert [p.elements for p in written] == [3 * 10 * 4096]
    read = [lowered.buffers[b].role for b in launch.buffers]
    assert read.count("output") == 1
    assert lowered.reuses == ((0, 0),)


@each_target
def test_a_donated_array_is_left_as_it_was_by_a_write_out_of_range(target: str):
    module = optimized(donated("write_slice_doff", "f32", 4))
    x, s = values("f32", (3, 10, 4)), values("f32", (2, 3, 4))
    for at in (8, 2**31, 2**32 - 1):
        with pytest.raises(IndexOutOfRange, match="write_slice_doff"):
            run_on(target, module, [x, s, np.array(at, np.uint32)])


@each_target
def test_one_write_after_another_into_a_donated_array(target: str):
    """The second takes over what the first has made; of a constant, and of a view."""
    module = parse_module("""
func.func @main(%x: tensor<4x6xf32> {fuel.donated}, %s: tensor<3x2xf32>)
    -> (tensor<4x6xf32> {fuel.aliases = 0 : i64}) {
  %c = fuel.const 2.5 : f32 -> tensor<4x1xf32>
  %a = fuel.write_slice %x, %c {starts = array<i64: 0, 5>} : tensor<4x6xf32>, tensor<4x1xf32>
  %t = fuel.transpose %s : tensor<3x2xf32> -> tensor<2x3xf32>
  %b = fuel.write_slice %a, %t {starts = array<i64: 2, 1>} : tensor<4x6xf32>, tensor<2x3xf32>
  func.return %b : tensor<4x6xf32>
}""")
    x, s = floats("f32", (4, 6)), floats("f32", (3, 2), 1)
    (got,) = check(target, module, [x, s])
    want = x.copy()
    want[:, 5] = 2.5
    want[2:, 1:4] = s.T
    assert same_bits(got, want)


# Long rows, and many.


LONG = 40_000


@each_target
@pytest.mark.parametrize("rows", [1, 3])
def test_long_rows_shared_by_programs(rows: int, target: str):
    type = f"tensor<{rows}x{LONG}xf32>"
    module = f32_main(
        f"%x: {type}",
        f"(tensor<{rows}xui32>, {type}, tensor<{rows}xf32>, tensor<{rows}xf32>)",
        f"%a = fuel.argmax_dim %x {{dim = 1 : i64}} : {type} -> tensor<{rows}xui32>\n"
        f"%s = fuel.softmax_last_dim %x : {type}\n"
        f"%m = fuel.mean_dim %x {{dim = 1 : i64}} : {type} -> tensor<{rows}xf32>\n"
        f"%l = fuel.min_dim %x {{dim = 1 : i64}} : {type} -> tensor<{rows}xf32>\n"
        f"func.return %a, %s, %m, %l "
        f": tensor<{rows}xui32>, {type}, tensor<{rows}xf32>, tensor<{rows}xf32>",
    )
    x = floats("f32", (rows, LONG))
    x[:, 30_000] = x[:, 39_999] = 9
    got = check(target, module, [x], (2e-5, 1e-6))
    assert (got[0] == 30_000).all()
    x[0, 35_000] = x[0, 36_000] = np.nan
    got = check(target, module, [x], (2e-5, 1e-6))
    assert got[0][0] == 35_000
    assert np.isnan(got[3][0])


@each_target
def test_sums_over_everything_and_of_long_columns(target: str):
    module = f32_main(
        "%x: tensor<20000x3xi32>, %y: <3000x40>",
        "(tensor<i32>, tensor<3xi32>, <40>)",
        "%a = fuel.sum_all %x : tensor<20000x3xi32> -> tensor<i32>\n"
        "%b = fuel.sum_dim %x {dim = 0 : i64} : tensor<20000x3xi32> -> tensor<3xi32>\n"
        "%c = fuel.max_dim %y {dim = 0 : i64} : <3000x40> -> <40>\n"
        "func.return %a, %b, %c : tensor<i32>, tensor<3xi32>, <40>",
    )
    check(target, module, [values("i32", (20000, 3)), floats("f32", (3000, 40))])


@pytest.mark.parametrize(
    "target",
    [pytest.param("kompute", marks=MARKS["kompute"]), pytest.param("triton", marks=SLOW)],
)
def test_long_rows_that_are_many_are_read_in_chunks(target: str):
    type = "tensor<130x17001xbf16>"
    module = f32_main(
        f"%x: {type}",
        f"{type}",
        f"%s = fuel.softmax_last_dim %x : {type}\nfunc.return %s : {type}",
    )
    check(target, module, [floats("bf16", (130, 17001), scale=4)])


# Scans.


@each_target
def test_a_scan_of_elementwise_steps_is_one_kernel_and_others_are_steps(target: str):
    module = f32_main(
        "%x: <5x4>, %h: <4>, %w: <4x4>",
        "(<4>, <4>, <5x4>, <1x4>, <5x1x4>)",
        """
  %k = fuel.const 3.0 : f32 -> <4>
  %p, %q, %ys = fuel.scan init(%a = %h : <4>, %b = %k : <4>) xs(%x_t = %x : <5x4>)
      length 5 -> (<4>, <4>, <5x4>) {
    %n = fuel.add %b, %x_t : <4>
    fuel.scan_yield carry(%b, %a : <4>, <4>) ys(%n : <4>)
  }
  %row = fuel.unsqueeze %h {dim = 0 : i64} : <4> -> <1x4>
  %xr = fuel.unsqueeze %x {dim = 1 : i64} : <5x4> -> <5x1x4>
  %l, %zs = fuel.scan init(%a = %row : <1x4>) xs(%x_t = %xr : <5x1x4>) consts(%m = %w : <4x4>)
      length 5 reverse -> (<1x4>, <5x1x4>) {
    %d = fuel.matmul %a, %m : <1x4>, <4x4> -> <1x4>
    %n = fuel.add %d, %x_t : <1x4>
    fuel.scan_yield carry(%n : <1x4>) ys(%a : <1x4>)
  }
  func.return %p, %q, %ys, %l, %zs : <4>, <4>, <5x4>, <1x4>, <5x1x4>
""",
    )
    arguments = [floats("f32", shape, seed) for seed, shape in enumerate([(5, 4), (4,), (4, 4)])]
    check(target, module, arguments, (1e-5, 1e-6))


@each_target
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
@pytest.mark.parametrize("columns", [1, 3, 4, 6])
def test_steps_that_no_kernel_computes_are_stacked_beside_each_other(
    target: str, dtype: str, columns: int
):
    """Whichever step comes first: a row that ends inside of a quad leaves the next one alone."""
    row, rows = f"tensor<{columns}x{dtype}>", f"tensor<3x{columns}x{dtype}>"
    for reverse in ("", "reverse "):
        module = main(
            f"%x: {rows}, %k: {row}, %h: {row}",
            f"({rows}, {rows}, {rows})",
            f"""
  %last, %ks, %xs, %hs = fuel.scan init(%c = %h : {row}) xs(%s = %x : {rows})
      consts(%q = %k : {row}) length 3 {reverse}-> ({row}, {rows}, {rows}, {rows}) {{
    %m = fuel.max_dim %s {{dim = 0}} : {row} -> tensor<{dtype}>
    %b = fuel.broadcast_to %m : tensor<{dtype}> -> {row}
    %n = fuel.add %c, %b : {row}
    fuel.scan_yield carry(%n : {row}) ys(%q, %s, %c : {row}, {row}, {row})
  }}
  func.return %ks, %xs, %hs : {rows}, {rows}, {rows}
""",
        )
        xs, k, h = (values(dtype, shape) for shape in ((3, columns), (columns,), (columns,)))
        check(target, module, [xs, k, h])


@each_target
@pytest.mark.parametrize("body", ["elementwise", "product"])
def test_a_scan_of_no_steps_gives_its_initial_carry(target: str, body: str):
    product = "%n = fuel.matmul %c, %x_t : <4x4>, <4x4> -> <4x4>"
    line = "%n = fuel.add %c, %x_t : <4x4>" if body == "elementwise" else product
    module = f32_main(
        "%x: <0x4x4>, %h: <4x4>",
        "(<4x4>, <0x4x4>)",
        "%l, %ys = fuel.scan init(%c = %h : <4x4>) xs(%x_t = %x : <0x4x4>) length 0"
        f" -> (<4x4>, <0x4x4>) {{\n{line}\n"
        "fuel.scan_yield carry(%n : <4x4>) ys(%n : <4x4>)\n}\n"
        "func.return %l, %ys : <4x4>, <0x4x4>",
    )
    h = floats("f32", (4, 4))
    got = check(target, module, [np.zeros((0, 4, 4), np.float32), h])
    assert same_bits(got[0], h)


# Whole programs.


def _is_left_to_the_cpu(module: ModuleOp, target: str) -> bool:
    """Returns True if the target has no kernels for a type or a kind of scan."""
    description = description_of(target)
    assert description is not None
    types = {value.type for op in module.walk() for value in (*op.operands, *op.results)}
    if any(dtypes.of_type(type).name not in description.dtypes for type in types):
        return True
    scans = [op for op in module.walk() if isinstance(op, ScanOp)]
    inner = [s for scan in scans for s in scan.body.walk() if isinstance(s, ScanOp)]
    return any(s.end.until is not None for s in scans) or bool(inner)


@each_target
@some
@given(program=programs())
def test_random_programs(target: str, program: Program):
    module = optimized(program.module, variants="keep")
    want = evaluate(program.module, *program.arguments, weights=program.weights)
    hypothesis.assume(not _is_left_to_the_cpu(module, target))
    got = run_on(target, module, program.arguments, program.weights)
    assert_results_close(got, want)


def arguments_of(module: ModuleOp) -> list[Array]:
    """Arrays for `main`: indices small, the rest ordinary numbers."""
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return [_argument(type, seed) for seed, type in enumerate(function.function_type.inputs)]


def _argument(type: Any, seed: int) -> Array:
    name, shape = dtypes.of_type(type).name, tuple(type.get_shape())
    rng = np.random.default_rng(seed)
    if name == "ui32":
        return rng.integers(0, 3, shape, np.uint32)
    return rng.random(shape) < 0.5 if name == "i1" else floats(name, shape, seed)


@each_target
@pytest.mark.parametrize(
    "path",
    slow_but(sorted(SOURCES.glob("*.mlir")), {"flat", "products", "tiles"}, lambda p: p.stem),
    ids=lambda p: p.stem,
)
def test_the_runs_of_the_numpy_target(path: Path, target: str):
    module = parse_module(path.read_text())
    arguments = arguments_of(module)
    uses = [op for op in module.walk() if isinstance(op, WeightOp)]
    weights = {op.key.data: _argument(op.result.type, 50 + i) for i, op in enumerate(uses)}
    allowed = max((2e-5, 1e-5), tolerance(*arguments))
    want = evaluate(module, *arguments, weights=weights)
    for g, w in zip(run_on(target, module, arguments, weights), want, strict=True):
        assert_close(g, w, *allowed)


SMALLER = {"gated_recurrent_cell": ("48", "3"), "selective_scan": ("128x", "5x")}
"""Replaced in the text of an example, so that it has fewer steps."""


def example(path: Path) -> ModuleOp:
    text = path.read_text()
    old, new = SMALLER.get(path.stem, ("", ""))
    text = text.replace(old, new) if old else text
    return parse_module(text.replace("length 128", "length 5") if old == "128x" else text)


QUICK = {"kv_cache", "mlp", "nested_branch"}
"""The examples with the fewest kernels."""


@each_target
@pytest.mark.parametrize(
    "path", slow_but(sorted(EXAMPLES.glob("*.mlir")), QUICK, lambda p: p.stem), ids=lambda p: p.stem
)
def test_an_example_runs_wholly_on_the_target(path: Path, target: str):
    module = example(path)
    check(target, module, arguments_of(module), (1e-4, 1e-5), weights_of(module))
