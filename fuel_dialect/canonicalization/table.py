# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of canonicalization patterns, by op class."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation
from xdsl.pattern_rewriter import RewritePattern

from fuel_dialect.canonicalization.merge_views import (
    MergeAlongDim,
    MergePermutations,
    MergeUnitDims,
    SkipInner,
)
from fuel_dialect.canonicalization.regions import (
    DropOperands,
    DropResults,
    InlineOnlyArm,
    SinkLeaves,
)
from fuel_dialect.canonicalization.reorder_views import SinkAlongDim, SinkPermutation, SinkSlice
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.ops.shape import (
    BroadcastToOp,
    FlipOp,
    PermuteOp,
    ReshapeOp,
    SliceOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)

PATTERNS: Mapping[type[Operation], tuple[RewritePattern, ...]] = {
    BroadcastToOp: (SkipInner(),),
    FlipOp: (MergeAlongDim(), SinkAlongDim()),
    PermuteOp: (MergePermutations(), SinkPermutation()),
    ReshapeOp: (SkipInner(),),
    SliceOp: (MergeAlongDim(), SinkAlongDim(), SinkSlice()),
    SqueezeOp: (MergeUnitDims(),),
    TransposeOp: (MergePermutations(), SinkPermutation()),
    UnsqueezeOp: (MergeUnitDims(),),
    BranchOp: (InlineOnlyArm(), SinkLeaves(), DropOperands(), DropResults()),
    ScanOp: (SinkLeaves(), DropOperands()),
    KernelOp: (DropOperands(), DropResults()),
    RunOp: (DropOperands(), DropResults()),
}
