# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-unroll-scan`: loops become straight-line code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from fuel_dialect import dtypes
from fuel_dialect.errors import FuelPassError
from fuel_dialect.movement import checks_indices
from fuel_dialect.numbers import integer
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.ops.comparison import EqOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.elementwise import AddOp, CastOp, MinimumOp, WhereOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.ops.shape import (
    BroadcastToOp,
    ConcatOp,
    ReshapeOp,
    SliceOp,
    SqueezeOp,
    UnsqueezeOp,
)
from fuel_dialect.tensors import same_shape, tensor, tensor_type
from fuel_dialect.traits import Leaf
from fuel_passes.diagnostics import fail


@dataclass(frozen=True)
class UnrollScanPass(ModulePass):
    """
    Replaces scans by copies of their bodies, inner scans first.

    Rows of xs are slices, ys one concat along dim 0. With `until`, every step is computed and
    selected by a mask, so values and step count are those of the scan; such a scan is refused if
    its body reads by index (a step that the scan would not have done could be out of range) or has
    carries or ys that cannot be selected. Scans in kernels are left alone: unroll before
    `fuel-form-kernels`. A pin of a scan becomes that of its steps.

    Option: `max-length=N` unrolls only scans of at most N steps (default: all).
    """

    name = "fuel-unroll-scan"

    max_length: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.max_length is not None and self.max_length < 0:
            raise FuelPassError(f"fuel-unroll-scan: max-length must be >= 0, got {self.max_length}")
        chosen = set(self._chosen(op))
        for scan in chosen:
            _check_until(scan)
        if chosen:
            walker = PatternRewriteWalker(
                UnrollScan(chosen), walk_regions_first=True, apply_recursively=False
            )
            walker.rewrite_module(op)

    def _chosen(self, module: ModuleOp) -> Iterator[ScanOp]:
        pending = [module.body.block]
        while pending:
            for op in pending.pop().ops:
                if isinstance(op, KernelOp):
                    continue
                pending += [block for region in op.regions for block in region.blocks]
                if isinstance(op, ScanOp) and self._fits(op):
                    yield op

    def _fits(self, op: ScanOp) -> bool:
        return self.max_length is None or op.steps <= self.max_length


def _check_until(op: ScanOp) -> None:
    """Raise `FuelPassError` if masks cannot stand for the early end of a scan."""
    end = op.end
    if end.until is None:
        return
    for value in (*end.carries, *end.ys):
        dtype = dtypes.of_type(tensor_type(value))
        if dtype.name not in dtypes.ORDERED:
            fail(
                op,
                f"fuel-unroll-scan: a scan with until is unrolled by selecting carries and ys, but "
                f"{dtype} cannot be selected; it is possible for {', '.join(dtypes.ORDERED)}",
            )
    for inner in op.body.walk():
        if checks_indices(inner):
            name = inner.name.removeprefix("fuel.")
            fail(
                op,
                f"fuel-unroll-scan: a scan with until whose body holds {name} cannot "
                "be unrolled: steps after the end would use indices too, maybe out of range",
            )


class UnrollScan(RewritePattern):
    """A scan out of `chosen` becomes one copy of its body for each step."""

    def __init__(self, chosen: set[ScanOp]):
        self.chosen = chosen

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, ScanOp) and op in self.chosen:
            rewriter.replace(op, [], _Unrolling(op, rewriter).results())


