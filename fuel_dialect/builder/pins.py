# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pinning ops to a device while they are made: `with fuel.device("vulkan:0"):`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.traits import Leaf, Transfer

_DEVICE: ContextVar[DeviceAttr | None] = ContextVar("fuel.device", default=None)


def device(name: str) -> AbstractContextManager[None]:
    """
    Pin the ops that are made inside the `with` to a device: they get it as their `placement`.

    Of nested ones the innermost counts; each thread has its own. A scan is pinned as a whole, a
    branch by its arms' targets; leaves live everywhere and take no pin. Raises `UnknownDevice`
    at once for what names no device.
    """
    return _pinning(DeviceAttr.of(name))


@contextmanager
def _pinning(device: DeviceAttr) -> Generator[None]:
    token = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def pin(op: Operation) -> None:
    """Give an op that is being made the device of the `with` around it."""
    wanted = _DEVICE.get()
    if wanted is not None and takes_pin(op) and "placement" not in op.properties:
        op.properties["placement"] = wanted


def takes_pin(op: Operation) -> bool:
    """Returns True for ops that a pin places."""
    if not isinstance(op, FuelOp) or isinstance(op, BranchOp):
        return False
    return not (op.has_trait(Leaf) or op.has_trait(Transfer) or op.has_trait(IsTerminator))
