# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels of any number of operands and results: what is planned is what a device can launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import fuel_dialect as fuel
from fuel_dialect.context import load_program, make_context
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.targets.limits import (
    BUFFERS,
    SCALARS,
    Limit,
    LongestRow,
    MostElements,
    buffers_of,
)
from fuel_dialect.targets.presets import PRESETS
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kompute.lower import lower_run
from fuel_lowering.runs.launches import DeviceKernel
from fuel_passes.finishing.form_runs import FormRunsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.plan import PlanPass
from fuel_passes.planning.topology import STAMP, attribute_of

SHAPE = (2, 3)


def joined(count: int) -> ModuleOp:
    g = fuel.Graph()
    values = [g.input(SHAPE, "f32", name=f"x{i}") for i in range(count)]
    return g.build(fuel.concat(values, 0))


def added(count: int) -> ModuleOp:
    g = fuel.Graph()
    values = [g.input(SHAPE, "f32", name=f"x{i}") for i in range(count)]
    total = values[0]
    for value in values[1:]:
        total = total + value
    return g.build(total)


def balanced(count: int) -> ModuleOp:
    g = fuel.Graph()
    values = [g.input(SHAPE, "f32", name=f"x{i}").exp() for i in range(count)]
    while len(values) > 1:
        pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
        values = [*pairs, *values[len(pairs) * 2 :]]
    return g.build(values[0])


def spread(count: int) -> ModuleOp:
    g = fuel.Graph()
    shared = g.input(SHAPE, "f32", name="x0").exp()
    others = [g.input(SHAPE, "f32", name=f"x{i}") for i in range(1, count)]
    return g.build(shared, *(shared * other for other in others))


def scattered(count: int) -> ModuleOp:
    """One value, of which a kernel gives many others."""
    g = fuel.Graph()
    shared = g.input(SHAPE, "f32", name="x0").exp()
    return g.build(shared, *(shared * float(i) for i in range(1, count)))


def reduced(count: int) -> ModuleOp:
    g = fuel.Graph()
    shared = g.input(SHAPE, "f32", name="x0")
    return g.build(*((shared * float(i)).sum(axis=1) for i in range(count)))


def product(count: int) -> ModuleOp:
    g = fuel.Graph()
    x = g.input((2, 2), "f32", name="x0")
    y = x @ x
    results = [y]
    for i in range(1, count):
        results.append(results[-1] + g.input((2, 2), "f32", name=f"x{i}"))
    return g.build(*results)


PROGRAMS = (joined, added, balanced, spread, scattered, reduced, product)


def arrays_of(module: ModuleOp) -> list[np.ndarray[Any, Any]]:
    (function,) = module.body.ops
    assert isinstance(function, FuncOp)
    types = map(tensor_type, function.body.block.args)
    random = np.random.default_rng(0)
    return [random.standard_normal(t.get_shape()).astype(np.float32) for t in types]


