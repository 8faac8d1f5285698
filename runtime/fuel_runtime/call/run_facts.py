# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds what an observer tells of the runs of an executable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuel_runtime.devices.interface import Device

Began = Callable[[int], None]
"""Hears the number of the kernel that begins; -1 once the last has ended."""

Watched = Callable[[Callable[..., Any], Began], Callable[..., Any] | None]
"""Returns what says it; None where the target cannot."""


@dataclass(frozen=True)
class KernelFacts:
    """A kernel as the optimised IR has it."""

    label: str
    kind: str
    types: str
    """Its operands and results by type."""
    bytes: int
    """The bytes that it reads and writes, each once."""
    floor_ns: int
    """The least time that it takes at the rates of its target."""


@dataclass(frozen=True)
class RunFacts:
    """A run that is loaded, with its kernels in order."""

    name: str
    target: str
    device: Device = field(compare=False)
    kernels: tuple[KernelFacts, ...]
    watched: Watched | None = field(compare=False)
    """Makes a run that is loaded say which kernel begins; None where nobody wants to hear that."""

    @property
    def bytes(self) -> int:
        """The bytes that its kernels read and write."""
        return sum(kernel.bytes for kernel in self.kernels)

    @property
    def floor_ns(self) -> int:
        """The least time that its kernels take, one after the other."""
        return sum(kernel.floor_ns for kernel in self.kernels)
