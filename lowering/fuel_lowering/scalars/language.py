# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines the interface of a language: the text of primitives, literals and statements."""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Language(abc.ABC):
    """Writes scalar code as text of a target."""

    PRIMITIVES: Mapping[str, str]
    """
    A format of the operands for each primitive; "add.i32" is used before "add" where the first
    operand is in an i32 register.
    """
    HELPERS: Mapping[str, str] = {}
    """Definitions of the functions that formats call, by name."""

    @abc.abstractmethod
    def literal(self, value: np.ndarray[Any, Any], register: str) -> str:
        """Returns the text of a constant: a rank-0 array, NaN and infinities included."""

    @abc.abstractmethod
    def let(self, name: str, register: str, text: str) -> str:
        """Returns the statement that gives a value a name."""

    def write(self, primitive: str, register: str, operands: Sequence[str]) -> str:
        """Returns the text of one primitive."""
        own = f"{primitive}.{register}"
        template = self.PRIMITIVES.get(own) or self.PRIMITIVES[primitive]
        return template.format(*operands)

    def helpers(self, source: str) -> list[str]:
        """Returns the definitions of all helpers that a text calls, each after those it calls."""
        found: dict[str, None] = {}

        def visit(text: str) -> None:
            for name in re.findall(r"\w+", text):
                if name in self.HELPERS and name not in found:
                    visit(re.sub(rf"\b{name}\b", "", self.HELPERS[name]))
                    found[name] = None

        visit(source)
        return [self.HELPERS[name] for name in found]
