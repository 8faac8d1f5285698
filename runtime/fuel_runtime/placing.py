# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where a program is to run and to leave its results, as `Session.compile` is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Operation

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import ArgumentError, DeviceUnavailable
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.pins import takes_pin
from fuel_passes.plan.residency import DEVICE

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from fuel_runtime.arguments import Port, Signature
    from fuel_runtime.devices import Devices

Place = Mapping[str, str]
"""A device for each op, value or kernel that is named."""

Results = str | Sequence[str | None] | Mapping[str, str]
"""A device for all results, or for each."""


class Pins:
    """
    The pins of `place={name: device}`, each name being the first of these that there is.

    1. An op, as `matmul` or `fuel.matmul`: every op of the kind.
    2. A value, as the IR names it (`h` or `%h`): the op that gives it.
    3. A kernel label: every kernel that is called so once kernels are formed.

    The pin of a value counts for more than that of its kind of op, and that of a kernel for more
    than either; all replace pins that the program has. Ops in a scan go where the scan goes. Leaves
    and transfers take no pin.
    """

    def __init__(self, place: object, devices: Devices):
        self._wanted = {
            name: _device(f"place: {name!r}", wanted, devices)
            for name, wanted in _mapping(place).items()
        }
        self._have: dict[str, list[str]] = {}

    def pin_ops(self, function: FuncOp) -> None:
        """Pin by op and by value."""
        ops: dict[str, list[FuelOp]] = {}
        values: dict[str, list[FuelOp]] = {}
        for op in _placeable(function):
            ops.setdefault(op.mnemonic(), []).append(op)
            for hint in {result.name_hint for result in op.results} - {None}:
                values.setdefault(str(hint), []).append(op)
        self._have = {"ops": list(ops), "values": list(values)}
        self._pin_from(ops, "fuel.")
        self._pin_from(values, "%")

    def pin_kernels(self, function: FuncOp) -> None:
        """Pin by label. Raises `ArgumentError` for names of nothing."""
        kernels: dict[str, list[FuelOp]] = {}
        for op in function.walk():
            if isinstance(op, KernelOp):
                inner = _placeable_in(op.body.block.ops)
                kernels.setdefault(op.label.data, []).extend((op, *inner))
        self._pin_from(kernels, "")
        if not self._wanted:
            return
        have = {**self._have, "kernels": list(kernels)}
        listed = "; ".join(f"{what} {', '.join(names) or 'none'}" for what, names in have.items())
        missing = ", ".join(map(repr, self._wanted))
        raise ArgumentError(
            f"place: {function.sym_name.data} has nothing called {missing}; it has {listed}"
        )

    def _pin_from(self, known: Mapping[str, Sequence[FuelOp]], prefix: str) -> None:
        """Pin what is known; those names are done with."""
        for name in list(self._wanted):
            found = known.get(name.removeprefix(prefix))
            if found is None:
                continue
            device = self._wanted.pop(name)
            for op in found:
                op.properties["placement"] = device


def _placeable(function: FuncOp) -> Iterator[FuelOp]:
    """The ops of a function that a pin means something to, in arms and in an earlier plan too."""
    for block in function.body.blocks:
        yield from _placeable_in(block.ops)


def _placeable_in(ops: Any) -> Iterator[FuelOp]:
    pending: list[Operation] = list(reversed(list(ops)))
    while pending:
        op = pending.pop()
        if isinstance(op, BranchOp | RunOp | KernelOp):
            inner = [o for region in op.regions for block in region.blocks for o in block.ops]
            pending += reversed(inner)
        elif isinstance(op, FuelOp) and takes_pin(op):
            yield op


def place_results(
    function: FuncOp, signature: Signature, results: object, devices: Devices
) -> None:
    """
    Say on a function where its results are to be.

    `results` is a device for all of them, a sequence with one for each, or a mapping by name;
    results that have none (None in a sequence) stay as the program says, and so does state. Raises
    `ArgumentError` and `DeviceUnavailable`.
    """
    ports = signature.outputs
    wanted = _by_result(ports, results)
    given, state = function.res_attrs, {member.result for member in signature.members}
    count = len(ports) + len(state)
    found = [DictionaryAttr({}) for _ in range(count)] if given is None else list(given.data)
    places = [index for index in range(count) if index not in state]
    for place, port, name in zip(places, ports, wanted, strict=True):
        if name is None:
            continue
        device = _device(f"results: {port.name!r}", name, devices)
        found[place] = DictionaryAttr({**found[place].data, DEVICE: device})
    function.properties["res_attrs"] = ArrayAttr(found)


def _by_result(ports: Sequence[Port], results: object) -> list[object]:
    """For each result its device; None for those that are not mentioned."""
    if isinstance(results, str | DeviceAttr):
        return [results] * len(ports)
    names = [port.name for port in ports]
    if isinstance(results, Mapping):
        unknown = [name for name in results if name not in names]
        if unknown:
            raise ArgumentError(
                f"results: there is no result {', '.join(map(repr, unknown))}; "
                f"the results are {', '.join(names) or 'none'}"
            )
        return [results.get(name) for name in names]
    if isinstance(results, Sequence) and len(results) == len(ports):
        return list(results)
    raise ArgumentError(
        "results: expected a device, a mapping of results to devices, or one device for each of "
        f"{', '.join(names) or 'no results'}; got {results!r}"
    )


def _mapping(place: object) -> Mapping[str, object]:
    if isinstance(place, Mapping) and all(isinstance(name, str) for name in place):
        return place
    raise ArgumentError(
        f"place: expected a mapping of names to devices, such as {{'matmul': 'cpu'}}; got {place!r}"
    )


def _device(where: str, name: object, devices: Devices) -> DeviceAttr:
    """A device of the session by name. Raises `UnknownDevice` or `DeviceUnavailable`."""
    if not isinstance(name, str | DeviceAttr):
        raise ArgumentError(f"{where}: a device is named by a string such as 'cpu', not {name!r}")
    device = DeviceAttr.of(name)
    missing = devices.why_not(device)
    if missing is not None:
        raise DeviceUnavailable(f"{where}: {missing}")
    return device
