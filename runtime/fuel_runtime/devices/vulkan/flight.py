# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Has a Vulkan device work while the host goes on.

Kompute can submit one step at a time without waiting, and waits with the GIL held. So each step is
a submission of its own, and the last one copies a word to the host, which can be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_runtime.devices.marks import Mark

if TYPE_CHECKING:
    from fuel_runtime.devices.vulkan.kompute import Kompute

MARKER_BYTES = 16

ON_THEIR_WAY: set[Flights] = set()
"""Those of which nobody has found yet that they are done: to destroy what they use is a crash."""


class FlightMark(Mark):
    """Represents the moment in which the steps of one flight are done; any thread may ask."""

    def __init__(self, flights: Flights, number: int):
        self._flights = flights
        self._number = number

    def is_done(self) -> bool:
        """Returns True if the device has copied the word, or the flight was taken in."""
        flights = self._flights
        return flights.landed >= self._number or flights.is_marked


class Flights:
    """Submits steps of one device; those of one flight are done before the next one begins."""

    def __init__(self, kompute: Kompute):
        self.kompute = kompute
        self._marker = kompute.memory(MARKER_BYTES, staged=True)
        self._word = kompute.view(self._marker)
        self._word[:] = 1
        first = kompute.sequence([kompute.upload(self._marker)])
        kompute.evaluate(first)
        kompute.destroy(first)
        self._mark = kompute.download(self._marker)
        self._sequences: list[Any] = []
        self._kept: Any = None
        self.number = 0
        """The flights so far."""
        self.landed = 0
        """The last flight that was taken in."""

    @property
    def is_marked(self) -> bool:
        """True if the last step of the flight that is on its way is done."""
        return bool(np.any(self._word))

    @property
    def mark(self) -> FlightMark | None:
        """The end of the flight that is on its way; None if there is none."""
        return FlightMark(self, self.number) if self.landed < self.number else None

    def submit(self, steps: Sequence[Any], kept: Any) -> None:
        """Has the device do steps in order; no flight may be on its way. `kept` lives as long."""
        while len(self._sequences) <= len(steps):
            self._sequences.append(self.kompute.sequence([]))
        self._word[:] = 0
        self._kept = steps, kept
        self.number += 1
        ON_THEIR_WAY.add(self)
        *sequences, last = self._sequences[: len(steps) + 1]
        try:
            for sequence, step in zip(sequences, steps, strict=True):
                self.kompute.submit(sequence, step)
        finally:
            # What was submitted before an interrupt comes to an end, too.
            self.kompute.submit(last, self._mark)

    def land(self) -> None:
        """Takes in a flight whose steps are done."""
        for sequence in self._sequences:
            self.kompute.take_in(sequence)
        self.landed, self._kept = self.number, None
        ON_THEIR_WAY.discard(self)

    @property
    def things(self) -> list[Any]:
        """Lists all that belongs to the device."""
        return [self._marker, self._mark, *self._sequences, self._kept]

    def close(self) -> None:
        """Gives up what belongs to the device, which is done with it."""
        for thing in (*self._sequences, self._marker):
            self.kompute.destroy(thing)
        self._sequences.clear()
