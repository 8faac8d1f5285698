# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Tests faults of every kind at every place of a call: nested decisions, two devices and a state.

A call gives what the reference gives or raises one of fuel's errors; memory comes back, and the
state is what a whole call leaves, what it was before, or says that it cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import SLOW, examples, slow_but
from fuel_dialect.errors import (
    DeviceFailure,
    DeviceTimeout,
    DeviceUnavailable,
    FuelError,
    LoweringError,
    OutOfMemory,
    StateError,
)
from fuel_runtime import Executable
from live_programs import CPU, CUDA, VULKAN, Lab, X, lent

T = "tensor<256xf32>"


def _arm(target: str, body: str, result: str) -> str:
    return f"  arm on {target} {{\n{body}    fuel.yield {result} : {T}\n  }}\n"


def _on(device: str, value: str, name: str) -> str:
    """A value on a device, squared there."""
    return (
        f"    %{name}c = fuel.copy {value} to #fuel.device<{device}> : {T}\n"
        f"    %{name} = fuel.sqr %{name}c : {T}\n"
    )


def _inner(name: str, value: str, first: tuple[str, str], second: tuple[str, str]) -> str:
    """A decision inside an arm, between two devices."""
    arms = "".join(
        _arm(target, _on(device, f"%{name}a", f"{name}{n}"), f"%{name}{n}")
        for n, (target, device) in enumerate((first, second))
    )
    return f'    %{name} = fuel.branch "{name}"(%{name}a = {value} : {T}) -> {T}\n{arms}'


ON_CUDA, ON_VULKAN, ON_CPU = (CUDA, "cuda:0"), (VULKAN, "vulkan:0"), (CPU, "cpu")

NESTED = (
    f'func.func @main(%s: {T} {{fuel.donated, fuel.name = "s", fuel.device = #fuel.device<HOME>}}, '
    f"%x: {T}) -> ({T} {{fuel.aliases = 0 : i64, fuel.device = #fuel.device<HOME>}}, {T}) {{\n"
    f"  %h = fuel.neg %x : {T}\n"
    f'  %y = fuel.branch "d0"(%a = %h : {T}) -> {T}\n'
    + _arm(CUDA, _on("cuda:0", "%a", "b") + _inner("d1", "%b", ON_CUDA, ON_VULKAN), "%d1")
    + _arm(VULKAN, _on("vulkan:0", "%a", "c") + _inner("d2", "%c", ON_VULKAN, ON_CPU), "%d2")
    + _arm(CPU, f"    %e = fuel.sqr %a : {T}\n    %f = fuel.sqr %e : {T}\n", "%f")
    + f"  %m = fuel.move %y to #fuel.device<HOME> : {T}\n"
    f"  %n = fuel.add %s, %m : {T}\n"
    f"  %l = fuel.copy %n to #fuel.device<cpu> : {T}\n"
    f"  %z = fuel.cos %l : {T}\n"
    f"  func.return %n, %z : {T}, {T}\n}}\n"
)
"""`s + (-x) ** 4` stays on the device HOME; the other result is its cosine."""

KINDS: Mapping[str, type[Exception]] = {
    "memory": OutOfMemory,
    "failure": DeviceFailure,
    "lost": DeviceUnavailable,
    "launch": LoweringError,
    "host": MemoryError,
}
HANG = "hang"
"""The kind of fault after which a device does nothing until it is released."""

WITHIN_S = 0.02

PLACES = ("allocate", "write", "read", "copy", "zero", "record", "replay", "synchronise", "load")
DEVICES = ("cuda:0", "vulkan:0")


@dataclass(frozen=True)
class At:
    """A fault: the device, the function of its driver, the number of the call, and the error."""

    device: str
    place: str
    call: int
    kind: str


