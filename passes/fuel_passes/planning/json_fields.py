# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reading JSON field by field, with errors that say the place and what would be right."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.errors import FuelPassError, UnknownDevice

Json = dict[str, Any]
_T = TypeVar("_T")

LEAST, MOST = 1e-100, 1e100
"""Rates beyond them are no machine's, and a price by them would be infinite."""


def load(text: str, where: str) -> object:
    """Returns what a JSON text holds. Raises `FuelPassError` for a text that is no JSON."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except ValueError as error:
        raise FuelPassError(f"{where} is not JSON: {error}") from error
    except RecursionError:
        raise FuelPassError(f"{where} is nested too deeply to be read") from None


def _object(pairs: list[tuple[str, Any]]) -> Json:
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


def device_name(name: str, where: str) -> str:
    """The name of a device, written as labels are. Raises `FuelPassError` for any other."""
    try:
        label = DeviceAttr.of(name).label
    except UnknownDevice as error:
        raise FuelPassError(f"{where}: {error}") from error
    if label != name:
        raise FuelPassError(f"{where}: write {label} for the device {name!r}")
    return name


def target(value: object, where: str) -> TargetAttr:
    """A target, of text such as cuda:0/triton. Raises `FuelPassError` for anything else."""
    device, slash, backend = value.rpartition("/") if isinstance(value, str) else ("", "", "")
    if not slash or not backend:
        raise FuelPassError(f"{where} must be device/backend, such as cuda:0/triton, got {value!r}")
    return TargetAttr.of(device_name(device, where), backend)


def positive(value: object, where: str) -> float:
    """A number above 0 that a size can be divided by. Raises `FuelPassError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise FuelPassError(f"{where} must be a number above 0, got {value!r}")
    if not LEAST <= value <= MOST:
        raise FuelPassError(f"{where} must be from {LEAST} to {MOST}, got {value!r}")
    return float(value)


class Fields:
    """A JSON object that is read field by field, with errors that say where it stands."""

    def __init__(self, value: object, where: str, schema: Mapping[str, Any]):
        known, needed = list(schema["properties"]), cast("list[str]", schema["required"])
        if not isinstance(value, dict):
            raise FuelPassError(f"{where} must be an object with {', '.join(known)}, got {value!r}")
        self.given, self.where = cast(Json, value), where
        for name in needed:
            if name not in self.given:
                raise FuelPassError(f"{where} lacks {name!r}; it needs {', '.join(needed)}")
        for name in self.given:
            if name not in known:
                raise FuelPassError(
                    f"{where} has no field {name!r}; it may have {', '.join(known)}"
                )

    def text(self, name: str, default: str | None = None) -> str:
        """A text; with a default, one that may be left out."""
        if default is not None and name not in self.given:
            return default
        value = self.given[name]
        if not isinstance(value, str) or not value:
            raise FuelPassError(f"{self.where}.{name} must be a text, got {value!r}")
        return value

    def whole(self, name: str) -> int:
        value = self.given[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise FuelPassError(
                f"{self.where}.{name} must be a whole number, 0 or more, got {value!r}"
            )
        return value

    def positive(self, name: str) -> float:
        return positive(self.given[name], f"{self.where}.{name}")

    def items(self, name: str, read: Callable[[object, str], _T]) -> tuple[_T, ...]:
        values = self.given[name]
        if not isinstance(values, list):
            raise FuelPassError(f"{self.where}.{name} must be a list, got {values!r}")
        listed = enumerate(cast("list[object]", values))
        return tuple(read(value, f"{self.where}.{name}[{index}]") for index, value in listed)

    def named(self, name: str, read: Callable[[str, object, str], _T]) -> tuple[_T, ...]:
        values = self.given.get(name, {})
        if not isinstance(values, dict):
            raise FuelPassError(f"{self.where}.{name} must be an object, got {values!r}")
        pairs = cast("dict[str, object]", values).items()
        return tuple(read(key, value, f"{self.where}.{name}[{key!r}]") for key, value in pairs)
