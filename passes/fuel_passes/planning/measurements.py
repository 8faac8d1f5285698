# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Looks up times of kernels on a machine, by a key that planning and running agree on.

A measurement replaces the price of a model. What nobody measured is None, never zero.
`measurements_schema` reads and writes files of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import prod
from typing import Protocol, runtime_checkable

from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.kinds import kind_named
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf

UNTRACKED = ""
"""The revision of kernels whose code nobody tells apart, and the hardware that nobody named."""


@dataclass(frozen=True)
class MeasurementKey:
    """Represents all that has to be the same for a measured time to be of use."""

    ops: tuple[str, ...]
    """Mnemonics, in order, a scan before what it repeats."""
    dtypes: tuple[str, ...]
    """Of the kernel's operands, then of its results."""
    shape_class: tuple[int, ...]
    target: str
    """`cpu/numpy`"""
    revision: str = UNTRACKED
    """Of the code that makes the kernel."""
    hardware: str = UNTRACKED
    """The chip, its driver and its clock."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, each.name) for each in fields(self)))


@runtime_checkable
class MeasurementSource(Protocol):
    """Gives measured times."""

    def measured_ns(self, key: MeasurementKey) -> int | None:
        """Nanoseconds of one launch; None where nothing is known."""
        ...


@dataclass(frozen=True)
class Measurements:
    """Measured times in a table."""

    known: Mapping[MeasurementKey, int]

    def measured_ns(self, key: MeasurementKey) -> int | None:
        return self.known.get(key)


def key_of(
    kernel: KernelOp, target: TargetAttr, revision: str = UNTRACKED, hardware: str = UNTRACKED
) -> MeasurementKey:
    """The key of a kernel on a target. It takes no notice of values, of names or of the program."""
    work = [
        op for op in kernel.body.walk() if not (op.has_trait(IsTerminator) or op.has_trait(Leaf))
    ]
    values = (*kernel.body.block.args, *kernel.outputs)
    return MeasurementKey(
        tuple(map(_name, work)),
        tuple(dtypes.of_type(tensor_type(value).element_type).name for value in values),
        shape_class(kind_named(kernel.kind.data).extents_of(kernel)),
        str(target),
        revision,
        hardware,
    )


def _name(op: Operation) -> str:
    """Returns the mnemonic, with what decides the time of the op and is in no type."""
    if not isinstance(op, FuelOp):
        return op.name
    variant = op.variant()
    return f"{op.mnemonic()}[{variant}]" if variant else op.mnemonic()


def sizes(kernel: KernelOp) -> Sequence[int]:
    """Returns the number of elements of each operand and result."""
    values = (*kernel.body.block.args, *kernel.outputs)
    return [prod(tensor_type(value).get_shape()) for value in values]


def product_extents(kernel: KernelOp) -> Sequence[int]:
    """Returns `m`, `n` and `k` of the product in a kernel; sizes where there is none."""
    for op in kernel.body.block.ops:
        if isinstance(op, MatmulOp):
            (*batch, m, n), k = op.result.type.get_shape(), tensor_type(op.operands[0])
            return prod(batch) * m, n, k.get_shape()[-1]
    return sizes(kernel)


def shape_class(extents: Iterable[int]) -> tuple[int, ...]:
    """
    The class of some numbers of elements: 0 for none, else 1 more than the power of two.

    3 is in class 2, as 2 is; 4 to 7 are in class 3.
    """
    return tuple(extent.bit_length() for extent in extents)
