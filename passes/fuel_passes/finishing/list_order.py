# SPDX-License-Identifier: MIT OR Apache-2.0
"""Orders the items of a block by list scheduling on simulated clocks."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Operation

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.ops.control import RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_passes.finishing.overlap import Scene, Simulation
from fuel_passes.planning.residency import HOST_DEVICE

Before = Mapping[Operation, Sequence[Operation]]
"""The items that have to come before an item."""


@dataclass(frozen=True)
class _Lane:
    """
    Represents items that are asked for in the same way, so that the longest path decides.

    `launch`: a device is asked for them, and the host goes on. `cross`: so are two, for a value of
    the second. `read`: the host waits for a value of the device. `host`: the host does them itself.
    """

    way: Literal["launch", "cross", "read", "host"]
    device: str = ""
    source: str = ""


_Entry = tuple[int, int, int]
"""The key of an item in its lane: the time at which its value is made, or 0; the negative length of
the longest path from it; its place."""


def list_orders(
    items: Sequence[Operation], before: Before, scene: Scene
) -> tuple[list[Operation], list[Operation]]:
    """
    Returns the items in the orders in which two greedy hosts would ask for them.

    Of the items that are ready it takes the one that it has to wait for least, launches first, and
    then the one with the longest path behind it. A launch that a read of the same device would have
    to wait for comes after that read, unless it has the longer path; what crosses from a device
    that is busy for longer comes after the launches that the other has time for. Ties go by the
    order given.

    The first host launches all that is ready. The second asks a device for nothing more while it
    can take a value from there that would wait for that: so others go on with the value.
    """
    after: dict[Operation, list[Operation]] = {op: [] for op in items}
    for op in items:
        for earlier in before[op]:
            after[earlier].append(op)
    path = _longest_paths(items, after, scene.alone_ns(items))
    first, second = (
        _Schedule(items, before, after, path, scene, is_patient).run()
        for is_patient in (False, True)
    )
    return first, second


def _longest_paths(
    items: Sequence[Operation],
    after: Mapping[Operation, Sequence[Operation]],
    ns: Mapping[Operation, int],
) -> dict[Operation, int]:
    """Returns, for items in an order that is valid, the time from each to the end of its paths."""
    path: dict[Operation, int] = {}
    for op in reversed(items):
        path[op] = ns[op] + max((path[later] for later in after[op]), default=0)
    return path


LAST = 1 << 62
"""A time later than all others."""


class _Schedule:
    """Takes items one after the other, and simulates them as it does."""

    def __init__(
        self,
        items: Sequence[Operation],
        before: Before,
        after: Mapping[Operation, Sequence[Operation]],
        path: Mapping[Operation, int],
        scene: Scene,
        is_patient: bool,
    ):
        self._is_patient = is_patient
        self._items = items
        self._after = after
        self._path = path
        self._place = {op: place for place, op in enumerate(items)}
        self._waiting = {op: len(before[op]) for op in items}
        self._simulation = scene.start()
        self._lanes: dict[_Lane, list[_Entry]] = {}

    def run(self) -> list[Operation]:
        order: list[Operation] = []
        for op in self._items:
            if not self._waiting[op]:
                self._push(op)
        while (op := self._pop()) is not None:
            order.append(op)
            self._simulation.visit(op)
            for later in self._after[op]:
                self._waiting[later] -= 1
                if not self._waiting[later]:
                    self._push(later)
        return order

    def _push(self, op: Operation) -> None:
        lane = lane_of(op, self._simulation)
        since = 0
        if lane.way == "read" and self._simulation.clocks.concurrency(lane.device) == "events":
            assert isinstance(op, TransferOp)
            since = self._simulation.read_start(op.input)
        entry = since, -self._path[op], self._place[op]
        heapq.heappush(self._lanes.setdefault(lane, []), entry)

    def _pop(self) -> Operation | None:
        heads = [(lane, heap[0]) for lane, heap in self._lanes.items() if heap]
        if not heads:
            return None
        lane, (*_, place) = min(heads, key=lambda head: self._key(*head))
        heapq.heappop(self._lanes[lane])
        return self._items[place]

    def _key(self, lane: _Lane, entry: _Entry) -> tuple[int, bool, int, int]:
        _, path, place = entry
        wait = 0
        if lane.way == "read":
            op = self._items[place]
            assert isinstance(op, TransferOp)
            wait = self._simulation.read_start(op.input) - self._simulation.clocks.now
        if self._is_patient and lane.way == "launch" and self._is_wanted(lane.device):
            wait = LAST
        return wait, not self._is_early(lane, path), path, place

    def _is_wanted(self, device: str) -> bool:
        """Returns True if a value can be taken from a device behind what it is asked for."""
        clocks = self._simulation.clocks
        for lane, heap in self._lanes.items():
            if heap and lane.way == "cross" and lane.source == device:
                return True
            if heap and lane.way == "read" and lane.device == device:
                return clocks.concurrency(device) != "events"
        return False

    def _is_early(self, lane: _Lane, path: int) -> bool:
        """Returns True if a device is to be asked at once, before the host is at something."""
        if lane.way == "launch":
            return not self._delays_a_read(lane.device, path)
        return lane.way == "cross" and not self._idles(lane)

    def _delays_a_read(self, device: str, path: int) -> bool:
        """Returns True if a launch on a device would keep a read of it waiting that is urgent."""
        clocks = self._simulation.clocks
        reads = self._lanes.get(_Lane("read", device))
        if not reads or clocks.concurrency(device) == "events":
            return False
        return clocks.busy_until(device) > clocks.now and reads[0][1] <= path

    def _idles(self, lane: _Lane) -> bool:
        """Returns True if a device would wait for the other, and has launches to do until then."""
        clocks = self._simulation.clocks
        ends = sorted((lane.source, lane.device), key=clocks.busy_until)
        waits = clocks.busy_until(ends[0]) < clocks.busy_until(ends[1])
        return waits and bool(self._lanes.get(_Lane("launch", ends[0])))


def lane_of(op: Operation, simulation: Simulation) -> _Lane:
    """Returns how an item is asked for, whose operands have been made in a simulation."""
    concurrency = simulation.clocks.concurrency
    ends: list[DeviceAttr] = []
    if isinstance(op, RunOp):
        ends = [op.target.device]
    elif isinstance(op, TransferOp) and not simulation.is_on(op.input, op.to):
        home = simulation.home(op.input)
        if op.to == HOST_DEVICE and home is not None:
            return _Lane("read", home.label)
        ends = [op.to] if home in (None, HOST_DEVICE) else [op.to, home]
    if not ends or HOST_DEVICE in ends or any(concurrency(end.label) == "none" for end in ends):
        return _Lane("host")
    return _Lane("launch" if len(ends) == 1 else "cross", *(end.label for end in ends))
