# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the time of a host and of devices that work beside it."""

from __future__ import annotations

from collections.abc import Callable

from fuel_dialect.targets.description import Concurrency


class DeviceClocks:
    """
    Holds the clocks of the host and of devices, in nanoseconds since the start.

    What a device is asked for it does in order, behind what it was asked for before; that the host
    asks takes no time. `concurrency` says of each device how far the host runs ahead of it.
    """

    def __init__(self, concurrency: Callable[[str], Concurrency]):
        self.concurrency = concurrency
        self.now = 0
        """The clock of the host."""
        self.busy: dict[str, int] = {}
        """The time at which each device has done all that it was asked for."""

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

    def compute(self, ns: int) -> int:
        """Has the host compute; returns when it has."""
        self.now += ns
        return self.now

    def wait(self, until: int) -> None:
        """Has the host wait."""
        self.now = max(self.now, until)

    def launch(self, device: str, ns: int) -> int:
        """Has a device do something, or take bytes of the host; returns when it is done."""
        end = self.busy[device] = self.busy_until(device) + ns
        if self.concurrency(device) == "none":
            self.wait(end)
        return end

    def read_start(self, device: str, done: int) -> int:
        """Returns when the host would begin to read a value that is made at some time."""
        if self.concurrency(device) == "events":
            return max(self.now, done)
        return self.busy_until(device)

    def read(self, device: str, ns: int, done: int) -> int:
        """Brings a value to the host, which waits for it; returns when it is there."""
        self.now = self.read_start(device, done) + ns
        if self.concurrency(device) != "events":
            self.busy[device] = self.now
        return self.now

    def cross(self, source: str, target: str, ns: int) -> int:
        """Brings a value from device to device: both are at it; returns when it is there."""
        end = max(self.busy_until(source), self.busy_until(target)) + ns
        self.busy[source] = self.busy[target] = end
        if "none" in (self.concurrency(source), self.concurrency(target)):
            self.wait(end)
        return end
