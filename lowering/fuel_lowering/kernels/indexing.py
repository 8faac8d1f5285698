# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The index arithmetic of generated kernels: from an iteration point to the place of an element.

A layout (`fuel_dialect.layout`) says where the elements of an operand lie over the iteration space
of a kernel; what is here makes that cheap (few axes) and turns it into text. The text is right in
Python and in C alike; only the division sign differs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from fuel_dialect.layout import Layout, row_major_strides

INT32_LIMIT = 2**31


def merged(
    shape: Sequence[int], layouts: Sequence[Layout], keep: Collection[int] = ()
) -> tuple[tuple[int, ...], list[Layout]]:
    """
    An iteration space of fewer axes, and the layouts over it.

    Axes of extent 1 go, and neighbours that every layout steps through as through one axis become
    one; those in `keep` stay as they are. The row-major order of the points is the same.
    """
    axes = [a for a, extent in enumerate(shape) if extent != 1 or a in keep]
    groups: list[list[int]] = []
    for axis in axes:
        if groups and _joins(groups[-1][-1], axis, layouts, keep):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    extents = tuple(prod(shape[a] for a in group) for group in groups)
    strides = [tuple(layout.strides[group[-1]] for group in groups) for layout in layouts]
    return extents, [
        Layout(extents, steps, layout.offset)
        for layout, steps in zip(layouts, strides, strict=True)
    ]


def _joins(outer: int, inner: int, layouts: Sequence[Layout], keep: Collection[int]) -> bool:
    """Returns True if a step of `outer` is, in every layout, a step past the end of `inner`."""
    if outer in keep or inner in keep:
        return False
    return all(
        layout.strides[outer] == layout.strides[inner] * layout.shape[inner] for layout in layouts
    )


def select_axes(layout: Layout, axes: Sequence[int]) -> Layout:
    """Some axes of a layout, the offset included; the others are where they are 0."""
    return Layout(
        tuple(layout.shape[a] for a in axes), tuple(layout.strides[a] for a in axes), layout.offset
    )


def split_axis(layout: Layout, axis: int, inner: int) -> Layout:
    """One axis as two, the second of extent `inner`."""
    extent, stride = layout.shape[axis], layout.strides[axis]
    return Layout(
        (*layout.shape[:axis], extent // inner, inner, *layout.shape[axis + 1 :]),
        (*layout.strides[:axis], stride * inner, stride, *layout.strides[axis + 1 :]),
        layout.offset,
    )


def repeat_axis(layout: Layout, axis: int, times: int) -> Layout:
    """A layout with another axis after `axis`, along which every element is repeated."""
    return Layout(
        (*layout.shape[: axis + 1], times, *layout.shape[axis + 1 :]),
        (*layout.strides[: axis + 1], 0, *layout.strides[axis + 1 :]),
        layout.offset,
    )


def needs_64_bits(points: int, layouts: Sequence[Layout], margin: int = 1 << 16) -> bool:
    """
    Returns True if counting the points, or a product of a coordinate and a stride, can pass 2^31.

    `margin` is how many points beyond the last a kernel counts, masked out.
    """
    if points + margin >= INT32_LIMIT:
        return True
    for layout in layouts:
        ends = (abs(s) * n for n, s in zip(layout.shape, layout.strides, strict=True))
        if sum(ends) + abs(layout.offset) >= INT32_LIMIT:
            return True
    return False


def coordinates(flat: str, shape: Sequence[int], divide: str) -> list[str]:
    """The coordinate along each axis of the point that is `flat` in row-major order, as text."""
    texts: list[str] = []
    for axis, (extent, step) in enumerate(zip(shape, row_major_strides(shape), strict=True)):
        text = flat if step == 1 else f"{flat} {divide} {step}"
        texts.append(text if axis == 0 else f"{text} % {extent}")
    return texts


def address(layout: Layout, points: Sequence[str]) -> str:
    """The place of the element at a point, whose coordinates are names or bracketed texts."""
    terms = [_term(p, s) for p, s in zip(points, layout.strides, strict=True) if s]
    text = ""
    for sign, term in terms:
        if not text:
            text = term if sign == "+" else f"-{term}"
        else:
            text = f"{text} {sign} {term}"
    if not text:
        return str(layout.offset)
    if not layout.offset:
        return text
    sign = "+" if layout.offset > 0 else "-"
    if text.startswith("-") and layout.offset > 0:
        return f"{layout.offset} - {text[1:]}"
    return f"{text} {sign} {abs(layout.offset)}"


def _term(point: str, stride: int) -> tuple[str, str]:
    sign = "+" if stride > 0 else "-"
    return sign, point if abs(stride) == 1 else f"{point} * {abs(stride)}"
