# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a kernel source cannot do for want of size or of code, as data that says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Protocol

from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.ops.control import KernelOp, ScanOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import FreeWhenContiguous, Leaf, ViewOp

MOST_LAUNCHES = 1 << 16
"""A run of more launches would take longer to record than anybody waits."""


class Limit(Protocol):
    """A bound on the kernels that a source makes."""

    def refusal(self, kernel: KernelOp) -> str | None:
        """Why a kernel is out of bounds; None if it is not."""
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
        if any(isinstance(op, ScanOp) and not op.is_pointwise for op in ops):
            return "scan-steps: no scan in a scan, unless its body is elementwise"
        launches = scan.steps * len(ops)
        if launches > self.launches:
            return (
                f"scan-steps: {launches:,} launches, for {scan.steps:,} steps of {len(ops)} ops; "
                f"{self.launches:,} are allowed"
            )
        return None


def _is_free(op: Operation) -> bool:
    """Whether an op is no work of its own: a view, a leaf, the end of a body."""
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
