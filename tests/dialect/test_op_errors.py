# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests what `FuelOp.make` accepts and infers, and its errors."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, UnitAttr
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from fuel_dialect import dtypes
from fuel_dialect.errors import DTypeError, GraphError, ShapeError, UnsupportedDTypeForOp
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.ops.elementwise import BinaryOp, FloatUnaryOp, UnaryOp
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from ops_on_arrays import BY_MNEMONIC, make


def t(*shape: int, dtype: str = "f32") -> AnyTensor:
    return tensor(shape, dtype)


def result(mnemonic: str, *operands: AnyTensor, **options: Any) -> AnyTensor:
    op = make(mnemonic, *operands, **options)
    op.verify()
    return tensor_type(op.results[0])


BINARY = sorted(n for n, op in BY_MNEMONIC.items() if issubclass(op, BinaryOp))
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_two_operands_must_agree(name: str):
    expected = t(3) if name in BINARY else t(3, dtype="i1")
    assert result(name, t(3), t(3)) == expected
    with pytest.raises(ShapeError, match=rf"{name}: shape mismatch: \[3\], \[4\]"):
        make(name, t(3), t(4))
    with pytest.raises(DTypeError, match=f"{name}: dtype mismatch: f32, f16; insert a cast"):
        make(name, t(3), t(4, dtype="f16"))


UNARY = sorted(
    n
    for n, op in BY_MNEMONIC.items()
    if issubclass(op, UnaryOp) and not op.get_irdl_definition().properties.keys() - {"placement"}
)


@pytest.mark.parametrize("name", UNARY)
def test_one_operand_keeps_its_type(name: str):
    assert result(name, t(3, 0)) == t(3, 0)
    assert result(name, t(dtype="bf16")) == t(dtype="bf16")
    floats_only = issubclass(BY_MNEMONIC[name], FloatUnaryOp)
    for dtype in dtypes.INTEGERS:
        if floats_only:
            with pytest.raises(UnsupportedDTypeForOp, match=f"{name}: unsupported dtype {dtype}"):
                make(name, t(3, dtype=dtype))
        else:
            assert result(name, t(3, dtype=dtype)) == t(3, dtype=dtype)
    for dtype in ("i1", "f8E4M3FN", "f4E2M1FN"):
        with pytest.raises(UnsupportedDTypeForOp, match=f"unsupported dtype {dtype}"):
            make(name, t(3, dtype=dtype))


def test_scalar_ops_keep_the_type():
    for name, properties in (
        ("add_scalar", {"scalar": 2.0}),
        ("mul_scalar", {"scalar": 2.0}),
        ("powi", {"exponent": 3}),
        ("clamp", {"min": -1.0, "max": 1.0}),
    ):
        assert result(name, t(3), **properties) == t(3)


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.0), (float("nan"), 1.0), (0.0, float("nan"))])
def test_clamp_wants_ordered_bounds(low: float, high: float):
    with pytest.raises(GraphError, match=r"clamp: min .* must be <= max"):
        make("clamp", t(3), min=low, max=high)


def test_where():
    mask = t(3, dtype="i1")
    assert result("where", mask, t(3), t(3)) == t(3)
    with pytest.raises(DTypeError, match="where: the condition must be i1, got ui8"):
        make("where", t(3, dtype="ui8"), t(3), t(3))
    with pytest.raises(DTypeError, match="where: dtype mismatch: f32, f64"):
        make("where", mask, t(3), t(3, dtype="f64"))
    with pytest.raises(ShapeError, match="where: shape mismatch"):
        make("where", mask, t(4), t(4))


def zero(dtype: str) -> IntegerAttr[Any] | FloatAttr[Any]:
    element: Any = dtypes.of(dtype).type
    number = dtypes.of(dtype).kind in ("float", "storage")
    return FloatAttr(0.0, element) if number else IntegerAttr(0, element)


@pytest.mark.parametrize("dtype", [*dtypes.ORDERED, "f8E4M3FN", "f8E5M2"])
def test_masked_fill_takes_what_has_a_fill_value(dtype: str):
    x = t(3, dtype=dtype)
    assert result("masked_fill", x, t(3, dtype="i1"), value=zero(dtype)) == x


@pytest.mark.parametrize("dtype", ["f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E8M0FNU"])
def test_masked_fill_refuses_packed_and_scale_types_before_it_looks_at_the_value(dtype: str):
    with pytest.raises(UnsupportedDTypeForOp, match=f"masked_fill: unsupported dtype {dtype}"):
        make("masked_fill", t(3, dtype=dtype), t(3, dtype="i1"), value=zero("f32"))


