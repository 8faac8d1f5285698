# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds the figures of a memory plan, as they are printed and saved."""

from __future__ import annotations

from dataclasses import dataclass

from fuel_dialect.errors import UnknownDevice


@dataclass(frozen=True)
class DeviceMemory:
    """
    Holds the bytes that a program takes on one device, whichever arms of its decisions run.

    They are of three storage classes: `shared` by all calls, `state`, of each state, and
    `transient`, of each call that is under way.
    """

    device: str
    shared: int
    """The bytes of weights and constants that are there at once."""
    state: int
    """The bytes of a state."""
    values: int
    """The bytes of what runs and transfers hand on, reused from value to value."""
    workspace: int
    """The bytes of what runs take while they run."""
    results: int
    """The bytes of what the caller gets, and of members of the state that change places."""
    streamed: int = 0
    """The bytes of weights that a call loads again, on average, since there is no room for all."""
    streamed_ns: int = 0
    """The time that this takes by the link from the host; 0 where no link is known."""
    spilled: int = 0
    """The bytes that a call brings to the host and back, since there is no room for them."""
    spilled_ns: int = 0
    """The time that this takes; 0 where no link is known."""
    capacity: int | None = None
    """The memory that there is; None where nobody knows it."""

    @property
    def transient(self) -> int:
        """The bytes of a call."""
        return self.values + self.workspace + self.results

    @property
    def peak(self) -> int:
        """The most bytes that a call takes, with one state."""
        return self.shared + self.state + self.transient

    @property
    def fits(self) -> bool:
        """True unless the peak is more than the memory that there is."""
        return self.capacity is None or self.peak <= self.capacity

    def __str__(self) -> str:
        of = "" if self.capacity is None else f" of {self.capacity:,}"
        return (
            f"{self.device}: {self.peak:,} bytes{of}{'' if self.fits else ', too many'}: "
            f"shared {self.shared:,}, state {self.state:,}, transient {self.transient:,} "
            f"(values {self.values:,}, workspace {self.workspace:,}, results {self.results:,})"
            f"{self._extra('weights are loaded again in', self.streamed, self.streamed_ns)}"
            f"{self._extra('values go to the host and back in', self.spilled, self.spilled_ns)}"
        )

    def _extra(self, what: str, bytes: int, ns: int) -> str:
        """Returns what a call does for want of room, and the time that it takes."""
        if not bytes:
            return ""
        return f"; {bytes:,} bytes of {what} a call{f' in {ns:,} ns' if ns else ''}"


@dataclass(frozen=True)
class MemoryPlan:
    """Holds the memory of a program by device, known before it runs."""

    devices: tuple[DeviceMemory, ...]

    def of(self, device: str) -> DeviceMemory:
        """Returns the memory of a device. Raises `UnknownDevice` for one that it has none on."""
        found = {each.device: each for each in self.devices}
        if device not in found:
            raise UnknownDevice(f"the program takes no memory of {device!r}; of {', '.join(found)}")
        return found[device]

    def __str__(self) -> str:
        return "\n".join(
            ["memory      peak of a call, by device", *(f"  {d}" for d in self.devices)]
        )
