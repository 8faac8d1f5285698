# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Placement against every way there is, on random kernels and random machines.

`measured_gap` is what docs/planning.md reports; run this file as a script to print it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import examples
from fuel_dialect.errors import FuelPassError
from fuel_passes.planning.nodes import Node, Output, Source
from fuel_passes.planning.placement import (
    EXACT_LIMIT,
    Assigned,
    Placement,
    place,
    total_ns,
    unchanged,
)
from placements import NAMES, Problem, agrees, cost, flat, linked, problem, stays, ways

SEEDS = st.integers(0, 2**32 - 1)


def planned(given: Problem, exact_limit: int = EXACT_LIMIT, width: int | None = None) -> Placement:
    nodes, topology, exits = given.nodes, given.topology, given.exits
    return place(nodes, topology, exits, exact_limit=exact_limit, width=width)


@given(seed=SEEDS, devices=st.integers(1, 3), kernels=st.integers(0, 5))
@examples(60)
def test_a_small_plan_is_the_best_there_is(seed: int, devices: int, kernels: int):
    given = problem(Random(seed), devices, kernels) if kernels else empty()
    found = planned(given)
    assert found.exact
    assert found.gap == 0
    assert found.total_ns == min(ways(given))
    assert found.total_ns == cost(given, found.assignment)
    assert found.bound_ns <= found.total_ns == found.kernels_ns + found.transfers_ns


def empty() -> Problem:
    return Problem(flat(1, "cpu", "cuda:0"), (), {})


@given(seed=SEEDS, devices=st.integers(2, 4), kernels=st.integers(1, 30))
@examples(60)
def test_no_plan_is_worse_than_one_device_or_costs_other_than_it_says(
    seed: int, devices: int, kernels: int
):
    given = problem(Random(seed), devices, kernels)
    for found in (planned(given), planned(given, exact_limit=0, width=2)):
        assert agrees(given, found.assignment)
        assert all(stays(given, node, found.assignment) for node in given.nodes)
        assert found.total_ns == cost(given, found.assignment)
        for device, single in found.singles.items():
            assert single == cost(given, {node.key: device for node in given.nodes})
            assert found.total_ns <= single


def gap_of(seed: int, width: int) -> float:
    """Measures on a small program how far above the best the search for large ones ends."""
    random = Random(seed)
    given = problem(random, random.choice((2, 3)), random.randint(2, 8))
    best = planned(given)
    assert best.exact
    found = planned(given, exact_limit=0, width=width)
    return found.total_ns / max(best.total_ns, 1) - 1


def measured_gap(width: int, cases: int) -> tuple[float, float]:
    """The share of cases more than 5 % above the best, and the largest gap."""
    gaps = [gap_of(seed, width) for seed in range(cases)]
    return sum(gap > 0.05 for gap in gaps) / cases, max(gaps)


@pytest.mark.parametrize(("width", "share"), [(2, 0.01), (8, 0.0)])
def test_the_search_for_large_programs_is_near_the_best(width: int, share: float):
    above, largest = measured_gap(width, 300)
    assert above <= share, f"{above:.2%} above 5 %, at most {largest:.2%}"


def test_a_chain_of_thousands_is_planned_exactly():
    nodes = [
        Node(key, (key - 1,) if key else (Source("x", "cpu"),), {"cpu": 100, "cuda:0": 90})
        for key in range(4_000)
    ]
    found = place(nodes, flat(1_000, "cpu", "cuda:0"), {3_999: "cpu"})
    assert found.exact
    assert set(found.assignment.values()) == {"cuda:0"}
    assert found.total_ns == 4_000 * 90 + 2_000


def test_hundreds_of_values_that_live_long_do_not_hold_the_search_up():
    made = [Node(key, (Source(key, "cpu"),), {"cpu": 9, "cuda:0": 5}) for key in range(300)]
    read = [Node(300 + key, (key,), {"cpu": 9, "cuda:0": 1}) for key in range(300)]
    found = place([*made, *read], flat(3, "cpu", "cuda:0"))
    assert set(found.assignment.values()) == {"cuda:0"}
    assert found.total_ns == 300 * (3 + 5 + 1)


