# SPDX-License-Identifier: MIT OR Apache-2.0
"""Estimates from IR what a run takes besides its operands and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.finishing.reuse_buffers import taken_over
from fuel_passes.memory import arena, slots
from fuel_passes.memory.spans import Block
from fuel_passes.planning.prices import size_of
from fuel_passes.planning.residency import HOST_DEVICE


@dataclass(frozen=True)
class Inside:
    """Holds the bytes of a run: weights by key, constants, workspace, and where it reports."""

    weights: Mapping[str, int] = field(default_factory=dict[str, int])
    constants: tuple[int, ...] = ()
    workspace: tuple[int, ...] = ()
    """The buffers that it takes while it runs."""
    report: int = 0
    """The bytes in which kernels say what they find wrong."""


def inside_of(run: RunOp) -> Inside:
    """
    Returns what the IR of a run shows: its leaves, weights that steps of its scans read, and the
    values between its kernels.

    On the host values share one arena, elsewhere they have places without offsets. What a kernel
    takes for itself only its target knows.
    """
    block = run.body.block
    leaves = [op for op in block.ops if op.has_trait(Leaf)]
    weights = {op.key.data: _bytes(op.result) for op in run.walk() if isinstance(op, WeightOp)}
    constants = tuple(_bytes(op.results[0]) for op in leaves if not isinstance(op, WeightOp))
    kernels = [op for op in block.ops if isinstance(op, KernelOp)]
    blocks = _between(kernels, () if block.last_op is None else block.last_op.operands)
    total = (arena if run.target.device == HOST_DEVICE else slots).assign(blocks).bytes
    return Inside(weights, constants, (total,) if total else ())


def _between(kernels: Sequence[KernelOp], given: Sequence[SSAValue]) -> list[Block]:
    """Returns the values that kernels hand on to kernels, without those that the run gives."""
    taken = {new: old for kernel in kernels for new, old in taken_over(kernel).items()}
    owners: dict[SSAValue, SSAValue] = {}
    for kernel in kernels:
        for value in kernel.outputs:
            owners[value] = owners.get(taken[value], taken[value]) if value in taken else value
    outside = {owners.get(value, value) for value in given}
    spans: dict[SSAValue, tuple[int, int]] = {}
    for tick, kernel in enumerate(kernels):
        for value in (*kernel.inputs, *kernel.outputs):
            owner = owners.get(value)
            if owner is not None and owner not in outside and isinstance(owner.owner, Operation):
                spans[owner] = spans.get(owner, (tick, tick))[0], tick
    return [Block(_bytes(value), (span,)) for value, span in spans.items()]


def _bytes(value: SSAValue) -> int:
    return size_of(tensor_type(value))
