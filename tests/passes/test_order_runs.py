# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-order-runs` and `fuel-order`: devices alternate, heavy work first, readers before reuse."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from agreement import main
from diamonds import (
    CONTEXT,
    THREE,
    M,
    X,
    assert_valid,
    formed,
    sizes,
    targets,
    times,
    top,
)
from effort import examples
from fake_devices import REGISTRY
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import RunOp
from fuel_dialect.ops.memory import CopyOp, MoveOp
from fuel_dialect.targets.description import Concurrency
from fuel_dialect.targets.kompute import DESCRIPTION as KOMPUTE
from fuel_dialect.targets.machine import Topology
from fuel_dialect.traits import Leaf
from fuel_explain import explain
from fuel_explain.text import to_text
from fuel_passes.finishing.form_runs import FormRunsPass, Granularity
from fuel_passes.finishing.memory_rule import UNKNOWN_ROOM, is_worth
from fuel_passes.finishing.order import OrderPass, arrange
from fuel_passes.finishing.order_runs import (
    OrderRunsPass,
    candidate_orders,
    items_of,
    overlap_of,
)
from fuel_passes.finishing.overlap import Prices, Scene
from fuel_passes.finishing.overlap_record import Overlap
from fuel_passes.finishing.reuse_buffers import ReuseBuffersPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.memory.plan import plan_memory
from fuel_passes.pipeline import OptimizePass
from fuel_passes.walk import functions
from fuel_runtime import Session
from fuel_runtime.devices.emulated.clock import Clocks
from fuel_runtime.devices.opening import open_devices
from machines import stamp
from overlapping import (
    CARDS,
    NAMES,
    copy,
    emulated,
    overlapping,
    planned,
    program,
    run,
    simulated_ns,
)


def kernel(result: str, left: str, right: str, device: str) -> str:
    """A product that is a kernel already, so that it stays where it stands."""
    return (
        f'%{result} = fuel.kernel matmul "matmul"(%p = %{left} : {M}, %q = %{right} : {M}) -> {M} '
        f"attributes {{placement = #fuel.device<{device}>}} {{\n"
        f"{times('o', 'p', 'q')}fuel.yield %o : {M}\n}}\n"
    )


def two_devices(first: int, second: int) -> str:
    """Two chains on two cards that a copy brings together."""
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + kernel("c0", "x", "c", "cuda:0")
    body += "".join(kernel(f"c{n}", f"c{n - 1}", "c", "cuda:0") for n in range(1, first))
    body += kernel("d0", "c", "x", "cuda:1")
    body += "".join(kernel(f"d{n}", f"d{n - 1}", "c", "cuda:1") for n in range(1, second))
    body += f"%t = fuel.copy %d{second - 1} to #fuel.device<cuda:0> : {M}\n"
    return body + kernel("z", f"c{first - 1}", "t", "cuda:0")


def test_device_alternating_reorder_interleaves_two_devices():
    module = formed(two_devices(4, 4), "z", CARDS)
    assert_valid(module)
    assert targets(module)[:2] in (["cuda:0", "cuda:1"], ["cuda:1", "cuda:0"])
    order = [op for op in top(module) if not op.has_trait(Leaf)]
    assert [isinstance(op, CopyOp) for op in order] == [False, False, True, False, False]
    assert sizes(module) == [4, 4, 1]


def test_device_alternating_reorder_single_device_is_identity():
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + times("0", "x", "c") + times("1", "x", "x")
    body += times("2", "1", "c") + times("3", "2", "c") + times("4", "0", "3")
    for machine in (None, THREE):
        assert str(formed(body, "4", machine)) == str(formed(body, "4", machine, order=False))


def test_device_alternating_reorder_respects_dependencies():
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n"
    order = ("cpu", "cuda:0", "vulkan:0", "cuda:0")
    names = ("x", "0", "1", "2", "3")
    for (before, after), device in zip(pairwise(names), order, strict=True):
        body += times(after, before, "c", device)
    assert targets(formed(body, "3", THREE)) == list(order)


def test_lower_picked_route_multidevice_is_a_valid_reordering():
    plain = formed(two_devices(4, 8), "z", CARDS, order=False)
    ordered = formed(two_devices(4, 8), "z", CARDS)
    assert_valid(ordered)
    assert sorted(targets(plain)) == sorted(targets(ordered))
    assert targets(plain) != targets(ordered)
    np.testing.assert_array_equal(evaluate(plain, X)[0], evaluate(ordered, X)[0])


