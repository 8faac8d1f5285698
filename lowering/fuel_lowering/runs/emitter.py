# SPDX-License-Identifier: MIT OR Apache-2.0
"""The interface between a run and the writers of a target: kernels of a form and their launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.map import InPlaceForm
from fuel_lowering.runs.launches import DeviceKernel

CHECK = "check"
"""The name of a scalar that is the number of the first checked op of a launch."""

OFFSET = "offset_"
"""What the name of a scalar begins with that is the first element of the parameter it names."""


@dataclass(frozen=True)
class EmittedLaunch:
    """
    A launch, bound to slots of the form.

    Slots are the arguments, then the results, then the temporaries of the form; -1 is the status.
    `scalars` are the values of the kernel's scalars in order; those that the run knows (`CHECK`,
    `OFFSET`) are left out.
    """

    kernel: int
    slots: tuple[int, ...]
    scalars: tuple[int, ...]
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class Emitted:
    """The kernels of a form, the launches that compute it, and the temporaries between these."""

    kernels: tuple[DeviceKernel, ...]
    launches: tuple[EmittedLaunch, ...]
    temporaries: tuple[tuple[str, int], ...] = ()
    """Element type and number of elements of each."""


class Emitter(Protocol):
    """What writes the kernels of a target."""

    @property
    def target(self) -> str:
        """The name of the target: `triton`, `kompute`."""
        ...

    def emit(self, form: Form) -> Emitted:
        """The kernels of a form. Raises `LoweringError` for one that the target cannot run."""
        ...

    def writes_in_place(self, form: InPlaceForm) -> bool:
        """Returns True if the target can write some elements of a result and leave the others."""
        ...
