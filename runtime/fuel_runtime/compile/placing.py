# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where a program is to run and to leave its results, as `Session.compile` is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Block, Operation

from fuel_dialect.attributes import ArmAttr, DeviceAttr, TargetAttr
from fuel_dialect.builder.pins import takes_pin
from fuel_dialect.errors import ArgumentError, DeviceUnavailable
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.planning.residency import DEVICE

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from fuel_runtime.call.arguments import Port, Signature
    from fuel_runtime.devices import Devices

Place = Mapping[str, str]
"""A device for each op, value or kernel that is named."""

Results = str | Sequence[str | None] | Mapping[str, str]
"""A device for all results, or for each."""

Found = TypeVar("Found", bound=Operation)


class Pins:
    """
    The pins of `place={name: device}`, each name being the first of these that there is.

    1. An op, as `matmul` or `fuel.matmul`: every op of the kind.
    2. A value, as the IR names it (`h` or `%h`): the op that gives it.
    3. A decision of the program, by its path (`d3/1/d0`) or by a value that it gives: all its arms.
    4. A kernel label: every kernel that is called so once kernels are formed.

    The pin of an op counts for more than that of a decision around it, an inner decision for more
    than an outer one, that of a value for more than that of its kind of op, and that of a kernel
    for more than any. All replace what the program says, the targets of arms too. Ops in a scan go
    where the scan goes. Leaves and transfers take no pin.
    """

    def __init__(self, place: object, devices: Devices):
        self._devices = devices
        self._wanted = {
            name: _device(f"place: {name!r}", wanted, devices)
            for name, wanted in _mapping(place).items()
        }
        self._have: dict[str, list[str]] = {}

    def pin_ops(self, function: FuncOp) -> None:
        """Pin by op, by value and by decision."""
        ops: dict[str, list[FuelOp]] = {}
        values: dict[str, list[FuelOp]] = {}
        decisions = dict[str, list[BranchOp]]()
        for op in _placeable(function):
            ops.setdefault(op.mnemonic(), []).append(op)
            for hint in hints(op):
                values.setdefault(hint, []).append(op)
        for path, branch in _decisions(function.body.block):
            for name in (path, *hints(branch)):
                decisions.setdefault(name, []).append(branch)
        self._have = {"ops": list(ops), "values": list(values), "decisions": list(decisions)}
        by_op, by_value = self._take(ops, "fuel."), self._take(values, "%")
        for device, branches in self._take(decisions, "%"):
            for branch in branches:
                move(branch, self._devices.at(device).target)
        _pin(by_op)
        _pin(by_value)

    def pin_kernels(self, function: FuncOp) -> None:
        """Pin by label. Raises `ArgumentError` for names of nothing."""
        kernels: dict[str, list[FuelOp]] = {}
        for op in function.walk():
            if isinstance(op, KernelOp):
                inner = _placeable_in(op.body.block.ops)
                kernels.setdefault(op.label.data, []).extend((op, *inner))
        _pin(self._take(kernels, ""))
        if not self._wanted:
            return
        have = {**self._have, "kernels": list(kernels)}
        listed = "; ".join(f"{what} {', '.join(names) or 'none'}" for what, names in have.items())
        missing = ", ".join(map(repr, self._wanted))
        raise ArgumentError(
            f"place: {function.sym_name.data} has nothing called {missing}; it has {listed}"
        )

    def _take(
        self, known: Mapping[str, Sequence[Found]], prefix: str
    ) -> list[tuple[DeviceAttr, Sequence[Found]]]:
        """What is known of the wanted names, in the order of `known`; those are done with."""
        order = {name: index for index, name in enumerate(known)}
        written = [name for name in self._wanted if name.removeprefix(prefix) in order]
        written.sort(key=lambda name: order[name.removeprefix(prefix)])
        return [(self._wanted.pop(name), known[name.removeprefix(prefix)]) for name in written]


def _pin(found: Iterable[tuple[DeviceAttr, Sequence[FuelOp]]]) -> None:
    for device, ops in found:
        for op in ops:
            op.properties["placement"] = device


def move(branch: BranchOp, target: TargetAttr) -> None:
    """Let all arms of a branch run on a target, with what is pinned or decided in them."""
    for op in branch.walk():
        op.properties.pop("placement", None)
        if isinstance(op, BranchOp):
            op.properties["arms"] = ArrayAttr(
                arm if arm.target == target else ArmAttr.of(target, None, arm.origin.data)
                for arm in op.arms
            )


def hints(op: Operation) -> list[str]:
    """The names of the values that an op gives."""
    return [str(hint) for hint in {result.name_hint for result in op.results} - {None}]


def _decisions(block: Block, prefix: str = "") -> Iterator[tuple[str, BranchOp]]:
    """The decisions of a program by path, outer before inner; not those that a plan has made."""
    for op in block.ops:
        if not isinstance(op, BranchOp):
            continue
        if is_planned_branch(op):
            yield from _decisions(op.arm_regions[0].block, prefix)
            continue
        path = prefix + op.id.data
        yield path, op
        for index, region in enumerate(op.arm_regions):
            yield from _decisions(region.block, f"{path}/{index}/")


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
