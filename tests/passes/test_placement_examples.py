# SPDX-License-Identifier: MIT OR Apache-2.0
"""The placement of a few nodes, worked out by hand: pins, ties, transfers, exits, reuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuel_dialect.errors import FuelPassError
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.targets.machine import Topology
from fuel_dialect.targets.numpy import DESCRIPTION
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.planning.frontier import Entry, ranked
from fuel_passes.planning.nodes import Node, Output, Source
from fuel_passes.planning.placement import Assigned, Placement, place
from fuel_passes.planning.prices import Work, duration
from fuel_passes.planning.topology import validated
from placements import flat, linked

X, Y = Source("x", "cpu"), Source("y", "cpu")
MILLISECOND = 1_000_000


def add(cpu: int | None = None, cuda: int | None = None, **more: object) -> Node:
    """The catalogue's add graph: one kernel on two constants that live on the host."""
    prices = {"cpu": cpu, "cuda:0": cuda}
    known = {device: price for device, price in prices.items() if price is not None}
    return replace(Node(0, (X, Y), known), **more)


def add_on(latency_ns: int, node: Node) -> Placement:
    """The add graph on a host and a GPU; where its result ends is free, as in the catalogue."""
    return place([node], flat(latency_ns, "cpu", "cuda:0"))


def test_empty_plan_has_no_alternatives():
    found = place([], flat(1, "cpu", "cuda:0"))
    assert found.assignment == {}
    assert found.assignment.get(0) is None
    assert (found.total_ns, found.exact) == (0, True)


def test_compile_plan_pinned_device_matches_stamped_plan():
    pinned = add_on(0, add(100, 10, pin="cpu"))
    stamped = add_on(0, add(100))
    assert pinned.assignment == stamped.assignment == {0: "cpu"}
    assert pinned.total_ns == stamped.total_ns


def test_compile_plan_errors_without_any_device_context():
    with pytest.raises(FuelPassError, match="node 0 is served on no device of cpu, cuda:0"):
        add_on(0, add())


def test_compile_plan_fallback_admits_off_device_candidate():
    neighbour = Node(1, (0,), {"cuda:0": 10})
    found = place([add(cpu=100), neighbour], flat(5, "cpu", "cuda:0"), {1: "cuda:0"})
    assert found.assignment == {0: "cpu", 1: "cuda:0"}


def test_compile_plan_fallback_not_consulted_when_pinned_has_impl():
    """Every price is known beforehand; where a pin is served, those elsewhere count for nothing."""
    alone, beside = add_on(5, add(100, pin="cpu")), add_on(5, add(100, 1, pin="cpu"))
    assert alone.assignment == beside.assignment == {0: "cpu"}
    assert alone.total_ns == beside.total_ns == 100


def test_compile_plan_fallback_denied_for_destructive_ops():
    """Nothing is denied: an op that may reuse memory is a value, and is copied to where it runs."""
    made = Node(0, (), {"cuda:0": 10}, 4)
    found = place([made, Node(1, (0,), {"cpu": 10}, reuses=0)], flat(5, "cpu", "cuda:0"))
    assert found.assignment == {0: "cuda:0", 1: "cpu"}
    assert found.transfers_ns == 6


def test_compile_plan_fallback_freezes_to_single_winner():
    node = Node(0, (X,), {"cpu": None, "vulkan:0": None})
    assert place([node], flat(0, "cpu", "cuda:0", "vulkan:0")).assignment == {0: "cpu"}


def test_compile_plan_prices_fallback_by_input_residency():
    node = Node(0, (Source("x", "vulkan:0"),), {"cpu": 0, "vulkan:0": 0})
    found = place([node], flat(1_000, "cpu", "cuda:0", "vulkan:0"), {0: "cuda:0"})
    assert found.assignment == {0: "vulkan:0"}
    assert found.transfers_ns == 1_000, "the exit only; nothing comes in"
    assert found.singles == {"cpu": 2_000, "vulkan:0": 1_000}


def test_compile_plan_relaxed_tiny_op_stays_local_when_transfer_dominates():
    found = add_on(MILLISECOND, add(600, 10))
    assert found.assignment == {0: "cpu"}
    assert found.transfers_ns == 0


