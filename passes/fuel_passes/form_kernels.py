# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-form-kernels`: ops become kernels, so that what is priced later is what is launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import FuelPassError
from fuel_dialect.layout import Layout
from fuel_dialect.ops.base import FuelOp, tensor_type
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp, ScanOp
from fuel_dialect.traits import Elementwise, FreeWhenContiguous, Leaf, Transfer, ViewOp
from fuel_passes.order import depth_first, reorder
from fuel_passes.outline import Outliner, erase_dead, is_splat
from fuel_passes.walk import plan_blocks

MAX_OPS = 64
LABEL_WORDS = 4


@dataclass(frozen=True)
class FormKernelsPass(ModulePass):
    """
    Groups the ops of every function and arm into `fuel.kernel`s.

    Elementwise ops of one shape that feed one another become one `pointwise` kernel, with the
    views of its operands folded in; a scan becomes a `scan` kernel; every other op becomes a
    `library` kernel of its own. A view that a result, a branch or a transfer needs is materialised.
    Kernels that are there already stay.

    Option: `max-ops=N`, the most elementwise ops in one kernel (default 64).
    """

    name = "fuel-form-kernels"

    max_ops: int = MAX_OPS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.max_ops < 1:
            raise FuelPassError(f"fuel-form-kernels: max-ops must be >= 1, got {self.max_ops}")
        for block in plan_blocks(op):
            form_kernels(block, self.max_ops)


def form_kernels(block: Block, max_ops: int = MAX_OPS) -> None:
    """Form the kernels of one block: a function's, or an arm's."""
    _Former(block, max_ops).form()


class _Group:
    """Elementwise ops of one shape that will be one kernel, while nobody else has read them."""

    def __init__(self, shape: tuple[int, ...], placement: DeviceAttr | None):
        self.shape = shape
        self.placement = placement
        self.ops: list[FuelOp] = []

    def fits(self, shape: tuple[int, ...], placement: DeviceAttr | None) -> bool:
        return self.shape == shape and self.placement == placement


