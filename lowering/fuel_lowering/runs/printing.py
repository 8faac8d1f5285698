# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints for the targets of `xdsl-opt -t`: the runs of a module, and launches as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from fuel_dialect import dtypes
from fuel_dialect.ops.control import RunOp
from fuel_dialect.tensors import AnyTensor
from fuel_lowering.names import printable, stem
from fuel_lowering.runs.launches import Buffer, DeviceRun, Launch


def print_runs(
    ctx: Context,
    module: ModuleOp,
    output: IO[str],
    lower: Callable[[RunOp, str], DeviceRun],
    comment: str = "#",
) -> None:
    """The kernels and launches of all runs, lowered; a line that begins with `comment` is one."""
    runs = [lower(run, entry) for entry, run in runs_of(with_runs(ctx, module))]
    output.write("\n\n".join(device_run_text(run, comment) for run in runs))


def with_runs(ctx: Context, module: ModuleOp) -> ModuleOp:
    """A module that has runs as it is, another one optimised, on a copy, with every arm kept."""
    if any(isinstance(op, RunOp) for op in module.walk()):
        return module
    from fuel_passes.pipeline import OptimizePass

    copy = module.clone()
    OptimizePass(variants="keep").apply(ctx, copy)
    return copy


def runs_of(module: ModuleOp) -> Iterator[tuple[str, RunOp]]:
    """Yields every run with an identifier: its function's name, as one of code, and a number."""
    counts: dict[str, count[int]] = {}
    for function in module.walk():
        if not isinstance(function, FuncOp):
            continue
        name = stem(function.sym_name.data, "run")
        numbers = counts.setdefault(name, count())
        inside = (op for op in function.walk() if isinstance(op, RunOp))
        yield from ((f"{name}_{next(numbers)}", run) for run in inside)


def type_text(type: AnyTensor) -> str:
    """A type in one word or two: `f32[4, 16]`."""
    return f"{dtypes.of_type(type)}{list(type.get_shape())}"


def device_run_text(run: DeviceRun, comment: str = "#") -> str:
    """The launches of a run, as comments, and the text of its kernels."""
    inputs, outputs = (", ".join(map(type_text, types)) for types in (run.inputs, run.outputs))
    lines = [f"{run.entry}: {inputs} -> {outputs}"]
    names = [_buffer_name(buffer, number) for number, buffer in enumerate(run.buffers)]
    for name, buffer in zip(names, run.buffers, strict=True):
        if buffer.role not in ("input", "output"):
            lines.append(f"  {name}: {buffer.dtype}[{buffer.elements}]")
    lines += [f"  {_launch_text(run, launch, names)}" for launch in run.launches]
    heading = "".join(f"{comment} {printable(line)}\n" for line in lines)
    return f"{heading}\n{run.source}" if run.kernels else heading


def _buffer_name(buffer: Buffer, number: int) -> str:
    if buffer.role in ("input", "output"):
        return f"{buffer.role}_{buffer.index}"
    if buffer.role == "weight":
        return f'weight "{buffer.key}"'
    return {"constant": buffer.key, "status": "status"}.get(buffer.role, f"temporary_{number}")


def _launch_text(run: DeviceRun, launch: Launch, names: list[str]) -> str:
    kernel = run.kernels[launch.kernel]
    operands = [
        f"{names[buffer]} + {offset} bytes" if offset else names[buffer]
        for buffer, offset in zip(launch.buffers, launch.byte_offsets, strict=True)
    ]
    operands += [
        f"{name}={value}" for name, value in zip(kernel.scalars, launch.scalars, strict=True)
    ]
    grid = "x".join(str(extent) for extent in launch.grid)
    return f"{kernel.name}[{grid}]({', '.join(operands)})"
