# SPDX-License-Identifier: MIT OR Apache-2.0
"""Errors of passes that are about one op."""

from __future__ import annotations

from typing import NoReturn

from xdsl.ir import Operation

from fuel_dialect.errors import FuelPassError


def fail(op: Operation, message: str, kind: type[FuelPassError] = FuelPassError) -> NoReturn:
    """Raise a `kind` with a sentence; its note is the IR with the op marked."""
    op.emit_error(message, kind(message))
