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
from fuel_dialect.ops.base import FuelOp, tensor_type
from fuel_dialect.ops.control import KernelOp, ScanOp
from fuel_dialect.traits import Elementwise, FreeWhenContiguous, Leaf, ViewOp


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
class ScanBody:
    """A scan is made only if its body holds ops of some traits, views and leaves, no others."""

    traits: tuple[type, ...] = (Elementwise,)

    def refusal(self, kernel: KernelOp) -> str | None:
        for scan in kernel.body.block.ops:
            for op in scan.body.block.ops if isinstance(scan, ScanOp) else ():
                if not self._allows(op):
                    name = op.mnemonic() if isinstance(op, FuelOp) else op.name
                    return f"scan-body: no scans with {name} in their body"
        return None

    def _allows(self, op: Operation) -> bool:
        if isinstance(op, ViewOp) or any(op.has_trait(trait) for trait in self.traits):
            return True
        return any(op.has_trait(trait) for trait in (IsTerminator, Leaf, FreeWhenContiguous))


def _values(kernel: KernelOp) -> Iterator[SSAValue]:
    yield from kernel.inputs
    yield from kernel.outputs


def _bytes(value: SSAValue) -> int:
    type = tensor_type(value)
    dtype = dtypes.of_type(type)
    return -(-prod(type.get_shape()) * (dtype.itemsize * 8 or dtype.bits) // 8)
