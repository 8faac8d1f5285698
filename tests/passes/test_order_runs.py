# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-order-runs` and `fuel-order`: devices alternate, heavy work first, readers before reuse."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

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
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import RunOp
from fuel_dialect.ops.memory import CopyOp, MoveOp
from fuel_dialect.traits import Leaf
from fuel_passes.finishing.form_runs import FormRunsPass, Granularity
from fuel_passes.finishing.order import OrderPass
from fuel_passes.finishing.order_runs import OrderRunsPass
from fuel_passes.forming.form_kernels import FormKernelsPass


def kernel(result: str, left: str, right: str, device: str) -> str:
    """A product that is a kernel already, so that it stays where it stands."""
    return (
        f'%{result} = fuel.kernel matmul "matmul"(%p = %{left} : {M}, %q = %{right} : {M}) -> {M} '
        f"attributes {{placement = #fuel.device<{device}>}} {{\n"
        f"{times('o', 'p', 'q')}fuel.yield %o : {M}\n}}\n"
    )


def two_devices(cuda: int, vulkan: int) -> str:
    """Two chains on two devices that a copy brings together."""
    body = f"%c = fuel.const 0.5 : f32 -> {M}\n" + kernel("c0", "x", "c", "cuda:0")
    body += "".join(kernel(f"c{n}", f"c{n - 1}", "c", "cuda:0") for n in range(1, cuda))
    body += kernel("v0", "c", "x", "vulkan:0")
    body += "".join(kernel(f"v{n}", f"v{n - 1}", "c", "vulkan:0") for n in range(1, vulkan))
    body += f"%t = fuel.copy %v{vulkan - 1} to #fuel.device<cuda:0> : {M}\n"
    return body + kernel("z", f"c{cuda - 1}", "t", "cuda:0")


def test_device_alternating_reorder_interleaves_two_devices():
    module = formed(two_devices(4, 4), "z", THREE)
    assert_valid(module)
    assert targets(module)[:2] in (["cuda:0", "vulkan:0"], ["vulkan:0", "cuda:0"])
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
    plain = formed(two_devices(4, 8), "z", THREE, order=False)
    ordered = formed(two_devices(4, 8), "z", THREE)
    assert_valid(ordered)
    assert sorted(targets(plain)) == sorted(targets(ordered))
    assert targets(plain) != targets(ordered)
    np.testing.assert_array_equal(evaluate(plain, X)[0], evaluate(ordered, X)[0])


def test_streaming_multidevice_equals_one_shot_reordered():
    """Without a decision there is nothing to wait for: the order is that of one block."""
    module = formed(two_devices(4, 4), "z", THREE)
    once = str(module)
    OrderRunsPass().apply(CONTEXT, module)
    assert str(module) == once


@pytest.mark.parametrize(
    ("cuda", "vulkan", "first"), [(8, 2, "cuda:0"), (2, 8, "vulkan:0")], ids=str
)
def test_device_alternating_reorder_emits_heavier_chunk_first(cuda: int, vulkan: int, first: str):
    """Both chains stand before the copy, the heavier one first."""
    module = formed(two_devices(cuda, vulkan), "z", THREE)
    assert targets(module)[0] == first
    assert sizes(module)[:2] == sorted((cuda, vulkan), reverse=True)


def test_an_order_is_a_permutation_and_valid():
    """Any order promises the same ops, each after what it reads."""
    plain = formed(two_devices(3, 5), "z", THREE, order=False)
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
