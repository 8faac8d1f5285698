# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel sources: candidates of each, the choice between them, bounds and limits."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_close, main, run
from effort import examples
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import FuelPassError, NoBackendForOp
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.description import KernelSource, TargetDescription
from fuel_dialect.targets.presets import PRESETS
from fuel_explain import explain, to_text
from fuel_passes.forking.fork_variants import ForkVariantsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.candidates import Candidate, candidates_for
from fuel_passes.planning.plan import PlanPass
from machines import UNSTEADY, only, sources
from programs import Program, programs

CONTEXT = make_context()
T = "tensor<4x8xf32>"
CHAIN = f"%0 = fuel.exp %x : {T}\n%1 = fuel.neg %0 : {T}\nfunc.return %1 : {T}"


SLOW_TILES = {"tiles": {"rate": 0.001}}


def formed(body: str = CHAIN, type: str = T) -> ModuleOp:
    module = main(f"%x: {type}", type, body)
    FormKernelsPass().apply(CONTEXT, module)
    return module


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def candidates(module: ModuleOp, topology: str = "cpu") -> tuple[Candidate, ...]:
    (kernel,) = kernels(module)
    return candidates_for(PRESETS[topology]).of(kernel)


def test_each_source_of_each_target_is_a_candidate():
    tiles, library, shaders = candidates(formed(), "cpu+vulkan")
    assert [c.where for c in (tiles, library, shaders)] == [
        "cpu/numpy tiles",
        "cpu/numpy library",
        "vulkan:0/kompute shaders",
    ]
    assert library.splits
    assert library.generic
    assert not tiles.splits
    assert tiles.price_ns is not None
    assert library.price_ns is not None
    assert tiles.price_ns + 500 < library.price_ns, "two calls, and what is between them"


@pytest.mark.parametrize("topology", ["cpu", "cpu+vulkan"])
def test_a_kernel_whose_library_calls_are_cheaper_becomes_them(topology: str):
    source = main(f"%x: {T}", T, CHAIN)
    module = source.clone()
    pipeline = OptimizePass(topology=topology)
    with sources("numpy", **SLOW_TILES):
        pipeline.apply(CONTEXT, module)
        module.verify()
        assert [(k.kind.data, k.label.data) for k in kernels(module)] == [
            ("library", "exp"),
            ("library", "neg"),
        ]
        again = parse_module(str(module))
        pipeline.apply(CONTEXT, again)
        assert str(again) == str(module)
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(evaluate(module, x)[0], evaluate(source, x)[0])
    StripPlanPass().apply(CONTEXT, module)
    if topology == "cpu":
        assert str(module) == str(source)


@examples(40)
@given(programs())
def test_programs_that_are_all_library_calls_compute_the_same(program: Program):
    module = program.module.clone()
    with sources("numpy", tiles={"kinds": ("movement", "scan")}):
        OptimizePass().apply(CONTEXT, module)
    module.verify()
    assert {k.kind.data for k in kernels(module)} <= {"library", "movement", "scan"}
    assert_close(run(program, {}, module), run(program, {}))


def test_what_only_a_generic_source_can_make_is_marked():
    module = main(f"%x: {T}", T, CHAIN)
    with sources("numpy", tiles={"lacks": only("exp")}):
        found = explain(module, OptimizePass())
    (item,) = found.functions[0].items
    assert item.only_generic
    tiles, library = item.candidates
    assert tiles.refused == "no kernel for exp (f32) -> f32"
    assert library.chosen
    assert "pointwise exp_neg, only a generic source can make it" in to_text(found)


def test_a_target_without_library_calls_is_not_forked_for():
    big = "tensor<512x512xf32>"
    module = formed(f"%0 = fuel.softmax_last_dim %x : {big}\nfunc.return %0 : {big}", big)
    with sources("numpy", library={"kinds": ("matmul",)}):
        ForkVariantsPass().apply(CONTEXT, module)
    assert "fuel.branch" not in str(module)
    ForkVariantsPass().apply(CONTEXT, module)
    assert "fuel.branch" in str(module)


def test_a_source_that_is_refused_has_no_arm():
    big = "tensor<512x512xf32>"
    module = formed(f"%0 = fuel.softmax_last_dim %x : {big}\nfunc.return %0 : {big}", big)
    with sources("numpy", library={"unstable": UNSTEADY}):
        ForkVariantsPass(deterministic=True).apply(CONTEXT, module)
        assert "fuel.branch" not in str(module)
        ForkVariantsPass().apply(CONTEXT, module)
        assert "fuel.branch" in str(module)


