# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Branches: from functions that are traced into arms, or from routes that are already built.

Called through `Graph.branch` and `Graph.open_branch`. The builder checks that
the routes start at one value, share no op, end in one type and are read by nobody else. The ops of
each route move into its arm, and the merge reads the result of the branch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, cast

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fuel_dialect.attributes import ArmAttr, DeviceAttr, TargetAttr
from fuel_dialect.builder.tensor import Tensor
from fuel_dialect.builder.trace import ArmScope, Trace, backward_ops, block_of, forward_ops
from fuel_dialect.errors import GraphError, InvalidBranch, InvalidScan
from fuel_dialect.ops.control import BranchOp, YieldOp
from fuel_dialect.targets.registry import default_backend
from fuel_dialect.tensors import describe
from fuel_dialect.traits import Leaf


def target_of(target: TargetAttr | str) -> TargetAttr:
    """Read `"cpu"` or `"cuda:0/triton"`. Raises `UnknownDevice`, or `InvalidBranch` for no text."""
    if isinstance(target, TargetAttr):
        return target
    if not isinstance(target, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidBranch(
            f'branch: a target is text such as "cpu" or "cuda:0/triton", got {target!r}'
        )
    name, _, backend = target.partition("/")
    device = DeviceAttr.of(name)
    kind = device.kind.data
    return TargetAttr.of(device, backend or default_backend(kind) or kind)


def _arm_attributes(count: int, targets: Sequence[TargetAttr | str] | None) -> list[ArmAttr]:
    if targets is None:
        targets = ["cpu"] * count
    if not isinstance(targets, list | tuple):
        raise InvalidBranch(f'branch: targets must be a list such as ["cpu"], got {targets!r}')
    if len(targets) != count:
        raise InvalidBranch(f"branch: {len(targets)} targets for {count} arms")
    return [ArmAttr.of(target_of(target)) for target in targets]


def trace_branch(
    trace: Trace,
    inputs: Tensor | Sequence[Tensor],
    arms: Sequence[Callable[..., Any]],
    targets: Sequence[TargetAttr | str] | None,
    id: str | None,
) -> Any:
    """Append a `fuel.branch`; what `Graph.branch` returns."""
    refuse_in_scan(trace)
    _check_arms(arms)
    _check_id(id)
    attributes = _arm_attributes(len(arms), targets)
    given = inputs if isinstance(inputs, list | tuple) else [cast(object, inputs)]
    operands = [trace.scope.resolve(v) for v in _values(trace, "branch: input", given)]
    name = trace.new_decision(id)
    traced = [_trace_arm(trace, name, i, arm, operands) for i, arm in enumerate(arms)]
    regions = [region for region, _ in traced]
    types = _common_types(name, regions)
    op = BranchOp(name, operands, types, list(zip(attributes, regions, strict=True)))
    trace.append(op)
    results = tuple(Tensor(trace, result) for result in op.outputs)
    return results[0] if traced[0][1] else results


def _check_arms(arms: object) -> None:
    if not isinstance(arms, list | tuple):
        raise InvalidBranch(
            f"branch: arms must be a list of functions, got a {type(arms).__name__}"
        )
    if not arms:
        raise InvalidBranch("branch: needs one arm or more")
    for index, arm in enumerate(cast(Sequence[object], arms)):
        if not callable(arm):
            raise InvalidBranch(
                f"branch: arms must be a list of functions, arm {index} is a {type(arm).__name__}"
            )


def _check_id(id: object) -> None:
    if id is not None and not isinstance(id, str):
        raise InvalidBranch(f"branch: the id must be a string, got {id!r}")


def _check_tensor(what: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise InvalidBranch(f"branch: {what} is a {type(value).__name__}, expected a tensor")


def refuse_in_scan(trace: Trace) -> None:
    """Raise `InvalidScan` while a scan body is being traced."""
    if trace.scope.in_scan:
        raise InvalidScan("branch: a branch is not allowed in the body of a scan")


def _values(trace: Trace, what: str, given: Iterable[object]) -> list[SSAValue]:
    """The values of tensors of a graph. Raises `InvalidBranch` or `GraphError`."""
    values: list[SSAValue] = []
    for index, item in enumerate(given):
        if not isinstance(item, Tensor):
            raise InvalidBranch(f"{what} {index} is a {type(item).__name__}, expected a tensor")
        if item.trace is not trace:
            raise GraphError(
                f"{what} {index} must live on the same graph: it is on #{item.trace.id}, the "
                f"branch on #{trace.id}"
            )
        values.append(item.value)
    return values


def _trace_arm(
    trace: Trace, name: str, index: int, arm: Callable[..., Any], operands: Sequence[SSAValue]
) -> tuple[Region, bool]:
    """The region of an arm, and whether it returned a tensor rather than a tuple of them."""
    where = f"branch {name!r}, arm {index}"
    block = Block(arg_types=[operand.type for operand in operands])
    scope = ArmScope(block, trace.scope, where)
    with trace.inside(scope):
        returned = arm(*(Tensor(trace, argument) for argument in block.args))
        single = isinstance(returned, Tensor)
        items = [returned] if single else returned
        if not isinstance(items, list | tuple) or not items:
            raise InvalidBranch(
                f"{where}: returned {type(returned).__name__}, expected a tensor or a tuple of them"
            )
        values = _values(trace, f"{where}: result", cast(Sequence[object], items))
        block.add_op(YieldOp(*(scope.resolve(value) for value in values)))
    return Region(block), single


def _common_types(name: str, regions: Sequence[Region]) -> list[Attribute]:
    """The result types of all arms. Raises `InvalidBranch` if one differs from arm 0."""
    arms = [[v.type for v in cast(YieldOp, r.block.last_op).operands] for r in regions]
    for index, types in enumerate(arms):
        if types != arms[0]:
            raise InvalidBranch(
                f"branch {name!r}: arm {index} gives {_listed(types)}, arm 0 {_listed(arms[0])}; "
                "all arms give the same shapes and dtypes"
            )
    return arms[0]


def _listed(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


class BranchBuilder:
    """
    Turns routes that share a diverge tensor into the arms of a branch.

        b = g.open_branch(x)
        b.add_arm(x.relu()).add_arm(x.clip(0.0), target="cuda:0")
        y = b.finalize(merge)

    Each argument is checked for itself where it is given, and the routes by `finalize`, which may
    succeed once.
    """

    def __init__(self, trace: Trace, diverge: Tensor):
        _check_tensor("diverge", diverge)
        self._trace = trace
        self._diverge = diverge
        self._arms: list[Tensor] = []
        self._targets: list[TargetAttr] = []
        self._finalised = False

    def add_arm(self, exit: Tensor, target: TargetAttr | str = "cpu") -> BranchBuilder:
        """The value that one more route delivers; the first is the static winner."""
        _check_tensor(f"arm {len(self._arms)}", exit)
        self._targets.append(target_of(target))
        self._arms.append(exit)
        return self

    def diverge(self) -> Tensor:
        return self._diverge

    def arms(self) -> tuple[Tensor, ...]:
        """The exits, in the order they were added."""
        return tuple(self._arms)

    def finalize(self, reconverge_at: Tensor, id: str | None = None) -> Tensor | None:
        """
        Make the branch: the result, which the merge now reads in place of arm 0's exit.

        `reconverge_at` is a result of the op where the routes meet. One arm is no decision: None,
        and nothing changes. Handles of values inside the arms may not be read any more. Raises
        `InvalidBranch`, and changes nothing then.
        """
        _check_tensor("reconverge", reconverge_at)
        _check_id(id)
        with self._trace.lock:
            if self._finalised:
                raise InvalidBranch("branch: this builder was already finalised; open another one")
            refuse_in_scan(self._trace)
            exits = self._in_range(reconverge_at)
            if len(exits) == 1:
                self._finalised = True
                return None
            routes = Routes(self._diverge.value, reconverge_at.value, exits)
            routes.check()
            attributes = _arm_attributes(len(exits), self._targets)
            name = self._trace.new_decision(id)
            self._finalised = True
            return Tensor(self._trace, routes.make_branch(name, attributes))

    def _in_range(self, reconverge: Tensor) -> list[SSAValue]:
        """Rules 1 and 2: arms there are, and everything stands where ops are being appended."""
        if not self._arms:
            raise InvalidBranch("branch: needs one arm or more")
        arms = [(f"arm {index}", exit) for index, exit in enumerate(self._arms)]
        named = [("diverge", self._diverge), ("reconverge", reconverge), *arms]
        for what, tensor in named:
            if tensor.trace is not self._trace:
                raise InvalidBranch(
                    f"branch: {what} must live on the same graph: it is on #{tensor.trace.id}, the "
                    f"branch on #{self._trace.id}"
                )
            if block_of(tensor.value) is not self._trace.scope.block:
                raise InvalidBranch(
                    f"branch: {what}, {describe(tensor.value)}, is out of reach: it stands inside "
                    "an arm or a scan body, or outside the one being built"
                )
        return [exit.value for exit in self._arms]


class Routes:
    """The routes between one diverge and one reconverge value, and the ops inside each."""

    def __init__(self, diverge: SSAValue, reconverge: SSAValue, exits: Sequence[SSAValue]):
        self.diverge = diverge
        self.reconverge = reconverge
        self.exits = exits
        self.after = forward_ops(diverge)
        self.interiors = [backward_ops([exit], self.after) for exit in exits]

    @property
    def merge(self) -> Operation:
        return cast(Operation, self.reconverge.owner)

    def check(self) -> None:
        """Rules 4 to 10. Raises `InvalidBranch` for the first that is broken."""
        if self.reconverge is self.diverge:
            raise InvalidBranch("branch: reconverge must not be the diverge value")
        if self.reconverge.owner not in self.after:
            raise InvalidBranch(
                f"branch: reconverge, {describe(self.reconverge)}, does not depend on diverge, "
                f"{describe(self.diverge)}"
            )
        for index, exit in enumerate(self.exits):
            if exit.type != self.exits[0].type:
                raise InvalidBranch(
                    f"branch: arm {index} gives {exit.type}, arm 0 {self.exits[0].type}; all arms "
                    "give one shape and dtype, cast it back"
                )
        if self.exits[0] not in self.merge.operands:
            raise InvalidBranch(
                f"branch: reconverge, {describe(self.reconverge)}, must read arm 0's exit directly"
            )
        self._check_interiors()
        self._check_readers()

    def _check_interiors(self) -> None:
        for index, interior in enumerate(self.interiors):
            if not interior:
                raise InvalidBranch(
                    f"branch: arm {index} computes nothing from diverge, {describe(self.diverge)}"
                )
        for (a, first), (b, second) in combinations(enumerate(self.interiors), 2):
            shared = first & second
            if shared:
                names = ", ".join(sorted(op.name for op in shared))
                raise InvalidBranch(f"branch: arms {a} and {b} share {names}; arms are disjoint")

    def _check_readers(self) -> None:
        """Rule 10, and that the merge reads nothing of an arm but arm 0's exit."""
        inside = set[Operation]().union(*self.interiors)
        for index, interior in enumerate(self.interiors):
            for op in interior:
                for value in op.results:
                    self._check_value(index, value, inside)

    def _check_value(self, index: int, value: SSAValue, inside: set[Operation]) -> None:
        for use in value.uses:
            reader = use.operation
            if reader in inside:
                continue
            if reader is not self.merge:
                raise InvalidBranch(
                    f"branch: {describe(value)} of arm {index} is read by {reader.name} outside "
                    "the arms; only reconverge may read it"
                )
            if value is not self.exits[0]:
                raise InvalidBranch(
                    f"branch: reconverge reads {describe(value)} of arm {index}; it may read arm "
                    "0's exit only, in whose place the branch's result comes"
                )

    def make_branch(self, name: str, attributes: Sequence[ArmAttr]) -> SSAValue:
        """Move each interior into an arm; the result of the branch."""
        inputs = self._inputs()
        self._move_before_merge(inputs)
        regions = [self._region(index, inputs) for index in range(len(self.exits))]
        arms = list(zip(attributes, regions, strict=True))
        op = BranchOp(name, inputs, [self.exits[0].type], arms)
        block = cast(Block, self.merge.parent)
        block.insert_op_before(op, self.merge)
        (result,) = op.outputs
        first = self.exits[0]
        self.merge.operands = [result if o is first else o for o in self.merge.operands]
        return result

    def _inputs(self) -> list[SSAValue]:
        """Diverge and whatever else the arms read from outside; leaves are cloned in instead."""
        found = {self.diverge: None}
        for interior in self.interiors:
            for op in _in_order(interior):
                outside = [o for o in op.operands if o.owner not in interior and not _is_leaf(o)]
                found.update(dict.fromkeys(outside))
        return list(found)

    def _move_before_merge(self, inputs: Sequence[SSAValue]) -> None:
        """Moves ops that the arms read, and that were built after the merge, before it."""
        block = cast(Block, self.merge.parent)
        later: dict[Operation, None] = {}
        op = self.merge.next_op
        while op is not None:
            later[op] = None
            op = op.next_op
        needed = backward_ops(inputs, later.keys())
        for op in [op for op in later if op in needed]:
            op.detach()
            block.insert_op_before(op, self.merge)

    def _region(self, index: int, inputs: Sequence[SSAValue]) -> Region:
        block = Block(arg_types=[value.type for value in inputs])
        inner: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for op in _in_order(self.interiors[index]):
            op.detach()
            for operand in op.operands:
                if operand not in inner and _is_leaf(operand):
                    leaf = cast(Operation, operand.owner).clone()
                    block.add_op(leaf)
                    inner[operand] = leaf.results[0]
            op.operands = [inner.get(operand, operand) for operand in op.operands]
            block.add_op(op)
        # the merge reads the exit of arm 0 until the branch takes its place
        block.add_op(YieldOp(self.exits[index]))
        return Region(block)


def _is_leaf(value: SSAValue) -> bool:
    owner = value.owner
    return not isinstance(owner, Block) and owner.has_trait(Leaf)


def _in_order(ops: set[Operation]) -> list[Operation]:
    """Ops of one block in the block's order; only what stands around them is looked at."""
    start = next(iter(ops))
    found = deque([start])
    before, after = start.prev_op, start.next_op
    while len(found) < len(ops) and (before is not None or after is not None):
        if before is not None:
            if before in ops:
                found.appendleft(before)
            before = before.prev_op
        if after is not None:
            if after in ops:
                found.append(after)
            after = after.next_op
    return list(found)