def test_streaming_multidevice_equals_one_shot_reordered():
    """Without a decision there is nothing to wait for: the order is that of one block."""
    module = formed(two_devices(4, 4), "z", CARDS)
    once = str(module)
    OrderRunsPass().apply(CONTEXT, module)
    assert str(module) == once


@pytest.mark.parametrize(
    ("first", "second", "heavier"), [(8, 2, "cuda:0"), (2, 8, "cuda:1")], ids=str
)
def test_device_alternating_reorder_emits_heavier_chunk_first(
    first: int, second: int, heavier: str
):
    """Both chains stand before the copy, the heavier one first."""
    module = formed(two_devices(first, second), "z", CARDS)
    assert targets(module)[0] == heavier
    assert sizes(module)[:2] == sorted((first, second), reverse=True)


def test_an_order_is_a_permutation_and_valid():
    """Any order promises the same ops, each after what it reads."""
    plain = formed(two_devices(3, 5), "z", CARDS, order=False)
    before = list(top(plain))
    OrderRunsPass().apply(CONTEXT, plain)
    assert set(top(plain)) == set(before)
    assert_valid(plain)


def test_constants_are_no_second_device():
    """Leaves have no device, so all on one device keeps its order."""
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n"
    body += times("s", "x", "c", "cuda:0") + times("l0", "c", "x", "cuda:0")
    body += "".join(times(f"l{n}", f"l{n - 1}", "c", "cuda:0") for n in range(1, 5))
    body += times("z", "s", "l4", "cuda:0")
    text = [str(formed(body, "z", THREE, order=order)) for order in (False, True)]
    assert text[0] == text[1]


@pytest.mark.parametrize("granularity", ["chain", "segment"])
@pytest.mark.parametrize("operands", ["%r, %m", "%m, %r"])
def test_there_is_one_order_and_it_knows_who_reuses_memory(operands: str, granularity: Granularity):
    """`fuel-order` puts readers first, and who forms and orders runs leaves them there."""
    body = f"%m = fuel.move %x to #fuel.device<cpu> : {M}\n"
    body += f"%t = fuel.copy %x to #fuel.device<cpu> : {M}\n" + times("r", "t", "x")
    body += f"%z = fuel.matmul {operands} : {M}, {M} -> {M}\n"
    module = main(f"%x: {M}", M, f"{body}func.return %z : {M}")
    runs_of = FormRunsPass(granularity=granularity)
    for inner in (FormKernelsPass(), OrderPass(), runs_of, OrderRunsPass()):
        inner.apply(CONTEXT, module)
    order = top(module)
    (move,) = (op for op in order if isinstance(op, MoveOp))
    reader = next(op for op in order if isinstance(op, RunOp))
    assert order.index(reader) < order.index(move)


# Orders by simulation.


def names(module: ModuleOp) -> list[str | None]:
    return [op.results[0].name_hint for op in top(module) if isinstance(op, RunOp | CopyOp)]


def ordered(text: str, topology: Topology = CARDS) -> ModuleOp:
    module = planned(text, topology)
    OrderRunsPass().apply(CONTEXT, module)
    module.verify()
    assert_valid(module)
    return module


def test_a_card_is_asked_before_the_host_computes():
    """The host's run is the heaviest by kernels, and came first by that."""
    text = program(
        run("h", "h", "x", kernels=3),
        copy("cx", "x", "c"),
        run("c", "c", "cx"),
        copy("hc", "c", "h"),
        results=["h", "hc"],
    )
    before = planned(text)
    after = ordered(text)
    assert names(after) == ["cx", "c", "h", "hc"]
    assert simulated_ns(after) < simulated_ns(before)


def test_the_host_computes_before_it_waits_for_a_card():
    """The copy came first, since its reader is the heaviest by kernels."""
    text = program(
        copy("cx", "x", "c"),
        run("c", "c", "cx"),
        copy("hc", "c", "h"),
        run("r", "h", "hc", kernels=2),
        run("h", "h", "x"),
        results=["r", "h"],
    )
    assert names(ordered(text)) == ["cx", "c", "h", "hc", "r"]


def test_a_second_card_is_asked_before_the_host_waits_for_the_first():
    text = program(
        copy("cx", "x", "c"),
        run("c", "c", "cx"),
        copy("hc", "c", "h"),
        run("r", "h", "hc", kernels=3),
        copy("dx", "x", "d"),
        run("d", "d", "dx"),
        copy("hd", "d", "h"),
        results=["r", "hd"],
    )
    assert sorted(names(ordered(text))[:4], key=str) == ["c", "cx", "d", "dx"]


