# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds what devices do at once in a call, as it is printed and saved."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Overlap:
    """Represents the simulated time of a call, beside that of other orders, in nanoseconds."""

    makespan_ns: int
    """The time until the host and all devices are done, in the order that was chosen."""
    counted_ns: int
    """The same in the order by numbers of kernels."""
    serial_ns: int
    """The time if the host waited for each run and transfer."""

    @property
    def is_simulated(self) -> bool:
        """True if the order by simulated clocks was taken, which ends sooner."""
        return self.makespan_ns < self.counted_ns

    def __str__(self) -> str:
        saved = _less(self.makespan_ns, self.serial_ns)
        order = "ordered by numbers of kernels"
        if self.is_simulated:
            less = _less(self.makespan_ns, self.counted_ns)
            order = f"ordered by simulation, {less} less than by numbers of kernels"
        return f"{self.makespan_ns:,} ns a call, {saved} less than one after the other; {order}"


def _less(ns: int, than: int) -> str:
    return f"{(than - ns) / than if than else 0:.1%}"
