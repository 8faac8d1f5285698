# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workloads on the first Vulkan device: generated shaders beside plainer ones, all replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from harness import Array, Contestant, Workload
from xdsl.dialects.builtin import TensorType, f32

from fuel_dialect.context import parse_module
from fuel_dialect.ops.control import RunOp
from fuel_lowering.kompute.lower import lower_run
from fuel_lowering.runs.launches import Buffer, DeviceKernel, DeviceRun, Launch, Parameter
from fuel_runtime.devices.interface import BoundLaunch
from fuel_runtime.devices.vulkan.driver import VulkanDriver

FUEL, APART, PLAIN = "fuel", "8 shaders", "one output per invocation"

CHAIN = (
    "fuel.add %{0}, %y",
    "fuel.mul %{0}, %x",
    "fuel.relu %{0}",
    "fuel.add_scalar %{0} {{scalar = 1.5 : f64}}",
    "fuel.maximum %{0}, %y",
    "fuel.neg %{0}",
    "fuel.mul_scalar %{0} {{scalar = 0.25 : f64}}",
    "fuel.abs %{0}",
)
"""Eight ops, each on the result of the one before."""


def chain(driver: VulkanDriver, elements: int = 1 << 22) -> Workload:
    """Eight pointwise ops as one kernel, and as a kernel each."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(elements).astype(np.float32) for _ in range(2))
    t = np.abs(-np.maximum(np.maximum((x + y) * x, 0) + np.float32(1.5), y) * np.float32(0.25))
    runs = {FUEL: _chain([CHAIN], elements), APART: _chain([[op] for op in CHAIN], elements)}
    contestants = [_replay(name, driver, run, [x, y]) for name, run in runs.items()]
    title = f"a chain of {len(CHAIN)} ops on {elements:,} f32, on {driver.identity}"
    return Workload("shader_chain", title, contestants, [t])


def _chain(kernels: Sequence[Sequence[str]], elements: int) -> DeviceRun:
    """The ops as kernels of one run."""
    type = f"tensor<{elements}xf32>"
    lines: list[str] = []
    last, number = "x", 0
    for ops in kernels:
        lines.append(
            f'%k{number} = fuel.kernel pointwise "step"(%v = %{last} : {type}, %x_ = %x : {type}, '
            f"%y_ = %y : {type}) -> {type} {{"
        )
        inner, last = "v", f"k{number}"
        for op in ops:
            number += 1
            text = op.format(inner).replace("%x", "%x_").replace("%y", "%y_")
            lines.append(f"  %t{number} = {text} : {type}")
            inner = f"t{number}"
        lines.append(f"  fuel.yield %{inner} : {type}\n}}")
    body = "\n".join(lines)
    return _run(
        f"func.func @main(%a: {type}, %b: {type}) -> {type} {{\n"
        f'%r = fuel.run on #fuel.target<vulkan:0, "kompute"> (%x = %a : {type}, %y = %b : {type}) '
        f"-> {type} {{\n{body}\nfuel.yield %{last} : {type}\n}}\nfunc.return %r : {type}\n}}"
    )


def product(driver: VulkanDriver, size: int = 512) -> Workload:
    """A matrix product beside the shader that everybody writes first."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    runs = {FUEL: _product(size), PLAIN: _plain_product(size)}
    contestants = [_replay(name, driver, run, [a, b]) for name, run in runs.items()]
    title = f"a product of {size}x{size} f32, on {driver.identity}"
    return Workload("shader_matmul", title, contestants, [(a @ b).reshape(-1)])


def _product(size: int) -> DeviceRun:
    type = f"tensor<{size}x{size}xf32>"
    return _run(
        f"func.func @main(%a: {type}, %b: {type}) -> {type} {{\n"
        f'%r = fuel.run on #fuel.target<vulkan:0, "kompute"> (%x = %a : {type}, %y = %b : {type}) '
        f'-> {type} {{\n%k = fuel.kernel matmul "matmul"(%l = %x : {type}, %m = %y : {type}) '
        f"-> {type} {{\n%p = fuel.matmul %l, %m : {type}, {type} -> {type}\n"
        f"fuel.yield %p : {type}\n}}\nfuel.yield %k : {type}\n}}\nfunc.return %r : {type}\n}}"
    )


PLAIN_SOURCE = """#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0) readonly buffer A {{ float a[]; }};
layout(binding = 1) readonly buffer B {{ float b[]; }};
layout(binding = 2) coherent writeonly buffer C {{ float c[]; }};
void main() {{
  uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
  float sum = 0.0;
  for (uint k = 0; k < {size}; k++) sum += a[row * {size} + k] * b[k * {size} + column];
  c[row * {size} + column] = sum;
}}
"""


def _plain_product(size: int) -> DeviceRun:
    count = size * size
    type = TensorType(f32, [size, size])
    parameters = tuple(Parameter(n, "f32", count, n == "c") for n in "abc")
    buffers = (
        *(Buffer("input", "f32", count, i) for i in range(2)),
        Buffer("output", "f32", count),
    )
    return DeviceRun(
        entry="plain",
        target="kompute",
        kernels=(DeviceKernel("plain", PLAIN_SOURCE.format(size=size), parameters),),
        buffers=buffers,
        launches=(Launch(0, (0, 1, 2), (0, 0, 0), (), (size // 8, size // 8, 1)),),
        inputs=(type, type),
        outputs=(type,),
        constants={},
        weights={},
    )


def _run(text: str) -> DeviceRun:
    module = parse_module(text)
    (run,) = (op for op in module.walk() if isinstance(op, RunOp))
    return lower_run(run, "main_0")


def _replay(name: str, driver: VulkanDriver, run: DeviceRun, inputs: Sequence[Array]) -> Contestant:
    """A run recorded once, with its operands in place."""
    handles = [driver.allocate(-(-buffer.bytes // 16) * 16) for buffer in run.buffers]
    for handle, buffer in zip(handles, run.buffers, strict=True):
        if buffer.role == "input":
            driver.write(handle, inputs[buffer.index].reshape(-1).view(np.uint8))
    loaded = [driver.load(kernel) for kernel in run.kernels]
    recording = driver.record(
        [
            BoundLaunch(
                loaded[launch.kernel],
                tuple(handles[b] for b in launch.buffers),
                launch.byte_offsets,
                launch.scalars,
                launch.grid,
            )
            for launch in run.launches
        ]
    )
    (output,) = (n for n, buffer in enumerate(run.buffers) if buffer.role == "output")

    def values(_: Any) -> list[Array]:
        host = np.empty(run.buffers[output].elements, np.float32)
        driver.read(handles[output], host.view(np.uint8))
        return [host]

    return Contestant(name, lambda: driver.replay(recording), values)
