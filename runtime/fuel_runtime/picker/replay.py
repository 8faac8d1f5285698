# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads routes that were recorded, to take them again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from fuel_dialect.errors import DecisionError
from fuel_passes.strict_json import checked, decode
from fuel_runtime.picker.decision import Decision

Count = Annotated[int, Meta(ge=0)]


class RecordedRoute(Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the arms of a route, and the decisions of the program that it was recorded of."""

    entry: str
    decisions: Mapping[str, Count]
    """The number of arms of each decision."""
    arms: Mapping[str, Count]

    @staticmethod
    def of(given: object) -> RecordedRoute:
        """Returns a route from `Executable.route()` or a JSON file. Raises `DecisionError`."""
        if not isinstance(given, str | os.PathLike):
            return checked(given, RecordedRoute, "replay", DecisionError)
        where = f"replay: {os.fspath(given)}"
        try:
            text = Path(given).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DecisionError(f"{where} cannot be read: {error}") from error
        return decode(text, RecordedRoute, where, DecisionError)

    def check(self, entry: str, decisions: Iterable[Decision]) -> None:
        """Raise `DecisionError` for a program with another entry or other decisions."""
        have = {decision.path: len(decision.arms) for decision in decisions}
        if entry != self.entry or have != dict(self.decisions):
            raise DecisionError(
                f"replay: the route is of another program: {self.entry} with "
                f"{_said(self.decisions)}; this is {entry} with {_said(have)}"
            )


def _said(decisions: Mapping[str, int]) -> str:
    return ", ".join(f"{path} ({count} arms)" for path, count in decisions.items()) or "none"
