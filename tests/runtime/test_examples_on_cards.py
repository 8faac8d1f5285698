# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Examples on a CUDA card of the stand-in for CuPy: all of the driver but the card.

These have products, a scan and state; the others take the interpreter longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from make_weights import EXAMPLES, weights_of

from effort import slow_but
from fake_cards import FakeCard, fake_cards
from fake_cupy import FakeCupy
from fuel_dialect import knobs
from fuel_dialect.context import parse_module
from fuel_runtime import Executable, Session

NAMES = ["mlp", "selective_scan", "kv_cache"]
CALLS = 2

Array = np.ndarray


@pytest.fixture(autouse=True)
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(knobs.CACHE_DIR, str(tmp_path))
    yield
    for card in list(FakeCard.made):
        card.close()


def results(exe: Executable) -> list[Array]:
    """Returns what some calls with the same arguments give, and the state that they leave."""
    rng = np.random.default_rng(0)
    ports = exe.signature.inputs
    inputs = [rng.standard_normal(port.shape).astype(port.numpy) for port in ports]
    if not exe.signature.members:
        return [array for _ in range(CALLS) for array in exe(*inputs)]
    state = exe.new_state()
    found = [array for _ in range(CALLS) for array in exe(*inputs, state=state)]
    return [*found, *state.numpy().values()]


@pytest.mark.parametrize("name", slow_but(NAMES, NAMES[:1]))
def test_an_example_on_a_card(name: str) -> None:
    module = parse_module((EXAMPLES / f"{name}.mlir").read_text())
    weights = weights_of(module)
    cupy = FakeCupy(1 << 28)
    devices = fake_cards(cupy, 0)
    alone = replace(devices, present=devices.takers)
    exe = Session(alone).compile(module, weights=weights)
    wanted = results(Session("cpu").compile(module, weights=weights))
    for got, want in zip(results(exe), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert len(cupy.calls("replay")) == CALLS * exe.report().runs_on_route
