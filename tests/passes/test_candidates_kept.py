# SPDX-License-Identifier: MIT OR Apache-2.0
"""The frontier per device, filters with their reasons, and keys of measured times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement import main
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.planning.candidates import candidates_for
from fuel_passes.planning.frontier import KEEP_PER_DEVICE, Entry, dominates, frontier, ranked
from fuel_passes.planning.measurements import key_of, shape_class

CUDA = TargetAttr.of("cuda:0", "triton")


def entries(*costs: tuple[int, ...], device: str = "cpu", backend: str = "numpy"):
    return [Entry(index, device, backend, c, c[0]) for index, c in enumerate(costs)]


def kept(found: list[Entry[int]]) -> list[int]:
    return [entry.candidate for entry in found]


def test_what_another_beats_goes_and_equals_stay():
    assert kept(frontier(entries((1, 9), (2, 9), (2, 8), (2, 8), (9, 1)))) == [0, 2, 3, 4]
    assert frontier([]) == []


def test_the_winner_and_the_last_of_a_device_and_backend_stay():
    beaten = Entry(7, "cpu", "triton", (99, 99), 99)
    assert kept(frontier([*entries((1, 1), (2, 2)), beaten])) == [0, 7]
    elsewhere = Entry(8, "cuda:0", "numpy", (99, 99), 99)
    assert kept(frontier([*entries((1, 1), (2, 2)), elsewhere])) == [0, 8]
    assert kept(frontier(entries((5, 5), (1, 1)))) == [0, 1], "the first stays though beaten"


def test_a_crowded_device_is_thinned_where_it_is_crowded():
    line = entries(*[(i, 1_000 - i) for i in (0, 1, 2, 500, 1_000)])
    assert kept(frontier(line, keep=4)) == [0, 2, 3, 4]
    many = entries(*[(i * i, -i) for i in range(100)])
    assert len(frontier(many)) == KEEP_PER_DEVICE
    backends = [replace(entry, backend=str(entry.candidate)) for entry in many]
    assert frontier(backends) == backends, "no pair of device and backend is stranded"


COSTS = st.tuples(st.integers(0, 5), st.integers(0, 5))
ENTRIES = st.lists(
    st.builds(
        Entry[int],
        st.just(0),
        st.sampled_from(["cpu", "cuda:0"]),
        st.sampled_from(["numpy", "triton"]),
        COSTS,
        st.one_of(st.none(), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=12,
)


@given(ENTRIES)
def test_ranking_is_stable_and_the_frontier_strands_nothing(given_entries: list[Entry[int]]):
    order = ranked(given_entries)
    prices = [10 if entry.price_ns is None else entry.price_ns for entry in order]
    assert prices == sorted(prices)
    left = frontier(order)
    assert left[0] is order[0]
    assert {(e.device, e.backend) for e in left} == {(e.device, e.backend) for e in order}
    assert [e for e in order if any(e is other for other in left)] == left
    assert frontier(left) == left
    for gone in order:
        if not any(gone is entry for entry in left):
            beaten_by = [e for e in order if e.device == gone.device]
            assert any(dominates(e.costs, gone.costs) for e in beaten_by)


def refusal(body: str, **required: Any) -> str | None:
    """Returns the reason why the shaders may not make the kernel of a body."""
    module = main("%x: tensor<4xf32>", "tensor<4xf32>", body)
    FormKernelsPass().apply(make_context(), module)
    (found,) = (op for op in module.walk() if isinstance(op, KernelOp))
    (*_, shaders) = candidates_for(PRESETS["cpu+vulkan"], **required).of(found)
    assert shaders.source == "shaders"
    return shaders.refusal


T = "tensor<4xf32>"
CASES = {
    f"%0 = fuel.exp %x : {T}": ("exp", 128),
    f"%0 = fuel.pow %x, %x : {T}": ("pow", 160),
    f"%0 = fuel.gelu_tanh %x : {T}": ("gelu_tanh", 256),
    f"%0 = fuel.powi %x {{exponent = 3 : i32}} : {T}": ("powi", 384),
    f"%0 = fuel.softmax_last_dim %x : {T}": ("softmax_last_dim", 128),
    f"%0 = fuel.relu %x : {T}": ("relu", 0),
    f"%0 = fuel.concat %x {{dim = 0 : i64}} : {T} -> {T}": ("concat", 0),
}


@pytest.mark.parametrize(("line", "stated"), CASES.items())
def test_a_source_is_as_precise_as_its_least_precise_op(line: str, stated: tuple[str, int]):
    body, (op, ulps) = f"{line}\nfunc.return %0 : {T}", stated
    assert refusal(body, max_ulps=ulps) is None
    if ulps:
        assert refusal(body, max_ulps=ulps - 1) == (
            f"precision-floor: shaders may give a {op} of f32 {ulps} units in the last place off; "
            f"{ulps - 1} are allowed"
        )


def test_kernels_that_differ_in_a_property_have_candidates_of_their_own():
    """The error of `powi` is by its exponent, so one answer does not stand for both."""
    lines = [
        f"%{i} = fuel.powi %{'x' if i == 0 else 'y'} {{exponent = {n} : i32}} : {T}"
        for i, n in enumerate((2, 9))
    ]
    module = main(
        f"%x: {T}, %y: {T}", f"({T}, {T})", f"{lines[0]}\n{lines[1]}\nfunc.return %0, %1 : {T}, {T}"
    )
    FormKernelsPass().apply(make_context(), module)
    found = candidates_for(PRESETS["cpu"], max_ulps=8)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert [found.of(kernel)[0].refusal is None for kernel in kernels] == [True, False]


def test_kernels_that_differ_in_a_scalar_are_priced_once():
    lines = [
        f"%{i} = fuel.{op} %{arg} {{scalar = {number} : f64}} : {T}"
        for i, (op, arg, number) in enumerate(
            [("add_scalar", "x", 1.5), ("add_scalar", "y", 2.5), ("mul_scalar", "z", 1.5)]
        )
    ]
    body = "\n".join([*lines, f"func.return %0, %1, %2 : {T}, {T}, {T}"])
    module = main(f"%x: {T}, %y: {T}, %z: {T}", f"({T}, {T}, {T})", body)
    FormKernelsPass().apply(make_context(), module)
    found = candidates_for(PRESETS["cpu"])
    one, other, product = (found.of(op) for op in module.walk() if isinstance(op, KernelOp))
    assert one is other
    assert product is not one


def kernel(rows: int, columns: int, dtype: str = "f32") -> KernelOp:
    a, b, c = (f"tensor<{s}x{dtype}>" for s in (f"{rows}x8", f"8x{columns}", f"{rows}x{columns}"))
    module = main(
        f"%a: {a}, %b: {b}",
        c,
        f"%0 = fuel.matmul %a, %b : {a}, {b} -> {c}\nfunc.return %0 : {c}",
    )
    FormKernelsPass().apply(make_context(), module)
    (found,) = (op for op in module.walk() if isinstance(op, KernelOp))
    return found


def test_keys_are_equal_where_a_measured_time_is_of_use():
    key = key_of(kernel(5, 6), CUDA, "r1", "h200")
    assert key.ops == ("matmul",)
    assert key.dtypes == ("f32", "f32", "f32")
    assert key.shape_class == (3, 3, 4), "m, n and k: 5, 6 and 8"
    assert (key.target, key.revision, key.hardware) == ("cuda:0/triton", "r1", "h200")
    assert key == key_of(kernel(4, 7), CUDA, "r1", "h200")
    others = [
        key_of(kernel(8, 6), CUDA, "r1", "h200"),
        key_of(kernel(5, 6, "f64"), CUDA, "r1", "h200"),
        key_of(kernel(5, 6), TargetAttr.of("cpu", "numpy"), "r1", "h200"),
        key_of(kernel(5, 6), CUDA, "r2", "h200"),
        key_of(kernel(5, 6), CUDA, "r1", "h100"),
    ]
    assert key not in others
    assert len(set(others)) == len(others)


def test_shape_classes_are_powers_of_two():
    assert shape_class([0, 1, 2, 3, 4, 7, 8, 2**20]) == (0, 1, 2, 2, 3, 3, 4, 21)
