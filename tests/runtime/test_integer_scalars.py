# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scalars of integer tensors past 2^53, compiled for each target that computes i64."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import fuel_dialect as fuel
from fuel_runtime import Session

N = 2**53 + 1


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("optimize", [True, False])
def test_every_bit_of_a_scalar_counts(device: str, optimize: bool) -> None:
    if device == "cpu":
        session = Session(devices="cpu")
    else:
        session = Session(devices="cpu,cuda:0", emulate="cuda:0")
    g = fuel.Graph()
    x = g.input((5,), "i64", name="x")
    with fuel.device(device) if device != "cpu" else nullcontext():
        results = [x.clamp(-N, N), x + N, x * N, x.clip(min=-(2**63)), x.powi(1)]
    exe = session.compile(g.build(results), optimize=optimize)
    values = np.array([2**60, -(2**60), N, -1, 0])
    clamped, added, multiplied, kept, power = (np.asarray(r) for r in exe(values))
    assert clamped.tolist() == [N, -N, N, -1, 0]
    assert added.tolist() == [2**60 + N, N - 2**60, 2 * N, N - 1, N]
    wrapped = [(v * N + 2**63) % 2**64 - 2**63 for v in values.tolist()]
    assert multiplied.tolist() == wrapped
    assert kept.tolist() == power.tolist() == values.tolist()
