# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tensor types and tensor values: makes them, bounds their size, and names them in messages."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.errors import DTypeError, ShapeError

AnyTensor: TypeAlias = TensorType[Attribute]

ELEMENT_LIMIT = 2**60
"""A tensor has fewer elements than this, so that its size in bytes stays below 2^63."""

MAX_RANK = 64
"""A tensor has at most this many dims, as a NumPy array has."""


def check_size(shape: Sequence[int]) -> None:
    """Raise `ShapeError` for extents that no machine can address, whether or not one is 0."""
    if len(shape) > MAX_RANK:
        raise ShapeError(f"a tensor has at most {MAX_RANK} dims, as in NumPy; got {len(shape)}")
    if prod(extent for extent in shape if extent) >= ELEMENT_LIMIT:
        raise ShapeError(f"the shape {list(shape)} is too large; a tensor has below 2^60 elements")


def tensor(shape: Sequence[int], element: Attribute | str) -> AnyTensor:
    """
    Make a tensor type from a shape and an element type or a fuel dtype name.

    Raises `ShapeError` for a shape that is too large.
    """
    check_size(shape)
    return TensorType(dtypes.of(element).type if isinstance(element, str) else element, shape)


def same_shape(type: AnyTensor, element: Attribute | str) -> AnyTensor:
    """Return the tensor type with `type`'s shape and another element type."""
    return tensor(type.get_shape(), element)


def tensor_type(value: SSAValue) -> AnyTensor:
    """Return the type of a fuel value. Raises `DTypeError` if it is no ranked tensor."""
    type = value.type
    if not isinstance(type, TensorType):
        raise DTypeError(f"expected a tensor, got {type}")
    return cast(AnyTensor, type)


def describe(value: SSAValue) -> str:
    """Name a value in a message: its name, or the op that makes it, and its type."""
    if value.name_hint is not None:
        return f"{value.name_hint} ({value.type})"
    owner = value.owner
    made = "an argument" if isinstance(owner, Block) else f"a result of {owner.name}"
    return f"{made} ({value.type})"
