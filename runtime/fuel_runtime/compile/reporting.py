# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports on an executable: first of what it was made of, then of what its calls have done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fuel_dialect.ops.control import KernelOp
from fuel_runtime.call.report import (
    ArmReport,
    BranchReport,
    DeviceReport,
    Report,
    RunReport,
    StateReport,
)
from fuel_runtime.call.signature import describe

if TYPE_CHECKING:
    from fuel_dialect.ops.control import BranchOp, RunOp
    from fuel_runtime.call.live import Live
    from fuel_runtime.call.route import Route
    from fuel_runtime.call.signature import Port
    from fuel_runtime.call.state import StateType
    from fuel_runtime.compile.parts import Parts
    from fuel_runtime.compile.transfer_functions import TransferFunctions
    from fuel_runtime.devices.interface import Device
    from fuel_runtime.devices.present import Devices
    from fuel_runtime.measurement_store import MeasuredTimes
    from fuel_runtime.picker.decision import Decision, Pick


def current_report(
    report: Report, parts: Parts, transfers: TransferFunctions, live: Live | None
) -> Report:
    """Returns a report as it is now: the live route, its picks, and what was moved."""
    route, picks = parts.route, dict(parts.choices)
    if live is not None and live.settled is not None:
        route = live.settled.route
    if live is not None:
        newest = {b: live.picks.get(d.path) for b, d in parts.survey.decisions.items()}
        picks |= {branch: pick for branch, pick in newest.items() if pick is not None}
        report = _routed(report, parts, route, picks, live.steering.times)
        report = replace(report, history=tuple(live.history), faults=tuple(live.faults))
        if live.checks is not None:
            report = replace(report, checks=tuple(live.checks.found.values()))
    moved = tuple(
        replace(each.report, moved_bytes=each.moves * each.report.bytes)
        for each in transfers.of(route)
    )
    return replace(report, transfers=moved)


def _state_reports(parts: Parts, layout: StateType) -> Iterator[StateReport]:
    for member, device in zip(parts.signature.members, layout.devices, strict=True):
        port = member.port
        yield StateReport(
            name=port.name,
            type=describe(port.dtype.name, port.shape),
            device=device.name.label,
            update=parts.route.update(member.argument, member.result),
        )


def first_report(parts: Parts, needed: Mapping[str, list[Port]], layout: StateType) -> Report:
    devices = parts.devices
    report = Report(
        entry=parts.signature.entry,
        signature=str(parts.signature),
        asked=devices.asked,
        devices=tuple(_device_reports(devices)),
        threads=devices.threads,
        runs=len(parts.lowered),
        runs_on_route=0,
        kernels=sum(map(_kernels, parts.runs.values())),
        kernels_on_route=0,
        workspace_bytes=0,
        weights=tuple(str(port) for ports in needed.values() for port in ports),
        branches=(),
    )
    state = tuple(_state_reports(parts, layout))
    return replace(_routed(report, parts, parts.route, parts.choices), state=state)


def _routed(
    report: Report,
    parts: Parts,
    route: Route,
    picks: Mapping[BranchOp, Pick],
    times: MeasuredTimes | None = None,
) -> Report:
    """Returns a report with what belongs to a route: runs, workspaces and decisions."""
    runs = tuple(_run_report(parts, run) for run in route.runs)
    threads = parts.devices.threads
    return replace(
        report,
        runs_on_route=len(runs),
        kernels_on_route=sum(run.kernels for run in runs),
        workspace_bytes=sum(parts.lowered[name].workspace_bytes(threads) for name in route.runs),
        branches=tuple(
            _branch_report(parts, route, branch, picks.get(branch), times)
            for branch in parts.survey.decisions
        ),
        route=runs,
    )


def _device_reports(devices: Devices) -> Iterator[DeviceReport]:
    for device in devices.present:
        name = device.name
        identity = "" if device is devices.host else device.identity
        yield DeviceReport(str(name), "", identity, name in devices.emulated, _targets(device))
    for absent in devices.absent:
        yield DeviceReport(str(absent.what), absent.reason)


def _targets(device: Device) -> tuple[str, ...]:
    return tuple(target.backend.data for target in device.targets)


def _run_report(parts: Parts, name: str) -> RunReport:
    run, lowered = parts.runs[name], parts.lowered[name]
    return RunReport(name, str(run.target), _kernels(run), lowered.launch_count)


def _kernels(run: RunOp) -> int:
    return sum(1 for op in run.body.block.ops if isinstance(op, KernelOp))


def _branch_report(
    parts: Parts,
    route: Route,
    branch: BranchOp,
    pick: Pick | None,
    times: MeasuredTimes | None,
) -> BranchReport:
    decision = parts.survey.decisions[branch]
    arms = tuple(
        ArmReport(
            arm=index,
            target=arm.target,
            price_ns=arm.price_ns,
            origin=arm.origin,
            chosen=pick is not None and pick.arm == index,
            why_not=_why_not(decision, pick, index),
            measured_ns=None if times is None or arm.key is None else times.measured_ns(arm.key),
        )
        for index, arm in enumerate(decision.arms)
    )
    if pick is None:
        return BranchReport(decision.path, None, "no arm can run here", False, arms)
    return BranchReport(decision.path, pick.arm, pick.reason, branch in route.branches, arms)


def _why_not(decision: Decision, pick: Pick | None, arm: int) -> str:
    """Returns why an arm was not chosen; nothing for the chosen one."""
    unavailable = decision.arms[arm].unavailable
    if unavailable is not None:
        return f"cannot run here: {unavailable}"
    return "" if pick is None else pick.why_not.get(arm, "")
