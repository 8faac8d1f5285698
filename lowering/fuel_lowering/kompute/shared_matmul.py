# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Matrix products for GPUs: a workgroup reads tiles of both operands into shared memory.

Its invocations then compute 4 x 4 elements each. What lies beyond an edge is zero in shared memory.
"""

from __future__ import annotations

from math import prod

from fuel_lowering.kernels.matmul import MatmulForm
from fuel_lowering.kompute.register_matmul import Matmul, Operand
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


class SharedMatmul(Matmul):
    """The shader of a product whose operands pass through shared memory."""

    def _tile(self) -> tuple[int, int]:
        return QUAD, QUAD

    def _local(self) -> tuple[int, int]:
        return (LOCAL, LOCAL)

    def chunks(self) -> list[tuple[int, int]]:
        most = MOST_TRIPS * DEPTH // 2
        return [(k, min(k + most, self.form.k)) for k in range(0, self.form.k, most)] or [(0, 0)]

    @property
    def sides(self) -> tuple[int, int]:
        """Workgroups along the rows and along the columns of one product."""
        return -(-self.form.m // SIDE), -(-self.form.n // SIDE)

    @property
    def tiles(self) -> tuple[int, int]:
        down, across = self.sides
        return down * LOCAL, across * LOCAL

    def groups(self) -> int:
        return prod(self.form.batch) * prod(self.sides)

    def _start(self) -> None:
        shader = self.shader
        down, across = self.sides
        group = shader.index(f"min({shader.group()}, {self.groups() - 1})", "group")
        self._place_tile(group, (prod(self.form.batch), down, across), (SIDE, SIDE))
        self.corner = [self.row, self.column]
        self.row = shader.index(f"{self.row} + gl_LocalInvocationID.y * {QUAD}", "row")
        self.column = shader.index(f"{self.column} + gl_LocalInvocationID.x * {QUAD}", "column")

    def loop(self, is_part: bool) -> None:
        shader, names = self.shader, self.names
        first, last = "0", str(self.form.k)
        if is_part:
            first, last = (shader.scalar(name) for name in ("first", "last"))
            self._take_up()
        for name in ("left_tile", "right_tile"):
            shader.functions.append(f"shared {self.scalar} {name}[{DEPTH}][{SIDE + 1}];")
        k = names["k"]
        shader.open(f"for (uint {k} = {first}; {k} < {last}; {k} += {DEPTH})")
        self._fill("left_tile", self.lhs, self.corner[0], self.form.m, last)
        self._fill("right_tile", self.rhs, self.corner[1], self.form.n, last)
        shader.line("barrier();")
        self._multiply()
        shader.line("barrier();")
        shader.close()

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
        value = self.element(self._memory(side, False), self._address(side, at, at_k))
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
        self._each_sum(f"{self.sum_at} += {left}[{m}] * {right}[{n}];")
        shader.close()
