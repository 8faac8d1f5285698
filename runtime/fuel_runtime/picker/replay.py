# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads routes that were recorded, to take them again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fuel_dialect.errors import DecisionError
from fuel_runtime.picker.decision import Decision


@dataclass(frozen=True)
class RecordedRoute:
    """Holds the arms of a route, and the decisions of the program that it was recorded of."""

    entry: str
    decisions: Mapping[str, int]
    """The number of arms of each decision."""
    arms: Mapping[str, int]

    @staticmethod
    def of(given: object) -> RecordedRoute:
        """Returns a route from `Executable.route()` or a JSON file. Raises `DecisionError`."""
        if isinstance(given, str | os.PathLike):
            return RecordedRoute._read(os.fspath(given))
        return RecordedRoute._parsed(given, "replay")

    @staticmethod
    def _read(file: str) -> RecordedRoute:
        try:
            value = json.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DecisionError(f"replay: {file} cannot be read: {error}") from error
        return RecordedRoute._parsed(value, f"replay: {file}")

    @staticmethod
    def _parsed(value: object, where: str) -> RecordedRoute:
        fields = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
        entry, decisions, arms = (fields.get(n) for n in ("entry", "decisions", "arms"))
        if not isinstance(entry, str) or not _is_counts(decisions) or not _is_counts(arms):
            raise DecisionError(
                f"{where} is no route: it has an entry, decisions with the number of their arms, "
                "and arms"
            )
        return RecordedRoute(entry, dict(decisions or {}), dict(arms or {}))

    def check(self, entry: str, decisions: Iterable[Decision]) -> None:
        """Raise `DecisionError` for a program with another entry or other decisions."""
        have = {decision.path: len(decision.arms) for decision in decisions}
        if entry != self.entry or have != dict(self.decisions):
            raise DecisionError(
                f"replay: the route is of another program: {self.entry} with "
                f"{_said(self.decisions)}; this is {entry} with {_said(have)}"
            )


def _is_counts(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    items = cast("Mapping[object, object]", value).items()
    return all(
        isinstance(name, str) and isinstance(n, int) and not isinstance(n, bool) and n >= 0
        for name, n in items
    )


def _said(decisions: Mapping[str, int]) -> str:
    return ", ".join(f"{path} ({count} arms)" for path, count in decisions.items()) or "none"
