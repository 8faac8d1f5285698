# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests which arm of a branch runs: forced, nested, on absent devices; and the report."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from fake_devices import REGISTRY
from fuel_dialect.errors import DecisionError, DeviceUnavailable
from fuel_runtime import Executable, Report, Session
from fuel_runtime.devices.opening import open_devices
from fuel_runtime.devices.present import Devices

BRANCHES = """
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %s = fuel.sin %x : tensor<3xf32>
  %b = fuel.branch "d0"(%a = %s : tensor<3xf32>, %u = %y : tensor<3xf32>) -> tensor<3xf32>
  arm on #fuel.target<cpu, "numpy"> price 10 {
    %0 = fuel.neg %a : tensor<3xf32>
    fuel.yield %0 : tensor<3xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> price 5 origin "fuel-plan" {
    %0 = fuel.copy %a to #fuel.device<cuda:0> : tensor<3xf32>
    %1 = fuel.neg %0 : tensor<3xf32>
    fuel.yield %1 : tensor<3xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %q = fuel.branch "d0"(%e = %a : tensor<3xf32>, %f = %u : tensor<3xf32>) -> tensor<3xf32>
    arm on #fuel.target<cpu, "numpy"> price 1 {
      %0 = fuel.add %e, %f : tensor<3xf32>
      fuel.yield %0 : tensor<3xf32>
    }
    arm on #fuel.target<cpu, "numpy"> price 2 {
      fuel.yield %f : tensor<3xf32>
    }
    %2 = fuel.sqr %q : tensor<3xf32>
    fuel.yield %2 : tensor<3xf32>
  }
  %r = fuel.add_scalar %b {scalar = 1.0 : f64} : tensor<3xf32>
  func.return %r : tensor<3xf32>
}
"""

X = np.array([0.5, -1, 2], np.float32)
Y = np.array([1, 2, 3], np.float32)

ROUTES: list[tuple[dict[str, int], Any]] = [
    ({}, 1 - np.sin(X)),
    ({"d0": 0}, 1 - np.sin(X)),
    ({"d0": 2}, (np.sin(X) + Y) ** 2 + 1),
    ({"d0": 2, "d0/2/d0": 0}, (np.sin(X) + Y) ** 2 + 1),
    ({"d0": 2, "d0/2/d0": 1}, Y**2 + 1),
    ({"d0/2/d0": 1}, 1 - np.sin(X)),
]


def compiled(force: dict[str, int] | None = None, devices: str | Devices = "cpu") -> Executable:
    return Session(devices, force=force).compile(BRANCHES, optimize=False)


@pytest.mark.parametrize(("force", "want"), ROUTES, ids=str)
def test_each_route_computes_what_its_arms_say(force: dict[str, int], want: Any) -> None:
    (got,) = compiled(force)(X, Y)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_walk_holds_the_calls_of_its_route_only() -> None:
    calls = [
        len(re.findall(r"= run\d+\(|return run\d+\(", compiled(force).source))
        for force in ({}, {"d0": 2}, {"d0": 2, "d0/2/d0": 1})
    ]
    assert calls == [3, 4, 2]


def test_without_a_branch_nothing_is_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the picker was asked")

    monkeypatch.setattr("fuel_runtime.call.survey.resolve", refuse)
    exe = Session().compile(
        "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {"
        "  %0 = fuel.neg %x : tensor<3xf32> func.return %0 : tensor<3xf32> }"
    )
    np.testing.assert_array_equal(exe(X)[0], -X)


KNOWN = "the program has d0 (arms 0 to 2), d0/2/d0 (arms 0 to 1)"


@pytest.mark.parametrize(
    ("force", "message"),
    [
        ({"d1": 0}, f"there is no decision 'd1'; {KNOWN}"),
        ({"d0/1/d0": 0}, f"there is no decision 'd0/1/d0'; {KNOWN}"),
        ({"d0": 3}, "decision d0 has no arm 3; its arms are 0 to 2"),
        ({"d0/2/d0": 2}, "decision d0/2/d0 has no arm 2; its arms are 0 to 1"),
        ({"d0": -1}, "decision d0: an arm is a number from 0 upwards, not -1"),
        ({"d0": True}, "decision d0: an arm is a number from 0 upwards, not True"),
        ({"d0": "1"}, "decision d0: an arm is a number from 0 upwards, not '1'"),
    ],
)
def test_forcing_what_is_not_there(force: dict[str, Any], message: str) -> None:
    with pytest.raises(DecisionError, match=re.escape(message)):
        compiled(force)


def test_a_program_without_branches_names_none() -> None:
    with pytest.raises(DecisionError, match="there is no decision 'd0'; the program has none"):
        Session(force={"d0": 0}).run(
            "func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> { func.return %x : tensor<1xf32> }"
        )


