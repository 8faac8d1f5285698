# SPDX-License-Identifier: MIT OR Apache-2.0
"""
A target as small as can be: Python functions that loop over flat lists, element by element.

It runs pointwise kernels without views, of the ops in `RULES` and of those that packages add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.target import Target

from fuel_dialect.dialect import OPS
from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.ops.elementwise import AddOp, MulOp, SqrOp
from fuel_dialect.plugins import kernels
from fuel_dialect.targets.description import KernelSource, TargetDescription
from fuel_dialect.targets.op_sets import OpSet
from fuel_dialect.tensors import tensor_type

Rule = Callable[..., str]

RULES: Mapping[type[Operation], Rule] = {
    AddOp: "({} + {})".format,
    MulOp: "({} * {})".format,
    SqrOp: "({} ** 2)".format,
}

DESCRIPTION = TargetDescription(
    name="loops",
    runs_on=("cpu",),
    dtypes=("f64",),
    sources=(KernelSource("loops", ("pointwise",)),),
    bytes_per_ns=0.1,
    operations_per_ns=0.02,
    flops_per_ns=0.01,
    launch_ns=100,
    tile=1,
    threads=1,
    printer="acme_fuel.loops:LoopsTarget",
    joins=False,
    lacks=tuple(OpSet(op) for op in OPS if op not in RULES),
)


@dataclass(frozen=True)
class LoopsTarget(Target):
    """Prints a function for each run on the backend `loops`: lists in, a tuple of lists out."""

    name = "acme-loops"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        runs = [op for op in module.walk() if isinstance(op, RunOp)]
        for number, run in enumerate(run for run in runs if run.target.backend.data == "loops"):
            output.write("\n".join(_function(run, f"run_{number}")) + "\n")


def _function(run: RunOp, name: str) -> Iterator[str]:
    block = run.body.block
    names: dict[SSAValue, str] = {a: f"x{index}" for index, a in enumerate(block.args)}
    yield f"def {name}({', '.join(names.values())}):"
    for kernel in block.ops:
        if kernel is block.last_op:
            yield f"    return ({', '.join(names[value] for value in kernel.operands)},)"
            return
        if not isinstance(kernel, KernelOp):
            raise LoweringError(f"{kernel.name}: the loops target runs kernels alone")
        inputs = [names[value] for value in kernel.inputs]
        names.update((result, f"y{len(names) + i}") for i, result in enumerate(kernel.outputs))
        yield from _loop(kernel, inputs, [names[result] for result in kernel.outputs])


def _loop(kernel: KernelOp, inputs: list[str], outputs: list[str]) -> Iterator[str]:
    elements = tensor_type(kernel.outputs[0])
    for output in outputs:
        yield f"    {output} = [0.0] * {elements.element_count()}"
    yield f"    for i in range({elements.element_count()}):  # {kernel.label.data}"
    block = kernel.body.block
    texts: dict[SSAValue, str] = {
        argument: f"{name}[i]" for argument, name in zip(block.args, inputs, strict=True)
    }
    for number, op in enumerate(block.ops):
        if op is block.last_op:
            for output, value in zip(outputs, op.operands, strict=True):
                yield f"        {output}[i] = {texts[value]}"
            return
        rule = kernels("loops", RULES).get(type(op))
        if rule is None:
            raise LoweringError(f"{op.name}: the loops target has no rule for it")
        yield f"        t{number} = {rule(*(texts[operand] for operand in op.operands))}"
        texts[op.results[0]] = f"t{number}"