def test_compile_plan_uncapped_gpu_no_longer_wins_by_being_free():
    """Only the second half: what has no price is no bargain."""
    unpriced = Node(0, (X, Y), {"cpu": 600, "cuda:0": None})
    assert add_on(100, unpriced).assignment == {0: "cpu"}
    assert add_on(100, add(600, 500)).assignment == {0: "cpu"}
    assert add_on(100, add(600, 500)).singles == {"cpu": 600, "cuda:0": 700}


def rate(flops_per_ns: float) -> TargetDescription:
    return replace(DESCRIPTION, flops_per_ns=flops_per_ns, launch_ns=0)


@pytest.mark.parametrize(("flops", "device"), [(100, "cpu"), (10_000_000, "cuda:0")])
def test_compile_plan_places_large_compute_on_gpu_small_on_cpu_by_throughput(
    flops: int, device: str
):
    node = add(duration(Work(flops=flops), rate(1)), duration(Work(flops=flops), rate(30)))
    found = add_on(100, node)
    assert found.assignment == {0: device}
    assert found.singles["cuda:0"] == {100: 4, 10_000_000: 333_334}[flops] + 200


def test_compile_plan_without_cost_placement_keeps_large_op_on_cpu():
    assert add_on(100, add(10_000_000, 333_334, pin="cpu")).assignment == {0: "cpu"}


def test_compile_plan_relaxed_huge_op_moves_when_kernel_gap_dominates():
    found = add_on(1_000, add(10_000_000, 10))
    assert found.assignment == {0: "cuda:0"}
    assert found.transfers_ns == 2_000


def test_compile_plan_relaxed_zero_signal_ties_stay_local():
    assert add_on(0, add(0, 0)).assignment == {0: "cpu"}


def test_compile_plan_relaxed_single_device_plan_unchanged():
    alone = place([add(600)], flat(0, "cpu"))
    assert alone == replace(add_on(1_000, add(600)), generation=alone.generation)
    assert alone.transfers_ns == 0


def test_compile_plan_relaxed_respects_explicit_placement_pin():
    assert add_on(0, add(600, 10, pin="cpu")).assignment == {0: "cpu"}


def test_compile_plan_relaxed_destructive_never_moves():
    """A kernel that may reuse the memory of a value stays with it."""
    assert add_on(0, add(600, 10, reuses=X)).assignment == {0: "cpu"}


def test_compile_plan_without_estimator_prices_nothing():
    """There always is an estimator; on shared storage it says 0."""
    topology = flat(1_000, "cpu", "cuda:0")
    shared = tuple(replace(device, storage="host") for device in topology.devices)
    found = place([add(600, 10)], replace(topology, devices=shared))
    assert (found.assignment, found.transfers_ns) == ({0: "cuda:0"}, 0)


def test_compile_plan_require_transfer_pricing_errors_without_estimator():
    apart = replace(flat(1, "cpu", "cuda:0"), links=())
    with pytest.raises(FuelPassError, match="no way from cpu to cuda:0: neither a direct link"):
        validated(apart)
    with pytest.raises(FuelPassError, match="no way from cpu to cuda:0"):
        place([add(600, 10)], apart)


def test_compile_plan_require_transfer_pricing_ok_with_estimator():
    topology = flat(1, "cpu", "cuda:0")
    assert validated(topology) is topology
    assert place([add(600, 10)], topology).exact


def chain(*prices: tuple[int, int], bytes: int = 0) -> list[Node]:
    """Kernels that read one another, the first the constant: prices on the host and on the GPU."""
    return [
        Node(key, (key - 1,) if key else (X,), {"cpu": cpu, "cuda:0": cuda}, bytes)
        for key, (cpu, cuda) in enumerate(prices)
    ]


SQR, NEG = (100, 5_000), (800, 100)


