# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says which calls are timed, so that timing takes a bounded share of the time of all calls."""

from __future__ import annotations

from math import ceil

SHARE = 0.005
"""The most that timing may take of the time of calls; counting them takes some 0.1 us of each."""

LEAST_EVERY, MOST_EVERY = 64, 1 << 20
"""One of so many calls is timed: of no fewer, and of no more."""

SMOOTHING = 0.25
"""The weight of the newest call in what is known of their costs."""


class TimedCalls:
    """
    Counts calls down to the next that is timed.

    The call before that is made as ever, but with a clock beside it: what a timed call takes more
    says how rare they have to be. Threads may count past one another; a call more or less is
    timed then.
    """

    __slots__ = ("_more_ns", "_plain_ns", "every", "left")

    def __init__(self) -> None:
        self.left = LEAST_EVERY
        """The calls until one is of use, this one included."""
        self.every = LEAST_EVERY
        self._plain_ns: float | None = None
        self._more_ns: float | None = None

    @property
    def is_plain_known(self) -> bool:
        """True if the next call of use is the one that is timed."""
        return self._plain_ns is not None

    def plain(self, ns: float) -> None:
        """Takes in what a call took that was made as ever; the next one is timed."""
        self._plain_ns, self.left = max(ns, 1.0), 1

    def timed(self, ns: float) -> None:
        """Takes in what a timed call took, and counts on from there."""
        plain, self._plain_ns = self._plain_ns or ns, None
        more = max(ns - plain, 0.0)
        if self._more_ns is not None:
            more = self._more_ns + SMOOTHING * (more - self._more_ns)
        self._more_ns = more
        self.every = min(max(ceil(more / (SHARE * plain)), LEAST_EVERY), MOST_EVERY)
        self.left = self.every
