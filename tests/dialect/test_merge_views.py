# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chains of views become short ones that show the same elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.transforms.canonicalize import CanonicalizePass

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.context import make_context
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.numbers import int_array, integer
from fuel_dialect.ops import shape
from fuel_dialect.tensors import tensor, tensor_type
from work import growth

CONTEXT = make_context()

Step = Callable[[SSAValue, int], shape.ShapeOp]


def chain(extents: tuple[int, ...], steps: list[Step]) -> ModuleOp:
    """A function that gives its argument seen through one view after the other."""
    block = Block(arg_types=[tensor(extents, "f32")])
    value: SSAValue = block.args[0]
    for number, step in enumerate(steps):
        op = step(value, number)
        block.add_op(op)
        value = op.result
    block.add_op(ReturnOp(value))
    types = ([block.args[0].type], [value.type])
    return ModuleOp([FuncOp("main", types, Region(block))])


def views(module: ModuleOp) -> list[str]:
    return [op.mnemonic() for op in module.walk() if isinstance(op, shape.ShapeOp)]


def canonicalized(module: ModuleOp) -> ModuleOp:
    CanonicalizePass().apply(CONTEXT, module)
    module.verify()
    return module


def extents_of(value: SSAValue) -> tuple[int, ...]:
    return tensor_type(value).get_shape()


def slice_of(value: SSAValue, dim: int, start: int, length: int) -> shape.SliceOp:
    return shape.SliceOp.make(value, dim=integer(dim), start=integer(start), length=integer(length))


def shorter(value: SSAValue, dim: int, start: int = 1) -> shape.SliceOp:
    """All but the first element of a dim, or the last."""
    return slice_of(value, dim, start, extents_of(value)[dim] - 1)


def reshape(value: SSAValue, extents: tuple[int, ...]) -> shape.ReshapeOp:
    return shape.ReshapeOp.make(value, declared=[tensor(extents, "f32")])


def broadcast(value: SSAValue, extents: tuple[int, ...]) -> shape.BroadcastToOp:
    return shape.BroadcastToOp.make(value, declared=[tensor(extents, "f32")])


def unit(kind: type[shape.SqueezeOp | shape.UnsqueezeOp], value: SSAValue, dim: int):
    return kind.make(value, dim=integer(dim))


