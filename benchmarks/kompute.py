# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures fuel on the first Vulkan device: its shaders, and its runtime beside Kompute itself.

A fused chain runs beside a shader for each op, and a product beside one output per invocation.
Then the same shader runs some number of times, each reading what the one before wrote: as a
sequence recorded with `kp` alone, as a recording of fuel's driver, and as a call of a loaded run.
The exit code is 1 if a result is wrong or there is no device, 2 with `--strict` if a limit is
missed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

import facts
import harness
import numpy as np
import output
import shaders
from harness import Array, Contestant, Measurement, Settings, Workload, WrongResult
from output import Target
from xdsl.dialects.builtin import TensorType, f32

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import DeviceUnavailable
from fuel_lowering.runs.launches import Buffer, DeviceKernel, DeviceRun, Launch, Parameter
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.interface import BoundLaunch
from fuel_runtime.devices.vulkan.driver import VulkanDriver, open_vulkan

BARE, DRIVER, CALL = "kp sequence", "fuel driver", "fuel call"
LOCAL = 64
SOURCE = """#version 450
layout(local_size_x = {local}) in;
layout(binding = 0) readonly buffer From {{ float from[]; }};
layout(binding = 1) coherent writeonly buffer To {{ float to[]; }};
void main() {{
  uint i = gl_GlobalInvocationID.x;
  if (i < {elements}u) to[i] = from[i] * 0.5 + 1.0;
}}
"""


def chain(elements: int, launches: int) -> DeviceRun:
    """A run of launches that depend on one another: input, temporaries, output."""
    type = TensorType(f32, [elements])
    parameters = tuple(Parameter(n, "f32", elements, n == "to") for n in ("from", "to"))
    kernel = DeviceKernel("step", SOURCE.format(local=LOCAL, elements=elements), parameters)
    inner = tuple(Buffer("temporary", "f32", elements) for _ in range(launches - 1))
    grid = (-(-elements // LOCAL), 1, 1)
    return DeviceRun(
        entry="chain",
        target="kompute",
        kernels=(kernel,),
        buffers=(Buffer("input", "f32", elements), *inner, Buffer("output", "f32", elements)),
        launches=tuple(Launch(0, (i, i + 1), (0, 0), (), grid) for i in range(launches)),
        inputs=(type,),
        outputs=(type,),
        constants={},
        weights={},
    )


def bare(driver: VulkanDriver, run: DeviceRun, x: Array) -> Contestant:
    """The run by `kp` alone, without barriers between its launches."""
    import kp  # pyright: ignore[reportMissingImports]

    manager = kp.Manager(0)
    spirv = driver.load(run.kernels[0]).spirv
    kind = kp.TensorTypes.device if driver.staged else kp.TensorTypes.host
    tensors = [manager.tensor_t(x.view(np.uint32), kind) for _ in run.buffers]
    manager.sequence().record(kp.OpTensorSyncDevice(tensors)).eval()
    sequence = manager.sequence()
    for launch in run.launches:
        bound = [tensors[i] for i in launch.buffers]
        sequence.record(kp.OpAlgoDispatch(manager.algorithm(bound, spirv, list(launch.grid))))

    def values(_: Any) -> list[Array]:
        manager.sequence().record(kp.OpTensorSyncLocal([tensors[-1]])).eval()
        return [tensors[-1].data().view(np.float32)]

    return Contestant(BARE, sequence.eval, values)


def replayed(driver: VulkanDriver, run: DeviceRun, x: Array) -> Contestant:
    """The run as a recording of the driver."""
    memory = [driver.allocate(x.nbytes) for _ in run.buffers]
    driver.write(memory[0], x.view(np.uint8))
    loaded = driver.load(run.kernels[0])
    recording = driver.record(
        [
            BoundLaunch(loaded, tuple(memory[i] for i in launch.buffers), (0, 0), (), launch.grid)
            for launch in run.launches
        ]
    )

    def values(_: Any) -> list[Array]:
        host = np.empty_like(x)
        driver.read(memory[-1], host.view(np.uint8))
        return [host]

    return Contestant(DRIVER, lambda: driver.replay(recording), values)


def called(driver: VulkanDriver, run: DeviceRun, x: Array) -> Contestant:
    """The run as the runtime calls it: lock, memory for the result, the recording that fits."""

    def lower(op: Any, entry: str) -> DeviceRun:
        raise AssertionError("the run is written by hand")

    device = BufferDevice(DeviceAttr.of("vulkan:0"), driver, {"kompute": lower})
    function, value = device.load([run], {})[run.entry], device.put(x)
    return Contestant(CALL, lambda: function(value), lambda results: [device.get(results[0])])


def measure(driver: VulkanDriver, elements: int, launches: int, settings: Settings) -> Measurement:
    """All three, side by side."""
    run = chain(elements, launches)
    x = np.random.default_rng(0).standard_normal(elements).astype(np.float32)
    expected = x
    for _ in range(launches):
        expected = expected * np.float32(0.5) + np.float32(1.0)
    title = f"{launches} launches on {elements:,} f32, on {driver.identity}"
    contestants = [make(driver, run, x) for make in (bare, replayed, called)]
    name = f"replay_{launches}"
    return harness.measure(Workload(name, title, contestants, [expected]), settings)


LAUNCHES = ((1 << 20, 1), (1 << 16, 20))
"""Elements of a step, and how many steps, for each measurement of the runtime."""

REPLAYED = "a replay takes at most 1.1 times the sequence of kp"

TARGETS = (
    Target("shader_chain", shaders.APART, shaders.FUEL, 4.0, "one kernel, 4 times as fast", True),
    Target("shader_matmul", shaders.PLAIN, shaders.FUEL, 5.0, "at least 5 times as fast", True),
    *(Target(f"replay_{count}", DRIVER, BARE, 1.1, REPLAYED) for _, count in LAUNCHES),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: a look, not a figure")
    parser.add_argument("--rounds", type=int, help="rounds of each workload")
    parser.add_argument("--out", type=Path, help="a file for the figures, as JSON")
    parser.add_argument("--strict", action="store_true", help="exit code 2 if a limit is missed")
    return parser.parse_args()


def measured(settings: Settings) -> list[Measurement]:
    driver = open_vulkan(DeviceAttr.of("vulkan:0"))
    made = [harness.measure(make(driver), settings) for make in (shaders.chain, shaders.product)]
    return made + [measure(driver, *sizes, settings) for sizes in LAUNCHES]


def main() -> int:
    options = arguments()
    settings = Settings.quick() if options.quick else Settings()
    if options.rounds:
        settings = replace(settings, rounds=options.rounds)
    machine = facts.machine()
    try:
        measurements = measured(settings)
    except (DeviceUnavailable, WrongResult) as error:
        print(f"kompute: {error}", file=sys.stderr)
        return 1
    found = output.verdicts(measurements, TARGETS)
    print("\n".join([*output.table(measurements), *output.verdict_lines(found)]))
    if options.out:
        today = date.today().isoformat()
        report = output.record(today, machine, asdict(settings), measurements, TARGETS)
        output.write_json(options.out, report)
    return 2 if options.strict and not all(v.passed for v in found) else 0


if __name__ == "__main__":
    sys.exit(main())
