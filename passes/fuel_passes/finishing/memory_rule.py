# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decides if calls that end sooner may take the memory that they take."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from fuel_dialect.attributes import HOST
from fuel_dialect.ops.control import RunOp
from fuel_dialect.ops.memory import TransferOp, WeightOp
from fuel_dialect.tensors import tensor_type
from fuel_passes.memory.plan import plan_memory
from fuel_passes.memory.sizes import size_class
from fuel_passes.planning.prices import size_of

ROOM = 8
"""A peak of memory may grow freely as long as it is no more than one in so many of all bytes."""

UNKNOWN_ROOM = 64 << 20
"""The bytes up to which it may where nobody knows how many there are."""

Peaks = Mapping[str, int]
"""The bytes of a call by device."""

Capacities = Mapping[str, int | None]
"""The bytes of each device; None where nobody knows how many there are."""


def is_worth(ns: int, less_ns: int, peaks: Peaks, more: Peaks, capacities: Capacities) -> bool:
    """Returns True if calls that take less time may have the peaks that they have."""
    for device, peak in more.items():
        old, all = peaks.get(device, 0), capacities.get(device)
        if peak <= old:
            continue
        if all is not None and peak > all:
            return False
        if peak > _free(all) and peak * less_ns > old * ns:
            return False
    return True


def peaks_of(function: FuncOp, capacities: Capacities) -> Peaks:
    """
    Returns the bytes that a call takes by device.

    It returns none if there is room for all values at once: then no order takes too much.
    """
    if _is_roomy(function, capacities):
        return {}
    return {each.device: each.peak for each in plan_memory(function).plan.devices}


def _free(all: int | None) -> int:
    return UNKNOWN_ROOM if all is None else all // ROOM


def _is_roomy(function: FuncOp, capacities: Capacities) -> bool:
    """Returns True if all values, wherever they are brought, can be on their devices at once."""
    end = function.body.block.last_op
    outside = (*function.body.block.args, *(() if end is None else end.operands))
    everywhere = sum(map(_bytes, outside))
    found = {HOST: everywhere}
    for op in function.walk():
        if isinstance(op, RunOp):
            values = [value for inner in op.body.block.ops for value in inner.results]
            weights = [inner.result for inner in op.walk() if isinstance(inner, WeightOp)]
            label, here = op.target.device.label, sum(map(_bytes, (*values, *weights)))
            found[label] = found.get(label, everywhere) + here
        elif isinstance(op, TransferOp):
            for label in {op.to.label, HOST}:
                found[label] = found.get(label, everywhere) + _bytes(op.result)
    return all(bytes <= _free(capacities.get(label)) for label, bytes in found.items())


def _bytes(value: SSAValue) -> int:
    """Returns the bytes of a value and of one copy of it."""
    return 2 * size_class(size_of(tensor_type(value)))
