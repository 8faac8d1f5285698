# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The element types of fuel: one table that relates the name of a type, its builtin xDSL
type, its NumPy (or ml_dtypes) type and its class.

The set is that of the predecessor of fuel (`docs/catalogue.md`). Types that builtin or ml_dtypes
lack are storage only: they are held as bytes and no arithmetic op takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from xdsl.dialects import builtin
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType
from xdsl.ir import Attribute

from fuel_dialect.errors import DTypeError

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["mask", "signed", "unsigned", "float", "storage"]


@dataclass(frozen=True)
class DType:
    """One element type."""

    name: str
    type: Attribute
    kind: Kind
    bits: int
    numpy_name: str | None
    """Attribute of `numpy`, or of `ml_dtypes` where NumPy has none; None: bytes only."""

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest value of an integer type."""
        if self.kind == "unsigned":
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    @property
    def itemsize(self) -> int:
        """Bytes of one element; 0 for packed types, which have no addressable element."""
        return self.bits // 8 if self.bits >= 8 else int(self.kind == "mask")

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type that holds the elements on the host. Raises `DTypeError` if none does."""
        import numpy as np

        if self.numpy_name is None:
            raise DTypeError(f"dtype {self.name} has no NumPy type; it is stored as bytes (ui8)")
        if hasattr(np, self.numpy_name):
            return np.dtype(getattr(np, self.numpy_name))
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, self.numpy_name))

    def __str__(self) -> str:
        return self.name


def _unsigned(bits: int) -> IntegerType:
    return IntegerType(bits, Signedness.UNSIGNED)


TABLE: tuple[DType, ...] = (
    DType("i1", builtin.i1, "mask", 1, "bool_"),
    DType("i8", builtin.i8, "signed", 8, "int8"),
    DType("i16", builtin.i16, "signed", 16, "int16"),
    DType("i32", builtin.i32, "signed", 32, "int32"),
    DType("i64", builtin.i64, "signed", 64, "int64"),
    DType("ui8", _unsigned(8), "unsigned", 8, "uint8"),
    DType("ui32", _unsigned(32), "unsigned", 32, "uint32"),
    DType("bf16", builtin.bf16, "float", 16, "bfloat16"),
    DType("f16", builtin.f16, "float", 16, "float16"),
    DType("f32", builtin.f32, "float", 32, "float32"),
    DType("f64", builtin.f64, "float", 64, "float64"),
    DType("f8E4M3FN", builtin.Float8E4M3FNType(), "storage", 8, "float8_e4m3fn"),
    DType("f8E5M2", builtin.Float8E5M2Type(), "storage", 8, "float8_e5m2"),
    DType("f8E8M0FNU", builtin.Float8E8M0FNUType(), "storage", 8, "float8_e8m0fnu"),
    DType("f6E2M3FN", builtin.Float6E2M3FNType(), "storage", 6, None),
    DType("f6E3M2FN", builtin.Float6E3M2FNType(), "storage", 6, None),
    DType("f4E2M1FN", builtin.Float4E2M1FNType(), "storage", 4, None),
)

BY_NAME = {d.name: d for d in TABLE}
BY_TYPE = {d.type: d for d in TABLE}

MASK = ("i1",)
FLOATS = tuple(d.name for d in TABLE if d.kind == "float")
INTEGERS = tuple(d.name for d in TABLE if d.is_integer)
NUMERIC = INTEGERS + FLOATS
ORDERED = MASK + NUMERIC
"""Types that can be compared, filled and moved element by element."""


def of_type(type: Attribute) -> DType:
    """The entry of a tensor type or of an element type. Raises `DTypeError` for others."""
    element = type
    if isinstance(type, TensorType):
        element = cast("TensorType[Attribute]", type).element_type
    try:
        return BY_TYPE[element]
    except KeyError:
        raise DTypeError(
            f"{element} is not an element type of fuel; use one of {', '.join(BY_NAME)}"
        ) from None


BY_NUMPY_NAME = {(d.numpy_name or "").removesuffix("_"): d for d in TABLE if d.numpy_name}
"""By `numpy.dtype.name`, which NumPy and ml_dtypes both give; looking here imports neither."""


def of(dtype: object) -> DType:
    """
    The entry for a fuel name ("f32"), an xDSL element type, or anything `numpy.dtype` takes.

    Raises `DTypeError` if fuel has no such type.
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, Attribute):
        return of_type(dtype)
    if isinstance(dtype, str) and (known := BY_NAME.get(dtype) or BY_NUMPY_NAME.get(dtype)):
        return known
    import numpy as np

    try:
        name = np.dtype(dtype).name  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownMemberType, reportUnknownVariableType]
    except TypeError:
        name = str(dtype)
    try:
        return BY_NUMPY_NAME[name]
    except KeyError:
        raise DTypeError(f"fuel has no dtype {name}; use one of {', '.join(BY_NAME)}") from None


def lossless_upcast(source: DType, target: DType) -> bool:
    """Returns True if every value of `source` is one of `target`, by the reference's table."""
    if source == target:
        return True
    return target.name in {
        "bf16": ("f32", "f64"),
        "f16": ("f32", "f64"),
        "f32": ("f64",),
    }.get(source.name, ())