def test_a_source_that_reads_contiguous_operands_refuses_views():
    text = "%v = fuel.transpose %x : tensor<4x8xf32> -> tensor<8x4xf32>\n"
    text += "%0 = fuel.exp %v : tensor<8x4xf32>\nfunc.return %0 : tensor<8x4xf32>"
    module = main(f"%x: {T}", "tensor<8x4xf32>", text)
    FormKernelsPass().apply(CONTEXT, module)
    with sources("numpy", tiles={"strided": False}):
        tiles, library = candidates(module)
    assert tiles.refusal == "it reads contiguous operands only, not a transpose of one"
    assert library.refusal is None


def test_element_types_and_ops_of_a_source_are_narrower_than_the_target():
    with sources("numpy", tiles={"dtypes": ("f64",)}, library={"lacks": only("neg")}):
        tiles, library = candidates(formed())
    assert tiles.refusal == "no kernel for exp (f32) -> f32"
    assert library.refusal == "no kernel for neg (f32) -> f32"


# Limits.


def test_a_buffer_that_is_too_large_for_a_shader_is_refused_with_the_reason():
    big = "tensor<8192x8192xf32>"
    (*_, shaders) = candidates(
        formed(f"%0 = fuel.exp %x : {big}\nfunc.return %0 : {big}", big), "cpu+vulkan"
    )
    assert shaders.refusal == (
        "largest-buffer: a value of 268,435,456 bytes; 134,217,728 are allowed "
        "(the maxStorageBufferRange of common drivers)"
    )
    half = "tensor<4096x8192xf32>"
    (*_, shaders) = candidates(
        formed(f"%0 = fuel.exp %x : {half}\nfunc.return %0 : {half}", half), "cpu+vulkan"
    )
    assert shaders.refusal is None, "just as large as is allowed"


def test_the_buffers_of_a_device_are_as_large_as_it_says():
    big = "tensor<8192x8192xf32>"
    module = formed(f"%0 = fuel.exp %x : {big}\nfunc.return %0 : {big}", big)
    (kernel,) = kernels(module)
    preset = PRESETS["cpu+vulkan"]
    host, card = preset.devices

    def refusal(bytes: int) -> str | None:
        own = replace(preset, devices=(host, replace(card, largest_buffer_bytes=bytes)))
        (*_, shaders) = candidates_for(own).of(kernel)
        return shaders.refusal

    assert refusal(2**28) is None
    assert refusal(2**28 - 1) == (
        "largest-buffer: a value of 268,435,456 bytes; 268,435,455 are allowed "
        "(what the device says)"
    )


SCAN = """
%y = fuel.scan init(%c = %x : tensor<4x4xf32>) length {steps} -> ({results}) {{
  {body}
  fuel.scan_yield carry(%0 : tensor<4x4xf32>) {end}
}}
func.return %y : tensor<4x4xf32>"""
EXP = "%0 = fuel.exp %c : tensor<4x4xf32>"
SQUARE = "%0 = fuel.matmul %c, %c : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>"
TURNED = """%t = fuel.transpose %c : tensor<4x4xf32> -> tensor<4x4xf32>
  %0 = fuel.exp %t : tensor<4x4xf32>"""
INNER = """%0 = fuel.scan init(%d = %c : tensor<4x4xf32>) length 2 -> (tensor<4x4xf32>) {
  %1 = fuel.matmul %d, %d : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  fuel.scan_yield carry(%1 : tensor<4x4xf32>)
}"""


@pytest.mark.parametrize(
    ("steps", "body", "refusal"),
    [
        (10**6, EXP, None),
        (48, SQUARE, None),
        (2**16, SQUARE, None),
        (
            2**16 + 1,
            SQUARE,
            "scan-steps: 65,537 launches, for 65,537 steps of 1 kernels; 65,536 are allowed",
        ),
        (
            2**16 + 1,
            TURNED,
            "scan-steps: 65,537 launches, for 65,537 steps of 1 kernels; 65,536 are allowed",
        ),
        (3, INNER, "scan-steps: no scan in a scan, unless its body is elementwise"),
    ],
)
def test_a_gpu_makes_scans_of_so_many_launches(steps: int, body: str, refusal: str | None):
    text = SCAN.format(steps=steps, body=body, end="", results="tensor<4x4xf32>")
    module = formed(text, "tensor<4x4xf32>")
    (tiles, library, generated) = candidates(module, "cpu+h100")
    assert generated.refusal == refusal
    assert tiles.refusal is None
    assert library.refusal == ("it runs pointwise, reduction, matmul, library kernels, not scan")


