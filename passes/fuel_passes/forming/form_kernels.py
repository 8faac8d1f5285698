# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-form-kernels`: ops become kernels, so that what is priced later is what is launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import FuelPassError
from fuel_dialect.kinds import MOVEMENT, POINTWISE, REDUCTION, KernelKind, kind_of
from fuel_dialect.layout import Layout
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.targets.limits import BUFFERS
from fuel_dialect.targets.machine import Topology
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import (
    AlongAxesOp,
    FreeWhenContiguous,
    Leaf,
    RowWise,
    Transfer,
    ViewOp,
)
from fuel_passes.finishing.order import depth_first, reorder
from fuel_passes.forming.groups import Caps, Group, has_rows, keeps_order, repeats_along_row
from fuel_passes.forming.outline import Outliner, erase_dead, is_splat
from fuel_passes.planning.topology import resolve, target_description
from fuel_passes.walk import plan_blocks

CAPS = Caps()
LABEL_WORDS = 4

Role = Literal["full", "row"]
"""The role of a value of a group: an element for each of its shape, or one for each row."""


@dataclass(frozen=True)
class FormKernelsPass(ModulePass):
    """
    Groups the ops of every function and arm into `fuel.kernel`s.

    Elementwise ops of one shape that feed one another become one `pointwise` kernel, with the
    views of its operands folded in. Reductions and row ops along one set of axes become one
    `reduction` kernel with the elementwise ops that they read, that lie between them, and that
    read them (a statistic as it is, or broadcast back). A matmul becomes a `matmul` kernel with the
    elementwise ops on its result. Gathers, concatenations, and views that a result, a branch or a
    transfer needs whole, become `movement` kernels; a scan becomes a `scan` kernel; an op that is
    none of these becomes a `library` kernel of its own. Ops pinned to different devices never share
    a kernel. Kernels that are there already stay.

    Options: `max-ops=N` and `max-operands=N`, the most ops in a fused kernel, and the most values
    that its ops read (default 64 and 32). `topology=NAME`: see `fuel-plan`; a kernel has no more
    buffers than each of its targets gives one.
    """

    name = "fuel-form-kernels"

    max_ops: int = CAPS.ops
    max_operands: int = CAPS.operands
    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for option, value in (("max-ops", self.max_ops), ("max-operands", self.max_operands)):
            if value < 1:
                raise FuelPassError(f"fuel-form-kernels: {option} must be >= 1, got {value}")
        machine = caps_of(resolve(op, self.topology))
        caps = replace(machine, ops=self.max_ops, operands=self.max_operands)
        for block in plan_blocks(op):
            form_kernels(block, caps)


def caps_of(topology: Topology) -> Caps:
    """Returns the caps of kernels that every target of a machine can make."""
    sources = chain.from_iterable(target_description(topology, t).sources for t in topology.targets)
    return Caps(buffers=min((s.buffers for s in sources if s.buffers is not None), default=BUFFERS))


def form_kernels(block: Block, caps: Caps = CAPS) -> None:
    """Form the kernels of one block: a function's, or an arm's."""
    _Former(block, caps).form()


