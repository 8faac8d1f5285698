# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-cut-runs`: runs end where another device waits for what they have computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.traits import Leaf
from fuel_passes.finishing.list_order import list_orders
from fuel_passes.finishing.memory_rule import Peaks, is_worth, peaks_of
from fuel_passes.finishing.order import arrange, reused_values
from fuel_passes.finishing.order_runs import (
    canonical_order,
    capacities_of,
    items_of,
    prices_of,
)
from fuel_passes.finishing.overlap import Prices, Scene, devices_of
from fuel_passes.forming.outline import Outliner, erase_dead, is_leaf
from fuel_passes.legalize.strip_plan import dissolve
from fuel_passes.planning.topology import resolve
from fuel_passes.walk import function_blocks, functions

RUN_NS = 5_000
"""The time that the host takes to ask for a run, beside that of a launch of its target."""


MOST_SINGLE = 8
"""The runs of a block that are tried one by one, too; of more they are cut together or not."""


@dataclass(frozen=True)
class CutRunsPass(ModulePass):
    """
    Cuts runs whose values go to another device or come from one, where a call then ends sooner.

    A run begins when all that it reads is there, and gives its values when all of its kernels have
    ended. So a run can be cut behind the kernels that compute a value that a transfer takes, and in
    front of those that need a value that a transfer brings. All runs of a block are cut, or one, or
    none, again and again: it is simulated each way, with the prices of the planner and in the order
    that `fuel-order-runs` would take, and cut if a call ends sooner by more than the runs that are
    added cost, each 5 us and a launch, and the peaks of memory are those that `fuel-order-runs`
    allows. Blocks on one device stay as they are. Values cannot change.

    Option: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`).
    """

    name = "fuel-cut-runs"

    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        topology = resolve(op, self.topology)
        for function in functions(op):
            prices = prices_of(function, topology)
            # Innermost arms first; what is cut in one block leaves the number of blocks as it is.
            for number in reversed(range(len(list(function_blocks(function))))):
                cut_block(function, number, prices)


def cut_block(function: FuncOp, number: int, prices: Prices) -> None:
    """Cuts the runs of a block of a function as long as that is worth it."""
    while (chosen := _best_cut(function, number, prices)) is not None:
        _cut(_block(function, number), chosen)


def _best_cut(function: FuncOp, number: int, prices: Prices) -> Sequence[int] | None:
    """Returns the places of the runs of a block that are best cut; None if that is not worth it."""
    block = _block(function, number)
    if len(devices_of(block.ops)) <= 1:
        return None
    cost = {
        place: (len(pieces_of(run)) - 1) * (RUN_NS + prices.launch_ns(run))
        for place, run in enumerate(runs_of(block))
    }
    able = [place for place, ns in cost.items() if ns > 0]
    if not able:
        return None
    ns, peaks = _simulated(function.clone(), number, prices)
    best: tuple[int, Sequence[int]] | None = None
    singles = [[place] for place in able] if 1 < len(able) <= MOST_SINGLE else []
    for places in (able, *singles):
        trial = function.clone()
        _cut(_block(trial, number), places)
        less_ns, more = _simulated(trial, number, prices)
        gain = ns - less_ns - sum(cost[place] for place in places)
        is_better = gain >= 0 if best is None else gain > best[0]
        if is_better and is_worth(ns, less_ns, peaks, more, capacities_of(prices)):
            best = gain, places
    return None if best is None else best[1]


def _cut(block: Block, places: Sequence[int]) -> None:
    runs = list(runs_of(block))
    for place in places:
        cut(runs[place])


def _block(function: FuncOp, number: int) -> Block:
    return list(function_blocks(function))[number]


def runs_of(block: Block) -> Iterator[RunOp]:
    """Yields the runs of a block."""
    return (op for op in block.ops if isinstance(op, RunOp))


def _simulated(function: FuncOp, number: int, prices: Prices) -> tuple[int, Peaks]:
    """Returns the time of a block in the best order of list scheduling, and peaks of memory."""
    block = _block(function, number)
    scene = Scene(block, function, prices)
    items, before = items_of(block)
    orders = list_orders(canonical_order(scene, items, before), before, scene)
    order = min(orders, key=scene.makespan_ns)
    arrange(block, order)
    return scene.makespan_ns(order), peaks_of(function, capacities_of(prices))


