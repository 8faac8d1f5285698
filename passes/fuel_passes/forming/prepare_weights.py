# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-prepare-weights`: what follows from weights alone is computed once, not in every call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from fuel_dialect.attributes import NAME
from fuel_dialect.errors import FuelPassError
from fuel_dialect.movement import checks_indices
from fuel_dialect.ops.control import BranchOp, KernelOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.prepared import PREPARES
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.targets.machine import Topology
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import FreeWhenContiguous, Leaf, ViewOp
from fuel_passes.forming.form_kernels import caps_of, form_kernels
from fuel_passes.forming.outline import erase_dead
from fuel_passes.planning.prices import kernel_ns, size_of
from fuel_passes.planning.topology import resolve, target_description
from fuel_passes.walk import branches, functions

SHARE = 4
"""Prepared weights take at most one part in this many of the smallest memory, if not told."""


@dataclass(frozen=True)
class PrepareWeightsPass(ModulePass):
    """
    Moves kernels that depend on weights and constants alone into a function that runs once.

    A cast of a weight, a dequantisation, a transposed or packed copy: those of a function `@main`
    go into `@main.weights`, a private function without arguments, and `@main` reads its results as
    weights (`fuel.weight "main.c" of @main.weights`). The runtime runs that function when it binds
    weights. A kernel moves if a kernel or a branch that stays reads it; kernels that check indices
    stay, so that a call raises the error. Arms of branches are visited too.

    What moves stays in memory from then on. Where that is more than `bytes` allows, those go first
    whose price is highest for the memory they take, on the first target of the topology.
    `fuel-strip-plan` puts them back.

    Options: `bytes=N`, the most bytes that prepared weights take in a function (default: a quarter
    of the smallest memory that the topology states, without a limit where it states none; 0 leaves
    everything where it is); `topology=NAME` (default: the module's `fuel.topology`, else `cpu`).
    """

    name = "fuel-prepare-weights"

    bytes: int | None = None
    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.bytes is not None and self.bytes < 0:
            raise FuelPassError(f"fuel-prepare-weights: bytes must be >= 0, got {self.bytes}")
        topology = resolve(op, self.topology)
        memories = (device.memory_bytes for device in topology.devices)
        room = room_in(memories) if self.bytes is None else self.bytes
        if room == 0:
            return
        for function in list(functions(op)):
            prepare(op, function, topology, room)


def room_in(memories: Iterable[int | None]) -> int | None:
    """Returns the bytes that prepared weights may take of memories; None if none is known."""
    known = [memory for memory in memories if memory is not None]
    return min(known) // SHARE if known else None


def prepare(module: ModuleOp, function: FuncOp, topology: Topology, room: int | None) -> None:
    """Moves what is worth its memory out of a function; `room` is the bytes that it may take."""
    arms = (region.block for branch in branches(function) for region in branch.arm_regions)
    blocks = [*function.body.blocks, *arms]
    caps = caps_of(topology)
    for block in blocks:
        form_kernels(block, caps)
    found = [each for block in blocks for each in _movable(block)]
    if found and room is not None:
        kept = (op for op in function.walk() if _is_prepared(op))
        room -= sum(size_of(tensor_type(op.result)) for op in kept)
        first = target_description(topology, topology.targets[0])
        found = _affordable(found, room, first)
    if found:
        _Extraction(module, function).move(blocks, found)


def _is_prepared(op: Operation) -> TypeGuard[WeightOp]:
    return isinstance(op, WeightOp) and op.source is not None


@dataclass(frozen=True)
class _Movable:
    """A kernel that depends on leaves alone, and those of its results that others read."""

    kernel: KernelOp
    values: tuple[SSAValue, ...]
    behind: frozenset[KernelOp]
    """The kernel, and those that are there for it."""

    @property
    def bytes(self) -> int:
        return sum(size_of(tensor_type(value)) for value in self.values)

    def worth(self, target: TargetDescription) -> float:
        """Returns the nanoseconds that moving it saves a call, for each byte that it takes."""
        return sum(kernel_ns(kernel, target) for kernel in self.behind) / max(self.bytes, 1)


def _movable(block: Block) -> list[_Movable]:
    """Returns the kernels that can move and that one which stays reads, in order."""
    fixed = _fixed(block)
    outer = {op: _read_outside(op, fixed) for op in fixed if isinstance(op, KernelOp)}
    moved = {op: v for op, v in outer.items() if any(_feeds_kernel(value, fixed) for value in v)}
    found: list[_Movable] = []
    for kernel, values in moved.items():
        behind = _closure([kernel], stop=moved)
        found.append(
            _Movable(kernel, values, frozenset(op for op in behind if isinstance(op, KernelOp)))
        )
    return found


