# SPDX-License-Identifier: MIT OR Apache-2.0
"""Views of what other kernels computed: in tiles, in scans, as operands of products; reshapes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.builder.graph import Graph
from fuel_dialect.builder.tensor import Tensor
from fuel_dialect.context import make_context
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.layout import Layout
from fuel_dialect.ops.control import RunOp
from fuel_dialect.reference.precision import Array
from fuel_lowering.numpy import tiles
from fuel_lowering.numpy.lower import lower_run
from fuel_lowering.numpy.values import reshaped
from fuel_passes.pipeline import OptimizePass
from ops_on_arrays import floats
from run_ops import Loaded, check_results, runs_of

TILES = [(65_536, 32_768), (8, 4), (3, 2), (1, 1)]


class Whole(Loaded):
    """The one run of an optimised function, called with the function's arguments."""

    def __init__(self, run: RunOp):
        super().__init__(lower_run(run, "main_0"))
        function = run.parent_block()
        assert function is not None
        assert function.last_op is not None
        self.inputs = [function.args.index(value) for value in run.inputs]
        self.outputs = [run.outputs.index(value) for value in function.last_op.operands]

    def __call__(self, *arguments: Array, scratch: Any = None) -> tuple[Array, ...]:
        results = super().__call__(*(arguments[i] for i in self.inputs), scratch=scratch)
        return tuple(results[i] for i in self.outputs)


def lowered(module: ModuleOp) -> Loaded:
    optimised = module.clone()
    OptimizePass().apply(make_context(), optimised)
    (run,) = runs_of(optimised)
    return Whole(run)


def check(module: ModuleOp, *arguments: Array) -> Loaded:
    loaded = lowered(module)
    check_results(loaded, module, arguments, (1e-5, 1e-5))
    return loaded


# Views of computed values.

View = Callable[[Tensor], Tensor]


@st.composite
def views(draw: Any, shape: Sequence[int]) -> tuple[list[str], View]:
    """A chain of views and reshapes, in words and as a function, for an array of a shape."""
    steps: list[tuple[str, View]] = []
    shape = list(shape)
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["slice", "flip", "permute", "unsqueeze", "reshape"]))
        dim = draw(st.integers(0, len(shape) - 1))
        if kind == "slice":
            start = draw(st.integers(0, shape[dim] - 1))
            stop = draw(st.integers(start + 1, shape[dim]))
            index = (slice(None),) * dim + (slice(start, stop),)
            shape[dim] = stop - start
            steps.append((f"slice {index}", lambda x, index=index: x[index]))
        elif kind == "flip":
            steps.append((f"flip {dim}", lambda x, dim=dim: x.flip(dim)))
        elif kind == "permute":
            axes = draw(st.permutations(range(len(shape))))
            shape = [shape[a] for a in axes]
            steps.append((f"permute {axes}", lambda x, axes=axes: x.permute(tuple(axes))))
        elif kind == "unsqueeze":
            shape.insert(dim, 1)
            steps.append((f"unsqueeze {dim}", lambda x, dim=dim: x.unsqueeze(dim)))
        else:
            shape = [*shape[:dim], prod(shape[dim:])]
            steps.append((f"reshape {shape}", lambda x, to=tuple(shape): x.reshape(to)))

    def apply(x: Tensor) -> Tensor:
        for _, step in steps:
            x = step(x)
        return x

    return [text for text, _ in steps], apply


