# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Computes the places of the boxes of a plan, in pixels.

A body is a column of rows: a box stands one row below the lowest box that it reads. Arms stand
side by side in the box of their decision. What reads across rows is led past the boxes, on tracks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import log10

from fuel_explain.reports import (
    BodyReport,
    BoxReport,
    BranchReport,
    RunReport,
    TransferReport,
    ValueReport,
)

KERNEL_HEIGHT = 19
HEADER_HEIGHT = 28
RUN_WIDTH = 360
CANDIDATE_WIDTH = 13
TRANSFER_SIZE = 236, 26
ARM_HEADER_HEIGHT = 50
GAP = 44
"""Between rows, for the edges."""
MARGIN = 14
SPACE = 22
"""Between boxes that stand side by side."""
WIDEST_ROW = 2_400
TRACK = 9
"""Between two edges that are led past boxes."""


@dataclass(frozen=True)
class Edge:
    """
    A value on its way between boxes, or from or to the edge of the body, as points and width.

    `track` is the x of the way past boxes, None where nothing is between.
    """

    value: ValueReport
    start: tuple[float, float]
    end: tuple[float, float]
    track: float | None

    @property
    def width(self) -> float:
        """Of its line: one more for each factor of a thousand in its size."""
        return 1 + log10(max(self.value.bytes, 1)) / 3


@dataclass(frozen=True)
class Placed:
    """A box and where it stands in its body; a decision's arms have layouts of their own."""

    box: BoxReport
    x: float
    y: float
    width: float
    height: float
    arms: tuple[BodyLayout, ...] = ()


@dataclass(frozen=True)
class BodyLayout:
    """A body laid out; positions count from its upper left corner."""

    width: float
    height: float
    boxes: tuple[Placed, ...]
    edges: tuple[Edge, ...]


@dataclass
class _Row:
    boxes: list[Placed] = field(default_factory=list[Placed])

    @property
    def width(self) -> float:
        return sum(b.width for b in self.boxes) + SPACE * max(len(self.boxes) - 1, 0)

    @property
    def height(self) -> float:
        return max((b.height for b in self.boxes), default=0)


def lay_out(body: BodyReport, targets: int, least_width: float = 0) -> BodyLayout:
    """Place the boxes of a body whose kernels have candidates on so many targets."""
    rows = _rows(body, targets)
    inner = max([row.width for row in rows] + [least_width - 2 * MARGIN])
    placed: list[Placed] = []
    row_of: dict[str, int] = {}
    y = float(GAP)
    for number, row in enumerate(rows):
        x = MARGIN + (inner - row.width) / 2
        for box in row.boxes:
            placed.append(Placed(box.box, x, y, box.width, box.height, box.arms))
            row_of[box.box.id] = number
            x += box.width + SPACE
        y += row.height + GAP
    height = max(y, GAP)
    edges, tracks = _Edges(body, placed, row_of, len(rows), inner + 2 * MARGIN, height).all()
    return BodyLayout(inner + 2 * MARGIN + TRACK * tracks, height, tuple(placed), edges)


def _rows(body: BodyReport, targets: int) -> list[_Row]:
    """The boxes by how many others they wait for; a row that would be too wide is several."""
    depth: dict[str, int] = {}
    levels: dict[int, list[Placed]] = {}
    for box in body.boxes:
        below = [depth[value.source] + 1 for value in box.reads if value.source]
        depth[box.id] = max(below, default=0)
        levels.setdefault(depth[box.id], []).append(_sized(box, targets))
    rows: list[_Row] = []
    for level in sorted(levels):
        rows.append(_Row())
        for box in levels[level]:
            if rows[-1].boxes and rows[-1].width + box.width > WIDEST_ROW:
                rows.append(_Row())
            rows[-1].boxes.append(box)
    return rows


def _sized(box: BoxReport, targets: int) -> Placed:
    if isinstance(box, RunReport):
        height = HEADER_HEIGHT + KERNEL_HEIGHT * len(box.kernels) + 6
        return Placed(box, 0, 0, run_width(targets), height)
    if isinstance(box, TransferReport):
        return Placed(box, 0, 0, *TRANSFER_SIZE)
    return _decision(box, targets)


