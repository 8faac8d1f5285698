# SPDX-License-Identifier: MIT OR Apache-2.0
"""The text of Triton kernels: that it compiles for GPUs, how wide it loads, 64 bits, goldens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from agreement import main
from effort import SLOW, slow_but
from fake_cubin import entry_of
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import LoweringError
from fuel_lowering.runs.launches import DeviceKernel, DeviceRun
from fuel_lowering.triton.compile import compile_kernel
from fuel_lowering.triton.emit import TritonEmitter
from fuel_lowering.triton.language import RESERVED
from fuel_lowering.triton.lower import lower_run
from fuel_passes.pipeline import OptimizePass, Variants
from op_modules import module_of, op_of, types_of
from op_samples import COMPUTING, SAMPLES, samples_of
from run_ops import runs_of

SOURCES = Path(__file__).parent / "runs"
EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted([*SOURCES.glob("*.mlir"), *EXAMPLES.glob("*.mlir")])


def lowered(
    module: ModuleOp, emitter: TritonEmitter | None = None, variants: Variants = "bake"
) -> list[DeviceRun]:
    copy = module.clone()
    OptimizePass(variants=variants).apply(make_context(), copy)
    return [lower_run(run, f"main_{i}", emitter) for i, run in enumerate(runs_of(copy))]


def kernels(
    arguments: str, results: str, body: str, emitter: TritonEmitter | None = None
) -> list[DeviceKernel]:
    runs = lowered(main(arguments, results, body), emitter)
    return [kernel for run in runs for kernel in run.kernels]


def text(arguments: str, results: str, body: str) -> str:
    return "\n".join(kernel.source for kernel in kernels(arguments, results, body))


# Compiling.


def check_compiles(found: Sequence[DeviceKernel], capability: int) -> None:
    for kernel in dict.fromkeys(found):
        compiled = compile_kernel(kernel, capability)
        assert compiled.cubin.startswith(b"\x7fELF")
        assert (compiled.global_scratch, compiled.profile_scratch) == (0, 0)
        entry = entry_of(compiled.cubin, compiled.name)
        pointers, scalars = [8] * len(kernel.parameters), [4] * len(kernel.scalars)
        assert entry.sizes == (*pointers, *scalars, 8, 8)
        assert entry.threads == compiled.threads


QUICK_FILES = {("products", 80), ("rows", 90), ("tiles", 90), ("cell", 80), ("columns", 90)}
"""One file for each form of kernel, for one of the architectures."""


@pytest.mark.parametrize(
    ("path", "capability"),
    [
        pytest.param(path, capability, id=f"{path.stem}-{capability}", marks=marks)
        for path in FILES
        for capability in (80, 90)
        for marks in (() if (path.stem, capability) in QUICK_FILES else SLOW,)
    ],
)
def test_all_kernels_of_a_file_compile(path: Path, capability: int):
    runs = lowered(parse_module(path.read_text()), variants="keep")
    check_compiles([kernel for run in runs for kernel in run.kernels], capability)


WIDELY = {"add", "cast", "sum_dim", "argmax_dim", "matmul", "index_select"}
"""Ops whose kernels differ most by element type: they are compiled in all of them."""


QUICK_OPS = {
    next(op.mnemonic() for op in COMPUTING if samples_of(op)[0] is samples)
    for _, samples, _ in SAMPLES
}
"""The first op of each kind."""


@pytest.mark.parametrize(
    "op", slow_but(COMPUTING, QUICK_OPS, lambda op: op.mnemonic()), ids=lambda op: op.mnemonic()
)
def test_a_kernel_of_each_op_compiles(op: Any):
    samples, names = samples_of(op)
    names = [name for name in names if not name.startswith("f8")]
    for dtype in names if op.mnemonic() in WIDELY else names[-1:]:
        small = [s for s in samples(op, dtype) if all(0 < a.size < 5000 for a in s.arrays)]
        sample = max(small, key=lambda s: sum(a.size for a in s.arrays))
        module = module_of(types_of(sample.arrays), lambda *o, s=sample: op_of(op, s, o))
        (run,) = runs_of(module)
        check_compiles(lower_run(run, "main").kernels, 90)


ADD = (
    "%x: tensor<{0}xf32>, %y: tensor<{0}xf32>",
    "tensor<{0}xf32>",
    "%z = fuel.add %x, %y : tensor<{0}xf32>\nfunc.return %z : tensor<{0}xf32>",
)


def add_of(elements: int) -> DeviceKernel:
    arguments, result, body = (part.format(elements) for part in ADD)
    (kernel,) = kernels(arguments, result, body)
    return kernel


@pytest.mark.parametrize("elements", [4096, 5000])
def test_pointwise_kernels_load_and_store_16_bytes_at_once(elements: int):
    ptx = compile_kernel(add_of(elements), 90).ptx
    assert "ld.global.v4" in ptx
    assert "st.global.v4" in ptx
    assert "ld.global.b32" not in ptx


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f64"])
def test_what_lies_across_the_result_is_turned_over_in_shared_memory(dtype: str):
    """Both sides in 16 bytes at once; element by element a line of memory is read for each."""
    given, wanted = f"tensor<4x1024x512x{dtype}>", f"tensor<4x512x1024x{dtype}>"
    (kernel,) = kernels(
        f"%x: {given}, %y: {wanted}",
        wanted,
        f"%t = fuel.transpose %x : {given} -> {wanted}\n"
        f"%z = fuel.add %t, %y : {wanted}\nfunc.return %z : {wanted}",
    )
    ptx = compile_kernel(kernel, 90).ptx
    vector = "v2.b64" if dtype == "f64" else "v4.b32"
    assert f"ld.global.{vector}" in ptx
    assert f"st.global.{vector}" in ptx
    assert "st.shared" in ptx
    assert not re.search(r"(ld|st)\.global\.b(16|32|64)\b", ptx)


def test_a_row_kernel_loads_16_bytes_at_once():
    (kernel,) = kernels(
        "%x: tensor<64x1000xbf16>",
        "tensor<64x1000xbf16>",
        "%s = fuel.softmax_last_dim %x : tensor<64x1000xbf16>\n"
        "func.return %s : tensor<64x1000xbf16>",
    )
    ptx = compile_kernel(kernel, 90).ptx
    assert "ld.global.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx


def test_a_product_of_bf16_uses_the_tensor_cores():
    (kernel,) = kernels(
        "%x: tensor<256x256xbf16>, %y: tensor<256x256xbf16>",
        "tensor<256x256xbf16>",
        "%z = fuel.matmul %x, %y "
        ": tensor<256x256xbf16>, tensor<256x256xbf16> -> tensor<256x256xbf16>\n"
        "func.return %z : tensor<256x256xbf16>",
    )
    assert "mma.sync" in compile_kernel(kernel, 80).ptx


SCAN = (
    "%x: tensor<9x{0}xf32>, %h: tensor<{0}xf32>, %w: tensor<{0}x{0}xf32>",
    "tensor<9x1x{0}xf32>",
    """
  %r = fuel.unsqueeze %h {{dim = 0 : i64}} : tensor<{0}xf32> -> tensor<1x{0}xf32>
  %l, %ys = fuel.scan init(%c = %r : tensor<1x{0}xf32>) xs(%x_t = %x : tensor<9x{0}xf32>)
      consts(%m = %w : tensor<{0}x{0}xf32>) length 9 -> (tensor<1x{0}xf32>, tensor<9x1x{0}xf32>) {{
    %d = fuel.matmul %c, %m : tensor<1x{0}xf32>, tensor<{0}x{0}xf32> -> tensor<1x{0}xf32>
    %u = fuel.unsqueeze %x_t {{dim = 0 : i64}} : tensor<{0}xf32> -> tensor<1x{0}xf32>
    %n = fuel.add %d, %u : tensor<1x{0}xf32>
    fuel.scan_yield carry(%n : tensor<1x{0}xf32>) ys(%n : tensor<1x{0}xf32>)
  }}
  func.return %ys : tensor<9x1x{0}xf32>
