# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Random tensor programs for property tests: a hypothesis strategy that grows a module op by op.

Programs use every kind of op that a plan treats differently: elementwise chains that share and
fan out, views, reshapes, reductions, products, row ops, joins, writes into parts, constants,
weights, scans, and branches nested in branches. Arms of a branch compute different things, so that
a test sees which arm ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, StringAttr, f64, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.attributes import ArmAttr, TargetAttr
from fuel_dialect.numbers import AnyNumber, int_array, integer, scalar_attribute
from fuel_dialect.ops import (
    comparison,
    elementwise,
    indexing,
    linear_algebra,
    memory,
    normalization,
    reduction,
    shape,
)
from fuel_dialect.ops.base import ConstOp, FuelOp
from fuel_dialect.ops.control import BranchOp, YieldOp
from fuel_dialect.ops.scan import ScanOp, ScanYieldOp
from fuel_dialect.tensors import AnyTensor, tensor, tensor_type

Array = np.ndarray[Any, Any]
CPU = TargetAttr.of("cpu", "numpy")
EXTENTS = st.sampled_from([1, 2, 3, 4, 5])
OFTEN_FULL = st.sampled_from([1, 2, 3, 4, 5, 1, 2, 3, 4, 0])
"""Extents of arguments, constants and weights: one in ten is 0."""

FLOATS = ("f32", "f64")
BEYOND_F64 = st.sampled_from([2**53 + 1, -(2**53) - 1, 2**62 + 1, -(2**63), 2**63 - 1])
"""Integers that a detour by f64 would change."""

NAMES = st.sampled_from([None, "x", "y_1", "lambda", "tl", "out", "buffer", "p0", "_", "n" * 120])
"""Names of arguments: those that targets use themselves, reserved words, and a long one."""

UNARY = [
    elementwise.NegOp,
    elementwise.AbsOp,
    elementwise.ReluOp,
    elementwise.SqrOp,
    elementwise.SignOp,
    elementwise.StepOp,
    elementwise.RoundOp,
]
FLOAT_UNARY = [
    elementwise.TanhOp,
    elementwise.SigmoidOp,
    elementwise.SinOp,
    elementwise.GeluTanhOp,
    elementwise.SiluOp,
    elementwise.ErfOp,
    elementwise.CosOp,
]
BINARY = [
    elementwise.AddOp,
    elementwise.SubOp,
    elementwise.MulOp,
    elementwise.MaximumOp,
    elementwise.MinimumOp,
    elementwise.DivOp,
    elementwise.RemOp,
]
COMPARISONS = [comparison.LtOp, comparison.GeOp, comparison.EqOp, comparison.NeOp]
REDUCTIONS = [reduction.SumDimOp, reduction.MaxDimOp, reduction.MinDimOp, reduction.ArgmaxDimOp]


class Program:
    """A module with `main`, arguments for it, and its weights. No dataclass: IR prints as text."""

    def __init__(self, module: ModuleOp, arguments: list[Array], weights: dict[str, Array]):
        self.module = module
        self.arguments = arguments
        self.weights = weights

    def __repr__(self) -> str:
        return f"{self.module}\narguments: {self.arguments}\nweights: {self.weights}"


