# SPDX-License-Identifier: MIT OR Apache-2.0
"""`with fuel.device(...)` in the builder."""

from __future__ import annotations

from threading import Thread

import pytest
from xdsl.dialects.builtin import ModuleOp

import fuel_dialect as fuel
from fuel_dialect.ops.base import FuelOp


def pins(module: ModuleOp) -> list[tuple[str, str]]:
    """The ops of a module and where they are pinned, in order."""
    found: list[tuple[str, str]] = []
    for op in module.walk():
        if isinstance(op, FuelOp):
            found.append((op.mnemonic(), "" if op.placement is None else op.placement.label))
    return found


def test_ops_made_inside_are_pinned_and_others_are_not() -> None:
    g = fuel.Graph()
    x = g.input((4, 4))
    y = x.neg()
    with fuel.device("vulkan:0"):
        z = y @ g.weight("w", (4, 4)) + 1
    module = g.build(z.relu())
    assert pins(module) == [
        ("neg", ""),
        ("weight", ""),
        ("matmul", "vulkan:0"),
        ("add_scalar", "vulkan:0"),
        ("relu", ""),
    ]


def test_the_innermost_counts_and_what_was_before_comes_back() -> None:
    g = fuel.Graph()
    x = g.input((4,))
    with fuel.device("cuda"):
        a = x.neg()
        b = fails_after_an_op(a)
        c = b.exp()
    assert pins(g.build(c.sin())) == [
        ("neg", "cuda:0"),
        ("sqr", "cpu"),
        ("exp", "cuda:0"),
        ("sin", ""),
    ]


def fails_after_an_op(x: fuel.Tensor) -> fuel.Tensor:
    """Keeps what was made before an exception left the `with` of another device."""
    made: list[fuel.Tensor] = []
    try:
        with fuel.device("cpu"):
            made.append(x.sqr())
            made[0].reshape((3,))
    except fuel.ShapeError:
        return made[0]
    raise AssertionError


def test_each_thread_has_its_own() -> None:
    g = fuel.Graph()
    x = g.input((4,))
    made: list[fuel.Tensor] = []
    with fuel.device("cuda:1"):
        thread = Thread(target=lambda: made.append(x.neg()))
        thread.start()
        thread.join()
    assert pins(g.build(made[0])) == [("neg", "")]


def test_a_scan_is_pinned_as_a_whole_and_a_branch_is_not() -> None:
    g = fuel.Graph()
    x = g.input((4,))
    with fuel.device("cuda:0"):
        carry, _ = g.scan(lambda c, _: (c.sqr(), None), x, length=3)
        y = g.branch(carry, [lambda t: t.neg(), lambda t: t.abs()])
    assert pins(g.build(y)) == [
        ("scan", "cuda:0"),
        ("sqr", ""),
        ("scan_yield", ""),
        ("branch", ""),
        ("neg", "cuda:0"),
        ("abs", "cuda:0"),
    ]


@pytest.mark.parametrize("name", ["", "cuda:", "cuda:x", "a b"])
def test_what_names_no_device(name: str) -> None:
    with pytest.raises(fuel.UnknownDevice, match="does not name a device"):
        fuel.device(name)
