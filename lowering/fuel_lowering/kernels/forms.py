# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What a kernel is, for the targets that write a loop nest or a shader for it.

A form holds the iteration space of a kernel, where each operand lies over it, and the ops to be
evaluated at a point. The form says nothing about a target, and every target that generates scalar
code starts from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.errors import LoweringError
from fuel_dialect.layout import Layout
from fuel_dialect.ops import reduction
from fuel_dialect.ops.base import AnyTensor, ConstOp, tensor, tensor_type
from fuel_dialect.ops.control import KernelOp, ScanOp
from fuel_dialect.ops.elementwise import CastOp, MulOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.ops.memory import WriteOp
from fuel_dialect.ops.shape import BroadcastToOp, TransposeOp, int_tuple
from fuel_dialect.reference.precision import scalar
from fuel_dialect.traits import (
    AlongAxesOp,
    ChecksIndices,
    DecomposableOp,
    Elementwise,
    FreeWhenContiguous,
    Leaf,
    Movement,
    RowWise,
    ViewOp,
)
from fuel_lowering.kernels.indexing import repeat_axis, select_axes, split_axis

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
"""How each reduction combines elements. NaN wins max and min; the first of ties, or the first NaN,
is the argument of them."""


def is_argument(combine: Combine) -> bool:
    return combine in ("argmax", "argmin")


