# SPDX-License-Identifier: MIT OR Apache-2.0
"""The xDSL plugin: its names resolve, clash with nothing, and cost other tools next to nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.target import Target

from fuel_dialect.targets import own_names
from fuel_dialect.universe import DIALECTS, FUEL_UNIVERSE, PASSES


def fresh(code: str) -> list[str]:
    """Returns the words that a new interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def loaded_after(statement: str) -> set[str]:
    """Modules that a statement brings into a new interpreter that already has xDSL's universe."""
    return set(
        fresh(
            "import sys, xdsl.universe; before = set(sys.modules)\n"
            f"{statement}\n"
            "print(*set(sys.modules) - before)"
        )
    )


def test_the_entry_point_is_the_universe() -> None:
    (found,) = (e for e in entry_points(group="xdsl.universe") if e.name == "fuel")
    assert found.load() is FUEL_UNIVERSE


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_resolve(name: str) -> None:
    dialect = FUEL_UNIVERSE.all_dialects[name]()
    assert isinstance(dialect, Dialect)
    assert dialect.name == name


@pytest.mark.parametrize("name", PASSES)
def test_passes_resolve(name: str) -> None:
    found = FUEL_UNIVERSE.all_passes[name]()
    assert issubclass(found, ModulePass)
    assert found.name == name
    assert name.startswith("fuel-")
    assert found.__doc__


@pytest.mark.parametrize("name", FUEL_UNIVERSE.all_targets)
def test_targets_resolve(name: str) -> None:
    found = FUEL_UNIVERSE.all_targets[name]()
    assert issubclass(found, Target)
    assert found.name == name
    assert name.startswith("fuel-")
    assert found.__doc__


def test_no_name_clashes_with_another_plugin() -> None:
    everything = Universe.get_multiverse()
    assert set(DIALECTS) <= set(everything.all_dialects)
    assert set(PASSES) <= set(everything.all_passes)
    assert {f"fuel-{name}" for name in own_names()} <= set(everything.all_targets)


def test_the_plugin_imports_three_modules() -> None:
    loaded = {"fuel_dialect", "fuel_dialect.targets", "fuel_dialect.universe"}
    assert loaded_after("import fuel_dialect.universe") == loaded


@pytest.mark.parametrize(
    "statement",
    [
        "import fuel_dialect, fuel_passes, fuel_lowering, fuel_runtime",
        "from fuel_dialect.dialect import Fuel",
    ],
)
def test_numpy_waits_for_its_first_use(statement: str) -> None:
    heavy = {"numpy", "ml_dtypes", "safetensors", "triton", "cupy", "kp"}
    assert loaded_after(statement).isdisjoint(heavy)


def test_importing_fuel_defines_no_op() -> None:
    loaded = loaded_after("import fuel_dialect")
    assert not any(name.startswith("fuel_dialect.ops") for name in loaded)


def test_nobody_looks_for_packages_before_a_program_is_read() -> None:
    loaded = loaded_after("import fuel_passes.pipeline, fuel_dialect.context, fuel_dialect.plugins")
    assert "importlib.metadata" not in loaded
