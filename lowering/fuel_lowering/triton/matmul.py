# SPDX-License-Identifier: MIT OR Apache-2.0
"""Products: one tile of the result a program, then what is elementwise on it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from xdsl.ir import SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.layout import Layout
from fuel_lowering.kernels.form import Load
from fuel_lowering.kernels.indexing import needs_64_bits, select_axes
from fuel_lowering.kernels.matmul import MatmulForm
from fuel_lowering.kernels.matmul_schedule import (
    MatmulSchedule,
    Tile,
    choose_tile,
    schedule_matmul,
    shrink_tile,
)
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.scalars.values import REGISTERS, Value
from fuel_lowering.triton.language import TYPES, loaded
from fuel_lowering.triton.writer import (
    Access,
    Axis,
    KernelWriter,
    conjunction,
    power_of_two,
    sum_of,
)

Kind = Literal["half", "tf32", "ieee", "double", "integer"]


@dataclass(frozen=True)
class WarpTile(Tile):
    """A tile that a number of warps computes, its loads so many stages ahead."""

    warps: int
    stages: int


TILES: dict[Kind, tuple[WarpTile, ...]] = {
    "half": (
        WarpTile(128, 256, 64, 8, 3),
        WarpTile(128, 128, 64, 8, 3),
        WarpTile(64, 64, 64, 4, 4),
        WarpTile(32, 32, 64, 4, 4),
    ),
    "tf32": (WarpTile(128, 128, 32, 8, 3), WarpTile(64, 64, 32, 4, 4), WarpTile(32, 32, 32, 4, 4)),
    "ieee": (WarpTile(64, 64, 32, 4, 3), WarpTile(32, 32, 32, 4, 3)),
    "double": (WarpTile(64, 64, 16, 4, 3), WarpTile(32, 32, 16, 4, 3)),
    "integer": (WarpTile(16, 32, 8, 4, 2),),
}
"""By kind, from large to small: the first that makes enough programs is taken, else the last."""

LEAST = 16
"""The shortest side of a tile that `tl.dot` takes."""

ENOUGH_PROGRAMS = 128
GROUP = 8
"""Tiles in one column that run together, since they read the same columns of the right operand."""


def kind_of(form: MatmulForm) -> Kind:
    """Returns the arithmetic of a product. Factors of f32 and bf16 meet as f32."""
    accumulator = form.accumulator
    if accumulator.is_integer:
        return "integer"
    if accumulator.name == "f64":
        return "double"
    assert form.lhs is not None
    if _dtype(form, form.lhs).bits == 16:
        return "half"
    return "tf32" if form.allow_tf32 else "ieee"


def schedule(form: MatmulForm, kind: Kind) -> MatmulSchedule[WarpTile]:
    """Returns the tiles of a product, no larger than its shape asks for."""
    tile = choose_tile(form, TILES[kind], ENOUGH_PROGRAMS)
    least = LEAST if kind != "integer" else 1
    return schedule_matmul(form, shrink_tile(form, tile, lambda n: max(power_of_two(n), least)))


def emit_matmul(form: MatmulForm) -> Emitted:
    """Returns one kernel and one launch; none where the result has no element."""
    if not prod(form.batch) * form.m * form.n:
        return Emitted((), ())
    kind = kind_of(form)
    tiles = schedule(form, kind)
    kernel, slots = MatmulWriter(form, kind, tiles).write()
    return Emitted((kernel,), (EmittedLaunch(0, slots, (), (tiles.programs, 1, 1)),))


class MatmulWriter(KernelWriter):
    """Writes the kernel of a `MatmulForm`."""

    def __init__(self, form: MatmulForm, kind: Kind, tiles: MatmulSchedule[WarpTile]):
        assert form.lhs is not None
        assert form.rhs is not None
        layouts = [form.lhs.layout, form.rhs.layout]
        layouts += [load.layout for load in form.loads.values()]
        tile = tiles.tile
        points = tiles.batch * (form.m + tile.m) * (form.n + tile.n)
        super().__init__(form, wide=needs_64_bits(points, layouts))
        self.product_form = form
        self.lhs, self.rhs = form.lhs, form.rhs
        self.kind: Kind = kind
        self.tiles, self.tile = tiles, tile
        self.code.used |= {"b", "m", "n", "k", "tile_m", "tile_n", "acc", "start", "lhs", "rhs"}
        self.m = self.n = Axis("")

    def write(self) -> tuple[DeviceKernel, tuple[int, ...]]:
        form, tile = self.product_form, self.tile
        self._programs()
        self.m = self._index("m", form.m, tile.m, "[:, None]")
        self.n = self._index("n", form.n, tile.n, "[None, :]")
        register = REGISTERS[form.accumulator.name]
        self.line(f"acc = tl.zeros(({tile.m}, {tile.n}), {TYPES[register]})")
        if form.k:
            self._steps()
        assert form.product is not None
        product = Value("acc", form.dtype(form.product))
        self.code.hint = form.product.name_hint or "product"
        self.values[form.product] = self.code.round_to_dtype(product)
        self.evaluate(form.ops)
        for number, value in enumerate(form.results):
            at = self._over_result(Layout.contiguous(form.shape), whole=True)
            self.store(self.result_slot(number), at, self.value(value))
        return self.finish((("num_warps", tile.warps), ("num_stages", tile.stages)))

    # Indices.

    def _programs(self) -> None:
        """The tile of the program; those that run together share columns and rows."""
        batch, down, across = self.tiles.counts
        if self.tiles.programs == 1:
            return
        pid = self.let("pid", self.program(0))
        if batch > 1:
            self.line(f"b = {pid} // {down * across}")
        if down * across == 1:
            return
        if batch > 1:
            self.line(f"{pid} = {pid} % {down * across}")
        if down == 1 or across == 1:
            self.line(f"{'tile_m' if across == 1 else 'tile_n'} = {pid}")
            return
        rows = min(GROUP, down)
        group = rows * across
        first = self.let("first", f"{pid} // {group} * {rows}")
        height = str(rows)
        if down % rows:
            height = self.let("height", f"tl.minimum({down} - {first}, {rows})")
        self.line(f"tile_m = {first} + {pid} % {group} % {height}")
        self.line(f"tile_n = {pid} % {group} // {height}")

    def _index(self, name: str, extent: int, side: int, expand: str) -> Axis:
        """The rows or columns of the program's tile."""
        inside = f"tl.arange(0, {side}){expand}" + (".to(tl.int64)" if self.wide else "")
        self.line(
            f"{name} = {inside}" if extent <= side else f"{name} = tile_{name} * {side} + {inside}"
        )
        mask = "" if extent % side == 0 else self.let(f"in_{name}", f"{name} < {extent}")
        return Axis(name, mask)

    def _over_result(self, layout: Layout, whole: bool = False) -> Access:
        """Returns the offsets of a layout over the shape of the result."""
        rank = len(layout.shape)
        axes = [
            (self.m, select_axes(layout, [rank - 2])),
            (self.n, select_axes(layout, [rank - 1])),
        ]
        if prod(layout.shape[:-2]) > 1:
            axes.insert(0, (Axis("b"), select_axes(layout, range(rank - 2))))
        return self.place(axes, layout.offset, whole)

    def where(self, value: SSAValue) -> Access:
        return self._over_result(self.form.loads[value].layout)

    # The product.

    def _steps(self) -> None:
        """The loop along k."""
        form, tile = self.product_form, self.tile
        lhs_at = self._beside(self.lhs, self.m, 0)
        rhs_at = self._beside(self.rhs, self.n, 1)
        with self.block(f"for start in range(0, {form.k}, {tile.k}):"):
            is_ragged = form.k % tile.k != 0
            index = f"tl.arange(0, {tile.k})" + (".to(tl.int64)" if self.wide else "")
            self.line(f"k = start + {index}")
            across = Axis("k[None, :]", f"(k[None, :] < {form.k})" if is_ragged else "")
            down = Axis("k[:, None]", f"(k[:, None] < {form.k})" if is_ragged else "")
            lhs = self._factor("lhs", self.lhs, lhs_at, across, (tile.m, tile.k))
            rhs = self._factor("rhs", self.rhs, rhs_at, down, (tile.k, tile.n))
            self.line(f"acc = {self._multiplied(lhs, rhs)}")

    def _beside(self, load: Load, axis: Axis, position: int) -> Access:
        """Returns the offsets of a factor, as far as they do not depend on k."""
        layout = load.layout
        rank = len(layout.shape)
        own = rank - 2 + position
        axes = [(axis, select_axes(layout, [own]))]
        if prod(layout.shape[:-2]) > 1:
            axes.insert(0, (Axis("b"), select_axes(layout, range(rank - 2))))
        access = self.place(axes, layout.offset)
        name = "lhs_at" if position == 0 else "rhs_at"
        return Access(self.let(name, access.offset), access.mask)

    def _factor(
        self, name: str, load: Load, beside: Access, k: Axis, shape: tuple[int, int]
    ) -> str:
        """A tile of a factor, 0 beyond k; in the element type that the product takes."""
        is_lhs = name == "lhs"
        along = select_axes(load.layout, [len(load.layout.shape) - (1 if is_lhs else 2)])
        inner = self.place([(k, along)])
        steps_k = inner.offset != "0"
        offset = f"{beside.offset} + {inner.offset}" if steps_k else beside.offset
        mask = conjunction([beside.mask, inner.mask])
        slot = self.parameter(load.argument)
        extra = f", {mask}, other=0" if mask else ""
        text = f"tl.load({sum_of(slot, offset)}{extra})"
        dtype = _dtype(self.product_form, load)
        is_native = self.kind == "half"
        text = text if is_native else loaded(text, dtype)
        if not self._fills(load, shape):
            text = f"tl.broadcast_to({text}, {shape})"
        if k.mask and not steps_k:
            text = f"tl.where({k.mask}, {text}, 0)"
        self.line(f"{name} = {text}")
        return name

    def _fills(self, load: Load, shape: tuple[int, int]) -> bool:
        """
        Returns True if what is loaded has the shape of the tile: a block, and no axis repeats.

        Where the load steps along neither axis it is a scalar, even for a tile of one element.
        """
        layout = load.layout
        axes = zip(layout.strides[-2:], layout.shape[-2:], strict=True)
        steps = [bool(stride) and extent > 1 for stride, extent in axes]
        return any(steps) and all(s or side == 1 for s, side in zip(steps, shape, strict=True))

    def _multiplied(self, lhs: str, rhs: str) -> str:
        if self.kind == "integer":
            return f"acc + tl.sum({lhs}[:, :, None] * {rhs}[None, :, :], 1)"
        if self.kind == "double":
            return f"tl.dot({lhs}, {rhs}, acc, out_dtype=tl.float64)"
        precision = "" if self.kind == "half" else f', input_precision="{self.kind}"'
        return f"tl.dot({lhs}, {rhs}, acc{precision})"


def _dtype(form: MatmulForm, load: Load) -> DType:
    return dtypes.of_type(form.arguments[load.argument])
