# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-promote-dtypes` casts only where no candidate target has the kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp

from agreement import main
from beside import CONTEXT, described, found, optimised
from fuel_dialect import dtypes
from fuel_dialect.errors import NoBackendForOp
from fuel_dialect.ops.elementwise import CastOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.tensors import tensor_type
from fuel_passes.legalize.promote_dtypes import PromoteDtypesPass
from fuel_passes.walk import functions
from machines import only

MIXED = "%a: tensor<2x3xf32>, %b: tensor<3x2xbf16>"
R = "tensor<2x2xf32>"


def mixed(attributes: str = "") -> ModuleOp:
    body = f"%0 = fuel.matmul %a, %b {attributes} : tensor<2x3xf32>, tensor<3x2xbf16> -> {R}"
    return main(MIXED, R, f"{body}\nfunc.return %0 : {R}")


def operand_dtypes(module: ModuleOp) -> list[str]:
    (matmul,) = found(module, MatmulOp)
    return [str(dtypes.of_type(tensor_type(operand))) for operand in matmul.operands]


def with_mixed(monkeypatch: pytest.MonkeyPatch, *backends: str) -> None:
    """Give some targets the kernels whose operands differ in dtype."""
    monkeypatch.setattr(
        "fuel_passes.planning.topology.description_of",
        lambda name: replace(described(name), mixed_floats=name in backends),
    )


def test_optimize_graph_reconciles_mixed_precision_matmul_via_cast():
    module = mixed()
    PromoteDtypesPass().apply(CONTEXT, module)
    assert operand_dtypes(module) == ["f32", "f32"]
    (cast,) = found(module, CastOp)
    (function,) = functions(module)
    assert isinstance(cast, CastOp)
    assert cast.input is function.body.block.args[1], "the weight is as it was"


def test_dtype_reconciliation_ignores_kernels_on_non_candidate_backends(
    monkeypatch: pytest.MonkeyPatch,
):
    with_mixed(monkeypatch, "kompute")
    module = mixed("{placement = #fuel.device<cpu>}")
    PromoteDtypesPass(topology="cpu+vulkan").apply(CONTEXT, module)
    assert operand_dtypes(module) == ["f32", "f32"]


def test_dtype_reconciliation_declines_when_the_candidate_backend_serves_it_natively(
    monkeypatch: pytest.MonkeyPatch,
):
    with_mixed(monkeypatch, "numpy")
    module = mixed("{placement = #fuel.device<cpu>}")
    PromoteDtypesPass(topology="cpu+h100").apply(CONTEXT, module)
    assert operand_dtypes(module) == ["f32", "bf16"]


def test_dtype_reconciliation_counts_admitted_off_device_fallback_as_a_candidate(
    monkeypatch: pytest.MonkeyPatch,
):
    """Whatever has no pin may run on any device of the topology."""
    with_mixed(monkeypatch, "triton")
    module = mixed()
    PromoteDtypesPass(topology="cpu+h100").apply(CONTEXT, module)
    assert operand_dtypes(module) == ["f32", "bf16"]


def test_casts_are_not_mended_by_casts(monkeypatch: pytest.MonkeyPatch):
    """A cast reads one value and is never promoted; what it needs is asked of the target too."""
    module = main(
        "%x: tensor<2xbf16>",
        "tensor<2xf32>",
        "%0 = fuel.cast %x : tensor<2xbf16> -> tensor<2xf32>\nfunc.return %0 : tensor<2xf32>",
    )
    before = str(module)
    PromoteDtypesPass().apply(CONTEXT, module)
    assert str(module) == before
    monkeypatch.setattr(
        "fuel_passes.planning.topology.description_of",
        lambda name: replace(described(name), lacks=only("cast")),
    )
    with pytest.raises(NoBackendForOp, match="cast"):
        optimised(mixed())
