# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs and machines for a host and a GPU side by side, and what an optimised one holds."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from agreement import main
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.targets.machine import Device, Link, Rates, Topology
from fuel_dialect.targets.registry import description_of
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import branches, functions
from machines import stamp

CONTEXT = make_context()
CPU = TargetAttr.of("cpu", "numpy")
CUDA = TargetAttr.of("cuda:0", "triton")
T = "tensor<64x64xf32>"
FAR = "{fuel.device = #fuel.device<cuda:0>}"
CHAIN = f"%0 = fuel.relu %x : {T}\n%1 = fuel.matmul %0, %0 : {T}, {T} -> {T}\n"
CHAIN += f"func.return %1 : {T}"


def near(cpu_speed: float, cuda_speed: float) -> Topology:
    """A host and a GPU side by side, of given speeds."""
    links = (Link("cpu", "cuda:0", 1, 1e6), Link("cuda:0", "cpu", 1, 1e6))
    rates = [Rates(t, s, s, s, 1) for t, s in ((CPU, cpu_speed), (CUDA, cuda_speed))]
    return Topology("near", (Device("cpu"), Device("cuda:0")), (CPU, CUDA), links, tuple(rates))


ONE_WINS = near(1.0, 1e4)
CLOSE = near(1.0, 2.0)


def chain(machine: Topology = ONE_WINS) -> ModuleOp:
    return stamp(main(f"%x: {T}", T, CHAIN), machine)


def optimised(module: ModuleOp, how: OptimizePass | None = None) -> ModuleOp:
    (how or OptimizePass()).apply(CONTEXT, module)
    module.verify()
    return module


def found(module: ModuleOp, kind: type[Operation]) -> list[Operation]:
    return [op for op in module.walk() if isinstance(op, kind)]


def decisions(module: ModuleOp) -> list[BranchOp]:
    return [branch for function in functions(module) for branch in branches(function)]


def described(name: str) -> TargetDescription:
    found = description_of(name)
    assert found is not None
    return found


STRIDED = """
    %s = fuel.slice %{0} {{dim = 0 : i64, start = 1 : i64, length = 3 : i64}}
        : tensor<8xf32> -> tensor<3xf32>
    %f = fuel.flip %s {{dim = 0 : i64}} : tensor<3xf32> -> tensor<3xf32>
    %{1} = fuel.{2} %f : tensor<3xf32>"""


def two_consumers() -> ModuleOp:
    body = f"%0 = fuel.relu %x : {T}\n%1 = fuel.matmul %x, %x : {T}, {T} -> {T}\n"
    return stamp(
        main(f"%x: {T}", f"({T} {FAR}, {T} {FAR})", body + f"func.return %0, %1 : {T}, {T}"),
        ONE_WINS,
    )
