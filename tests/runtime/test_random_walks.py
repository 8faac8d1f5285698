# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random programs on random machines: what a walk over several devices gives is the reference's."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from agreement import assert_close, decisions, run
from effort import examples
from fake_devices import FakeDriver, fake
from fuel_dialect.context import load_program, make_context
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.targets.machine import Topology
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Session
from fuel_runtime.devices.buffer_device import BufferDevice
from machines import machines, placed_programs
from programs import Program

CONTEXT = make_context()
PIPELINES = [
    OptimizePass(variants=v, granularity=g) for v in ("bake", "keep") for g in ("segment", "chain")
]  # pyright: ignore[reportArgumentType]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, Program]:
    machine = draw(machines())
    return machine, draw(placed_programs(machine))


def optimised(module: ModuleOp, pipeline: OptimizePass) -> ModuleOp:
    module = module.clone()
    pipeline.apply(CONTEXT, module)
    return module


STEP_READS_A_WEIGHT = """
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<4xf32>) {
  %xs = fuel.const 1.0 : f32 -> tensor<4xf32>
  %w = fuel.weight "w" : tensor<f32>
  %a, %b, %ys = fuel.scan init(%c = %x : tensor<f32>, %d = %w : tensor<f32>)
      xs(%r = %xs : tensor<4xf32>) consts(%k = %w : tensor<f32>)
      length 4 -> (tensor<f32>, tensor<f32>, tensor<4xf32>) {
    %t = fuel.tanh %k : tensor<f32>
    fuel.scan_yield carry(%t, %c : tensor<f32>, tensor<f32>) ys(%c : tensor<f32>)
  }
  func.return %a, %ys : tensor<f32>, tensor<4xf32>
}
"""


@pytest.mark.parametrize("device", ["cpu", "cuda:0", "vulkan:0"])
def test_a_weight_that_the_step_of_a_scan_reads(device: str) -> None:
    module = load_program(STEP_READS_A_WEIGHT)
    given = {"w": np.array(0.5, np.float32)}
    x = np.array(2, np.float32)
    want = evaluate(module, x, weights=given)
    session = Session(fake(device if device == "cpu" else f"cpu,{device}"), device=device)
    executable = session.compile(module, weights=given)
    assert_close([np.asarray(each) for each in executable(x)], want)


@examples(100)
@given(cases(), st.sampled_from(PIPELINES), st.data())
def test_results_equal_the_reference_on_any_route(
    case: tuple[Topology, Program], pipeline: OptimizePass, data: st.DataObject
) -> None:
    machine, program = case
    module = optimised(program.module, pipeline)
    sizes = decisions(module)
    route = {path: data.draw(st.integers(0, arms - 1)) for path, arms in sizes.items()}
    devices = fake(",".join(target.device.label for target in machine.targets))
    session = Session(devices, force=route, poison=True)
    exe = session.compile(module, weights=program.weights, optimize=False)
    others = [d for d in devices.present if isinstance(d, BufferDevice)]
    places = [data.draw(st.sampled_from([None, *others])) for _ in program.arguments]
    given = [
        array if device is None else device.put(array)
        for array, device in zip(program.arguments, places, strict=True)
    ]
    want = run(
        program, {path: arm for path, arm in route.items() if path in decisions(program.module)}
    )
    for arguments in (program.arguments, given, program.arguments):
        results = exe(*arguments)
        assert_close([np.asarray(result) for result in results], want)
        memory = [id(r) if isinstance(r, np.ndarray) else r.lease.memory.number for r in results]
        assert len(set(memory)) == len(memory)
    del exe, results, given, arguments
    for device in others:
        driver = cast(FakeDriver, device.driver)
        device.free_bytes()
        assert not driver.recordings
        device.close()
        assert not driver.memory, "memory is left"
