# SPDX-License-Identifier: MIT OR Apache-2.0
# Written by docs/make_stubs.py; change the docstrings of the ops or the tables instead.

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, SupportsIndex, TypeAlias

from fuel_dialect.builder.arguments import GraphValue
from fuel_dialect.ops.base import FuelOp

Method: TypeAlias = Callable[..., Any]
Ranges: TypeAlias = Sequence[tuple[SupportsIndex, SupportsIndex]]

@dataclass(frozen=True)
class Family:
    note: str
    types: Mapping[str, str]
    properties: tuple[str, ...] = ()

def documented(method: Method, name: str, op: type[FuelOp], family: Family) -> Method: ...

class OpMethods(GraphValue):
    __slots__ = ()

    def add(self, other: GraphValue) -> Self:
        """
        a + b; integers wrap.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers and floats.
        """

    def sub(self, other: GraphValue) -> Self:
        """
        a - b; integers wrap.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers and floats.
        """

    def mul(self, other: GraphValue) -> Self:
        """
        a * b; integers wrap.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers and floats.
        """

    def div(self, other: GraphValue) -> Self:
        """
        a / b; integers truncate toward zero, a zero divisor gives 0, MIN / -1 gives MIN.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers and floats.
        """

    def pow(self, other: GraphValue) -> Self:
        """
        a to the power b, by IEEE; a negative base with a fractional exponent is NaN.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes floats.
        """

    def rem(self, other: GraphValue) -> Self:
        """
        a - floor(a / b) * b: the sign of the divisor; an integer zero divisor gives 0.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers and floats.
        """

    def maximum(self, other: GraphValue) -> Self:
        """
        The larger; NaN if either is NaN.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers, floats and masks.
        """

    def minimum(self, other: GraphValue) -> Self:
        """
        The smaller; NaN if either is NaN.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers, floats and masks.
        """

    def neg(self) -> Self:
        """
        -x; integers wrap.

        x is this tensor. Takes integers and floats.
        """

    def sqr(self) -> Self:
        """
        x * x; integers wrap.

        x is this tensor. Takes integers and floats.
        """

    def abs(self) -> Self:
        """
        The magnitude; the least integer stays itself.

        x is this tensor. Takes integers and floats.
        """

    def relu(self) -> Self:
        """
        max(0, x); NaN stays NaN.

        x is this tensor. Takes integers and floats.
        """

    def step(self) -> Self:
        """
        1 where x > 0, else 0 (also for NaN).

        x is this tensor. Takes integers and floats.
        """

    def sign(self) -> Self:
        """
        -1, 0 or 1; NaN stays NaN.

        x is this tensor. Takes integers and floats.
        """

    def floor(self) -> Self:
        """
        Round down; integers stay.

        x is this tensor. Takes integers and floats.
        """

    def ceil(self) -> Self:
        """
        Round up; integers stay.

        x is this tensor. Takes integers and floats.
        """

    def round(self) -> Self:
        """
        Round to nearest, ties to even; integers stay.

        x is this tensor. Takes integers and floats.
        """

    def sqrt(self) -> Self:
        """
        Square root; NaN for a negative.

        x is this tensor. Takes floats.
        """

    def rsqrt(self) -> Self:
        """
        1 / sqrt(x).

        x is this tensor. Takes floats.
        """

    def recip(self) -> Self:
        """
        1 / x; a zero gives the infinity of its sign.

        x is this tensor. Takes floats.
        """

    def exp(self) -> Self:
        """
        e to the power x.

        x is this tensor. Takes floats.
        """

    def log(self) -> Self:
        """
        Natural logarithm: 0 gives -inf, a negative NaN.

        x is this tensor. Takes floats.
        """

    def sin(self) -> Self:
        """
        Sine of radians.

        x is this tensor. Takes floats.
        """

    def cos(self) -> Self:
        """
        Cosine of radians.

        x is this tensor. Takes floats.
        """

    def tanh(self) -> Self:
        """
        Hyperbolic tangent.

        x is this tensor. Takes floats.
        """

    def sigmoid(self) -> Self:
        """
        1 / (1 + exp(-x)), without overflow.

        x is this tensor. Takes floats.
        """

    def silu(self) -> Self:
        """
        x * sigmoid(x).

        x is this tensor. Takes floats.
        """

    def erf(self) -> Self:
        """
        The error function.

        x is this tensor. Takes floats.
        """

    def gelu(self) -> Self:
        """
        x / 2 * (1 + erf(x / sqrt 2)), the exact form.

        x is this tensor. Takes floats.
        """

    def gelu_tanh(self) -> Self:
        """
        x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).

        x is this tensor. Takes floats.
        """

    def eq(self, other: GraphValue) -> Self:
        """
        a == b.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers, floats and masks.
        """

    def ne(self, other: GraphValue) -> Self:
        """
        a != b; true where either is NaN.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers, floats and masks.
        """

    def lt(self, other: GraphValue) -> Self:
        """
        a < b.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers, floats and masks.
        """

    def le(self, other: GraphValue) -> Self:
        """
        a <= b.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers, floats and masks.
        """

    def gt(self, other: GraphValue) -> Self:
        """
        a > b.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers, floats and masks.
        """

    def ge(self, other: GraphValue) -> Self:
        """
        a >= b.

        a is this tensor, b the other one, of its shape and dtype; nothing is broadcast or promoted.
        Takes integers, floats and masks.
        """

    def contiguize(self) -> Self:
        """
        The same value, row-major from offset 0.

        x is this tensor.
        """

    def sum_all(self) -> Self:
        """
        The sum of all elements.

        The result has rank 0. Takes integers and floats.
        """

    def max_all(self) -> Self:
        """
        The largest element; NaN if any is NaN.

        The result has rank 0. Takes integers, floats and masks. Raises `ShapeError` over no
        elements.
        """

    def min_all(self) -> Self:
        """
        The smallest element; NaN if any is NaN.

        The result has rank 0. Takes integers, floats and masks. Raises `ShapeError` over no
        elements.
        """

    def mean_all(self) -> Self:
        """
        The mean of all elements.

        The result has rank 0. Takes floats.
        """

    def sum_dim(self, dim: SupportsIndex) -> Self:
        """
        The sum along `dim`.

        The dim is counted from the start. Takes integers and floats.
        """

    def max_dim(self, dim: SupportsIndex) -> Self:
        """
        The largest along `dim`; NaN if any is NaN.

        The dim is counted from the start. Takes integers, floats and masks. Raises `ShapeError`
        over no elements.
        """

    def min_dim(self, dim: SupportsIndex) -> Self:
        """
        The smallest along `dim`; NaN if any is NaN.

        The dim is counted from the start. Takes integers, floats and masks. Raises `ShapeError`
        over no elements.
        """

    def mean_dim(self, dim: SupportsIndex) -> Self:
        """
        The mean along `dim`.

        The dim is counted from the start. Takes floats.
        """

    def argmax_dim(self, dim: SupportsIndex) -> Self:
        """
        The index of the largest along `dim`, as ui32: the first of ties, or the first NaN.

        The dim is counted from the start. Takes integers, floats and masks. Raises `ShapeError`
        over no elements.
        """

    def argmin_dim(self, dim: SupportsIndex) -> Self:
        """
        The index of the smallest along `dim`, as ui32: the first of ties, or the first NaN.

        The dim is counted from the start. Takes integers, floats and masks. Raises `ShapeError`
        over no elements.
        """

    def reduce_sum_to(self, *dims: Any) -> Self:
        """
        Sums down to the result shape.

        The shape broadcasts to that of this tensor. Takes integers and floats.
        """

    def reduce_max_to(self, *dims: Any) -> Self:
        """
        Maxima down to the result shape; NaN if any is NaN.

        The shape broadcasts to that of this tensor. Takes integers, floats and masks. Raises
        `ShapeError` over no elements.
        """

    def index_select(self, dim: SupportsIndex, indices: GraphValue) -> Self:
        """
        out[.., i, ..] = x[.., indices[i], ..] along `dim`; the indices have rank 1.

        x is this tensor; the dim is counted from the start.
        """

    def gather(self, dim: SupportsIndex, indices: GraphValue) -> Self:
        """
        out[p] = x[p with coordinate `dim` replaced by indices[p]]; the result has indices' shape.

        x is this tensor; the dim is counted from the start.
        """

    def write_slice(self, source: GraphValue, ranges: Ranges) -> Self:
        """
        The source at `starts`, which are known when the program is built.

        The destination is this tensor. `ranges` has the part as (start, end) for each dim.
        """

    def write_slice_doff(
        self, source: GraphValue, position: GraphValue, axis: SupportsIndex, ranges: Ranges
    ) -> Self:
        """
        The source at a position along `axis`, a ui32 or an i64.

        A source that would reach beyond the destination raises `IndexOutOfRange` in the run.

        The destination is this tensor. `ranges` has the part as (start, end) for each dim. The
        range of the axis begins at 0; the position is added to it.
        """

    def write_slice_rotating(
        self,
        source: GraphValue,
        position: GraphValue,
        axis: SupportsIndex,
        modulus: SupportsIndex,
        ranges: Ranges,
    ) -> Self:
        """
        The source in a ring: element j along `axis` goes to (position + j) mod `modulus`, a ui32.

        What lies at `modulus` or beyond along the axis stays.

        The destination is this tensor. `ranges` has the part as (start, end) for each dim. The
        range of the axis begins at 0; the position is added to it.
        """

    def softmax_last_dim(self) -> Self:
        """
        exp(x - max) / sum(exp(x - max)) along the last dim.

        x is this tensor.
        """

    def log_softmax_last_dim(self) -> Self:
        """
        x - max - ln(sum(exp(x - max))) along the last dim.

        x is this tensor.
        """

    def layer_norm_last_dim(self, eps: float) -> Self:
        """
        (x - mean) / sqrt(var + eps) along the last dim, population variance, no affine part.

        x is this tensor. Raises `ShapeError` over no elements.
        """

    def rms_norm_last_dim(self, eps: float) -> Self:
        """
        x / sqrt(mean(x^2) + eps) along the last dim, no affine part.

        x is this tensor. Raises `ShapeError` over no elements.
        """

    def broadcast_add(self, other: GraphValue) -> Self:
        """
        a + b; integers wrap.

        a is this tensor, b the other one, of its dtype; both are broadcast to their common shape.
        Takes integers and floats.
        """

    def broadcast_sub(self, other: GraphValue) -> Self:
        """
        a - b; integers wrap.

        a is this tensor, b the other one, of its dtype; both are broadcast to their common shape.
        Takes integers and floats.
        """

    def broadcast_mul(self, other: GraphValue) -> Self:
        """
        a * b; integers wrap.

        a is this tensor, b the other one, of its dtype; both are broadcast to their common shape.
        Takes integers and floats.
        """

    def broadcast_div(self, other: GraphValue) -> Self:
        """
        a / b; integers truncate toward zero, a zero divisor gives 0, MIN / -1 gives MIN.

        a is this tensor, b the other one, of its dtype; both are broadcast to their common shape.
        Takes integers and floats.
        """
