# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Modules that hold one op, or several ops that have nothing to do with one another, each in a kernel.

`benchmarks/cuda_check.py` uses this and `op_samples` too, where hypothesis and pytest may be
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp, RunOp, SequenceOp, YieldOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.reference.precision import Array
from fuel_dialect.tensors import AnyTensor, tensor
from fuel_dialect.traits import Elementwise, ViewOp
from op_samples import Sample

CPU = TargetAttr.of("cpu", "numpy")


def type_of(array: Array) -> AnyTensor:
    return tensor(array.shape, dtypes.of(array.dtype).type)


def types_of(arrays: Sequence[Array]) -> list[AnyTensor]:
    return [type_of(array) for array in arrays]


def is_known(sample: Sample, names: Sequence[str]) -> bool:
    """Returns True if every element type of a sample is one of `names`."""
    types = [*types_of(sample.arrays), *sample.declared]
    return all(dtypes.of_type(type).name in names for type in types)


def op_of(op: type[FuelOp], sample: Sample, operands: Sequence[SSAValue]) -> FuelOp:
    return op.make(*operands, declared=sample.declared, **sample.properties)


def kernel_kind(op: FuelOp) -> str:
    if isinstance(op, ScanOp):
        return "scan"
    return "pointwise" if op.has_trait(Elementwise) or isinstance(op, ViewOp) else "library"


def module_of(types: Sequence[AnyTensor], make: Callable[..., FuelOp], kind: str = "") -> ModuleOp:
    """`main` with one run of one kernel, of the op that `make` makes of block arguments."""
    return _in_main(around(KernelOp, *_kernel(types, make, kind)), CPU)


def module_of_samples(
    samples: Sequence[tuple[type[FuelOp], Sample]], target: TargetAttr
) -> ModuleOp:
    """`main` with one run of a kernel for each op, whose operands and results follow each other."""
    outer = Block(arg_types=[t for _, sample in samples for t in types_of(sample.arrays)])
    arguments = iter(outer.args)
    results: list[SSAValue] = []
    for op, sample in samples:
        inner, name = _kernel(
            types_of(sample.arrays), lambda *o, op=op, sample=sample: op_of(op, sample, o)
        )
        operands = list(islice(arguments, len(sample.arrays)))
        kernel = _region_op(KernelOp, inner, operands, name)
        outer.add_op(kernel)
        results += kernel.results
    outer.add_op(YieldOp(*results))
    return _in_main(outer, target)


def _kernel(
    types: Sequence[AnyTensor], make: Callable[..., FuelOp], kind: str = ""
) -> tuple[Block, Mapping[str, Any]]:
    """The block of a kernel of one op, and the properties of the kernel."""
    inner = Block(arg_types=types)
    op = make(*inner.args)
    inner.add_ops([op, YieldOp(*op.results)])
    return inner, {
        "kind": StringAttr(kind or kernel_kind(op)),
        "label": StringAttr(op.mnemonic()),
    }


def _in_main(body: Block, target: TargetAttr) -> ModuleOp:
    types = [argument.type for argument in body.args]
    run = around(RunOp, body, {"target": target})
    run.add_op(ReturnOp(*run_in(run).results))
    results = [r.type for r in run_in(run).results]
    module = ModuleOp([FuncOp("main", (types, results), Region(run))])
    module.verify()
    return module


def around(kind: type[SequenceOp], body: Block, properties: Mapping[str, Any]) -> Block:
    """A block of the same arguments with one op around `body`, yielded unless it is a run."""
    outer = Block(arg_types=[argument.type for argument in body.args])
    op = _region_op(kind, body, outer.args, properties)
    outer.add_op(op)
    if kind is KernelOp:
        outer.add_op(YieldOp(*op.results))
    return outer


def _region_op(
    kind: type[SequenceOp],
    body: Block,
    operands: Sequence[SSAValue],
    properties: Mapping[str, Any],
) -> Any:
    end = body.last_op
    assert end is not None
    return kind.create(
        operands=operands,
        result_types=[v.type for v in end.operands],
        properties=properties,
        regions=[Region(body)],
    )


def run_in(block: Block) -> Any:
    (run,) = (op for op in block.ops if isinstance(op, RunOp))
    return run


TOLERANCES = {
    np.dtype(np.float64): (1e-12, 1e-12),
    np.dtype(np.float32): (4e-6, 1e-6),
    np.dtype(np.float16): (2e-3, 1e-6),
}
"""Relative and absolute, by dtype: a few roundings."""


def tolerance(*arrays: Array) -> tuple[float, float]:
    """The widest that any of the dtypes asks for; bf16 has 8 bits."""
    floats = [a.dtype for a in arrays if a.dtype.kind not in "biu"]
    return max((TOLERANCES.get(dtype, (1.6e-2, 1e-6)) for dtype in floats), default=(0.0, 0.0))