def identity(combine: Combine, dtype: DType) -> np.ndarray[Any, Any]:
    """What changes no value that it is combined with, as a rank-0 array."""
    if combine in ("sum", "mean"):
        return np.zeros((), dtype.numpy)
    lowest = combine in ("max", "argmax")
    if dtype.is_float:
        return np.array(-np.inf if lowest else np.inf, dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return np.array(limits.min if lowest else limits.max, dtype.numpy)


@dataclass(frozen=True)
class Load:
    """An operand read where it lies: an argument of the kernel, and a layout over its buffer."""

    argument: int
    layout: Layout


@dataclass(frozen=True)
class Reduction:
    """A reduction of a row: what it combines, and the value that has its result."""

    combine: Combine
    source: SSAValue
    result: SSAValue

    @property
    def is_argument(self) -> bool:
        """Whether the result is where the greatest or least element is."""
        return is_argument(self.combine)


@dataclass(eq=False)
class Form:
    """
    What all kernels have.

    `loads` are the values that are (views of) arguments, over their own shape; `splats` are
    constants. `ops` are what remains, in order. `results` are what the kernel yields, and may be
    any of these. `moves` are arguments and results (numbered after the arguments) that lie at
    another place in each launch. `unaligned` among them do not stay on a multiple of 16 bytes.
    """

    name: str
    arguments: tuple[AnyTensor, ...]
    results: tuple[SSAValue, ...]
    loads: dict[SSAValue, Load] = field(default_factory=dict[SSAValue, Load])
    splats: dict[SSAValue, np.ndarray[Any, Any]] = field(
        default_factory=dict[SSAValue, np.ndarray[Any, Any]]
    )
    ops: list[Operation] = field(default_factory=list[Operation])
    moves: frozenset[int] = frozenset()
    unaligned: frozenset[int] = frozenset()

    @property
    def checks(self) -> list[Operation]:
        """The ops whose indices have to be checked, in order."""
        return [op for op in self.ops if op.has_trait(ChecksIndices)]

    def dtype(self, value: SSAValue) -> DType:
        return dtypes.of_type(tensor_type(value))


@dataclass(eq=False)
class MapForm(Form):
    """
    One point for each element of `shape`: pointwise kernels, and movement.

    Ops are elementwise, or one of movement: a concat, an indexing op or a write into a part, all of
    whose operands are loads.
    """

    shape: tuple[int, ...] = ()


@dataclass(eq=False)
class PatchForm(MapForm):
    """
    A write into memory that the result takes over: one point for each element of the source.

    `target` says where these lie in the result. Along the axis of a `WriteAtOp` they lie so many
    places further as its position says.
    """

    write: WriteOp | None = None
    target: Layout = field(default_factory=lambda: Layout.contiguous(()))


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
        """What a value repeats along rows, or the value itself."""
        while value in self.alias:
            value = self.alias[value]
        return value

    def split(self, layout: Layout) -> tuple[Layout, Layout]:
        """A layout over `shape` as one over rows, with its offset, and one over a row."""
        inner = select_axes(layout, self.axes)
        return select_axes(layout, self.kept), Layout(inner.shape, inner.strides)


@dataclass(eq=False)
class MatmulForm(Form):
    """
    A product of `batch` matrices, [m, k] times [k, n], then elementwise ops on it.

    `batch` are the extents of the batch axes; `lhs` and `rhs` lie over (*batch, m, k) and
    (*batch, k, n). `ops` are over `shape`, which has as many elements as (*batch, m, n), in the
    same order. The product accumulates in `accumulator`; of f32, its factors may be rounded if
    `allow_tf32`.
    """

    shape: tuple[int, ...] = ()
    product: SSAValue | None = None
    batch: tuple[int, ...] = ()
    m: int = 0
    n: int = 0
    k: int = 0
    lhs: Load | None = None
    rhs: Load | None = None
    allow_tf32: bool = False

    @property
    def accumulator(self) -> DType:
        """The element type of sums: f32 for bf16 and f16, else that of the product."""
        assert self.product is not None
        dtype = self.dtype(self.product)
        return dtypes.BY_NAME["f32"] if dtype.is_float and dtype.bits < 32 else dtype


@dataclass(eq=False)
class ScanForm(Form):
    """
    A loop over steps at each point of `shape`; nothing passes between points.

    `carries` are values of the body whose initial value is a load or a splat, over `shape`; each
    step replaces them by `next_carries`. Loads in `x_steps` are of step 0, and lie that many
    elements on at each step; other loads stay. `ops` are the body, `ys` what it gives at each step.
    `sources` says, for each result of the kernel, which final carry it is or which ys, stacked:
    element i of step t at t * prod(shape) + i. With `reverse` steps count from `length` - 1 down.
    """

    shape: tuple[int, ...] = ()
    length: int = 0
    reverse: bool = False
    carries: list[SSAValue] = field(default_factory=list[SSAValue])
    next_carries: list[SSAValue] = field(default_factory=list[SSAValue])
    ys: list[SSAValue] = field(default_factory=list[SSAValue])
    x_steps: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    sources: tuple[tuple[Literal["carry", "y"], int], ...] = ()


def form_of(kernel: KernelOp, name: str, sums_vectors: bool = False) -> Form:
    """
    The form of a kernel. The kernel is changed: ops of rows become their definitions and, with
    `sums_vectors`, products of one row become sums.

    Raises `LoweringError` for a kernel that has none: of kind `library`, or a scan whose body is
    not elementwise over one shape (`ScanOp.is_pointwise`).
    """
    block = kernel.body.block
    kind = kernel.kind.data
    if kind == "scan":
        return _scan_form(kernel, name)
    expand_rows(block)
    if sums_vectors:
        expand_vectors(block)
    if any(isinstance(op, MatmulOp) for op in block.ops):
        return _matmul_form(kernel, name)
    if any(isinstance(op, AlongAxesOp) for op in block.ops):
        return _row_form(kernel, name)
    return _map_form(kernel, name)


def expand_rows(block: Block) -> None:
    """Ops of rows (softmax, norms) as reductions and elementwise ops: what defines them."""
    for op in list(block.ops):
        if op.has_trait(RowWise) and isinstance(op, DecomposableOp):
            values = op.decompose(Builder(InsertPoint.before(op)))
            for result, value in zip(op.results, values, strict=True):
                result.replace_all_uses_with(value)
            op.detach()
            op.erase()


def expand_vectors(block: Block) -> None:
    """
    Products of one row with a matrix, of f32 or f64, as the sums that they are: of the columns of
    the matrix, each of whose rows is multiplied by one element. Nothing is read twice then, and a
    tile of a product would be idle but for one row.
    """
    for op in list(block.ops):
        if isinstance(op, MatmulOp) and _is_vector(op):
            total = _sum_of(op, Builder(InsertPoint.before(op)))
            total.name_hint = op.result.name_hint
            op.result.replace_all_uses_with(total)
            op.detach()
            op.erase()


def _is_vector(op: MatmulOp) -> bool:
    dtype = dtypes.of_type(tensor_type(op.result))
    lhs, rhs = (tensor_type(v).get_shape() for v in op.operands)
    has_row = lhs[-2] == 1 and rhs[-1] > 1 and rhs[-2] > 1 and lhs[:-2] == rhs[:-2]
    return has_row and dtype.is_float and dtype.bits >= 32


def _sum_of(op: MatmulOp, builder: Builder) -> SSAValue:
    type = tensor_type(op.result)
    full = tensor(tensor_type(op.rhs).get_shape(), type.element_type)
    column = builder.insert(TransposeOp.make(op.lhs)).result
    wide = builder.insert(BroadcastToOp.make(column, declared=[full])).result
    matrix = op.rhs
    if matrix.type != full:
        matrix = builder.insert(CastOp.make(matrix, declared=[full])).result
    product = builder.insert(MulOp.make(wide, matrix)).results[0]
    return builder.insert(reduction.ReduceSumToOp.make(product, declared=[type])).results[0]


# Values that take no work.


def _fill(form: Form, block: Block) -> None:
    """Sort the ops of a block: loads, splats and the rest."""
    for number, argument in enumerate(block.args):
        shape = tuple(tensor_type(argument).get_shape())
        form.loads[argument] = Load(number, Layout.contiguous(shape))
    for op in block.ops:
        if op is not block.last_op:
            _take(form, op)


def _take(form: Form, op: Operation) -> None:
    if op.has_trait(Leaf):
        form.splats[op.results[0]] = _splat(op)
    elif isinstance(op, ViewOp) or op.has_trait(FreeWhenContiguous):
        _view(form, op)
    else:
        form.ops.append(op)


def _splat(op: Operation) -> np.ndarray[Any, Any]:
    if not isinstance(op, ConstOp) or op.splat is None:
        raise LoweringError(f"{op.name}: a kernel of this target holds constants of one value only")
    return np.asarray(scalar(op.splat, dtypes.of_type(op.type).numpy))


def _view(form: Form, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    if source in form.splats:
        form.splats[result] = form.splats[source]
        return
    load = form.loads.get(source)
    if load is None:
        form.ops.append(op)
        return
    if isinstance(op, ViewOp):
        layout = op.derive_layout(load.layout)
    elif load.layout.is_contiguous:
        shape = tuple(tensor_type(result).get_shape())
        layout = Layout.contiguous(shape, load.layout.offset)
    else:
        form.ops.append(op)
        return
    form.loads[result] = Load(load.argument, layout)


def _arguments(kernel: KernelOp) -> tuple[AnyTensor, ...]:
    return tuple(tensor_type(a) for a in kernel.body.block.args)


def _yielded(block: Block) -> tuple[SSAValue, ...]:
    assert block.last_op is not None
    return tuple(block.last_op.operands)


# Pointwise and movement.


def _map_form(kernel: KernelOp, name: str) -> MapForm:
    block = kernel.body.block
    form = MapForm(name, _arguments(kernel), _yielded(block))
    _fill(form, block)
    _unfold_reshapes(form)
    shapes = {tuple(tensor_type(v).get_shape()) for v in _map_values(form)}
    if len(shapes) > 1:
        raise LoweringError(f"{name}: a kernel that iterates over {sorted(shapes)} has no form")
    form.shape = shapes.pop()
    for op in form.ops:
        if not op.has_trait(Elementwise) and not op.has_trait(Movement):
            raise LoweringError(f"{op.name}: no target writes a loop over elements for it")
    return form


def patch_form(kernel: KernelOp, name: str) -> PatchForm | None:
    """
    The form of a kernel that is nothing but a write, for a result that lies where the destination
    lay. None where another form has to do: a source without elements leaves only an index to check.
    """
    block = kernel.body.block
    form = PatchForm(name, _arguments(kernel), _yielded(block))
    _fill(form, block)
    write = form.ops[0] if len(form.ops) == 1 else None
    if not isinstance(write, WriteOp) or form.results != (write.result,):
        return None
    if not isinstance(write.input, BlockArgument):
        return None
    form.write, form.shape = write, tuple(tensor_type(write.source).get_shape())
    steps = Layout.contiguous(tensor_type(write.input).get_shape()).strides
    starts = zip(int_tuple(write.starts), steps, strict=True)
    form.target = Layout(form.shape, steps, sum(start * step for start, step in starts))
    return form if prod(form.shape) else None


def _map_values(form: MapForm) -> list[SSAValue]:
    return [*(op.results[0] for op in form.ops), *form.results]


def _unfold_reshapes(form: MapForm) -> None:
    """
    A reshape of a strided operand, written out by a kernel of its own: iterate over the operand.

    The elements have the same order in both, so the result is the operand's elements as they come.
    """
    (op, *rest) = form.ops or [None]
    if op is None or not op.has_trait(FreeWhenContiguous) or rest:
        return
    form.ops.clear()
    form.results = tuple(op.operands[0] if v is op.results[0] else v for v in form.results)


# Rows.


def _row_form(kernel: KernelOp, name: str) -> RowForm:
    block = kernel.body.block
    form = RowForm(name, _arguments(kernel), _yielded(block))
    _fill(form, block)
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
        """Whether an elementwise op is on statistics alone."""
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


# Products.


def _matmul_form(kernel: KernelOp, name: str) -> MatmulForm:
    block = kernel.body.block
    form = MatmulForm(name, _arguments(kernel), _yielded(block))
    _fill(form, block)
    (product,) = (op for op in form.ops if isinstance(op, MatmulOp))
    form.ops.remove(product)
    form.product = product.result
    form.allow_tf32 = product.allow_tf32 is not None
    form.shape = tuple(tensor_type(product.result).get_shape())
    lhs, rhs = (form.loads[v] for v in (product.lhs, product.rhs))
    form.lhs, form.rhs, form.batch = _batched(lhs, rhs)
    *_, form.m, form.k = lhs.layout.shape
    form.n = rhs.layout.shape[-1]
    return form


def _batched(lhs: Load, rhs: Load) -> tuple[Load, Load, tuple[int, ...]]:
    """
    Both operands over the same batch axes.

    Entry h of a batch axis of the left operand meets entry h // (a / b) of the right one: where
    they differ, the axis is two.
    """
    a, b = lhs.layout, rhs.layout
    axis = 0
    while axis < len(a.shape) - 2:
        have, meets = a.shape[axis], b.shape[axis]
        if have != meets:
            a = split_axis(a, axis, have // meets)
            b = repeat_axis(b, axis, have // meets)
            axis += 1
        axis += 1
    return Load(lhs.argument, a), Load(rhs.argument, b), a.shape[:-2]


# Scans.


def _scan_form(kernel: KernelOp, name: str) -> ScanForm:
    block = kernel.body.block
    (scan,) = (op for op in block.ops if isinstance(op, ScanOp))
    if not scan.is_pointwise:
        raise LoweringError(
            f"{name}: a scan is one kernel if its body is elementwise over the shape of its carries"
        )
    outer = Form(name, _arguments(kernel), _yielded(block))
    _fill(outer, block)
    form = ScanForm(name, outer.arguments, outer.results)
    form.shape = tuple(tensor_type(scan.inits[0]).get_shape())
    form.length, form.reverse = scan.steps, scan.reverse is not None
    form.carries = list(scan.carry_args)
    for argument, value in zip(scan.body.block.args, scan.operands, strict=True):
        _pass_in(outer, form, argument, value)
    for op in scan.body.block.ops:
        if op is not scan.end:
            _take(form, op)
    _step_views(form)
    form.next_carries, form.ys = list(scan.end.carries), list(scan.end.ys)
    form.sources = tuple(_source(scan, value) for value in form.results)
    return form


def _source(scan: ScanOp, value: SSAValue) -> tuple[Literal["carry", "y"], int]:
    number = next(i for i, output in enumerate(scan.outputs) if output is value)
    carries = len(scan.inits)
    return ("carry", number) if number < carries else ("y", number - carries)


def _pass_in(outer: Form, form: ScanForm, argument: BlockArgument, value: SSAValue) -> None:
    """What the body knows of an operand of the scan; an x is one step less."""
    if value in outer.splats:
        form.splats[argument] = outer.splats[value]
        return
    load = outer.loads[value]
    if len(load.layout.shape) > len(tensor_type(argument).get_shape()):
        form.x_steps[argument] = load.layout.strides[0]
        load = Load(load.argument, select_axes(load.layout, range(1, len(load.layout.shape))))
    form.loads[argument] = load


def _step_views(form: ScanForm) -> None:
    """A view of an x moves with it."""
    for value in form.loads:
        source = value
        while isinstance(source.owner, Operation):
            source = source.owner.operands[0]
        if source in form.x_steps:
            form.x_steps[value] = form.x_steps[source]
