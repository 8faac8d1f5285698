# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reads JSON into typed values, with errors that say the place and what would be right.

msgspec checks types and bounds. `json` reads the text, because it can refuse a key that is there
twice. msgspec takes milliseconds to import: modules that every program needs import this one inside
functions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from reprlib import Repr
from typing import Any, TypeVar, cast

from msgspec import ValidationError, convert, inspect

from fuel_dialect.errors import FuelError, FuelPassError

_T = TypeVar("_T")

MOST = 2**63 - 1
"""The largest integer that msgspec can name as a bound."""

_SAID = re.compile(r"(.*?)(, got `[^`]*`)?( - at `\$([^`]*)`)?", re.DOTALL)
"""An error of msgspec: what is wrong, the type that it got, and the place."""

_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
"""A step of such a place: a field, the index of an item, or `[...]` for a key of a mapping."""

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def decode(text: str, kind: type[_T], where: str, error: type[FuelError] = FuelPassError) -> _T:
    """Returns a JSON text as a value of a type. Raises `error` with place and cure."""
    return checked(load(text, where, error), kind, where, error)


def load(text: str, where: str, error: type[FuelError] = FuelPassError) -> object:
    """Returns what a JSON text holds. Raises `error` for a text that is no JSON."""
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=_constant)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except ValueError as found:
        raise error(f"{where} is not JSON: {found}") from found
    except RecursionError:
        raise error(f"{where} is nested too deeply to be read") from None
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object whose keys differ. Raises `ValueError` for one that has a key twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return found


def _constant(name: str) -> float:
    """Raises `ValueError` for NaN and infinities, which JSON has no numbers for."""
    raise ValueError(f"{name} is no number of JSON")


def checked(
    value: object, kind: type[_T], where: str, error: type[FuelError] = FuelPassError
) -> _T:
    """Returns loaded JSON as a value of a type. Raises `error` with place and cure."""
    try:
        return convert(value, kind)
    except ValidationError as found:
        raise error(where + _sentence(value, kind, str(found))) from None


def _sentence(value: object, kind: type, said: str) -> str:
    """Returns the place of an error of msgspec, what is wrong there, and what would be right."""
    match = _SAID.fullmatch(said)
    assert match is not None
    wrong, path = match[1], match[4] or ""
    whole: Any = _copy(value)
    here, info, place = whole, inspect.type_info(kind), ""
    for name, index in _STEP.findall(path):
        key = _culprit(here, whole, kind, said) if index == "..." else name or int(index)
        here[key] = _copy(here[key])
        here, info = here[key], _inner(info, name, key)
        place += f".{name}" if name else f"[{key!r}]"
    got = f", got {_SHORT.repr(here)}" if wrong.startswith(("Expected", "Number")) else ""
    return f"{place}: {wrong[0].lower()}{wrong[1:]}{got}{_cure(info)}"


def _copy(value: object) -> object:
    """Returns a value that may be changed, without what is in it."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    return list(cast("list[object]", value)) if isinstance(value, list) else value


def _culprit(here: dict[str, Any], value: object, kind: type, said: str) -> str:
    """Returns the key of the first value that is wrong alone; leaves the others out of `here`."""
    found = ""
    for found, inner in list(here.items()):
        here.clear()
        here[found] = inner
        try:
            convert(value, kind)
        except ValidationError as error:
            if str(error) == said:
                break
    return found


def _inner(info: inspect.Type, name: str, key: Any) -> Any:
    """Returns the type of a field, or that of the items of a collection if it has no name."""
    own: Any = info.type if isinstance(info, inspect.Metadata) else info
    is_mapping, is_fixed = isinstance(own, inspect.DictType), isinstance(own, inspect.TupleType)
    if name:
        return next(field.type for field in own.fields if field.encode_name == name)
    if is_fixed:
        return own.item_types[key]
    return own.value_type if is_mapping else own.item_type


def _cure(info: Any) -> str:
    """Returns what a value of a type may be, where msgspec does not say it."""
    if isinstance(info, inspect.StructType):
        needed = ", ".join(field.encode_name for field in info.fields if field.required)
        others = ", ".join(field.encode_name for field in info.fields if not field.required)
        return f"; it needs {needed or 'none'}" + f" and may have {others}" * bool(others)
    if isinstance(info, inspect.LiteralType):
        return f"; it is one of {', '.join(map(str, info.values))}"
    known: Any = getattr(info, "extra_json_schema", None)  # of a type with a description
    return f"; {known['description']}" if known else ""
