# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Describes targets as data: what they can run, at what cost, and where their code is.

A target makes its kernels in one way or more, its *sources*: library calls, generated loops.
Nothing here is probed: the numbers are typical of the hardware class, so that a plan made from them
is the same on every machine. `fuel_passes.planning` decides from them. `registry` finds the
descriptions; nothing else lists targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from xdsl.ir import Attribute

from fuel_dialect import dtypes, kinds
from fuel_dialect.errors import PluginError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.targets.limits import BUFFERS, LargestBuffer, Limit, MostBuffers
from fuel_dialect.targets.op_sets import OpSet, Precision, Unstable
from fuel_dialect.traits import Exact, is_marked

Strides = Literal["any", "matrices", "contiguous"]
"""
The layouts of operands: any; such that each matrix of a matmul has its rows or its columns
without gaps, as BLAS wants; or row-major.
"""

Concurrency = Literal["none", "stream", "events"]
"""
The lead of the host over a device that it has asked for something.

"none": it waits for each run and each transfer. "stream": it goes on, and a read waits for all that
the device was asked for before. "events": a read waits only for what gives the value that is read.
"""

Rewrite = Literal["scans", "factors", "rows", "vectors"]
"""Names what `fuel-legalize-kernels` may do to the kernels of a target before code is made."""


FOUR_ULPS = (Precision(OpSet(), 4),)
"""The precision of a source that says nothing else: 4 units in the last place, for every op."""


@dataclass(frozen=True)
class KernelSource:
    """One way in which a target makes kernels: what it serves, promises and costs."""

    name: str
    kinds: tuple[str, ...]
    """The kinds of `fuel.kernel` it makes, as they are or op by op (`launches`)."""
    launches: Literal["kernel", "op"] = "kernel"
    """The launches of a kernel: one, or one call for each of its ops."""
    generic: bool = False
    """True if it serves every kernel and is made for no particular one."""
    dtypes: tuple[str, ...] | None = None
    """Element types of operands and results; None for all those of the target."""
    lacks: tuple[OpSet, ...] = ()
    """The ops it has no code for."""
    limits: tuple[Limit, ...] = ()
    """Bounds on what it makes."""
    buffers: int | None = None
    """The most buffers of one kernel: an op of more operands is split. None for any number."""
    strided: bool = True
    """True if it reads operands that are not contiguous."""
    reuses: bool = True
    """True if it may write a result into the memory of an operand."""
    unstable: tuple[Unstable, ...] = ()
    """The ops whose results may have other bits each time, on the same hardware."""
    fallback: bool = False
    """True if it is for `deterministic` alone: never cheaper, but bit-stable where no other is."""
    precision: tuple[Precision, ...] = FOUR_ULPS
    """
    Bounds the errors of ops on floats that are not `Exact`; the first that holds an op is for it.

    The `ULPS` of an op are for every source: what its definition over primitives loses.
    """
    rate: float = 1.0
    """The share of the target's rates that its kernels reach."""
    revision: str = "1"
    """Of the code that makes the kernels; to be changed with it, so that old times are not used."""

    def ulps_of(self, op: type[FuelOp], dtype: str) -> int:
        """
        Returns how many units in the last place an op on an element type may be off.

        Raises `PluginError` if the source states no precision for it.
        """
        if is_marked(op, Exact):
            return 0
        types = (dtypes.BY_NAME[dtype].type,)
        stated = next((p.ulps for p in self.precision if p.ops.holds(op, types)), None)
        if stated is None:
            raise PluginError(
                f"the source {self.name!r} states no precision for {op.mnemonic()} of {dtype}; "
                "end `precision` with one for all ops, `Precision(OpSet(), ULPS)`"
            )
        return max(stated, op.ULPS.get(dtype, 0))

    @property
    def identity(self) -> str:
        """The name of the code that makes a kernel, for the key of what was measured: `tiles-1`."""
        return f"{self.name}-{self.revision}"

    @cached_property
    def bounds(self) -> tuple[Limit, ...]:
        """All bounds on what it makes."""
        return self.limits if self.buffers is None else (MostBuffers(self.buffers), *self.limits)

    def within(self, largest_buffer_bytes: int | None, buffers: int | None) -> KernelSource:
        """
        Returns the source on a device with such bounds; None for what is typical of it.

        A device that gives kernels more buffers than the source names gives it no more of them.
        """
        limits, least = self.limits, self.buffers
        if largest_buffer_bytes is not None:
            others = (each for each in limits if not isinstance(each, LargestBuffer))
            limits = (LargestBuffer(largest_buffer_bytes, "what the device says"), *others)
        if buffers is not None:
            least = buffers if least is None else min(buffers, least)
        return replace(self, limits=limits, buffers=least)

    @cached_property
    def element_types(self) -> frozenset[Attribute] | None:
        """The xDSL types of `dtypes`; None for all those of the target."""
        if self.dtypes is None:
            return None
        return frozenset(dtypes.BY_NAME[name].type for name in self.dtypes)


@dataclass(frozen=True)
class DtypeRates:
    """The work of a target in a nanosecond with one element type; None: as with others."""

    bytes_per_ns: float | None = None
    operations_per_ns: float | None = None
    flops_per_ns: float | None = None

    def times(self, bytes: float, operations: float, flops: float) -> DtypeRates:
        """These rates times some factors."""
        return DtypeRates(
            None if self.bytes_per_ns is None else self.bytes_per_ns * bytes,
            None if self.operations_per_ns is None else self.operations_per_ns * operations,
            None if self.flops_per_ns is None else self.flops_per_ns * flops,
        )


ByDtype = tuple[tuple[str, DtypeRates], ...]
"""The element types that have rates of their own, by name, and those rates."""


