# SPDX-License-Identifier: MIT OR Apache-2.0
"""Candidates of a kernel: filters, the frontier, keys and the rates and prices behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agreement import main
from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.presets import PRESETS
from fuel_dialect.targets.registry import default_backend, kinds
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.planning.candidates import candidates_for, measurement_key
from fuel_passes.planning.frontier import Entry, frontier, ranked
from fuel_passes.planning.measurements import MeasurementKey, Measurements, key_of
from fuel_passes.planning.prices import kernel_ns
from fuel_passes.planning.serving import sites
from fuel_passes.planning.topology import target_description
from machines import UNSTEADY, sources


def test_default_device_per_backend_matches_router_convention():
    defaults = {kind: default_backend(kind) for kind in kinds()}
    assert defaults == {"cpu": "numpy", "cuda": "triton", "vulkan": "kompute"}
    names = {TargetAttr.of(kind, backend or "").device.label for kind, backend in defaults.items()}
    assert names == {"cpu", "cuda:0", "vulkan:0"}
    assert default_backend("abacus") is None


F = "tensor<3xf32>"


def kernels(body: str, arguments: str, results: str) -> list[KernelOp]:
    module = main(arguments, results, body)
    FormKernelsPass().apply(make_context(), module)
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def added() -> KernelOp:
    body = f"%0 = fuel.add %x, %x : {F}\nfunc.return %0 : {F}"
    (kernel,) = kernels(body, f"%x: {F}", F)
    return kernel


def refusals(kernel: KernelOp, **required: Any) -> list[str | None]:
    """Returns the reason why each source of the host may not make a kernel."""
    return [c.refusal for c in candidates_for(PRESETS["cpu"], **required).of(kernel)]


def entry(backend: str, costs: int | None, device: str = "cpu") -> Entry[str]:
    return Entry(backend, device, backend, (costs or 0,), costs)


def test_compile_plan_cross_co_located_via_placements_callback():
    assert refusals(added()) == [None, None]


def test_compile_plan_precision_requirement_filters_via_default_chain():
    """Bit-stability is a filter of its own here, and the floor is in units in the last place."""
    with sources("numpy", tiles={"unstable": UNSTEADY}, library={"unstable": UNSTEADY}):
        assert refusals(added()) == [None, None]
        *unsteady, einsum = refusals(added(), deterministic=True)
        assert unsteady == [
            f"determinism: {name} gives a add of f32 other bits each time"
            for name in ("tiles", "library")
        ]
        assert einsum == "it runs matmul, scan, library kernels, not pointwise"
    for refusal in refusals(added(), max_ulps=1):
        assert refusal is not None
        assert refusal.startswith("precision-floor: ")


def test_compile_plan_with_cost_ranks_cheaper_winner():
    kept = frontier(ranked([entry("numpy", 1_000_000), entry("triton", 10)]))
    assert [e.candidate for e in kept] == ["triton", "numpy"]


def test_compile_plan_judge_layer2_can_flip_layer1_winner():
    text = f"%0 = fuel.add %x, %x : {F}\nfunc.return %0 : {F}"
    module = main(f"%x: {F}", F, text)
    FormKernelsPass().apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    targets = {"cpu": TargetAttr.of("cpu", "numpy"), "vulkan:0": TargetAttr.of("vulkan", "kompute")}
    judge = Measurements(
        {
            measurement_key(kernel, targets["cpu"], PRESETS["cpu+vulkan"]): 5_000,
            measurement_key(kernel, targets["vulkan:0"], PRESETS["cpu+vulkan"]): 20,
        }
    )
    for measurements, winner in ((None, "cpu"), (judge, "vulkan:0")):
        found = candidates_for(PRESETS["cpu+vulkan"], measurements=measurements).of(kernel)
        best = min(found, key=lambda c: c.price_ns or 0)
        assert best.target == targets[winner]
        assert best.measured == (measurements is not None)
    elsewhere = Measurements(
        {replace(measurement_key(kernel, targets["cpu"], PRESETS["cpu"]), hardware="other"): 5_000}
    )
    found = candidates_for(PRESETS["cpu"], measurements=elsewhere).of(kernel)
    assert not any(c.measured for c in found)


def test_compile_plan_stamps_decision_context():
    text = "%0 = fuel.add %x, %x : tensor<3xf32>\nfunc.return %0 : tensor<3xf32>"
    module = main("%x: tensor<3xf32>", "tensor<3xf32>", text)
    FormKernelsPass().apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    assert key_of(kernel, TargetAttr.of("cpu", "numpy")) == MeasurementKey(
        ("add",), ("f32", "f32"), (2, 2), "cpu/numpy"
    )


def test_compile_plan_retains_per_device_frontier_no_top_n():
    entries = [entry("numpy", None), entry("triton", None), entry("kompute", None)]
    assert frontier(ranked(entries)) == entries


def test_compile_plan_filter_rejected_pinned_device_falls_back():
    with sources("numpy", tiles={"unstable": UNSTEADY}):
        tiles, library, _ = refusals(added(), deterministic=True)
    assert tiles == "determinism: tiles gives a add of f32 other bits each time"
    assert library is None


def test_compile_plan_passes_input_layouts_to_filter_chain():
    body = f"""
        %t = fuel.flip %x {{dim = 0 : i64}} : {F} -> {F}
        %0 = fuel.add %t, %x : {F}
        func.return %0 : {F}"""
    (turned,) = kernels(body, f"%x: {F}", F)
    with sources("numpy", tiles={"strided": False}):
        assert refusals(added()) == [None, None]
        assert refusals(turned) == ["it reads contiguous operands only, not a flip of one", None]


def test_structure_key_operand_slice_folds_in_the_output():
    """The key of a measurement has the operands in order and then the result."""
    body = f"%0 = fuel.gt %x, %y : {F} -> tensor<3xi1>\nfunc.return %0 : tensor<3xi1>"
    module = main(f"%x: {F}, %y: {F}", "tensor<3xi1>", body)
    FormKernelsPass().apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    key = key_of(kernel, TargetAttr.of("cpu", "numpy"))
    assert key.dtypes == ("f32", "f32", "i1")
    assert key.shape_class == (2, 2, 2)


CUDA = TargetAttr.of("cuda:0", "triton")


def test_one_set_of_rates_prices_everything():
    """The topology's rates of a target, else its typical ones, wherever it is priced."""
    fast, typical = PRESETS["cpu+h200"], PRESETS["cpu+vulkan"]
    assert target_description(fast, CUDA).bytes_per_ns == 3_900
    assert target_description(fast, CUDA) is target_description(fast, CUDA)
    (numpy, _) = typical.targets
    assert target_description(typical, numpy) == target_description(fast, numpy)


