# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-decompose`: ops that no candidate target serves become the ops that define them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.traits import IsTerminator

from fuel_dialect import dtypes
from fuel_dialect.errors import FuelPassError, NoBackendForOp
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.targets.machine import Topology
from fuel_dialect.traits import DecomposableOp, Leaf, SplittableOp
from fuel_passes.diagnostics import fail
from fuel_passes.planning.serving import (
    Site,
    describe,
    element_types,
    is_too_wide,
    serves,
    sites,
)
from fuel_passes.planning.topology import resolve


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """
    Replaces an op by its decomposition where no target that may run it has a kernel for it.

    An op with more operands than a kernel of these may read becomes several of its kind.
    An op that no target serves and that has no decomposition is an error (`NoBackendForOp`), found
    before anything is changed. Arms for devices outside the topology are left alone, and so is
    what is in kernels and runs.

    Options: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`);
    `ops=NAME,NAME` decomposes these ops although a target serves them, such as
    `ops=softmax_last_dim,rms_norm_last_dim`.
    """

    name = "fuel-decompose"

    topology: str | None = None
    ops: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _check_names(self.ops)
        topology = resolve(op, self.topology)
        while chosen := set(_chosen(op, topology, self.ops)):
            walker = PatternRewriteWalker(Decompose(chosen), apply_recursively=False)
            walker.rewrite_module(op)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        return
    from fuel_dialect.dialect import OPS

    known = [op.mnemonic() for op in OPS if issubclass(op, DecomposableOp)]
    for name in names:
        if name not in known:
            raise FuelPassError(
                f"fuel-decompose: {name!r} has no decomposition; these have: {', '.join(known)}"
            )


def _chosen(module: ModuleOp, topology: Topology, names: Collection[str]) -> Iterator[Operation]:
    for site in sites(module, topology):
        if not site.targets:
            continue
        for op in site.block.ops:
            if not isinstance(op, FuelOp) or isinstance(op, RegionOp):
                continue
            if (names and op.mnemonic() in names) or not _is_served(op, site):
                yield op


def _is_served(op: FuelOp, site: Site) -> bool:
    """Returns True if a target has a kernel for an op. Raises if nothing can be done about it."""
    allowed = site.candidates(op)
    if any(serves(op, target) for target in allowed) or op.has_trait(IsTerminator):
        return True
    if allowed and op.has_trait(Leaf):  # no kernel makes it; what reads it is looked at by itself
        return True
    if allowed and isinstance(op, DecomposableOp):
        return False
    if isinstance(op, SplittableOp) and any(is_too_wide(op, target) for target in allowed):
        return False
    if not allowed:
        where = ", ".join(map(str, site.topology.targets))
        fail(
            op,
            f"{op.mnemonic()}: pinned to {op.placement}, but the targets that may be used are "
            f"{where}",
            NoBackendForOp,
        )
    pinned = "" if op.placement is None else f", where it is pinned to {op.placement}"
    where = ", ".join(map(str, site.targets_of(op)))
    operands, results = ([str(dtypes.of_type(t)) for t in side] for side in element_types(op))
    fail(
        op,
        f"{op.mnemonic()}: no kernel for ({', '.join(operands)}) -> {', '.join(results)} on "
        f"{where}{pinned}, and no decomposition; {describe(allowed)}",
        NoBackendForOp,
    )


class Decompose(RewritePattern):
    """An op out of `chosen` becomes its decomposition, with the same pin."""

    def __init__(self, chosen: Collection[Operation]):
        self.chosen = chosen

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if op in self.chosen:
            assert isinstance(op, FuelOp)
            decompose(op, rewriter)


def decompose(op: FuelOp, rewriter: PatternRewriter) -> None:
    """Replaces an op by what defines it. The rewriter stands right before it."""
    before, block = op.prev_op, op.parent
    if isinstance(op, SplittableOp):
        results = op.split(rewriter)
    else:
        assert isinstance(op, DecomposableOp)
        results = op.decompose(rewriter)
    assert block is not None
    made = block.first_op if before is None else before.next_op
    while made is not op and made is not None:
        if op.placement is not None:
            made.properties["placement"] = op.placement
        made = made.next_op
    rewriter.replace(op, [], results)
