# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-spill-values`: values that a device has no room for wait on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.ops.memory import CopyOp, MoveOp
from fuel_dialect.state import donations
from fuel_dialect.targets.machine import Topology
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.finishing.form_runs import FormRunsPass, Granularity, loads_of
from fuel_passes.memory.plan import plan_memory
from fuel_passes.memory.sizes import size_class
from fuel_passes.planning.prices import size_of
from fuel_passes.planning.residency import HOST_DEVICE, default_target, device_of
from fuel_passes.planning.topology import check_plan, resolve
from fuel_passes.walk import functions

SHARES = (8, 7, 6, 5, 4)
"""Eighths of the memory of a device that values alive at once may take, tried in turn."""

AIM = 7
"""Eighths of memory that a whole plan is to take, by what the IR shows: kernels take more."""


@dataclass(frozen=True)
class SpillValuesPass(ModulePass):
    """
    Moves values that a device has no room for to the host, and brings them back to be read.

    Where a function takes more memory of a device than the topology says that there is (seven
    eighths of it, since kernels take more than the IR shows), values are moved to the host
    (`fuel.move`, marked `planned`) after a use, and copied back in front of their next one: those
    first whose next use comes last (Belady's rule), until what is alive at once fits. Each kernel
    of the device is a run then (`fuel-form-runs`). Where the program does not fit either way, it is
    left as it is. The arms of branches are left as they are, and so is state.

    Options:
    `topology=NAME` (default: the module's `fuel.topology`, else `cpu`); `granularity`: that of the
    runs that will be formed, see `fuel-form-runs`.
    Raises `TopologyChanged` for a module that is planned for another topology.
    """

    name = "fuel-spill-values"

    granularity: Granularity = "segment"
    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.granularity not in ("segment", "chain"):
            raise FuelPassError(
                f"fuel-spill-values: granularity is segment or chain, not {self.granularity!r}"
            )
        topology = resolve(op, self.topology)
        check_plan(op, topology)
        room = {
            device.name: device.memory_bytes
            for device in topology.devices
            if device.memory_bytes is not None and device.name != HOST_DEVICE.label
        }
        if not room or all(_fits(f, topology, room) for f in functions(op)):
            return
        share = self._share(ctx, op, topology, room)
        if share is not None:
            for function in functions(op):
                spill(function, topology, room, share)

    def _share(
        self, ctx: Context, op: ModuleOp, topology: Topology, room: Mapping[str, int]
    ) -> int | None:
        """Returns the eighths of memory to let values take; None where nothing is to be spilled."""
        full = self._filled(ctx, op, topology, room, None)
        if full is not None and full <= AIM / 8:
            return None
        filled = ((self._filled(ctx, op, topology, room, share), share) for share in SHARES)
        found = [(fill > AIM / 8, -share, share) for fill, share in filled if fill is not None]
        if not found or (full is not None and min(found)[0]):
            return None
        return min(found)[2]

    def _filled(
        self,
        ctx: Context,
        op: ModuleOp,
        topology: Topology,
        room: Mapping[str, int],
        share: int | None,
    ) -> float | None:
        """
        Returns how full the fullest device is, with values spilled; None where not all fits.

        Weights that are loaded again in each call fill whatever there is, and give way.
        """
        copy = op.clone()
        if share is not None:
            for function in functions(copy):
                spill(function, topology, room, share)
        FormRunsPass(self.granularity, self.topology).apply(ctx, copy)
        fullest = 0.0
        for function in functions(copy):
            for memory in plan_memory(function, capacities=room).plan.devices:
                if not memory.fits:
                    return None
                if memory.capacity and not memory.streamed:
                    fullest = max(fullest, memory.peak / memory.capacity)
        return fullest


def _fits(function: FuncOp, topology: Topology, room: Mapping[str, int]) -> bool:
    """Returns True if all that kernels read and make, at once, is less than the memory there is."""
    totals: dict[str, int] = {}
    for block in function.body.blocks:
        for device, values in _Values.of(block, function, topology).items():
            totals[device] = sum(each.bytes for each in values.all) + values.lasting
    return all(totals.get(device, 0) <= bytes for device, bytes in room.items())


@dataclass(eq=False)
class _Value:
    """Represents a value on a device, from the op that makes it to the last that reads it."""

    value: SSAValue
    bytes: int
    made: int
    uses: list[int] = field(default_factory=list[int])
    is_fixed: bool = False
    """True for what may not leave the device: state."""

    @property
    def last(self) -> int:
        return max(self.uses, default=self.made)

    def before(self, place: int) -> int:
        """Returns the place of its last use before one."""
        return max((use for use in self.uses if use < place), default=self.made)

    def after(self, place: int) -> int:
        """Returns the place of its next use after one."""
        return min(use for use in self.uses if use > place)

    def back_at(self, place: int) -> _Value:
        """Returns the value as it is from a use on, in front of which it comes back."""
        return _Value(self.value, self.bytes, place, [use for use in self.uses if use >= place])


@dataclass(frozen=True)
class _Gap:
    """Represents a stretch between two uses in which a value waits on the host."""

    value: SSAValue
    after: int
    until: int