class Slowdown(NamedTuple):
    """The factors by which work on an element type takes longer than at the target's rates."""

    bytes: float = 1
    operations: float = 1
    flops: float = 1


NONE_SLOWER = Slowdown()


@dataclass(frozen=True)
class TargetDescription:
    """
    Describes one target; the layers below read nothing else to find, price, load and draw it.

    Rates are per nanosecond; `operations` are weighted element operations (`FuelOp.WEIGHT`), for
    one thread; `flops` are those of a matmul on the whole device. They hold for every element type
    that has none of its own in `by_dtype`.

    Code is named by strings, `module:attribute`, so that a description imports none of it.
    """

    name: str
    runs_on: tuple[str, ...]
    """The kinds of devices it can be on: `cpu`, `cuda`."""
    dtypes: tuple[str, ...]
    """Element types that operands and results of its kernels may have."""
    sources: tuple[KernelSource, ...]
    """The sources of its kernels, the most wanted first: ties in price go to it."""
    bytes_per_ns: float
    operations_per_ns: float
    flops_per_ns: float
    launch_ns: int
    """Fixed cost of a kernel, and of each call where there is one for each op."""
    tile: int
    """Elements of one piece of a pointwise kernel; no more than that is run by one thread."""
    threads: int
    mixed_floats: bool = False
    """True if it has kernels whose float operands differ in element type."""
    lacks: tuple[OpSet, ...] = ()
    """The ops that none of its sources has code for."""
    by_dtype: ByDtype = ()
    """Element types that are slower or faster than the rates say."""
    strides: tuple[tuple[str, Strides], ...] = ()
    """The kinds of kernels that do not read operands however they lie, and what each reads."""
    rewrites: tuple[Rewrite, ...] = ()
    """Names the rewrites of its kernels before code is made of them."""
    step_buffers: int = BUFFERS
    """The most buffers of a launch in a scan, where `rewrites` has `scans`."""
    concurrency: Concurrency = "none"
    """The lead of the host over its devices."""
    tables: tuple[str, ...] = ()
    """The tables of rules for ops of other packages that its emitter reads besides its own."""

    # Where its code is.

    lowering: str = ""
    """`lower_run(run, entry) -> LoweredRun` (`fuel_lowering.runs.functions`)."""
    driver: str = ""
    """
    `open(device) -> Driver` (`fuel_runtime.devices.interface`), for a kind of device with memory of
    its own. Empty on the host, and where another target of the kind opens the device.
    """
    emulator: str = ""
    """`open(device, capacity_in_bytes_or_None) -> Driver`; empty where nothing emulates it."""
    probe: str = ""
    """`find(probing) -> Iterable[Seen]` (`fuel_runtime.probe`): the devices that it finds."""
    telemetry: str = ""
    """
    `provider(device) -> Provider | None` (`fuel_runtime.telemetry.sampler`): who tells of the load,
    temperature and clock of its devices. Memory is the driver's to tell.
    """
    printer: str = ""
    """The xDSL `Target` that `xdsl-opt -t fuel-<name>` prints with."""
    packages: tuple[str, ...] = ()
    """Packages that its runs import; a session leaves the target out where one is missing."""
    shades: tuple[str, ...] = ("#7a5ba6", "#9c83c0", "#553c7b")
    """The colours of its devices in drawings, by the number of the device."""
    is_default: bool = False
    """True for the target of its kinds of device where a program or a person names none."""
    joins: bool = True
    """True if a session uses it unasked; else a session has to name it: `cpu/loops`."""

    @property
    def reads_all(self) -> bool:
        """True if its kernels read operands of any strides."""
        return not self.strides

    def reads(self, kind: str) -> Strides:
        """Returns the layouts that operands of a kernel of a kind must have."""
        for known, strides in self.strides:
            if known == kind:
                return strides
        return "any"

    def makes(self, kind: str, source: KernelSource) -> bool:
        """
        Returns True if a source makes kernels of a kind.

        The first source also makes those of the kinds of other packages that name the target.
        """
        if kind in source.kinds:
            return True
        return source == self.sources[0] and self.name in kinds.kind_named(kind).targets

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of `fuel.kernel` that one of its sources makes."""
        return tuple(dict.fromkeys(kind for source in self.sources for kind in source.kinds))

    @cached_property
    def element_types(self) -> frozenset[Attribute]:
        """The xDSL types of `dtypes`."""
        return frozenset(dtypes.BY_NAME[name].type for name in self.dtypes)

    def within(self, largest_buffer_bytes: int | None, buffers: int | None) -> TargetDescription:
        """Returns the target on a device with such bounds; see `KernelSource.within`."""
        return replace(
            self,
            sources=tuple(source.within(largest_buffer_bytes, buffers) for source in self.sources),
            step_buffers=self.step_buffers if buffers is None else min(self.step_buffers, buffers),
        )

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
                by_dtype=tuple((name, own.times(rate, rate, rate)) for name, own in self.by_dtype),
            )
        return known

    @cached_property
    def _slower(self) -> dict[float, TargetDescription]:
        return {}

    def slowdown(self, element_type: Attribute) -> Slowdown:
        """Returns the factors by which work on an element type takes longer than the rates say."""
        return self._slowdowns.get(element_type, NONE_SLOWER)

    @cached_property
    def _slowdowns(self) -> dict[Attribute, Slowdown]:
        return {
            dtypes.BY_NAME[name].type: Slowdown(
                self.bytes_per_ns / (own.bytes_per_ns or self.bytes_per_ns),
                self.operations_per_ns / (own.operations_per_ns or self.operations_per_ns),
                self.flops_per_ns / (own.flops_per_ns or self.flops_per_ns),
            )
            for name, own in self.by_dtype
        }
