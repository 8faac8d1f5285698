# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds what was generated for a program, and what it was generated from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuel_runtime.call.report import Report
    from fuel_runtime.call.signature import Array, Signature
    from fuel_runtime.compile.parts import Parts
    from fuel_runtime.compile.transfer_functions import TransferFunctions


@dataclass(frozen=True)
class Code:
    """Holds what was generated for a program, and what it was generated from."""

    report: Report
    """The report as it is before the first call."""
    parts: Parts
    transfers: TransferFunctions
    weights: Mapping[str, Array]
    generation: str
    """That of the topology that the program was planned for; empty if it was not planned."""
    bounds: Mapping[str, Any]
    """The options of the session that say which kernels may be used at all."""
    constants: Collection[str] = ()
    """The weights that were prepared of constants alone, and are the same for all weights."""

    @property
    def signature(self) -> Signature:
        """The inputs, outputs and state of a call."""
        return self.parts.signature
