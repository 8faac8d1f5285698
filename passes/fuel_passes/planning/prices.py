# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Prices ops, kernels, scans and branches on a target, in whole nanoseconds.

A simple roofline: the longer of moving the bytes and doing the arithmetic, plus a fixed cost for
each launch. Views and leaves are free. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, prod

from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.errors import FuelPassError
from fuel_dialect.kinds import LIBRARY, kind_named
from fuel_dialect.movement import MovementOp, filled_elements, kept_operand, moved_pieces
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.plugins import is_outside
from fuel_dialect.targets.description import KernelSource, TargetDescription
from fuel_dialect.tensors import AnyTensor, tensor_type
from fuel_dialect.traits import (
    AlongAxesOp,
    Elementwise,
    FreeWhenContiguous,
    Leaf,
    Reduction,
    RowWise,
    Transfer,
    ViewOp,
)
from fuel_passes.planning.strides import unreadable

HALVES = frozenset(dtypes.BY_NAME[name].type for name in ("bf16", "f16"))
F32 = dtypes.BY_NAME["f32"].type

Price = Callable[[Operation, TargetDescription], int]


@dataclass(frozen=True)
class Work:
    """
    Represents what is moved and computed.

    As much as takes this long at the rates of element types that have none of their own.
    """

    bytes: float = 0
    operations: float = 0
    """Weighted element operations."""
    flops: float = 0


def duration(work: Work, target: TargetDescription, threads: int = 1) -> int:
    """Nanoseconds of one launch; `threads` share the element operations."""
    return target.launch_ns + ceil(
        max(
            work.bytes / target.bytes_per_ns,
            work.operations / (target.operations_per_ns * threads),
            work.flops / target.flops_per_ns,
        )
    )


def ops_ns(ops: Iterable[Operation], target: TargetDescription) -> int:
    """Ops one after the other. Raises `FuelPassError` for an op that has no price."""
    return sum(op_ns(op, target) for op in ops)


def op_ns(op: Operation, target: TargetDescription) -> int:
    """One op: a call by itself, or what its regions cost."""
    price = price_of(type(op))
    if price is None:
        raise FuelPassError(f"{op.name} has no price; add its class or trait to plan/prices.py")
    return price(op, target)


@cache
def price_of(kind: type[Operation]) -> Price | None:
    """The rule that prices a kind of op."""
    for base, price in _BY_CLASS:
        if issubclass(kind, base):
            return price
    for trait, price in _BY_TRAIT:
        if kind.has_trait(trait, value_if_unregistered=False):
            return price
    return _unclassified if issubclass(kind, FuelOp) and is_outside(kind) else None


def size_of(type: AnyTensor) -> int:
    """Bytes of a contiguous tensor."""
    return _whole_bytes(prod(type.get_shape()) * _bits(type))


def _bits(type: AnyTensor) -> int:
    """Bits of one element; a mask takes a byte."""
    dtype = dtypes.of_type(type)
    return dtype.itemsize * 8 or dtype.bits


