# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The schedule of a matmul: programs that compute a tile of the result each, and launches along k.

A target chooses among its tiles and says how a tile shrinks to a small product; how many programs
that makes and which launch adds which products is counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Generic, TypeVar

from fuel_lowering.kernels.matmul import MatmulForm


@dataclass(frozen=True)
class Tile:
    """The rows and columns of the result that a program computes, and the values of k of a step."""

    m: int
    n: int
    k: int


SomeTile = TypeVar("SomeTile", bound=Tile)


@dataclass(frozen=True)
class MatmulSchedule(Generic[SomeTile]):
    """
    Represents the tiles of a product.

    Each of `batch` matrices has `down` by `across` tiles. `spans` are the ranges of k, one for each
    launch: where there are several, a launch goes on with the sums of the one before.
    """

    tile: SomeTile
    batch: int
    down: int
    across: int
    spans: tuple[tuple[int, int], ...]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Programs along the batch, the rows and the columns."""
        return self.batch, self.down, self.across

    @property
    def programs(self) -> int:
        return prod(self.counts)

    @property
    def is_split(self) -> bool:
        """True if the sums need several launches."""
        return len(self.spans) > 1


def schedule_matmul(
    form: MatmulForm, tile: SomeTile, most_steps: int | None = None
) -> MatmulSchedule[SomeTile]:
    """Schedules a product; a launch makes `most_steps` steps along k, or all of them."""
    span = form.k if most_steps is None else most_steps * tile.k
    spans = tuple((k, min(k + span, form.k)) for k in range(0, form.k, max(span, 1)))
    batch, down, across = _counts(form, tile)
    return MatmulSchedule(tile, batch, down, across, spans or ((0, 0),))


def choose_tile(form: MatmulForm, tiles: Sequence[SomeTile], enough: int) -> SomeTile:
    """Returns the first tile that makes `enough` programs, else the last."""
    return next((tile for tile in tiles if prod(_counts(form, tile)) >= enough), tiles[-1])


def shrink_tile(form: MatmulForm, tile: SomeTile, rounded: Callable[[int], int]) -> SomeTile:
    """Returns a tile no larger than a product; `rounded` gives the side that holds an extent."""
    sides = ((tile.m, form.m), (tile.n, form.n), (tile.k, form.k))
    m, n, k = (min(side, rounded(extent)) for side, extent in sides)
    return replace(tile, m=m, n=n, k=k)


def _counts(form: MatmulForm, tile: Tile) -> tuple[int, int, int]:
    return prod(form.batch), -(-form.m // tile.m), -(-form.n // tile.n)
