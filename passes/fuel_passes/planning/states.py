# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Places the state of a function on the device that writes it, so that no call copies it.

An argument or a result may say where with `fuel.device`; then both are there. What the plan chooses
stands beside it as `fuel.state_device`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.state import donations
from fuel_passes.planning.residency import (
    DEVICE,
    HOST_DEVICE,
    STATE_DEVICE,
    Homes,
    default_target,
    device_of,
    residency_of,
)


def unplaced_states(function: FuncOp) -> dict[int, int]:
    """The donated arguments of which nothing says where they live, with their next values."""
    found = donations(function)
    arguments, results = _entries(function)
    return {
        argument: result
        for argument, result in found.items()
        if not {DEVICE, STATE_DEVICE} & {*arguments[argument], *results[result]}
    }


def place_states(function: FuncOp, targets: Sequence[TargetAttr]) -> None:
    """
    Say where each donated argument lives: as itself or its next value says, else where that is
    computed, else where it is read.
    """
    found = donations(function)
    if not found:
        return
    end = function.body.block.last_op
    assert end is not None
    residency = residency_of(function, targets)
    arguments, results = _entries(function)
    for argument, result in found.items():
        given, wanted = arguments[argument], results[result]
        both = {**wanted, **given}
        device = both.get(DEVICE) or both.get(STATE_DEVICE)
        if device is None:
            value, old = end.operands[result], function.body.block.args[argument]
            device = None if value is old else _home(value, residency.of(value))
            device = device or _first_reader(old, targets)
        for entry in (given, wanted):
            if DEVICE not in entry:
                entry[STATE_DEVICE] = device
    _set(function, arguments, results)


def unplace_states(function: FuncOp) -> None:
    """Take out what the plan chose."""
    arguments, results = _entries(function)
    if any(STATE_DEVICE in entry for entry in (*arguments, *results)):
        for entry in (*arguments, *results):
            entry.pop(STATE_DEVICE, None)
        _set(function, arguments, results)


def _home(value: SSAValue, homes: Homes) -> DeviceAttr | None:
    """Returns the device that computes a value; for a branch, that of its first arm."""
    if isinstance(value.owner, BranchOp) and len(homes) > 1:
        first = value.owner.arms.data[0].target.device
        return first if first in homes else min(homes, key=str)
    return min(homes, key=str, default=None)


def _first_reader(value: SSAValue, targets: Sequence[TargetAttr]) -> DeviceAttr:
    """Returns the device that reads a value first; the host if nothing computes with it."""
    for use in value.uses:
        op: Operation = use.operation
        if op.results and op.parent is not None:
            return device_of(op, default_target(op.parent, targets), targets)
    return HOST_DEVICE


_Entries = list[dict[str, Attribute]]


def _entries(function: FuncOp) -> tuple[_Entries, _Entries]:
    """The attributes of arguments and of results."""
    type = function.function_type
    return (
        _listed(function.arg_attrs, len(type.inputs)),
        _listed(function.res_attrs, len(type.outputs)),
    )


def _listed(given: ArrayAttr[DictionaryAttr] | None, count: int) -> _Entries:
    if given is None:
        return [{} for _ in range(count)]
    return [dict(entry.data) for entry in given]


def _set(function: FuncOp, arguments: _Entries, results: _Entries) -> None:
    function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(entry) for entry in arguments])
    function.properties["res_attrs"] = ArrayAttr([DictionaryAttr(entry) for entry in results])
