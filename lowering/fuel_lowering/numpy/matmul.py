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
from fuel_lowering.numpy.values import Ref, whole


def _matmul(b: Builder, op: linear_algebra.MatmulOp, xs: Sequence[Ref]) -> Ref:
    lhs, rhs = b.widen(xs[0]), b.widen(xs[1])
    result = tensor_type(op.result).get_shape()
    lhs, rhs, written = _grouped(b, whole(lhs), rhs)
    fills = None if written == result else lambda y: y.reshape(written)
    # BLAS skips a factor of 0 where an operand is one element, and loses NaN and inf.
    is_one = 1 in (prod(lhs.shape), prod(rhs.shape))
    is_gemm = len(written) == 2 and lhs.dtype.kind == "f" and not is_one
    line = "{0}.dot({1}, {y})" if is_gemm else "matmul({0}, {1}, {y})"
    if lhs.dtype.kind == "f" and is_deterministic(op):
        line = 'einsum("...ij,...jk->...ik", {0}, {1}, out={y})'
    product = b.step(Recipe((line,)), lhs, rhs, shape=result, fills=fills)
    return b.narrow(product, xs[0].dtype)


def _grouped(b: Builder, lhs: Ref, rhs: Ref) -> tuple[Ref, Ref, tuple[int, ...]]:
    """
    The operands such that NumPy's broadcasting pairs their batches, and the shape of the product.

    A B that all batches share makes one product of all rows. Where a batch dim of A is g times
    B's, A is read with that dim split in two; the last batch dim then joins its g rows.
    """
    *batch, m, k = lhs.shape
    n = rhs.shape[-1]
    others = rhs.extents[:-2]
    if batch and all(extent == 1 for extent in others) and prod(lhs.shape) and n:
        rows = prod(batch) * m
        return b.reshape(lhs, (rows, k)), _last_two(rhs), (rows, n)
    rhs = whole(rhs)
    others = rhs.shape[:-2]
    if tuple(batch) == tuple(others):
        return lhs, rhs, (*batch, m, n)
    if batch[:-1] == list(others[:-1]):
        joined = (*others, batch[-1] // others[-1] * m)
        return b.reshape(lhs, (*joined, k)), rhs, (*joined, n)
    split = [(b // a, a) for a, b in zip(others, batch, strict=True)]
    outer = [extent for group, extent in split for extent in (extent, group)]
    paired = [extent for extent in others for extent in (extent, 1)]
    lhs = b.reshape(lhs, (*outer, m, k))
    return lhs, b.reshape(rhs, (*paired, k, n)), (*outer, m, n)


def _last_two(ref: Ref) -> Ref:
    """A stack of equal matrices, its array that of at most one, as that matrix."""
    extra, own = max(len(ref.extents) - 2, 0), ref.layout
    layout = Layout(own.shape[extra:], own.strides[extra:], own.offset)
    one = ref.view(f"{{}}[{', '.join('0' * extra)}]", layout) if extra else ref
    return whole(Ref(ref.shape[-2:], ref.dtype, layout, ref.hint, base=one))


RULES: dict[type[Operation], Rule] = {linear_algebra.MatmulOp: _matmul}
"""The rule of products."""