def stretched(layout: BodyLayout, height: float) -> BodyLayout:
    """A layout of a body that is given more height: what it gives leads down to the edge."""
    edges = (
        replace(edge, end=(edge.end[0], height)) if edge.end[1] == layout.height else edge
        for edge in layout.edges
    )
    return replace(layout, height=height, edges=tuple(edges))


def run_width(targets: int) -> float:
    """The width of a run whose kernels show so many targets."""
    return RUN_WIDTH + CANDIDATE_WIDTH * targets


def _decision(box: BranchReport, targets: int) -> Placed:
    least = run_width(targets) + 2 * MARGIN
    arms = [lay_out(body, targets, least) for body in box.bodies]
    width = sum(arm.width for arm in arms) + SPACE * (len(arms) - 1) + 2 * MARGIN
    tallest = max((arm.height for arm in arms), default=0)
    height = HEADER_HEIGHT + ARM_HEADER_HEIGHT + tallest + MARGIN
    return Placed(box, 0, 0, width, height, tuple(stretched(arm, tallest) for arm in arms))


class _Edges:
    """The edges of one body: ports are spread along the sides of boxes, tracks are shared."""

    def __init__(
        self,
        body: BodyReport,
        placed: Sequence[Placed],
        row_of: dict[str, int],
        rows: int,
        width: float,
        height: float,
    ):
        self.body = body
        self.place = {box.box.id: box for box in placed}
        self.row_of = row_of
        self.rows = rows
        self.width = width
        self.height = height
        self.tracks: list[int] = []
        """The row up to which each track is taken."""

    def all(self) -> tuple[tuple[Edge, ...], int]:
        """The edges, and how many tracks they take."""
        wanted = list(self._wanted())
        middles = [(self._middle(source), self._middle(target)) for source, target, _ in wanted]
        out = _ports([source for source, _, _ in wanted], [into for _, into in middles])
        into = _ports([target for _, target, _ in wanted], [from_ for from_, _ in middles])
        edges = [
            self._edge(source, target, value, out[index], into[index])
            for index, (source, target, value) in enumerate(wanted)
        ]
        return tuple(edges), len(self.tracks)

    def _middle(self, name: str) -> float:
        box = self.place.get(name)
        return self.width / 2 if box is None else box.x + box.width / 2

    def _wanted(self) -> Iterator[tuple[str, str, ValueReport]]:
        """From which box to which; "" is the upper edge of the body, or the lower."""
        for box in self.body.boxes:
            for value in box.reads:
                yield value.source, box.id, value
        for value in self.body.gives:
            if value.source:
                yield value.source, "", value

    def _edge(self, source: str, target: str, value: ValueReport, out: float, into: float) -> Edge:
        upper, lower = self.row_of.get(source, -1), self.row_of.get(target, self.rows)
        above, below = self.place.get(source), self.place.get(target)
        start = (self.width * out, 0.0)
        if above is not None:
            start = (above.x + above.width * out, above.y + above.height)
        end = (self.width * into, self.height)
        if below is not None:
            end = (below.x + below.width * into, below.y)
        if above is None and below is not None:
            start = (end[0], 0.0)
        if below is None and above is not None:
            end = (start[0], self.height)
        track = None if lower - upper <= 1 else self._track(upper, lower)
        return Edge(value, start, end, track)

    def _track(self, upper: int, lower: int) -> float:
        """The x of a track that is free from one row to another."""
        free = [number for number, until in enumerate(self.tracks) if until <= upper]
        number = free[0] if free else len(self.tracks)
        if not free:
            self.tracks.append(lower)
        self.tracks[number] = lower
        return self.width + TRACK * number - MARGIN / 2


def _ports(names: Sequence[str], others: Sequence[float]) -> list[float]:
    """
    For each mention of a box, where on its side an edge begins: between 0 and 1, evenly.

    `others` are where the other ends of the edges are: their order is kept, so that few cross.
    """
    mentions: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        mentions.setdefault(name, []).append(index)
    ports = [0.0] * len(names)
    for found in mentions.values():
        for place, index in enumerate(sorted(found, key=lambda i: others[i]), 1):
            ports[index] = place / (len(found) + 1)
    return ports
