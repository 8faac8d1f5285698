# SPDX-License-Identifier: MIT OR Apache-2.0
"""The layout algebra: any chain of views is what NumPy does, on one flat buffer."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from effort import examples
from fuel_dialect.errors import ShapeError
from fuel_dialect.interpreter.evaluate import evaluate_op
from fuel_dialect.layout import Layout, broadcast_shapes, row_major_strides
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import tensor, tensor_type
from fuel_dialect.traits import ViewOp
from ops_on_arrays import make, shapes


def read(buffer: Array, layout: Layout) -> Array:
    """The elements a layout addresses."""
    if not layout.elements:
        return np.zeros(layout.shape, buffer.dtype)
    strides = [stride * buffer.itemsize for stride in layout.strides]
    return as_strided(buffer[layout.offset :], layout.shape, strides)


@st.composite
def view(draw: st.DrawFn, shape: tuple[int, ...]) -> FuelOp:
    """One of the seven view ops, on a tensor of this shape."""
    x, rank = tensor(shape, "i64"), len(shape)
    kinds = ["broadcast_to", "permute", "unsqueeze"]
    kinds += ["slice", "flip"] if rank else []
    kinds += ["transpose"] if rank > 1 else []
    kinds += ["squeeze"] if 1 in shape else []
    kind = draw(st.sampled_from(kinds))
    if kind == "transpose":
        return make(kind, x)
    if kind == "permute":
        return make(kind, x, axes=tuple(draw(st.permutations(range(rank)))))
    if kind == "broadcast_to":
        leading = draw(st.lists(st.integers(0, 2), max_size=1 if rank < 4 else 0))
        target = [draw(st.integers(0, 3)) if n == 1 else n for n in shape]
        return make(kind, x, declared=[tensor([*leading, *target], "i64")])
    if kind == "squeeze":
        return make(kind, x, dim=draw(st.sampled_from([d for d, n in enumerate(shape) if n == 1])))
    dim = draw(st.integers(0, rank if kind == "unsqueeze" else rank - 1))
    if kind != "slice":
        return make(kind, x, dim=dim)
    start = draw(st.integers(0, shape[dim]))
    length = draw(st.integers(0, shape[dim] - start))
    return make(kind, x, dim=dim, start=start, length=length)


@examples(150)
@given(data=st.data())
def test_any_chain_of_views_is_numpys(data: st.DataObject):
    shape = data.draw(shapes())
    offset = data.draw(st.integers(0, 3))
    buffer = np.arange(prod(shape) + offset)
    layout = Layout.contiguous(shape, offset)
    value = buffer[offset:].reshape(shape)
    for _ in range(data.draw(st.integers(1, 6))):
        op = data.draw(view(layout.shape))
        assert isinstance(op, ViewOp)
        layout = op.derive_layout(layout)
        (value,) = evaluate_op(op, [value])
        assert layout.shape == value.shape == tensor_type(op.results[0]).get_shape()
        assert np.array_equal(read(buffer, layout), value)
        if layout.is_contiguous:
            flat = buffer[layout.offset : layout.offset + layout.elements]
            assert np.array_equal(flat, value.ravel())


@given(shapes())
def test_contiguous_layouts_are_those_of_numpy(shape: tuple[int, ...]):
    layout = Layout.contiguous(shape)
    assert layout.is_contiguous
    assert layout.elements == prod(shape)
    if prod(shape):
        assert row_major_strides(shape) == tuple(s // 8 for s in np.empty(shape).strides)


def test_strides_of_each_view():
    base = Layout.contiguous((2, 3, 4))
    assert base == Layout((2, 3, 4), (12, 4, 1))
    assert base.transpose() == Layout((2, 4, 3), (12, 1, 4))
    assert base.permute((2, 0, 1)) == Layout((4, 2, 3), (1, 12, 4))
    assert base.slice(1, 1, 2) == Layout((2, 2, 4), (12, 4, 1), 4)
    assert base.flip(0) == Layout((2, 3, 4), (-12, 4, 1), 12)
    assert base.flip(0).flip(0) == base
    assert base.unsqueeze(1) == Layout((2, 1, 3, 4), (12, 0, 4, 1))
    assert base.unsqueeze(3).squeeze(3) == base
    assert base.broadcast_to((5, 2, 3, 4)) == Layout((5, 2, 3, 4), (0, 12, 4, 1))
    column = Layout((3, 1), (1, 1)).broadcast_to((3, 4))
    assert column == Layout((3, 4), (1, 0))
    assert Layout((1,), (1,)).broadcast_to((0,)) == Layout((0,), (0,))
    assert Layout.contiguous((0,)).flip(0).offset == 0


def test_contiguity_ignores_size_1_dims_and_the_offset():
    assert Layout((2, 1, 3), (3, 77, 1), 5).is_contiguous
    assert not Layout((2, 3), (1, 2)).is_contiguous
    assert not Layout((2,), (0,)).is_contiguous
    assert not Layout((3,), (-1,), 2).is_contiguous
    assert Layout((0, 3), (1, 1)).is_contiguous
    assert Layout((), ()).is_contiguous


def test_equality_is_of_shape_strides_and_offset():
    assert Layout((2,), (1,)) != Layout((2,), (1,), 1)
    assert Layout((2,), (1,)) != Layout((2,), (2,))
    with pytest.raises(ShapeError, match="1 strides for the 2 dims"):
        Layout((2, 3), (1,))


@given(st.lists(shapes(), min_size=1, max_size=3))
def test_common_shapes_are_numpys(several: list[tuple[int, ...]]):
    try:
        expected = np.broadcast_shapes(*several)
    except ValueError:
        with pytest.raises(ShapeError, match="incompatible shapes"):
            broadcast_shapes("add", *several)
        return
    assert broadcast_shapes("add", *several) == expected
