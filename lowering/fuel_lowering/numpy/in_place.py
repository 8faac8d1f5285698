# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Finds results of kernels that can be computed where an operand lies, which nobody reads afterwards.

So a residual sum needs no array beside its terms. `fuel-reuse-buffers` decides for all targets who
owns memory between runs and in writes into slices; what is decided here is within the workspace of
one function, so it changes no value's owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.traits import Elementwise
from fuel_lowering.numpy.steps import Step, chains
from fuel_lowering.numpy.values import Ref
from fuel_passes.finishing.reuse_buffers import is_last_reader


def written_over(run: RunOp, reused: Mapping[SSAValue, SSAValue]) -> dict[SSAValue, SSAValue]:
    """
    Maps results of kernels to the operand in whose memory each can be computed, as far as IR shows.

    The operand is the result of another kernel, of the same type. At most one of a kernel, and
    none that is in `reused`, which maps results to what they take over anyway.
    """
    end = run.body.block.last_op
    bound = {*reused, *reused.values(), *(() if end is None else end.operands)}
    found: dict[SSAValue, SSAValue] = {}
    for kernel in run.body.block.ops:
        if isinstance(kernel, KernelOp):
            pair = _pair_of(kernel, reused, bound)
            if pair is not None:
                found[pair[0]] = pair[1]
                bound.add(pair[1])
    return found


def _pair_of(
    kernel: KernelOp, reused: Mapping[SSAValue, SSAValue], bound: Collection[SSAValue]
) -> tuple[SSAValue, SSAValue] | None:
    end = kernel.body.block.last_op
    assert end is not None
    for argument, operand in zip(kernel.body.block.args, kernel.inputs, strict=True):
        if operand in bound or not _is_free_after(operand, kernel):
            continue
        last = _end_of_chain(argument)
        for result, value in zip(kernel.outputs, end.operands, strict=True):
            if value is last and result.type == operand.type and result not in reused:
                return result, operand
    return None


def _is_free_after(operand: SSAValue, kernel: KernelOp) -> bool:
    """Returns True if a value is in the workspace, and a kernel reads it once, as the last."""
    return (
        isinstance(operand.owner, KernelOp)
        and list(kernel.inputs).count(operand) == 1
        and is_last_reader(kernel, operand)
    )


def _end_of_chain(argument: BlockArgument) -> SSAValue | None:
    """Follows elementwise ops that alone read a value, from an argument to what is yielded."""
    value: SSAValue = argument
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        op: Operation = uses[0].operation
        if op.next_op is None:
            return value
        if not op.has_trait(Elementwise):
            return None
        value = op.results[0]


def lies_over(operand: Ref, result: Ref, steps: Sequence[Step], kept: Collection[Ref]) -> bool:
    """
    Returns True if steps compute a result where an operand lies.

    One step alone reads the operand, so that in whatever order they are done nothing is written
    over before it is read.
    """
    readers = [s for s in steps if any(o.root is operand.root for o in s.operands)]
    if len(readers) != 1 or operand not in readers[0].operands:
        return False
    return any(result is member for member in chains(steps, kept, [operand])[operand])
