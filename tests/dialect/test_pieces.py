# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests that an op which moves elements says pieces of its own result and operands."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects import test
from xdsl.irdl import irdl_op_definition, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from fuel_dialect import dtypes
from fuel_dialect.errors import PluginError, ShapeError
from fuel_dialect.movement import MovementOp, Pick, Piece, Position, Span, box
from fuel_dialect.ops.base import ANY_TENSOR, FuelOp
from fuel_dialect.tensors import AnyTensor, tensor

SAID = SimpleNamespace(pieces=tuple, fill=None, shape=(4, 3))
"""Holds what the rules of `odd.op` say."""


@irdl_op_definition
class OddOp(FuelOp, MovementOp):
    """An op of a test, whose rules are what the test says."""

    name = "odd.op"

    inputs = var_operand_def(ANY_TENSOR)
    result = result_def(ANY_TENSOR)

    @classmethod
    def infer(
        cls, operands: Sequence[AnyTensor], properties: Any, declared: Sequence[AnyTensor]
    ) -> Sequence[AnyTensor]:
        rows, *others = SAID.shape
        return (tensor((rows, *others), operands[0].element_type),)

    def pieces(self) -> tuple[Piece, ...]:
        return SAID.pieces()

    def fill(self) -> Any:
        return SAID.fill


def odd(
    monkeypatch: pytest.MonkeyPatch, *pieces: Piece, fill: Any = None, dtype: str = "i8"
) -> OddOp:
    monkeypatch.setattr(SAID, "pieces", lambda: pieces)
    monkeypatch.setattr(SAID, "fill", fill)
    types = [tensor_of((4, 3), dtype), tensor_of((4,), "i32"), tensor_of((), "i32")]
    return OddOp.make(*test.TestOp(result_types=types).results)


def tensor_of(shape: Sequence[int], dtype: str) -> AnyTensor:
    return tensor(shape, dtypes.BY_NAME[dtype].type)


WHOLE = box(0, (4, 3))


@pytest.mark.parametrize(
    "piece",
    [
        WHOLE,
        Piece(0, (Span(0, 4, 3, -1), Span(0, 3, 2, 0))),
        Piece(0, (Span(0, 4, 99), Span(0, 3)), Pick(1, 0, (0,))),
        Piece(0, (Span(0, 4), Span(0, 3)), Position(2, 0)),
    ],
)
def test_pieces_that_are_right(monkeypatch: pytest.MonkeyPatch, piece: Piece) -> None:
    odd(monkeypatch, piece).verify()


@pytest.mark.parametrize(
    ("piece", "sentence"),
    [
        (box(3, (4, 3)), "piece 0 reads operand 3; the op has 3"),
        (box(-1, (4, 3)), "piece 0 reads operand -1; the op has 3"),
        (Piece(0, WHOLE.spans, Pick(7, 0, (0,))), "piece 0 reads operand 7; the op has 3"),
        (Piece(0, WHOLE.spans[:1]), r"has 1 spans; its operand is \[4, 3\], the result \[4, 3\]"),
        (Piece(1, WHOLE.spans), r"has 2 spans; its operand is \[4\], the result \[4, 3\]"),
        (Piece(0, (Span(0, 4), Span(0, -1))), "extent of -1 and a step of 1 along axis 1"),
        (Piece(0, (Span(0, 4), Span(0, 3, 0, 2))), "extent of 3 and a step of 2 along axis 1"),
        (Piece(0, (Span(1, 4), Span(0, 3))), r"is outside the result \[4, 3\] along axis 0"),
        (Piece(0, (Span(-1, 4), Span(0, 3))), r"is outside the result \[4, 3\] along axis 0"),
        (Piece(0, (Span(0, 4), Span(0, 3, 1))), r"reads outside its operand \[4, 3\] along axis 1"),
        (Piece(0, (Span(0, 4, 2, -1), Span(0, 3))), r"reads outside its operand .* along axis 0"),
        (Piece(0, (Span(0, 4, 4, 0), Span(0, 3))), r"reads outside its operand .* along axis 0"),
        (Piece(0, (Span(0, 3), Span(0, 3))), r"leave places of \[4, 3\] without a value, and it"),
    ],
)
def test_pieces_that_are_wrong(
    monkeypatch: pytest.MonkeyPatch, piece: Piece, sentence: str
) -> None:
    with pytest.raises(VerifyException, match=sentence):
        odd(monkeypatch, piece).verify()


@pytest.mark.parametrize(
    ("fill", "dtype", "is_right"),
    [(-128, "i8", True), (-129, "i8", False), (0.5, "i8", False), (float("nan"), "f32", True)],
)
def test_a_fill_is_a_value_of_the_element_type(
    monkeypatch: pytest.MonkeyPatch, fill: Any, dtype: str, is_right: bool
) -> None:
    op = odd(monkeypatch, fill=fill, dtype=dtype)
    if is_right:
        op.verify()
    else:
        with pytest.raises(VerifyException, match=r"odd\.op: fill: .* is no i8"):
            op.verify()


def test_a_rule_of_a_package_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    op = odd(monkeypatch, WHOLE)
    monkeypatch.setattr(SAID, "pieces", lambda: 1 // 0)
    with pytest.raises(PluginError, match=r"odd\.op: its method pieces raised ZeroDivisionError"):
        op.verify()
    monkeypatch.setattr(SAID, "shape", ())
    with pytest.raises(PluginError, match=r"odd\.op: its method infer raised ValueError"):
        op.verify()
    with pytest.raises(PluginError, match=r"odd\.op: its method infer raised ValueError"):
        odd(monkeypatch, WHOLE)
    monkeypatch.setattr(SAID, "shape", (4, -1))
    with pytest.raises(ShapeError, match=r"odd\.op: gives tensor<4x-1xi8>, which has a negative"):
        odd(monkeypatch, WHOLE)
