# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Matrix products for GPUs: a workgroup reads tiles of both operands into shared memory.

Its invocations then compute 4 x 4 elements each. What lies beyond an edge is zero in shared memory.
"""

from __future__ import annotations

from fuel_lowering.kernels.matmul import MatmulForm
from fuel_lowering.kernels.matmul_schedule import Tile, schedule_matmul
from fuel_lowering.kompute.matmul_shader import MatmulShader, Operand
from fuel_lowering.kompute.tuning import MOST_TRIPS
from fuel_lowering.kompute.writer import LANGUAGE, QUAD

SIDE = 64
"""Rows and columns of a workgroup."""

DEPTH = 16
"""The extent of k that is in shared memory at once."""

LOCAL = SIDE // QUAD
"""Invocations along either side of a workgroup."""

SMALLEST = 16
"""Products of fewer rows or columns leave most of a workgroup without work."""


def fits(form: MatmulForm) -> bool:
    """Returns True if a product is large enough for workgroups to share tiles."""
    return form.m >= SMALLEST and form.n >= SMALLEST


class SharedMatmul(MatmulShader):
    """The shader of a product whose operands pass through shared memory."""

    local = (LOCAL, LOCAL)

    def __init__(self, form: MatmulForm):
        most_steps = MOST_TRIPS // 2
        schedule = schedule_matmul(form, Tile(SIDE, SIDE, DEPTH), most_steps)
        super().__init__(form, schedule, (QUAD, QUAD))

    @property
    def tiles(self) -> tuple[int, int]:
        return self.schedule.down * LOCAL, self.schedule.across * LOCAL

    @property
    def groups(self) -> int:
        return self.schedule.programs

    def start(self) -> None:
        shader = self.shader
        group = shader.index(f"min({shader.group()}, {self.groups - 1})", "group")
        self.place_tile(group, (SIDE, SIDE))
        self.corner = [self.row, self.column]
        self.row = shader.index(f"{self.row} + gl_LocalInvocationID.y * {QUAD}", "row")
        self.column = shader.index(f"{self.column} + gl_LocalInvocationID.x * {QUAD}", "column")

    def before_steps(self) -> None:
        for name in ("left_tile", "right_tile"):
            self.shader.functions.append(f"shared {self.scalar} {name}[{DEPTH}][{SIDE + 1}];")

    def step(self, k: str, last: str) -> None:
        shader = self.shader
        self._fill("left_tile", self.lhs, self.corner[0], self.form.m, last)
        self._fill("right_tile", self.rhs, self.corner[1], self.form.n, last)
        shader.line("barrier();")
        self._multiply()
        shader.line("barrier();")

    def _fill(self, tile: str, side: Operand, corner: str, extent: int, last: str) -> None:
        """Read a tile; neighbours in a workgroup read neighbours in memory."""
        shader, k = self.shader, self.names["k"]
        s = shader.code.fresh("s")
        count = LOCAL * LOCAL
        self.unrolled(s, SIDE * DEPTH // count)
        e = shader.index(f"{s} * {count} + gl_LocalInvocationIndex", "e")
        by_k = abs(side.k) <= abs(side.step)
        texts = (f"{e} % {DEPTH}", f"{e} / {DEPTH}") if by_k else (f"{e} / {SIDE}", f"{e} % {SIDE}")
        depth, across = (shader.index(t, h) for t, h in zip(texts, ("d", "a"), strict=True))
        at = shader.index(f"min({corner} + {across}, {extent - 1})", "at")
        at_k = shader.index(f"min({k} + {depth}, {self.form.k - 1})", "at_k")
        value = self.element(self.memory(side, False), self.place(side, at, at_k))
        nothing = LANGUAGE.literal(side.dtype.numpy.type(0), self.register)
        shader.line(f"{tile}[{depth}][{across}] = {k} + {depth} < {last} ? {value} : {nothing};")
        shader.close()

    def _multiply(self) -> None:
        shader, names = self.shader, self.names
        u, m, n = names["u"], names["m"], names["n"]
        self.unrolled(u, DEPTH)
        left, right = names["left"], names["right"]
        shader.line(f"{self.scalar} {left}[{QUAD}];")
        self.unrolled(m, QUAD)
        shader.line(f"{left}[{m}] = left_tile[{u}][gl_LocalInvocationID.y * {QUAD} + {m}];")
        shader.close()
        at = f"right_tile[{u}][gl_LocalInvocationID.x * {QUAD}"
        texts = ", ".join(f"{at} + {lane}]" for lane in range(QUAD))
        shader.line(f"{self.vector} {right}[1] = {self.vector}[1]({self.vector}({texts}));")
        self.each_sum(f"{self.sum_at} += {left}[{m}] * {right}[{n}];")
        shader.close()
