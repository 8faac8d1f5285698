# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-promote-dtypes`: lossless casts where no candidate target has the mixed-dtype kernel."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from fuel_dialect import dtypes
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.elementwise import CastOp
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.tensors import same_shape, tensor_type
from fuel_passes.diagnostics import fail
from fuel_passes.planning.serving import Site, element_types, serves, serves_types, sites
from fuel_passes.planning.topology import resolve

logger = logging.getLogger("fuel")


@dataclass(frozen=True)
class PromoteDtypesPass(ModulePass):
    """
    Casts operands up to the element type of their op's result.

    Done only where no target that may run the op has a kernel for its operands as they are, one has
    it for the cast operands, and every cast keeps every value (bf16 or f16 to f32 or f64, f32 to
    f64). Each value is cast once per block. An op with no such repair is left for `fuel-decompose`
    to report. The number of casts goes to the logger `fuel` as a warning. Kernels and runs are not
    entered.

    Options: `topology=NAME` (default: the module's `fuel.topology`, else `cpu`),
    `precision=fast|exact` (default fast; exact refuses to cast).
    """

    name = "fuel-promote-dtypes"

    topology: str | None = None
    precision: Literal["fast", "exact"] = "fast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        promotions = list(_promotions(op, self.topology))
        if not promotions:
            return
        if self.precision == "exact":
            fail(promotions[0].op, _refusal(promotions[0]))
        count = _insert_casts(promotions)
        logger.warning(
            "fuel-promote-dtypes: %d operands are cast up, losslessly, because no target has the "
            "mixed-dtype kernels; this may change rounding and takes memory for the casts",
            count,
        )


@dataclass(frozen=True)
class _Promotion:
    """An op, and the element type that all its operands shall have."""

    op: FuelOp
    element: Attribute


def _promotions(module: ModuleOp, topology: str | None) -> Iterator[_Promotion]:
    for site in sites(module, resolve(module, topology)):
        for op in site.block.ops:
            if not isinstance(op, FuelOp) or len(op.operands) < 2 or len(op.results) != 1:
                continue
            element = promoted_element(op, site)
            if element is not None:
                yield _Promotion(op, element)


def promoted_element(op: FuelOp, site: Site) -> Attribute | None:
    """The element type that operands have to be cast to so that a target serves an op, or None."""
    operands, results = element_types(op)
    (wanted,) = results
    if isinstance(op, RegionOp) or all(t is wanted or t == wanted for t in operands):
        return None
    allowed = site.candidates(op)
    if any(serves(op, target) for target in allowed):
        return None
    to = dtypes.of_type(wanted)
    if not all(dtypes.lossless_upcast(dtypes.of_type(t), to) for t in operands):
        return None
    promoted = [wanted] * len(operands), results
    return wanted if any(serves_types(op, promoted, target) for target in allowed) else None


def _refusal(promotion: _Promotion) -> str:
    op = promotion.op
    names = ", ".join(str(dtypes.of_type(tensor_type(o))) for o in op.operands)
    return (
        f"fuel-promote-dtypes: no target has a kernel for {op.mnemonic()} of ({names}), and "
        f"precision=exact does not allow its operands to be cast to "
        f"{dtypes.of_type(promotion.element)}; cast them in the program, or use precision=fast"
    )


def _insert_casts(promotions: Sequence[_Promotion]) -> int:
    """Cast right before the first op that needs it; returns the number of casts."""
    made: dict[tuple[SSAValue, Attribute, DeviceAttr | None], SSAValue] = {}
    for op, element in ((p.op, p.element) for p in promotions):
        for index, operand in enumerate(op.operands):
            type = tensor_type(operand)
            if type.element_type == element:
                continue
            key = (operand, element, op.placement)
            if key not in made:
                made[key] = _cast_before(op, operand, element)
            op.operands[index] = made[key]
    return len(made)


def _cast_before(op: FuelOp, value: SSAValue, element: Attribute) -> SSAValue:
    cast = CastOp.make(
        value, declared=[same_shape(tensor_type(value), element)], placement=op.placement
    )
    block = op.parent
    assert block is not None
    block.insert_op_before(cast, op)
    return cast.result