class _Former:
    """
    One pass over a block.

    A group stays open until an op outside it reads one of its values; its kernel then stands
    right before that reader, after everything the group reads. So one walk suffices, and no kernel
    can depend on itself. Groups depend on the order of the ops, so they are put in an order that
    follows from what they compute: then a plan that is stripped and made again is the same plan.
    """

    def __init__(self, block: Block, caps: Caps):
        self.block = block
        self.caps = caps
        self.group_of: dict[Operation, Group] = {}
        self.roles: dict[SSAValue, Role] = {}
        self.open: dict[Group, None] = {}
        self.layouts: dict[SSAValue, Layout] = {}
        self.leftovers: dict[Operation, None] = {}

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
        erase_dead(list(self.leftovers))

    def _visit(self, op: Operation) -> None:
        if op.has_trait(Leaf):
            self.leftovers[op] = None
        elif self._is_free(op):
            self._view(op)
        elif not isinstance(op, FuelOp) or not self._becomes_kernel(op):
            self._opaque(op)
        else:
            self._kernel_of(op, kind_of(type(op)))

    def _kernel_of(self, op: FuelOp, kind: KernelKind) -> None:
        if kind is POINTWISE:
            self._elementwise(op)
        elif kind is REDUCTION and _is_fusible(op):
            self._along_axes(op)
        elif kind.fuses_results:
            self._root_of_group(op, kind)
        else:
            self._single(op, kind)

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
        self.leftovers[op] = None
        if self.roles.get(source) == "row":
            self._view_of_statistic(op)

    def _view_of_statistic(self, op: Operation) -> None:
        group = self._group_behind(op.operands[0])
        if group is None:
            return
        if repeats_along_row(op, group.shape, group.column):
            self.roles[op.results[0]] = "full"
        elif keeps_order(op):
            self.roles[op.results[0]] = "row"
        else:
            return
        group.views.append(op)

    def _root(self, value: SSAValue) -> SSAValue:
        """The value whose buffer a view shows."""
        while value in self.layouts:
            owner = value.owner
            assert isinstance(owner, Operation)
            value = owner.operands[0]
        return value

    def _group_behind(self, value: SSAValue) -> Group | None:
        owner = self._root(value).owner
        group = None if isinstance(owner, Block) else self.group_of.get(owner)
        return group if group in self.open else None

    def _clones(self, value: SSAValue) -> bool:
        return value in self.layouts or is_splat(value)

    # Groups.

    def _elementwise(self, op: FuelOp) -> None:
        groups: dict[Group, Role] = {}
        for operand in op.operands:
            group = self._group_behind(operand)
            if group is None:
                continue
            role = self.roles.get(operand)
            if role is None or group.placement != op.placement:
                self._seal(group, op)
                groups.pop(group, None)
            else:
                groups[group] = role
        group = self._joined(list(groups), op)
        self._add(op, group, groups.get(group, "full"))

    def _joined(self, groups: list[Group], op: FuelOp) -> Group:
        """
        The group for an op that reads all of `groups`.

        The first that does more than elementwise ops, else the first, takes in the others.
        """
        groups.sort(key=lambda group: group.kind is POINTWISE)
        joined: Group | None = None
        for group in groups:
            if joined is None and group.has_room(op, self.caps):
                joined = group
            elif joined and joined.merges(group) and joined.has_room(op, self.caps, group):
                self._merge(joined, group)
            else:
                self._seal(group, op)
        return joined or self._opened(tensor_type(op.results[0]).get_shape(), op)

    def _opened(self, shape: tuple[int, ...], op: FuelOp) -> Group:
        group = Group(tuple(shape), op.placement)
        self.open[group] = None
        return group

    def _add(self, op: FuelOp, group: Group, role: Role) -> None:
        for operand in op.operands:
            root = self._root(operand)
            owner = root.owner
            if isinstance(owner, Block) or self.group_of.get(owner) is not group:
                group.inputs.add(root)
        group.take(op)
        self.group_of[op] = group
        self.roles[op.results[0]] = role

    def _merge(self, group: Group, other: Group) -> None:
        group.ops += other.ops
        group.views += other.views
        group.inputs |= other.inputs
        group.unread |= other.unread
        group.parts += other.parts
        group.axes = group.axes or other.axes
        group.kind = other.kind if group.kind is POINTWISE else group.kind
        for op in other.ops:
            self.group_of[op] = group
        del self.open[other]

    def _along_axes(self, op: FuelOp) -> None:
        """A reduction or row op joins the group of its operand, or begins one."""
        assert isinstance(op, AlongAxesOp)
        (operand,) = op.operands
        axes = op.axes()
        group = self._group_behind(operand)
        if group is not None and not (
            self.roles.get(operand) == "full"
            and group.takes_axes(op, axes)
            and len(group.ops) < self.caps.ops
            and group.has_buffers(op, self.caps)
        ):
            self._seal(group, op)
            group = None
        group = group or self._opened(tensor_type(operand).get_shape(), op)
        group.axes, group.kind = axes, REDUCTION
        self._add(op, group, "full" if op.has_trait(RowWise) else "row")

    def _root_of_group(self, op: FuelOp, kind: KernelKind) -> None:
        """Begins a group with an op, such as a matmul, that ops elementwise on its result join."""
        self._seal_operands(op)
        group = self._opened(tensor_type(op.results[0]).get_shape(), op)
        group.kind = kind
        self._add(op, group, "full")

    def _seal(self, group: Group, before: Operation) -> None:
        """Make the kernel of a group, right before the op that needs it."""
        if group not in self.open:
            return
        del self.open[group]
        outliner = Outliner(self._clones)
        for op in group.ops:
            outliner.add(op)
        self._drop_read(group.views)
        properties = kernel_properties(group.kind, group.ops, group.placement)
        outliner.finish(KernelOp, properties, before)

    def _drop_read(self, views: Sequence[Operation]) -> None:
        """Erase the views that only ops of the kernel read: it holds clones of them."""
        for view in reversed(views):
            if view.results[0].first_use is None:
                del self.leftovers[view]
                view.detach()
                view.erase()

    # Everything else.

    def _seal_operands(self, op: Operation) -> None:
        for operand in op.operands:
            group = self._group_behind(operand)
            if group is not None:
                self._seal(group, op)

    def _single(self, op: FuelOp, kind: KernelKind) -> None:
        """An op that is a kernel by itself, with the views of its operands."""
        self._seal_operands(op)
        following = op.next_op
        assert following is not None
        if op.has_trait(FreeWhenContiguous):
            self._materialise(op.results[0], following, op)
            return
        outliner = Outliner(self._clones)
        outliner.add(op)
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
        properties = kernel_properties(MOVEMENT, [copied], copied.placement)
        outliner.finish(KernelOp, properties, before, yielded=[value])
        if op is not None:
            self.leftovers[op] = None


def _is_fusible(op: Operation) -> bool:
    """Returns True if an op along axes has rows of more than one element."""
    assert isinstance(op, AlongAxesOp)
    return has_rows(tuple(tensor_type(op.operands[0]).get_shape()), op.axes())


def kernel_properties(
    kind: KernelKind, ops: Sequence[FuelOp], placement: DeviceAttr | None
) -> dict[str, Attribute]:
    """Returns the properties of a kernel of some ops."""
    properties: dict[str, Attribute] = {
        "kind": StringAttr(kind.name),
        "label": StringAttr(label_of(ops)),
    }
    if placement is not None:
        properties["placement"] = placement
    return properties


def label_of(ops: Sequence[FuelOp]) -> str:
    """A name for what some ops compute: `mul_add_exp`, `mul_add_exp_tanh_and_4_more`."""
    words = [op.mnemonic().replace(".", "_") for op in ops[:LABEL_WORDS]]
    more = len(ops) - len(words)
    return "_".join(words) + (f"_and_{more}_more" if more else "")
