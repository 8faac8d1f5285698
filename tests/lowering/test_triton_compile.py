# SPDX-License-Identifier: MIT OR Apache-2.0
"""Triton text becomes cubin without a GPU: what comes out, what is cached, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuel_dialect import knobs
from fuel_dialect.errors import LoweringError
from fuel_lowering.runs.launches import DeviceKernel, Parameter
from fuel_lowering.triton import compile as compiler
from fuel_lowering.triton.compile import compile_kernel
from triton_kernels import ADD, HEAD, kernel

ARRAYS = [np.zeros(1000, np.float32)] * 3


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(knobs.CACHE_DIR, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("capability", [80, 90])
def test_a_kernel_compiles_with_wide_loads_and_without_fusion(capability: int):
    compiled = compile_kernel(kernel("add", ADD, ARRAYS), capability)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert f".target sm_{capability}" in compiled.ptx
    assert ".entry add(" in compiled.ptx
    assert "ld.global.v4" in compiled.ptx
    assert "st.global.v4" in compiled.ptx
    assert "fma" not in compiled.ptx
    assert (compiled.name, compiled.threads, compiled.shared) == ("add", 128, 0)
    assert (compiled.global_scratch, compiled.profile_scratch) == (0, 0)


def test_two_scratch_pointers_follow_the_arguments():
    body = "tl.store(p0 + tl.arange(0, 16), n + m)"
    compiled = compile_kernel(kernel("put", body, [np.zeros(16, np.int32)], "n", "m"), 80)
    entry = compiled.ptx.partition(".entry put(")[2].partition(")")[0]
    kinds = [line.split()[1] for line in entry.strip().splitlines()]
    assert kinds == [".u64", ".u32", ".u32", ".u64", ".u64"]


def test_an_unaligned_buffer_is_read_element_by_element():
    whole = kernel("add", ADD, ARRAYS)
    first = replace(whole.parameters[0], aligned=False)
    compiled = compile_kernel(replace(whole, parameters=(first, *whole.parameters[1:])), 80)
    assert "ld.global.b32" in compiled.ptx
    assert "ld.global.v4" in compiled.ptx


def test_options_and_constants_reach_the_compiler():
    text = HEAD + "@triton.jit\ndef fill(p0, SIZE: tl.constexpr = 64):\n"
    text += "    tl.store(p0 + tl.arange(0, SIZE), 1.0)\n"
    parameters = (Parameter("p0", "f32", 64, True),)
    wide = DeviceKernel("fill", text, parameters, options=(("num_warps", 8),))
    assert compile_kernel(wide, 80).threads == 256


def test_subnormals_are_kept():
    body = "i = tl.arange(0, 16)\ntl.store(p0 + i, tl.exp2(tl.load(p0 + i)))"
    assert ".ftz" not in compile_kernel(kernel("power", body, ARRAYS[:1]), 80).ptx


def test_what_is_cached_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch):
    add = kernel("add", ADD, ARRAYS)
    first = compile_kernel(add, 80)

    def fail(kernel: DeviceKernel, capability: int):
        raise AssertionError(f"{kernel.name} is compiled for {capability}")

    monkeypatch.setattr(compiler, "_compile", fail)
    assert compile_kernel(add, 80) == first
    for changed in (replace(add, options=(("num_warps", 8),)), replace(add, name="sub")):
        with pytest.raises(AssertionError, match="is compiled for 80"):
            compile_kernel(changed, 80)
    with pytest.raises(AssertionError, match="is compiled for 90"):
        compile_kernel(add, 90)


def test_a_damaged_entry_is_compiled_again(folder: Path):
    add = kernel("add", ADD, ARRAYS)
    first = compile_kernel(add, 80)
    (path,) = (folder / "kernels").iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    assert compile_kernel(add, 80).cubin == first.cubin


def test_triton_keeps_no_cache_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch):
    from triton import knobs as switches

    switches.cache.reset()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "triton"))
    compile_kernel(kernel("add", ADD, ARRAYS), 80)
    assert not (folder / "triton").exists()
    assert switches.cache.dir == str(folder / "triton")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": HEAD}, "kernel add: its source defines no such @triton.jit function"),
        ({"scalars": ("n",)}, r"its source takes \(p0, p1, p2\), but is launched with .* n\)"),
        ({"source": "def add(:"}, "kernel add does not compile for sm_80: invalid syntax"),
        ({"source": kernel("add", "p0 + nothing", ARRAYS).source}, "nothing"),
    ],
)
def test_what_does_not_compile_is_named(change: dict[str, object], message: str):
    with pytest.raises(LoweringError, match=message):
        compile_kernel(replace(kernel("add", ADD, ARRAYS), **change), 80)


def test_a_type_without_kernels_is_named():
    add = kernel("add", ADD, ARRAYS)
    wrong = replace(add.parameters[0], dtype="f8e4m3")
    with pytest.raises(LoweringError, match="kernel add: dtype f8e4m3 in Triton; it takes i1, i8"):
        compile_kernel(replace(add, parameters=(wrong, *add.parameters[1:])), 80)


def test_the_interpreter_switch_is_an_error(monkeypatch: pytest.MonkeyPatch):
    from triton import knobs as switches

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert switches.runtime.interpret
    with pytest.raises(LoweringError, match="TRITON_INTERPRET"):
        compile_kernel(kernel("add", ADD, ARRAYS), 80)
