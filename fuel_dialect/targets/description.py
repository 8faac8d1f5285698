# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What a target can run and at what cost, as data. One module of this package describes one target.

A target makes its kernels in one way or more, its *sources*: library calls, generated loops.
Nothing here is probed: the numbers are typical of the hardware class, so that a plan made from them
is the same on every machine. What decides from them lives in `fuel_passes.plan`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from typing import Literal, cast

from xdsl.ir import Attribute

from fuel_dialect import dtypes, plugins
from fuel_dialect.errors import PluginError
from fuel_dialect.targets.limits import Limit

BACKENDS = ("numpy", "triton", "kompute")
"""The targets of fuel; each is a module of this package with a `DESCRIPTION`."""


Strides = Literal["any", "matrices", "contiguous"]
"""
How operands must lie: anyhow; so that each matrix that a matmul reads has its rows or its columns
without gaps, as BLAS wants; or row-major.
"""


@dataclass(frozen=True)
class KernelSource:
    """One way in which a target makes kernels: what it serves, promises and costs."""

    name: str
    kinds: tuple[str, ...]
    """The kinds of `fuel.kernel` it makes, as they are or op by op (`launches`)."""
    launches: Literal["kernel", "op"] = "kernel"
    """Whether a kernel is one launch, or one call for each of its ops."""
    generic: bool = False
    """Whether it is there for everything, and made for nothing in particular."""
    dtypes: tuple[str, ...] | None = None
    """Element types of operands and results; None for all those of the target."""
    lacks: frozenset[str] = frozenset()
    """Mnemonics of ops it has no code for, whatever their element types."""
    limits: tuple[Limit, ...] = ()
    """Bounds on what it makes."""
    strided: bool = True
    """Whether it reads operands that are not contiguous."""
    reuses: bool = True
    """Whether it may write a result into the memory of an operand."""
    bit_stable: bool = True
    """Whether it gives the same bits each time on the same hardware."""
    ulps: int = 4
    """How many units in the last place elementwise ops may be off, transcendentals too."""
    rate: float = 1.0
    """The share of the target's rates that its kernels reach."""
    revision: str = "1"
    """Of the code that makes the kernels; to be changed with it, so that old times are not used."""

    @property
    def identity(self) -> str:
        """Which code makes a kernel, for the key of what was measured: `tiles-1`."""
        return f"{self.name}-{self.revision}"

    @cached_property
    def element_types(self) -> frozenset[Attribute] | None:
        """The xDSL types of `dtypes`; None for all those of the target."""
        if self.dtypes is None:
            return None
        return frozenset(dtypes.BY_NAME[name].type for name in self.dtypes)


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
    sources: tuple[KernelSource, ...]
    """How it makes kernels, the most wanted first: ties in price go to it."""
    bytes_per_ns: float
    operations_per_ns: float
    flops_per_ns: float
    launch_ns: int
    """Fixed cost of a kernel, and of each call where there is one for each op."""
    tile: int
    """Elements of one piece of a pointwise kernel; no more than that is run by one thread."""
    threads: int
    mixed_floats: bool = False
    """Whether it has kernels whose float operands differ in element type."""
    lacks: frozenset[str] = frozenset()
    """Mnemonics of ops that none of its sources has, whatever their element types."""
    matmul_flops: tuple[tuple[str, float], ...] = ()
    """Element types whose matmuls have a rate other than `flops_per_ns`."""
    strides: tuple[tuple[str, Strides], ...] = ()
    """The kinds of kernels that do not read operands however they lie, and what each reads."""
    tables: tuple[str, ...] = ()
    """The tables of rules for ops of other packages that its emitter reads besides its own."""

    @property
    def reads_all(self) -> bool:
        """Whether its kernels read operands of any strides."""
        return not self.strides

    def reads(self, kind: str) -> Strides:
        """How operands of a kernel of a kind must lie."""
        for known, strides in self.strides:
            if known == kind:
                return strides
        return "any"

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of `fuel.kernel` that one of its sources makes."""
        return tuple(dict.fromkeys(kind for source in self.sources for kind in source.kinds))

    @cached_property
    def element_types(self) -> frozenset[Attribute]:
        """The xDSL types of `dtypes`."""
        return frozenset(dtypes.BY_NAME[name].type for name in self.dtypes)

    def at(self, rate: float) -> TargetDescription:
        """The target with a share of its rates."""
        if rate == 1.0:
            return self
        known = self._slower.get(rate)
        if known is None:
            known = self._slower[rate] = replace(
                self,
                bytes_per_ns=self.bytes_per_ns * rate,
                operations_per_ns=self.operations_per_ns * rate,
                flops_per_ns=self.flops_per_ns * rate,
                matmul_flops=tuple((name, flops * rate) for name, flops in self.matmul_flops),
            )
        return known

    @cached_property
    def _slower(self) -> dict[float, TargetDescription]:
        return {}

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