""",
)


@pytest.mark.parametrize(("extent", "unaligned"), [(32, 0), (33, 2)])
def test_what_a_scan_steps_through_is_aligned_where_each_step_is(extent: int, unaligned: int):
    arguments, result, body = (part.format(extent) for part in SCAN)
    found = kernels(arguments, result, body)
    step = max(found, key=lambda kernel: sum(not p.aligned for p in kernel.parameters))
    assert sum(not parameter.aligned for parameter in step.parameters) >= unaligned
    assert unaligned or all(p.aligned for kernel in found for p in kernel.parameters)


@pytest.mark.parametrize(("element", "itemsize"), [("f16", 2), ("f32", 4), ("f64", 8)])
def test_launches_count_offsets_in_bytes_of_what_the_kernel_reads(element: str, itemsize: int):
    arguments, result, body = (part.format(32).replace("f32", element) for part in SCAN)
    (run,) = lowered(main(arguments, result, body))
    number = next(n for n, buffer in enumerate(run.buffers) if buffer.role == "output")
    offsets = {
        offset
        for launch in run.launches
        for buffer, offset in zip(launch.buffers, launch.byte_offsets, strict=True)
        if buffer == number
    }
    assert offsets == {step * 32 * itemsize for step in range(9)}


# Wide indices.


def test_indices_have_64_bits_where_32_do_not_suffice_and_only_there():
    wide = text(
        "%x: tensor<70000x70000xf32>, %y: tensor<70000x70000xf32>",
        "(tensor<70000x70000xf32>, tensor<70000xf32>)",
        """
  %t = fuel.transpose %y : tensor<70000x70000xf32> -> tensor<70000x70000xf32>
  %s = fuel.add %x, %t : tensor<70000x70000xf32>
  %m = fuel.sum_dim %x {dim = 1 : i64} : tensor<70000x70000xf32> -> tensor<70000xf32>
  func.return %s, %m : tensor<70000x70000xf32>, tensor<70000xf32>