@dataclass
class _Values:
    """Holds the values of a block on one device, and what is there besides."""

    device: DeviceAttr
    all: list[_Value] = field(default_factory=list[_Value])
    lasting: int = 0
    """The bytes of weights and constants."""
    inner: dict[int, int] = field(default_factory=dict[int, int])
    """The bytes that the arms of a branch take, by its place."""

    @staticmethod
    def of(block: Block, function: FuncOp, topology: Topology) -> dict[str, _Values]:
        """Returns the values of a block by device; those of the host are left out."""
        return _Reader(block, function, topology).found

    def gaps(self, room: int) -> list[_Gap] | None:
        """Returns where values leave so that what is alive fits; None if it cannot."""
        found: list[_Gap] = []
        coming: dict[int, list[_Value]] = {}
        for value in self.all:
            coming.setdefault(value.made, []).append(value)
        alive: list[_Value] = []
        for place in range(max((value.last for value in self.all), default=-1) + 1):
            alive = [value for value in alive if value.last >= place]
            alive += coming.pop(place, [])
            taken = sum(value.bytes for value in alive) + self.inner.get(place, 0)
            while taken > room:
                idle = [value for value in alive if _is_idle(value, place)]
                if not idle:
                    return None
                chosen = max(idle, key=lambda value: (value.after(place), value.bytes))
                gap = _Gap(chosen.value, chosen.before(place), chosen.after(place))
                found.append(gap)
                coming.setdefault(gap.until, []).append(chosen.back_at(gap.until))
                alive.remove(chosen)
                taken -= chosen.bytes
        return found


def _is_idle(value: _Value, place: int) -> bool:
    """Returns True if a value is there for later and may wait on the host."""
    is_between = value.made < place < value.last and place not in value.uses
    return is_between and not value.is_fixed


class _Reader:
    """Reads what the ops of a block make and read on each device, in order."""

    def __init__(self, block: Block, function: FuncOp, topology: Topology):
        self.targets: tuple[TargetAttr, ...] = topology.targets
        self.default = default_target(block, self.targets)
        self.found: dict[str, _Values] = {}
        self.values: dict[SSAValue, _Value] = {}
        self.leaves: dict[str, dict[object, int]] = {}
        kept = _state_of(block, function)
        for place, op in enumerate(block.ops):
            for value in dict.fromkeys(op.operands):
                if value in self.values:
                    self.values[value].uses.append(place)
            if isinstance(op, BranchOp):
                self._branch(op, place, function, topology)
            elif not op.has_trait(Leaf) and not op.has_trait(IsTerminator):
                self._make(op, place, kept)
        for device, loads in self.leaves.items():
            self._of(device).lasting = sum(map(size_class, loads.values()))

    def _of(self, device: str) -> _Values:
        return self.found.setdefault(device, _Values(DeviceAttr.of(device)))

    def _make(self, op: Operation, place: int, kept: set[SSAValue]) -> None:
        device = device_of(op, self.default, self.targets)
        if device == HOST_DEVICE:
            return
        if isinstance(op, KernelOp):
            self.leaves.setdefault(device.label, {}).update(loads_of(op))
        for result in op.results:
            bytes = size_class(size_of(tensor_type(result)))
            value = _Value(result, bytes, place, is_fixed=result in kept)
            self.values[result] = value
            self._of(device.label).all.append(value)

    def _branch(self, branch: BranchOp, place: int, function: FuncOp, topology: Topology) -> None:
        """Notes the most that an arm of a branch takes, all of it at once."""
        for region in branch.arm_regions:
            for device, inner in _Values.of(region.block, function, topology).items():
                own = self._of(device)
                taken = sum(value.bytes for value in inner.all)
                own.inner[place] = max(own.inner.get(place, 0), taken)
                self.leaves.setdefault(device, {})[region] = inner.lasting


def _state_of(block: Block, function: FuncOp) -> set[SSAValue]:
    """Returns the results of a function that are the next values of its state."""
    end = block.last_op
    if end is None or block.parent_op() is not function:
        return set()
    return {end.operands[result] for result in donations(function).values()}


def spill(function: FuncOp, topology: Topology, room: Mapping[str, int], share: int) -> None:
    """Lets values of a function wait on the host, so that those alive take a share of memory."""
    for block in function.body.blocks:
        ops = list(block.ops)
        for device, values in _Values.of(block, function, topology).items():
            memory = room.get(device)
            if memory is None:
                continue
            # Runs are cut so that weights that take more than half of memory take a quarter.
            lasting = values.lasting if values.lasting <= memory // 2 else memory // 4
            gaps = values.gaps(memory * share // 8 - lasting)
            _leave_in(gaps or (), ops, values.device)


def _leave_in(gaps: Sequence[_Gap], ops: Sequence[Operation], device: DeviceAttr) -> None:
    """Moves values to the host where gaps begin, and copies them back where those end."""
    places = {op: place for place, op in enumerate(ops)}
    current: dict[SSAValue, SSAValue] = {}
    for gap in gaps:
        value = current.get(gap.value, gap.value)
        later = [use for use in value.uses if places.get(use.operation, -1) >= gap.until]
        moved = MoveOp.make(value, to=HOST_DEVICE, planned=UnitAttr())
        back = CopyOp.make(moved.result, to=device, planned=UnitAttr())
        moved.result.name_hint = back.result.name_hint = value.name_hint
        block = ops[gap.after].parent
        assert block is not None
        block.insert_op_after(moved, ops[gap.after])
        block.insert_op_before(back, ops[gap.until])
        for use in later:
            use.operation.operands[use.index] = back.result
        current[gap.value] = back.result
