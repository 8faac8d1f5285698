# SPDX-License-Identifier: MIT OR Apache-2.0
"""Everything that `fuel-explain` says, as data; prices are in nanoseconds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from fuel_passes.finishing.overlap_record import Overlap
from fuel_passes.memory.record import DeviceMemory


@dataclass(frozen=True)
class CandidateReport:
    """A target for an item, and of a kernel its source: `price_ns`, or why it is `refused`."""

    target: str
    source: str
    price_ns: int | None
    measured: bool
    refused: str
    chosen: bool


@dataclass(frozen=True)
class ItemReport:
    """A kernel, or a decision or transfer that is placed as one."""

    item: str
    kind: str
    pin: str
    only_one: bool
    """True if no more than one target could run it, though there are more."""
    only_generic: bool
    """True if only a source that serves every kernel could make it."""
    candidates: tuple[CandidateReport, ...]

    @property
    def price_ns(self) -> int | None:
        """The price of the chosen candidate."""
        return next((c.price_ns for c in self.candidates if c.chosen), None)


@dataclass(frozen=True)
class ArmReport:
    """One arm of a decision."""

    target: str
    price_ns: int | None
    origin: str
    whole_ns: int | None
    """The whole function by this arm and else as planned; None where the plan did not price it."""

    @property
    def is_placement(self) -> bool:
        """True if it is a segment for another device, with the kernels that were placed."""
        return self.whole_ns is not None


@dataclass(frozen=True)
class DecisionReport:
    """Represents a choice of the picker; `decision` is the path, arm 0 the default."""

    decision: str
    arms: tuple[ArmReport, ...]


@dataclass(frozen=True)
class ValueReport:
    """A value that a box or a body gives on: the box it is from, or "" for an argument."""

    source: str
    type: str
    bytes: int


@dataclass(frozen=True)
class RunReport:
    """A run: its kernels, in order, with what could have run them."""

    id: str
    form: Literal["run"]
    reads: tuple[ValueReport, ...]
    target: str
    price_ns: int | None
    leaves: int
    """The number of constants and weights that it holds."""
    kernels: tuple[ItemReport, ...]


@dataclass(frozen=True)
class TransferReport:
    """A copy or a move; without a price where it depends on a decision what is to be moved."""

    id: str
    form: Literal["transfer"]
    reads: tuple[ValueReport, ...]
    op: str
    to: str
    planned: bool
    price_ns: int | None

    @property
    def bytes(self) -> int:
        return sum(value.bytes for value in self.reads)


@dataclass(frozen=True)
class BranchReport:
    """A decision, and what each of its arms does."""

    id: str
    form: Literal["decision"]
    reads: tuple[ValueReport, ...]
    decision: DecisionReport
    bodies: tuple[BodyReport, ...]


BoxReport = RunReport | TransferReport | BranchReport


@dataclass(frozen=True)
class BodyReport:
    """Represents the items of a function or an arm, in order, and its results."""

    boxes: tuple[BoxReport, ...]
    gives: tuple[ValueReport, ...]


@dataclass(frozen=True)
class ArgumentReport:
    """An argument or a result of a function, and where it lives."""

    name: str
    type: str
    device: str


@dataclass(frozen=True)
class FunctionReport:
    """One function: its items in order, the totals of routes, the decisions that stay, the plan."""

    function: str
    items: tuple[ItemReport, ...]
    total_ns: int
    kernels_ns: int
    transfers_ns: int
    exact: bool
    """True if no placement is cheaper; else `gap` says how far off it may be at most."""
    gap: float
    alone_ns: dict[str, int]
    """All on one device, for each device that can run everything."""
    decisions: tuple[DecisionReport, ...]
    arguments: tuple[ArgumentReport, ...]
    results: tuple[ArgumentReport, ...]
    body: BodyReport
    """The optimised function."""
    memory: tuple[DeviceMemory, ...] = ()
    """The memory of a call by device, without what kernels take for themselves."""
    dropped: tuple[str, ...] = ()
    """Arms that had to go so that decisions stay few, each with its price."""
    overlap: Overlap | None = None
    """The time of a call whose devices work at once; None for a call on one device."""


@dataclass(frozen=True)
class Explanation:
    """Everything that `fuel-explain` prints and draws."""

    topology: str
    generation: str
    targets: tuple[str, ...]
    functions: tuple[FunctionReport, ...]

    def to_json(self) -> str:
        """The explanation as a JSON object with the names of the fields."""
        return json.dumps(asdict(self), indent=2)
