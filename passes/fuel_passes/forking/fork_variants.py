# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-fork-variants`: where different kernels compute the same values, they become arms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.rewriter import InsertPoint

from fuel_dialect.attributes import ArmAttr, TargetAttr
from fuel_dialect.canonicalization.regions import DropOperands, SinkLeaves
from fuel_dialect.errors import FuelPassError
from fuel_dialect.kinds import LIBRARY, POINTWISE, REDUCTION
from fuel_dialect.ops.control import BranchOp, KernelOp, YieldOp
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.traits import (
    AlongAxesOp,
    DecomposableOp,
    Elementwise,
    RowWise,
)
from fuel_passes.forking.calls import copy_of_body, is_carried, wrap_calls
from fuel_passes.forming.form_kernels import form_kernels
from fuel_passes.forming.outline import erase_dead, is_leaf
from fuel_passes.legalize.strip_plan import added_arms
from fuel_passes.planning.candidates import Candidates, candidates_for, signature
from fuel_passes.planning.measurements import MeasurementSource
from fuel_passes.planning.prices import elements_of, is_tiled, op_ns, ops_ns, written_ns
from fuel_passes.planning.serving import Site, sites_of
from fuel_passes.planning.topology import check_plan, resolve, target_description
from fuel_passes.walk import branches, functions

KERNELS_PER_ARM = 20
"""Planned arms stay under one in so many kernels: 5 %."""


@dataclass(frozen=True)
class ForkVariantsPass(ModulePass):
    """
    Turns a kernel that could be computed by other kernels on its target into a `fuel.branch`.

    A `pointwise` kernel of two elementwise ops or more is also one `library` call per op. A
    `reduction` kernel of two ops or more is also split: a `library` call for each op along axes,
    and the pointwise kernels between them. A row-wise op by itself that has a decomposition
    (softmax, the norms) is also that, split. A `matmul` kernel is not forked: split, it would
    make the same product, and the same elementwise calls on more memory. Both forms are priced;
    the fork is made if the dearer is within `reach` of the cheaper. Kernels of one tile or less
    are not forked: there both forms run the same calls. Kernels in arms that a pass made are not
    forked again.

    Arm 0 is the kernel as written, whatever the prices are: `fuel-strip-plan` gives arm 0 back, so
    it must be the program. (`fuel-bake-variants` reads the prices, not the order.) With
    `cheapest-first=true` the arms are sorted by price instead, and stripping the plan then leaves
    the cheapest form.

    Arms that passes added stay under 5 % of a function's kernels, one always allowed; where more
    would fork, those stay whose other form is cheapest in terms of the written one, because there a
    measurement is most likely to decide. There is no arm for what no allowed source makes, such as
    library calls on a GPU.

    Options: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`); `reach=R`, R >= 1
    (default 4); `max-branches=N`, the most forks in a function besides the 5 %;
    `cheapest-first=true|false`; `deterministic`, `max-ulps` and `measurements` as for `fuel-plan`.
    """

    name = "fuel-fork-variants"

    topology: str | None = None
    reach: int | float = 4.0
    max_branches: int | None = None
    cheapest_first: bool = False
    deterministic: bool = False
    max_ulps: int | None = None
    measurements: str | MeasurementSource | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.reach >= 1:
            raise FuelPassError(f"fuel-fork-variants: reach must be >= 1, got {self.reach}")
        if self.max_branches is not None and self.max_branches < 0:
            raise FuelPassError(
                f"fuel-fork-variants: max-branches must be >= 0, got {self.max_branches}"
            )
        topology = resolve(op, self.topology)
        check_plan(op, topology)
        candidates = candidates_for(topology, self.deterministic, self.max_ulps, self.measurements)
        for function in functions(op):
            self._fork(function, candidates)

    def _fork(self, function: FuncOp, candidates: Candidates) -> None:
        allowed = arms_left(function)
        if self.max_branches is not None:
            allowed = min(allowed, self.max_branches)
        if allowed < 1:
            return
        near = [c for c in _choices(function, candidates) if c.ratio <= self.reach]
        kept = {c.kernel: c for c in sorted(near, key=lambda c: c.ratio)[:allowed]}
        if not kept:
            return
        pattern = Fork(kept, fresh_ids(function), self.cheapest_first)
        PatternRewriteWalker(pattern, apply_recursively=False).rewrite_region(function.body)