def test_masked_fill_checks_in_order():
    with pytest.raises(ShapeError, match="masked_fill: shape mismatch"):
        make("masked_fill", t(3), t(4, dtype="ui8"), value=zero("i8"))
    with pytest.raises(DTypeError, match="masked_fill: the mask must be i1, got ui8"):
        make("masked_fill", t(3), t(3, dtype="ui8"), value=zero("i8"))
    with pytest.raises(DTypeError, match="must have the dtype f32 of x"):
        make("masked_fill", t(3), t(3, dtype="i1"), value=zero("i8"))


def test_cast_keeps_the_shape():
    assert result("cast", t(3), declared=[t(3, dtype="f64")]) == t(3, dtype="f64")
    with pytest.raises(ShapeError, match="cast: shape mismatch"):
        make("cast", t(3), declared=[t(4, dtype="f64")])
    with pytest.raises(UnsupportedDTypeForOp, match="cast: unsupported dtype f6E2M3FN"):
        make("cast", t(3), declared=[t(3, dtype="f6E2M3FN")])


def test_transpose_and_permute():
    assert result("transpose", t(2, 3)) == t(3, 2)
    assert result("transpose", t(2, 3, 4)) == t(2, 4, 3)
    with pytest.raises(ShapeError, match=r"needs rank >= 2, got \[3\]"):
        make("transpose", t(3))
    assert result("permute", t(2, 3, 4), axes=(2, 0, 1)) == t(4, 2, 3)
    for axes, words in (
        ((0, 1), "must equal tensor rank 3"),
        ((0, 1, 3), "axis 3 is out of bounds"),
        ((0, 1, -1), "axis -1 is out of bounds"),
        ((0, 1, 1), "duplicate axis 1"),
    ):
        with pytest.raises(ShapeError, match=words):
            make("permute", t(2, 3, 4), axes=axes)


def test_broadcast_to():
    assert result("broadcast_to", t(3), declared=[t(2, 3)]) == t(2, 3)
    assert result("broadcast_to", t(3, 1), declared=[t(3, 4)]) == t(3, 4)
    assert result("broadcast_to", t(1), declared=[t(0)]) == t(0)
    with pytest.raises(ShapeError, match=r"\[3\] is incompatible with \[2, 4\].* got 3 for 4"):
        make("broadcast_to", t(3), declared=[t(2, 4)])
    with pytest.raises(ShapeError, match=r"rank of .* exceeds rank"):
        make("broadcast_to", t(2, 3), declared=[t(3)])
    with pytest.raises(DTypeError, match="dtype mismatch: f32 and f64; a view keeps the dtype"):
        make("broadcast_to", t(3), declared=[t(2, 3, dtype="f64")])


def test_unsqueeze_and_squeeze():
    for dim, shape in ((0, (1, 2, 3)), (1, (2, 1, 3)), (2, (2, 3, 1))):
        assert result("unsqueeze", t(2, 3), dim=dim) == t(*shape)
    with pytest.raises(ShapeError, match="unsqueeze: dim 3 is out of bounds"):
        make("unsqueeze", t(2, 3), dim=3)
    assert result("squeeze", t(2, 1, 3), dim=1) == t(2, 3)
    with pytest.raises(ShapeError, match="has size 2, expected 1"):
        make("squeeze", t(2, 1), dim=0)
    with pytest.raises(ShapeError, match="squeeze: dim 2 is out of bounds"):
        make("squeeze", t(2, 1), dim=2)


def test_slice_flip_and_reshape():
    assert result("slice", t(3, 4), dim=1, start=1, length=2) == t(3, 2)
    assert result("slice", t(3, 4), dim=1, start=4, length=0) == t(3, 0)
    for start, length in ((3, 2), (-1, 1), (0, -1), (5, 0)):
        with pytest.raises(ShapeError, match="exceeds dim size 4"):
            make("slice", t(3, 4), dim=1, start=start, length=length)
    with pytest.raises(ShapeError, match="slice: dim 2 is out of bounds"):
        make("slice", t(3, 4), dim=2, start=0, length=0)
    with pytest.raises(ShapeError, match="flip: dim 2 is out of bounds"):
        make("flip", t(3, 4), dim=2)
    assert result("reshape", t(2, 3), declared=[t(3, 2)]) == t(3, 2)
    assert result("reshape", t(0, 3), declared=[t(7, 0)]) == t(7, 0)
    with pytest.raises(ShapeError, match=r"element count mismatch: .* 6 elements, .* has 5"):
        make("reshape", t(2, 3), declared=[t(5)])


