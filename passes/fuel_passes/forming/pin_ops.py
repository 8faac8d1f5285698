# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-pin-ops`: ops and decisions that `place` names are pinned to devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from fuel_dialect.attributes import ArmAttr, DeviceAttr, TargetAttr
from fuel_dialect.builder.pins import takes_pin
from fuel_dialect.errors import PlaceError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.targets.machine import Topology
from fuel_passes.legalize.strip_plan import is_planned_branch
from fuel_passes.planning.topology import resolve
from fuel_passes.walk import functions

PENDING = "fuel.place"
"""The attribute of a module that maps the names which wait for `fuel-pin-kernels` to devices."""


@dataclass(frozen=True)
class PinOpsPass(ModulePass):
    """
    Pins what `place` names to devices, each name being the first of these that there is.

    1. An op, as `matmul` or `fuel.matmul`: every op of the kind.
    2. A value, as the IR names it (`h` or `%h`): the op that gives it.
    3. A decision of the program, by its path (`d3/1/d0`) or by a value that it gives: all its arms.
    4. A kernel label: `fuel-pin-kernels` pins every kernel that is called so. The names that are
       none of the first three wait for it in the module's `fuel.place`.

    `@main/h` stands for `h` in the function `@main` alone.

    The pin of an op counts for more than that of a decision around it, an inner decision for more
    than an outer one, that of a value for more than that of its kind of op, and that of a kernel
    for more than any. All replace what the program says, the targets of arms too. Ops in a scan go
    where the scan goes. Leaves and transfers take no pin.

    Options:
    `place="NAME=DEVICE","NAME=DEVICE"` (default: nothing is pinned).
    `topology=NAME` (default: the module's `fuel.topology`, else `cpu`) has the devices.
    """

    name = "fuel-pin-ops"

    place: tuple[str, ...] = ()
    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.place:
            return
        topology = resolve(op, self.topology)
        wanted = {name: _target(name, device, topology) for name, device in parsed(self.place)}
        found = {name for function in functions(op) for name in _pin_ops(function, wanted)}
        pending = {name: target.device for name, target in wanted.items() if name not in found}
        if pending:
            op.attributes[PENDING] = DictionaryAttr(pending)


def parsed(place: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields name and device of each pin. Raises `PlaceError` for a text that is no pin."""
    seen: set[str] = set()
    for text in place:
        name, _, device = text.rpartition("=")
        if not name or not device:
            raise PlaceError(f"place {text!r}: write a name and a device, as matmul=cuda:0")
        if name in seen:
            raise PlaceError(f"place {text!r}: {name} is placed already; give it once")
        seen.add(name)
        yield name, device


def _target(name: str, device: str, topology: Topology) -> TargetAttr:
    """Returns the first target of the device. Raises `PlaceError` if the topology has none."""
    wanted = DeviceAttr.of(device)
    for target in topology.targets:
        if target.device == wanted:
            return target
    raise PlaceError(
        f"place {name!r}: {wanted} is not in topology {topology.name!r}; it has "
        f"{', '.join(str(target) for target in topology.targets)}"
    )


def names_in(function: FuncOp, names: Iterable[str]) -> dict[str, str]:
    """Maps each name that may mean something in a function, without its `@function/`, to itself."""
    prefix = f"@{function.sym_name.data}/"
    inside = {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}
    return {name: name for name in names if not name.startswith("@")} | inside


def _pin_ops(function: FuncOp, wanted: Mapping[str, TargetAttr]) -> list[str]:
    """Pins by op, by value and by decision; returns the names that stand for one of these."""
    known = Named.of(function)
    full = names_in(function, wanted)
    by_op, by_value, by_decision = (
        {name: plain for name in full if (plain := name.removeprefix(prefix)) in ones}
        for ones, prefix in ((known.ops, "fuel."), (known.values, "%"), (known.decisions, "%"))
    )
    by_value = {name: plain for name, plain in by_value.items() if name not in by_op}
    by_decision = {
        name: plain
        for name, plain in by_decision.items()
        if name not in by_op and name not in by_value
    }
    order = {name: position for position, name in enumerate(known.decisions)}
    for name, plain in sorted(by_decision.items(), key=lambda item: order[item[1]]):
        for branch in known.decisions[plain]:
            move(branch, wanted[full[name]])
    for names, ones in ((by_op, known.ops), (by_value, known.values)):
        for name, plain in names.items():
            pin(ones[plain], wanted[full[name]].device)
    return [full[name] for name in (*by_op, *by_value, *by_decision)]


@dataclass(frozen=True)
class Named:
    """Maps the names that a pin may use to parts of a function, outer decisions first."""

    ops: Mapping[str, Sequence[FuelOp]]
    values: Mapping[str, Sequence[FuelOp]]
    decisions: Mapping[str, Sequence[BranchOp]]

    @staticmethod
    def of(function: FuncOp) -> Named:
        """Collects the names of a function, in arms and in an earlier plan too."""
        ops: dict[str, list[FuelOp]] = {}
        values: dict[str, list[FuelOp]] = {}
        decisions: dict[str, list[BranchOp]] = {}
        for op in placeable(op for block in function.body.blocks for op in block.ops):
            ops.setdefault(op.mnemonic(), []).append(op)
            for hint in _hints(op):
                values.setdefault(hint, []).append(op)
        for path, branch in _decisions(function.body.block):
            for name in (path, *_hints(branch)):
                decisions.setdefault(name, []).append(branch)
        return Named(ops, values, decisions)


def pin(ops: Iterable[FuelOp], device: DeviceAttr) -> None:
    """Pins ops to a device."""
    for op in ops:
        op.properties["placement"] = device


def move(branch: BranchOp, target: TargetAttr) -> None:
    """Lets all arms of a branch run on a target, with what is pinned or decided in them."""
    for op in branch.walk():
        op.properties.pop("placement", None)
        if isinstance(op, BranchOp):
            op.properties["arms"] = ArrayAttr(
                arm if arm.target == target else ArmAttr.of(target, None, arm.origin.data)
                for arm in op.arms
            )


def _hints(op: Operation) -> list[str]:
    """Returns the names of the values that an op gives."""
    return [str(hint) for hint in {result.name_hint for result in op.results} - {None}]


def _decisions(block: Block, prefix: str = "") -> Iterator[tuple[str, BranchOp]]:
    """Yields the decisions of a program by path, outer before inner, without those of a plan."""
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


def placeable(ops: Iterable[Operation]) -> Iterator[FuelOp]:
    """Yields those ops that take a pin, and those inside branches, runs and kernels among them."""
    pending = list(reversed(list(ops)))
    while pending:
        op = pending.pop()
        if isinstance(op, BranchOp | RunOp | KernelOp):
            inner = [o for region in op.regions for block in region.blocks for o in block.ops]
            pending += reversed(inner)
        elif isinstance(op, FuelOp) and takes_pin(op):
            yield op
