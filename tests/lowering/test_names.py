# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of the IR are of any length and any characters; what is printed as code parses."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from agreement import main
from effort import SLOW
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.memory import WeightOp
from fuel_lowering.kompute.compile import compile_kernel
from fuel_lowering.kompute.language import RESERVED, GlslLanguage, library
from fuel_lowering.kompute.lower import lower_run
from fuel_lowering.kompute.target import KomputeTarget
from fuel_lowering.numpy.target import NumpyTarget
from fuel_lowering.runs.printing import runs_of, with_runs
from fuel_lowering.triton.target import TritonTarget
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import functions
from fuel_runtime import Session
from targets import run_on

EXAMPLES = Path(__file__).parents[2] / "examples"
PRIMITIVES = GlslLanguage.PRIMITIVES
GLSL = (
    "atomic_uint sampler2D isampler3D usamplerCube image2DMS uimageBuffer texture2D subpassInput "
    "dvec3 bvec2 hvec2 fvec4 dmat2x3 mat3x4 mat2 common partition active asm class union enum "
    "typedef template this resource goto fixed superp coherent devicecoherent workgroupcoherent "
    "nonprivate nonuniformEXT int8_t uint64_t float16_t f16vec2 i64vec3 sampler2DMSArray half "
    "samplerCubeArrayShadow image2DRect sampler3DRect sample patch precise demote filter varying "
    "attribute noise1 ftransform abs gl_Position gl_ gl_WorkGroupID main a__b __ _ _x x_ q lane p"
).split()
PYTHON = [*keyword.kwlist, *keyword.softkwlist, *dir(builtins)]
OURS = (
    "tl triton libdevice np ml_dtypes support pool scratch tile status check i n t0 out_ptr x_ptr "
    "x x_buffer offset_x offset_x_buffer y out result main f32 i32 acc start lhs rhs pid m k b "
    "v t zero zero_bits first last left_tile VULKAN GL_EXT_x GL_ES fuel_erf "
    "team_sum_float shared_float Scalars add_kernel tile_0"
).split()
ODD = [
    "a" * 93,
    "a" * 94,
    "b" * 5000,
    "über",
    "ﬁ",
    "fi",
    "数",
    "a\u2028b",
    "a\nb",
    "a\x00b",
    "a\\",
    "1",
    "0x",
    "a b",
    "a.b",
    '"""',
    "'",
    "#",
    "*/",
    "{0}",
    "{y}",
    "%s",
    "$x",
    "-",
    "é" * 200,
]
CALLED = sorted(
    set(re.findall(r"[a-zA-Z_]\w*", " ".join([*PRIMITIVES.values(), *library().values()])))
)
"""The words of the GLSL that programs are made of: what has the name of one must not hide it."""
FEW = [*OURS, *ODD]
MORE = {
    "numpy": PYTHON,
    "triton": PYTHON,
    "kompute": list(dict.fromkeys([*GLSL, *sorted(RESERVED), *CALLED])),
}
"""The words of a target's language that a name may be too."""
TARGETS = {"numpy": NumpyTarget, "triton": TritonTarget, "kompute": KomputeTarget}
VALUE_NAME = re.compile(r"[A-Za-z_$.-][\w$.-]*", re.ASCII)
"""The names that a value may have in the IR; a label may be any text."""
COLUMNS = 12


