# SPDX-License-Identifier: MIT OR Apache-2.0
"""The memory of calls of an optimised function, by device and storage class."""

from __future__ import annotations

import pytest

from fuel_dialect.context import make_context, parse_module
from fuel_explain import explain
from fuel_explain.text import to_text
from fuel_passes.finishing.form_runs import FormRunsPass
from fuel_passes.finishing.reuse_buffers import ReuseBuffersPass
from fuel_passes.memory.plan import plan_memory
from fuel_passes.memory.record import DeviceMemory
from fuel_passes.memory.workspace import shared_workspace
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import functions

T = "tensor<256xf32>"
BYTES = 1024
CPU, CUDA = '#fuel.target<cpu, "numpy">', '#fuel.target<cuda:0, "triton">'


def plan_of(text: str) -> dict[str, DeviceMemory]:
    module, context = parse_module(text), make_context()
    FormRunsPass(topology="cpu+h100").apply(context, module)
    ReuseBuffersPass().apply(context, module)
    (function,) = functions(module)
    return {each.device: each for each in plan_memory(function).plan.devices}


def on(device: str, op: str) -> str:
    return op.replace(" :", f" {{placement = #fuel.device<{device}>}} :", 1)


def program(*lines: str, arguments: str = f"%x: {T}", results: str = T) -> str:
    body = "\n  ".join(lines)
    return f"func.func @main({arguments}) -> ({results}) {{\n  {body}\n}}\n"


def test_values_that_are_not_alive_at_once_share_memory() -> None:
    lines: list[str] = []
    last = "x"
    for number in range(3):  # to the card and back: no more than two values are alive there
        lines += [
            f"%c{number} = fuel.copy %{last} to #fuel.device<cuda:0> : {T}",
            on("cuda:0", f"%e{number} = fuel.exp %c{number} : {T}"),
            f"%h{number} = fuel.copy %e{number} to #fuel.device<cpu> : {T}",
            on("cpu", f"%s{number} = fuel.sin %h{number} : {T}"),
        ]
        last = f"s{number}"
    found = plan_of(program(*lines, f"func.return %{last} : {T}"))
    assert found["cuda:0"] == DeviceMemory("cuda:0", 0, 0, 2 * BYTES, 0, 0)
    assert found["cpu"] == DeviceMemory("cpu", 0, 0, 2 * BYTES, 0, BYTES)


def test_arms_share_memory_and_the_largest_counts() -> None:
    branch = f"""%y = fuel.branch "d0"(%a = %x : {T}) -> {T}
  arm on {CUDA} price 1 {{
    %c = fuel.copy %a to #fuel.device<cuda:0> : {T}
    %e = fuel.exp %c : {T}
    fuel.yield %e : {T}
  }}
  arm on {CUDA} price 2 {{
    %c = fuel.copy %a to #fuel.device<cuda:0> : {T}
    %e = fuel.sin %c : {T}
    fuel.yield %e : {T}
  }}
  arm on {CPU} price 3 {{
    %e = fuel.exp %a : {T}
    fuel.yield %e : {T}
  }}"""
    found = plan_of(program(branch, f"func.return %y : {T}"))
    assert found["cuda:0"] == DeviceMemory("cuda:0", 0, 0, 2 * BYTES, 0, 0)
    assert found["cpu"] == DeviceMemory("cpu", 0, 0, 0, 0, BYTES), "one arm or the other gives it"


def test_state_and_weights_have_classes_of_their_own() -> None:
    text = program(
        f'%w = fuel.weight "w" : {T}',
        on("cuda:0", f"%n = fuel.add %s, %w : {T}"),
        f"func.return %n : {T}",
        arguments=f"%s: {T} {{fuel.donated, fuel.device = #fuel.device<cuda:0>}}",
        results=f"{T} {{fuel.aliases = 0 : i64, fuel.device = #fuel.device<cuda:0>}}",
    )
    found = plan_of(text)
    assert found == {"cuda:0": DeviceMemory("cuda:0", BYTES, BYTES, 0, 0, BYTES)}
    (cuda,) = found.values()
    assert (cuda.transient, cuda.peak) == (BYTES, 3 * BYTES)


def test_the_text_says_what_is_too_much() -> None:
    memory = DeviceMemory("cuda:0", 1000, 200, 30, 4, 5, capacity=1238)
    assert (memory.peak, memory.fits) == (1239, False)
    assert str(memory) == (
        "cuda:0: 1,239 bytes of 1,238, too many: shared 1,000, state 200, transient 39 (values "
        "30, workspace 4, results 5)"
    )


@pytest.mark.parametrize(
    ("wanted", "shared"),
    [
        ([], ()),
        ([(300,), (100, 1000, 600)], (1024, 768, 256)),
        ([(256, 256), (512,)], (512, 256)),
    ],
)
def test_runs_share_workspaces_by_rank(wanted: list[tuple[int, ...]], shared: tuple[int, ...]):
    assert shared_workspace(wanted) == shared


def test_an_explanation_has_the_memory_of_each_device() -> None:
    text = program(on("cuda:0", f"%e = fuel.exp %x : {T}"), f"func.return %e : {T}")
    found = explain(parse_module(text), OptimizePass(topology="cpu+h100"))
    cpu, cuda = found.functions[0].memory
    assert (cpu.results, cuda.values, cuda.capacity) == (BYTES, 2 * BYTES, 80 << 30)
    assert f"memory on {cuda}" in to_text(found)
