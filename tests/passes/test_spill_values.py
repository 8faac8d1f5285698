# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that a device has no room for wait on the host; results and memory are as planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import fuel_dialect as fuel
from agreement import assert_close
from effort import examples
from fake_devices import FakeDriver, fake
from fuel_dialect.context import make_context, parse_module
from fuel_dialect.errors import FuelPassError, OutOfMemory
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import RunOp
from fuel_dialect.ops.memory import MoveOp
from fuel_dialect.targets.machine import Topology
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.finishing.spill_values import SpillValuesPass
from fuel_passes.memory.plan import plan_memory
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.topology import STAMP, attribute_of
from fuel_passes.walk import functions
from fuel_runtime import Session
from fuel_runtime.devices.buffer_device import BufferDevice
from machines import machines, placed_programs
from programs import Program

ROWS, COLUMNS = 8, 32
BYTES = ROWS * COLUMNS * 4
WEIGHT = {"w": (np.random.default_rng(0).standard_normal((COLUMNS, COLUMNS)) / 6).astype("f4")}
WEIGHT_BYTES = WEIGHT["w"].nbytes
X = np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def skipping(readers: Sequence[int | None]) -> ModuleOp:
    """Returns layers one after another; each reads the one before, and may read an earlier one."""
    graph = fuel.Graph()
    x = graph.input((ROWS, COLUMNS), name="x")
    w = graph.weight("w", (COLUMNS, COLUMNS), "f32")
    values = [(x @ w).tanh()]
    for earlier in readers:
        y = (values[-1] @ w).tanh()
        values.append(y if earlier is None else y + values[earlier % len(values)])
    return graph.build(values[-1])


def machine(memory: int | None) -> Topology:
    card = PRESETS["cpu+h100"]
    devices = tuple(
        replace(d, memory_bytes=memory) if d.name == "cuda:0" else d for d in card.devices
    )
    return replace(card, name="small", devices=devices)


def optimized(module: ModuleOp, memory: int | None, granularity: Any = "segment") -> ModuleOp:
    copy = module.clone()
    copy.attributes[STAMP] = attribute_of(machine(memory))
    OptimizePass(device="cuda:0", granularity=granularity).apply(make_context(), copy)
    return copy


def peak(module: ModuleOp) -> int:
    (function,) = functions(module)
    return plan_memory(function).plan.of("cuda:0").peak


def moves(module: ModuleOp) -> list[MoveOp]:
    return [op for op in module.walk() if isinstance(op, MoveOp)]


@examples(60)
@given(
    st.lists(st.none() | st.integers(0, 20), min_size=2, max_size=14),
    st.integers(40, 100),
    st.sampled_from(["segment", "chain"]),
)
def test_what_is_spilled_fits_and_computes_the_same(
    readers: list[int | None], percent: int, granularity: Any
) -> None:
    module = skipping(readers)
    whole = optimized(module, None, granularity)
    assert not moves(whole)
    memory = peak(whole) * percent // 100
    found = optimized(module, memory, granularity)
    want = evaluate(module, X, weights=WEIGHT)
    assert_close(evaluate(found, X, weights=WEIGHT), want)
    if moves(found):
        assert peak(found) <= memory
        again = optimized(found, None, granularity)
        assert not moves(again)
        assert peak(again) == peak(whole)
    devices = fake("cpu,cuda:0", cuda=memory)
    session = Session(devices, poison=True)
    exe = session.compile(found, weights=WEIGHT, optimize=False)
    if not exe.memory().of("cuda:0").fits:
        return
    for _ in range(3):
        assert_close(exe(X), want)
    (card,) = (each for each in devices.present if isinstance(each, BufferDevice))
    assert cast(FakeDriver, card.driver).used <= memory
    plan = exe.memory().of("cuda:0")
    there = [op for op in moves(found) if isinstance(op.input.owner, RunOp)]
    assert plan.spilled == BYTES * (len(there) + len(moves(found)))
    moved = [t for t in exe.report().transfers if t.bytes == BYTES]
    assert len(moved) == 2 + len(there) + len(moves(found)), "the argument and the result"
    assert ("values go to the host and back" in str(plan)) == bool(moves(found))


def test_a_copy_of_an_argument_is_dropped_and_not_brought_to_the_host() -> None:
    graph = fuel.Graph()
    x = graph.input((ROWS, COLUMNS), name="x")
    w = graph.weight("w", (COLUMNS, COLUMNS), "f32")
    y = (x @ w).tanh()
    first = y
    for _ in range(3):
        y = (y @ w).tanh() + 1
    module = graph.build((y + first) @ w + x)
    memory = peak(optimized(module, None)) - BYTES
    session = Session(fake("cpu,cuda:0", cuda=memory), device="cuda:0", poison=True)
    exe = session.compile(module, weights=WEIGHT)
    want = evaluate(module, X, weights=WEIGHT)
    for _ in range(2):
        assert_close(exe(X), want)
    assert all(t.value != "x" or t.to == "cuda:0" for t in exe.report().transfers)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, Program]:
    drawn = draw(machines())
    return drawn, draw(placed_programs(drawn))


@examples(60)
@given(cases(), st.integers(10, 100), st.sampled_from(["segment", "chain"]))
def test_random_programs_with_little_memory(
    case: tuple[Topology, Program], percent: int, granularity: Any
) -> None:
    """
    Results are right, or memory is too little.

    Arms of random programs compute different things, so that calls are only compared in number.
    """
    drawn, program = case
    names = ",".join(target.device.label for target in drawn.targets)
    whole = Session(fake(names), strict=True, granularity=granularity)
    plan = whole.compile(program.module, weights=program.weights).memory()
    caps = {d.device: max(256, d.peak * percent // 100) for d in plan.devices if d.device != "cpu"}
    session = Session(
        fake(names), strict=True, poison=True, memory=caps, granularity=granularity, variants="keep"
    )
    exe = session.compile(program.module, weights=program.weights)
    fits = all(each.fits for each in exe.memory().devices)
    for _ in range(2):
        try:
            results = exe(*program.arguments)
        except OutOfMemory:
            assert not fits
            return
        assert len(results) == len(exe.signature.outputs)
        del results  # they hold memory of the device


def test_a_source_that_is_read_after_it_was_moved() -> None:
    """A person may write so: the value is where it was, or comes back."""
    card = "{placement = #fuel.device<cuda:0>}"
    t = "tensor<4xf32>"
    module = parse_module(f"""
    func.func @main(%x: {t}) -> ({t}, {t}) {{
      %a = fuel.exp %x {card} : {t}
      %h = fuel.move %a to #fuel.device<cpu> : {t}
      %b = fuel.sin %a {card} : {t}
      %back = fuel.copy %h to #fuel.device<cuda:0> : {t}
      %c = fuel.cos %back {card} : {t}
      func.return %b, %c : {t}, {t}
    }}""")
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    exe = Session(fake("cpu,cuda:0"), poison=True).compile(module)
    for _ in range(2):
        assert_close(exe(x), (np.sin(np.exp(x)), np.cos(np.exp(x))))


def test_a_granularity_that_is_none_is_refused() -> None:
    with pytest.raises(FuelPassError, match="fuel-spill-values: granularity is segment or chain"):
        SpillValuesPass(granularity=cast(Any, "run")).apply(make_context(), skipping([None]))