def test_reads_of_one_card_come_after_its_launches():
    """On one device with the host beside it, too: while the host reads, the card has work."""
    text = program(
        copy("cx", "x", "c"),
        run("a", "c", "cx", kernels=4),
        copy("ha", "a", "h"),
        run("b", "c", "cx", kernels=4),
        copy("hb", "b", "h"),
        run("z", "h", "ha", "hb"),
        results=["z"],
    )
    after = names(ordered(text))
    assert after.index("a") < after.index("b") < after.index("hb")


def test_a_device_that_is_waited_for_comes_after_one_that_is_not():
    """The host waits for a run of Vulkan, so that the card is asked first, however light."""
    if KOMPUTE.concurrency != "none":
        pytest.skip("the host does not wait for Vulkan")
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + kernel("v0", "x", "c", "vulkan:0")
    body += kernel("v1", "v0", "c", "vulkan:0") + kernel("c0", "x", "c", "cuda:0")
    body += f"%t = fuel.copy %v1 to #fuel.device<cuda:0> : {M}\n" + kernel("z", "c0", "t", "cuda:0")
    assert targets(formed(body, "z", THREE)) == ["cuda:0", "vulkan:0", "cuda:0"]


def test_a_reader_of_state_stays_before_the_run_that_writes_it():
    """Else the state would be copied in each call; the launch alone would better come first."""
    state, row, here = "tensor<8x4xf32>", "tensor<1x4xf32>", "fuel.device = #fuel.device<cuda:0>"
    module = planned(
        f"""
func.func @main(%c: {state} {{fuel.donated, {here}}}, %s: {row} {{{here}}})
    -> ({state} {{fuel.aliases = 0 : i64, {here}}}, {state}) {{
  %h = fuel.copy %c to #fuel.device<cpu> : {state}
  %y = fuel.run on #fuel.target<cpu, "numpy"> (%a = %h : {state}) -> {state} {{
    %k = fuel.kernel pointwise "neg"(%p = %a : {state}) -> {state} {{
      %o = fuel.neg %p : {state}
      fuel.yield %o : {state}
    }}
    fuel.yield %k : {state}
  }}
  %n = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %c : {state}, %b = %s : {row}) -> {state} {{
    %k = fuel.kernel movement "write"(%p = %a : {state}, %q = %b : {row}) -> {state} {{
      %o = fuel.write_slice %p, %q {{starts = array<i64: 2, 0>}} : {state}, {row}
      fuel.yield %o : {state}
    }}
    fuel.yield %k : {state}
  }}
  func.return %n, %y : {state}, {state}
}}"""
    )
    for inner in (OrderRunsPass(), ReuseBuffersPass()):
        inner.apply(CONTEXT, module)
    assert names(module) == ["h", "y", "n"]
    _, writer = (op for op in top(module) if isinstance(op, RunOp))
    assert writer.reused() == {0: 0}


@examples(20)
@given(overlapping())
def test_an_order_is_valid_and_computes_the_same(text: str):
    x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    after = ordered(text)
    assert sorted(map(str, names(after))) == sorted(map(str, names(planned(text))))
    for got, want in zip(evaluate(after, x), evaluate(planned(text), x), strict=True):
        np.testing.assert_array_equal(got, want)
    once = str(after)
    OrderRunsPass().apply(CONTEXT, after)
    assert str(after) == once


@examples(20)
@given(overlapping())
def test_an_order_is_never_slower_than_that_by_counts_or_than_it_was(text: str):
    before = planned(text)
    (function,) = functions(before)
    block = function.body.block
    scene = Scene(block, function, Prices(CARDS))
    items, needs = items_of(block)
    counted, *_ = candidate_orders(scene, items, needs)
    least = min(scene.makespan_ns(counted), scene.makespan_ns(items))
    assert simulated_ns(ordered(text)) <= least


@examples(20)
@given(overlapping(), st.sampled_from(["none", "stream", "events"]))
def test_a_simulated_call_takes_what_the_emulated_one_does(text: str, concurrency: Concurrency):
    clocks = Clocks.of(CARDS, concurrency)
    module = ordered(text)
    session = Session(emulated(clocks), topology=CARDS, telemetry=False)
    executable = session.compile(module, optimize=False)
    x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    executable(x)
    clocks.reset()
    executable(x)
    assert clocks.makespan_ns == simulated_ns(module, concurrency=concurrency)