def test_a_gpu_makes_no_scan_that_ends_by_itself():
    until = "%stop = fuel.const true -> tensor<i1>\n" + EXP
    text = SCAN.format(
        steps=3, body=until, end="until %stop : tensor<i1>", results="tensor<4x4xf32>, tensor<ui32>"
    ).replace("%y =", "%y, %n =")
    (_, _, generated) = candidates(formed(text, "tensor<4x4xf32>"), "cpu+h100")
    assert generated.refusal == "scan-steps: no scans that end at `until`"


# Bounds.


@pytest.mark.parametrize("topology", ["cpu", "cpu+vulkan"])
def test_where_a_precision_floor_leaves_nothing_all_refusals_are_said(topology: str):
    module = formed()
    before = str(module)
    with pytest.raises(
        NoBackendForOp,
        match=r"no target for exp_neg: cpu/numpy tiles: precision-floor: tiles may give a exp "
        r"of f32 4 .*; cpu/numpy library: precision-floor: .*; exp_neg is \(f32\) -> f32",
    ):
        PlanPass(topology=topology, max_ulps=3).apply(CONTEXT, module)
    assert str(module) == before
    with pytest.raises(NoBackendForOp, match="no target for exp_neg"):
        OptimizePass(topology=topology, max_ulps=0).apply(CONTEXT, module.clone())
    PlanPass(topology=topology, max_ulps=4).apply(CONTEXT, module)


def test_determinism_takes_the_source_that_gives_the_same_bits():
    with sources("numpy", tiles={"unstable": UNSTEADY}):
        free, strict = main(f"%x: {T}", T, CHAIN), main(f"%x: {T}", T, CHAIN)
        OptimizePass().apply(CONTEXT, free)
        OptimizePass(deterministic=True).apply(CONTEXT, strict)
    assert [k.kind.data for k in kernels(free)] == ["pointwise"]
    assert [k.kind.data for k in kernels(strict)] == ["library", "library"]


def test_bounds_hold_in_arms_that_a_person_wrote():
    module = main(
        f"%x: {T}",
        T,
        f"""
        %y = fuel.branch "mine"(%a = %x : {T}) -> {T}
        arm on #fuel.target<cpu, "numpy"> {{
          fuel.yield %a : {T}
        }}
        arm on #fuel.target<vulkan:0, "kompute"> {{
          %0 = fuel.exp %a : {T}
          fuel.yield %0 : {T}
        }}
        func.return %y : {T}""",
    )
    with pytest.raises(
        NoBackendForOp, match="no target for exp: vulkan:0/kompute: precision-floor"
    ):
        OptimizePass(topology="cpu+vulkan", max_ulps=10).apply(CONTEXT, module.clone())
    OptimizePass(topology="cpu", max_ulps=10).apply(CONTEXT, module)


def test_a_bound_that_is_none_is_refused():
    with pytest.raises(FuelPassError, match="max-ulps must be >= 0, got -1"):
        OptimizePass(max_ulps=-1).apply(CONTEXT, main(f"%x: {T}", T, CHAIN))


# What nobody can price.


def unpriced(kernel: KernelOp, target: TargetDescription, source: KernelSource) -> int | None:
    return None if source.name == "shaders" else 10**12


def test_what_has_no_price_never_wins_but_serves_where_it_is_wanted():
    with patch("fuel_passes.planning.candidates.source_ns", unpriced):
        module = formed()
        PlanPass(topology="cpu+vulkan").apply(CONTEXT, module)
        assert [k.target for k in kernels(module)] == [None]
        PlanPass(topology="cpu+vulkan", device="vulkan").apply(CONTEXT, module)
        assert [str(k.target) for k in kernels(module)] == ["vulkan:0/kompute"]


@examples(60)
@given(programs())
def test_by_the_model_no_library_call_is_cheaper_than_a_tiled_loop(program: Program):
    """So that plans change where something was measured, and nowhere else."""
    module = program.module.clone()
    FormKernelsPass().apply(CONTEXT, module)
    found = candidates_for(PRESETS["cpu"])
    for kernel in kernels(module):
        tiles, *others = found.of(kernel)
        assert tiles.refusal or all(
            (c.price_ns or 0) >= (tiles.price_ns or 0) for c in others if c.refusal is None
        )