SCAN = """
    %0 = fuel.scan init(%s = %x : tensor<4xf32>) xs(%e = %xs : tensor<{length}x4xf32>)
        length {length} -> tensor<4xf32> {
      %n = fuel.{op} %s, %e : tensor<4xf32>
      fuel.scan_yield carry(%n : tensor<4xf32>)
    }
    func.return %0 : tensor<4xf32>"""


def scan(op: str, length: int) -> KernelOp:
    (kernel,) = kernels(
        SCAN.replace("{op}", op).replace("{length}", str(length)),
        f"%x: tensor<4xf32>, %xs: tensor<{length}x4xf32>",
        "tensor<4xf32>",
    )
    return kernel


def test_prices_see_the_op_with_its_parameters():
    """A price is a function of the op itself, so a slice costs what it shows."""
    target = target_description(PRESETS["cpu"], PRESETS["cpu"].targets[0])

    def sliced(rows: int) -> KernelOp:
        part, whole = f"tensor<{rows}x512xf32>", "tensor<512x512xf32>"
        shown = f"{{dim = 0 : i64, start = 0 : i64, length = {rows} : i64}}"
        body = f"""
            %0 = fuel.slice %x {shown} : {whole} -> {part}
            %1 = fuel.tanh %0 : {part}
            func.return %1 : {part}"""
        (kernel,) = kernels(body, f"%x: {whole}", part)
        return kernel

    few, many = kernel_ns(sliced(2), target), kernel_ns(sliced(500), target)
    assert few < many


def test_a_scan_is_one_kernel_that_costs_its_length_times_its_body():
    """Its body is a region and is never placed by itself."""
    target = target_description(PRESETS["cpu"], PRESETS["cpu"].targets[0])
    short, long = scan("add", 10), scan("add", 1_000)
    assert short.kind.data == "scan"
    assert kernel_ns(long, target) == 100 * kernel_ns(short, target)
    assert key_of(short, CUDA).ops == ("scan[10]", "add")
    assert key_of(short, CUDA) != key_of(scan("mul", 10), CUDA)


def test_a_dynamic_extent_is_priced_at_its_capacity():
    """Shapes are static, a count is a value; so all is priced by the upper bound."""
    first, second = (
        kernels(
            f"%0 = fuel.neg %x : tensor<{rows}x4xf32>\nfunc.return %0 : tensor<{rows}x4xf32>",
            f"%x: tensor<{rows}x4xf32>, %count: tensor<ui32>",
            f"tensor<{rows}x4xf32>",
        )[0]
        for rows in (64, 65)
    )
    assert key_of(first, CUDA).shape_class == (9, 9), "256 elements"
    assert key_of(first, CUDA) == key_of(second, CUDA)


def test_a_pinned_op_is_only_asked_of_the_device_it_is_pinned_to():
    """The candidates of a pinned op are its device's, so it is cast there, not moved."""
    module = main(
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
        "%0 = fuel.neg %x : tensor<2xf32>\nfunc.return %0 : tensor<2xf32>",
    )
    (site,) = sites(module, PRESETS["cpu+h100"])
    (op,) = (op for op in site.block.ops if isinstance(op, FuelOp))
    assert [d.name for d in site.candidates(op)] == ["numpy", "triton"]
    op.properties["placement"] = DeviceAttr.of("cpu")
    assert [d.name for d in site.candidates(op)] == ["numpy"]
