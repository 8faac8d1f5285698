# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of topologies and measurements with any JSON in any place: right, or one typed error."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fuel_dialect.errors import FuelPassError
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.planning import measurements_schema, topology_json, topology_schema
from fuel_passes.planning.topology import validated

MEASURED = {
    "measurements": [
        {
            "ops": ["matmul"],
            "dtypes": ["f32", "f32", "f32"],
            "shape_class": [7, 7, 7],
            "target": "cpu/numpy",
            "revision": "tiles-1",
            "hardware": "Chip",
            "ns": 100,
        }
    ]
}
READERS: dict[str, tuple[Any, Callable[[str], object]]] = {
    "measurements": (MEASURED, lambda text: measurements_schema.parse(text, "f.json")),
    "topology": (
        json.loads(topology_json.dump(PRESETS["cpu+h100"])),
        lambda text: validated(topology_schema.parse(text, "f.json")),
    ),
}
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    "",
    "nothing",
    [],
    [[]],
    [{}],
    {},
    {"f32": []},
    {"": {}},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every value of a document."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Returns a document with another value in one place."""
    if not path:
        return value
    changed = copy.deepcopy(document)
    around = changed
    for step in path[:-1]:
        around = around[step]
    around[path[-1]] = value
    return changed


def failure(read: Callable[[str], object], text: str) -> str | None:
    """Returns the sentence of the typed error of a text; None for a text that is right."""
    try:
        read(text)
    except FuelPassError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", READERS)
def test_any_value_in_any_place(name: str) -> None:
    document, read = READERS[name]
    for path in places(document):
        for value in VALUES:
            said = failure(read, json.dumps(with_value(document, path, value)))
            assert said is None or said.startswith(("f.json", "topology")), (path, value, said)
            assert said is None or "\n" not in said, (path, value, said)


TEXTS = {
    "an integer that is too long": ("9" * 5000, "is not JSON: "),
    "a key twice": ('{"measurements": [], "measurements": []}', "has the key 'measurements' twice"),
    "NaN": ('{"measurements": [NaN]}', "NaN is no number of JSON"),
    "an infinity": ('{"measurements": [-Infinity]}', "-Infinity is no number of JSON"),
    "nesting": ("[" * 200_000 + "]" * 200_000, "nested too deeply"),
    "nesting that can be read": ('{"measurements": ' + "[" * 900 + "]" * 900 + "}", ""),
    "half a document": ('{"measurements": [', "is not JSON: "),
    "a lone surrogate in a key": ('{"\\ud800": 1}', "is not JSON: .*surrogates not allowed"),
    "a lone surrogate in a text": ('{"name": "\\ud800"}', "is not JSON: .*surrogates not allowed"),
    "nothing": ("", "is not JSON: "),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("text", "message"), TEXTS.values(), ids=TEXTS)
def test_texts_that_are_no_document(name: str, text: str, message: str) -> None:
    with pytest.raises(FuelPassError, match=r"f\.json.*" + message):
        READERS[name][1](text)


@pytest.mark.parametrize("dtype", [["f32"], {"f32": 1}, None, 3, True])
def test_a_dtype_of_any_kind_is_named(dtype: object) -> None:
    text = json.dumps(with_value(MEASURED, ("measurements", 0, "dtypes", 1), dtype))
    with pytest.raises(FuelPassError, match=r"\.dtypes\[1\]: expected `str`, got .*such as f32"):
        measurements_schema.parse(text, "f.json")
