# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds what an observer tells of the runs of an executable in its optimised IR."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from fuel_dialect import dtypes
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.tensors import tensor_type
from fuel_passes.planning.floor import bytes_of, floor_ns
from fuel_passes.planning.topology import resolve, target_description
from fuel_runtime.call.run_facts import KernelFacts, RunFacts
from fuel_runtime.call.signature import describe
from fuel_runtime.call.survey import survey
from fuel_runtime.compile.functions import find_function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

    from fuel_dialect.ops.control import RunOp
    from fuel_dialect.targets.description import TargetDescription
    from fuel_runtime.compile.code import Code
    from fuel_runtime.compile.parts import Parts


def observed_runs(code: Code, module: ModuleOp, one_by_one: bool) -> dict[str, RunFacts]:
    """
    Returns the facts of every run that was lowered, by name.

    Devices other than the host launch the kernels of a run at once, unless `one_by_one` is set.
    """
    parts, machine = code.parts, resolve(module)
    found: dict[str, RunFacts] = {}
    for name, run in runs_by_name(parts, module).items():
        owner, lowered = parts.owners[name], parts.lowered[name]
        description = target_description(machine, run.target)
        kernels = (op for op in run.body.block.ops if isinstance(op, KernelOp))
        found[name] = RunFacts(
            name,
            str(run.target),
            owner,
            tuple(_kernel(kernel, description) for kernel in kernels),
            partial(owner.watched, lowered, code.weights)
            if one_by_one or owner is parts.devices.host
            else None,
        )
    return found


def runs_by_name(parts: Parts, module: ModuleOp) -> Mapping[str, RunOp]:
    """Returns the runs by name; a program that was loaded knows them by name alone."""
    if parts.runs or not parts.lowered:
        return parts.runs
    function = find_function(module, parts.signature.entry)
    return {name: run for run, name in survey(function, parts.devices).runs.items()}


def _kernel(kernel: KernelOp, target: TargetDescription) -> KernelFacts:
    types = f"{_types(kernel.inputs)} -> {_types(kernel.outputs)}"
    return KernelFacts(
        kernel.label.data,
        kernel.kind.data,
        types,
        bytes_of(kernel, target),
        floor_ns(kernel, target),
    )


def _types(values: Iterable[SSAValue]) -> str:
    types = map(tensor_type, values)
    return ", ".join(describe(dtypes.of_type(t).name, t.get_shape()) for t in types) or "()"
