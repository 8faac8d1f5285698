# SPDX-License-Identifier: MIT OR Apache-2.0
"""Simulates calls of an optimised function, whose devices work at once, by the planner's prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import HOST, DeviceAttr, TargetAttr
from fuel_dialect.movement import checks_indices
from fuel_dialect.ops.control import BranchOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.targets.description import Concurrency
from fuel_dialect.targets.machine import Topology, assumed
from fuel_dialect.targets.registry import description_of
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.planning.device_clocks import DeviceClocks
from fuel_passes.planning.prices import op_ns, size_of
from fuel_passes.planning.residency import (
    HOST_DEVICE,
    argument_devices,
    present_arms,
    residency_of,
    result_devices,
)
from fuel_passes.planning.topology import target_description, transfer_ns


class Prices:
    """
    Prices runs and transfers on a machine, each once.

    `concurrency` says how far the host runs ahead of devices; by default their targets do.
    """

    def __init__(self, topology: Topology, concurrency: Callable[[str], Concurrency] | None = None):
        self.topology = topology
        self._concurrency_of = concurrency or self._described
        self._runs: dict[RunOp, int] = {}
        self._checks: dict[RunOp, bool] = {}
        self._concurrency: dict[str, Concurrency] = {}

    def run_ns(self, run: RunOp) -> int:
        """Returns what a run takes on its target."""
        known = self._runs.get(run)
        if known is None:
            known = self._runs[run] = op_ns(run, target_description(self.topology, run.target))
        return known

    def checks_indices(self, run: RunOp) -> bool:
        """Returns True if the host waits for a run, which says whether its indices are in range."""
        known = self._checks.get(run)
        if known is None:
            known = self._checks[run] = any(checks_indices(op) for op in run.walk())
        return known

    def launch_ns(self, run: RunOp) -> int:
        """Returns the fixed cost of a launch on the target of a run."""
        return target_description(self.topology, run.target).launch_ns

    def transfer_ns(self, value: SSAValue, source: DeviceAttr, target: DeviceAttr) -> int:
        """Returns what a value takes from device to device."""
        bytes = size_of(tensor_type(value))
        return transfer_ns(self.topology, source.label, target.label, bytes)

    def concurrency(self, device: str) -> Concurrency:
        """Returns how far the host runs ahead of a device, by its first target."""
        known = self._concurrency.get(device)
        if known is None:
            known = self._concurrency[device] = self._concurrency_of(device)
        return known

    def _described(self, device: str) -> Concurrency:
        for target in self.topology.targets:
            found = description_of(target.backend.data)
            if target.device.label == device and found is not None:
                return found.concurrency
        return "none"


def machine_of(topology: Topology, targets: Iterable[TargetAttr]) -> Topology:
    """
    Returns the machine that runs of some targets are simulated on.

    It is the topology, or where that lacks one of the devices, a machine with each in a slot.
    """
    wanted = tuple(dict.fromkeys(targets))
    if all(topology.device(target.device.label) is not None for target in wanted):
        return topology
    return assumed(topology.name, tuple(dict.fromkeys((*topology.targets, *wanted))))


class Simulation:
    """
    Visits the items of a block in some order and counts their time, as a call makes them.

    A value goes to a device once. Leaves are there already. Of a branch the first arm runs that the
    machine has a target for.
    """

    def __init__(self, prices: Prices, concurrency: Callable[[str], Concurrency]):
        self.prices = prices
        self.clocks = DeviceClocks(concurrency)
        self._home: dict[SSAValue, DeviceAttr] = {}
        self._made: dict[SSAValue, dict[DeviceAttr, int]] = {}
        """The times at which a value is on devices; one dictionary for a value and its copies."""

    def lives(self, value: SSAValue, device: DeviceAttr, since: int = 0) -> None:
        """Notes that a value is on a device since some time."""
        self._home[value] = device
        self._made[value] = {device: since}

    def home(self, value: SSAValue) -> DeviceAttr | None:
        """Returns the device that a value is on; None for a leaf, which is everywhere."""
        return self._home.get(value)

    def is_on(self, value: SSAValue, device: DeviceAttr) -> bool:
        """Returns True if a value has been brought to a device, or need not be."""
        made = self._made.get(value)
        return made is None or device in made

    def read_start(self, value: SSAValue) -> int:
        """Returns when the host would begin to read a value of a device."""
        home = self._home[value]
        return self.clocks.read_start(home.label, self._made[value][home])

    def bring(self, value: SSAValue, device: DeviceAttr) -> None:
        """Brings a value to a device unless it is there."""
        if self.is_on(value, device):
            return
        home, made, clocks = self._home[value], self._made[value], self.clocks
        ns = self.prices.transfer_ns(value, home, device)
        if device == HOST_DEVICE:
            made[device] = clocks.read(home.label, ns, made[home])
        elif home == HOST_DEVICE:
            made[device] = clocks.launch(device.label, ns)
        else:
            made[device] = clocks.cross(home.label, device.label, ns)

    def visit(self, op: Operation) -> None:
        """Counts the time of an item."""
        if isinstance(op, RunOp):
            self._run(op)
        elif isinstance(op, TransferOp):
            self._transfer(op)
        elif isinstance(op, BranchOp):
            self._branch(op)
        elif not (op.has_trait(Leaf) or op.has_trait(IsTerminator)):
            for result in op.results:
                self.lives(result, HOST_DEVICE, self.clocks.now)

    def _run(self, run: RunOp) -> None:
        device, clocks = run.target.device, self.clocks
        for value in run.inputs:
            self.bring(value, device)
        ns = self.prices.run_ns(run)
        if device == HOST_DEVICE:
            end = clocks.compute(ns)
        else:
            end = clocks.launch(device.label, ns)
            if self.prices.checks_indices(run):
                clocks.wait(end)
        for output in run.outputs:
            self.lives(output, device, end)

    def _transfer(self, op: TransferOp) -> None:
        self.bring(op.input, op.to)
        if op.input in self._made:
            self._made[op.result] = self._made[op.input]
            self._home[op.result] = op.to

    def _branch(self, branch: BranchOp) -> None:
        arm = next(iter(present_arms(branch, self.prices.topology.targets)), 0)
        block = branch.arm_regions[arm].block
        self._same(block.args, branch.inputs)
        for op in block.ops:
            self.visit(op)
        end = block.last_op
        self._same(branch.outputs, () if end is None else end.operands)

    def _same(self, names: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
        """Lets some values be others."""
        for name, value in zip(names, values, strict=True):
            if value in self._made:
                self._made[name], self._home[name] = self._made[value], self._home[value]


class Scene:
    """Represents a block of a function on a machine; its items can be simulated in any order."""

    def __init__(self, block: Block, function: FuncOp, prices: Prices):
        self.block = block
        self.prices = prices
        self._results: list[DeviceAttr] = []
        if block is function.body.block:
            self._arguments = argument_devices(function, block)
            self._results = result_devices(function)
        else:
            residency = residency_of(function, prices.topology.targets)
            homes = [sorted(residency.of(argument), key=str) for argument in block.args]
            self._arguments = [devices[0] if devices else HOST_DEVICE for devices in homes]

    def start(self, concurrency: Callable[[str], Concurrency] | None = None) -> Simulation:
        """Returns a simulation of a call that comes to the block."""
        simulation = Simulation(self.prices, concurrency or self.prices.concurrency)
        for argument, device in zip(self.block.args, self._arguments, strict=True):
            simulation.lives(argument, device)
        return simulation

    def makespan_ns(self, order: Iterable[Operation]) -> int:
        """Returns the time until all is done if the items come in some order."""
        simulation = self.start()
        for op in order:
            simulation.visit(op)
        return self._finished(simulation)

    def serial_ns(self, order: Iterable[Operation]) -> int:
        """Returns the time until all is done where the host waits for each item."""
        simulation = self.start(lambda device: "none")
        for op in order:
            simulation.visit(op)
        return self._finished(simulation)

    def alone_ns(self, order: Iterable[Operation]) -> dict[Operation, int]:
        """Returns what each item takes where the host waits for each."""
        simulation = self.start(lambda device: "none")
        found: dict[Operation, int] = {}
        for op in order:
            before = simulation.clocks.makespan_ns
            simulation.visit(op)
            found[op] = simulation.clocks.makespan_ns - before
        return found

    def _finished(self, simulation: Simulation) -> int:
        """Returns when the results of a function are where they are wanted, and all is done."""
        end = self.block.last_op
        for value, device in zip(() if end is None else end.operands, self._results, strict=False):
            simulation.bring(value, device)
        return simulation.clocks.makespan_ns


def devices_of(items: Iterable[Operation]) -> set[str]:
    """Returns the devices, and the host, that items of a block keep busy."""
    targets = {op.target.device.label for op in items if isinstance(op, RunOp)}
    moves = {op.to.label for op in items if isinstance(op, TransferOp)}
    return targets | moves | ({HOST} if moves else set())
