# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records of which code serves the kernels of a call, and what else could."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from fake_devices import REGISTRY
from fuel_dialect.errors import ArgumentError
from fuel_runtime import Session
from fuel_runtime.devices.opening import open_devices
from fuel_runtime.measurement_store import MeasurementStore
from live_programs import ONE, Lab, X
from machines import sources

BLOCK = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %0 = fuel.matmul %x, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %1 = fuel.softmax_last_dim %0 : tensor<8x16xf32>
  %2 = fuel.matmul %1, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  func.return %2 : tensor<8x16xf32>
}
"""


def test_kernels_of_a_key_are_counted_and_none_has_candidates() -> None:
    session = Session()
    exe = session.compile(BLOCK)
    found = exe.dispatches()
    assert [(d.key.ops, d.count, d.source) for d in found.records] == [
        (("matmul",), 2, "tiles"),
        (("softmax_last_dim",), 1, "tiles"),
    ]
    assert sum(d.count for d in found.records) == exe.report().kernels_on_route
    assert {d.hardware for d in found.records} == {session.devices.host.identity}
    assert {d.key.target for d in found.records} == {"cpu/numpy"}
    assert all(d.key.revision for d in found.records)
    assert all(d.candidates == () and not d.is_miss for d in found.records)
    assert not found.misses
    assert json.loads(found.to_json())["records"][0]["count"] == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.records[0].count = 3  # type: ignore[misc]


def test_detailed_records_have_every_candidate_with_its_price_or_the_reason() -> None:
    devices = open_devices("cpu,cuda:0", 2, "cuda:0", REGISTRY)
    exe = Session(devices, device="cpu").compile(BLOCK)
    (record,) = (d for d in exe.dispatches("detailed").records if d.key.ops == ("matmul",))
    targets = [each.target for each in record.candidates]
    assert targets.count("cpu/numpy") >= 2
    assert "cuda:0/triton" in targets
    for each in record.candidates:
        assert (each.price_ns is None) == (each.refusal is not None)
        assert each.price_ns != 0
        assert each.measured_ns is None
    chosen = [e.price_ns for e in record.candidates if e.target == "cpu/numpy" and e.price_ns]
    winner = next(e for e in record.candidates if (e.target, e.source) == ("cpu/numpy", "tiles"))
    assert winner.price_ns == min(chosen)
    coarse = exe.dispatches("coarse").records
    plain = [dataclasses.replace(d, candidates=()) for d in exe.dispatches("detailed").records]
    assert plain == list(coarse)


def test_a_kernel_that_only_a_source_for_every_kernel_serves_is_a_miss() -> None:
    with sources("numpy", tiles={"kinds": ("movement", "scan")}):
        found = Session().compile(BLOCK).dispatches()
    assert found.misses == found.records
    assert {d.source for d in found.records} == {"library"}
    assert str(found).count("; a miss: no source is made for it") == len(found.records)


def test_measured_times_are_those_of_this_hardware(tmp_path: Path) -> None:
    lab = Lab()
    file = tmp_path / "times.db"
    session = Session(lab.devices, telemetry=lab.telemetry, measurements=file)
    exe = session.compile(ONE, optimize=False)
    lab.poll()
    exe(X)
    keys = {d.key.target: d.key for d in exe.dispatches().records if "sin" in d.key.ops}
    assert set(keys) == {"cuda:0/triton"}
    MeasurementStore(file).add({keys["cuda:0/triton"]: [4e6] * 3})
    session = Session(lab.devices, telemetry=lab.telemetry, measurements=file, force={"d0": 0})
    exe = session.compile(ONE, optimize=False)
    (record,) = (d for d in exe.dispatches("detailed").records if "sin" in d.key.ops)
    times = {(e.target, e.measured_ns) for e in record.candidates if e.measured_ns is not None}
    assert times == {("cuda:0/triton", 4_000_000)}


def test_the_route_that_calls_take_now_is_told() -> None:
    lab = Lab()
    exe = lab.compile(ONE)
    lab.poll()
    for load, target in ((0.0, "cuda:0/triton"), (0.9, "cpu/numpy")):
        lab.dials["cuda:0"].set(load=load)
        lab.poll()
        exe(X)
        served = {d.key.target: d.hardware for d in exe.dispatches().records if "sin" in d.key.ops}
        assert list(served) == [target]


def test_a_program_that_was_loaded_has_the_same(tmp_path: Path) -> None:
    exe = Session().compile(BLOCK)
    exe.save(tmp_path / "p.fuel")
    loaded = Session().load(tmp_path / "p.fuel")
    assert loaded.dispatches("detailed") == exe.dispatches("detailed")
    np.testing.assert_array_equal(
        loaded(np.ones((8, 16), "f4"), np.eye(16, dtype="f4"))[0],
        exe(np.ones((8, 16), "f4"), np.eye(16, dtype="f4"))[0],
    )
    with pytest.raises(ArgumentError, match='dispatches: detail is "coarse" or "detailed"'):
        exe.dispatches("all")  # pyright: ignore[reportArgumentType]
