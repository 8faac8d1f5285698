# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Triton text to cubin, ahead of time: no GPU and no torch take part.

A compiled kernel takes its buffers and scalars in order, then two pointers to scratch memory,
which may be null where their sizes are 0. It runs blocks of 32 times `num_warps` threads.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

from fuel_dialect import knobs
from fuel_dialect.errors import LoweringError
from fuel_lowering import cache
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.triton.source import LOCK, constants, entry_of, module_of, pointee

REVISION = "2"
"""Changes when the same text and versions give another cubin, or another form of entry."""

SHARED_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}
"""Shared memory that a block may have, by compute capability (CUDA programming guide)."""

STAGES = "num_stages"

WARP = 32
ALIGNMENT = 16


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel for one compute capability, and what a launch of it takes; sizes in bytes."""

    name: str
    cubin: bytes
    ptx: str
    num_warps: int
    shared: int
    global_scratch: int
    profile_scratch: int

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return WARP * self.num_warps


def compile_kernel(kernel: DeviceKernel, capability: int) -> CompiledKernel:
    """
    Compile for a compute capability such as 90, or read what an earlier process compiled.

    Floating-point operations are not fused, so that a kernel computes what its text says. Raises
    `LoweringError` with Triton's message.
    """
    name = cache.key(
        "triton",
        REVISION,
        version("triton"),
        knobs.triton_environment(),
        str(capability),
        kernel.name,
        kernel.source,
        repr((kernel.parameters, kernel.scalars, kernel.options)),
    )
    known = cache.get(name, _unpack)
    if known is not None:
        return known
    compiled = _compile_to_fit(kernel, capability)
    cache.put(name, _pack(compiled))
    return compiled


def _compile_to_fit(kernel: DeviceKernel, capability: int) -> CompiledKernel:
    """With as many stages as the kernel asks for, or fewer where shared memory is short."""
    most = SHARED_KIB.get(capability)
    for stages in range(dict(kernel.options).get(STAGES, 1), 1, -1):
        compiled = _compile(_with_stages(kernel, stages), capability)
        if most is None or compiled.shared <= most * 1024:
            return compiled
    return _compile(_with_stages(kernel, 1) if most else kernel, capability)


def _with_stages(kernel: DeviceKernel, stages: int) -> DeviceKernel:
    options = dict(kernel.options)
    given = {STAGES: stages} if STAGES in options else {}
    return replace(kernel, options=tuple({**options, **given}.items()))


def _compile(kernel: DeviceKernel, capability: int) -> CompiledKernel:
    from triton import knobs as switches
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as compile_source

    if switches.runtime.interpret:
        raise LoweringError(f"kernel {kernel.name}: Triton compiles nothing under TRITON_INTERPRET")
    options = {**dict(kernel.options), "enable_fp_fusion": False, "enable_reflect_ftz": False}
    try:
        with module_of(kernel) as names, _private_cache(switches):
            entry = entry_of(kernel, names)
            source = ASTSource(entry, _signature(kernel, entry), constants(entry), _attrs(kernel))
            result = compile_source(source, GPUTarget("cuda", capability, WARP), options)
    except LoweringError:
        raise
    except Exception as error:
        raise LoweringError(
            f"kernel {kernel.name} does not compile for sm_{capability}: {error}"
        ) from error
    facts = result.metadata
    return CompiledKernel(
        facts.name,
        result.asm["cubin"],
        result.asm["ptx"],
        facts.num_warps,
        facts.shared,
        facts.global_scratch_size,
        facts.profile_scratch_size,
    )


def _signature(kernel: DeviceKernel, entry: Any) -> dict[str, str]:
    types = {each.name: f"*{pointee(kernel, each.dtype)}" for each in kernel.parameters}
    types |= dict.fromkeys(kernel.scalars, "i32")
    return types | dict.fromkeys(constants(entry), "constexpr")


def _attrs(kernel: DeviceKernel) -> dict[tuple[int], list[list[Any]]]:
    """Say which pointers are aligned: without it every load is of one element."""
    return {
        (index,): [["tt.divisibility", ALIGNMENT]]
        for index, parameter in enumerate(kernel.parameters)
        if parameter.aligned
    }


@contextlib.contextmanager
def _private_cache(switches: Any) -> Iterator[None]:
    """Keep Triton's own cache, which knows no bound, out of the home of the user."""
    with (
        LOCK,
        tempfile.TemporaryDirectory(prefix="fuel-", ignore_cleanup_errors=True) as folder,
        switches.cache.scope(),
    ):
        switches.cache.dir = folder
        yield


def _pack(compiled: CompiledKernel) -> bytes:
    facts = asdict(replace(compiled, cubin=b""))
    del facts["cubin"]
    return json.dumps(facts).encode() + b"\n" + compiled.cubin


def _unpack(stored: bytes) -> CompiledKernel:
    """Reads what `_pack` wrote. Raises `ValueError` or `TypeError` for anything else."""
    facts, _, cubin = stored.partition(b"\n")
    compiled = CompiledKernel(cubin=cubin, **json.loads(facts))
    numbers = (compiled.num_warps, compiled.shared, compiled.global_scratch)
    if not all(type(number) is int for number in (*numbers, compiled.profile_scratch)):
        raise ValueError(f"sizes are whole numbers, not {facts!r}")
    if not isinstance(compiled.name, str) or not isinstance(compiled.ptx, str) or not cubin:
        raise ValueError("a compiled kernel has a name, its PTX and a cubin")
    return compiled