def test_forcing_an_arm_on_an_absent_device() -> None:
    with pytest.raises(
        DeviceUnavailable,
        match=r"decision d0: arm 1 cannot be forced: the session has no cuda:0; .* are cpu",
    ):
        compiled({"d0": 1})


FIRST_ABSENT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %b = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
  arm on #fuel.target<cuda:0, "triton"> { fuel.yield %a : tensor<2xf32> }
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.branch "inner"(%c = %a : tensor<2xf32>) -> tensor<2xf32>
    arm on #fuel.target<vulkan:0, "kompute"> { fuel.yield %c : tensor<2xf32> }
    arm on #fuel.target<cpu, "triton"> { fuel.yield %c : tensor<2xf32> }
    fuel.yield %0 : tensor<2xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.neg %a : tensor<2xf32>
    fuel.yield %0 : tensor<2xf32>
  }
  func.return %b : tensor<2xf32>
}
"""


def test_the_first_arm_that_can_run_is_taken() -> None:
    exe = Session().compile(FIRST_ABSENT, optimize=False)
    np.testing.assert_array_equal(exe([1, -2])[0], [-1, 2])
    outer, inner = exe.report().branches
    assert (outer.arm, outer.why) == (2, "first arm that can run")
    assert "no arm of d0/1/inner can run: the session has no vulkan:0" in outer.arms[1].why_not
    assert (inner.decision, inner.arm, inner.on_route) == ("d0/1/inner", None, False)
    assert "nothing serves cpu/triton; there is cpu/numpy" in inner.arms[1].why_not


def test_no_arm_can_run() -> None:
    program = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %b = fuel.branch "d0"(%a = %x : tensor<2xf32>) -> tensor<2xf32>
      arm on #fuel.target<cuda:0, "triton"> { fuel.yield %a : tensor<2xf32> }
      arm on #fuel.target<vulkan:0, "kompute"> { fuel.yield %a : tensor<2xf32> }
      func.return %b : tensor<2xf32>
    }
    """
    with pytest.raises(DeviceUnavailable, match="main cannot run: no arm of d0 can run: the sess"):
        Session().compile(program, optimize=False)