""",
    )
    assert "tile = tl.program_id(0).to(tl.int64)" in wide
    assert "r = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)[:, None]" in wide
    assert "c = start + tl.arange(0, 4096)[None, :].to(tl.int64)" in wide
    assert "int64" not in add_of(2**31 - 2**17).source
    wide = add_of(2**31).source
    assert "i = tl.program_id(0).to(tl.int64) * 1024 + tl.arange(0, 1024)" in wide


def test_a_small_result_of_a_large_operand_has_64_bits():
    wide = text(
        "%x: tensor<70000x70000xf32>, %j: tensor<3xui32>, %w: tensor<70000x3xf32>",
        "(tensor<3x70000xf32>, tensor<70000x3xf32>)",
        """
  %i = fuel.index_select %x, %j {dim = 0 : i64}
      : tensor<70000x70000xf32>, tensor<3xui32> -> tensor<3x70000xf32>
  %p = fuel.matmul %x, %w
      : tensor<70000x70000xf32>, tensor<70000x3xf32> -> tensor<70000x3xf32>
  func.return %i, %p : tensor<3x70000xf32>, tensor<70000x3xf32>
""",
    )
    assert "row = j.to(tl.int64)" in wide
    assert "m = tile_m * 64 + tl.arange(0, 64)[:, None].to(tl.int64)" in wide
    assert "k = start + tl.arange(0, 32).to(tl.int64)" in wide


@pytest.mark.parametrize("form", ["map", "rows", "matmul", "scan"])
def test_kernels_with_wide_indices_compile(form: str):
    bodies = {
        "map": "%z = fuel.flip %x {dim = 1 : i64} "
        ": tensor<3x1000000000xf32> -> tensor<3x1000000000xf32>\n"
        "%r = fuel.neg %z : tensor<3x1000000000xf32>",
        "rows": "%r = fuel.softmax_last_dim %x : tensor<3x1000000000xf32>",
        "matmul": "%t = fuel.transpose %x : tensor<3x1000000000xf32> -> tensor<1000000000x3xf32>\n"
        "%r = fuel.matmul %x, %t : tensor<3x1000000000xf32>, tensor<1000000000x3xf32> "
        "-> tensor<3x3xf32>",
        "scan": "%h = fuel.const 0.0 : f32 -> tensor<1000000000xf32>\n"
        "%l, %r = fuel.scan init(%c = %h : tensor<1000000000xf32>) "
        "xs(%a = %x : tensor<3x1000000000xf32>) length 3 reverse "
        "-> (tensor<1000000000xf32>, tensor<3x1000000000xf32>) {\n"
        "%n = fuel.add %c, %a : tensor<1000000000xf32>\n"
        "fuel.scan_yield carry(%n : tensor<1000000000xf32>) ys(%n : tensor<1000000000xf32>)\n}",
    }
    result = "tensor<3x3xf32>" if form == "matmul" else "tensor<3x1000000000xf32>"
    found = kernels(
        "%x: tensor<3x1000000000xf32>", result, f"{bodies[form]}\nfunc.return %r : {result}"
    )
    assert any("int64" in kernel.source for kernel in found)
    check_compiles(found, 90)


# Text.


@pytest.mark.parametrize("path", sorted(SOURCES.glob("*.mlir")), ids=lambda path: path.stem)
def test_golden_kernels_of_a_run(path: Path, golden: Any):
    (run, *_) = runs_of(parse_module(path.read_text()))
    source = lower_run(run, path.stem).source
    golden(Path(__file__).parent / "golden" / f"{path.stem}.triton.txt", source)


def test_names_are_those_of_the_program_and_never_reserved():
    source = text(
        "%lambda: tensor<8xf32>, %tl: tensor<8xf32>",
        "tensor<8xf32>",
        "%range = fuel.add %lambda, %tl : tensor<8xf32>\n"
        "%speed = fuel.exp %range : tensor<8xf32>\n"
        "func.return %speed : tensor<8xf32>",
    )
    assert "speed = libdevice.exp(" in source
    assigned = set(re.findall(r"^ +(\w+) = ", source, re.MULTILINE))
    assert assigned.isdisjoint(RESERVED)


def test_equal_kernels_of_a_run_are_one():
    (run,) = lowered(
        main(
            "%x: tensor<8x4xf32>, %w: tensor<4x4xf32>",
            "tensor<8x4xf32>",
            """
  %0 = fuel.matmul %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %1 = fuel.matmul %0, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %2 = fuel.matmul %1, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  func.return %2 : tensor<8x4xf32>
