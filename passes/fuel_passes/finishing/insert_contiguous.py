# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-insert-contiguous`: operands that a target cannot read as they lie are written out."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.canonicalization.regions import DropOperands
from fuel_dialect.kinds import MOVEMENT
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp, RunOp, YieldOp
from fuel_dialect.targets.machine import Topology
from fuel_passes.forming.form_kernels import caps_of, form_kernels, kernel_properties
from fuel_passes.forming.outline import erase_dead
from fuel_passes.planning.residency import default_target, target_of
from fuel_passes.planning.strides import unreadable
from fuel_passes.planning.topology import check_plan, resolve, target_description
from fuel_passes.walk import plan_blocks


@dataclass(frozen=True)
class InsertContiguousPass(ModulePass):
    """
    Writes out views of operands where the target of a kernel cannot read them as they lie.

    What a target reads is part of its description, by kind of kernel (`strides`); a topology may
    say otherwise of its machine. The view moves from the kernel into a `movement` kernel on the
    same target, right before the first kernel that needs it: once per block, value and device.
    Prices count it, wherever a kernel with such a view is priced. In every arm and run; arms for
    targets that the topology lacks are left as they are. `fuel-strip-plan` makes a view of it
    again.

    Option: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`).
    """

    name = "fuel-insert-contiguous"

    topology: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        topology = resolve(op, self.topology)
        check_plan(op, topology)
        targets = topology.targets
        if all(target_description(topology, target).reads_all for target in targets):
            return
        caps = caps_of(topology)
        for block in list(plan_blocks(op)):
            form_kernels(block, caps)
            default = default_target(block, targets)
            insert_contiguous(block, default, topology)
            for run in [inner for inner in block.ops if isinstance(inner, RunOp)]:
                insert_contiguous(run.body.block, run.target, topology)


_Key = tuple[SSAValue, tuple[object, ...], DeviceAttr]
"""A value, the views of it, and where they are written out."""


def insert_contiguous(block: Block, default: TargetAttr, topology: Topology) -> None:
    """Write out what the kernels of a block cannot read; `default` is the target of the block."""
    if default not in topology.targets:
        return
    writer = _Writer(block, topology)
    for kernel in [op for op in block.ops if isinstance(op, KernelOp)]:
        writer.visit(kernel, target_of(kernel, default, topology.targets))


@dataclass
class _Writer:
    block: Block
    topology: Topology
    made: dict[_Key, SSAValue] = field(default_factory=dict[_Key, SSAValue])

    def visit(self, kernel: KernelOp, target: TargetAttr) -> None:
        """Let a kernel read what its target can."""
        description = target_description(self.topology, target)
        changed = False
        while found := unreadable(kernel, description):
            self._replace(kernel, found[0], target.device)
            changed = True
        if changed:
            DropOperands().match_and_rewrite(kernel, PatternRewriter(kernel))

    def _replace(self, kernel: KernelOp, view: SSAValue, device: DeviceAttr) -> None:
        """Let a kernel read a view from an operand of its own."""
        chain = _chain(view)
        argument = chain[0].operands[0]
        assert isinstance(argument, BlockArgument)
        source = kernel.inputs[argument.index]
        key = source, tuple(map(_name, chain)), device
        if key not in self.made:
            self.made[key] = self._written(kernel, source, chain)
        body = kernel.body.block
        new = body.insert_arg(view.type, len(body.args))
        new.name_hint = view.name_hint
        kernel.operands = [*kernel.operands, self.made[key]]
        view.replace_all_uses_with(new)
        erase_dead(chain)

    def _written(self, kernel: KernelOp, source: SSAValue, chain: list[Operation]) -> SSAValue:
        """The result of a kernel that writes out views of a value, in front of the reader."""
        body = Block(arg_types=[source.type])
        body.args[0].name_hint = source.name_hint
        inner: dict[SSAValue, SSAValue] = {chain[0].operands[0]: body.args[0]}
        body.add_ops([op.clone(inner) for op in chain])
        result = inner[chain[-1].results[0]]
        body.add_op(YieldOp(result))
        made = KernelOp.create(
            operands=[source],
            result_types=[result.type],
            properties=_properties(kernel, chain[-1]),
            regions=[Region(body)],
        )
        made.results[0].name_hint = chain[-1].results[0].name_hint
        self.block.insert_op_before(made, kernel)
        return made.results[0]


def _chain(view: SSAValue) -> list[Operation]:
    """The views between an argument of a kernel and one of its values, in order."""
    chain: list[Operation] = []
    while isinstance(op := view.owner, Operation):
        chain.append(op)
        view = op.operands[0]
    return chain[::-1]


def _name(op: Operation) -> object:
    """Equal for views that do the same."""
    return type(op), op.results[0].type, tuple(sorted(op.properties.items(), key=str))


def _properties(kernel: KernelOp, view: Operation) -> dict[str, Attribute]:
    """Those of a movement kernel that runs where another does."""
    assert isinstance(view, FuelOp)
    properties = kernel_properties(MOVEMENT, [view], kernel.placement)
    target = kernel.properties.get("target")
    return properties if target is None else {**properties, "target": target}
