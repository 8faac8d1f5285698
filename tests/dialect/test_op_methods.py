# SPDX-License-Identifier: MIT OR Apache-2.0
"""The methods of tensors that are made from op classes: which there are, and what they say."""

from __future__ import annotations

import inspect

import pytest
from xdsl.irdl import OptPropertyDef

import fuel_dialect as fuel
from fuel_dialect.builder.numpy_methods import FORWARDED, NumpyMethods
from fuel_dialect.builder.op_methods import OpMethods
from fuel_dialect.builder.tensor import Tensor
from fuel_dialect.dialect import OPS
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.comparison import ComparisonOp
from fuel_dialect.ops.elementwise import BinaryOp, UnaryOp
from fuel_dialect.ops.indexing import IndexingOp
from fuel_dialect.ops.memory import WriteOp
from fuel_dialect.ops.reduction import ReductionOp

KINDS = (UnaryOp, BinaryOp, ComparisonOp, ReductionOp, IndexingOp)
PLAIN = [op for op in OPS if issubclass(op, KINDS)]
WRITES = [op for op in OPS if issubclass(op, WriteOp)]
MADE = [name for name, method in vars(OpMethods).items() if inspect.isfunction(method)]


@pytest.mark.parametrize("op", PLAIN, ids=lambda op: op.mnemonic())
def test_every_plain_op_has_a_method_of_its_name(op: type[FuelOp]):
    method = getattr(Tensor, op.mnemonic())
    assert method.__name__ == op.mnemonic()
    properties = op.get_irdl_definition().properties.items()
    required = [name for name, kind in properties if not isinstance(kind, OptPropertyDef)]
    assert set(required) <= set(inspect.signature(method).parameters)


@pytest.mark.parametrize("op", WRITES, ids=lambda op: op.mnemonic())
def test_every_write_has_a_method_that_takes_ranges_for_its_starts(op: type[FuelOp]):
    method = getattr(Tensor, op.mnemonic())
    properties = {*op.get_irdl_definition().properties} - {"starts", "placement"}
    assert properties | {"source", "ranges"} <= set(inspect.signature(method).parameters)


@pytest.mark.parametrize("name", MADE)
def test_a_method_says_what_its_op_says(name: str):
    method = getattr(OpMethods, name)
    (op,) = (
        op
        for op in OPS
        if issubclass(op, FuelOp) and op.mnemonic() == name.removeprefix("broadcast_")
    )
    assert (method.__doc__ or "").startswith(inspect.getdoc(op) or "no docstring")
    assert getattr(Tensor, name) is method


def test_what_a_method_takes_is_said_from_the_op():
    assert "Takes floats." in (Tensor.sqrt.__doc__ or "")
    assert "Raises `ShapeError` over no elements." in " ".join(
        (Tensor.max_dim.__doc__ or "").split()
    )
    assert str(inspect.signature(Tensor.sum_dim)) == "(self, dim: 'SupportsIndex') -> 'Self'"


def test_operators_are_methods_under_another_name():
    g = fuel.Graph()
    x = g.input((2,), "f32")
    for operator, name in FORWARDED.items():
        assert getattr(x, operator)(2.0).type == getattr(x, name)(2.0).type
    assert {x: 1}[x] == 1


def test_made_methods_do_not_hide_one_another():
    assert not set(MADE) & {n for n, m in vars(NumpyMethods).items() if inspect.isfunction(m)}
