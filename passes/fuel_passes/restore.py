# SPDX-License-Identifier: MIT OR Apache-2.0
"""Modules that an error leaves as they were."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xdsl.dialects.builtin import ModuleOp


@contextmanager
def all_or_nothing(module: ModuleOp) -> Generator[None]:
    """Brings a module back to what it was before, where what is done to it ends in an error."""
    before = module.clone()
    try:
        yield
    except BaseException:
        module.attributes = dict(before.attributes)
        module.properties = dict(before.properties)
        module.detach_region(module.body)
        module.add_region(before.detach_region(before.body))
        raise