@dataclass
class _Grower:
    """Draws ops into one block; `values` may be read by the next op."""

    draw: Callable[..., Any]
    block: Block
    values: list[SSAValue]
    weights: dict[str, Array]
    ids: list[int]
    depth: int = 0
    writes: int = 1
    """The number of writes among the steps to draw from."""
    made: list[Operation] = field(default_factory=list[Operation])

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        self.values += op.results
        return op.results[0]

    def pick(
        self, *, floats: bool = False, numeric: bool = True, rank: int = 0, full: bool = False
    ) -> SSAValue:
        """Draws a value of at least this rank; a `full` one has no extent that is 0."""
        fitting = [
            v
            for v in self.values
            if len(tensor_type(v).get_shape()) >= rank
            and (not full or 0 not in tensor_type(v).get_shape())
            and (not floats or dtypes.of_type(tensor_type(v)).name in FLOATS)
            and (not numeric or dtypes.of_type(tensor_type(v)).kind != "mask")
        ]
        if not fitting:
            extents = [self.draw(EXTENTS) for _ in range(rank)]
            return self.constant(extents, "f32")
        return self.draw(st.sampled_from(fitting))

    def constant(self, extents: list[int], dtype: str) -> SSAValue:
        splat = self.draw(st.booleans())
        array = numbers(self.draw, extents, dtype)
        if splat and array.size:
            array = np.full(extents, array.flat[0], array.dtype)
        return self.add(ConstOp.from_numpy(array))

    def like(self, value: SSAValue) -> SSAValue:
        """Another value of the same type: one that exists, one broadcast to it, or a leaf."""
        type = tensor_type(value)
        same = [v for v in self.values if v.type == type]
        choice = self.draw(st.integers(0, 3))
        if choice < 2:
            return self.draw(st.sampled_from(same))
        dtype = dtypes.of_type(type).name
        if choice == 2 and type.get_shape():
            row = self.constant([type.get_shape()[-1]], dtype)
            return self.add(shape.BroadcastToOp.make(row, declared=[type]))
        return self.constant(list(type.get_shape()), dtype)

    def grow(self, count: int) -> None:
        steps = [
            self.unary,
            self.binary,
            self.binary,
            self.scalar,
            self.select,
            self.view,
            self.view,
            self.reshape,
            self.reduce,
            self.matmul,
            self.row_op,
            self.concat,
            self.cast,
            self.leaf,
            self.index,
            self.scan,
            self.branch,
            *[self.write] * self.writes,
        ]
        for _ in range(count):
            self.draw(st.sampled_from(steps))()

    def unary(self) -> None:
        value = self.pick()
        is_float = dtypes.of_type(tensor_type(value)).is_float
        ops: list[type[FuelOp]] = [*UNARY, *(FLOAT_UNARY if is_float else [])]
        self.add(self.draw(st.sampled_from(ops)).make(value))

    def binary(self) -> None:
        value = self.pick()
        self.add(self.draw(st.sampled_from(BINARY)).make(value, self.like(value)))

    def scalar(self) -> None:
        value = self.pick()
        low, high = sorted([self.number(value), self.number(value)], key=lambda n: n.value.data)
        choice = self.draw(st.integers(0, 3))
        if choice == 0:
            self.add(elementwise.AddScalarOp.make(value, scalar=low))
        elif choice == 1:
            self.add(elementwise.MulScalarOp.make(value, scalar=low))
        elif choice == 2:
            exponent = IntegerAttr(self.draw(st.integers(0, 3)), i32)
            self.add(elementwise.PowiOp.make(value, exponent=exponent))
        else:
            self.add(elementwise.ClampOp.make(value, min=low, max=high))

    def number(self, value: SSAValue) -> AnyNumber:
        """A scalar that meets a value: a small one, or any that an integer type holds."""
        element = tensor_type(value).element_type
        dtype = dtypes.of_type(element)
        low, high = dtype.limits if dtype.is_integer else (-3, 3)
        drawn = self.draw(st.integers(max(low, -3), 3) | st.integers(low, high))
        return scalar_attribute("scalar", "number", drawn, element)

    def select(self) -> None:
        value = self.pick()
        other = self.like(value)
        mask = self.add(self.draw(st.sampled_from(COMPARISONS)).make(value, other))
        self.add(elementwise.WhereOp.make(mask, value, self.like(value)))

    def view(self) -> None:
        value = self.pick(numeric=False)
        extents = tensor_type(value).get_shape()
        rank = len(extents)
        choice = self.draw(st.integers(0, 5))
        if not rank or (choice == 0 and rank < 4):
            dim = integer(self.draw(st.integers(0, rank)))
            self.add(shape.UnsqueezeOp.make(value, dim=dim))
        elif choice == 1 and rank >= 2:
            self.add(shape.TransposeOp.make(value))
        elif choice == 2:
            axes = self.draw(st.permutations(range(rank)))
            self.add(shape.PermuteOp.make(value, axes=int_array(axes)))
        elif choice == 3 and 1 in extents:
            self.add(shape.SqueezeOp.make(value, dim=integer(list(extents).index(1))))
        elif choice == 4:
            dim = self.draw(st.integers(0, rank - 1))
            start = self.draw(st.integers(0, max(extents[dim] - 1, 0)))
            length = self.draw(st.integers(min(1, extents[dim]), extents[dim] - start))
            self.add(
                shape.SliceOp.make(
                    value, dim=integer(dim), start=integer(start), length=integer(length)
                )
            )
        else:
            self.add(shape.FlipOp.make(value, dim=integer(self.draw(st.integers(0, rank - 1)))))

    def reshape(self) -> None:
        value = self.pick(numeric=False)
        type = tensor_type(value)
        extents = list(type.get_shape())
        size = int(np.prod(extents, dtype=int))
        target = self.draw(st.sampled_from([[size], [1, size], [size, 1], extents[::-1]]))
        self.add(shape.ReshapeOp.make(value, declared=[tensor(target, type.element_type)]))

    def reduce(self) -> None:
        value = self.pick(rank=1)
        extents = tensor_type(value).get_shape()
        dim = self.draw(st.integers(0, len(extents) - 1))
        ops = REDUCTIONS if extents[dim] else REDUCTIONS[:1]
        self.add(self.draw(st.sampled_from(ops)).make(value, dim=integer(dim)))

    def matmul(self) -> None:
        value = self.pick(floats=True, rank=2)
        self.add(linear_algebra.MatmulOp.make(value, self.add(shape.TransposeOp.make(value))))

    def row_op(self) -> None:
        value = self.pick(floats=True, rank=1, full=True)
        if self.draw(st.booleans()):
            self.add(normalization.SoftmaxLastDimOp.make(value))
        else:
            eps = FloatAttr(1e-3, f64)
            self.add(normalization.RmsNormLastDimOp.make(value, eps=eps))

    def concat(self) -> None:
        value = self.pick(rank=1)
        dim = self.draw(st.integers(0, len(tensor_type(value).get_shape()) - 1))
        times = self.draw(st.sampled_from([1, 1, 20]))
        operands = [value, self.like(value)] * times
        self.add(shape.ConcatOp.make(*operands, dim=integer(dim)))

    def cast(self) -> None:
        value = self.pick(numeric=False)
        dtype = self.draw(st.sampled_from(["f32", "f64", "i32", "i1"]))
        self.add(
            elementwise.CastOp.make(value, declared=[tensor(tensor_type(value).get_shape(), dtype)])
        )

    def leaf(self) -> None:
        extents = [self.draw(OFTEN_FULL) for _ in range(self.draw(st.integers(0, 2)))]
        choice = self.draw(st.integers(0, 2))
        if choice == 0:
            self.add(memory.IotaOp.make(declared=[tensor([self.draw(EXTENTS)], "f32")]))
        elif choice == 1:
            self.weight(tensor(extents, "f32"))
        else:
            self.constant(extents, self.draw(st.sampled_from(["f32", "f64", "i32", "i64"])))

    def weight(self, type: AnyTensor) -> SSAValue:
        key = f"w{len(self.weights)}"
        dtype = dtypes.of_type(type).name
        self.weights[key] = numbers(self.draw, list(type.get_shape()), dtype)
        return self.add(memory.WeightOp.make(declared=[type], key=StringAttr(key)))

    def index(self) -> None:
        value = self.pick(rank=1, full=True)
        extents = tensor_type(value).get_shape()
        dim = self.draw(st.integers(0, len(extents) - 1))
        places = st.lists(st.integers(0, extents[dim] - 1), min_size=1, max_size=4)
        indices = np.array(self.draw(places), np.uint32)
        chosen = self.add(ConstOp.from_numpy(indices))
        self.add(indexing.IndexSelectOp.make(value, chosen, dim=integer(dim)))

    def write(self) -> None:
        """A write into a leaf, an argument, a carry, a view or a result; often of a part of it."""
        if self.draw(st.booleans()):
            self.leaf()
            value = self.values[-1]
        else:
            value = self.pick(rank=1)
        extents = tensor_type(value).get_shape()
        if not extents or 0 in extents:
            return
        widths = [self.draw(st.sampled_from([e, self.draw(st.integers(1, e))])) for e in extents]
        starts = [self.draw(st.integers(0, e - w)) for e, w in zip(extents, widths, strict=True)]
        source = self.part(value, starts, widths)
        axis = self.draw(st.integers(0, len(extents) - 1))
        others = int_array([0 if d == axis else start for d, start in enumerate(starts)])
        choice = self.draw(st.integers(0, 2))
        if choice == 0:
            self.add(memory.WriteSliceOp.make(value, source, starts=int_array(starts)))
        elif choice == 1:
            dtype = self.draw(st.sampled_from([np.uint32, np.int64]))
            at = self.position(np.array(starts[axis], dtype))
            op = memory.WriteSliceDoffOp
            self.add(op.make(value, source, at, starts=others, axis=integer(axis)))
        else:
            at = self.position(np.array(self.draw(st.integers(0, 2**32 - 1)), np.uint32))
            modulus = integer(self.draw(st.integers(widths[axis], extents[axis])))
            op = memory.WriteSliceRotatingOp
            self.add(op.make(value, source, at, starts=others, axis=integer(axis), modulus=modulus))

    def part(self, value: SSAValue, starts: list[int], widths: list[int]) -> SSAValue:
        """Makes the source of a write: constants, or twice a part of the very value."""
        if self.draw(st.booleans()):
            return self.constant(widths, dtypes.of_type(tensor_type(value)).name)
        for dim, (start, width) in enumerate(zip(starts, widths, strict=True)):
            value = self.add(
                shape.SliceOp.make(
                    value, dim=integer(dim), start=integer(start), length=integer(width)
                )
            )
        return self.add(elementwise.AddOp.make(value, value))

    def position(self, array: Array) -> SSAValue:
        """A constant that is no operand of later steps."""
        op = ConstOp.from_numpy(array)
        self.block.add_op(op)
        return op.result

    def inner(self, block: Block) -> _Grower:
        return _Grower(
            self.draw,
            block,
            list(block.args),
            self.weights,
            self.ids,
            depth=self.depth + 1,
            writes=self.writes,
        )

    def scan(self) -> None:
        if self.depth > 1:
            return
        xs = self.pick(floats=True, rank=1)
        x_type = tensor_type(xs)
        row = tensor(x_type.get_shape()[1:], x_type.element_type)
        inits = [self.initial(row) for _ in range(self.draw(st.sampled_from([1, 1, 2, 3])))]
        extra = self.pick()
        body = Block(arg_types=[*(init.type for init in inits), row, extra.type])
        carried = list(body.args[: len(inits)])
        inner = self.inner(body)
        inner.depth = 2
        inner.grow(self.draw(st.integers(0, 3)))
        like = [v for v in inner.values if v.type == row]
        carry = inner.add(elementwise.TanhOp.make(self.draw(st.sampled_from(like))))
        following = self.draw(st.permutations([carry, *carried]))[: len(inits)]
        y = self.draw(st.sampled_from(inner.values))
        until = None
        if self.draw(st.booleans()) and self.draw(st.booleans()):
            until = self._until(inner, carry)
        body.add_op(ScanYieldOp(following, [y], until))
        reverse = self.draw(st.booleans())
        length = x_type.get_shape()[0]
        self.add(ScanOp(inits, [xs], [extra], length, Region(body), reverse))

    def initial(self, type: AnyTensor) -> SSAValue:
        """Makes the start of a carry: a constant, mostly a splat; a weight; or an earlier value."""
        choice = self.draw(st.integers(0, 3))
        same = [v for v in self.values if v.type == type]
        if choice == 0 and same:
            return self.draw(st.sampled_from(same))
        if choice == 1:
            return self.weight(type)
        return self.constant(list(type.get_shape()), dtypes.of_type(type).name)

    def _until(self, inner: _Grower, carry: SSAValue) -> SSAValue:
        total = inner.add(reduction.SumAllOp.make(carry))
        dtype = tensor_type(total).element_type
        bound = inner.add(ConstOp.splat_of(self.draw(st.integers(-2, 2)), tensor((), dtype)))
        return inner.add(comparison.GtOp.make(total, bound))

    def branch(self) -> None:
        if self.depth > 1:
            return
        inputs = [self.pick(), self.pick(floats=True)]
        self.ids[0] += 1
        id = f"u{self.ids[0]}"
        result = inputs[1].type
        arms: list[tuple[ArmAttr, Region]] = []
        for _ in range(self.draw(st.integers(2, 3))):
            block = Block(arg_types=[v.type for v in inputs])
            inner = self.inner(block)
            inner.grow(self.draw(st.integers(0, 3)))
            yielded = self.draw(st.sampled_from([v for v in inner.values if v.type == result]))
            block.add_op(YieldOp(yielded))
            arms.append((ArmAttr.of(CPU), Region(block)))
        self.add(BranchOp(id, inputs, [result], arms))


