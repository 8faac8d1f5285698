# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bounds what a kernel can take on a machine from below: by its bytes and its arithmetic alone."""

from __future__ import annotations

from dataclasses import replace

from fuel_dialect.movement import MovementOp, filled_elements, kept_operand, moved_pieces
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.tensors import tensor_type
from fuel_passes.planning.prices import duration, elements_of, least_work, size_of


def bytes_of(kernel: KernelOp, target: TargetDescription) -> int:
    """Returns the bytes that a kernel reads and writes, each once; `target` may be any."""
    return int(least_work(kernel, replace(target, by_dtype=())).bytes * _share(kernel)) + sum(
        size_of(tensor_type(op.result)) for op in kernel.walk() if isinstance(op, WeightOp)
    )


def floor_ns(kernel: KernelOp, target: TargetDescription) -> int:
    """
    Returns the least time of a kernel in nanoseconds, at the rates of a target.

    It is the longer of moving each byte once and of doing the arithmetic with all threads; nothing
    is counted for the launch.
    """
    work = least_work(kernel, target)
    moved = replace(work, bytes=work.bytes * _share(kernel))
    return duration(moved, replace(target, launch_ns=0), target.threads)


def _share(kernel: KernelOp) -> float:
    """Returns the share of the bytes that are moved: less than 1 where an operand is kept."""
    ops = [op for op in kernel.body.block.ops if op.results]
    if len(ops) != 1 or not isinstance(op := ops[0], MovementOp) or kept_operand(op) is None:
        return 1.0
    touched = 2 * sum(piece.elements for piece in moved_pieces(op)) + filled_elements(op)
    whole = sum(elements_of(value) for value in (*op.operands, *op.results))
    return min(touched / whole, 1.0) if whole else 1.0
