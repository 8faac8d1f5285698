# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The layout algebra: how a tensor's elements lie in a flat buffer.

Strides are signed and count elements (negative after a flip, zero after a broadcast); the
address of index i is `offset + sum(i[k] * strides[k])`. A view computes a layout from its
operand's and copies nothing; it is refused where no layout says what it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fuel_dialect.errors import ShapeError


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Layout:
    """Shape, strides and start offset, all in elements. Equality is of all three."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise ShapeError(
                f"layout: {len(self.strides)} strides for the {len(self.shape)} dims of "
                f"{list(self.shape)}"
            )

    @staticmethod
    def contiguous(shape: Sequence[int], offset: int = 0) -> Layout:
        return Layout(tuple(shape), row_major_strides(shape), offset)

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps. Strides of size-1 dims do not matter; the offset is not asked."""
        if not self.elements:
            return True
        expected = row_major_strides(self.shape)
        return all(
            extent == 1 or stride == row_major
            for extent, stride, row_major in zip(self.shape, self.strides, expected, strict=True)
        )

    def _axis(self, op: str, dim: int, bound: int | None = None) -> int:
        bound = len(self.shape) if bound is None else bound
        if not 0 <= dim < bound:
            raise ShapeError(f"{op}: dim {dim} is out of bounds for shape {list(self.shape)}")
        return dim

    def permute(self, axes: Sequence[int]) -> Layout:
        """Dim i of the result is dim `axes[i]`."""
        check_permutation(axes, self.shape)
        return Layout(
            tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes), self.offset
        )

    def transpose(self) -> Layout:
        """Swap the last two dims."""
        rank = len(self.shape)
        if rank < 2:
            raise ShapeError(f"transpose: needs rank >= 2, got {list(self.shape)}")
        return self.permute((*range(rank - 2), rank - 1, rank - 2))

    def broadcast_to(self, shape: Sequence[int]) -> Layout:
        """Repeat size-1 and new leading dims, by stride 0."""
        check_broadcast("broadcast_to", self.shape, shape)
        new = len(shape) - len(self.shape)
        strides = (0,) * new + tuple(
            stride if source == target else 0
            for source, target, stride in zip(self.shape, shape[new:], self.strides, strict=True)
        )
        return Layout(tuple(shape), strides, self.offset)

    def slice(self, dim: int, start: int, length: int) -> Layout:
        """Elements `start` to `start + length` of one dim."""
        self._axis("slice", dim)
        if start < 0 or length < 0 or start + length > self.shape[dim]:
            raise ShapeError(
                f"slice: [{start}, {start + length}) exceeds dim size {self.shape[dim]} of dim "
                f"{dim} of {list(self.shape)}"
            )
        shape = (*self.shape[:dim], length, *self.shape[dim + 1 :])
        return Layout(shape, self.strides, self.offset + start * self.strides[dim])

    def unsqueeze(self, dim: int) -> Layout:
        """Insert a size-1 dim, of stride 0."""
        self._axis("unsqueeze", dim, len(self.shape) + 1)
        return Layout(
            (*self.shape[:dim], 1, *self.shape[dim:]),
            (*self.strides[:dim], 0, *self.strides[dim:]),
            self.offset,
        )

    def squeeze(self, dim: int) -> Layout:
        """Remove a size-1 dim."""
        self._axis("squeeze", dim)
        if self.shape[dim] != 1:
            raise ShapeError(
                f"squeeze: dim {dim} of {list(self.shape)} has size {self.shape[dim]}, expected 1"
            )
        return Layout(
            self.shape[:dim] + self.shape[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
            self.offset,
        )

    def flip(self, dim: int) -> Layout:
        """Reverse one dim, by a negative stride."""
        self._axis("flip", dim)
        stride, extent = self.strides[dim], self.shape[dim]
        strides = (*self.strides[:dim], -stride, *self.strides[dim + 1 :])
        return Layout(self.shape, strides, self.offset + max(extent - 1, 0) * stride)


def check_permutation(axes: Sequence[int], shape: Sequence[int]) -> None:
    """Raise `ShapeError` unless `axes` is a permutation of the dims of `shape`."""
    rank = len(shape)
    if len(axes) != rank:
        raise ShapeError(f"permute: {len(axes)} axes must equal tensor rank {rank}")
    for position, axis in enumerate(axes):
        if not 0 <= axis < rank:
            raise ShapeError(f"permute: axis {axis} is out of bounds for rank {rank}")
        if axis in axes[:position]:
            raise ShapeError(f"permute: duplicate axis {axis} in {list(axes)}")


def check_broadcast(op: str, source: Sequence[int], target: Sequence[int]) -> None:
    """Raise `ShapeError` unless `source` broadcasts to `target` by the NumPy rule."""
    if len(source) > len(target):
        raise ShapeError(
            f"{op}: rank of {list(source)} exceeds rank of {list(target)}; shapes are incompatible"
        )
    for a, b in zip(reversed(source), reversed(target), strict=False):
        if a not in (b, 1):
            raise ShapeError(
                f"{op}: {list(source)} is incompatible with {list(target)}: a dim must be equal "
                f"or 1, got {a} for {b}"
            )


def broadcast_shapes(op: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The common NumPy shape. Raises `ShapeError` with the words "incompatible shapes"."""
    rank = max((len(s) for s in shapes), default=0)
    common = [1] * rank
    for shape in shapes:
        for position, extent in enumerate(shape, rank - len(shape)):
            if extent not in (common[position], 1) and common[position] != 1:
                raise ShapeError(
                    f"{op}: incompatible shapes {' and '.join(str(list(s)) for s in shapes)}"
                )
            common[position] = extent if common[position] == 1 else common[position]
    return tuple(common)
