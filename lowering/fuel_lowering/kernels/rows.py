# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forms of kernels that reduce rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np
from xdsl.ir import Operation, SSAValue

from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.ops import reduction
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import AlongAxesOp, FreeWhenContiguous, ViewOp
from fuel_lowering.kernels.form import Form, arguments, fill, yielded
from fuel_lowering.kernels.indexing import select_axes

Combine = Literal["sum", "mean", "max", "min", "argmax", "argmin"]

COMBINES: dict[type[Operation], Combine] = {
    reduction.SumAllOp: "sum",
    reduction.SumDimOp: "sum",
    reduction.ReduceSumToOp: "sum",
    reduction.MeanAllOp: "mean",
    reduction.MeanDimOp: "mean",
    reduction.MaxAllOp: "max",
    reduction.MaxDimOp: "max",
    reduction.ReduceMaxToOp: "max",
    reduction.MinAllOp: "min",
    reduction.MinDimOp: "min",
    reduction.ArgmaxDimOp: "argmax",
    reduction.ArgminDimOp: "argmin",
}
"""Maps each reduction to its combination. NaN wins max and min; the first of ties, or first NaN,
is the argument of them."""


def is_argument(combine: Combine) -> bool:
    return combine in ("argmax", "argmin")


def identity(combine: Combine, dtype: DType) -> np.ndarray[Any, Any]:
    """Returns the value that changes no other by combination, as a rank-0 array."""
    if combine in ("sum", "mean"):
        return np.zeros((), dtype.numpy)
    lowest = combine in ("max", "argmax")
    if dtype.is_float:
        return np.array(-np.inf if lowest else np.inf, dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return np.array(limits.min if lowest else limits.max, dtype.numpy)


@dataclass(frozen=True)
class Reduction:
    """A reduction of a row: what it combines, and the value that has its result."""

    combine: Combine
    source: SSAValue
    result: SSAValue

    @property
    def is_argument(self) -> bool:
        """Returns True if the result is the place of the greatest or least element."""
        return is_argument(self.combine)


@dataclass(frozen=True)
class Phase:
    """
    One pass over the elements of a row, and what follows for the whole row.

    `full` are the elementwise ops that the pass needs, those of earlier passes repeated; then come
    `reductions` of full values, and `row` ops on statistics that are known after them.
    `full_stores` are the results, by number, that are written element by element in the pass (their
    value may be a statistic), `row_stores` those written once for the row after it.
    """

    full: tuple[Operation, ...]
    reductions: tuple[Reduction, ...]
    row: tuple[Operation, ...]
    full_stores: tuple[int, ...]
    row_stores: tuple[int, ...]


@dataclass(eq=False)
class RowForm(Form):
    """
    Rows of `shape` along `axes`: the other axes count rows, in row-major order.

    `statistics` are values with one element for each row, in the order of rows whatever their
    shape: computed ones, loads of as many elements, and broadcasts along rows of either, for which
    `alias` names what is repeated. A load that is a statistic is read by row alone. `prologue` are
    ops on such loads, which come before the first pass.
    """

    shape: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    statistics: set[SSAValue] = field(default_factory=set[SSAValue])
    alias: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    prologue: list[Operation] = field(default_factory=list[Operation])
    phases: list[Phase] = field(default_factory=list[Phase])

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that count rows."""
        return tuple(a for a in range(len(self.shape)) if a not in self.axes)

    @property
    def rows(self) -> int:
        return prod(self.shape[a] for a in self.kept)

    @property
    def columns(self) -> int:
        """The elements of a row."""
        return prod(self.shape[a] for a in self.axes)

    def source(self, value: SSAValue) -> SSAValue:
        """Returns the value that another repeats along rows, or that value itself."""
        while value in self.alias:
            value = self.alias[value]
        return value

    def split(self, layout: Layout) -> tuple[Layout, Layout]:
        """A layout over `shape` as one over rows, with its offset, and one over a row."""
        inner = select_axes(layout, self.axes)
        return select_axes(layout, self.kept), Layout(inner.shape, inner.strides)


def row_form(kernel: KernelOp, name: str) -> RowForm:
    block = kernel.body.block
    form = RowForm(name, arguments(kernel), yielded(block))
    fill(form, block)
    along = [op for op in form.ops if isinstance(op, AlongAxesOp)]
    rows = {_rows_of(op) for op in along}
    if len(rows) != 1:
        raise LoweringError(f"{name}: reductions of one kernel are along the same rows: {rows}")
    form.shape, form.axes = rows.pop()
    _RowAnalysis(form).run()
    return form


def _rows_of(op: AlongAxesOp) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape that a reduction goes over, and its axes with all those of one element."""
    shape = tuple(tensor_type(op.operands[0]).get_shape())
    return shape, tuple(a for a, extent in enumerate(shape) if extent == 1 or a in op.axes())


class _RowAnalysis:
    """Sorts the ops of a row kernel by the pass over the row after which they are known."""

    def __init__(self, form: RowForm):
        self.form = form
        self.level: dict[SSAValue, int] = {}
        self.full: dict[SSAValue, Operation] = {}
        self.row: list[tuple[int, Operation]] = []
        self.reductions: list[tuple[int, Reduction]] = []

    def run(self) -> None:
        form = self.form
        for op in form.ops:
            self._visit(op)
        for value in form.results:
            self._note_load(value)
        levels = [level for level, _ in self.reductions]
        levels += [self.level.get(v, 0) for v in form.results if self._is_full(v)]
        last = max(levels, default=0)
        form.prologue = [op for level, op in self.row if level == 0]
        form.phases = [self._phase(level, level == last) for level in range(last + 1)]

    def _is_full(self, value: SSAValue) -> bool:
        return tuple(tensor_type(value).get_shape()) == self.form.shape

    def _visit(self, op: Operation) -> None:
        form, result = self.form, op.results[0]
        for operand in op.operands:
            self._note_load(operand)
        level = max((self.level.get(v, 0) for v in op.operands), default=0)
        if isinstance(op, AlongAxesOp):
            self.reductions.append((level, Reduction(COMBINES[type(op)], op.operands[0], result)))
            form.statistics.add(result)
            self.level[result] = level + 1
        elif isinstance(op, ViewOp) or op.has_trait(FreeWhenContiguous):
            self._alias(op)
        elif self._is_row(op):
            form.statistics.add(result)
            self.row.append((level, op))
        else:
            self.full[result] = op
        self.level.setdefault(result, level)

    def _alias(self, view: Operation) -> None:
        form = self.form
        source, result = view.operands[0], view.results[0]
        if source not in form.statistics:
            raise LoweringError(f"{form.name}: {view.name} of what is no statistic is no row op")
        form.alias[result] = source
        form.statistics.add(result)

    def _is_row(self, op: Operation) -> bool:
        """Returns True if an elementwise op reads statistics alone."""
        if not self._is_full(op.results[0]):
            return True
        values = [v for v in op.operands if v not in self.form.splats]
        return bool(values) and all(v in self.form.statistics for v in values)

    def _note_load(self, value: SSAValue) -> None:
        """A load that has not the kernel's shape has one element for each row."""
        form = self.form
        shape = tuple(tensor_type(value).get_shape())
        if value in form.loads and shape != form.shape:
            if prod(shape) != form.rows:
                raise LoweringError(
                    f"{form.name}: rows of {list(form.shape)} along {list(form.axes)} cannot be "
                    f"read together with {list(shape)}"
                )
            form.statistics.add(value)

    def _phase(self, level: int, is_last: bool) -> Phase:
        results = list(enumerate(self.form.results))
        reductions = tuple(r for at, r in self.reductions if at == level)
        stores = tuple(i for i, v in results if is_last and self._is_full(v))
        wanted = [r.source for r in reductions] + [self.form.results[i] for i in stores]
        return Phase(
            self._closure(wanted),
            reductions,
            tuple(op for at, op in self.row if at == level + 1),
            stores,
            tuple(i for i, v in results if not self._is_full(v) and self._known_after(v) == level),
        )

    def _known_after(self, value: SSAValue) -> int:
        """The pass after which a statistic is known."""
        return max(self.level.get(value, 0) - 1, 0)

    def _closure(self, wanted: Sequence[SSAValue]) -> tuple[Operation, ...]:
        """The full ops that some values depend on, in order."""
        needed: set[SSAValue] = set()
        pending = list(wanted)
        while pending:
            value = pending.pop()
            if value in self.full and value not in needed:
                needed.add(value)
                pending += self.full[value].operands
        return tuple(op for result, op in self.full.items() if result in needed)
