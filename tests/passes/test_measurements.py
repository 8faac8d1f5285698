# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measured times: their file, and the choices that they turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from agreement import main
from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.context import make_context
from fuel_dialect.errors import FuelPassError
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.forking.fork_variants import ForkVariantsPass
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.pipeline import OptimizePass
from fuel_passes.planning.candidates import candidates_for, measurement_key
from fuel_passes.planning.measurements import (
    MeasurementKey,
    Measurements,
    key_of,
)
from fuel_passes.planning.measurements_schema import dump, parse, read
from fuel_passes.planning.plan import PlanPass
from machines import sources

CONTEXT = make_context()
CPU = TargetAttr.of("cpu", "numpy")
B = "tensor<512x512xf32>"
SOFTMAX = f"%0 = fuel.softmax_last_dim %x : {B}\nfunc.return %0 : {B}"

WORDS = st.text(st.sampled_from("abc_[3]"), min_size=1, max_size=5)
KEYS = st.builds(
    MeasurementKey,
    st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    st.lists(st.sampled_from(sorted(dtypes.BY_NAME)), max_size=3).map(tuple),
    st.lists(st.integers(0, 64), max_size=3).map(tuple),
    st.sampled_from(["cpu/numpy", "cuda:0/triton", "npu:12/other"]),
    st.one_of(st.just(""), WORDS),
    st.one_of(st.just(""), WORDS),
)


@given(st.dictionaries(KEYS, st.integers(0, 2**62), max_size=5))
def test_a_file_holds_what_was_measured(known: dict[MeasurementKey, int]):
    assert parse(dump(Measurements(known)), "file") == Measurements(known)