def test_concat():
    assert result("concat", t(2, 3), t(2, 4), dim=1) == t(2, 7)
    assert result("concat", t(2, 3), t(0, 3), t(1, 3), dim=0) == t(3, 3)
    for operands, error, words in (
        ((t(2, 3), t(3, 4)), ShapeError, "non-dim shapes differ"),
        ((t(2, 3), t(3)), ShapeError, "rank mismatch"),
        ((t(2, 3), t(2, 3, dtype="f64")), DTypeError, "dtype mismatch"),
        ((), GraphError, "needs one operand or more"),
    ):
        with pytest.raises(error, match=f"concat: {words}"):
            make("concat", *operands, dim=1)
    with pytest.raises(ShapeError, match="concat: dim 2 is out of bounds"):
        make("concat", t(2, 3), dim=2)


def test_reductions():
    for name in ("sum_all", "max_all", "min_all", "mean_all"):
        assert result(name, t(2, 3)) == t()
    for name in ("sum_dim", "max_dim", "min_dim", "mean_dim", "argmax_dim", "argmin_dim"):
        dtype = "ui32" if name.startswith("arg") else "f32"
        assert result(name, t(2, 3, 4), dim=1) == t(2, 4, dtype=dtype)
        with pytest.raises(ShapeError, match=f"{name}: dim 3 is out of bounds"):
            make(name, t(2, 3, 4), dim=3)
    for name in ("sum_all", "mean_all"):
        with pytest.raises(UnsupportedDTypeForOp, match=f"{name}: unsupported dtype i1"):
            make(name, t(2, dtype="i1"))


def test_empty_reductions_without_a_value_are_refused():
    for name in ("max_dim", "min_dim", "argmax_dim", "argmin_dim"):
        with pytest.raises(ShapeError, match=rf"{name}: an empty reduction of \[2, 0\]"):
            make(name, t(2, 0), dim=1)
        assert result(name, t(2, 0), dim=0).get_shape() == (0,)
    for name in ("max_all", "min_all"):
        with pytest.raises(ShapeError, match="an empty reduction"):
            make(name, t(2, 0))
    with pytest.raises(ShapeError, match="an empty reduction"):
        make("reduce_max_to", t(0, 3), declared=[t(3)])
    assert result("reduce_max_to", t(0, 3), declared=[t(0, 1)]) == t(0, 1)


@pytest.mark.parametrize("name", ["reduce_sum_to", "reduce_max_to"])
def test_reductions_to_a_shape(name: str):
    for target in (t(4), t(3, 1), t(), t(1, 1), t(3, 4)):
        assert result(name, t(3, 4), declared=[target]) == target
    with pytest.raises(ShapeError, match=rf"{name}: \[3, 2\] is incompatible with \[3, 4\]"):
        make(name, t(3, 4), declared=[t(3, 2)])
    with pytest.raises(ShapeError, match=f"{name}: rank of .* exceeds"):
        make(name, t(4), declared=[t(1, 4)])


def test_matmul():
    assert result("matmul", t(2, 3), t(3, 4)) == t(2, 4)
    assert result("matmul", t(2, 3, 4), t(2, 4, 5)) == t(2, 3, 5)
    assert result("matmul", t(1, 32, 1, 64), t(1, 4, 64, 9)) == t(1, 32, 1, 9)
    assert result("matmul", t(2, 3), t(3, 4, dtype="bf16")) == t(2, 4)
    for operands, error, words in (
        ((t(2, 3), t(4, 5)), ShapeError, "inner dim mismatch: 3 of .* and 4 of"),
        ((t(2, 3, 4), t(3, 4, 5)), ShapeError, "batch dim mismatch at dim 0"),
        ((t(1, 3, 4), t(2, 4, 5)), ShapeError, "batch dim mismatch at dim 0"),
        ((t(2, 3, 4), t(0, 4, 5)), ShapeError, "batch dim mismatch at dim 0"),
        ((t(3), t(3, 4)), ShapeError, "needs rank >= 2"),
        ((t(2, 3, 4), t(4, 5)), ShapeError, "ranks of .* differ; reshape or broadcast_to one"),
        ((t(2, 3, dtype="bf16"), t(3, 4)), DTypeError, "dtype mismatch: bf16 and f32"),
        ((t(2, 3), t(3, 4, dtype="f16")), DTypeError, "dtype mismatch: f32 and f16"),
        ((t(2, 3, dtype="i1"), t(3, 4, dtype="i1")), UnsupportedDTypeForOp, "unsupported dtype"),
    ):
        with pytest.raises(error, match=f"matmul: {words}"):
            make("matmul", *operands)
    tf32 = UnitAttr()
    assert result("matmul", t(2, 3), t(3, 4, dtype="bf16"), allow_tf32=tf32) == t(2, 4)
    with pytest.raises(
        DTypeError, match=r"matmul: allow_tf32 is for products of f32, not of .*f64"
    ):
        make("matmul", t(2, 3, dtype="f64"), t(3, 4, dtype="f64"), allow_tf32=tf32)


