# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says where the time of calls goes: kernel by kernel, beside the least time that each can take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from fuel_runtime.call.trace_events import Event, Span


@dataclass(frozen=True)
class KernelProfile:
    """
    One kernel in all calls; one run, where the kernels of it have no times of their own.

    Bytes are those of one call of it, and `floor_ns` is the least time of one: the longer of moving
    these bytes and of its arithmetic, at the rates of the topology.
    """

    run: str
    kernel: str
    """The label of the kernel; of a whole run those of all its kernels."""
    target: str
    calls: int
    total_ns: int
    median_ns: int
    share: float
    """The part of the time of all calls, from 0 to 1."""
    bytes: int
    floor_ns: int

    @property
    def floor_share(self) -> float:
        """The part of its time that it takes at least: near 1 there is nothing to win."""
        return self.floor_ns / self.median_ns if self.median_ns else 1.0


@dataclass(frozen=True)
class TransferProfile:
    """One transfer in all calls; bytes are those of one."""

    value: str
    origin: str
    to: str
    calls: int
    total_ns: int
    median_ns: int
    share: float
    bytes: int


@dataclass(frozen=True)
class Profile:
    """Represents the times of some calls of an executable; the slowest kernels come first."""

    entry: str
    topology: str
    """The topology whose rates give the floors."""
    calls: int
    total_ns: int
    median_ns: int
    """The time of a call."""
    kernels: tuple[KernelProfile, ...]
    transfers: tuple[TransferProfile, ...]

    @property
    def rest_ns(self) -> int:
        """The time of all calls outside of kernels and transfers: arguments, picks, waiting."""
        return self.total_ns - sum(each.total_ns for each in (*self.kernels, *self.transfers))

    @property
    def rest_share(self) -> float:
        """The part of the time of all calls outside of kernels and transfers."""
        return _share(self.rest_ns, self.total_ns)

    def to_json(self) -> str:
        """Returns the profile as a JSON object with the names of the fields."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        calls = f"{self.calls} call{'s'[: self.calls > 1]}"
        rates = f"floors by the rates of {self.topology}"
        yield f"{self.entry}: {calls} of {_ms(self.median_ns)}; {rates}"
        yield from _table(self._rows())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        yield "kernel", "run", "on", "calls", "time", "share", "bytes", "of floor"
        for k in self.kernels:
            times = (_ms(k.median_ns), f"{k.share:.1%}", f"{k.bytes:,}", f"{k.floor_share:.0%}")
            yield k.kernel, k.run, k.target, str(k.calls), *times
        for t in self.transfers:
            times = (_ms(t.median_ns), f"{t.share:.1%}", f"{t.bytes:,}", "")
            yield t.value, "transfer", f"{t.origin} to {t.to}", str(t.calls), *times
        rest = _ms(self.rest_ns / self.calls)
        yield "the rest", "", "", str(self.calls), rest, f"{self.rest_share:.1%}", "", ""


def profile_of(events: Sequence[Event], entry: str, topology: str) -> Profile:
    """Returns the profile of the calls that events are of, one or more."""
    spans = [event for event in events if isinstance(event, Span)]
    calls = [span for span in spans if span.kind == "call"]
    whole = sum(span.ns for span in calls)
    timed = {span.details["run"] for span in spans if span.kind == "kernel"}
    kernels = [
        KernelProfile(
            run=group[0].details.get("run", group[0].name),
            kernel=_kernel(group[0]),
            target=group[0].details["target"],
            **_times(group, whole),
            bytes=group[0].details["bytes"],
            floor_ns=group[0].details["floor_ns"],
        )
        for group in _grouped(
            span
            for span in spans
            if span.kind == "kernel" or (span.kind == "run" and span.name not in timed)
        )
    ]
    transfers = [
        TransferProfile(
            value=group[0].name,
            origin=group[0].details["from"],
            to=group[0].details["to"],
            **_times(group, whole),
            bytes=group[0].details["bytes"],
        )
        for group in _grouped(span for span in spans if span.kind == "transfer")
    ]
    return Profile(
        entry=entry,
        topology=topology,
        calls=len(calls),
        total_ns=whole,
        median_ns=round(median(span.ns for span in calls)),
        kernels=tuple(sorted(kernels, key=lambda each: -each.total_ns)),
        transfers=tuple(sorted(transfers, key=lambda each: -each.total_ns)),
    )


def _grouped(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yields the spans of each kernel, run or transfer."""
    groups: dict[tuple[object, ...], list[Span]] = {}
    for span in spans:
        about = span.details
        key = span.name, *(str(about.get(name)) for name in ("run", "number", "from", "to"))
        groups.setdefault(key, []).append(span)
    yield from groups.values()


def _times(group: Sequence[Span], whole: int) -> dict[str, Any]:
    total = sum(span.ns for span in group)
    middle = round(median(span.ns for span in group))
    return {
        "calls": len(group),
        "total_ns": total,
        "median_ns": middle,
        "share": _share(total, whole),
    }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _kernel(span: Span) -> str:
    return span.name if span.kind == "kernel" else ", ".join(span.details["kernels"])


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f} ms"


def _table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yields lines of columns; the first three are of words, the others of numbers."""
    cells = [tuple(_cut(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [
            cell.ljust(width) if index < 3 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


def _cut(cell: str, most: int = 60) -> str:
    return cell if len(cell) <= most else f"{cell[: most - 3]}..."