def test_dp_mid_sequence_gpu_segment_beats_all_cpu_and_all_gpu():
    """2,500, against 2,600 on the host and 12,300 on the GPU."""
    found = place(chain(SQR, NEG, NEG, NEG, SQR), flat(1_000, "cpu", "cuda:0"), {4: "cpu"})
    assert list(found.assignment.values()) == ["cpu", "cuda:0", "cuda:0", "cuda:0", "cpu"]
    assert (found.total_ns, found.transfers_ns) == (2_500, 2_000)
    assert found.singles == {"cpu": 2_600, "cuda:0": 12_300}


def test_dp_fused_op_loses_when_stranding_exceeds_local_win():
    """The softmax is 200 ns faster on the GPU, but its result would have to come back."""
    first = Node(0, (Source("x", "cpu", 4),), {"cpu": 100_000, "cuda:0": 100}, 4)
    softmax = Node(1, (0,), {"cpu": 300, "cuda:0": 100}, 1_024)
    last = Node(2, (1,), {"cpu": 100, "cuda:0": 100_000})
    found = place([first, softmax, last], linked(10, 1, "cpu", "cuda:0"), {2: "cpu"})
    assert found.assignment == {0: "cuda:0", 1: "cpu", 2: "cpu"}
    assert found.transfers_ns == 14 + 14


def test_dp_exit_pricing_keeps_final_op_on_realize_target():
    """50 and a crossing in beat 100 and a crossing out."""
    node = Node(0, (Source("x", "cuda:0"),), {"cpu": 50, "cuda:0": 100})
    found = place([node], flat(1_000, "cpu", "cuda:0"), {0: "cpu"})
    assert (found.assignment, found.transfers_ns) == ({0: "cpu"}, 1_000)
    assert found.singles == {"cpu": 1_050, "cuda:0": 1_100}


def test_dp_exit_pricing_does_not_pin_when_kernel_gap_dominates():
    node = Node(0, (Source("x", "cuda:0"),), {"cpu": 10_000_000, "cuda:0": 100})
    assert place([node], flat(1_000, "cpu", "cuda:0"), {0: "cpu"}).assignment == {0: "cuda:0"}


def test_dp_single_device_plan_equals_greedy_plan():
    nodes = [replace(node, prices={"cpu": node.prices["cpu"]}) for node in chain(SQR, NEG, SQR)]
    alone, beside = place(nodes, flat(0, "cpu")), place(nodes, flat(7, "cpu", "cuda:0"))
    assert alone == replace(beside, generation=alone.generation)
    assert alone.total_ns == alone.bound_ns == 1_000


@pytest.mark.parametrize(
    ("latency_ns", "device", "total_ns"), [(MILLISECOND, "cpu", 400), (0, "cuda:0", 40)]
)
def test_dp_diamond_join_merges_consistently(latency_ns: int, device: str, total_ns: int):
    """At 1 ms a crossing everything stays, free everything goes."""
    prices = {"cpu": 100, "cuda:0": 10}
    nodes = [Node(key, inputs, prices) for key, inputs in enumerate([(X,), (0,), (0,), (1, 2)])]
    found = place(nodes, flat(latency_ns, "cpu", "cuda:0"), {3: "cpu"})
    assert set(found.assignment.values()) == {device}
    assert found.total_ns == total_ns


def test_dp_thousand_node_chain_plans_within_sanity_bound():
    """No time is asserted; benchmarks measure. All on the host, by the tie rule."""
    found = place(chain(*[(100, 100)] * 1_000), flat(10, "cpu", "cuda:0"))
    assert len(found.assignment) == 1_000
    assert set(found.assignment.values()) == {"cpu"}
    assert (found.total_ns, found.exact) == (100_000, True)


def test_dp_chain_connects_through_view_passthroughs():
    """Views are in the kernels that read them, so the chain is one of kernels."""
    found = place(chain(NEG, NEG, NEG), flat(1_000, "cpu", "cuda:0"), {2: "cpu"})
    assert set(found.assignment.values()) == {"cuda:0"}
    assert found.total_ns == 2_300
    assert found.singles == {"cpu": 2_400, "cuda:0": 2_300}


def test_two_devices_of_one_kind_are_two_devices():
    topology: Topology = flat(1_000, "cuda:0", "cuda:1")
    node = Node(0, (Source("x", "cuda:1"),), {"cuda:0": 10, "cuda:1": 10})
    assert place([node], topology).assignment == {0: "cuda:1"}


