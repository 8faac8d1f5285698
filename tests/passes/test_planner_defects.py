# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The defects of `planner-and-runs.md` section 6 that concern the planner, X-1 to X-10 and X-20 to
X-22: one test each, with what fuel does instead. X-11 to X-19 and X-23 to X-25 are about runs and
routes: `tests/runtime/test_run_catalogue.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from agreement import main
from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.planning.frontier import Entry, ranked
from fuel_passes.planning.measurements import key_of
from fuel_passes.planning.nodes import Node, Output, Source
from fuel_passes.planning.placement import Assigned, place
from fuel_passes.planning.prices import kernel_ns
from fuel_passes.planning.serving import sites
from fuel_passes.planning.topology import target_description
from placements import flat, linked

X = Source("x", "cpu")
CUDA = TargetAttr.of("cuda:0", "triton")


def kernels(body: str, arguments: str, results: str) -> list[KernelOp]:
    module = main(arguments, results, body)
    FormKernelsPass().apply(make_context(), module)
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def test_x1_an_unpriced_candidate_is_not_free():
    """Decided: what has no price is ranked after all that have one, and placed on last of all."""
    entries = [Entry(name, name, name, (), price) for name, price in (("a", None), ("b", 9))]
    assert [entry.candidate for entry in ranked(entries)] == ["b", "a"]
    topology = flat(0, "cpu", "cuda:0")
    assert place([Node(0, (X,), {"cpu": 9, "cuda:0": None})], topology).assignment == {0: "cpu"}
    assert place([Node(0, (X,), {"cuda:0": None})], topology).assignment == {0: "cuda:0"}


def test_x2_one_set_of_rates_prices_everything():
    """Decided: the topology's rates of a target, else its typical ones, wherever it is priced."""
    fast, typical = PRESETS["cpu+h200"], PRESETS["cpu+vulkan"]
    assert target_description(fast, CUDA).bytes_per_ns == 3_900
    assert target_description(fast, CUDA) is target_description(fast, CUDA)
    (numpy, _) = typical.targets
    assert target_description(typical, numpy) == target_description(fast, numpy)


def test_x3_what_is_placed_has_no_residency_of_its_own():
    """Decided: only a `Source` says where it lives; a result lives where its kernel is placed."""
    node = Node(0, (X,), {"cpu": 10_000_000, "cuda:0": 10})
    reader = Node(1, (0,), {"cpu": 50, "cuda:0": 10})
    found = place([node, reader], flat(1_000, "cpu", "cuda:0"))
    assert found.assignment == {0: "cuda:0", 1: "cuda:0"}
    assert found.transfers_ns == 1_000


def test_x4_a_pin_on_a_device_without_the_kernel_is_an_error():
    """Decided: raised, never moved."""
    node = Node(0, (X,), {"cpu": 10}, pin="cuda:0")
    with pytest.raises(FuelPassError, match="pinned to cuda:0, which does not serve it"):
        place([node], flat(0, "cpu", "cuda:0"))


def test_x5_what_may_reuse_memory_stays_with_its_producer():
    """Decided: the pair is placed together, where both together are cheapest."""
    topology = flat(0, "cpu", "cuda:0")
    maker = Node(0, (X,), {"cpu": 100, "cuda:0": 10})
    writer = Node(1, (0,), {"cpu": 10, "cuda:0": 50}, reuses=0)
    assert place([maker, replace(writer, reuses=None)], topology).assignment == {
        0: "cuda:0",
        1: "cpu",
    }
    assert place([maker, writer], topology).assignment == {0: "cuda:0", 1: "cuda:0"}
    pinned = replace(writer, pin="cpu")
    apart = place([maker, pinned], topology).assignment
    assert apart == {0: "cuda:0", 1: "cpu"}, "a pin parts them: a copy is what it may reuse"
    chain = [Node(k, (k - 1,), {"cpu": 9, "cuda:0": 8}, reuses=k - 1) for k in range(1, 100)]
    found = place([replace(maker, pin="cpu"), *chain], topology)
    assert set(found.assignment.values()) == {"cpu"}


def test_x6_runners_up_on_other_devices_keep_a_price():
    """Decided: a placement picks one device, and every other stays priced for the forks."""
    nodes = [Node(k, (k - 1,) if k else (X,), {"cpu": 30, "cuda:0": 10}, 8) for k in range(3)]
    topology = linked(10, 1, "cpu", "cuda:0")
    found = place(nodes, topology, {2: "cpu"})
    assert set(found.assignment.values()) == {"cuda:0"}
    assigned = Assigned(nodes, topology, found.assignment, {2: "cpu"})
    assert assigned.change_ns([0, 1, 2], "cpu") == 90 - (30 + 10 + 18)
    assert assigned.change_ns([1], "cpu") == 20 + 2 * 18
    assert assigned.change_ns([1], "cuda:0") == 0


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


def test_x7_prices_see_the_op_with_its_parameters():
    """Decided: a price is a function of the op itself, so a slice costs what it shows."""
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


def test_x8_a_scan_is_one_kernel_that_costs_its_length_times_its_body():
    """Decided: its body is a region and is never placed by itself."""
    target = target_description(PRESETS["cpu"], PRESETS["cpu"].targets[0])
    short, long = scan("add", 10), scan("add", 1_000)
    assert short.kind.data == "scan"
    assert kernel_ns(long, target) == 100 * kernel_ns(short, target)
    assert key_of(short, CUDA).ops == ("scan[10]", "add")
    assert key_of(short, CUDA) != key_of(scan("mul", 10), CUDA)


def test_x9_every_result_of_a_bundle_has_a_place_and_a_size():
    """Decided: results are values of their own, priced by their own bytes."""
    bundle = Node(0, (), {"cuda:0": 1}, (1_000, 8))
    topology = linked(10, 1, "cpu", "cuda:0")
    small = place([bundle, Node(1, (Output(0, 1),), {"cpu": 1})], topology)
    large = place([bundle, Node(1, (0,), {"cpu": 1})], topology)
    assert (small.transfers_ns, large.transfers_ns) == (18, 1_010)


def test_x10_a_dynamic_extent_is_priced_at_its_capacity():
    """Decided: shapes are static, a count is a value; so all is priced by the upper bound."""
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


def test_x20_devices_of_one_kind_are_told_apart():
    """Decided: everything names devices, not backends."""
    nodes = [
        Node(0, (Source("a", "cuda:0", 10**6),), {"cuda:0": 10, "cuda:1": 10}, 8),
        Node(1, (Source("b", "cuda:1", 10**6),), {"cuda:0": 10, "cuda:1": 10}, 8),
    ]
    found = place(nodes, PRESETS["2xh100"])
    assert found.assignment == {0: "cuda:0", 1: "cuda:1"}


def test_x21_a_pinned_op_is_only_asked_of_the_device_it_is_pinned_to():
    """Decided: the candidates of a pinned op are its device's, so it is cast there, not moved."""
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


def test_x22_a_value_that_is_read_twice_travels_once():
    """Decided: one transfer for each value and memory, however often and by whom it is read."""
    topology = linked(10, 1, "cpu", "cuda:0")
    maker, twice = Node(0, (), {"cpu": 1}, 90), Node(1, (0, 0), {"cuda:0": 1})
    assert place([maker, twice], topology).transfers_ns == 100
    assert place([maker, twice, replace(twice, key=2)], topology).transfers_ns == 100
    source = Source("x", "cpu", 90)
    readers = [Node(key, (source,), {"cuda:0": 1}) for key in range(3)]
    assert place(readers, topology).transfers_ns == 100
