# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stands for the live route of an executable in calls that are observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuel_runtime.call.live import Live
    from fuel_runtime.call.observing import Observer
    from fuel_runtime.call.state import Use


@dataclass(frozen=True)
class WatchedLive:
    """Has all that the generated method asks of `Live`, and lets an observer hear of it."""

    live: Live
    observer: Observer

    @property
    def epoch(self) -> int:
        """The epoch of the settled route."""
        return self.live.epoch

    def stream(self, use: Use | None, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Makes the decisions of a call as it comes to them."""
        return self.live.stream(use, arguments, self.observer)

    def walk(self, use: Use | None, *arguments: Any) -> tuple[Any, ...]:
        """Takes the settled route."""
        return self.live.observed_walk(self.observer)(use, *arguments)

    def leave(
        self, error: BaseException, use: Use | None, arguments: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Goes on with a call whose settled walk has failed."""
        return self.live.leave(error, use, arguments, self.observer)