def test_moves_mend_what_a_narrow_search_gets_wrong():
    given = problem(Random(14), 3, 40)
    free = [replace(node, reuses=None) for node in given.nodes]
    given = replace(given, nodes=free)
    narrow = planned(given, width=1)
    assert not narrow.exact
    assert narrow.gap > 0
    assert narrow.total_ns <= min(narrow.singles.values(), default=narrow.total_ns)
    assigned = Assigned(given.nodes, given.topology, narrow.assignment, given.exits)
    changes = [
        assigned.change_ns([node.key], device) for node in given.nodes for device in node.prices
    ]
    assert min(change for change in changes if change is not None) == 0


@given(seed=SEEDS, devices=st.integers(2, 4), kernels=st.integers(1, 12))
@examples(40)
def test_the_price_of_a_change_is_the_difference_of_the_totals(
    seed: int, devices: int, kernels: int
):
    random = Random(seed)
    given = problem(random, devices, kernels)
    found = planned(given)
    assigned = Assigned(given.nodes, given.topology, found.assignment, given.exits)
    device = random.choice(NAMES[:devices])
    moved = random.sample(range(kernels), random.randint(1, kernels))
    change = assigned.change_ns(moved, device)
    if any(device not in given.nodes[key].prices for key in moved):
        assert change is None
        return
    other = {**found.assignment, **dict.fromkeys(moved, device)}
    assert change == cost(given, other) - found.total_ns
    assert assigned.change_ns([], device) == 0
    assert assigned.total_ns == found.total_ns


def test_a_value_travels_to_each_memory_once_and_leaves_a_copy_on_its_way():
    topology = linked(10, 1, "cpu", "cuda:0", "vulkan:0")
    links = [link for link in topology.links if "cpu" in (link.source, link.target)]
    topology = replace(topology, links=tuple(links))
    made = Node(0, (), {"cuda:0": 5}, 100)
    readers = [Node(key, (0, 0), {"vulkan:0": 1}) for key in (1, 2)]
    via_host = place([made, *readers], topology)
    assert via_host.transfers_ns == 2 * 110
    on_the_way = place([made, *readers, Node(3, (0,), {"cpu": 1})], topology)
    assert on_the_way.transfers_ns == 2 * 110


def test_leaves_are_free_and_arguments_are_not():
    node = Node(0, (Source("w", None, 10**9), Source("x", "cpu", 100)), {"cuda:0": 1})
    assert place([node], linked(10, 1, "cpu", "cuda:0")).transfers_ns == 110


def test_devices_that_share_storage_exchange_values_for_nothing():
    topology = flat(1_000, "cpu", "vulkan:0")
    devices = tuple(replace(device, storage="host") for device in topology.devices)
    nodes = [
        Node(0, (Source("x", "cpu"),), {"cpu": 9, "vulkan:0": 5}),
        Node(1, (0,), {"cpu": 5, "vulkan:0": 9}),
    ]
    found = place(nodes, replace(topology, devices=devices), {1: "cpu"})
    assert found.assignment == {0: "vulkan:0", 1: "cpu"}
    assert found.total_ns == 10


def test_an_earlier_plan_is_where_the_search_starts():
    """Node 0 moves with its reader, as what lies around a change does; far from it all stays."""
    topology = flat(50, "cpu", "cuda:0")
    nodes = [
        Node(0, (Source("x", "cpu"),), {"cpu": 100, "cuda:0": 10}),
        Node(1, (0,), {"cpu": 100, "cuda:0": 10}),
    ]
    before = place(nodes, topology)
    assert set(before.assignment.values()) == {"cuda:0"}
    changed = [nodes[0], replace(nodes[1], prices={"cpu": 10, "cuda:0": 500})]
    again = place(changed, topology, previous=before)
    assert again.assignment == place(changed, topology).assignment == {0: "cpu", 1: "cpu"}
    assert not again.exact
    elsewhere = place(changed, flat(60, "cpu", "cuda:0"), previous=before)
    assert elsewhere.exact


