# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tells the picker what each arm takes: devices, memory, and the key of its measured time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from xdsl.ir import Block, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.tensors import tensor_type
from fuel_lowering.runs.functions import LoweredRun
from fuel_lowering.runs.launches import DeviceRun
from fuel_passes.planning.candidates import measurement_key
from fuel_passes.planning.measurements import MeasurementKey, key_of
from fuel_runtime.call.survey import Survey
from fuel_runtime.picker.decision import Arm, Decision, Need

if TYPE_CHECKING:
    from fuel_dialect.targets.machine import Topology

LASTING = ("temporary", "constant", "weight", "status")
"""The roles of buffers that the first call of a run takes and keeps."""


def with_needs(
    survey: Survey,
    lowered: Mapping[str, LoweredRun],
    threads: int,
    topology: Topology | None = None,
) -> Survey:
    """Returns a survey whose arms say what they need; measured times belong to a topology."""
    decisions = {
        branch: _decision(branch, decision, survey, lowered, threads, topology)
        for branch, decision in survey.decisions.items()
    }
    return replace(survey, decisions=decisions)


def _decision(
    branch: BranchOp,
    decision: Decision,
    survey: Survey,
    lowered: Mapping[str, LoweredRun],
    threads: int,
    topology: Topology | None,
) -> Decision:
    arms: list[Arm] = []
    for arm, target, region in zip(
        decision.arms, (a.target for a in branch.arms), branch.arm_regions, strict=True
    ):
        runs = [op for op in region.block.ops if isinstance(op, RunOp)]
        if arm.unavailable is not None:
            arms.append(arm)
            continue
        labels = [target.device.label, *(run.target.device.label for run in runs)]
        arms.append(
            replace(
                arm,
                devices=tuple(dict.fromkeys(labels)),
                needs=tuple(_needs(runs, survey, lowered, threads)),
                key=None if topology is None else arm_key(runs, target, topology),
            )
        )
    return replace(decision, arms=tuple(arms))


def _needs(
    runs: Sequence[RunOp], survey: Survey, lowered: Mapping[str, LoweredRun], threads: int
) -> Iterator[Need]:
    """Yields the memory that runs take on each device, with what is brought there."""
    for device in dict.fromkeys(run.target.device.label for run in runs):
        here = [run for run in runs if run.target.device.label == device]
        made = {output for run in here for output in run.outputs}
        brought = dict.fromkeys(v for run in here for v in run.inputs if v not in made)
        transient = sum(_bytes(output) for run in here for output in run.outputs)
        lasting = 0
        for run in here:
            code = lowered[survey.runs[run]]
            transient += code.workspace_bytes(threads)
            if isinstance(code, DeviceRun):
                lasting += sum(b.bytes for b in code.buffers if b.role in LASTING)
        is_host = all(not isinstance(lowered[survey.runs[run]], DeviceRun) for run in here)
        transient += 0 if is_host else sum(map(_bytes, brought))
        yield Need(device, transient, lasting)


def _bytes(value: SSAValue) -> int:
    type = tensor_type(value)
    return prod(type.get_shape()) * dtypes.of_type(type).numpy.itemsize


def arm_key(runs: Sequence[RunOp], target: TargetAttr, topology: Topology) -> MeasurementKey | None:
    """Returns the key of the kernels of an arm: that of the planner if there is only one."""
    keys = [
        kernel_key(kernel, run.target, topology)
        for run in runs
        for kernel in kernels_of(run.body.block)
    ]
    if len(keys) <= 1:
        return keys[0] if keys else None
    digest = hashlib.sha256("\n".join(map(repr, keys)).encode()).hexdigest()[:32]
    hardware = dict.fromkeys(key.hardware for key in keys)
    revisions = dict.fromkeys(key.revision for key in keys)
    return MeasurementKey(
        (f"sequence:{digest}",), (), (), str(target), "+".join(revisions), "+".join(hardware)
    )


def kernels_of(block: Block) -> Iterator[KernelOp]:
    """Yields the kernels of a run."""
    return (op for op in block.ops if isinstance(op, KernelOp))


def kernel_key(kernel: KernelOp, target: TargetAttr, topology: Topology) -> MeasurementKey:
    """Returns the planner's key of a kernel; for a target that it does not know a bare one."""
    if target in topology.targets:
        return measurement_key(kernel, target, topology)
    return key_of(kernel, target)
