# SPDX-License-Identifier: MIT OR Apache-2.0
"""The xDSL plugin. Every `xdsl-opt` imports this module, so it imports nothing else of its own."""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.universe import Universe
from xdsl.utils.target import Target


def _acme() -> Dialect:
    from acme_fuel.ops import Acme

    return Acme


def _loops() -> type[Target]:
    from acme_fuel.loops import LoopsTarget

    return LoopsTarget


def _reference() -> type[Target]:
    from acme_fuel.reference_target import ReferenceTarget

    return ReferenceTarget


ACME_UNIVERSE = Universe(
    all_dialects={"acme": _acme},
    all_targets={"acme-loops": _loops, "acme-reference": _reference},
)
