# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines what a picker is asked and what it answers: decisions, their arms, and picks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fuel_passes.planning.measurements import MeasurementKey


@dataclass(frozen=True)
class Need:
    """Holds the memory that an arm takes on a device."""

    device: str
    transient: int
    """Bytes that each call takes and gives back."""
    lasting: int = 0
    """Bytes that the first call takes and keeps: weights, constants, workspaces."""


@dataclass(frozen=True)
class Arm:
    """Holds what a picker knows of one arm; the price is in nanoseconds, None if unpriced."""

    target: str
    price_ns: int | None
    origin: str
    unavailable: str | None
    """The reason why this machine cannot run the arm; None if it can."""
    devices: tuple[str, ...] = ()
    """The labels of the devices that it needs, its own first; without any, that of its target."""
    needs: tuple[Need, ...] = ()
    key: MeasurementKey | None = None
    """The key of its measured time; None if it has no kernels."""

    @property
    def device(self) -> str:
        """Returns the label of the device that the arm is named after."""
        return self.devices[0] if self.devices else self.target.partition("/")[0]

    @property
    def places(self) -> tuple[str, ...]:
        """Returns the labels of all devices that the arm needs."""
        return self.devices or (self.device,)


@dataclass(frozen=True)
class Decision:
    """Represents one branch: its path, such as `d0` or `d3/1/d0`, and its arms."""

    path: str
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Pick:
    """Holds the arm that was picked, why, and why none of the others."""

    arm: int
    reason: str
    why_not: Mapping[int, str] = field(default_factory=dict[int, str])
    """The reason against each of the other arms."""
