# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ops that will be one kernel: what a group of them iterates over, and which groups are one."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Operation, SSAValue

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.kinds import POINTWISE, KernelKind
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.shape import BroadcastToOp, SqueezeOp, UnsqueezeOp
from fuel_dialect.targets.limits import BUFFERS, PARTS
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import AlongAxesOp, FreeWhenContiguous, RowWise


@dataclass(frozen=True)
class Caps:
    """The most ops, values read, and buffers of one kernel."""

    ops: int = 64
    operands: int = 32
    buffers: int = BUFFERS


@dataclass(eq=False)
class Group:
    """
    Ops of one kernel to be, while nobody else has read them.

    `shape` is what the kernel iterates over. With `axes`, the group reduces along these: its values
    either have the shape, or are statistics with one element for each row (what the axes span).
    """

    shape: tuple[int, ...]
    placement: DeviceAttr | None
    axes: tuple[int, ...] | None = None
    kind: KernelKind = POINTWISE
    """The kind of the kernel: that of its ops which are not elementwise, if it has any."""
    ops: list[FuelOp] = field(default_factory=list[FuelOp])
    inputs: set[SSAValue] = field(default_factory=set[SSAValue])
    views: list[Operation] = field(default_factory=list[Operation])
    """Views of statistics, which stand between the ops."""
    unread: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The values of the group that are results so far, and how many of their uses are outside."""
    parts: int = 0
    """Buffers that its reductions may need between launches."""

    @property
    def column(self) -> tuple[int, ...]:
        """The shape that broadcasts one element along each row."""
        axes = self.axes or ()
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(self.shape))

    def merges(self, other: Group) -> bool:
        """Returns True if both can be one kernel."""
        if (self.shape, self.placement) != (other.shape, other.placement):
            return False
        if self.kind.fuses_results or other.kind.fuses_results:
            return POINTWISE in (self.kind, other.kind)
        return self.axes is None or other.axes is None or self.axes == other.axes

    def has_room(self, op: FuelOp, caps: Caps, other: Group | None = None) -> bool:
        """Returns True if an op has room, whatever it reads, with all of another group."""
        ops, inputs = len(self.ops), self.inputs
        if other is not None:
            ops, inputs = ops + len(other.ops), inputs | other.inputs
        if ops >= caps.ops or len(inputs) + len(op.operands) > caps.operands:
            return False
        return self.has_buffers(op, caps, other)

    def has_buffers(self, op: FuelOp, caps: Caps, other: Group | None = None) -> bool:
        """Returns True if the kernel of the group, another and an op takes few enough buffers."""
        inputs, results = self.inputs, len(self.unread) + self.parts
        if other is not None:
            inputs, results = inputs | other.inputs, results + len(other.unread) + other.parts
        if len(inputs) + len(op.operands) + results + parts_of(op) < caps.buffers:
            return True
        read, opened = self.effect_of(op, other)
        return len(inputs) + read + results + opened <= caps.buffers

    def effect_of(self, op: Operation, other: Group | None = None) -> tuple[int, int]:
        """Returns by how much an op would make the inputs and the results of the group grow."""
        inside = self.unread if other is None else self.unread | other.unread
        own = [v for v in op.operands if v in inside]
        closed = sum(own.count(v) >= inside[v] for v in dict.fromkeys(own))
        inputs = self.inputs if other is None else self.inputs | other.inputs
        read = {v for v in op.operands if v not in inputs} - set(own)
        return len(read), len(op.results) - closed + parts_of(op)

    def take(self, op: FuelOp) -> None:
        """Adds an op, whose inputs are added already."""
        self.ops.append(op)
        for value in op.operands:
            if value in self.unread:
                self.unread[value] -= 1
                if not self.unread[value]:
                    del self.unread[value]
        for result in op.results:
            self.unread[result] = sum(1 for _ in result.uses)
        self.parts += parts_of(op)

    def takes_axes(self, op: FuelOp, axes: tuple[int, ...]) -> bool:
        """Returns True if an op along some axes, which reads a value of full shape, may join."""
        if self.kind.fuses_results or self.placement != op.placement:
            return False
        return self.axes is None or self.axes == axes


def parts_of(op: Operation) -> int:
    """Returns how many buffers an op along axes may need between its launches."""
    if not isinstance(op, AlongAxesOp):
        return 0
    return 2 * PARTS if op.has_trait(RowWise) else PARTS


def keeps_order(view: Operation) -> bool:
    """Returns True if a view of a statistic is one too: the same elements in the same order."""
    return isinstance(view, SqueezeOp | UnsqueezeOp) or view.has_trait(FreeWhenContiguous)


def repeats_along_row(view: Operation, shape: tuple[int, ...], column: tuple[int, ...]) -> bool:
    """Returns True if a view repeats each element of a statistic along its row."""
    if not isinstance(view, BroadcastToOp):
        return False
    source = tuple(tensor_type(view.operands[0]).get_shape())
    padded = (1,) * (len(shape) - len(source)) + source
    return tuple(tensor_type(view.results[0]).get_shape()) == shape and padded == column


def has_rows(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Returns True if rows along some axes are longer than one element, and there are any."""
    return prod(shape) > 0 and prod(shape[axis] for axis in axes) > 1