def numbers(draw: Callable[..., Any], extents: list[int], dtype: str) -> Array:
    """An array of small numbers, halves among the floats; of i64 some that f64 does not hold."""
    size = int(np.prod(extents, dtype=int))
    few = st.integers(-6, 6)
    values = draw(
        st.lists(few | BEYOND_F64 if dtype == "i64" else few, min_size=size, max_size=size)
    )
    array = np.array(values, np.float64 if dtype in FLOATS else np.int64).reshape(extents)
    if dtype in FLOATS:
        array /= 2
    return array.astype(dtypes.of(dtype).numpy)


@st.composite
def programs(draw: Callable[..., Any], max_ops: int = 12, writes: int = 1) -> Program:
    """
    A verified program of up to `max_ops` drawn steps, a few results, and its inputs.

    `writes` says how often a write is drawn, where the other steps count 17 together.
    """
    types = [
        tensor([draw(OFTEN_FULL) for _ in range(draw(st.integers(0, 3)))], draw(st.sampled_from(d)))
        for d in (FLOATS, (*FLOATS, "i32", "i64"))
    ]
    block = Block(arg_types=types)
    for argument in block.args:
        argument.name_hint = draw(NAMES)
    weights: dict[str, Array] = {}
    grower = _Grower(draw, block, list(block.args), weights, [0], writes=writes)
    grower.grow(draw(st.integers(1, max_ops)))
    count = min(len(grower.values), draw(st.integers(1, 3)))
    late = grower.values[-6:]
    results = [draw(st.sampled_from(late)) for _ in range(count)]
    block.add_op(ReturnOp(*results))
    function = FuncOp("main", (types, [r.type for r in results]), Region(block))
    module = ModuleOp([function])
    module.verify()
    arguments = [numbers(draw, list(t.get_shape()), dtypes.of_type(t).name) for t in types]
    return Program(module, arguments, weights)
