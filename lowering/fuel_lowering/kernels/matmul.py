# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forms of matrix products with elementwise ops after them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.form import Form, Load, arguments, fill, yielded
from fuel_lowering.kernels.indexing import repeat_axis, split_axis


@dataclass(eq=False)
class MatmulForm(Form):
    """
    A product of `batch` matrices, [m, k] times [k, n], then elementwise ops on it.

    `batch` are the extents of the batch axes; `lhs` and `rhs` lie over (*batch, m, k) and
    (*batch, k, n). `ops` are over `shape`, which has as many elements as (*batch, m, n), in the
    same order. The product accumulates in `accumulator`; of f32, its factors may be rounded if
    `allow_tf32`.
    """

    shape: tuple[int, ...] = ()
    product: SSAValue | None = None
    batch: tuple[int, ...] = ()
    m: int = 0
    n: int = 0
    k: int = 0
    lhs: Load | None = None
    rhs: Load | None = None
    allow_tf32: bool = False

    @property
    def accumulator(self) -> DType:
        """The element type of sums: f32 for bf16 and f16, else that of the product."""
        assert self.product is not None
        dtype = self.dtype(self.product)
        return dtypes.BY_NAME["f32"] if dtype.is_float and dtype.bits < 32 else dtype


def matmul_form(kernel: KernelOp, name: str) -> MatmulForm:
    block = kernel.body.block
    form = MatmulForm(name, arguments(kernel), yielded(block))
    fill(form, block)
    (product,) = (op for op in form.ops if isinstance(op, MatmulOp))
    form.ops.remove(product)
    form.product = product.result
    form.allow_tf32 = product.allow_tf32 is not None
    form.shape = tuple(tensor_type(product.result).get_shape())
    lhs, rhs = (form.loads[v] for v in (product.lhs, product.rhs))
    form.lhs, form.rhs, form.batch = _batched(lhs, rhs, product.groups())
    *_, form.m, form.k = lhs.layout.shape
    form.n = rhs.layout.shape[-1]
    return form


def _batched(lhs: Load, rhs: Load, groups: tuple[int, ...]) -> tuple[Load, Load, tuple[int, ...]]:
    """Returns both operands over the same batch axes; an axis whose entries are grouped is two."""
    a, b = lhs.layout, rhs.layout
    for axis in reversed(range(len(groups))):
        if groups[axis] > 1:
            a, b = split_axis(a, axis, groups[axis]), repeat_axis(b, axis, groups[axis])
    return Load(lhs.argument, a), Load(rhs.argument, b), a.shape[:-2]