@given(st.sampled_from(PROGRAMS), st.integers(1, 100))
def test_a_formed_kernel_takes_no_more_buffers_than_a_device_binds(
    program: Callable[[int], ModuleOp], count: int
) -> None:
    module = program(count)
    expected = evaluate(module.clone(), *arrays_of(module))
    FormKernelsPass().apply(make_context(), module)
    module.verify()
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    movement = [op for op in kernels if op.kind.data == "movement"]
    assert all(buffers_of(op) <= BUFFERS for op in kernels if op not in movement)
    for got, want in zip(evaluate(module, *arrays_of(module)), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@given(st.sampled_from(PROGRAMS), st.integers(1, 100))
def test_what_is_pinned_to_a_device_with_few_buffers_is_split(
    program: Callable[[int], ModuleOp], count: int
) -> None:
    module = program(count)
    expected = evaluate(module.clone(), *arrays_of(module))
    names = {op.name for op in module.walk() if op.name.startswith("fuel.")}
    place = tuple(
        f"{name}=vulkan:0" for name in sorted(names - {"fuel.const", "fuel.broadcast_to"})
    )
    OptimizePass(topology="cpu+vulkan", place=place).apply(make_context(), module)
    module.verify()
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert all(buffers_of(op) <= BUFFERS for op in kernels)
    for got, want in zip(evaluate(module, *arrays_of(module)), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def shader_runs(module: ModuleOp) -> list[RunOp]:
    runs = (op for op in module.walk() if isinstance(op, RunOp))
    return [run for run in runs if run.target.backend.data == "kompute"]


def launched_shaders(module: ModuleOp) -> list[DeviceKernel]:
    """The kernels of the shaders of a module, of which there are some."""
    runs = shader_runs(module)
    assert runs
    return [kernel for run in runs for kernel in lower_run(run, "main").kernels]


@pytest.mark.parametrize("count", [2, 9, 40])
@pytest.mark.parametrize("passes", [FormRunsPass, PlanPass])
def test_kernels_are_formed_for_the_device_by_whatever_pass_comes_first(
    passes: type[FormRunsPass | PlanPass], count: int
) -> None:
    module = with_few_buffers(added(count), 5)
    passes().apply(make_context(), module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert kernels
    assert max(map(buffers_of, kernels)) <= 5


def with_few_buffers(module: ModuleOp, buffers: int) -> ModuleOp:
    """The module with the topology `cpu+vulkan`, whose device gives kernels so many buffers."""
    preset = PRESETS["cpu+vulkan"]
    host, card = preset.devices
    own = replace(preset, devices=(host, replace(card, buffers=buffers)))
    module.attributes[STAMP] = attribute_of(own)
    return module


@given(st.sampled_from(PROGRAMS), st.integers(1, 40), st.sampled_from([5, 8, 16, 31]))
def test_kernels_are_formed_for_the_buffers_that_the_device_gives(
    program: Callable[[int], ModuleOp], count: int, buffers: int
) -> None:
    module = program(count)
    expected = evaluate(module.clone(), *arrays_of(module))
    names = {op.name for op in module.walk() if op.name.startswith("fuel.")}
    place = tuple(
        f"{name}=vulkan:0" for name in sorted(names - {"fuel.const", "fuel.broadcast_to"})
    )
    OptimizePass(place=place).apply(make_context(), with_few_buffers(module, buffers))
    module.verify()
    shaders = [op for run in shader_runs(module) for op in run.walk() if isinstance(op, KernelOp)]
    assert shaders or (program in (joined, added) and count == 1), "the operand is the result"
    assert max(map(buffers_of, shaders), default=0) <= buffers
    for got, want in zip(evaluate(module, *arrays_of(module)), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("buffers", [8, 12, 20])
def test_the_steps_of_scans_keep_to_the_buffers_of_the_device(buffers: int) -> None:
    module = stepped(9)
    expected = evaluate(module.clone(), *arrays_of(module))
    OptimizePass(place=("fuel.scan=vulkan:0",)).apply(
        make_context(), with_few_buffers(module, buffers)
    )
    launched = launched_shaders(module)
    assert max(len(kernel.parameters) for kernel in launched) <= buffers
    for got, want in zip(evaluate(module, *arrays_of(module)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_is_not_pinned_goes_where_a_kernel_may_have_all_its_buffers() -> None:
    module = joined(40)
    OptimizePass(topology="cpu+vulkan").apply(make_context(), module)
    assert "kompute" not in str(module)
    assert str(module).count("fuel.concat") == 1


def stepped(count: int) -> ModuleOp:
    """A scan, no step of which is one loop, that reads a row of many operands in each."""
    g = fuel.Graph()
    init = g.input((2, 2), "f32", name="x0")
    rows = tuple(g.input((3, 2, 2), "f32", name=f"x{i}") for i in range(1, count))

    def body(carry: Any, xs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        total = carry @ carry
        for x in xs:
            total = total + x
        return total.tanh(), tuple(x * total for x in xs[:3])

    carry, ys = g.scan(body, init, rows)
    return g.build(carry, *ys)


@pytest.mark.parametrize("count", [2, 12, 26, 27, 28, 29, 33, 70])
def test_the_launches_of_a_step_are_given_no_more_integers_than_a_device_takes(count: int) -> None:
    module = stepped(count)
    expected = evaluate(module.clone(), *arrays_of(module))
    OptimizePass(topology="cpu+vulkan", place=("fuel.scan=vulkan:0",)).apply(make_context(), module)
    kernels = launched_shaders(module)
    assert max(len(kernel.scalars) for kernel in kernels) <= SCALARS
    for got, want in zip(evaluate(module, *arrays_of(module)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


LIMITED = """
func.func @main(%x: tensor<{rows}x1xi8>) -> tensor<{rows}xi8> {{
  %b = fuel.broadcast_to %x : tensor<{rows}x1xi8> -> tensor<{rows}x{columns}xi8>
  %s = fuel.sum_dim %b {{dim = 1 : i64}} : tensor<{rows}x{columns}xi8> -> tensor<{rows}xi8>
  func.return %s : tensor<{rows}xi8>
}}
"""


@pytest.mark.parametrize(
    ("rows", "columns", "most", "reason"),
    [
        (65_536, 65_536, MostElements(2**31 - 2**17), "most-elements: a value of 4,294,967,296"),
        (16, 2**26, LongestRow(60_000, 256, 16), "longest-row: rows of 67,108,864 elements"),
        (16, 1024, LongestRow(60_000, 256, 16), None),
        (1, 2**26, LongestRow(60_000, 256, 16), None),
    ],
)
def test_bounds_on_sizes(rows: int, columns: int, most: Limit, reason: str | None) -> None:
    module = load_program(LIMITED.format(rows=rows, columns=columns))
    FormKernelsPass().apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    refusal = most.refusal(kernel)
    assert refusal is None if reason is None else refusal is not None and reason in refusal