def named(names: list[str]) -> ModuleOp:
    """Chains over arguments, with names for arguments, results and kernels."""
    arguments = ", ".join(f"%a{i}: tensor<8xf32>" for i in range(len(names)))
    lines = ["%s0 = fuel.tanh %a0 : tensor<8xf32>"]
    for i in range(1, len(names)):
        lines.append(f"%m{i} = fuel.mul %a{i}, %s{i - 1} : tensor<8xf32>")
        lines.append(f"%s{i} = fuel.maximum %m{i}, %a{i} : tensor<8xf32>")
    last = f"%s{len(names) - 1}"
    lines.append(f"%r = fuel.sum_all {last} : tensor<8xf32> -> tensor<f32>")
    lines.append(f"%c = fuel.concat %a0, {last} {{dim = 0 : i64}} : tensor<8xf32>, tensor<8xf32>")
    lines[-1] += " -> tensor<16xf32>"
    lines.append(f"func.return {last}, %r, %c : tensor<8xf32>, tensor<f32>, tensor<16xf32>")
    module = main(arguments, "(tensor<8xf32>, tensor<f32>, tensor<16xf32>)", "\n".join(lines))
    OptimizePass().apply(make_context(), module)
    for op in module.walk():
        for number, value in enumerate(
            [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
        ):
            name = names[number % len(names)]
            value.name_hint = name if VALUE_NAME.fullmatch(name) else None
        if isinstance(op, KernelOp):
            op.properties["label"] = StringAttr(names[len(op.inputs) % len(names)])
    return module


def groups(names: list[str]) -> list[list[str]]:
    return [names[i : i + COLUMNS] for i in range(0, len(names), COLUMNS)]


EACH = [
    pytest.param("numpy", FEW, id="numpy"),
    pytest.param("triton", FEW, id="triton"),
    pytest.param("kompute", FEW, id="kompute", marks=pytest.mark.needs_vulkan),
    pytest.param("numpy", MORE["numpy"], id="numpy-words", marks=SLOW),
    pytest.param("triton", MORE["triton"], id="triton-words", marks=SLOW),
    pytest.param(
        "kompute", MORE["kompute"], id="kompute-words", marks=[SLOW, pytest.mark.needs_vulkan]
    ),
]


def arrays(count: int) -> list[Any]:
    return [np.linspace(-1, 1, 8, dtype=np.float32) * (i + 1) for i in range(count)]


@pytest.mark.parametrize(("target", "words"), EACH)
def test_programs_with_any_names_run(target: str, words: list[str]) -> None:
    for names in groups(words):
        module, given = named(names), arrays(len(names))
        plain = named([f"x{i}" for i in range(len(names))])
        want = Session().compile(plain, optimize=False)(*given)
        if target == "numpy":
            got = Session().compile(module, optimize=False)(*given)
        else:
            got = run_on(target, module, given)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, err_msg=str(names))


@pytest.mark.parametrize("target", TARGETS.values())
def test_names_of_functions_and_weights_are_printed_as_code(target: Any) -> None:
    body = '%w = fuel.weight "w" : tensor<8xf32>\n%y = fuel.mul %x, %w : tensor<8xf32>\n'
    module = main("%x: tensor<8xf32>", "tensor<8xf32>", f"{body}func.return %y : tensor<8xf32>")
    (function,) = functions(module)
    for name in FEW[1:]:
        module.body.block.add_op(clone := function.clone())
        (weight,) = (op for op in clone.walk() if isinstance(op, WeightOp))
        clone.properties["sym_name"] = weight.properties["key"] = StringAttr(name)
    output = io.StringIO()
    target().emit(make_context(), module, output)
    text = output.getvalue()
    assert text.isascii()
    if target is KomputeTarget:
        heads = re.findall(r"(?:^|;\n}\n)([^;]*?)#version", text)
        lines = [line for head in heads for line in head.splitlines() if line]
        assert len(heads) == len(FEW)
        assert all(line.startswith("//") for line in lines)
        return
    defined = [f.name for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)]
    assert len(defined) == len(FEW)
    if target is NumpyTarget:
        assert len(set(defined)) == len(FEW)


@pytest.mark.parametrize("target", TARGETS.values())
def test_printed_code_keeps_one_name_on_one_line(target: Any) -> None:
    for names in groups(FEW):
        output = io.StringIO()
        target().emit(make_context(), named(names), output)
        text = output.getvalue()
        assert text.isascii()
        if target is not KomputeTarget:
            compile(text, "<printed>", "exec")


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("name", ["transformer_block", "gated_recurrent_cell"])
def test_shaders_whose_values_have_the_names_of_their_own_words_compile(
    name: str, device: Literal["cpu", "gpu"]
) -> None:
    module = with_runs(make_context(), parse_module((EXAMPLES / f"{name}.mlir").read_text()))
    for _, run in runs_of(module):
        words = sorted(set(re.findall(r"\b[A-Za-z]\w*", lower_run(run, "main", device).source)))
        inside = (block for op in run.walk() for region in op.regions for block in region.blocks)
        results = (result for op in run.walk() for result in op.results)
        values = [*results, *(argument for block in inside for argument in block.args)]
        for first in range(0, len(words), -(-len(words) // 2)):
            for number, value in enumerate(values, first):
                value.name_hint = words[number % len(words)]
            for kernel in lower_run(run, "main", device).kernels:
                assert compile_kernel(kernel)
