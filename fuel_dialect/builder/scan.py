# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tracing the body of a scan. Called through `Graph.scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias, cast

from xdsl.ir import Block, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.builder.arguments import as_int
from fuel_dialect.builder.tensor import Tensor
from fuel_dialect.builder.trace import BodyScope, Trace
from fuel_dialect.errors import DTypeError, GraphError, InvalidScan, ShapeError
from fuel_dialect.ops.scan import ScanOp, ScanYieldOp
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type

Structure: TypeAlias = "Tensor | Sequence[Tensor] | None"


@dataclass(frozen=True)
class Bundle:
    """A tensor, a tuple of tensors or nothing, as a list of values and the way back."""

    values: list[SSAValue]
    single: bool
    empty: bool = False

    def rebuild(self, trace: Trace, values: Sequence[SSAValue]) -> Structure:
        """Other values in this structure."""
        if self.empty:
            return None
        tensors = tuple(Tensor(trace, value) for value in values)
        return tensors[0] if self.single else tensors


def flatten(trace: Trace, what: str, given: object) -> Bundle:
    """Read a structure. Raises `InvalidScan` for another one, `GraphError` for another graph."""
    if given is None:
        return Bundle([], False, True)
    single = isinstance(given, Tensor)
    items = [given] if single else given
    if not isinstance(items, list | tuple):
        raise InvalidScan(
            f"scan: {what} must be a tensor, a tuple of tensors or None, got {type(given).__name__}"
        )
    return Bundle([_value(trace, what, item) for item in cast(Sequence[object], items)], single)


def _value(trace: Trace, what: str, item: object) -> SSAValue:
    if not isinstance(item, Tensor):
        raise InvalidScan(f"scan: {what} holds a {type(item).__name__}, expected tensors")
    if item.trace is not trace:
        raise GraphError(
            f"scan: operands must live on the same graph; {what} is on #{item.trace.id}, the scan "
            f"on #{trace.id}"
        )
    return item.value


def trace_scan(
    trace: Trace,
    body: Callable[..., Any],
    init: Structure,
    xs: Structure,
    consts: Structure,
    length: int | None,
    reverse: bool,
) -> Any:
    """Append a `fuel.scan`; return the results of `Graph.scan`."""
    carry, stacked = flatten(trace, "init", init), flatten(trace, "xs", xs)
    fixed = flatten(trace, "consts", consts)
    steps = scan_length(stacked.values, length)
    rows = [_row(x) for x in stacked.values]
    types = [*(c.type for c in carry.values), *rows, *(c.type for c in fixed.values)]
    scope = BodyScope(Block(arg_types=types), trace.scope)
    operands = [
        [trace.scope.resolve(value) for value in group.values] for group in (carry, stacked, fixed)
    ]
    with trace.inside(scope):
        returned = body(*_arguments(trace, scope.block, carry, stacked, len(fixed.values)))
        ys, until = _end_body(trace, scope, carry, returned)
    inits, slices, known = operands
    op = ScanOp(inits, slices, [*known, *scope.captured], steps, Region(scope.block), reverse)
    trace.append(op)
    results = carry.rebuild(trace, op.carry_results), ys.rebuild(trace, op.y_results)
    return (*results, Tensor(trace, op.outputs[-1])) if until else results


def scan_length(xs: Sequence[SSAValue], length: int | None) -> int:
    """The number of steps. Raises `InvalidScan` or `ShapeError` where there is none."""
    if length is not None and as_int("scan", "the length", length) < 0:
        raise InvalidScan(f"scan: the length must be >= 0, got {length}")
    if not xs and length is None:
        raise InvalidScan("scan: without xs the length must be given")
    for index, x in enumerate(xs):
        dims = tensor_type(x).get_shape()
        if not dims:
            raise ShapeError(f"scan: x {index} has rank 0; axis 0 is stepped")
        length = dims[0] if length is None else length
        if dims[0] != length:
            raise ShapeError(f"scan: x {index} is {x.type}; its dim 0 must be the length {length}")
    return as_int("scan", "the length", length)


def _row(x: SSAValue) -> AnyTensor:
    type = tensor_type(x)
    return tensor(type.get_shape()[1:], type.element_type)


def _arguments(
    trace: Trace, block: Block, carry: Bundle, xs: Bundle, consts: int
) -> tuple[Any, ...]:
    first, second = len(carry.values), len(carry.values) + len(xs.values)
    rest = (Tensor(trace, a) for a in block.args[second : second + consts])
    return (
        carry.rebuild(trace, block.args[:first]),
        xs.rebuild(trace, block.args[first:second]),
        *rest,
    )


def _end_body(
    trace: Trace, scope: BodyScope, carry: Bundle, returned: object
) -> tuple[Bundle, bool]:
    """Check what a body returned and end its block; the ys, and whether there is an `until`."""
    next_carry, y, stop = _parts(returned)
    following, ys = flatten(trace, "the next carry", next_carry), flatten(trace, "y", y)
    _check_carries(carry, following)
    until = None if stop is None else _value(trace, "until", stop)
    if until is not None:
        _check_until(until)
    ends = [[scope.resolve(value) for value in group.values] for group in (following, ys)]
    end = ScanYieldOp(ends[0], ends[1], None if until is None else scope.resolve(until))
    scope.block.add_op(end)
    scope.drop_unused()
    return ys, until is not None


def _parts(returned: object) -> Sequence[object]:
    """Carry, y and until (None where there is none). Raises `InvalidScan` for anything else."""
    parts = list(cast(Sequence[object], returned)) if isinstance(returned, list | tuple) else []
    if len(parts) not in (2, 3):
        raise InvalidScan(
            f"scan: the body must return (carry, y) or (carry, y, until), got {returned!r}"
        )
    return (*parts, None)[:3]


def _check_carries(before: Bundle, after: Bundle) -> None:
    if (len(before.values), before.single) != (len(after.values), after.single):
        raise InvalidScan(
            f"scan: the body must return the carry in the structure of init: "
            f"{_structure(before)}, got {_structure(after)}"
        )
    for index, (a, b) in enumerate(zip(before.values, after.values, strict=True)):
        have, want = tensor_type(b), tensor_type(a)
        message = f"scan: carry {index} starts as {want} and comes back as {have}"
        if have.get_shape() != want.get_shape():
            raise ShapeError(f"{message}; its shape must stay")
        if have.element_type != want.element_type:
            raise DTypeError(f"{message}; its dtype must stay: cast it back with astype")


def _structure(bundle: Bundle) -> str:
    if bundle.single:
        return "a tensor"
    return f"{len(bundle.values)} tensors"


def _check_until(until: SSAValue) -> None:
    type = tensor_type(until)
    if dtypes.of_type(type).kind != "mask":
        raise DTypeError(f"scan: until must be a mask (i1), got {type}")
    if prod(type.get_shape()) != 1:
        raise ShapeError(f"scan: until must have one element, got {type}")
