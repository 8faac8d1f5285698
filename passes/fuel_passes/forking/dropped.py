# SPDX-License-Identifier: MIT OR Apache-2.0
"""Notes on a function the arms that its plan left out to stay small."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

DROPPED = "fuel.dropped"
"""The attribute of a function that lists arms of decisions, and why they are gone."""


def note_dropped(function: FuncOp, sentences: Iterable[str]) -> None:
    """Add sentences to those of a function."""
    said = [*dropped(function), *sentences]
    if said:
        function.attributes[DROPPED] = ArrayAttr(map(StringAttr, said))


def dropped(function: FuncOp) -> tuple[str, ...]:
    """The sentences that are noted on a function."""
    noted = function.attributes.get(DROPPED)
    if not isinstance(noted, ArrayAttr):
        return ()
    listed = cast("ArrayAttr[Attribute]", noted)
    return tuple(said.data for said in listed if isinstance(said, StringAttr))


def forget_dropped(function: FuncOp) -> None:
    """Take what is noted off a function."""
    function.attributes.pop(DROPPED, None)
