# SPDX-License-Identifier: MIT OR Apache-2.0
"""Matrix products for CPUs: an invocation reads what it multiplies straight from memory."""

from __future__ import annotations

from fuel_lowering.kernels.matmul import MatmulForm
from fuel_lowering.kernels.matmul_schedule import Tile, schedule_matmul
from fuel_lowering.kompute.matmul_shader import MatmulShader, Operand
from fuel_lowering.kompute.tuning import MOST_TRIPS
from fuel_lowering.kompute.writer import QUAD

LOCAL = 64
"""Invocations of a workgroup; each has a program of its own."""

ROWS, COLUMNS = 8, 16
"""The largest tile of an invocation."""


class RegisterMatmul(MatmulShader):
    """The shader of a product whose operands go from memory to registers."""

    local = (LOCAL, 1)

    def __init__(self, form: MatmulForm):
        tile = _tile(form)
        super().__init__(form, schedule_matmul(form, tile, MOST_TRIPS), (tile.m, tile.n))

    @property
    def tiles(self) -> tuple[int, int]:
        return self.schedule.down, self.schedule.across

    @property
    def groups(self) -> int:
        return -(-self.schedule.programs // LOCAL)

    def start(self) -> None:
        shader = self.shader
        tile = shader.index(shader.invocation(), "tile")
        shader.line(f"if ({tile} >= {self.schedule.programs}) return;")
        self.place_tile(tile, self.tile)

    def before_steps(self) -> None:
        pass

    def step(self, k: str, last: str) -> None:
        shader, names, depth = self.shader, self.names, self.schedule.tile.k
        self.read_left(k)
        self.read_columns(k)
        if depth > 1:
            self.unrolled(names["u"], depth)
        self.read_right(k)
        lane = f"[{names['u']}]" if depth > 1 else ""
        product = f"{names['left']}[{names['m']}]{lane} * {names['right']}[{names['n']}]"
        self.each_sum(f"{self.sum_at} += {product};")
        if depth > 1:
            shader.close()

    def _type(self, lanes: int) -> str:
        return self.vector if lanes > 1 else self.scalar

    def _clamped(self, text: str, extent: int, tile: int) -> str:
        return text if extent % tile == 0 else f"min({text}, {extent - 1})"

    def read_left(self, k: str) -> None:
        """For each row of the tile, what it has at the next values of k."""
        shader, names, side = self.shader, self.names, self.lhs
        m, left = names["m"], names["left"]
        shader.line(f"{self._type(self.schedule.tile.k)} {left}[{self.tile[0]}];")
        self.unrolled(m, self.tile[0])
        row = self._clamped(f"{self.row} + {m}", self.form.m, self.tile[0])
        self._read_along_k(side, f"{left}[{m}]", row, k)
        shader.close()

    def _read_along_k(self, side: Operand, target: str, across: str, k: str) -> None:
        """Write the elements of one row or column at the next values of k to a register."""
        shader = self.shader
        if side.along_k and self.schedule.tile.k > 1:
            quad = self.quad(self.memory(side, True), self.place(side, across, k))
            shader.line(f"{target} = {quad};")
            return
        memory = self.memory(side, False)
        depth = self.schedule.tile.k
        places = [k] if depth == 1 else [f"{k} + {u}" for u in range(depth)]
        texts = [self.element(memory, self.place(side, across, p)) for p in places]
        joined = f"{self.vector}({', '.join(texts)})" if depth > 1 else texts[0]
        shader.line(f"{target} = {joined};")

    @property
    def by_columns(self) -> bool:
        """True if columns are read along k, four values at a time."""
        return self.schedule.tile.k > 1 and self.rhs.along_k and not self.rhs.along_step

    def read_columns(self, k: str) -> None:
        """For each column, what it has at the next values of k, if that is a quad."""
        if not self.by_columns:
            return
        shader, c = self.shader, self.names["c"]
        self.by_k = shader.code.fresh("columns")
        shader.line(f"{self.vector} {self.by_k}[{self.tile[1]}];")
        self.unrolled(c, self.tile[1])
        column = self._clamped(f"{self.column} + {c}", self.form.n, self.tile[1])
        self._read_along_k(self.rhs, f"{self.by_k}[{c}]", column, k)
        shader.close()

    def read_right(self, k: str) -> None:
        """The columns of the tile at one value of k, in quads."""
        shader, names = self.shader, self.names
        n, u, right = names["n"], names["u"], names["right"]
        shader.line(f"{self.vector} {right}[{self.quads}];")
        self.unrolled(n, self.quads)
        at = k if self.schedule.tile.k == 1 else f"{k} + {u}"
        if self.by_columns:
            texts = [f"{self.by_k}[{QUAD} * {n} + {lane}][{u}]" for lane in range(QUAD)]
            shader.line(f"{right}[{n}] = {self.vector}({', '.join(texts)});")
        elif self.rhs.along_step:
            column = f"{self.column} + {QUAD} * {n}"
            if self.form.n % self.tile[1]:
                column = f"min({column}, {self.form.n - QUAD})"
            place = self.place(self.rhs, column, at)
            shader.line(f"{right}[{n}] = {self.quad(self.memory(self.rhs, True), place)};")
        else:
            self._read_apart(f"{right}[{n}]", f"{self.column} + {QUAD} * {n}", at)
        shader.close()

    def _read_apart(self, target: str, column: str, k: str) -> None:
        memory = self.memory(self.rhs, False)
        texts: list[str] = []
        for lane in range(QUAD):
            at = self._clamped(f"{column} + {lane}", self.form.n, self.tile[1])
            texts.append(self.element(memory, self.place(self.rhs, at, k)))
        self.shader.line(f"{target} = {self.vector}({', '.join(texts)});")


def _tile(form: MatmulForm) -> Tile:
    """Returns the tile of an invocation: narrow if there is one row, four values of k if it can."""
    rows = min(ROWS, form.m)
    columns = min(COLUMNS if rows > 1 else QUAD, -(-form.n // QUAD) * QUAD)
    return Tile(rows, columns, QUAD if form.k and form.k % QUAD == 0 else 1)
