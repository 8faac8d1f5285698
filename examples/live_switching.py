# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Runs a program whose device fills up, is taken by others, and fails: it moves, and comes back.

With a file as its argument it writes a trace there. The first device is `vulkan:0` where there is
one (a CPU one will do), else `cuda:0`, emulated. What it says of itself is set by hand here; a
session without `telemetry=` asks the devices.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from fuel_dialect.context import load_program
from fuel_dialect.errors import DeviceFailure, DeviceUnavailable
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_runtime import Executable, Session
from fuel_runtime.telemetry.providers import Dial
from fuel_runtime.telemetry.sampler import Telemetry

PROGRAM = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {{
  %y = fuel.branch "d0"(%a = %x : tensor<64x64xf32>) -> tensor<64x64xf32>
  arm on #fuel.target<{device}, "{backend}"> price 1000 {{
    %0 = fuel.copy %a to #fuel.device<{device}> : tensor<64x64xf32>
    %1 = fuel.softmax_last_dim %0 : tensor<64x64xf32>
    fuel.yield %1 : tensor<64x64xf32>
  }}
  arm on #fuel.target<cpu, "numpy"> price 2000 {{
    %0 = fuel.softmax_last_dim %a : tensor<64x64xf32>
    fuel.yield %0 : tensor<64x64xf32>
  }}
  %z = fuel.add %y, %x : tensor<64x64xf32>
  func.return %z : tensor<64x64xf32>
}}
"""

ROOMY = {"free_bytes": 1 << 30, "total_bytes": 1 << 30, "load": 0.0}


@dataclass
class Stage:
    """Holds the session of this run, and how to fill, load and break its first device."""

    session: Session
    device: str
    backend: str
    dial: Dial
    now: float = 0.0

    def break_once(self) -> None:
        """Let the next launch of the device fail."""
        owner = next(d for d in self.session.devices.present if d.name.label == self.device)
        driver = owner.driver  # pyright: ignore[reportAttributeAccessIssue]
        replay = driver.replay

        def fails(recording: object) -> None:
            driver.replay = replay
            raise DeviceFailure(f"{self.device}: injected")

        driver.replay = fails


def stage() -> Stage:
    """Returns a session on the CPU and one device more."""
    dial = Dial()
    dial.set(**ROOMY)
    for device, backend, emulate in (
        ("vulkan:0", "kompute", None),
        ("cuda:0", "triton", "cuda:0"),
    ):
        try:
            telemetry = Telemetry({device: dial}, clock=lambda: made.now, interval_s=3600)
            session = Session(f"cpu,{device}", emulate=emulate, telemetry=telemetry)
        except DeviceUnavailable:
            continue
        made = Stage(session, device, backend, dial)
        return made
    raise DeviceUnavailable("the example takes a Vulkan device, or triton to emulate a CUDA one")


def arm_of(executable: Executable) -> int | None:
    """Returns the arm that the program takes now."""
    return executable.report().branches[0].arm


def main(trace: str | None = None) -> int:
    """
    Runs the program through three disturbances; the exit code is 1 if anything is off.

    `trace` is a file for what the calls do, which ui.perfetto.dev opens.
    """
    on = stage()
    text = PROGRAM.format(device=on.device, backend=on.backend)
    executable = on.session.compile(text, optimize=False)
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    (want,) = evaluate(load_program(text), x)
    arms: list[int | None] = []

    def calls(what: str) -> None:
        for _ in range(3):
            on.session.telemetry.poll()
        for _ in range(3):
            np.testing.assert_allclose(np.asarray(executable(x)[0]), want, rtol=1e-5, atol=1e-6)
            arms.append(arm_of(executable))
        print(f"{what}: arm {arms[-1]}")

    with nullcontext() if trace is None else executable.trace(trace):
        calls(f"on {on.device}")
        for what, signals in (("full", {"free_bytes": 16}), ("busy", {"load": 0.9})):
            on.dial.set(**signals)
            calls(f"{on.device} is {what}")
            on.dial.set(**ROOMY)
            calls(f"{on.device} is free again")
        on.break_once()
        calls(f"{on.device} fails")
        on.now += 100
        calls(f"{on.device} is tried again")
    print(executable.report())
    changes = [(c.before, c.arm) for c in executable.report().history[1:]]
    is_right = changes == [(0, 1), (1, 0)] * 3 and len(executable.report().faults) == 1
    print("moved and came back once each" if is_right else f"unexpected changes: {changes}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
