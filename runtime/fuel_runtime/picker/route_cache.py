# SPDX-License-Identifier: MIT OR Apache-2.0
"""Keeps the routes that were picked, by all that the picks depend on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fuel_runtime.picker.decision import Decision
from fuel_runtime.telemetry.signals import Snapshot, Tiers

MOST_ROUTES = 32


def free_bytes_bucket(free: int) -> int:
    """Returns the class of some free bytes: 0 for none, else 1 more than log16, rounded down."""
    return 0 if free <= 0 else min((free.bit_length() - 1) // 4 + 1, 255)


@dataclass(frozen=True)
class Fingerprint:
    """
    Holds all that a route depends on.

    A cache of routes is asked with it, so that one for another program, another plan, other
    results, another policy, other measurements or another state of the machine is never given out.
    """

    module: str = ""
    """The entry of the program; a cache belongs to one executable, and so to one module."""
    generation: str = ""
    """The generation of the topology that it was planned for."""
    results: tuple[str, ...] = ()
    """The devices that results are to be on."""
    policy: tuple[object, ...] = ()
    measured: int = 0
    """The number of the last change of measured times."""
    tiers: tuple[tuple[str, int | None, Tiers], ...] = ()
    """For each device its name, the class of its free bytes and its tiers, in order."""
    suspended: tuple[str, ...] = ()
    incumbent: tuple[tuple[str, int], ...] = ()
    """The route before: what is in use stays in use until another is enough better."""


def tiers_of(
    snapshot: Snapshot, devices: Iterable[str]
) -> tuple[tuple[str, int | None, Tiers], ...]:
    """Returns the part of a fingerprint that devices say; those that say nothing are left out."""
    found: list[tuple[str, int | None, Tiers]] = []
    for device in sorted(set(devices)):
        free, tiers = snapshot.of(device).free_bytes, snapshot.tiers_of(device)
        if free is not None or tiers != Tiers():
            found.append((device, None if free is None else free_bytes_bucket(free), tiers))
    return tuple(found)


def devices_of(decisions: Iterable[Decision]) -> tuple[str, ...]:
    """Returns the devices of all arms of some decisions, in the order in which they come."""
    return tuple(dict.fromkeys(d for x in decisions for arm in x.arms for d in arm.places))


R = TypeVar("R")


class RouteCache(Generic[R]):
    """Holds the last routes by fingerprint; `hits` and `resolves` count what was asked."""

    def __init__(self, most: int = MOST_ROUTES):
        self._known: OrderedDict[Fingerprint, R] = OrderedDict()
        self._most = most
        self.hits = 0
        self.resolves = 0

    def find(self, fingerprint: Fingerprint) -> R | None:
        """Returns the route of a fingerprint; None where it is new."""
        known = self._known.get(fingerprint)
        if known is not None:
            self.hits += 1
        return known

    def keep(self, fingerprint: Fingerprint, route: R) -> R:
        """Keep a route that was just picked; what was picked first goes out."""
        self.resolves += 1
        self._known[fingerprint] = route
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return route

    def resolve(self, fingerprint: Fingerprint, pick: Callable[[], R]) -> R:
        """Returns the route of a fingerprint, which `pick` gives where it is new."""
        known = self.find(fingerprint)
        return self.keep(fingerprint, pick()) if known is None else known

    def copy(self) -> RouteCache[R]:
        """Returns another cache with the same routes and counts."""
        other = RouteCache[R](self._most)
        other._known.update(self._known)
        other.hits, other.resolves = self.hits, self.resolves
        return other
