# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-plan` on modules: kernels get targets; views, constants and transfers get none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from xdsl.dialects.builtin import ModuleOp

from agreement import main
from fuel_dialect.context import make_context
from fuel_dialect.errors import NoBackendForOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.memory import TransferOp
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.planning.plan import PlanPass
from machines import only

F = "tensor<3xf32>"
MATRIX = "tensor<3x3xf32>"


def planned(body: str, topology: str | None, device: str | None = None) -> ModuleOp:
    """A module of one argument after `fuel-form-kernels` and `fuel-plan`."""
    module = main(f"%x: {F}, %m: {MATRIX}", F, f"{body}\nfunc.return %r : {F}")
    FormKernelsPass().apply(make_context(), module)
    PlanPass(topology=topology, device=device).apply(make_context(), module)
    module.verify()
    return module


def placed(module: ModuleOp) -> list[tuple[str, str]]:
    """Label and target of each kernel."""
    kernels = (op for op in module.walk() if isinstance(op, KernelOp))
    return [(kernel.label.data, str(kernel.target)) for kernel in kernels]


def test_compile_plan_skips_view_and_const_nodes():
    module = planned(
        f"""
        %0 = fuel.const 1.0 : f32 -> {F}
        %1 = fuel.add %x, %0 : {F}
        %v = fuel.reshape %1 : {F} -> tensor<1x3xf32>
        %2 = fuel.neg %v : tensor<1x3xf32>
        %r = fuel.reshape %2 : tensor<1x3xf32> -> {F}""",
        "cpu+vulkan",
        device="vulkan",
    )
    assert [target for _, target in placed(module)] == ["vulkan:0/kompute"] * len(placed(module))
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    work = [op.name for kernel in kernels for op in kernel.body.walk()]
    assert work.count("fuel.add") == work.count("fuel.neg") == 1


MATMUL = f"""
    %a = fuel.reshape %x : {F} -> tensor<1x3xf32>
    %b = fuel.matmul %a, %m : tensor<1x3xf32>, {MATRIX} -> tensor<1x3xf32>
    %r = fuel.reshape %b : tensor<1x3xf32> -> {F}"""


LACKING = replace(DESCRIPTION, lacks=only("matmul"), dtypes=("f32", "i1"))


@contextmanager
def no_matmul() -> Iterator[None]:
    """Targets without a matmul."""
    with patch(
        "fuel_passes.planning.topology.description_of", lambda name: replace(LACKING, name=name)
    ):
        yield


@pytest.mark.parametrize("topology", ["cpu+vulkan", "2xh100"])
def test_compile_plan_fails_fast_on_missing_binding(topology: str):
    with no_matmul(), pytest.raises(NoBackendForOp, match="no target for matmul"):
        planned(MATMUL, topology)


def test_plan_time_miss_reports_real_coverage_not_empty():
    why = r"no kernel for matmul \(f32, f32\) -> f32"
    with (
        no_matmul(),
        pytest.raises(NoBackendForOp, match=rf"cpu/numpy: {why}; vulkan:0/kompute: {why}"),
    ):
        planned(MATMUL, "cpu+vulkan")


def test_compile_plan_legacy_single_backend_uses_target_backend():
    assert placed(planned(f"%r = fuel.neg %x : {F}", None)) == [("neg", "None")]


def transferred(transfer: str) -> ModuleOp:
    """Makes a module whose kernel reads a transfer, which draws it to where the value is."""
    return planned(
        f"""
        %0 = fuel.{transfer} %x to #fuel.device<vulkan:0> : {F}
        %r = fuel.neg %0 : {F}""",
        "cpu+vulkan",
        device="vulkan",
    )


def test_compile_plan_skips_op_copy_nodes():
    """A transfer is no kernel."""
    module = transferred("copy")
    assert placed(module) == [("neg", "vulkan:0/kompute")]
    assert sum(isinstance(op, TransferOp) for op in module.walk()) == 1


def test_compile_plan_skips_op_move_nodes():
    module = transferred("move")
    assert placed(module) == [("neg", "vulkan:0/kompute")]
    assert sum(isinstance(op, TransferOp) for op in module.walk()) == 1


def test_telemetry_off_emits_no_dispatch_record(capfd: pytest.CaptureFixture[str]):
    planned(f"%r = fuel.exp %x : {F}", "cpu+vulkan")
    assert capfd.readouterr() == ("", "")