def test_an_unpriced_candidate_is_not_free():
    """Candidates without a price are ranked, and placed on, after all that have one."""
    entries = [Entry(name, name, name, (), price) for name, price in (("a", None), ("b", 9))]
    assert [entry.candidate for entry in ranked(entries)] == ["b", "a"]
    topology = flat(0, "cpu", "cuda:0")
    assert place([Node(0, (X,), {"cpu": 9, "cuda:0": None})], topology).assignment == {0: "cpu"}
    assert place([Node(0, (X,), {"cuda:0": None})], topology).assignment == {0: "cuda:0"}


def test_what_is_placed_has_no_residency_of_its_own():
    """Only a `Source` says where it lives; a result lives where its kernel is placed."""
    node = Node(0, (X,), {"cpu": 10_000_000, "cuda:0": 10})
    reader = Node(1, (0,), {"cpu": 50, "cuda:0": 10})
    found = place([node, reader], flat(1_000, "cpu", "cuda:0"))
    assert found.assignment == {0: "cuda:0", 1: "cuda:0"}
    assert found.transfers_ns == 1_000


def test_a_pin_on_a_device_without_the_kernel_is_an_error():
    """Raised, never moved."""
    node = Node(0, (X,), {"cpu": 10}, pin="cuda:0")
    with pytest.raises(FuelPassError, match="pinned to cuda:0, which does not serve it"):
        place([node], flat(0, "cpu", "cuda:0"))


def test_what_may_reuse_memory_stays_with_its_producer():
    """The pair is placed together, where both together are cheapest."""
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


def test_runners_up_on_other_devices_keep_a_price():
    """A placement picks one device, and every other stays priced for the forks."""
    nodes = [Node(k, (k - 1,) if k else (X,), {"cpu": 30, "cuda:0": 10}, 8) for k in range(3)]
    topology = linked(10, 1, "cpu", "cuda:0")
    found = place(nodes, topology, {2: "cpu"})
    assert set(found.assignment.values()) == {"cuda:0"}
    assigned = Assigned(nodes, topology, found.assignment, {2: "cpu"})
    assert assigned.change_ns([0, 1, 2], "cpu") == 90 - (30 + 10 + 18)
    assert assigned.change_ns([1], "cpu") == 20 + 2 * 18
    assert assigned.change_ns([1], "cuda:0") == 0


def test_every_result_of_a_bundle_has_a_place_and_a_size():
    """Results are values of their own, priced by their own bytes."""
    bundle = Node(0, (), {"cuda:0": 1}, (1_000, 8))
    topology = linked(10, 1, "cpu", "cuda:0")
    small = place([bundle, Node(1, (Output(0, 1),), {"cpu": 1})], topology)
    large = place([bundle, Node(1, (0,), {"cpu": 1})], topology)
    assert (small.transfers_ns, large.transfers_ns) == (18, 1_010)


def test_devices_of_one_kind_are_told_apart():
    """Everything names devices, not backends."""
    nodes = [
        Node(0, (Source("a", "cuda:0", 10**6),), {"cuda:0": 10, "cuda:1": 10}, 8),
        Node(1, (Source("b", "cuda:1", 10**6),), {"cuda:0": 10, "cuda:1": 10}, 8),
    ]
    found = place(nodes, PRESETS["2xh100"])
    assert found.assignment == {0: "cuda:0", 1: "cuda:1"}


def test_a_value_that_is_read_twice_travels_once():
    """One transfer for each value and memory, however often and by whom it is read."""
    topology = linked(10, 1, "cpu", "cuda:0")
    maker, twice = Node(0, (), {"cpu": 1}, 90), Node(1, (0, 0), {"cuda:0": 1})
    assert place([maker, twice], topology).transfers_ns == 100
    assert place([maker, twice, replace(twice, key=2)], topology).transfers_ns == 100
    source = Source("x", "cpu", 90)
    readers = [Node(key, (source,), {"cuda:0": 1}) for key in range(3)]
    assert place(readers, topology).transfers_ns == 100