@examples(20)
@given(overlapping(), st.integers(2, 6))
def test_an_order_keeps_to_the_memory_of_devices(text: str, values: int):
    """No peak is above the memory of a device unless it is so by counts alone."""
    tight = replace(
        CARDS, devices=tuple(replace(d, memory_bytes=256 * values) for d in CARDS.devices)
    )
    plain = planned(text, tight)
    (function,) = functions(plain)
    items, needs = items_of(function.body.block)
    counted, *_ = candidate_orders(
        Scene(function.body.block, function, Prices(tight)), items, needs
    )
    arrange(function.body.block, counted)
    least = {each.device: each.peak for each in plan_memory(function).plan.devices}
    (function,) = functions(ordered(text, tight))
    for each in plan_memory(function).plan.devices:
        assert each.peak <= max(256 * values, least[each.device])


@pytest.mark.parametrize(
    ("peak", "more", "memory", "want"),
    [
        (100, 100, 100, True),  # no more than before
        (100, 90, 50, True),  # too much, but less than before
        (100, 124, 1000, True),  # an eighth of all
        (100, 190, 1000, True),  # further, as the time is half
        (100, 201, 1000, False),  # by more than the time shrinks
        (600, 1001, 1000, False),  # more than there is
        (100, UNKNOWN_ROOM, None, True),
        (100, UNKNOWN_ROOM + 1, None, False),
        (UNKNOWN_ROOM, 2 * UNKNOWN_ROOM, None, True),
    ],
)
def test_memory_may_grow_as_far_as_time_shrinks(
    peak: int, more: int, memory: int | None, want: bool
):
    """With half the time."""
    assert is_worth(200, 100, {"d": peak}, {"d": more}, {"d": memory}) is want


# What is said of it.

BESIDE = program(
    run("h", "h", "x", kernels=3),
    copy("cx", "x", "c"),
    run("c", "c", "cx"),
    copy("hc", "c", "h"),
    results=["h", "hc"],
)


def test_a_report_says_which_order_was_taken_and_what_it_saves(tmp_path: Path):
    x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    session = Session(emulated(Clocks.of(CARDS)), topology=CARDS, telemetry=False)
    before = session.compile(planned(BESIDE), optimize=False).report().overlap
    executable = session.compile(ordered(BESIDE), optimize=False)
    after = executable.report().overlap
    executable(x)
    host, card, link = 1_509, 5_001, 10_001
    serial = host + link + card + link
    assert before == Overlap(serial, serial, serial)
    assert after == Overlap(link + card + link, serial, serial)
    assert (
        "at once     25,003 ns a call, 5.7% less than one after the other; "
        "ordered by simulation, 5.7% less than by numbers of kernels\n"
    ) in str(executable.report())
    executable.save(tmp_path / "p.fuel")
    plain = open_devices(NAMES, 2, "cuda:0,cuda:1", REGISTRY)
    loaded = Session(plain, topology=CARDS, telemetry=False).load(tmp_path / "p.fuel")
    assert loaded.report().overlap == after


def test_an_explanation_says_it_too():
    body = times("c", "x", "x", "cuda:0") + times("h", "x", "x", "cpu")
    body += f"%h2 = fuel.exp %h {{placement = #fuel.device<cpu>}} : {M}\n"
    module = main(f"%x: {M}", f"({M}, {M})", f"{body}func.return %c, %h2 : {M}, {M}")
    stamp(module, CARDS)
    explanation = explain(module, OptimizePass())
    overlap = explanation.functions[0].overlap
    assert overlap is not None
    assert overlap.makespan_ns < overlap.serial_ns
    assert f"  devices at once {overlap}\n" in to_text(explanation)
    (function,) = functions(module)
    assert overlap_of(function, CARDS) == overlap


def test_a_call_on_one_device_says_nothing_of_it():
    module = main(f"%x: {M}", M, f"{times('y', 'x', 'x')}func.return %y : {M}")
    assert explain(module, OptimizePass()).functions[0].overlap is None


def test_an_overlap_by_counts_says_so():
    want = "75 ns a call, 25.0% less than one after the other; ordered by numbers of kernels"
    assert str(Overlap(75, 75, 100)) == want
    assert str(Overlap(0, 0, 0)).startswith("0 ns a call, 0.0% less")
