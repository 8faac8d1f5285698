# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Tests arbitrary pieces of a movement op on every target, against a loop over their elements.

Ops of fuel use few of the combinations that `MovementOp` allows; those of other packages may use
any: reversed and repeated steps, overlaps, gaps, and every effect of an index out of range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure

from effort import SLOW
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.dtypes import BY_NAME
from fuel_dialect.movement import MovementOp, Pick, Piece, Position, Span
from fuel_dialect.numbers import int_value, integer
from fuel_dialect.ops.base import ANY_TENSOR, FuelOp, Properties
from fuel_dialect.tensors import AnyTensor, tensor
from fuel_runtime import Session
from op_modules import module_of_samples
from op_samples import Sample
from targets import run_on

Array = np.ndarray[Any, Any]
CPU = TargetAttr.of("cpu", "numpy")
FILL = -7
DTYPES = ["i32", *(pytest.param(name, marks=SLOW) for name in ("f16", "f32"))]


@dataclass(frozen=True)
class Case:
    """The pieces of an op, the shape of its result, and its operands."""

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]
    arrays: tuple[Array, ...]


CASES: list[Case] = []


@irdl_op_definition
class PiecesOp(FuelOp, MovementOp):
    """An op whose pieces are those of a case, by its number."""

    name = "test.pieces"

    inputs = var_operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)
    case = prop_def(IntegerAttr)

    traits = traits_def(Pure())

    @classmethod
    def infer(
        cls, operands: Sequence[AnyTensor], properties: Properties, declared: Sequence[AnyTensor]
    ) -> Sequence[AnyTensor]:
        shape = CASES[int_value(properties["case"])].shape
        return (tensor(shape, operands[0].element_type),)

    def pieces(self) -> tuple[Piece, ...]:
        return CASES[int_value(self.case)].pieces

    def fill(self) -> int:
        return FILL


def expected(case: Case) -> Array:
    """Returns the result of a case, element by element, as `fuel_dialect.movement` defines it."""
    result = np.full(case.shape, FILL, case.arrays[0].dtype)
    for piece in case.pieces:
        for point in product(*map(range, piece.shape)):
            spans = list(zip(piece.spans, point, strict=True))
            place = [span.start + i for span, i in spans]
            source = [span.begin + i * span.step for span, i in spans]
            result[tuple(place_of(case, piece, place, point))] = read(case, piece, source, point)
    return result


def place_of(case: Case, piece: Piece, place: list[int], point: tuple[int, ...]) -> list[int]:
    at = piece.at
    if isinstance(at, Position):
        begin = int(case.arrays[at.index].reshape(()))
        if at.modulus is not None:
            place[at.axis] = (begin + point[at.axis]) % at.modulus
        else:
            last = case.shape[at.axis] - piece.shape[at.axis]
            place[at.axis] = min(max(begin, 0), last) + point[at.axis]
    return place


def read(case: Case, piece: Piece, source: list[int], point: tuple[int, ...]) -> Any:
    at, array = piece.at, case.arrays[piece.operand]
    if isinstance(at, Pick):
        number = int(case.arrays[at.index][tuple(point[axis] for axis in at.along)])
        extent = array.shape[at.axis]
        if not 0 <= number < extent and at.out_of_range == "fill":
            return FILL
        source[at.axis] = min(max(number, 0), extent - 1)
    return array[tuple(source)]


def drawn(rng: np.random.Generator, dtype: str, count: int) -> Iterator[Case]:
    for _ in range(count):
        shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
        arrays: list[Array] = []
        pieces = tuple(drawn_piece(rng, dtype, shape, arrays) for _ in range(rng.integers(1, 4)))
        yield Case(shape, pieces, tuple(arrays))


def drawn_piece(
    rng: np.random.Generator, dtype: str, shape: tuple[int, ...], arrays: list[Array]
) -> Piece:
    """Draws a piece inside of `shape`; adds its operand and its indices to the arrays."""
    spans: list[Span] = []
    extents: list[int] = []
    for whole in shape:
        extent = int(rng.integers(1, whole + 1))
        step, before, after = (int(n) for n in rng.integers((-1, 0, 0), (2, 3, 3)))
        length = extent if step else 1
        begin = before if step >= 0 else before + extent - 1
        spans.append(Span(int(rng.integers(0, whole - extent + 1)), extent, begin, step))
        extents.append(before + length + after)
    operand = len(arrays)
    arrays.append(rng.integers(0, 100, extents).astype(BY_NAME[dtype].numpy))
    draw = (no_index, drawn_pick, drawn_position)[int(rng.integers(0, 3))]
    return Piece(operand, tuple(spans), draw(rng, shape, spans, extents, arrays))


def no_index(*_: object) -> None:
    return None


def drawn_pick(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    spans: Sequence[Span],
    extents: Sequence[int],
    arrays: list[Array],
) -> Pick:
    axis, rank = int(rng.integers(0, len(shape))), len(shape)
    along = tuple(int(a) for a in rng.permutation(rank)[: rng.integers(1, rank + 1)])
    mode = ("error", "clamp", "fill")[int(rng.integers(0, 3))]
    outside = 0 if mode == "error" else 2
    size = [spans[a].extent for a in along]
    is_signed = bool(rng.integers(0, 2))
    low = -outside if is_signed else 0
    indices = rng.integers(low, extents[axis] + outside, size)
    arrays.append(indices.astype(np.int32 if is_signed else np.uint32))
    return Pick(len(arrays) - 1, axis, along, mode)


def drawn_position(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    spans: Sequence[Span],
    extents: Sequence[int],
    arrays: list[Array],
) -> Position:
    axis = int(rng.integers(0, len(shape)))
    width, whole = spans[axis].extent, shape[axis]
    mode = ("error", "clamp", "ring")[int(rng.integers(0, 3))]
    modulus = int(rng.integers(width, whole + 1)) if mode == "ring" else None
    most = whole - width if mode == "error" else 2 * whole
    arrays.append(np.array(rng.integers(0, most + 1), np.uint32))
    return Position(len(arrays) - 1, axis, modulus, "error" if mode == "ring" else mode)


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("numpy", 200),
        ("triton", 60),
        pytest.param("triton", 150, marks=SLOW),
        pytest.param("kompute", 20, marks=pytest.mark.needs_vulkan),
        pytest.param("kompute", 60, marks=[SLOW, pytest.mark.needs_vulkan]),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_pieces_equal_a_loop_over_their_elements(target: str, count: int, dtype: str) -> None:
    CASES[:] = drawn(np.random.default_rng(count), dtype, count)
    for start in range(0, count, 40):
        part = range(start, min(start + 40, count))
        samples = [Sample(CASES[i].arrays, {"case": integer(i)}) for i in part]
        module = module_of_samples([(PiecesOp, sample) for sample in samples], CPU)
        arrays = [array for sample in samples for array in sample.arrays]
        if target == "numpy":
            got = Session().compile(module, optimize=False)(*arrays)
        else:
            got = run_on(target, module, arrays)
        for number, found in zip(part, got, strict=True):
            np.testing.assert_array_equal(found, expected(CASES[number]), str(CASES[number]))