def pieces_of(run: RunOp) -> list[list[KernelOp]]:
    """
    Returns the kernels of a run in pieces, each of which can be a run.

    They are apart by the last value that is brought which they need, then by the first value that
    is taken away for which they are needed.
    """
    kernels = [op for op in run.body.block.ops if isinstance(op, KernelOp)]
    needs = _needs(kernels)
    arrivals, purposes = _arrivals(run, kernels, needs), _purposes(run, kernels, needs)
    pieces: dict[tuple[int, int], list[KernelOp]] = {}
    for kernel in kernels:
        pieces.setdefault((arrivals[kernel], purposes[kernel]), []).append(kernel)
    return [pieces[key] for key in sorted(pieces)]


def _arrivals(
    run: RunOp, kernels: Sequence[KernelOp], needs: Mapping[KernelOp, Sequence[KernelOp]]
) -> dict[KernelOp, int]:
    """Returns for each kernel the number of the last value that it needs which a transfer gives."""
    number: dict[SSAValue, int] = {}
    for argument, value in zip(run.body.block.args, run.inputs, strict=True):
        is_brought = isinstance(value.owner, TransferOp)
        number[argument] = len(number) + 1 if is_brought else 0
    found: dict[KernelOp, int] = {}
    for kernel in kernels:
        own = (number.get(value, 0) for value in kernel.inputs)
        found[kernel] = max([*own, *(found[needed] for needed in needs[kernel])], default=0)
    return found


def _purposes(
    run: RunOp, kernels: Sequence[KernelOp], needs: Mapping[KernelOp, Sequence[KernelOp]]
) -> dict[KernelOp, int]:
    """Returns for each kernel the number of the first value that needs it and leaves the device."""
    end = run.body.block.last_op
    assert end is not None
    leaving = {
        inner.owner
        for outer, inner in zip(run.outputs, end.operands, strict=True)
        if _leaves(outer, run)
    }
    found: dict[KernelOp, int] = {}
    wanted = (kernel for kernel in kernels if kernel in leaving)
    for number, kernel in enumerate(wanted):
        pending = [kernel]
        while pending:
            needed = pending.pop()
            if needed not in found:
                found[needed] = number
                pending += needs[needed]
    return {kernel: found.get(kernel, len(kernels)) for kernel in kernels}


def _leaves(value: SSAValue, run: RunOp) -> bool:
    """Returns True if a transfer takes a value to another device."""
    readers = (use.operation for use in value.uses)
    return any(isinstance(op, TransferOp) and op.to != run.target.device for op in readers)


def _needs(kernels: Sequence[KernelOp]) -> dict[KernelOp, list[KernelOp]]:
    """Returns the kernels that have to come before each: what it reads, or writes over."""
    readers: dict[SSAValue, list[KernelOp]] = {}
    needs: dict[KernelOp, list[KernelOp]] = {}
    for kernel in kernels:
        makers = [value.owner for value in kernel.inputs if isinstance(value.owner, KernelOp)]
        earlier = [reader for value in reused_values(kernel) for reader in readers.get(value, ())]
        needs[kernel] = [*makers, *earlier]
        for value in kernel.inputs:
            readers.setdefault(value, []).append(kernel)
    return needs


def cut(run: RunOp) -> None:
    """Replaces a run by its pieces, if it has more than one; its results keep their names."""
    pieces = pieces_of(run)
    if len(pieces) <= 1:
        return
    target, following, end = run.target, run.next_op, run.body.block.last_op
    assert following is not None
    assert end is not None
    for outer, inner in zip(run.outputs, end.operands, strict=True):
        inner.name_hint = outer.name_hint or inner.name_hint
    leaves: list[Operation] = [op for op in run.body.block.ops if op.has_trait(Leaf)]
    dissolve(run, PatternRewriter(run))
    for piece in pieces:
        outliner = Outliner(is_leaf)
        for kernel in piece:
            outliner.add(kernel)
        outliner.finish(RunOp, {"target": target}, following)
    erase_dead(leaves)
