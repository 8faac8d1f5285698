# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every op of the dialect is in every table that must be total."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from xdsl.ir import Region
from xdsl.irdl import IRDLOperation
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure

from fuel_dialect.dialect import CATEGORIES, OPS, Fuel
from fuel_dialect.errors import FuelError
from fuel_dialect.interpreter.evaluate import REGIONS
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.regions import RegionOp
from fuel_dialect.reference.table import function_of
from fuel_dialect.traits import Elementwise, Leaf, Reduction, RowWise, Transfer, ViewOp

FILECHECK = Path(__file__).parents[2] / "filecheck" / "dialect"
every_op = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)


def test_the_dialect_lists_each_op_once():
    names = [op.name for op in OPS]
    assert len(set(names)) == len(names) == len(list(Fuel.operations))
    assert set(OPS) == set(Fuel.operations)


@every_op
def test_names_are_snake_case_and_follow_from_the_class(op: type[IRDLOperation]):
    assert re.fullmatch(r"fuel(\.[a-z0-9]+(_[a-z0-9]+)*)", op.name)
    words = re.findall(r"[A-Z][a-z0-9]*", op.__name__.removesuffix("Op"))
    assert op.name == "fuel." + "_".join(words).lower()


@every_op
def test_every_op_has_its_own_docstring(op: type[IRDLOperation]):
    assert op.__doc__
    assert op.__doc__.strip().endswith((".", "`."))
    assert all(op.__doc__ != base.__doc__ for base in op.__mro__[1:])


def public_functions(category: str) -> set[str]:
    module = import_module(f"fuel_dialect.reference.{category}")
    functions = [f for f in vars(module).values() if inspect.isfunction(f)]
    return {f.__name__ for f in functions if f.__module__ == module.__name__}


@pytest.mark.parametrize("module", CATEGORIES, ids=lambda module: module.__name__)
def test_each_op_has_one_reference_and_no_other_function_stands_there(module: ModuleType):
    category = module.__name__.rpartition(".")[2]
    ops = {op for op in OPS if op.__module__ == module.__name__ and op not in REGIONS}
    if ops:
        public = {name for name in public_functions(category) if not name.startswith("_")}
        assert public == {op.name.removeprefix("fuel.") for op in ops}


def test_an_op_with_regions_is_no_function_of_arrays():
    regions = {op for op in OPS if op.get_irdl_definition().regions}
    assert set(REGIONS) == regions | {op for op in OPS if op.has_trait(IsTerminator)}
    for op in regions:
        empty = [Region() for _ in op.get_irdl_definition().regions]
        with pytest.raises(FuelError, match="has no reference"):
            function_of(op.create(regions=empty))


@every_op
def test_every_op_has_a_round_trip(op: type[IRDLOperation]):
    texts = [path.read_text() for path in FILECHECK.glob("*_ops.mlir")]
    line = re.compile(rf"^// CHECK(-NEXT)?:.*\b{re.escape(op.name)}\b", re.MULTILINE)
    assert any(line.search(text) for text in texts)


@every_op
def test_every_op_is_pure_so_that_stock_passes_are_right_about_it(op: type[IRDLOperation]):
    assert op.has_trait(Pure)


@every_op
def test_classes_of_ops_exclude_one_another(op: type[IRDLOperation]):
    traits = (Elementwise, RowWise, Reduction, Leaf, Transfer)
    classes = [trait for trait in traits if op.has_trait(trait)]
    classes += [kind for kind in (ViewOp, RegionOp) if issubclass(op, kind)]
    assert len(classes) <= 1


@every_op
def test_ops_with_regions_are_isolated(op: type[IRDLOperation]):
    regions = op.get_irdl_definition().regions
    assert bool(regions) == op.has_trait(IsolatedFromAbove) == issubclass(op, RegionOp)
    assert not (regions and op.has_trait(IsTerminator))


@every_op
def test_every_op_but_a_terminator_can_be_pinned(op: type[IRDLOperation]):
    if not op.has_trait(IsTerminator):
        assert issubclass(op, FuelOp)
        assert "placement" in op.get_irdl_definition().properties


def test_every_category_has_ops():
    modules = {op.__module__ for op in OPS}
    assert modules == {module.__name__ for module in CATEGORIES}
