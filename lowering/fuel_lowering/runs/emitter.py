# SPDX-License-Identifier: MIT OR Apache-2.0
"""The interface between a run and the writers of a target: kernels of a form and their launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fuel_dialect.errors import LoweringError, PluginError
from fuel_dialect.kinds import kind_named
from fuel_dialect.plugins import named
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.map import InPlaceForm
from fuel_lowering.runs.launches import DeviceKernel

CHECK = "check"
"""The name of a scalar that is the number of the first checked op of a launch."""

OFFSET = "offset_"
"""The prefix of the name of a scalar that is the first element of the parameter it names."""


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
    """Writes the kernels of a target."""

    @property
    def target(self) -> str:
        """The name of the target: `triton`, `kompute`."""
        ...

    def emit(self, form: Form) -> Emitted:
        """The kernels of a form. Raises `LoweringError` for one that the target cannot run."""
        ...

    def emit_in_place(self, form: InPlaceForm) -> Emitted | None:
        """
        Returns the kernels that write elements of the form's result and leave those between.

        None where the target cannot write these elements alone.
        """
        ...


def writer_of(form: Form, target: str) -> Callable[..., Emitted]:
    """
    Returns the function of a target that writes the kernels of a form, as its kind names it.

    Raises `LoweringError` if the target has no such function.
    """
    path = kind_named(form.kind).writer.format(target=target)
    try:
        return named(path)
    except (ModuleNotFoundError, AttributeError, PluginError) as error:
        raise LoweringError(
            f"{form.name}: {target} writes no {form.kind} kernels, there is no {path}"
        ) from error
