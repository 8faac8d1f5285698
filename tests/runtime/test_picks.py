# SPDX-License-Identifier: MIT OR Apache-2.0
"""The picker as the pure function it is: selectors, policies, routes, and no flapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import picker as simulation
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_dialect.errors import DecisionError, DeviceUnavailable
from fuel_passes.planning.measurements import MeasurementKey
from fuel_runtime.measurement_store import MeasuredTimes
from fuel_runtime.picker.decision import Arm, Decision, Need
from fuel_runtime.picker.policy import Policy
from fuel_runtime.picker.resolve import resolve
from fuel_runtime.picker.route_cache import (
    Fingerprint,
    RouteCache,
    devices_of,
    free_bytes_bucket,
    tiers_of,
)
from fuel_runtime.telemetry.sampler import Telemetry
from fuel_runtime.telemetry.signals import NOTHING, Signals, Snapshot

ROOMY = Signals(8_000, 10_000)
STARVED = Signals(1, 10_000)
IDLE = Signals(10_000, 10_000, pending=0)
BUSY = Signals(10_000, 10_000, pending=4)


def seen(**signals: Signals) -> Snapshot:
    """A snapshot of devices that say this: `seen(cuda=STARVED)`."""
    named = {("cpu" if kind == "cpu" else f"{kind}:0"): s for kind, s in signals.items()}
    return Telemetry({name: lambda s=s: s for name, s in named.items()}).poll()


def fork(*devices: str, prices: tuple[int | None, ...] = (), path: str = "d0") -> Decision:
    """A decision with an arm for each device."""
    keys = [
        MeasurementKey(("silu",), ("f32", "f32"), (2, 2), f"{d}/{i}") for i, d in enumerate(devices)
    ]
    return Decision(
        path,
        tuple(
            Arm(f"{device}/x", price, "test", None, key=key)
            for device, price, key in zip(
                devices, prices or (None,) * len(devices), keys, strict=True
            )
        ),
    )


def route(decisions: list[Decision], *given: Any, **named: Any) -> dict[str, int]:
    picks = {d.path: resolve(d, *given, **named).arm for d in decisions}
    return {path: arm for path, arm in picks.items() if arm}


CUDA_CPU = fork("cuda:0", "cpu")
CUDA_VULKAN = fork("cuda:0", "vulkan:0")

# The nine tests of the catalogue.


def test_no_telemetry_picks_arm0_empty_route() -> None:
    assert route([CUDA_CPU]) == {}
    assert route([CUDA_CPU], NOTHING, MeasuredTimes()) == {}


@pytest.mark.parametrize("prices", [(), (100, 900), (0, 0)])
def test_vram_pressure_picks_host_ram_arm(prices: tuple[int, ...]) -> None:
    decision = fork("cuda:0", "cpu", prices=prices)
    assert route([decision], seen(cuda=STARVED, cpu=ROOMY)) == {"d0": 1}
    assert route([decision], seen(cuda=ROOMY, cpu=ROOMY)) == {}


def test_two_coupled_branches_resolve_consistently() -> None:
    both = [fork("cuda:0", "cpu", path="d0"), fork("cuda:0", "cpu", path="d1")]
    assert route(both, seen(cuda=STARVED, cpu=ROOMY)) == {"d0": 1, "d1": 1}


def test_route_cached_and_reresolved_on_telemetry_delta() -> None:
    cache = RouteCache()

    def ask(snapshot: Snapshot) -> Mapping[str, int]:
        key = Fingerprint("m", tiers=tiers_of(snapshot, devices_of([CUDA_CPU])))
        return cache.resolve(key, lambda: route([CUDA_CPU], snapshot))

    roomy, starved = seen(cuda=ROOMY, cpu=ROOMY), seen(cuda=STARVED, cpu=ROOMY)
    assert (ask(roomy), cache.resolves, cache.hits) == ({}, 1, 0)
    assert (ask(roomy), cache.resolves, cache.hits) == ({}, 1, 1)
    assert (ask(starved), cache.resolves, cache.hits) == ({"d0": 1}, 2, 1)


def test_branchless_graph_is_a_noop() -> None:
    assert route([], seen(cuda=STARVED)) == {}
    assert devices_of([]) == ()


def test_enumerate_fork_set_pulls_registered_candidates() -> None:
    times = MeasuredTimes()
    decision = fork("cuda:0", "cpu", prices=(100, 200))
    for arm, ns in zip(decision.arms, (900, 300), strict=True):
        assert arm.key is not None
        times.record(arm.key, ns)
    pick = resolve(decision, NOTHING, times)
    assert (pick.arm, pick.reason) == (1, "300 ns, arm 0 900 ns")
    assert pick.why_not == {0: "900 ns, arm 1 300 ns"}


def test_synthetic_fallback_when_fork_op_unregistered() -> None:
    bare = Decision("d0", (Arm("cuda:0/x", None, "", None), Arm("cpu/x", None, "", None)))
    assert route([bare], seen(cuda=STARVED, cpu=ROOMY)) == {"d0": 1}


def test_load_pressure_picks_unloaded_arm() -> None:
    assert route([CUDA_VULKAN], seen(cuda=BUSY, vulkan=IDLE)) == {"d0": 1}


def test_no_load_picks_arm0_empty_route() -> None:
    assert route([CUDA_VULKAN], seen(cuda=IDLE, vulkan=IDLE)) == {}


# Hazards.


def test_h12_a_route_depends_on_load() -> None:
    devices = devices_of([CUDA_VULKAN])
    assert tiers_of(seen(cuda=IDLE), devices) != tiers_of(seen(cuda=BUSY), devices)


def test_h13_a_route_belongs_to_a_program_a_plan_results_and_a_policy() -> None:
    cache = RouteCache()
    first = Fingerprint("m", "g", ("cpu",), Policy().key)
    others = [
        replace(first, module="n"),
        replace(first, generation="h"),
        replace(first, results=("cuda:0",)),
        replace(first, policy=Policy(force={"d0": 1}).key),
        replace(first, measured=1),
        replace(first, incumbent=(("d0", 1),)),
    ]
    for number, key in enumerate([first, *others]):
        assert cache.resolve(key, lambda number=number: {"d0": number}) == {"d0": number}
    assert cache.hits == 0


def test_h14_a_route_depends_on_what_fits() -> None:
    card = Signals(24 << 30, 24 << 30)
    free = {"cuda:0": card}
    telemetry = Telemetry({"cuda:0": lambda: free["cuda:0"]})
    telemetry.watch("cuda:0", (5 << 30,))
    before = tiers_of(telemetry.poll(), ["cuda:0"])
    free["cuda:0"] = replace(card, free_bytes=int(4.1 * 2**30))
    after = tiers_of(telemetry.poll(), ["cuda:0"])
    assert before[0][1] == after[0][1]
    assert before != after


def test_h16_an_unknown_signal_is_unknown() -> None:
    assert route([CUDA_CPU], seen(cuda=Signals(), cpu=STARVED)) == {}
    assert tiers_of(seen(cuda=Signals()), ["cuda:0"]) == ()
    assert tiers_of(seen(cuda=ROOMY), ["cuda:0"]) != ()


def test_h21_a_decision_reads_one_snapshot() -> None:
    said = {"cuda:0": STARVED}
    telemetry = Telemetry({"cuda:0": lambda: said["cuda:0"]})
    before = telemetry.poll()
    said["cuda:0"] = ROOMY
    after = telemetry.poll()
    assert route([CUDA_CPU], before) == {"d0": 1}
    assert route([CUDA_CPU], after) == {}
    assert before.of("cuda:0") == STARVED


@pytest.mark.parametrize(
    ("free", "bucket"),
    [(0, 0), (1, 1), (15, 1), (16, 2), (8_000, 4), (10_000, 4), (2**28, 8), (2**64 - 1, 16)],
)
def test_buckets_of_free_bytes(free: int, bucket: int) -> None:
    assert free_bytes_bucket(free) == bucket


def test_a_cache_is_bounded_and_can_be_copied() -> None:
    cache = RouteCache(most=2)
    for name in "abc":
        cache.resolve(Fingerprint(name), dict)
    other = cache.copy()
    other.resolve(Fingerprint("a"), dict)
    assert (cache.resolves, other.resolves, other.hits) == (3, 4, 0)


# Memory, load and time.


def test_an_arm_that_needs_more_than_is_free_does_not_fit() -> None:
    arms = tuple(replace(a, needs=(Need(a.device, 6_000, 3_000),)) for a in CUDA_CPU.arms)
    decision = replace(CUDA_CPU, arms=arms)
    snapshot = seen(cuda=Signals(8_000, 10_000), cpu=Signals(90_000, 100_000))
    pick = resolve(decision, snapshot)
    assert pick.arm == 1
    assert pick.reason == "arm 0: cuda:0 has 8,000 bytes free, 9,000 are wanted"
    assert resolve(decision, snapshot, incumbent=0, warm=frozenset({0})).arm == 0


def test_where_nothing_fits_the_first_is_tried() -> None:
    assert resolve(CUDA_CPU, seen(cuda=STARVED, cpu=STARVED)).arm == 0


def test_times_correct_the_prices_of_the_same_target() -> None:
    decision = fork("cpu", "cuda:0", "cuda:0", prices=(1000, 1100, 1200))
    decision = replace(
        decision, arms=tuple(replace(a, target=a.device + "/x") for a in decision.arms)
    )
    times = MeasuredTimes()
    for arm, ns in zip(decision.arms[:2], (1000, 50_000), strict=True):
        assert arm.key is not None
        times.record(arm.key, ns)
    assert resolve(decision, NOTHING, times, incumbent=1).arm == 0


def test_exploring_measures_what_nobody_has() -> None:
    times = MeasuredTimes()
    decision = fork("cpu", "cuda:0", prices=(1, 100))
    assert decision.arms[0].key is not None
    times.record(decision.arms[0].key, 1)
    assert resolve(decision, NOTHING, times, exploring=True).arm == 1
    assert resolve(decision, seen(cuda=STARVED), times, exploring=True).arm == 0
    assert resolve(decision, NOTHING, times).arm == 0


# Faults and policies.


def test_a_suspended_device_comes_last() -> None:
    out = Snapshot(suspended={"cuda:0": "it failed"})
    pick = resolve(CUDA_CPU, out)
    assert (pick.arm, pick.reason) == (1, "arm 0: cuda:0 is suspended: it failed")
    assert resolve(fork("cuda:0"), out).arm == 0


def test_an_arm_that_failed_in_this_call_is_not_taken_again() -> None:
    assert resolve(CUDA_CPU, failed={0: "out of memory"}).arm == 1
    with pytest.raises(DeviceUnavailable, match=r"arm 0: it failed .*: a; arm 1"):
        resolve(CUDA_CPU, failed={0: "a", 1: "b"})


def test_force_gives_way_to_a_fault_and_strict_does_not() -> None:
    forced = Policy.of(force={"d0": 1})
    assert resolve(CUDA_CPU, policy=forced).reason == "forced"
    assert resolve(CUDA_CPU, policy=forced, failed={1: "x"}).arm == 0
    strict = Policy.of(force={"d0": 1}, strict=True)
    with pytest.raises(DeviceUnavailable, match="arm 1 cannot be forced: it failed in this call"):
        resolve(CUDA_CPU, policy=strict, failed={1: "x"})
    with pytest.raises(DeviceUnavailable, match="the only one that strict allows"):
        resolve(CUDA_CPU, policy=Policy(strict=True), failed={0: "x"})


def test_forbidden_arms_are_never_taken() -> None:
    forbid = Policy.of(forbid={"d0": 0})
    assert resolve(CUDA_CPU, policy=forbid).arm == 1
    with pytest.raises(DeviceUnavailable):
        resolve(CUDA_CPU, policy=forbid, failed={1: "x"})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"force": 3}, "force maps decisions to arms"),
        ({"force": {"d0": "1"}}, "an arm is a number"),
        ({"forbid": {"d0": -1}}, "an arm is a number"),
        ({"explore": 2}, "share from 0 to 1"),
        ({"explore": True}, "share from 0 to 1"),
        ({"strict": 1}, "strict is True or False"),
        ({"force": {"d0": 1}, "forbid": {"d0": [1]}}, "forced and forbidden"),
    ],
)
def test_wishes_that_are_none_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DecisionError, match=said):
        Policy.of(**wrong)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Policy.of(force={"d7": 0}), "no decision 'd7'; the program has d0"),
        (Policy.of(force={"d0": 2}), "d0 has no arm 2; its arms are 0 to 1"),
        (Policy.of(forbid={"d0": (0, 1)}), "all its arms are forbidden"),
    ],
)
def test_wishes_for_what_is_not_there_are_refused(policy: Policy, said: str) -> None:
    with pytest.raises(DecisionError, match=said):
        policy.check([CUDA_CPU])


SIGNALS = st.builds(
    Signals,
    st.none() | st.integers(0, 10_000),
    st.none() | st.just(10_000),
    st.none() | st.floats(0, 1),
)


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    st.tuples(SIGNALS, SIGNALS),
    st.sets(st.integers(0, 4)),
    st.none() | st.integers(0, 4),
)
def test_a_pick_is_allowed_and_explained(
    prices: list[int], signals: tuple[Signals, Signals], failed: set[int], incumbent: int | None
) -> None:
    devices = [("cpu", "cuda:0")[i % 2] for i in range(len(prices))]
    decision = fork(*devices, prices=tuple(prices))
    snapshot = seen(cpu=signals[0], cuda=signals[1])
    out = {arm: "fault" for arm in failed}
    if failed >= set(range(len(prices))):
        with pytest.raises(DeviceUnavailable):
            resolve(decision, snapshot, failed=out)
        return
    pick = resolve(decision, snapshot, incumbent=incumbent, failed=out)
    assert pick.arm not in failed
    assert pick.reason
    assert set(pick.why_not) == set(range(len(prices))) - {pick.arm}
    assert all(pick.why_not.values())
    assert pick == resolve(decision, snapshot, incumbent=incumbent, failed=out)


# Over many calls.


def test_noise_makes_no_arm_flap() -> None:
    assert simulation.flapping(1_000) <= 1


def test_regret_is_small() -> None:
    for name, load in simulation.patterns().items():
        outcome = simulation.simulate(name, load, 2_000)
        assert outcome.regret <= 1.05, outcome
