# SPDX-License-Identifier: MIT OR Apache-2.0
"""Leaves of a run: arrays that are written once, and weights by their key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.base import ConstOp
from fuel_dialect.ops.memory import IotaOp
from fuel_dialect.tensors import AnyTensor, tensor_type

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class WeightUse:
    """A weight that a run reads: its key in the weights file and its type."""

    key: str
    type: AnyTensor


def array_of(op: Operation) -> np.ndarray[Any, Any]:
    """Returns the elements of a constant or an iota."""
    import numpy as np

    if isinstance(op, ConstOp):
        return np.ascontiguousarray(op.to_numpy())
    if isinstance(op, IotaOp):
        (extent,) = tensor_type(op.result).get_shape()
        return np.arange(extent).astype(np.float32)
    raise LoweringError(f"{op.name}: this target does not know the leaf")
