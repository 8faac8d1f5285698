# SPDX-License-Identifier: MIT OR Apache-2.0
"""Folding gives what the reference gives, bit for bit, and keeps splats small."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import FloatAttr, FunctionType, ModuleOp, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.transforms.canonicalize import CanonicalizePass

from fuel_dialect import dtypes
from fuel_dialect.attributes import BytesAttr
from fuel_dialect.context import make_context
from fuel_dialect.numbers import integer
from fuel_dialect.ops.base import ConstOp, FuelOp
from fuel_dialect.ops.elementwise import (
    AddOp,
    CastOp,
    DivOp,
    ExpOp,
    MaximumOp,
    MulScalarOp,
    NegOp,
    WhereOp,
)
from fuel_dialect.ops.indexing import IndexSelectOp
from fuel_dialect.ops.reduction import SumAllOp
from fuel_dialect.ops.shape import BroadcastToOp, ConcatOp, FlipOp, ReshapeOp
from fuel_dialect.reference.constants import attribute
from fuel_dialect.reference.folding import FOLD_LIMIT
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import tensor
from ops_on_arrays import apply, arrays, few, same_bits, shapes

HELD = [d.name for d in dtypes.TABLE if d.numpy_name is not None]


def canonicalized(*constants: ConstOp, last: type[FuelOp], **given: Any) -> Operation:
    """The op that gives the result of `last` on the constants, after canonicalisation."""
    function = FuncOp("main", FunctionType.from_lists([], []))
    with ImplicitBuilder(function.body):
        values = [constant.clone().result for constant in constants]
        op = last.make(*values, **given)
        ReturnOp(op.results[0])
    function.function_type = FunctionType.from_lists([], [op.results[0].type])
    module = ModuleOp([function])
    module.verify()
    CanonicalizePass().apply(make_context(), module)
    module.verify()
    end = function.body.block.last_op
    assert end is not None
    result: SSAValue = end.operands[0]
    assert isinstance(result.owner, Operation)
    return result.owner


def folded(*constants: ConstOp, last: type[FuelOp], **given: Any) -> ConstOp:
    op = canonicalized(*constants, last=last, **given)
    assert isinstance(op, ConstOp)
    return op


@few
@pytest.mark.parametrize("dtype", HELD)
@given(data=st.data())
def test_constants_hold_every_bit(dtype: str, data: st.DataObject):
    array = data.draw(arrays(dtype, shapes()))
    constant = ConstOp.from_numpy(array)
    assert constant.to_numpy().tobytes() == array.tobytes()
    assert not constant.to_numpy().flags.writeable


@pytest.mark.parametrize("dtype", HELD)
def test_equal_bits_make_a_splat(dtype: str):
    array = np.ones((2, 3), np.float32).astype(dtypes.of(dtype).numpy)
    assert ConstOp.from_numpy(array).splat is not None
    assert ConstOp.from_numpy(np.broadcast_to(array[:1, :1], (500, 500))).splat is not None


def test_a_number_holds_every_nan_but_signalling_ones():
    nan = np.full(3, math.nan, np.float32)
    assert attribute(nan) == FloatAttr(math.nan, f32)
    for bits, held in ((0xFFC00000, FloatAttr), (0x7FC00001, FloatAttr), (0x7F800001, BytesAttr)):
        payload = np.full(3, bits, np.uint32).view(np.float32)
        assert isinstance(attribute(payload), held)
        check(ConstOp.from_numpy(payload), payload)
    zeros = np.array([0.0, -0.0], np.float32)
    assert attribute(zeros) == BytesAttr(bytes.fromhex("0000000000000080"))
    assert attribute(zeros[1:]) == FloatAttr(-0.0, f32)


@few
@pytest.mark.parametrize("dtype", dtypes.NUMERIC)
@given(data=st.data())
def test_folding_is_the_reference(dtype: str, data: st.DataObject):
    shape = data.draw(shapes())
    a, b = data.draw(arrays(dtype, shape)), data.draw(arrays(dtype, shape))
    constants = ConstOp.from_numpy(a), ConstOp.from_numpy(b)
    for op in (AddOp, DivOp, MaximumOp):
        result = folded(*constants, last=op).to_numpy()
        assert same_bits(result, apply(op.mnemonic(), a, b))


def full(value: float, shape: tuple[int, ...]) -> ConstOp:
    return ConstOp.splat_of(value, tensor(shape, "f32"))


HUGE = (1 << 20, 1 << 20)


def test_splats_stay_splats_at_any_size():
    assert folded(full(2.0, HUGE), full(3.0, HUGE), last=AddOp).splat == 5.0
    assert folded(full(2.0, HUGE), last=NegOp).splat == -2.0
    assert folded(full(2.0, HUGE), last=FlipOp, dim=integer(0)).splat == 2.0
    wide = folded(full(-0.0, ()), last=BroadcastToOp, declared=[tensor(HUGE, "f32")])
    assert wide.value == FloatAttr(-0.0, f32)
    assert wide.type == tensor(HUGE, "f32")
    count = HUGE[0] * HUGE[1]
    assert folded(full(2.0, HUGE), last=ReshapeOp, declared=[tensor((count,), "f32")]).splat == 2.0
    cast = folded(full(2.5, HUGE), last=CastOp, declared=[tensor(HUGE, "i8")])
    assert (cast.splat, cast.type) == (2, tensor(HUGE, "i8"))
    mask = ConstOp.splat_of(True, tensor(HUGE, "i1"))
    assert folded(mask, full(1.0, HUGE), full(2.0, HUGE), last=WhereOp).splat == 1.0


def test_large_results_that_are_no_splat_are_left():
    half = FOLD_LIMIT // 2
    below = canonicalized(full(1.0, (half,)), full(2.0, (half,)), last=ConcatOp, dim=integer(0))
    assert isinstance(below, ConstOp)
    above = canonicalized(full(1.0, (half,)), full(2.0, (half + 1,)), last=ConcatOp, dim=integer(0))
    assert isinstance(above, ConcatOp)
    assert isinstance(canonicalized(full(1.0, (half * 3,)), last=SumAllOp), SumAllOp)


def test_what_raises_is_left_to_raise():
    index = ConstOp.from_numpy(np.array([2], np.uint32))
    inside = ConstOp.from_numpy(np.array([1], np.uint32))
    pair = ConstOp.from_numpy(np.array([1.0, 2.0], np.float32))
    assert isinstance(canonicalized(pair, index, last=IndexSelectOp, dim=integer(0)), IndexSelectOp)
    assert folded(pair, inside, last=IndexSelectOp, dim=integer(0)).splat == 2.0


def check(constant: ConstOp, expected: Array) -> None:
    assert constant.to_numpy().tobytes() == expected.tobytes()


def test_nan_and_signed_zero_are_exact():
    check(folded(full(math.nan, (2,)), full(1.0, (2,)), last=MaximumOp), np.full(2, math.nan, "f4"))
    check(folded(full(0.0, (2,)), last=NegOp), np.array([-0.0, -0.0], "f4"))
    scalar = FloatAttr(-0.0, f32)
    check(folded(full(1.0, (2,)), last=MulScalarOp, scalar=scalar), np.array([-0.0, -0.0], "f4"))
    check(folded(full(-math.inf, (2,)), last=ExpOp), np.zeros(2, "f4"))


def test_a_computed_nan_stays_a_splat():
    negative = folded(full(math.inf, HUGE), full(-math.inf, HUGE), last=AddOp)
    assert math.isnan(negative.splat or 0.0)
    one = ConstOp.from_numpy(np.full(2, 0x7F800001, np.uint32).view(np.float32))
    assert np.isnan(folded(one, last=NegOp).to_numpy()).all()


def test_empty_constants_fold():
    check(folded(full(1.0, (0, 3)), full(1.0, (0, 3)), last=AddOp), np.zeros((0, 3), "f4"))
    assert folded(full(1.0, (0, 3)), last=SumAllOp).splat == 0.0
