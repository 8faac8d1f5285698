# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds the values of a run that lie where another value lay."""

from __future__ import annotations

from xdsl.ir import BlockArgument, SSAValue

from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_passes.finishing.reuse_buffers import taken_over


def reused_buffers(run: RunOp) -> dict[SSAValue, SSAValue]:
    """
    Maps results of kernels to the value whose buffer they take over.

    `fuel-reuse-buffers` decides it: within a run by `taken_over`, and for an operand of the run by
    `reuses`, then for the very values that become that result.
    """
    end = run.body.block.last_op
    assert end is not None
    steps = {
        result: reused
        for op in run.body.block.ops
        if isinstance(op, KernelOp)
        for result, reused in taken_over(op).items()
    }
    own = {r: t for r, t in steps.items() if not isinstance(t, BlockArgument)}
    for index in run.reused():
        value: SSAValue = end.operands[index]
        while value in steps:
            own[value] = steps[value]
            value = steps[value]
    return own