@given(
    st.lists(st.sampled_from([1, 1, 2, 3, 5]), min_size=1, max_size=5),
    st.sampled_from(TILES),
    st.data(),
)
def test_views_of_a_computed_value_in_tiles(
    shape: list[int], tile: tuple[int, int], data: st.DataObject
):
    """The value is computed by one kernel, in the workspace, and read through a view by another."""
    _, view = data.draw(views(shape))
    g = Graph()
    x = g.input(tuple(shape))
    h = x.exp()
    seen = view(h)
    module = g.build(seen * 2, seen + seen.sum(-1, keepdims=True), h.argmax(axis=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "LARGE_TILE", tile[0])
        patch.setattr(tiles, "SMALL_TILE", tile[1])
        check(module, floats("f32", tuple(shape)))


LARGE: dict[str, tuple[tuple[int, ...], View]] = {
    "sliced": ((2, 1, 70_000), lambda x: x[:, :, 1:]),
    "flipped": ((2, 1, 70_000), lambda x: x.flip(2)),
    "sliced behind 1": ((2, 1, 300, 301), lambda x: x[:, :, 1:]),
    "between ones": ((1, 2, 1, 300, 1, 301), lambda x: x[:, :, :, 1:, :, 1:].flip(5)),
    "ones last": ((500, 1, 301, 1), lambda x: x[:, :, 2:]),
    "reshaped by a copy": ((3, 500, 101), lambda x: x.permute((2, 0, 1)).reshape((303, 500))),
}


@pytest.mark.parametrize("name", LARGE)
def test_views_of_a_computed_value_above_one_tile(name: str):
    shape, view = LARGE[name]
    g = Graph()
    h = g.input(shape).exp()
    loaded = check(g.build(view(h) * 2, h.argmax(axis=0)), floats("f32", shape))
    assert "pool.run" in loaded.lowered.source


# Reshapes.


@given(st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=1, max_size=4), st.data())
def test_a_reshape_is_a_view_exactly_where_numpy_makes_one(shape: list[int], data: st.DataObject):
    array = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    array = array.transpose(data.draw(st.permutations(range(len(shape)))))
    for dim in range(array.ndim):
        step = data.draw(st.sampled_from([1, 1, -1, 2]))
        array = array[(slice(None),) * dim + (slice(None, None, step),)]
    if data.draw(st.booleans()):
        array = np.broadcast_to(array, (2, *array.shape))
    layout = Layout(array.shape, tuple(s // array.itemsize for s in array.strides))
    target = data.draw(st.sampled_from(_shapes_of(array.size)))
    got, want = reshaped(layout, target), array.reshape(target)
    if not array.size:
        assert got is not None
        return
    assert (got is not None) == np.may_share_memory(want, array)
    if got is not None:
        strides = tuple(s // array.itemsize for s in want.strides)
        steps = zip(target, got.strides, strides, strict=True)
        assert all(a == b for extent, a, b in steps if extent > 1)


def _shapes_of(elements: int) -> list[tuple[int, ...]]:
    """Shapes of up to three dims with so many elements."""
    if not elements:
        return [(0,), (0, 3)]
    divisors = [d for d in range(1, elements + 1) if elements % d == 0]
    pairs = [(d, elements // d) for d in divisors]
    threes = [(a, b // c, c) for a, b in pairs for c in divisors if b % c == 0]
    return [(elements,), *pairs, *threes]


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_reshape_that_copies_in_and_around_a_scan(length: int):
    """The same reshape of what no step changes, of a row and of a carry, inside and outside."""
    g = Graph()
    h, y, rows = g.input((6,)), g.input((2, 3)), g.input((length, 2, 3))

    def body(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        turned = carry.reshape((2, 3)).T.reshape((6,))
        return turned * 0.5 + y.T.reshape((6,)) + row.T.reshape((6,)), y.exp().T.reshape((6,))

    last, stack = g.scan(body, h, rows)
    again, _ = g.scan(lambda c, _: (c + y.T.reshape((6,)), None), last, length=2)
    module = g.build(last, stack, again, g.concat([again, y.T.reshape((6,))]))
    arrays = [floats("f32", s, seed) for seed, s in enumerate([(6,), (2, 3), (length, 2, 3)])]
    check(module, *arrays)


def test_a_reshape_that_copies_allocates_nothing_in_a_loop():
    g = Graph()
    h, y, rows = g.input((60_000,)), g.input((200, 300)), g.input((4, 200, 300))
    flat = (60_000,)
    last = g.scan(lambda c, r: (c + y.T.reshape(flat) + r.T.reshape(flat), None), h, rows)[0]
    arrays = [floats("f32", s) for s in (flat, (200, 300), (4, 200, 300))]
    loaded = check(g.build(last), *arrays)
    tracemalloc.start()
    (result,) = loaded(*arrays)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.nbytes <= peak < 1.5 * result.nbytes


# Scans over views.

ROWS: dict[str, View] = {
    "as it is": lambda x: x,
    "flipped": lambda x: x.flip(0),
    "sliced": lambda x: x[1:4],
    "broadcast": lambda x: x[:1].broadcast_to((4, *x.shape[1:])),
    "unsqueezed": lambda x: x.unsqueeze(0),
    "reshaped": lambda x: x.reshape((prod(x.shape),)),
    "last first": lambda x: x.permute((*range(1, len(x.shape)), 0)),
    "one column": lambda x: x[(slice(None), *(slice(1),) * (len(x.shape) - 1))],
    "flat of the last first": lambda x: ROWS["reshaped"](ROWS["last first"](x)),
    "index": lambda x: x[(slice(None), *(0,) * (len(x.shape) - 1))],
}


@pytest.mark.parametrize("computed", [False, True], ids=["argument", "computed"])
@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 3, 2)], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_a_scan_over_a_view(name: str, shape: tuple[int, ...], computed: bool):
    g = Graph()
    x = g.input(shape)
    xs = ROWS[name](x.exp() if computed else x)
    init = g.constant(0.5, "f32", xs.shape[1:])
    for_each = g.scan(lambda c, r: (c * 0.5 + r, c - r), init, xs)
    back = g.scan(lambda c, r: (c * 0.5 + r, c - r), init, xs, reverse=True)
    check(g.build(*for_each, *back), floats("f32", shape))


@pytest.mark.parametrize("name", ROWS)
def test_a_scan_in_a_scan_over_a_view_of_its_row(name: str):
    g = Graph()
    x = g.input((3, 5, 2))

    def outer(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        xs = ROWS[name](row + carry)
        init = g.constant(0.5, "f32", xs.shape[1:])
        last, stack = g.scan(lambda c, r: (c * 0.5 + r, c - r), init, xs)
        return carry + last.sum(), stack

    check(g.build(*g.scan(outer, g.constant(0.0, "f32"), x)), floats("f32", (3, 5, 2)))


@pytest.mark.parametrize("length", [0, 2])
def test_what_a_scan_of_no_steps_would_compute_is_not_computed(length: int):
    """An index that is out of range is an error where some step reads by it, and only there."""
    g = Graph()
    x, indices = g.input((3,)), g.input((1,), "ui32")
    last, _ = g.scan(lambda c, _: (c + x.index_select(0, indices), None), x[:1], length=length)
    module = g.build(last)
    arrays = [floats("f32", (3,)), np.array([9], np.uint32)]
    loaded = lowered(module)
    if not length:
        check_results(loaded, module, arrays)
        return
    for run in (lambda: loaded(*arrays), lambda: evaluate(module, *arrays)):
        with pytest.raises(IndexOutOfRange, match="index 9"):
            run()


# Products.

RIGHT: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "number": ((), (4, 5)),
    "row": ((5,), (4, 5)),
    "column": ((4, 1), (4, 5)),
    "row with a batch of 1": ((1, 1, 5), (1, 4, 5)),
    "number in a batch": ((1, 1, 1), (2, 4, 5)),
    "row for every batch": ((5,), (2, 4, 5)),
    "column for every batch": ((4, 1), (2, 4, 5)),
    "matrix for every batch": ((4, 5), (2, 4, 5)),
    "rows of batches": ((2, 1, 5), (2, 4, 5)),
    "columns of batches": ((2, 4, 1), (2, 4, 5)),
}


@pytest.mark.parametrize("left", [(3, 4), (2, 3, 4), (4, 3, 4), (3, 2, 3, 4)], ids=str)
@pytest.mark.parametrize("kind", ["input", "computed", "constant"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_product_with_a_broadcast(name: str, left: tuple[int, ...], kind: str):
    own, shape = RIGHT[name]
    g = Graph()
    a, b = g.input(left), g.input(own)
    shape = shape[-2:] if len(left) == 2 else (1,) * (len(left) - len(shape)) + shape
    b = b.exp() if kind == "computed" else b
    if len(own) > len(shape):
        b = b.reshape(own[-2:]) if prod(own[:-2]) == 1 else b[0]
    right = g.constant(2.0, "f32", shape) if kind == "constant" else b.broadcast_to(shape)
    arrays = [floats("f32", left), floats("f32", own, 1)]
    check(g.build(a.matmul(right), a.permute((1, 0, *range(2, len(left)))) * 2), *arrays)
