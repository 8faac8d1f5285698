# SPDX-License-Identifier: MIT OR Apache-2.0
"""The dialect object: every op and attribute, by category."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import cast

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.ir import Attribute, Dialect, Operation

from fuel_dialect import attributes
from fuel_dialect.ops import (
    base,
    comparison,
    control,
    elementwise,
    indexing,
    linear_algebra,
    memory,
    normalization,
    reduction,
    scan,
    shape,
)
from fuel_dialect.ops.base import ConstOp, FuelOp
from fuel_dialect.tensors import AnyTensor

CATEGORIES: tuple[ModuleType, ...] = (
    base,
    elementwise,
    comparison,
    shape,
    reduction,
    linear_algebra,
    indexing,
    memory,
    normalization,
    control,
    scan,
)
"""The modules whose op classes make the dialect."""


class FuelConstants(ConstantMaterializationInterface):
    """Turns the result of a folder into a `fuel.const`."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation:
        return ConstOp.make(declared=[cast(AnyTensor, type)], value=value)


def _defined_in(module: ModuleType) -> Iterator[type[FuelOp]]:
    for item in vars(module).values():
        if isinstance(item, type) and item.__module__ == module.__name__ and "name" in vars(item):
            yield item


OPS: tuple[type[FuelOp], ...] = tuple(op for module in CATEGORIES for op in _defined_in(module))

Fuel = Dialect(
    "fuel",
    list(OPS),
    [
        attributes.DeviceAttr,
        attributes.TargetAttr,
        attributes.TopologyAttr,
        attributes.ArmAttr,
        attributes.BytesAttr,
    ],
    [FuelConstants()],
)
