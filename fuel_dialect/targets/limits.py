# SPDX-License-Identifier: MIT OR Apache-2.0
"""States the limits of kernel sources, of size or of code, as data that says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Protocol

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.movement import checks_indices
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import (
    AlongAxesOp,
    FreeWhenContiguous,
    Leaf,
    RowWise,
    ViewOp,
)

MOST_LAUNCHES = 1 << 16
"""A run of more launches would take longer to record than anybody waits."""

BUFFERS = 32
"""The most storage buffers of one launch: as many as common Vulkan drivers bind."""


class Limit(Protocol):
    """A bound on the kernels that a source makes."""

    def refusal(self, kernel: KernelOp) -> str | None:
        """Returns the reason why a kernel is out of bounds; None if it is not."""
        ...


@dataclass(frozen=True)
class LargestBuffer:
    """No operand or result of a kernel takes more than so many bytes."""

    bytes: int
    reason: str

    def refusal(self, kernel: KernelOp) -> str | None:
        largest = max(map(_bytes, _values(kernel)), default=0)
        if largest <= self.bytes:
            return None
        return (
            f"largest-buffer: a value of {largest:,} bytes; {self.bytes:,} are allowed "
            f"({self.reason})"
        )


@dataclass(frozen=True)
class MostElements:
    """No value that a kernel holds has more than so many elements, views of its operands too."""

    elements: int

    def refusal(self, kernel: KernelOp) -> str | None:
        """Returns why a kernel is out of bounds; None if it is not."""
        values = (result for op in kernel.body.walk() for result in op.results)
        largest = max((prod(tensor_type(v).get_shape()) for v in values), default=0)
        if largest <= self.elements:
            return None
        return f"most-elements: a value of {largest:,} elements; {self.elements:,} can be counted"


@dataclass(frozen=True)
class LongestRow:
    """
    An invocation takes no more than `trips` turns of its loops.

    `workgroup_size` invocations share a row. Fewer rows than `groups` are cut into parts, one
    pass at a time.
    """

    trips: int
    workgroup_size: int
    groups: int

    def refusal(self, kernel: KernelOp) -> str | None:
        """Returns why a kernel is out of bounds; None if it is not."""
        reductions = [op for op in kernel.body.block.ops if isinstance(op, AlongAxesOp)]
        if not reductions:
            return None
        shape = tensor_type(reductions[0].operands[0]).get_shape()
        columns = prod(shape[axis] for axis in reductions[0].axes())
        parts = self.groups // max(prod(shape) // max(columns, 1), 1)
        passes = 1 if parts > 1 else 1 + sum(_passes(op) for op in reductions)
        most = self.trips * self.workgroup_size * max(parts, 1) // passes
        if columns <= most:
            return None
        return f"longest-row: rows of {columns:,} elements; {most:,} are allowed"


def _passes(op: Operation) -> int:
    """Returns how many reductions an op along axes is made of, at most."""
    return 2 if op.has_trait(RowWise) else 1


def buffers_of(kernel: KernelOp) -> int:
    """
    Returns how many buffers the launches of a kernel take, at most.

    These are its operands and results, the status where an op checks indices, and the two that hold
    the parts of a reduction whose rows are shared by several workgroups.
    """
    ops = list(kernel.body.block.ops)
    status = any(checks_indices(op) for op in ops)
    parts = sum(PARTS * _passes(op) for op in ops if isinstance(op, AlongAxesOp))
    return len(kernel.inputs) + len(kernel.outputs) + status + parts


def buffers_of_op(op: Operation) -> int:
    """Returns the same of the kernel that an op would be by itself."""
    read = {v for v in op.operands if isinstance(v.owner, Block) or not v.owner.has_trait(Leaf)}
    return len(read) + len(op.results) + checks_indices(op)


def _steps_of(kernel: KernelOp) -> list[KernelOp]:
    """Returns the kernels of a step of the scans that a kernel holds."""
    scans = [op for op in kernel.body.block.ops if isinstance(op, ScanOp)]
    return [op for scan in scans for op in scan.body.block.ops if isinstance(op, KernelOp)]


PARTS = 2
"""The buffers between the launches of a reduction: values, and where they were found."""


@dataclass(frozen=True)
class MostBuffers:
    """The launches of a kernel take no more than so many buffers."""

    buffers: int

    def refusal(self, kernel: KernelOp) -> str | None:
        """Returns why a kernel is out of bounds; None if it is not."""
        wanted = max(map(buffers_of, _steps_of(kernel) or (kernel,)))
        if wanted <= self.buffers:
            return None
        return f"most-buffers: {wanted} buffers; {self.buffers} are allowed"


SCALARS = 32
"""The 32-bit integers that a launch may be given: Vulkan promises 128 bytes of push constants."""

OWN_SCALARS = 4
"""
Those of a launch besides the places of what it reads and writes: the range, a check, a zero.

In a scan each buffer may lie at another place in each step, so it takes an integer too.
"""


@dataclass(frozen=True)
class MostScalars:
    """The launches of a scan take no more than so many integers each."""

    scalars: int

    def refusal(self, kernel: KernelOp) -> str | None:
        """Returns why a kernel is out of bounds; None if it is not."""
        wanted = max((buffers_of(op) + OWN_SCALARS for op in _steps_of(kernel)), default=0)
        if wanted <= self.scalars:
            return None
        return f"most-scalars: a step of {wanted} scalars; {self.scalars} are allowed"


@dataclass(frozen=True)
class ScanSteps:
    """
    A scan has a fixed number of steps.

    One with an elementwise body is one kernel, however long. Another is recorded step by step, each
    step some launches; it holds no scan of its kind, and takes no more than `launches` of them.
    """

    launches: int

    def refusal(self, kernel: KernelOp) -> str | None:
        for scan in kernel.body.block.ops:
            if isinstance(scan, ScanOp):
                return self._refused(scan)
        return None

    def _refused(self, scan: ScanOp) -> str | None:
        if scan.end.until is not None:
            return "scan-steps: no scans that end at `until`"
        if scan.is_pointwise:
            return None
        ops = [op for op in scan.body.block.ops if not _is_free(op)]
        inner = (op for op in scan.body.walk() if isinstance(op, ScanOp))
        if any(not op.is_pointwise for op in inner):
            return "scan-steps: no scan in a scan, unless its body is elementwise"
        launches = scan.steps * len(ops)
        if launches > self.launches:
            return (
                f"scan-steps: {launches:,} launches, for {scan.steps:,} steps of {len(ops)} "
                f"kernels; {self.launches:,} are allowed"
            )
        return None


def _is_free(op: Operation) -> bool:
    """Returns True if an op is no work of its own: a view, a leaf, the end of a body."""
    if isinstance(op, ViewOp):
        return True
    return any(op.has_trait(trait) for trait in (IsTerminator, Leaf, FreeWhenContiguous))


def _values(kernel: KernelOp) -> Iterator[SSAValue]:
    yield from kernel.inputs
    yield from kernel.outputs


def _bytes(value: SSAValue) -> int:
    type = tensor_type(value)
    dtype = dtypes.of_type(type)
    return -(-prod(type.get_shape()) * (dtype.itemsize * 8 or dtype.bits) // 8)
