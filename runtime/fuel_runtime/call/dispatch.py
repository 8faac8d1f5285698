# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents which code serves the kernels of a call, on which hardware, and what else could."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from fuel_passes.planning.measurements import MeasurementKey


@dataclass(frozen=True)
class DispatchCandidate:
    """One way to make a kernel: a source of a target, its price, or why it cannot."""

    target: str
    source: str
    price_ns: int | None
    """The price of the model; None where it cannot make the kernel, or nobody knows."""
    measured_ns: int | None
    """None where nobody has measured it."""
    refusal: str | None


@dataclass(frozen=True)
class Dispatch:
    """The kernels of a call that are one to measurements: same ops, types, sizes and code."""

    key: MeasurementKey
    """With the code's revision, and the hardware of the topology."""
    source: str
    """The source of the target that makes them."""
    hardware: str
    """The identity of the device that runs them."""
    count: int
    is_miss: bool
    """True if the source is one for every kernel, and the target has none made for such ones."""
    candidates: tuple[DispatchCandidate, ...] = ()
    """All ways to make them; none unless they were asked for."""


@dataclass(frozen=True)
class Dispatches:
    """Represents the kernels of a call, in the order in which they first run."""

    records: tuple[Dispatch, ...]

    @property
    def misses(self) -> tuple[Dispatch, ...]:
        """The kernels that no source is made for."""
        return tuple(record for record in self.records if record.is_miss)

    def to_json(self) -> str:
        """Returns the records as a JSON object with the names of the fields."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        return "\n".join(line for record in self.records for line in _lines(record))


def _lines(record: Dispatch) -> Iterator[str]:
    key = record.key
    times = f"{record.count} x " if record.count > 1 else ""
    made = f"{key.target} {record.source} on {record.hardware or 'unknown hardware'}"
    miss = "; a miss: no source is made for it" if record.is_miss else ""
    sizes = ", ".join(map(str, key.shape_class))
    yield f"{times}{'+'.join(key.ops)} ({', '.join(key.dtypes)}) of class {sizes}: {made}{miss}"
    for each in record.candidates:
        price = "no price" if each.price_ns is None else f"{each.price_ns:,} ns"
        measured = "" if each.measured_ns is None else f", measured {each.measured_ns:,} ns"
        yield f"  {each.target} {each.source}: {each.refusal or price + measured}"