class Saboteur:
    """Counts the calls of the drivers of a lab, and lets some of them fail."""

    def __init__(self, lab: Lab, faults: Sequence[At] = ()) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.raised = 0
        self.is_away = False
        self._faults = {(f.device, f.place, f.call): f for f in faults}
        self._drivers = {name: lab.driver(name) for name in DEVICES}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for name, driver in self._drivers.items():
            for place in PLACES:
                setattr(driver, place, self._watched(name, place, getattr(driver, place)))
        try:
            yield
        finally:
            for driver in self._drivers.values():
                for place in PLACES:
                    delattr(driver, place)

    def _watched(self, device: str, place: str, inner: Any) -> Any:
        def call(*given: Any) -> Any:
            if self.is_away:
                return inner(*given)
            count = self.counts[device, place] = self.counts.get((device, place), 0) + 1
            fault = self._faults.get((device, place, count))
            if fault is not None:
                self.raised += 1
            if fault is not None and fault.kind == HANG:
                self._drivers[device].work.hang()
            elif fault is not None:
                raise KINDS[fault.kind](f"{device}: {place} number {count} fails")
            return inner(*given)

        return call


class Subject:
    """A program with a state, beside what they have to be."""

    def __init__(
        self, home: str, answer_within: float | None = None, faults: Sequence[At] = ()
    ) -> None:
        self.lab = Lab("cpu,cuda:0,vulkan:0")
        self.saboteur = Saboteur(self.lab, faults)
        program = NESTED.replace("HOME", home)
        self.exe: Executable = self.lab.compile(program, answer_within=answer_within)
        self.state = self.exe.new_state()
        self.total = np.zeros_like(X)
        self.lab.poll()

    def call(self) -> None:
        """Call the program: right, or one of fuel's errors, and the state is as it says."""
        try:
            (got,) = self.exe(X, state=self.state)
        except FuelError:
            self.saboteur.is_away = True
            try:
                self.check_state()
            except DeviceTimeout:  # the state is on a device that hangs
                self.recover()
                self.check_state()
            finally:
                self.saboteur.is_away = False
            return
        self.total = self.total + np.square(np.square(-X))
        np.testing.assert_allclose(got, np.cos(self.total), rtol=1e-4, atol=1e-5)

    def check_state(self) -> None:
        """Check that the state is as it was; make another if it says that it cannot be used."""
        if self.state.is_valid:
            np.testing.assert_allclose(np.asarray(self.state["s"]), self.total, rtol=1e-5)
            return
        with pytest.raises(StateError):
            self.exe(X, state=self.state)
        self.state = self.exe.new_state()
        self.total = np.zeros_like(X)

    def recover(self) -> None:
        """Lets what hangs go on, and what was suspended be tried again."""
        for name in DEVICES:
            work = self.lab.driver(name).work
            work.release()
            work.mark().wait()
        self.lab.now += 10_000
        self.lab.poll()


def counted(home: str, settled: bool) -> dict[tuple[str, str], int]:
    subject = Subject(home)
    if settled:
        subject.call()
        subject.call()
    with subject.saboteur.at_work():
        subject.call()
    return subject.saboteur.counts


def survives(home: str, settled: bool, faults: Sequence[At]) -> int:
    """Check a call with faults and those after it; how many faults there were."""
    hangs = any(fault.kind == HANG for fault in faults)
    subject = Subject(home, WITHIN_S if hangs else None, faults)
    if settled:
        subject.call()
        subject.call()
    saboteur = subject.saboteur
    with saboteur.at_work():
        subject.call()
        subject.call()
    subject.recover()
    for _ in range(3):
        subject.call()
    lab = subject.lab
    subject.exe.report()
    del subject
    assert lent(lab) == 0
    return saboteur.raised


@pytest.mark.parametrize("home", slow_but(["cpu", "cuda:0"], {"cuda:0"}))
@pytest.mark.parametrize("settled", slow_but([False, True], {True}))
@pytest.mark.parametrize("kind", slow_but([*KINDS, HANG], {"failure", HANG}))
def test_one_fault_anywhere(home: str, settled: bool, kind: str) -> None:
    counts = counted(home, settled)
    assert counts["cuda:0", "replay"] >= 1
    for (device, place), calls in counts.items():
        for call in range(1, calls + 1):
            assert survives(home, settled, [At(device, place, call, kind)]) >= 1


FAULTS = st.builds(
    At,
    st.sampled_from(DEVICES),
    st.sampled_from(PLACES),
    st.integers(1, 8),
    st.sampled_from([*KINDS, HANG]),
)


@SLOW
@examples(60)
@given(st.sampled_from(["cpu", *DEVICES]), st.booleans(), st.lists(FAULTS, max_size=12))
def test_any_faults_together(home: str, settled: bool, faults: list[At]) -> None:
    survives(home, settled, faults)
