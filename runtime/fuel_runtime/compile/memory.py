# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans the memory of a program whose runs are lowered, so that all they take is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from fuel_dialect import dtypes
from fuel_dialect.attributes import HOST
from fuel_lowering.runs.launches import DeviceRun
from fuel_passes.memory.inside import Inside
from fuel_passes.memory.plan import PlannedMemory, plan_memory
from fuel_passes.planning.topology import transfer_ns
from fuel_runtime.devices.caps import check_planned

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from fuel_dialect.ops.control import BranchOp, RunOp
    from fuel_dialect.targets.machine import Topology
    from fuel_dialect.tensors import AnyTensor
    from fuel_lowering.runs.functions import LoweredRun
    from fuel_runtime.call.survey import Survey
    from fuel_runtime.devices.present import Devices


def memory_plan(
    function: FuncOp,
    survey: Survey,
    lowered: Mapping[str, LoweredRun],
    devices: Devices,
    topology: Topology | None,
) -> PlannedMemory:
    """Returns the memory plan of a function, over the arms that can run here."""

    def runs_arm(branch: BranchOp, arm: int) -> bool:
        return survey.decisions[branch].arms[arm].unavailable is None

    capacities = {device.name.label: device.total_bytes() for device in devices.present}

    def load_ns(device: str, bytes: int) -> int:
        if topology is None or topology.device(device) is None:
            return 0
        return transfer_ns(topology, HOST, device, bytes)

    inside = _inside(survey, lowered, devices)
    return plan_memory(function, inside, capacities, runs_arm, load_ns)


def _inside(
    survey: Survey, lowered: Mapping[str, LoweredRun], devices: Devices
) -> Callable[[RunOp], Inside]:
    return lambda run: inside_of_lowered(lowered[survey.runs[run]], devices.threads)


def check_host(
    function: FuncOp,
    survey: Survey,
    lowered: Mapping[str, LoweredRun],
    devices: Devices,
    arms: Mapping[BranchOp, int],
) -> None:
    """Raises `OutOfMemory` if a call takes more of the host than the session may, by some arms."""
    if devices.host.cap is None:
        return
    inside = _inside(survey, lowered, devices)
    plan = plan_memory(function, inside, None, lambda branch, arm: arms.get(branch) == arm)
    check_planned(plan.plan.devices, devices)


def with_result_bytes(run: RunOp, lowered: LoweredRun, memory: PlannedMemory) -> LoweredRun:
    """Returns a lowered run whose results have the memory that was planned for them."""
    if not isinstance(lowered, DeviceRun):
        return lowered
    device = run.target.device
    bytes = tuple(memory.sizes.get((output, device), 0) for output in run.outputs)
    return replace(lowered, result_bytes=bytes if any(bytes) else ())


def inside_of_lowered(run: LoweredRun, threads: int) -> Inside:
    """Returns what a lowered run takes besides its operands and results."""
    weights = {use.key: _bytes(use.type) for use in run.weights.values()}
    if not isinstance(run, DeviceRun):
        workspace = run.workspace_bytes(threads)
        return Inside(weights, (), (workspace,) if workspace else ())
    bytes: dict[str, list[int]] = {"constant": [], "temporary": [], "status": []}
    for buffer in run.buffers:
        bytes.setdefault(buffer.role, []).append(buffer.bytes)
    constants, temporaries = tuple(bytes["constant"]), tuple(bytes["temporary"])
    return Inside(weights, constants, temporaries, sum(bytes["status"]))


def _bytes(type: AnyTensor) -> int:
    return prod(type.get_shape()) * dtypes.of_type(type).numpy.itemsize