def test_indexing():
    index = t(5, dtype="ui32")
    assert result("index_select", t(3, 4), index, dim=0) == t(5, 4)
    assert result("gather", t(2, 3), t(2, 5, dtype="ui32"), dim=1) == t(2, 5)
    for name in ("index_select", "gather"):
        with pytest.raises(DTypeError, match=f"{name}: indices must be U32"):
            make(name, t(3), t(5), dim=0)
        with pytest.raises(ShapeError, match=f"{name}: dim 1 is out of bounds"):
            make(name, t(3), index, dim=1)
    with pytest.raises(ShapeError, match=r"must be rank 1, got \[2, 2\]"):
        make("index_select", t(3), t(2, 2, dtype="ui32"), dim=0)
    with pytest.raises(ShapeError, match="must have the same rank"):
        make("gather", t(3, 4), index, dim=0)
    with pytest.raises(ShapeError, match=r"reach beyond the data .* at dim 1"):
        make("gather", t(3, 4), t(3, 5, dtype="ui32"), dim=0)


def test_row_ops():
    for name in ("softmax_last_dim", "log_softmax_last_dim"):
        assert result(name, t(2, 0)) == t(2, 0)
        with pytest.raises(ShapeError, match=f"{name}: needs rank >= 1"):
            make(name, t())
        with pytest.raises(UnsupportedDTypeForOp, match=f"{name}: unsupported dtype i32"):
            make(name, t(2, dtype="i32"))
    for name in ("layer_norm_last_dim", "rms_norm_last_dim"):
        assert result(name, t(2, 2), eps=1e-6) == t(2, 2)
        with pytest.raises(ShapeError, match=rf"{name}: the last dim of \[2, 0\] must be > 0"):
            make(name, t(2, 0), eps=1e-6)
        with pytest.raises(ShapeError, match=f"{name}: needs rank >= 1"):
            make(name, t(), eps=1e-6)


def test_leaves():
    assert result("weight", declared=[t(2)], key="w") == t(2)
    with pytest.raises(GraphError, match="weight: needs a name"):
        make("weight", declared=[t(2)], key="")
    with pytest.raises(ShapeError, match="iota: gives rank 1"):
        make("iota", declared=[t(2, 2)])
    with pytest.raises(UnsupportedDTypeForOp, match="iota: unsupported dtype i32"):
        make("iota", declared=[t(2, dtype="i32")])
    with pytest.raises(DTypeError, match="const: dtype mismatch: the value is f64"):
        ConstOp.make(declared=[t(2)], value=zero("f64"))


def test_a_refused_op_leaves_its_operands_without_uses():
    x, y = create_ssa_value(t(3)), create_ssa_value(t(4))
    with pytest.raises(ShapeError):
        BY_MNEMONIC["add"].make(x, y)
    assert x.first_use is None
    assert y.first_use is None


def test_a_declared_type_that_is_not_the_inferred_one_is_refused():
    x = create_ssa_value(t(2, 3))
    op = BY_MNEMONIC["transpose"].create(operands=[x], result_types=[t(2, 3)])
    with pytest.raises(
        VerifyException, match="transpose: gives tensor<3x2xf32>, not tensor<2x3xf32>"
    ):
        op.verify()


def test_placement_is_a_property():
    from fuel_dialect.attributes import DeviceAttr

    op = make("neg", t(2), placement=DeviceAttr.of("cuda:1"))
    op.verify()
    assert op.placement == DeviceAttr.of("cuda:1")