def test_a_transfer_to_an_absent_device() -> None:
    program = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.copy %x to #fuel.device<cuda:1> : tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }
    """
    with pytest.raises(DeviceUnavailable, match="main cannot run: the session has no cuda:1"):
        Session().compile(program, optimize=False)


def test_transfers_to_where_a_value_is_are_free() -> None:
    program = """
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %0 = fuel.copy %x to #fuel.device<cpu> : tensor<2xf32>
      %1 = fuel.move %0 to #fuel.device<cpu> : tensor<2xf32>
      %2 = fuel.neg %1 : tensor<2xf32>
      func.return %2, %1 : tensor<2xf32>, tensor<2xf32>
    }
    """
    exe = Session().compile(program, optimize=False)
    x = np.array([1, 2], np.float32)
    negative, same = exe(x)
    np.testing.assert_array_equal(negative, [-1, -2])
    np.testing.assert_array_equal(same, x)
    assert not np.shares_memory(same, x)


def test_the_report() -> None:
    report = compiled({"d0": 2, "d0/2/d0": 1}, open_devices("auto", 2, None, REGISTRY)).report()
    assert isinstance(report, Report)
    assert (report.runs, report.runs_on_route) == (5, 2)
    assert report.devices[0].device == "cpu"
    assert report.devices[0].absent == ""
    assert [d.device for d in report.devices[1:]] == ["cuda:0", "vulkan:0"]
    assert "the driver of cuda:0 is not installed" in report.devices[1].absent
    assert "runs on the cores of the host" in report.devices[2].absent
    outer, inner = report.branches
    assert (outer.decision, outer.arm, outer.why, outer.on_route) == ("d0", 2, "forced", True)
    assert [arm.chosen for arm in outer.arms] == [False, False, True]
    assert [arm.target for arm in outer.arms] == ["cpu/numpy", "cuda:0/triton", "cpu/numpy"]
    assert [arm.price_ns for arm in outer.arms] == [10, 5, None]
    assert [arm.origin for arm in outer.arms] == ["user", "fuel-plan", "user"]
    assert outer.arms[0].why_not == "arm 2 is forced"
    assert outer.arms[1].why_not.startswith("cannot run here: the driver of cuda:0")
    assert (inner.decision, inner.arm) == ("d0/2/d0", 1)


def test_the_report_as_text() -> None:
    lines = str(compiled().report()).splitlines()
    assert lines[0] == "main(arg0: f32[3], arg1: f32[3]) -> (result0: f32[3])"
    assert "runs        3 a call, of 5 lowered" in lines
    assert "weights     none" in lines
    assert lines[lines.index("branches    2") + 1 :] == [
        "  d0: arm 0, static winner",
        "   * arm 0 on cpu/numpy, 10 ns, from user",
        "     arm 1 on cuda:0/triton, 5 ns, from fuel-plan: cannot run here: "
        "the session has no cuda:0; its devices are cpu",
        "     arm 2 on cpu/numpy, no price, from user: arm 0 comes first",
        "  d0/2/d0: arm 0, static winner, not on the route",
        "   * arm 0 on cpu/numpy, 1 ns, from user",
        "     arm 1 on cpu/numpy, 2 ns, from user: arm 0 comes first",
    ]


def test_the_report_as_json() -> None:
    report = compiled().report()
    data = json.loads(report.to_json())
    assert data["entry"] == "main"
    assert data["branches"][0]["arms"][2] == {
        "arm": 2,
        "target": "cpu/numpy",
        "price_ns": None,
        "origin": "user",
        "chosen": False,
        "why_not": "arm 0 comes first",
        "measured_ns": None,
    }


SOFTMAX = """
func.func @main(%x: tensor<256x512xf32>) -> tensor<256x512xf32> {
  %0 = fuel.softmax_last_dim %x : tensor<256x512xf32>
  func.return %0 : tensor<256x512xf32>
}
"""


def test_every_variant_the_optimiser_keeps_runs() -> None:
    x = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    exponent = np.exp(x - x.max(axis=1, keepdims=True))
    want = exponent / exponent.sum(axis=1, keepdims=True)
    report = Session(variants="keep").compile(SOFTMAX).report()
    assert report.branches
    for branch in report.branches:
        for arm in branch.arms:
            session = Session(variants="keep", force={branch.decision: arm.arm})
            exe = session.compile(SOFTMAX)
            np.testing.assert_allclose(exe(x)[0], want, rtol=1e-5)
            assert exe.report().branches[0].why == "forced"


HOISTED = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = fuel.copy %x to #fuel.device<cuda:0> : tensor<3xf32>
  %h = fuel.copy %c to #fuel.device<vulkan:0> : tensor<3xf32>
  %b = fuel.branch "d0"(%a = %x : tensor<3xf32>, %p = %c : tensor<3xf32>,
                        %q = %h : tensor<3xf32>) -> tensor<3xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %0 = fuel.neg %a : tensor<3xf32>
    fuel.yield %0 : tensor<3xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> {
    %0 = fuel.neg %p : tensor<3xf32>
    fuel.yield %0 : tensor<3xf32>
  }
  arm on #fuel.target<vulkan:0, "kompute"> {
    %0 = fuel.neg %q : tensor<3xf32>
    fuel.yield %0 : tensor<3xf32>
  }
  func.return %b : tensor<3xf32>
}
"""


def test_a_transfer_for_arms_on_absent_devices_is_not_needed() -> None:
    (got,) = Session().compile(HOISTED, optimize=False)(X)
    np.testing.assert_array_equal(got, -X)


def test_a_transfer_that_an_arm_reads_which_can_run_is_needed() -> None:
    text = HOISTED.replace("fuel.neg %a", "fuel.neg %q")
    with pytest.raises(DeviceUnavailable, match="main cannot run: the session has no cuda:0"):
        Session().compile(text, optimize=False)


def test_arms_that_the_optimiser_made_for_absent_devices_leave_the_rest_to_run() -> None:
    """Both arms on the GPU read the argument there, so that its transfer is in front of them."""
    b = "tensor<512x512xf32>"
    text = f"""
    func.func @main(%x: {b}) -> {b} {{
      %y = fuel.branch "mine"(%a = %x : {b}) -> {b}
      arm on #fuel.target<cpu, "numpy"> {{
        %1 = fuel.add %a, %a : {b}
        fuel.yield %1 : {b}
      }}
      arm on #fuel.target<cuda:0, "triton"> {{
        %1 = fuel.matmul %a, %a : {b}, {b} -> {b}
        fuel.yield %1 : {b}
      }}
      arm on #fuel.target<cuda:0, "triton"> {{
        %1 = fuel.sub %a, %a : {b}
        fuel.yield %1 : {b}
      }}
      func.return %y : {b}
    }}"""
    exe = Session(topology="cpu+h100").compile(text)
    assert "fuel.copy" in str(exe.module).partition('"mine"')[0]
    x = np.eye(512, dtype=np.float32)
    np.testing.assert_array_equal(exe(x)[0], 2 * x)
