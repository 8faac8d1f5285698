# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Represents what happened in the calls of a trace, and writes it as Chrome's trace events.

Perfetto, `chrome://tracing` and speedscope open that format. A device is a process of it, and each
thread that calls has a lane of its own there; a process `calls` has the calls and the decisions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

CALLS = "calls"
"""The process of what belongs to no device."""

Kind = Literal["call", "run", "kernel", "transfer"]


@dataclass(frozen=True)
class Lane:
    """A thread that calls; `number` is no other's in a trace."""

    number: int
    name: str


@dataclass(frozen=True)
class Span:
    """Something that took time, in nanoseconds after the trace began."""

    kind: Kind
    name: str
    device: str
    """The label of a device, or `calls`."""
    lane: Lane
    start_ns: int
    end_ns: int
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""
    """The error that ended it; empty where none did."""

    @property
    def ns(self) -> int:
        """The nanoseconds that it took."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Mark:
    """A pick or a fault, at a moment."""

    kind: Literal["pick", "fault"]
    name: str
    lane: Lane
    at_ns: int
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Count:
    """The memory of a device at a moment, in bytes."""

    device: str
    at_ns: int
    bytes: Mapping[str, int]


Event = Span | Mark | Count


def chrome(events: Sequence[Event], facts: Mapping[str, Any]) -> bytes:
    """Returns events as the JSON of a trace, in the order of time; `facts` are written beside."""
    used = (e.device for e in events if not isinstance(e, Mark))
    numbers = {device: n for n, device in enumerate(dict.fromkeys((CALLS, *used)), 1)}
    written = [_written(event, numbers) for event in sorted(events, key=_order)]
    content = {
        "displayTimeUnit": "ns",
        "otherData": dict(facts),
        "traceEvents": [*_names(events, numbers), *written],
    }
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _order(event: Event) -> tuple[int, int]:
    """Returns when an event began; what holds others comes before them."""
    if isinstance(event, Span):
        return event.start_ns, -event.end_ns
    return event.at_ns, 0


def _names(events: Iterable[Event], numbers: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yields the events that name processes and threads."""
    for device, number in numbers.items():
        for kind, value in (("process_name", {"name": device}), ("process_sort_index", number)):
            given = value if isinstance(value, dict) else {"sort_index": value}
            yield {"ph": "M", "name": kind, "pid": number, "tid": 0, "ts": 0, "args": given}
    placed = [(_device(e), e.lane) for e in events if not isinstance(e, Count)]
    for device, lane in sorted(dict.fromkeys(placed), key=lambda p: (numbers[p[0]], p[1].number)):
        place = {"pid": numbers[device], "tid": lane.number, "ts": 0}
        yield {"ph": "M", "name": "thread_name", **place, "args": {"name": lane.name}}


def _device(event: Span | Mark) -> str:
    return event.device if isinstance(event, Span) else CALLS


def _written(event: Event, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Returns an event as the format has it: its times are microseconds."""
    if isinstance(event, Count):
        return {
            "ph": "C",
            "name": "memory",
            "pid": numbers[event.device],
            "tid": 0,
            "ts": event.at_ns / 1000,
            "args": dict(event.bytes),
        }
    place = {"pid": numbers[_device(event)], "tid": event.lane.number}
    own = {"name": event.name, "cat": event.kind, **place}
    if isinstance(event, Mark):
        details = dict(event.details)
        return {"ph": "i", "s": "t", **own, "ts": event.at_ns / 1000, "args": details}
    details = {**event.details, **({"error": event.error} if event.error else {})}
    times = {"ts": event.start_ns / 1000, "dur": event.ns / 1000}
    return {"ph": "X", **own, **times, "args": details}