def _whole_bytes(bits: int) -> int:
    return -(-bits // 8)


def elements_of(value: SSAValue) -> int:
    """Elements of a tensor."""
    return prod(tensor_type(value).get_shape())


def is_tiled(elements: int, target: TargetDescription) -> bool:
    """Returns True if so many elements are shared out over threads."""
    return elements > target.tile


def threads_for(elements: int, target: TargetDescription) -> int:
    """Returns the number of threads that work on so many elements."""
    return target.threads if is_tiled(elements, target) else 1


def _moved(values: Iterable[SSAValue], target: TargetDescription) -> float:
    """Bytes of values; those of an element type that is slower to move count for more."""
    return sum(_bytes(tensor_type(value), target) for value in values)


def _bytes(type: AnyTensor, target: TargetDescription) -> float:
    return size_of(type) * target.slowdown(type.element_type).bytes


def _bytes_touched(op: Operation, target: TargetDescription) -> float:
    return _moved((*op.operands, *op.results), target)


def _weight(op: Operation, target: TargetDescription) -> float:
    """
    Operations for each element, on the slowest of the element types of an op.

    What runs along axes widens bf16 and f16 once, and computes in f32.
    """
    weight = op.WEIGHT if isinstance(op, FuelOp) else 1
    if not target.by_dtype:
        return weight
    types = {tensor_type(value).element_type for value in (*op.operands, *op.results)}
    slowest = max(target.slowdown(type).operations for type in types)
    if isinstance(op, AlongAxesOp) and not HALVES.isdisjoint(types):
        return weight * target.slowdown(F32).operations + slowest
    return weight * slowest


def _free(op: Operation, target: TargetDescription) -> int:
    return 0


def _elementwise(op: Operation, target: TargetDescription) -> int:
    elements = elements_of(op.results[0])
    types = [tensor_type(value) for value in (*op.operands, *op.results)]
    moved = sum(
        _whole_bytes(elements * _bits(type)) * target.slowdown(type.element_type).bytes
        for type in types
    )
    return duration(Work(moved, _weight(op, target) * elements), target)


def _reduction(op: Operation, target: TargetDescription) -> int:
    operations = _weight(op, target) * elements_of(op.operands[0])
    return duration(Work(_bytes_touched(op, target), operations), target)


def _row_wise(op: Operation, target: TargetDescription) -> int:
    elements = elements_of(op.results[0])
    work = Work(_bytes_touched(op, target), _weight(op, target) * elements)
    return duration(work, target, threads_for(elements, target))


def _matmul(op: Operation, target: TargetDescription) -> int:
    return duration(Work(_bytes_touched(op, target), flops=_flops(op, target)), target)


def _flops(op: Operation, target: TargetDescription) -> float:
    """Operations of a product."""
    inner = tensor_type(op.operands[0]).get_shape()[-1]
    flops = 2 * inner * elements_of(op.results[0])
    return flops * target.slowdown(tensor_type(op.operands[0]).element_type).flops


def _unclassified(op: Operation, target: TargetDescription) -> int:
    """An op of another package that no trait describes: its weight for each element it touches."""
    elements = max(elements_of(value) for value in (*op.operands, *op.results))
    return duration(Work(_bytes_touched(op, target), _weight(op, target) * elements), target)


def _movement(op: Operation, target: TargetDescription) -> int:
    """Pieces are read and written, a constant is written; what stays in place costs nothing."""
    assert isinstance(op, MovementOp)
    moved = sum(piece.elements for piece in moved_pieces(op))
    touched = 2 * moved + filled_elements(op)
    result = op.results[0]
    share = touched / elements_of(result) if touched else 0.0
    operations = moved if kept_operand(op) is not None else 0
    return duration(Work(share * _moved([result], target), operations), target)


def _data_movement(op: Operation, target: TargetDescription) -> int:
    return duration(Work(2 * _moved(op.results, target)), target)


def kernel_ns(kernel: KernelOp, target: TargetDescription) -> int:
    """
    Returns the price of a kernel, by the function that the row of its kind names.

    Views that have to be written out first (`fuel-insert-contiguous`) count as the kernels that
    will do so.
    """
    kind = kind_named(kernel.kind.data)
    return written_ns(kernel, target) + kind.price_ns(kernel, target)


def written_ns(kernel: KernelOp, target: TargetDescription, kind: str | None = None) -> int:
    """Writing out what a kernel cannot read, or kernels of some kind that take its place."""
    return sum(_copy_ns(view, target) for view in unreadable(kernel, target, kind))


def _copy_ns(view: SSAValue, target: TargetDescription) -> int:
    return duration(Work(2 * _moved([view], target)), target)


def calls_ns(kernel: KernelOp, target: TargetDescription) -> int:
    """Returns the price of one call for each op, and of writing out the views that are yielded."""
    end = kernel.body.block.last_op
    yielded = () if end is None else end.operands
    views = sum(_copy_ns(value, target) for value in yielded if _is_shown(value))
    return ops_ns(kernel.body.block.ops, target) + views


def fused_ns(kernel: KernelOp, target: TargetDescription) -> int:
    """
    Returns the price of one launch that moves each byte once.

    Threads share the rows of a reduction, and the elements of other kernels.
    """
    ops = list(kernel.body.block.ops)
    elements = max((_iterated(op) for op in ops if _is_counted(op)), default=0)
    has_one_row = all(elements_of(r) == 1 for r in kernel.outputs)
    threads = 1 if has_one_row else threads_for(elements, target)
    return duration(least_work(kernel, target), target, threads)


def least_work(kernel: KernelOp, target: TargetDescription) -> Work:
    """Returns what a kernel has to do: move each byte that it shows once, and compute each op."""
    read = sum(_bytes_read(argument, target) for argument in kernel.body.block.args)
    computed = _computed(kernel.body.block.ops, target)
    return replace(computed, bytes=read + _moved(kernel.outputs, target))


def _computed(ops: Iterable[Operation], target: TargetDescription) -> Work:
    """Returns the operations of ops; a scan does those of its body in each step."""
    operations = flops = 0.0
    for op in ops:
        if _is_counted(op):
            operations += _weight(op, target) * _iterated(op)
        if isinstance(op, MatmulOp):
            flops += _flops(op, target)
        elif isinstance(op, ScanOp):
            step = _computed(op.body.block.ops, target)
            operations += op.steps * step.operations
            flops += op.steps * step.flops
    return Work(0, operations, flops)


def _is_shown(value: SSAValue) -> bool:
    """Returns True if a kernel has to write out a value: an operand, or a view of one."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return True
    return isinstance(owner, ViewOp) or owner.has_trait(FreeWhenContiguous)


def source_ns(kernel: KernelOp, target: TargetDescription, source: KernelSource) -> int | None:
    """
    A kernel as a source of a target makes it: one launch, or one call for each op.

    None where an op of it has no price: that is not free.
    """
    if any(price_of(type(op)) is None for op in kernel.body.block.ops):
        return None
    slowed = target.at(source.rate)
    if source.launches == "op":
        return ops_ns(kernel.body.block.ops, slowed) + written_ns(kernel, slowed, LIBRARY.name)
    return kernel_ns(kernel, slowed)


def _is_counted(op: Operation) -> bool:
    return op.has_trait(Elementwise) or isinstance(op, AlongAxesOp)


def _iterated(op: Operation) -> int:
    """Returns how often an op computes something: once for each element that it reads or gives."""
    along = isinstance(op, AlongAxesOp)
    return elements_of(op.operands[0] if along else op.results[0])


def _bytes_read(value: SSAValue, target: TargetDescription) -> float:
    """Returns the bytes that a kernel reads of an argument: all, or those that its views show."""
    whole, shown = _bytes(tensor_type(value), target), 0
    for use in value.uses:
        reader = use.operation
        is_view = isinstance(reader, ViewOp) or reader.has_trait(FreeWhenContiguous)
        shown += _bytes_read(reader.results[0], target) if is_view else whole
    return min(shown, whole)


def _kernel(op: Operation, target: TargetDescription) -> int:
    assert isinstance(op, KernelOp)
    return kernel_ns(op, target)


def _run(op: Operation, target: TargetDescription) -> int:
    assert isinstance(op, RunOp)
    return ops_ns(op.body.block.ops, target)


def _scan(op: Operation, target: TargetDescription) -> int:
    assert isinstance(op, ScanOp)
    return op.steps * ops_ns(op.body.block.ops, target)


def _branch(op: Operation, target: TargetDescription) -> int:
    assert isinstance(op, BranchOp)
    return min(ops_ns(region.block.ops, target) for region in op.arm_regions)


_BY_CLASS: tuple[tuple[type[Operation], Price], ...] = (
    (KernelOp, _kernel),
    (RunOp, _run),
    (ScanOp, _scan),
    (BranchOp, _branch),
    (ViewOp, _free),
    (MatmulOp, _matmul),
    (MovementOp, _movement),
)

_BY_TRAIT: tuple[tuple[type, Price], ...] = (
    (IsTerminator, _free),
    (Leaf, _free),
    (FreeWhenContiguous, _free),
    (Elementwise, _elementwise),
    (Reduction, _reduction),
    (RowWise, _row_wise),
    (Transfer, _data_movement),
)
