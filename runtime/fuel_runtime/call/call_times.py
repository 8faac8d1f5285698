# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures what the calls of a timed walk take, each by the clock of the device that makes it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuel_runtime.call.route import Call, Transfer
from fuel_runtime.devices.marks import TimedMark

if TYPE_CHECKING:
    from fuel_runtime.devices.interface import Device


@dataclass(frozen=True)
class Started:
    """Represents a call that is being made: the devices it waits for, and when it began."""

    devices: tuple[Device, ...]
    ns: int
    """The clock of the host."""
    mark: TimedMark | None
    """The moment in the work of its one device; None where the host's clock is used."""


@dataclass(frozen=True)
class Marked:
    """Represents a call that was asked for, and lies between two moments in a device's work."""

    call: Call
    device: Device
    first: TimedMark
    last: TimedMark
    numbers: tuple[int, ...]


class CallTimes:
    """
    Adds up the nanoseconds of calls by the decisions whose arms they stand in.

    A run on a device with a clock is timed by two marks of it, so that the device goes on with
    its work and the host with the walk; `read` waits for all of them at the end. What crosses from
    device to device, and runs elsewhere, are timed by the clock of the host: it starts when the
    devices have done what they were asked for, and stops when they have done this call.
    """

    def __init__(self, devices: Mapping[str, Device]):
        self.spent: dict[int, float] = {}
        """The nanoseconds in each decision's arm, by the number of the decision."""
        self._devices = devices
        self._marked: list[Marked] = []

    def start(self, call: Call, labels: Sequence[str]) -> Started:
        """Begins to time a call on some devices."""
        devices = tuple(self._devices[label] for label in labels)
        is_run = len(devices) == 1 and not isinstance(call, Transfer)
        mark = _timed_mark(devices[0]) if is_run else None
        if mark is None:
            self._settle(devices)
        return Started(devices, time.perf_counter_ns(), mark)

    def _settle(self, devices: Sequence[Device]) -> None:
        """Waits for runs that were marked, so that the host's clock does not count them again."""
        busy = {id(each.device) for each in self._marked}
        for device in devices:
            if id(device) in busy:
                device.synchronise()

    def stop(self, call: Call, started: Started, numbers: Sequence[int]) -> None:
        """Ends a call, for the decisions of these numbers."""
        if started.mark is not None:
            (device,) = started.devices
            last = _timed_mark(device)
            assert last is not None
            self._marked.append(Marked(call, device, started.mark, last, tuple(numbers)))
            return
        for device in started.devices:
            device.synchronise()
        self._add(numbers, time.perf_counter_ns() - started.ns)

    def read(self) -> Iterator[Call]:
        """Waits for the calls that were marked, and gives each before it waits for it."""
        while self._marked:
            each = self._marked.pop(0)
            yield each.call
            each.device.wait(each.last)
            self._add(each.numbers, each.last.ns_since(each.first))

    def _add(self, numbers: Sequence[int], ns: float) -> None:
        for number in numbers:
            self.spent[number] = self.spent.get(number, 0.0) + ns


def _timed_mark(device: Device) -> TimedMark | None:
    """Returns a moment in the work of a device; None if the device has no clock."""
    mark = device.mark()
    return mark if isinstance(mark, TimedMark) else None
