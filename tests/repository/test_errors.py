# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every error class of every layer: it can be pickled and copied, and comes back equal."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import fuel_dialect
from fuel_dialect import dtypes
from fuel_dialect.errors import DTypeError, FuelError

LAYERS = ("fuel_dialect", "fuel_passes", "fuel_explain", "fuel_lowering", "fuel_runtime")


def import_every_module() -> None:
    for layer in LAYERS:
        package = importlib.import_module(layer)
        for module in pkgutil.walk_packages(package.__path__, f"{layer}."):
            importlib.import_module(module.name)


def classes(base: type[FuelError] = FuelError) -> Iterator[type[FuelError]]:
    yield base
    for kind in base.__subclasses__():
        yield from classes(kind)


import_every_module()
EVERY = sorted({k for k in classes() if k.__module__.partition(".")[0] in LAYERS}, key=repr)


def made(kind: type[FuelError]) -> FuelError:
    """An error of a class, with attributes and a note of its own."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    named = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    given: list[Any] = [("f32", "f64") if "Sequence" in str(p.annotation) else "add" for p in named]
    error = kind(*(given or ["a sentence", 7]))
    error.extra = ("what", {"a": 1})  # pyright: ignore[reportAttributeAccessIssue]
    error.add_note("a note")
    return error


def pickled(error: FuelError) -> FuelError:
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize("again", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_equal(
    kind: type[FuelError], again: Callable[[FuelError], FuelError]
) -> None:
    error = made(kind)
    back = again(error)
    assert type(back) is kind
    assert (back.args, str(back), vars(back)) == (error.args, str(error), vars(error))


def test_all_public_errors_are_among_them() -> None:
    public = {getattr(fuel_dialect, name) for name in fuel_dialect.__all__}
    errors = {k for k in public if isinstance(k, type) and issubclass(k, FuelError)}
    assert errors <= set(EVERY)
    assert len(errors) > 20


def test_a_pool_of_processes_sends_an_error_home() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        home = pool.submit(dtypes.of, "f31")
        with pytest.raises(DTypeError, match="fuel has no dtype f31"):
            home.result()
