# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import IndexType, IntegerType, bf16, f32, i1, i64

from fuel_dialect import dtypes
from fuel_dialect.errors import DTypeError
from fuel_dialect.tensors import tensor

HELD = [d for d in dtypes.TABLE if d.numpy_name is not None]


@pytest.mark.parametrize("entry", dtypes.TABLE, ids=str)
def test_names_are_those_of_the_types(entry: dtypes.DType):
    assert str(entry.type) == entry.name == str(entry)
    assert dtypes.of(entry.name) is entry
    assert dtypes.of(entry.type) is entry
    assert dtypes.of(entry) is entry
    assert dtypes.of_type(tensor((2,), entry.type)) is entry


@pytest.mark.parametrize("entry", HELD, ids=str)
def test_host_types_have_the_right_size(entry: dtypes.DType):
    assert entry.numpy.itemsize == entry.itemsize
    assert entry.itemsize * 8 == max(entry.bits, 8)
    assert dtypes.of(entry.numpy) is entry
    assert dtypes.of(entry.numpy.type) is entry


@pytest.mark.parametrize("name", ["f6E2M3FN", "f6E3M2FN", "f4E2M1FN"])
def test_packed_types_are_bytes(name: str):
    assert dtypes.of(name).itemsize == 0
    with pytest.raises(DTypeError, match=f"dtype {name} has no NumPy type; it is stored as bytes"):
        _ = dtypes.of(name).numpy


def test_names_are_unique():
    assert len(dtypes.BY_NAME) == len(dtypes.BY_TYPE) == len(dtypes.TABLE) == 17


def test_classes():
    assert dtypes.FLOATS == ("bf16", "f16", "f32", "f64")
    assert dtypes.INTEGERS == ("i8", "i16", "i32", "i64", "ui8", "ui32")
    assert dtypes.MASK == ("i1",)
    assert [d.name for d in dtypes.TABLE if d.kind == "storage"] == [
        "f8E4M3FN",
        "f8E5M2",
        "f8E8M0FNU",
        "f6E2M3FN",
        "f6E3M2FN",
        "f4E2M1FN",
    ]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (np.float32, "f32"),
        ("float32", "f32"),
        (float, "f64"),
        (bool, "i1"),
        (np.dtype("int8"), "i8"),
        (np.uint8, "ui8"),
        ("uint32", "ui32"),
        (ml_dtypes.bfloat16, "bf16"),
        ("bfloat16", "bf16"),
        ("float8_e4m3fn", "f8E4M3FN"),
        (f32, "f32"),
        (bf16, "bf16"),
        (i1, "i1"),
        (i64, "i64"),
    ],
)
def test_many_spellings(given: object, name: str):
    assert dtypes.of(given).name == name


@pytest.mark.parametrize("given", ["uint64", "uint16", np.complex64, "nonsense", object, "f7"])
def test_other_types_are_refused(given: object):
    with pytest.raises(DTypeError, match=r"fuel has no dtype .*; use one of i1, i8"):
        dtypes.of(given)


@pytest.mark.parametrize("type", [IntegerType(7), IndexType(), IntegerType(128)], ids=str)
def test_other_element_types_are_refused(type: IntegerType | IndexType):
    with pytest.raises(DTypeError, match="is not an element type of fuel"):
        dtypes.of_type(type)


@pytest.mark.parametrize("source", HELD, ids=str)
@pytest.mark.parametrize("target", HELD, ids=str)
def test_lossless_upcasts_lose_nothing(source: dtypes.DType, target: dtypes.DType):
    if not dtypes.lossless_upcast(source, target):
        return
    bits = np.random.default_rng(0).integers(0, 256, 64 * source.itemsize, np.uint8)
    values = bits.view(source.numpy) if source.kind != "mask" else bits % 2 == 0
    with np.errstate(all="ignore"):
        back = values.astype(target.numpy).astype(source.numpy)
        assert ((back == values) | (values != values)).all()


def test_the_lossless_table():
    pairs = [
        (s.name, t.name)
        for s in dtypes.TABLE
        for t in dtypes.TABLE
        if s is not t and dtypes.lossless_upcast(s, t)
    ]
    assert pairs == [
        ("bf16", "f32"),
        ("bf16", "f64"),
        ("f16", "f32"),
        ("f16", "f64"),
        ("f32", "f64"),
    ]
