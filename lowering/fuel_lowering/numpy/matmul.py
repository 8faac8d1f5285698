# SPDX-License-Identifier: MIT OR Apache-2.0
"""Matrix products as calls of BLAS, of `matmul` and of `einsum`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation

from fuel_dialect.determinism import is_deterministic
from fuel_dialect.layout import Layout
from fuel_dialect.ops import linear_algebra
from fuel_dialect.tensors import tensor_type
from fuel_lowering.numpy.builder import Builder, Rule
from fuel_lowering.numpy.steps import Recipe
from fuel_lowering.numpy.values import Ref, broadcast_if_needed


def _matmul(b: Builder, op: linear_algebra.MatmulOp, xs: Sequence[Ref]) -> Ref:
    lhs, rhs = b.widen(xs[0]), b.widen(xs[1])
    result = tensor_type(op.result).get_shape()
    lhs, rhs, written = _grouped(b, broadcast_if_needed(lhs), rhs, op.groups())
    fills = None if written == result else lambda y: y.reshape(written)
    # BLAS skips a factor of 0 where an operand is one element, and loses NaN and inf.
    is_one = 1 in (prod(lhs.shape), prod(rhs.shape))
    is_gemm = len(written) == 2 and lhs.dtype.kind == "f" and not is_one
    line = "{0}.dot({1}, {y})" if is_gemm else "matmul({0}, {1}, {y})"
    if lhs.dtype.kind == "f" and is_deterministic(op):
        line = 'einsum("...ij,...jk->...ik", {0}, {1}, out={y})'
    product = b.step(Recipe((line,)), lhs, rhs, shape=result, fills=fills)
    return b.narrow(product, xs[0].dtype)


def _grouped(
    b: Builder, lhs: Ref, rhs: Ref, groups: Sequence[int]
) -> tuple[Ref, Ref, tuple[int, ...]]:
    """
    Returns the operands such that broadcasting pairs their batches, and the shape of the product.

    A B that all batches share makes one product of all rows. Where g entries of a batch dim of A
    meet one of B's, A is read with that dim split in two; the last then joins its g rows.
    """
    *batch, m, k = lhs.shape
    n = rhs.shape[-1]
    others = rhs.array_shape[:-2]
    if batch and all(extent == 1 for extent in others) and prod(lhs.shape) and n:
        rows = prod(batch) * m
        return b.reshape(lhs, (rows, k)), _last_two(rhs), (rows, n)
    rhs = broadcast_if_needed(rhs)
    others = rhs.shape[:-2]
    if all(group == 1 for group in groups):
        return lhs, rhs, (*batch, m, n)
    if all(group == 1 for group in groups[:-1]):
        joined = (*others, groups[-1] * m)
        return b.reshape(lhs, (*joined, k)), rhs, (*joined, n)
    pairs = zip(others, groups, strict=True)
    outer = [extent for pair in pairs for extent in pair]
    paired = [extent for extent in others for extent in (extent, 1)]
    lhs = b.reshape(lhs, (*outer, m, k))
    return lhs, b.reshape(rhs, (*paired, k, n)), (*outer, m, n)


def _last_two(ref: Ref) -> Ref:
    """A stack of equal matrices, its array that of at most one, as that matrix."""
    extra, own = max(len(ref.array_shape) - 2, 0), ref.layout
    layout = Layout(own.shape[extra:], own.strides[extra:], own.offset)
    one = ref.view(f"{{}}[{', '.join('0' * extra)}]", layout) if extra else ref
    return broadcast_if_needed(Ref(ref.shape[-2:], ref.dtype, layout, ref.hint, base=one))


RULES: dict[type[Operation], Rule] = {linear_algebra.MatmulOp: _matmul}
"""The rule of products."""
