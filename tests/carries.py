# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Random scans for tests: every way in which a step hands a value to the next.

Carries begin with an argument, a splat, other constants, a weight, or what another operand is too;
their next values, and the ys, are any values in scope: computed ones, other carries, the carry
itself, rows of the xs, consts and constants of the body, as often as drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.numbers import integer
from fuel_dialect.ops import comparison, elementwise, reduction, shape
from fuel_dialect.ops.base import ConstOp, FuelOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.ops.scan import ScanOp, ScanYieldOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type
from programs import numbers

Draw = Callable[..., Any]

SHAPES = [(), (1,), (4,), (5,), (2, 3), (1, 4)]
DTYPES = ("f32", "i32", "f16", "bf16", "i8", "i1")
"""Types that every target has."""


class Case:
    """A module with one outer scan, its arguments and weights; hypothesis prints it as text."""

    def __init__(self, module: ModuleOp, arguments: Sequence[Array], weights: Mapping[str, Array]):
        self.module = module
        self.arguments = arguments
        self.weights = weights

    def __repr__(self) -> str:
        return f"{self.module}\n{self.arguments}\n{dict(self.weights)}"


@dataclass(repr=False)
class Scope:
    """A block that grows, and the values of it that can be read."""

    draw: Draw
    block: Block
    values: list[SSAValue] = field(default_factory=list[SSAValue])

    def add(self, op: FuelOp) -> SSAValue:
        self.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def constant(self, type: AnyTensor) -> SSAValue:
        number = self.draw(st.integers(0, 1 if dtypes.of_type(type).kind == "mask" else 3))
        return self.add(ConstOp.splat_of(number, type))

    def of(self, type: AnyTensor) -> SSAValue:
        """Some value of a type, or a new constant."""
        found = [v for v in self.values if v.type == type]
        if not found or self.draw(st.integers(0, 5)) == 0:
            return self.constant(type)
        return self.draw(st.sampled_from(found))

    def next_of(self, type: AnyTensor, carries: Sequence[SSAValue]) -> SSAValue:
        """A next carry: one of the carries as often as any other value."""
        found = [v for v in carries if v.type == type]
        return self.draw(st.sampled_from(found)) if self.draw(st.booleans()) else self.of(type)

    def grow(self, type: AnyTensor) -> None:
        """An elementwise op of a type."""
        if dtypes.of_type(type).kind == "mask":
            number = tensor(type.get_shape(), "f32")
            self.add(comparison.LtOp.make(self.of(number), self.of(number)))
            return
        kinds = [elementwise.AddOp, elementwise.SubOp, elementwise.MaximumOp, elementwise.WhereOp]
        kind = self.draw(st.sampled_from(kinds))
        mask = tensor(type.get_shape(), "i1")
        first = [self.of(mask)] if kind is elementwise.WhereOp else []
        self.add(kind.make(*first, self.of(type), self.of(type)))

    def move(self, type: AnyTensor) -> None:
        """An op that makes a scan of more than one kernel: a carry seen otherwise, or a sum."""
        if not type.get_shape():
            return
        if self.draw(st.booleans()):
            self.add(shape.FlipOp.make(self.of(type), dim=integer(0)))
        elif dtypes.of_type(type).name in ("f32", "i32"):
            column = tensor((*type.get_shape()[:-1], 1), type.element_type)
            low = reduction.ReduceMaxToOp.make(self.of(type), declared=[column])
            self.block.add_op(low)
            self.add(shape.BroadcastToOp.make(low.results[0], declared=[type]))


@dataclass(repr=False)
class _Outside(Scope):
    """The function around a scan: where its operands come from."""

    arrays: list[Array] = field(default_factory=list[Array])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])

    def operand(self, type: AnyTensor) -> SSAValue:
        kinds = [self._argument, self.constant, self.constant, self._elements, self._weight]
        kinds.append(self.of)
        return self.draw(st.sampled_from(kinds))(type)

    def _array(self, type: AnyTensor) -> Array:
        name = dtypes.of_type(type).name
        if name == "i1":
            return numbers(self.draw, list(type.get_shape()), "i32") > 0
        return numbers(self.draw, list(type.get_shape()), name)

    def _argument(self, type: AnyTensor) -> SSAValue:
        self.arrays.append(self._array(type))
        argument = self.block.insert_arg(type, len(self.block.args))
        self.values.append(argument)
        return argument

    def _elements(self, type: AnyTensor) -> SSAValue:
        return self.add(ConstOp.from_numpy(self._array(type)))

    def _weight(self, type: AnyTensor) -> SSAValue:
        key = f"w{len(self.weights)}"
        self.weights[key] = self._array(type)
        return self.add(WeightOp.make(key=StringAttr(key), declared=[type]))


def scan_in(
    scope: Scope, operand: Callable[[AnyTensor], SSAValue], extents: tuple[int, ...], depth: int
) -> ScanOp:
    """A scan whose operands `operand` gives, over elements of `extents`."""
    draw, names = scope.draw, st.lists(st.sampled_from(DTYPES), max_size=2)
    length = draw(st.sampled_from([3, 2, 6, 0, 1]))
    main = draw(st.sampled_from(DTYPES))
    count = draw(st.sampled_from([1, 2, 2, 3, 3, 4]))
    kinds = [main, *(draw(st.sampled_from([main] * 6 + list(DTYPES))) for _ in range(count - 1))]
    carries = [tensor(extents, name) for name in kinds]
    rows, consts = ([tensor(extents, name) for name in draw(names)] for _ in range(2))
    block = Block(arg_types=[*carries, *rows, *consts])
    body = Scope(draw, block, list(block.args))
    is_moved = draw(st.integers(0, 3)) == 0
    for _ in range(draw(st.integers(0, 5))):
        body.grow(draw(st.sampled_from(carries)))
    if is_moved:
        body.move(draw(st.sampled_from(carries)))
    if depth and draw(st.integers(0, 3)) == 0:
        inner = scan_in(body, body.of, extents, depth - 1)
        block.add_op(inner)
        body.values += [v for v in inner.carry_results]
    following = [body.next_of(type, block.args[: len(carries)]) for type in carries]
    same = [v for v in body.values if tuple(tensor_type(v).get_shape()) == extents]
    ys = draw(st.lists(st.sampled_from(same), max_size=3))
    block.add_op(ScanYieldOp(following, ys, None))
    stacked = [tensor((length, *extents), type.element_type) for type in rows]
    inits, xs, held = ([operand(type) for type in types] for types in (carries, stacked, consts))
    return ScanOp(inits, xs, held, length, Region(block), draw(st.booleans()))


@st.composite
def carrying_scans(draw: Draw, depth: int = 1) -> Case:
    """A function that gives all results of one scan, which may hold another."""
    extents = draw(st.sampled_from(SHAPES))
    outside = _Outside(draw, Block())
    scan = scan_in(outside, outside.operand, extents, depth)
    outside.block.add_op(scan)
    results = list(scan.results)
    wanted = draw(st.lists(st.sampled_from(results), min_size=1, max_size=len(results) + 1))
    outside.block.add_op(ReturnOp(*wanted))
    types = [v.type for v in outside.block.args], [v.type for v in wanted]
    module = ModuleOp([FuncOp("main", types, Region(outside.block))])
    module.verify()
    return Case(module, outside.arrays, outside.weights)
