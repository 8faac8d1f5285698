# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs with decisions after one another, formed into runs, and what they compute."""

from __future__ import annotations

from itertools import product

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from agreement import main
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.targets.machine import Device, Link, Topology
from fuel_passes.finishing.form_runs import FormRunsPass
from fuel_passes.finishing.order import direct_dependencies
from fuel_passes.finishing.order_runs import OrderRunsPass
from fuel_passes.walk import functions
from machines import stamp

CONTEXT = make_context()
M = "tensor<2x2xf32>"
X = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)
CPU, CUDA, VULKAN = (
    TargetAttr.of("cpu", "numpy"),
    TargetAttr.of("cuda:0", "triton"),
    TargetAttr.of("vulkan:0", "kompute"),
)


LINKS = [
    Link(a, b, 1, 1.0)
    for a, b in product(("cpu", "cuda:0", "vulkan:0"), repeat=2)
    if a != b and "cpu" in (a, b)
]


THREE = Topology(
    "three",
    tuple(map(Device, ("cpu", "cuda:0", "vulkan:0"))),
    (CPU, CUDA, VULKAN),
    tuple(LINKS),
)


def times(result: str, left: str, right: str, device: str = "") -> str:
    """A kernel: a product, on a device if one is named."""
    pin = f"{{placement = #fuel.device<{device}>}} " if device else ""
    return f"%{result} = fuel.matmul %{left}, %{right} {pin}: {M}, {M} -> {M}\n"


def formed(body: str, result: str, machine: Topology | None = None, order: bool = True) -> ModuleOp:
    """A module of one argument after `fuel-form-runs{granularity=chain}` and `fuel-order-runs`."""
    module = main(f"%x: {M}", M, f"{body}func.return %{result} : {M}")
    if machine is not None:
        stamp(module, machine)
    FormRunsPass(granularity="chain").apply(CONTEXT, module)
    if order:
        OrderRunsPass().apply(CONTEXT, module)
    module.verify()
    return module


def runs(module: ModuleOp) -> list[RunOp]:
    return [op for op in module.walk() if isinstance(op, RunOp)]


def sizes(module: ModuleOp) -> list[int]:
    return [sum(isinstance(op, KernelOp) for op in run.body.block.ops) for run in runs(module)]


def targets(module: ModuleOp) -> list[str]:
    return [run.target.device.label for run in runs(module)]


def top(module: ModuleOp) -> list[Operation]:
    (function,) = functions(module)
    return list(function.body.block.ops)


def decision(name: str, result: str, operand: str, *arms: str, extra: str = "") -> str:
    """A branch; each arm computes `r` from `a`."""
    listed = "".join(
        f'arm on #fuel.target<cpu, "numpy"> {{\n{arm}fuel.yield %r : {M}\n}}\n' for arm in arms
    )
    more = f", %b = %{extra} : {M}" if extra else ""
    return f'%{result} = fuel.branch "{name}"(%a = %{operand} : {M}{more}) -> {M}\n{listed}'


FIRST, SECOND = times("r", "a", "a"), f"%n = fuel.neg %a : {M}\n" + times("r", "n", "a")


def assert_valid(module: ModuleOp) -> None:
    """Every op after what it reads."""
    (function,) = functions(module)
    block = function.body.block
    place = {op: index for index, op in enumerate(block.ops)}
    for op in block.ops:
        assert all(place[before] < place[op] for before in direct_dependencies(op, block))