def _fixed(block: Block) -> dict[Operation, None]:
    """Returns the ops of a block that depend on weights and constants alone, in order."""
    fixed: dict[Operation, None] = {}
    for op in block.ops:
        if all(operand.owner in fixed for operand in op.operands) and _may_move(op):
            fixed[op] = None
    return fixed


def _may_move(op: Operation) -> bool:
    if isinstance(op, KernelOp):
        return not any(checks_indices(inner) for inner in op.walk())
    return _is_view(op) or (op.has_trait(Leaf) and not _is_prepared(op))


def _is_view(op: Operation) -> bool:
    return isinstance(op, ViewOp) or op.has_trait(FreeWhenContiguous)


def _read_outside(op: Operation, fixed: Mapping[Operation, None]) -> tuple[SSAValue, ...]:
    """Returns the results of an op that ops besides `fixed`, or views among these, read."""
    return tuple(value for value in op.results if any(_readers(value, fixed)))


def _feeds_kernel(value: SSAValue, fixed: Mapping[Operation, None]) -> bool:
    return any(isinstance(op, KernelOp | BranchOp) for op in _readers(value, fixed))


def _readers(value: SSAValue, fixed: Mapping[Operation, None]) -> Iterator[Operation]:
    """Yields the ops besides `fixed` that read a value or a view of it."""
    pending = [value]
    while pending:
        for use in pending.pop().uses:
            if use.operation not in fixed:
                yield use.operation
            elif _is_view(use.operation):
                pending += use.operation.results


def _closure(ops: Iterable[Operation], stop: Collection[Operation] = ()) -> set[Operation]:
    """Returns some ops and all that they depend on, but for what is behind `stop`."""
    pending, found = list(ops), set(ops)
    while pending:
        for operand in pending.pop().operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner not in found and owner not in stop:
                found.add(owner)
                pending.append(owner)
    return found


def _affordable(found: Sequence[_Movable], room: int, target: TargetDescription) -> list[_Movable]:
    """Returns what fits into some bytes, dearest for its bytes first."""
    taken: set[_Movable] = set()
    for each in sorted(found, key=lambda each: -each.worth(target)):
        if each.bytes <= room:
            room -= each.bytes
            taken.add(each)
    return [each for each in found if each in taken]


class _Extraction:
    """Moves kernels of one function into one that runs once, and replaces them by weights."""

    def __init__(self, module: ModuleOp, function: FuncOp):
        self.module = module
        self.function = function
        self.symbol = SymbolRefAttr(unused(f"{_name(function)}.weights", _symbols(module)))
        self.keys = {op.key.data for op in module.walk() if isinstance(op, WeightOp)}
        self.body = Block()
        self.results: dict[str, SSAValue] = {}

    def move(self, blocks: Sequence[Block], taken: Sequence[_Movable]) -> None:
        for block in blocks:
            self._move(block, [each for each in taken if each.kernel.parent is block])
        self.body.add_op(ReturnOp(*self.results.values()))
        names = [DictionaryAttr({NAME: StringAttr(key)}) for key in self.results]
        made = FuncOp(
            self.symbol.root_reference.data,
            ([], [value.type for value in self.results.values()]),
            Region(self.body),
            visibility="private",
            res_attrs=ArrayAttr(names),
        )
        made.attributes[PREPARES] = UnitAttr()
        self.module.body.block.insert_op_after(made, self.function)

    def _move(self, block: Block, taken: Sequence[_Movable]) -> None:
        wanted = _closure([each.kernel for each in taken])
        ordered = [op for op in block.ops if op in wanted]
        inside: dict[SSAValue, SSAValue] = {}
        self.body.add_ops([op.clone(inside) for op in ordered])
        for each in taken:
            for value in each.values:
                weight = self._weight(value, inside[value])
                block.insert_op_before(weight, each.kernel)
                value.replace_all_uses_with(weight.result)
        erase_dead(ordered)

    def _weight(self, value: SSAValue, inside: SSAValue) -> WeightOp:
        """Returns the weight that takes the place of a value, which becomes a result."""
        key = unused(f"{_name(self.function)}.{value.name_hint or len(self.results)}", self.keys)
        self.keys.add(key)
        self.results[key] = inside
        weight = WeightOp.make(
            declared=[tensor_type(value)], key=StringAttr(key), source=self.symbol
        )
        weight.result.name_hint = value.name_hint
        return weight


def _name(function: FuncOp) -> str:
    return function.sym_name.data


def _symbols(module: ModuleOp) -> set[str]:
    return {op.sym_name.data for op in module.body.ops if isinstance(op, FuncOp)}


def unused(stem: str, used: Collection[str]) -> str:
    """Returns a name that is not in use: the stem, or the stem and a number."""
    names = (stem if not number else f"{stem}.{number}" for number in count())
    return next(name for name in names if name not in used)