""",
        )
    )
    assert len(run.launches) == 3
    assert len(run.kernels) == 1


@pytest.mark.parametrize(("given", "wanted"), [("", "ieee"), (" {allow_tf32}", "tf32")])
def test_products_of_f32_keep_all_bits_unless_asked(given: str, wanted: str):
    (kernel,) = kernels(
        "%x: tensor<64x64xf32>, %y: tensor<64x64xf32>",
        "tensor<64x64xf32>",
        f"%z = fuel.matmul %x, %y{given} : tensor<64x64xf32>, tensor<64x64xf32>"
        " -> tensor<64x64xf32>\nfunc.return %z : tensor<64x64xf32>",
    )
    assert f'input_precision="{wanted}"' in kernel.source
    check_compiles([kernel], 90)


@pytest.mark.parametrize(("capability", "kib"), [(80, 163), (89, 99), (90, 227)])
def test_a_kernel_has_fewer_stages_where_shared_memory_is_short(capability: int, kib: int):
    """The largest tile of a product of bf16: 144 KiB with the three stages that it asks for."""
    type = "tensor<4096x4096xbf16>"
    (kernel,) = kernels(
        f"%x: {type}, %y: {type}",
        type,
        f"%z = fuel.matmul %x, %y : {type}, {type} -> {type}\nfunc.return %z : {type}",
    )
    assert dict(kernel.options)["num_stages"] == 3
    assert "tl.zeros((128, 256), tl.float32)" in kernel.source
    compiled = compile_kernel(kernel, capability)
    assert 0 < compiled.shared <= kib * 1024
    if capability == 90:
        assert compiled.shared == 3 * 2 * 64 * (128 + 256)
        assert "wgmma" in compiled.ptx


def test_a_storage_type_is_refused():
    with pytest.raises(LoweringError, match="f8E5M2"):
        kernels(
            "%x: tensor<4x3xf8E5M2>",
            "tensor<3x4xf8E5M2>",
            "%t = fuel.transpose %x : tensor<4x3xf8E5M2> -> tensor<3x4xf8E5M2>\n"
            "func.return %t : tensor<3x4xf8E5M2>",
        )