class _Former:
    """
    One pass over a block.

    A group stays open until an op outside it reads one of its values; its kernel then stands
    right before that reader, after everything the group reads. So one walk suffices, and no kernel
    can depend on itself. Groups depend on the order of the ops, so they are put in an order that
    follows from what they compute: then a plan that is stripped and made again is the same plan.
    """

    def __init__(self, block: Block, max_ops: int):
        self.block = block
        self.max_ops = max_ops
        self.group_of: dict[Operation, _Group] = {}
        self.open: dict[_Group, None] = {}
        self.layouts: dict[SSAValue, Layout] = {}
        self.leftovers: list[Operation] = []

    def form(self) -> None:
        ops = list(self.block.ops)
        if not any(self._is_unformed(op) for op in ops):
            return
        if all(isinstance(op, FuelOp) for op in ops[:-1]):
            reorder(self.block, depth_first(self.block))
        for op in list(self.block.ops):
            self._visit(op)
        for group in list(self.open):
            last = self.block.last_op
            assert last is not None
            self._seal(group, last)
        erase_dead(self.leftovers)

    def _visit(self, op: Operation) -> None:
        if op.has_trait(Leaf):
            self.leftovers.append(op)
        elif self._is_free(op):
            self._view(op)
        elif isinstance(op, FuelOp) and op.has_trait(Elementwise):
            self._elementwise(op)
        elif isinstance(op, FuelOp) and self._becomes_kernel(op):
            self._single(op)
        else:
            self._opaque(op)

    def _is_unformed(self, op: Operation) -> bool:
        return isinstance(op, FuelOp) and not op.has_trait(Leaf) and self._becomes_kernel(op)

    def _becomes_kernel(self, op: FuelOp) -> bool:
        if isinstance(op, BranchOp | KernelOp | RunOp):
            return False
        return not op.has_trait(Transfer) and not op.has_trait(IsTerminator)

    # Views: read where they lie, by the kernels that need them.

    def _is_free(self, op: Operation) -> bool:
        if isinstance(op, ViewOp):
            return True
        if not op.has_trait(FreeWhenContiguous):
            return False
        source = op.operands[0]
        return source not in self.layouts or self.layouts[source].is_contiguous

    def _view(self, op: Operation) -> None:
        source = op.operands[0]
        layout = self.layouts.get(source) or Layout.contiguous(tensor_type(source).get_shape())
        result = op.results[0]
        if isinstance(op, ViewOp):
            self.layouts[result] = op.derive_layout(layout)
        else:
            self.layouts[result] = Layout.contiguous(tensor_type(result).get_shape())
        self.leftovers.append(op)

    def _root(self, value: SSAValue) -> SSAValue:
        """The value whose buffer a view shows."""
        while value in self.layouts:
            owner = value.owner
            assert isinstance(owner, Operation)
            value = owner.operands[0]
        return value

    def _group_behind(self, value: SSAValue) -> _Group | None:
        owner = self._root(value).owner
        group = None if isinstance(owner, Block) else self.group_of.get(owner)
        return group if group in self.open else None

    def _clones(self, value: SSAValue) -> bool:
        return value in self.layouts or is_splat(value)

    # Pointwise groups.

    def _elementwise(self, op: FuelOp) -> None:
        shape = tensor_type(op.results[0]).get_shape()
        joinable: dict[_Group, None] = {}
        for operand in op.operands:
            group = self._group_behind(operand)
            if group is None:
                continue
            if operand in self.layouts or not group.fits(shape, op.placement):
                self._seal(group, op)
                joinable.pop(group, None)
            elif group in self.open:
                joinable[group] = None
        group = self._joined(list(joinable), op, shape)
        group.ops.append(op)
        self.group_of[op] = group

    def _joined(self, groups: list[_Group], op: FuelOp, shape: tuple[int, ...]) -> _Group:
        """One open group for an op that reads all of `groups`."""
        if groups and sum(len(g.ops) for g in groups) < self.max_ops:
            first, *others = groups
            for other in others:
                self._merge(first, other)
            return first
        for group in groups:
            self._seal(group, op)
        new = _Group(shape, op.placement)
        self.open[new] = None
        return new

    def _merge(self, group: _Group, other: _Group) -> None:
        group.ops += other.ops
        for op in other.ops:
            self.group_of[op] = group
        del self.open[other]

    def _seal(self, group: _Group, before: Operation) -> None:
        """Make the kernel of a group, right before the op that needs it."""
        if group not in self.open:
            return
        del self.open[group]
        outliner = Outliner(self._clones)
        for op in group.ops:
            outliner.add(op)
        properties = kernel_properties("pointwise", group.ops, group.placement)
        outliner.finish(KernelOp, properties, before)

    # Everything else.

    def _seal_operands(self, op: Operation) -> None:
        for operand in op.operands:
            group = self._group_behind(operand)
            if group is not None:
                self._seal(group, op)

    def _single(self, op: FuelOp) -> None:
        """An op that is a kernel by itself, with the views of its operands."""
        self._seal_operands(op)
        following = op.next_op
        assert following is not None
        if op.has_trait(FreeWhenContiguous):
            self._materialise(op.results[0], following, op)
            return
        outliner = Outliner(self._clones)
        outliner.add(op)
        kind = "scan" if isinstance(op, ScanOp) else "library"
        outliner.finish(KernelOp, kernel_properties(kind, [op], op.placement), following)

    def _opaque(self, op: Operation) -> None:
        """A reader that is no kernel: it gets whole values, so views are materialised."""
        self._seal_operands(op)
        for operand in dict.fromkeys(op.operands):
            if operand in self.layouts:
                self._materialise(operand, op)

    def _materialise(self, value: SSAValue, before: Operation, op: FuelOp | None = None) -> None:
        """A kernel that writes a view out, row-major; later readers read its result."""
        copied = value.owner
        assert isinstance(copied, FuelOp)
        outliner = Outliner(lambda v: v in self.layouts or v is value or is_splat(v))
        outliner.bring_in(value)
        properties = kernel_properties("pointwise", [copied], copied.placement)
        outliner.finish(KernelOp, properties, before, yielded=[value])
        if op is not None:
            self.leftovers.append(op)


def kernel_properties(
    kind: str, ops: Sequence[FuelOp], placement: DeviceAttr | None
) -> dict[str, Attribute]:
    """The properties of a kernel of some ops."""
    properties: dict[str, Attribute] = {
        "kind": StringAttr(kind),
        "label": StringAttr(label_of(ops)),
    }
    if placement is not None:
        properties["placement"] = placement
    return properties


def label_of(ops: Sequence[FuelOp]) -> str:
    """A name for what some ops compute: `mul_add_exp`, `mul_add_exp_tanh_and_4_more`."""
    words = [op.mnemonic() for op in ops[:LABEL_WORDS]]
    more = len(ops) - len(words)
    return "_".join(words) + (f"_and_{more}_more" if more else "")