def test_what_did_not_change_is_found_in_front_of_and_behind_what_did():
    def chain(prices: Sequence[int]) -> list[Node]:
        return [
            Node(10 + i, (9 + i,) if i else (), {"cpu": price}) for i, price in enumerate(prices)
        ]

    old = chain([1, 2, 3, 4, 5])
    assert unchanged(old, chain([1, 2, 3, 4, 5])) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}
    assert unchanged(old, chain([1, 2, 9, 4, 5])) == {0: 0, 1: 1, 3: 3, 4: 4}
    assert unchanged(old, chain([1, 2, 9, 9, 3, 4, 5])) == {0: 0, 1: 1, 5: 3, 6: 4}
    assert unchanged(old, chain([1, 5])) == {0: 0, 1: 4}
    assert unchanged(old, []) == {}


@given(seed=SEEDS, devices=st.integers(2, 4), kernels=st.integers(2, 30))
@examples(60)
def test_a_plan_that_starts_from_another_is_never_dearer_than_one_device(
    seed: int, devices: int, kernels: int
):
    random = Random(seed)
    given = problem(random, devices, kernels)
    before = planned(given)
    node = random.choice(given.nodes)
    prices = {device: random.choice((1, 100, 10_000)) for device in node.prices}
    nodes = [replace(n, prices=prices) if n is node else n for n in given.nodes]
    after = replace(given, nodes=nodes)
    found = place(nodes, given.topology, given.exits, before)
    assert found.total_ns == cost(after, found.assignment)
    assert all(found.total_ns <= single for single in found.singles.values())
    assert all(stays(after, n, found.assignment) for n in nodes)
    same = place(given.nodes, given.topology, given.exits, before)
    assert same.total_ns <= before.total_ns


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([Node(0, (), {})], "node 0 is served on no device of cpu, cuda:0"),
        ([Node(0, (), {"cpu": 1}, pin="cuda:0")], "pinned to cuda:0, which does not serve it"),
        ([Node(0, (), {"cpu": 1}, pin="moon:0")], "names the device moon:0, which topology"),
        ([Node(0, (), {"moon:0": 1})], "node 0 names the device moon:0"),
        ([Node(0, (1,), {"cpu": 1})], "reads result 0 of node 1, which is not in front of it"),
        ([Node(0, (), {"cpu": 1}), Node(0, (), {"cpu": 1})], "is listed twice"),
        ([Node(0, (Source("x", "moon:0"),), {"cpu": 1})], "an input of node 0 names the device"),
    ],
)
def test_what_cannot_be_placed_is_refused(nodes: list[Node], message: str):
    with pytest.raises(FuelPassError, match=message):
        place(nodes, flat(1, "cpu", "cuda:0"))


def test_exits_and_assignments_name_what_there_is():
    topology, node = flat(1, "cpu", "cuda:0"), Node(0, (), {"cpu": 1})
    with pytest.raises(FuelPassError, match="an exit reads result 3 of node 0"):
        place([node], topology, {Output(0, 3): "cpu"})
    with pytest.raises(FuelPassError, match="an exit names the device moon:0"):
        place([node], topology, {0: "moon:0"})
    with pytest.raises(FuelPassError, match="node 0 is assigned to cuda:0, which does not serve"):
        total_ns([node], topology, {0: "cuda:0"})


if __name__ == "__main__":
    for width in (1, 2, 4, 8, 24):
        above, largest = measured_gap(width, 2_000)
        print(f"width {width}: {above:.2%} of 2,000 cases above 5 %, at most {largest:.2%}")
