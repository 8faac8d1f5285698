# SPDX-License-Identifier: MIT OR Apache-2.0
"""The row of a kind of kernel: running sums, which no kind of fuel computes in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fuel_dialect.kinds import KernelKind
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.tensors import tensor_type


def price(kernel: KernelOp, target: TargetDescription) -> int:
    """Returns nanoseconds: each element waits for the one before it."""
    return target.launch_ns + round(prod(extents(kernel)) / target.operations_per_ns)


def extents(kernel: KernelOp) -> Sequence[int]:
    """Returns the number of rows and their length."""
    *rows, length = tensor_type(kernel.outputs[0]).get_shape()
    return prod(rows), length


CUMULATIVE = KernelKind(
    "cumulative",
    ops="acme_fuel.ops:CumulativeSumOp",
    price="acme_fuel.kinds:price",
    extents="acme_fuel.kinds:extents",
    targets=("numpy",),
)
