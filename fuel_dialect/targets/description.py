# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What a target can run and at what cost, as data. One module of this package describes one target.

Nothing here is probed: the numbers are typical of the hardware class, so that a plan made from
them is the same on every machine. What decides from them lives in `fuel_passes.plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Literal, cast

from xdsl.ir import Attribute

from fuel_dialect import dtypes, plugins
from fuel_dialect.errors import PluginError

BACKENDS = ("numpy", "triton", "kompute")
"""The targets of fuel; each is a module of this package with a `DESCRIPTION`."""


Strides = Literal["any", "matrices", "contiguous"]
"""
How operands must lie: anyhow; so that each matrix that a matmul reads has its rows or its columns
without gaps, as BLAS wants; or row-major.
"""


@dataclass(frozen=True)
class TargetDescription:
    """
    One target.

    Rates are per nanosecond; `operations` are weighted element operations (`FuelOp.WEIGHT`), for
    one thread; `flops` are those of a matmul on the whole device.
    """

    name: str
    dtypes: tuple[str, ...]
    """Element types that operands and results of its kernels may have."""
    kinds: tuple[str, ...]
    """The kinds of `fuel.kernel` it can lower."""
    bytes_per_ns: float
    operations_per_ns: float
    flops_per_ns: float
    launch_ns: int
    """Fixed cost of a pointwise kernel, and of each call in a library kernel."""
    tile: int
    """Elements of one piece of a pointwise kernel; no more than that is run by one thread."""
    threads: int
    mixed_floats: bool = False
    """Whether it has kernels whose float operands differ in element type."""
    lacks: frozenset[str] = frozenset()
    """Mnemonics of ops it has no kernel for, whatever their element types."""
    matmul_flops: tuple[tuple[str, float], ...] = ()
    """Element types whose matmuls have a rate other than `flops_per_ns`."""
    bit_stable: bool = True
    """Whether its kernels give the same bits each time on the same hardware."""
    ulps: int = 4
    """How many units in the last place its elementwise kernels may be off, transcendentals too."""
    strides: tuple[tuple[str, Strides], ...] = ()
    """The kinds of kernels that do not read operands however they lie, and what each reads."""
    tables: tuple[str, ...] = ()
    """The tables of rules for ops of other packages that its emitter reads besides its own."""

    @property
    def strided(self) -> bool:
        """Whether its kernels read operands of any strides."""
        return not self.strides

    def reads(self, kind: str) -> Strides:
        """How operands of a kernel of a kind must lie."""
        for known, strides in self.strides:
            if known == kind:
                return strides
        return "any"

    @cached_property
    def element_types(self) -> frozenset[Attribute]:
        """The xDSL types of `dtypes`."""
        return frozenset(dtypes.BY_NAME[name].type for name in self.dtypes)

    def flops_for(self, element_type: Attribute) -> float:
        """Floating-point operations per nanosecond of a matmul on an element type."""
        return self._flops_by_type.get(element_type, self.flops_per_ns)

    @cached_property
    def _flops_by_type(self) -> dict[Attribute, float]:
        return {dtypes.BY_NAME[name].type: rate for name, rate in self.matmul_flops}


@cache
def description_of(backend: str) -> TargetDescription | None:
    """The description of a target by name; None if there is none."""
    if backend not in BACKENDS:
        return _outside(backend)
    return cast(TargetDescription, import_module(f"{__package__}.{backend}").DESCRIPTION)


def _outside(backend: str) -> TargetDescription | None:
    """The description of a target that another package adds. Raises `PluginError`."""
    for plugin in plugins.found(plugins.TARGETS):
        if plugin.name != backend:
            continue
        description = plugin.load_as(TargetDescription)
        if description.name != backend:
            raise PluginError(f"{plugin} describes {description.name!r}; it must have its name")
        return description
    return None


def backends() -> tuple[str, ...]:
    """The targets that are described, those of other packages last."""
    return (*BACKENDS, *(plugin.name for plugin in plugins.found(plugins.TARGETS)))