@dataclass(frozen=True)
class Alternative:
    """Another way to compute what a kernel computes."""

    why: str
    price: Callable[[KernelOp, TargetDescription], int]
    block: Callable[[KernelOp], Block]
    """The kernels of it in a block of their own, with the arguments and results of the kernel."""


@dataclass(frozen=True)
class Choice:
    """A kernel that may be forked: its target, the other way to compute it, and both prices."""

    kernel: KernelOp
    target: TargetAttr
    alternative: Alternative
    written_ns: int
    other_ns: int

    @property
    def ratio(self) -> float:
        """The other price in terms of the written one."""
        return self.other_ns / max(self.written_ns, 1)


def _choices(function: FuncOp, candidates: Candidates) -> Iterator[Choice]:
    known: _Known = {}
    for site in sites_of(function, candidates.topology):
        if site.planned or not site.targets:
            continue
        for op in site.block.ops:
            if not isinstance(op, KernelOp):
                continue
            choice = _choice(op, site, candidates, known)
            if choice is not None:
                yield choice


_Known = dict[tuple[object, TargetAttr], tuple[int | None, int | None]]
"""Both prices of kernels that compute the same on a target; None where one cannot be made."""


def _choice(kernel: KernelOp, site: Site, candidates: Candidates, known: _Known) -> Choice | None:
    pin = kernel.placement
    target = next((t for t in site.targets if pin is None or t.device == pin), None)
    if target is None:
        return None
    description = target_description(site.topology, target)
    values = (*kernel.inputs, *kernel.outputs)
    if not any(is_tiled(elements_of(value), description) for value in values):
        return None
    alternative = alternative_of(kernel)
    if alternative is None:
        return None
    key = (signature(kernel), target)
    if key not in known:
        written = candidates.price_as_written(kernel, target)
        other = (
            None
            if written is None
            else candidates.as_written(alternative.block(kernel).ops, target)
        )
        known[key] = written, other
    written, other = known[key]
    if written is None or other is None:
        return None
    return Choice(kernel, target, alternative, written, other)


def alternative_of(kernel: KernelOp) -> Alternative | None:
    """Returns the other way to compute a kernel; None if there is none."""
    work = [op for op in kernel.body.block.ops if not is_carried(op)]
    if len(work) > 1:
        return ALTERNATIVES.get(kernel.kind.data)
    if not work:
        return None
    (op,) = work
    return DECOMPOSED if isinstance(op, DecomposableOp) and op.has_trait(RowWise) else None


# One library call per op.


def _calls_ns(kernel: KernelOp, target: TargetDescription) -> int:
    calls = sum(op_ns(op, target) for op in kernel.body.block.ops if op.has_trait(Elementwise))
    return calls + written_ns(kernel, target, LIBRARY.name)


def _call_per_op(kernel: KernelOp) -> Block:
    block = copy_of_body(kernel)
    wrap_calls(block, kernel, lambda op: op.has_trait(Elementwise))
    erase_dead([op for op in block.ops if is_carried(op) and op.results])
    return block


CALL_PER_OP = Alternative("one library call per op", _calls_ns, _call_per_op)


# Library calls, and pointwise kernels between them.


def _split_ns(kernel: KernelOp, target: TargetDescription) -> int:
    return ops_ns(_split(kernel).ops, target)


def _split(kernel: KernelOp) -> Block:
    return _split_up(copy_of_body(kernel), kernel)


def _split_up(block: Block, kernel: KernelOp) -> Block:
    wrap_calls(block, kernel, lambda op: isinstance(op, AlongAxesOp))
    form_kernels(block)
    return block


SPLIT = Alternative("library calls and pointwise kernels", _split_ns, _split)