class _Unrolling:
    """Builds the steps of one scan at the builder's point."""

    def __init__(self, scan: ScanOp, builder: Builder):
        self.scan = scan
        self.builder = builder
        self.carries: list[SSAValue] = list(scan.inits)
        self.rows: list[list[SSAValue]] = [[] for _ in scan.end.ys]
        self.active: SSAValue | None = None
        """True if the step is done; None while it certainly is."""
        self.count: SSAValue | None = None

    def results(self) -> list[SSAValue]:
        scan = self.scan
        shared = dict(zip(scan.const_args, scan.consts, strict=True))
        shared |= self._leaves()
        order = range(scan.steps)
        for position in reversed(order) if scan.reverse is not None else order:
            self._step(dict(shared), position)
        if scan.reverse is not None:
            for rows in self.rows:
                rows.reverse()
        stacked = [self._stack(rows, y) for rows, y in zip(self.rows, scan.y_results, strict=True)]
        return [*self.carries, *stacked, *self._steps_done()]

    def _insert(self, op: Operation) -> SSAValue:
        return self._place(op).results[0]

    def _place(self, op: Operation) -> Operation:
        """Insert an op; one without a pin has the scan's."""
        pin = self.scan.placement
        if pin is not None:
            op.properties.setdefault("placement", pin)
        return self.builder.insert(op)

    def _leaves(self) -> dict[SSAValue, SSAValue]:
        """Leaves of the body, once for all steps."""
        if not self.scan.steps:
            return {}
        leaves = [op for op in self.scan.body.block.ops if op.has_trait(Leaf)]
        return {op.results[0]: self._insert(op.clone()) for op in leaves}

    def _step(self, values: dict[SSAValue, SSAValue], position: int) -> None:
        scan, end = self.scan, self.scan.end
        values |= zip(scan.carry_args, self.carries, strict=True)
        for argument, x in zip(scan.x_args, scan.xs, strict=True):
            values[argument] = self._row(x, position)
        for op in scan.body.block.ops:
            if op is not end and not op.has_trait(Leaf):
                self._place(op.clone(values))
        old = self.carries
        new = [values[value] for value in end.carries]
        self.carries = [self._select(n, o) for n, o in zip(new, old, strict=True)]
        for rows, y in zip(self.rows, end.ys, strict=True):
            rows.append(self._unsqueeze(self._select(values[y], None)))
        if end.until is not None:
            self._end_if(values[end.until])

    def _row(self, x: SSAValue, position: int) -> SSAValue:
        row = SliceOp.make(x, dim=integer(0), start=integer(position), length=integer(1))
        return self._insert(SqueezeOp.make(self._insert(row), dim=integer(0)))

    def _unsqueeze(self, y: SSAValue) -> SSAValue:
        return self._insert(UnsqueezeOp.make(y, dim=integer(0)))

    def _stack(self, rows: Sequence[SSAValue], result: SSAValue) -> SSAValue:
        if not rows:
            return self._insert(ConstOp.splat_of(0, tensor_type(result)))
        if len(rows) == 1:
            return rows[0]
        return self._insert(ConcatOp.make(*rows, dim=integer(0)))

    # Early end.

    def _select(self, new: SSAValue, old: SSAValue | None) -> SSAValue:
        """`new` if the step is done, else `old`, or zero where that is None."""
        if self.active is None or new is old:
            return new
        type = tensor_type(new)
        if old is None:
            old = self._insert(ConstOp.splat_of(0, type))
        mask = self.active
        if type.get_shape():
            mask = self._insert(BroadcastToOp.make(mask, declared=[same_shape(type, "i1")]))
        return self._insert(WhereOp.make(mask, new, old))

    def _end_if(self, until: SSAValue) -> None:
        """Count the step, and let the next one be done only if `until` is false."""
        scalar = tensor((), "i1")
        one = ConstOp.splat_of(1, tensor((), "ui32"))
        if self.count is None or self.active is None:
            self.count = self._insert(one)
        else:
            done = self._insert(CastOp.make(self.active, declared=[tensor((), "ui32")]))
            self.count = self._insert(AddOp.make(self.count, done))
        if until.type != scalar:
            until = self._insert(ReshapeOp.make(until, declared=[scalar]))
        goes_on = self._insert(EqOp.make(until, self._insert(ConstOp.splat_of(0, scalar))))
        if self.active is not None:
            goes_on = self._insert(MinimumOp.make(self.active, goes_on))
        self.active = goes_on

    def _steps_done(self) -> list[SSAValue]:
        if self.scan.end.until is None:
            return []
        none = ConstOp.splat_of(0, tensor((), "ui32"))
        return [self._insert(none) if self.count is None else self.count]