ENTRY = {
    "ops": ["exp"],
    "dtypes": ["f32", "f32"],
    "shape_class": [4, 4],
    "target": "cpu/numpy",
    "ns": 5,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ns": -1}, r"measurements\[0\]\.ns: expected `int` >= 0, got -1"),
        ({"ns": True}, "ns: expected `int`, got True"),
        ({"ops": "exp"}, r"ops: expected `array`, got 'exp'"),
        ({"ops": [""]}, r"ops\[0\]: expected `str` of length >= 1, got ''"),
        ({"dtypes": ["f99"]}, r"dtypes\[0\]: 'f99' is no dtype; there are "),
        ({"shape_class": [65]}, r"shape_class\[0\]: expected `int` <= 64, got 65"),
        ({"target": 3}, "target: expected `str`, got 3"),
        ({"target": "cpu"}, r"target must be device/backend, such as cuda:0/triton, got 'cpu'"),
        ({"target": "cuda/triton"}, "write cuda:0 for the device 'cuda'"),
        (
            {"clock": 3},
            r"measurements\[0\]: object contains unknown field `clock`; it needs ops, ",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(change: dict[str, object], message: str):
    with pytest.raises(FuelPassError, match=message):
        parse(json.dumps({"measurements": [{**ENTRY, **change}]}), "file.json")


def test_a_file_that_is_none(tmp_path: Path):
    for text, message in (
        ("{", "is not JSON"),
        ("[" * 100_000, "is nested too deeply to be read"),
        ("[]", "expected `object`, got \\[\\]; it needs measurements"),
        ("{}", "missing required field `measurements`"),
        (json.dumps({"measurements": [ENTRY, ENTRY]}), "exp on cpu/numpy is listed twice"),
    ):
        file = tmp_path / "times.json"
        file.write_text(text)
        with pytest.raises(FuelPassError, match=message):
            read(str(file))
    with pytest.raises(FuelPassError, match=r"nowhere\.json cannot be read"):
        OptimizePass(measurements="nowhere.json").apply(CONTEXT, ModuleOp([]))


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def forked() -> list[list[KernelOp]]:
    """The kernels of each arm of a softmax that is forked."""
    module = main(f"%x: {B}", B, SOFTMAX)
    FormKernelsPass().apply(CONTEXT, module)
    ForkVariantsPass().apply(CONTEXT, module)
    (branch,) = (op for op in module.body.walk() if op.name == "fuel.branch")
    return [[k for k in r.walk() if isinstance(k, KernelOp)] for r in branch.regions]


def test_measured_times_turn_the_choice_between_forms_of_one_device():
    (written, decomposed) = forked()
    slow = {measurement_key(kernel, CPU, PRESETS["cpu"]): 10**9 for kernel in written}
    fast = {measurement_key(kernel, CPU, PRESETS["cpu"]): 1_000 for kernel in decomposed}
    module = main(f"%x: {B}", B, SOFTMAX)
    OptimizePass().apply(CONTEXT, module)
    assert [k.label.data for k in kernels(module)] == ["softmax_last_dim"]
    module = main(f"%x: {B}", B, SOFTMAX)
    OptimizePass(measurements=Measurements(slow | fast)).apply(CONTEXT, module)
    assert [k.label.data for k in kernels(module)] == [k.label.data for k in decomposed]
    assert len(decomposed) > 2


def test_all_calls_of_a_kernel_have_to_be_measured():
    body = f"%0 = fuel.exp %x : {B}\n%1 = fuel.neg %0 : {B}\nfunc.return %1 : {B}"
    module = main(f"%x: {B}", B, body)
    FormKernelsPass().apply(CONTEXT, module)
    (kernel,) = kernels(module)
    keys = [
        MeasurementKey((op,), ("f32", "f32"), (19, 19), "cpu/numpy", "library-1")
        for op in ("exp", "neg")
    ]
    some = candidates_for(PRESETS["cpu"], measurements=Measurements({keys[0]: 1})).of(kernel)
    assert not any(c.measured for c in some)
    both = Measurements(dict.fromkeys(keys, 7))
    (tiles, library) = candidates_for(PRESETS["cpu"], measurements=both).of(kernel)
    assert not tiles.measured
    assert (library.measured, library.price_ns) == (True, 14)


@pytest.mark.parametrize("factor", [0.01, 1, 100])
def test_what_is_not_measured_is_off_by_as_much_as_its_neighbour(factor: float):
    """So a slow machine does not look as if every way that nobody measured were faster."""
    body = f"%0 = fuel.exp %x : {B}\n%1 = fuel.neg %0 : {B}\nfunc.return %1 : {B}"
    module = main(f"%x: {B}", B, body)
    FormKernelsPass().apply(CONTEXT, module)
    (kernel,) = kernels(module)
    topology = PRESETS["cpu+h100"]
    free = candidates_for(topology).of(kernel)
    (tiles, library, gpu) = (c.price_ns for c in free)
    assert tiles is not None
    assert library is not None
    time = round(tiles * factor)
    times = Measurements({measurement_key(kernel, CPU, topology): time})
    (first, second, third) = candidates_for(topology, measurements=times).of(kernel)
    assert (first.price_ns, first.measured, first.model_ns) == (time, True, tiles)
    assert (second.price_ns, second.measured) == (round(library * (time / tiles)), False)
    assert (third.price_ns, third.measured) == (gpu, False), "another device is another matter"
    PlanPass(topology="cpu", measurements=times).apply(CONTEXT, module)
    assert [k.kind.data for k in kernels(module)] == ["pointwise"]


def test_a_measurement_of_every_source_is_taken_as_it_is():
    body = f"%0 = fuel.exp %x : {B}\n%1 = fuel.neg %0 : {B}\nfunc.return %1 : {B}"
    module = main(f"%x: {B}", B, body)
    FormKernelsPass().apply(CONTEXT, module)
    calls = {
        MeasurementKey((op,), ("f32", "f32"), (19, 19), "cpu/numpy", "library-1"): 7
        for op in ("exp", "neg")
    }
    (kernel,) = kernels(module)
    times = {measurement_key(kernel, CPU, PRESETS["cpu"]): 15} | calls
    found = candidates_for(PRESETS["cpu"], measurements=Measurements(times)).of(kernel)
    assert [(c.price_ns, c.measured) for c in found] == [(15, True), (14, True)]
    PlanPass(topology="cpu", measurements=Measurements(times)).apply(CONTEXT, module)
    assert [k.kind.data for k in kernels(module)] == ["library", "library"]


def test_times_of_other_code_are_not_used():
    module = main(f"%x: {B}", B, f"%0 = fuel.exp %x : {B}\nfunc.return %0 : {B}")
    FormKernelsPass().apply(CONTEXT, module)
    (kernel,) = kernels(module)
    key = measurement_key(kernel, CPU, PRESETS["cpu"])
    assert key == key_of(kernel, CPU, "tiles-1")
    times = Measurements({key: 3})
    (tiles, library) = candidates_for(PRESETS["cpu"], measurements=times).of(kernel)
    assert (tiles.measured, tiles.price_ns, library.measured) == (True, 3, False)
    with sources("numpy", tiles={"revision": "2"}):
        (tiles, library) = candidates_for(PRESETS["cpu"], measurements=times).of(kernel)
    assert not tiles.measured