ALTERNATIVES = {POINTWISE.name: CALL_PER_OP, REDUCTION.name: SPLIT}
"""The other way to compute a kernel of several ops, by its kind."""


# The decomposition of a row-wise op.


def _decomposed_ns(kernel: KernelOp, target: TargetDescription) -> int:
    return ops_ns(_decomposed(kernel).ops, target)


def _decomposed(kernel: KernelOp) -> Block:
    block = copy_of_body(kernel)
    for op in list(block.ops):
        if isinstance(op, DecomposableOp):
            _replace_by_decomposition(op)
    return _split_up(block, kernel)


def _replace_by_decomposition(op: DecomposableOp) -> None:
    values = op.decompose(Builder(InsertPoint.before(op)))
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    block = op.parent
    assert block is not None
    block.erase_op(op)


DECOMPOSED = Alternative("decomposed", _decomposed_ns, _decomposed)


# Forking.


def written(kernel: KernelOp) -> Block:
    """A block that holds a copy of the kernel."""
    block = Block(arg_types=[value.type for value in kernel.inputs])
    for argument, value in zip(block.args, kernel.inputs, strict=True):
        argument.name_hint = value.name_hint
    copy = kernel.clone(dict(zip(kernel.inputs, block.args, strict=True)))
    copy.operands = block.args
    block.add_ops([copy, YieldOp(*copy.results)])
    return block


class Fork(RewritePattern):
    """A kernel with a choice becomes a branch."""

    def __init__(
        self, choices: Mapping[KernelOp, Choice], ids: Iterator[str], cheapest_first: bool
    ):
        self.choices = choices
        self.ids = ids
        self.cheapest_first = cheapest_first

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, KernelOp) or op not in self.choices:
            return
        arms = _arms(self.choices[op])
        if self.cheapest_first:
            arms.sort(key=lambda arm: arm[0].price.data)
        replace_by_branch(op, next(self.ids), arms, rewriter)


Arms = list[tuple[ArmAttr, Region]]


def replace_by_branch(kernel: KernelOp, id: str, arms: Arms, rewriter: PatternRewriter) -> None:
    """Put a branch in place of a kernel."""
    branch = BranchOp(id, kernel.inputs, kernel.result_types, arms)
    for old, new in zip(kernel.results, branch.results, strict=True):
        new.name_hint = old.name_hint
    leaves = [cast(Operation, v.owner) for v in dict.fromkeys(kernel.inputs) if is_leaf(v)]
    rewriter.replace(kernel, branch)
    SinkLeaves().match_and_rewrite(branch, rewriter)
    DropOperands().match_and_rewrite(branch, rewriter)
    erase_dead(leaves)


def _arms(choice: Choice) -> Arms:
    kernel, alternative = choice.kernel, choice.alternative
    return [
        (_arm(choice, choice.written_ns, "as written"), Region(written(kernel))),
        (_arm(choice, choice.other_ns, alternative.why), Region(alternative.block(kernel))),
    ]


def _arm(choice: Choice, price: int, why: str) -> ArmAttr:
    return ArmAttr.of(choice.target, price, f"{ForkVariantsPass.name}: {why}")


def fresh_ids(function: FuncOp) -> Iterator[str]:
    """Ids that no branch of the function has."""
    taken = {op.id.data for op in branches(function)}
    return (id for id in (f"d{n}" for n in count()) if id not in taken)


def arms_left(function: FuncOp) -> int:
    """Returns how many planned arms a function may still get; negative if it has too many."""
    kernels = arms = 0
    pending: list[Collection[Operation]] = [list(b.ops) for b in function.body.blocks]
    while pending:
        for op in pending.pop():
            kernels += isinstance(op, KernelOp)
            if isinstance(op, BranchOp):
                added = added_arms(op)
                arms += len(added)
                regions = [r for index, r in enumerate(op.arm_regions) if index not in added]
                pending += [list(region.block.ops) for region in regions]
    return max(1, (kernels - 1) // KERNELS_PER_ARM) - arms
