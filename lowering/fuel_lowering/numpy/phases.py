# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Kernels whose steps are partly one call over whole arrays (a matmul, the sum of everything).

The steps form phases: whole calls, then tiles of what is elementwise, then whole calls again. A
value that only the next phase reads lies, where it can, in the memory of the result made from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fuel_lowering.numpy.builder import Rows
from fuel_lowering.numpy.steps import Place, Step, Straight, chains
from fuel_lowering.numpy.tiles import Grid, cut, write_tiles
from fuel_lowering.numpy.values import Ref
from fuel_lowering.numpy.writer import FunctionWriter

Phase = list[Step]


def phases_of(steps: Sequence[Step], shape: tuple[int, ...]) -> list[Phase]:
    """Whole calls at even places and elementwise steps over `shape` at odd ones."""
    level: dict[Ref, int] = {}
    phases: dict[int, Phase] = {}
    for step in steps:
        is_tiled = step.recipe.scope == "element" and step.result.shape == shape
        is_tiled = is_tiled and step.fills is None
        own = max((level.get(operand.root, 0) for operand in step.operands), default=0)
        own += own % 2 != is_tiled
        level.update((result, own) for result in step.results)
        phases.setdefault(own, []).append(step)
    return [phases[own] for own in sorted(phases)]


def write_phases(
    writer: FunctionWriter,
    steps: Sequence[Step],
    shape: tuple[int, ...],
    places: Mapping[Ref, Place],
    name: str,
    given: Collection[Ref] = (),
) -> None:
    """
    Write the phases one after the other; what one needs of another lies in the workspace.

    Where no phase is cut into tiles, the steps are written as they are. Results may be written over
    `given`.
    """
    phases = phases_of(steps, shape)
    grids = [cut(Rows(shape, ()), p) if _is_tiled(p, shape) else None for p in phases]
    if not any(grids):
        Straight(writer, steps, places, given=given).write()
        return
    at = dict(places)
    over = given or _shared(phases, at)
    for index, (phase, grid) in enumerate(zip(phases, grids, strict=True)):
        later = {operand.root for p in phases[index + 1 :] for s in p for operand in s.operands}
        results = [result for step in phase for result in step.results]
        own = {ref: at[ref] for ref in results if ref in at}
        passed_on = [ref for ref in results if ref in later and ref not in own]
        read = {operand for step in phase for operand in step.operands}
        lying = [ref for ref in over if ref in read]
        if grid is None:
            Straight(writer, phase, own, passed_on, given=lying).write()
            continue
        for ref in passed_on:
            own[ref] = Place.of(writer.buffer(ref.hint, ref.shape, ref.dtype))
        write_tiles(writer, phase, grid, own, name, lying)


def write_rows(
    writer: FunctionWriter,
    steps: Sequence[Step],
    rows: Rows,
    grid: Grid,
    places: Mapping[Ref, Place],
    name: str,
) -> None:
    """
    Write a kernel by tiles; what only follows from the statistics comes after, for all at once.

    So a tile has no calls on a few elements that nothing in it waits for.
    """
    inside, after = _split_off(steps, rows)
    at = dict(places)
    over = _shared([inside, after], at)
    results = dict.fromkeys(step.result for step in inside)
    own = {ref: place for ref, place in at.items() if ref in results}
    read = {operand.root for step in after for operand in step.operands}
    for ref in (ref for ref in results if ref in read and ref not in own):
        own[ref] = Place.of(writer.buffer(ref.hint, ref.shape, ref.dtype))
    write_tiles(writer, inside, grid, own, name)
    rest = {ref: place for ref, place in places.items() if ref not in own}
    if after:
        write_phases(writer, after, rows.column, rest, name, over)


def _split_off(steps: Sequence[Step], rows: Rows) -> tuple[Phase, Phase]:
    """The steps of a tile, and elementwise ones on columns that no step of a tile reads."""
    inside: Phase = []
    after: Phase = []
    read: set[Ref] = set()
    for step in reversed(steps):
        is_column = step.recipe.scope == "element" and step.result.shape == rows.column
        if is_column and step.result not in read and rows.are_long:
            after.append(step)
        else:
            inside.append(step)
            read.update(operand.root for operand in step.operands)
    return inside[::-1], after[::-1]


def _is_tiled(phase: Phase, shape: tuple[int, ...]) -> bool:
    return all(s.recipe.scope == "element" and s.result.shape == shape for s in phase)


def _shared(phases: Sequence[Phase], at: dict[Ref, Place]) -> list[Ref]:
    """
    Values that lie where a result of the one phase that reads them goes, which `at` then says.

    The phase must write the result only once it no longer needs the value. One value for each
    phase: what a second may lie over could depend on where the first does.
    """
    shared: list[Ref] = []
    for index, phase in enumerate(phases):
        results = [step.result for step in phase if step.result in at and step.result not in shared]
        earlier = (step.result for p in phases[:index] for step in p if step.result not in at)
        for value in (v for v in earlier if _only_reader(phases, v) is phase):
            result = _result_over(phase, value, results, at)
            if result is not None:
                at[value] = at[result]
                shared.append(value)
                break
    return shared


def _only_reader(phases: Sequence[Phase], value: Ref) -> Phase | None:
    readers = [p for p in phases if any(value in s.operands for s in p)]
    viewers = any(o.root is value and o is not value for p in phases for s in p for o in s.operands)
    return readers[0] if len(readers) == 1 and not viewers else None


def _result_over(
    phase: Phase, value: Ref, results: Sequence[Ref], kept: Collection[Ref]
) -> Ref | None:
    members = chains(phase, kept, [value])[value]
    return next((ref for ref in results if any(ref is member for member in members)), None)
