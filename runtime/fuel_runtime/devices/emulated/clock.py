# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Represents the virtual time of a call on emulated devices.

Nothing waits in real time. A launch advances the clock of its device and leaves that of the host
alone; what the host waits for advances its own. So the time that a call would take is known
exactly, however loaded the machine is that emulates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuel_dialect.attributes import HOST
from fuel_passes.planning.prices import op_ns
from fuel_passes.planning.topology import target_description, transfer_ns

if TYPE_CHECKING:
    from fuel_dialect.ops.control import RunOp
    from fuel_dialect.targets.description import Concurrency
    from fuel_dialect.targets.machine import Topology

RunNs = Callable[["RunOp"], int]
"""The nanoseconds that a run takes on its device."""

TransferNs = Callable[[str, str, int], int]
"""The nanoseconds that so many bytes take from one device to another."""


class Clocks:
    """
    Holds the clocks of the host and of emulated devices, in nanoseconds since `reset`.

    `run_ns` and `transfer_ns` say what runs and transfers take. `concurrency` is that of all
    devices, as `TargetDescription.concurrency` has it. They hold for the calls of one thread.
    """

    def __init__(self, run_ns: RunNs, transfer_ns: TransferNs, concurrency: Concurrency = "stream"):
        self.run_ns = run_ns
        self.transfer_ns = transfer_ns
        self.concurrency: Concurrency = concurrency
        self.now = 0
        """The clock of the host."""
        self.busy: dict[str, int] = {}
        """The time at which each device has done all that it was asked for."""

    @classmethod
    def of(cls, topology: Topology, concurrency: Concurrency = "stream") -> Clocks:
        """Returns clocks that go by the prices of the planner."""

        def run_ns(run: RunOp) -> int:
            return op_ns(run, target_description(topology, run.target))

        def ns(source: str, target: str, bytes: int) -> int:
            return transfer_ns(topology, source, target, bytes)

        return cls(run_ns, ns, concurrency)

    @property
    def makespan_ns(self) -> int:
        """The time at which the host and all devices have done all that they were asked for."""
        return max(self.now, *self.busy.values(), 0)

    def reset(self) -> None:
        """Sets all clocks back to 0."""
        self.now = 0
        self.busy.clear()

    def busy_until(self, device: str) -> int:
        """Returns the time at which a device has done all that it was asked for; never past."""
        return max(self.now, self.busy.get(device, 0))

    def compute(self, ns: int) -> None:
        """The host computes."""
        self.now += ns

    def launch(self, device: str, ns: int) -> int:
        """Has a device do something behind what it does; returns the time at which it is done."""
        end = self.busy[device] = self.busy_until(device) + ns
        if self.concurrency == "none":
            self.wait(end)
        return end

    def wait(self, until: int) -> None:
        """Has the host wait."""
        self.now = max(self.now, until)

    def upload(self, device: str, bytes: int) -> int:
        """Brings bytes from the host to a device, behind what it does; returns when they are."""
        return self.launch(device, self.transfer_ns(HOST, device, bytes))

    def read(self, device: str, bytes: int, done: int) -> None:
        """Brings bytes to the host that waits for them; `done` is when a device has made them."""
        ns = self.transfer_ns(device, HOST, bytes)
        if self.concurrency == "events":
            self.wait(done)
            self.now += ns
        else:
            self.wait(self.busy_until(device) + ns)
            self.busy[device] = self.now

    def cross(self, source: str, target: str, bytes: int) -> int:
        """Brings bytes from device to device: both are at it, and the host goes on."""
        start = max(self.busy_until(source), self.busy_until(target))
        end = start + self.transfer_ns(source, target, bytes)
        self.busy[source] = self.busy[target] = end
        if self.concurrency == "none":
            self.wait(end)
        return end