LONG: dict[str, tuple[tuple[int, ...], Step, list[str]]] = {
    "slices of one dim": ((500, 3), lambda v, n: shorter(v, 0, n % 2), ["slice"]),
    "slices of two dims": ((500, 500), lambda v, n: shorter(v, n % 2), ["slice", "slice"]),
    "flips": ((3, 4), lambda v, n: shape.FlipOp.make(v, dim=integer(n % 3 % 2)), ["flip"] * 2),
    "permutations": (
        (2, 3, 4),
        lambda v, n: shape.PermuteOp.make(v, axes=int_array([1, 2, 0])),
        ["permute"],
    ),
    "transposes": ((2, 3), lambda v, n: shape.TransposeOp.make(v), []),
    "reshapes": ((4, 3), lambda v, n: reshape(v, [(12,), (2, 6), (3, 4)][n % 3]), ["reshape"]),
    "reshapes and unit dims": (
        (4, 3),
        lambda v, n: (
            reshape(v, [(3, 1, 4), (12, 1)][n // 2 % 2])
            if n % 2 == 0
            else unit(shape.SqueezeOp, v, 1)
        ),
        ["reshape", "squeeze"],
    ),
    "unit dims": (
        (4, 3),
        lambda v, n: unit([shape.UnsqueezeOp, shape.SqueezeOp][n % 2], v, 1),
        [],
    ),
    "flips and transposes": (
        (3, 4),
        lambda v, n: shape.TransposeOp.make(v) if n % 2 else shape.FlipOp.make(v, dim=integer(0)),
        [],
    ),
    "slices, flips and permutations": (
        (200, 150, 100),
        lambda v, n: (
            lambda: shorter(v, n % 2, n % 5 % 2),
            lambda: shape.FlipOp.make(v, dim=integer(n // 3 % 3)),
            lambda: shape.PermuteOp.make(v, axes=int_array([1, 2, 0])),
        )[n % 3](),
        ["slice", "slice", "slice", "flip", "permute"],
    ),
    "slices, transposes and unit dims": (
        (200, 150),
        lambda v, n: (
            lambda: unit(shape.UnsqueezeOp, v, 1),
            lambda: shorter(v, 2),
            lambda: shape.TransposeOp.make(v),
            lambda: unit(shape.SqueezeOp, v, 2),
        )[n % 4](),
        ["slice"],
    ),
    "unit dims of two kinds": (
        (4, 1, 3),
        lambda v, n: unit(
            *[
                (shape.UnsqueezeOp, v, 0),
                (shape.SqueezeOp, v, 2),
                (shape.SqueezeOp, v, 0),
                (shape.UnsqueezeOp, v, 1),
            ][n % 4]
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", list(LONG))
def test_a_chain_of_400_views_is_a_short_one(name: str):
    extents, step, left = LONG[name]
    module = chain(extents, [step] * 400)
    x = np.arange(np.prod(extents), dtype=np.float32).reshape(extents)
    (want,) = evaluate(module, x)
    (got,) = evaluate(canonicalized(module), x)
    np.testing.assert_array_equal(got, want)
    assert views(module) == left


@pytest.mark.parametrize("name", list(LONG))
def test_the_work_grows_as_the_chain_does(name: str):
    extents, step, _ = LONG[name]

    def prepare(length: int) -> Callable[[], Any]:
        module = chain(extents, [step] * length)
        return lambda: CanonicalizePass().apply(CONTEXT, module)

    assert growth(prepare, 60) < 4.5


def test_broadcasts_of_broadcasts_are_one():
    module = chain((3, 1), [lambda v, n: broadcast(v, (1,) * n + (3, 1 if n < 30 else 5))] * 40)
    (want,) = evaluate(module, x := np.arange(3, dtype=np.float32).reshape(3, 1))
    (got,) = evaluate(canonicalized(module), x)
    np.testing.assert_array_equal(got, want)
    assert views(module) == ["broadcast_to"]


def test_a_view_between_keeps_its_readers():
    """Readers along the chain each read the argument through one view."""
    block = Block(arg_types=[tensor((9, 2), "f32")])
    seen: list[SSAValue] = [block.args[0]]
    for _ in range(4):
        block.add_op(op := shorter(seen[-1], 0))
        seen.append(op.result)
    block.add_op(ReturnOp(*seen[1:]))
    types = [value.type for value in seen]
    module = ModuleOp([FuncOp("main", (types[:1], types[1:]), Region(block))])
    x = np.arange(18, dtype=np.float32).reshape(9, 2)
    want = evaluate(module, x)
    got = evaluate(canonicalized(module), x)
    assert [g.tolist() for g in got] == [w.tolist() for w in want]
    slices = [op for op in module.walk() if isinstance(op, shape.SliceOp)]
    assert len(slices) == 4
    assert {op.input for op in slices} == {block.args[0]}


REORDERED: list[tuple[list[Step], list[str]]] = [
    (
        [lambda v, n: shape.TransposeOp.make(v), lambda v, n: shorter(v, 0)],
        ["slice", "transpose"],
    ),
    (
        [lambda v, n: shape.FlipOp.make(v, dim=integer(0)), lambda v, n: slice_of(v, 0, 1, 3)],
        ["slice", "flip"],
    ),
    (
        [lambda v, n: unit(shape.UnsqueezeOp, v, 0), lambda v, n: shape.TransposeOp.make(v)],
        ["transpose", "unsqueeze"],
    ),
    (
        [lambda v, n: unit(shape.UnsqueezeOp, v, 1), lambda v, n: slice_of(v, 1, 0, 0)],
        ["unsqueeze", "slice"],
    ),
    (
        [lambda v, n: unit(shape.UnsqueezeOp, v, 1), lambda v, n: slice_of(v, 1, 0, 1)],
        ["unsqueeze"],
    ),
    (
        [lambda v, n: unit(shape.UnsqueezeOp, v, 1), lambda v, n: shape.TransposeOp.make(v)],
        ["unsqueeze"],
    ),
]


@pytest.mark.parametrize(("steps", "left"), REORDERED)
def test_views_of_several_kinds_have_one_order(steps: list[Step], left: list[str]):
    module = chain((5, 4), steps)
    (want,) = evaluate(module, x := np.arange(20, dtype=np.float32).reshape(5, 4))
    (got,) = evaluate(canonicalized(module), x)
    np.testing.assert_array_equal(got, want)
    assert views(module) == left


def test_views_that_are_pinned_apart_stay_apart():
    def pinned(value: SSAValue, number: int) -> shape.SliceOp:
        op = shorter(value, 0)
        op.properties["placement"] = DeviceAttr.of(("cpu", "cuda:0")[number])
        return op

    assert views(canonicalized(chain((9, 2), [pinned] * 2))) == ["slice", "slice"]
    mixed = [lambda v, n: shape.TransposeOp.make(v, placement=DeviceAttr.of("cpu")), pinned]
    assert views(canonicalized(chain((9, 2), mixed))) == ["transpose", "slice"]


@st.composite
def steps(draw: Callable[..., Any]) -> list[Step]:
    """Views of all kinds, whatever fits the shape that there is."""

    def step(value: SSAValue, number: int) -> shape.ShapeOp:
        extents = extents_of(value)
        dims = st.integers(0, len(extents) - 1)
        kinds: list[Callable[[], shape.ShapeOp]] = [
            lambda: unit(shape.UnsqueezeOp, value, draw(st.integers(0, len(extents)))),
            lambda: shape.PermuteOp.make(
                value, axes=int_array(draw(st.permutations(range(len(extents)))))
            ),
            lambda: reshape(value, tuple(reversed(extents))),
            lambda: broadcast(value, tuple(2 if extent == 1 else extent for extent in extents)),
        ]
        if extents:
            kinds.append(lambda: shape.FlipOp.make(value, dim=integer(draw(dims))))
            dim = draw(dims)
            start = draw(st.integers(0, extents[dim]))
            length = draw(st.integers(0, extents[dim] - start))
            kinds.append(lambda: slice_of(value, dim, start, length))
        if len(extents) > 1:
            kinds.append(lambda: shape.TransposeOp.make(value))
        if 1 in extents:
            kinds.append(lambda: unit(shape.SqueezeOp, value, extents.index(1)))
        return draw(st.sampled_from(kinds))()

    return [step] * draw(st.integers(2, 12))


@given(steps(), st.sampled_from([(4, 3), (1, 5), (2, 1, 3), (1,)]))
def test_random_chains_show_the_same_elements(drawn: list[Step], extents: tuple[int, ...]):
    module = chain(extents, drawn)
    x = np.arange(np.prod(extents), dtype=np.float32).reshape(extents)
    before = len(views(module))
    (want,) = evaluate(module, x)
    (got,) = evaluate(canonicalized(module), x)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    assert len(views(module)) <= before
    once = str(module)
    assert str(canonicalized(module)) == once
